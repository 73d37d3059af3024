//! More room for recursion.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many calls may be inside of each other beyond the program's limit: more than in any function that puts something back.
const MORE: c_int = 200;

struct Rooms {
    count: usize,
    /// The limit of the program.
    limit: c_int,
}

static ROOMS: Mutex<Rooms> = Mutex::new(Rooms { count: 0, limit: 0 });

fn rooms(py: Python<'_>) -> MutexGuard<'static, Rooms> {
    ROOMS.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
}

/// More room than the program's limit of recursion leaves, until it is dropped. The limit is that of all threads.
pub(super) struct Room<'py>(Python<'py>);

impl<'py> Room<'py> {
    pub(super) fn make(py: Python<'py>) -> Self {
        let mut rooms = rooms(py);
        if rooms.count == 0 {
            // SAFETY: the thread is attached.
            unsafe {
                rooms.limit = ffi::Py_GetRecursionLimit();
                ffi::Py_SetRecursionLimit(rooms.limit.saturating_add(MORE));
            }
        }
        rooms.count += 1;
        Self(py)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut rooms = rooms(self.0);
        rooms.count -= 1;
        // The program may have set another limit meanwhile.
        // SAFETY: the thread is attached, as it was when this was made.
        if rooms.count == 0 && unsafe { ffi::Py_GetRecursionLimit() } == rooms.limit.saturating_add(MORE) {
            // SAFETY: as above.
            unsafe { ffi::Py_SetRecursionLimit(rooms.limit) };
        }
    }
}
