//! How many calls use an object, and whether it is closed.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set when the object is closed.
const CLOSED: usize = 1;
/// Set when the last one was told so.
const TAKEN: usize = 2;
/// One use. The uses of a process do not overflow this: each is a call that a thread is in.
const USE: usize = 4;

/// The uses of an object that can be closed. Every method is called with the interpreter.
///
/// With a global lock, changes are plain loads and stores: the lock orders them, and is released only between two of them. An
/// interpreter without one needs atomic operations, which cost as much as all else here together.
pub(super) struct Uses(AtomicUsize);

impl Uses {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Counts a use, which has to be ended in any case. False if the object was closed before.
    #[inline(always)]
    pub(super) fn begin(&self, py: Python<'_>) -> bool {
        self.add(py, USE) & CLOSED == 0
    }

    /// Ends a use. True if the object is closed and this was the last one, which then takes the value.
    #[inline(always)]
    pub(super) fn end(&self, py: Python<'_>) -> bool {
        self.add(py, USE.wrapping_neg()) == USE | CLOSED && self.takes()
    }

    /// Closes the object. True if nothing uses it, and the caller takes the value.
    pub(super) fn close(&self, py: Python<'_>) -> bool {
        self.set_closed(py) == 0 && self.takes()
    }

    /// Whether it is open at this moment.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED == 0
    }

    /// Whether the caller is the one who takes the value: a use that began as the object was closed may have come first.
    fn takes(&self) -> bool {
        self.0.compare_exchange(CLOSED, CLOSED | TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Adds, and returns what was there before.
    #[cfg(not(Py_GIL_DISABLED))]
    #[inline(always)]
    fn add(&self, _py: Python<'_>, change: usize) -> usize {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.wrapping_add(change), Ordering::Relaxed);
        before
    }

    #[cfg(Py_GIL_DISABLED)]
    #[inline(always)]
    fn add(&self, _py: Python<'_>, change: usize) -> usize {
        self.0.fetch_add(change, Ordering::AcqRel)
    }

    #[cfg(not(Py_GIL_DISABLED))]
    fn set_closed(&self, _py: Python<'_>) -> usize {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before | CLOSED, Ordering::Relaxed);
        before
    }

    #[cfg(Py_GIL_DISABLED)]
    fn set_closed(&self, _py: Python<'_>) -> usize {
        self.0.fetch_or(CLOSED, Ordering::AcqRel)
    }
}
