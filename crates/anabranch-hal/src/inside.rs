//! Whether the calling thread is inside of work that was given to a driver, where no driver may be called.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as inside of work given to a driver (host functions, kernels that are closures, and the drop of
/// either), until it is dropped. Whoever runs such work on a thread of the process enters one.
#[derive(Debug)]
#[must_use]
pub struct InsideWork {
    before: bool,
    not_send: PhantomData<*const ()>,
}

impl InsideWork {
    /// Marks the thread.
    #[inline]
    pub fn enter() -> Self {
        // A thread that is ending has no mark any more; nothing is called back from there.
        let before = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
        Self { before, not_send: PhantomData }
    }

    /// Whether the thread is marked.
    #[inline]
    pub fn is_entered() -> bool {
        INSIDE.try_with(Cell::get).unwrap_or(false)
    }
}

impl Drop for InsideWork {
    #[inline]
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(self.before));
    }
}
