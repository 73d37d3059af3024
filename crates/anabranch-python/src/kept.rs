//! Objects of Python that the library keeps.

use crate::{process, threads};
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// What the library keeps for a program. It is dropped where the interpreter is there: at once if the calling thread has it, and else by
/// the thread for that.
///
/// PyO3 by itself would let go of it at the next call of this module, on any thread. Code of the program would run there that may wait
/// for what that thread is about to do, such as to call a host function.
pub(crate) struct Kept<T: Send + 'static>(ManuallyDrop<T>);

impl<T: Send + 'static> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// The value, for a caller that has the interpreter.
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it is taken once: `this` is not dropped, nor used again.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T: Send + 'static> Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: it is taken once, because this is dropped.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        if process::may_have_interpreter() {
            drop(value);
        } else {
            threads::DELETIONS.add(move |_| drop(value));
        }
    }
}
