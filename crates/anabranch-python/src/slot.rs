//! Objects that can be closed.

mod uses;

use crate::{error, process};
use pyo3::prelude::*;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::forget;
use std::ops::Deref;
use std::sync::Arc;
use uses::Uses;

/// An object of the library, until it is closed. Calls that are running keep it.
pub(crate) struct Slot<T: Send + Sync + 'static> {
    what: &'static str,
    uses: Uses,
    /// Read while a use is counted. Taken once: when the object is closed and no use is counted.
    value: UnsafeCell<Option<Arc<T>>>,
}

// SAFETY: threads share the value, which is made for that. It is taken only by whoever `Uses` tells that it is the last, when nobody
// reads it any more.
unsafe impl<T: Send + Sync + 'static> Sync for Slot<T> {}

/// The object of a slot, for a call. It stays on the thread, as every value that belongs to an attached thread does: code without the
/// interpreter can use it, and not drop it.
pub(crate) struct Lent<'a, T: Send + Sync + 'static> {
    slot: &'a Slot<T>,
    value: &'a Arc<T>,
    attached: PhantomData<Python<'a>>,
}

// SAFETY: a shared reference gives a shared reference to the value, which threads may share, and nothing else.
unsafe impl<T: Send + Sync + 'static> Sync for Lent<'_, T> {}

impl<T: Send + Sync + 'static> Slot<T> {
    /// `what` is what the object is called.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self::of_shared(what, Arc::new(value))
    }

    pub(crate) fn of_shared(what: &'static str, value: Arc<T>) -> Self {
        Self { what, uses: Uses::new(), value: UnsafeCell::new(Some(value)) }
    }

    /// The object, if it is open.
    #[inline]
    pub(crate) fn peek<'a>(&'a self, py: Python<'a>) -> Option<Lent<'a, T>> {
        if !self.uses.is_open() {
            return None;
        }
        if !self.uses.begin(py) {
            // Closed meanwhile. Whoever closed it may have left the end to this use.
            self.end_use(py);
            return None;
        }
        // SAFETY: the object was open when the use was counted, so that nobody takes the value until the use ends.
        let value = unsafe { &*self.value.get() }.as_ref()?;
        Some(Lent { slot: self, value, attached: PhantomData })
    }

    /// The object, if it is open, or else an exception. Whether the library may be called, the functions of `wait` ask.
    #[inline]
    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, T>> {
        self.peek(py).ok_or_else(|| error::closed(py, self.what))
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.uses.is_open()
    }

    /// Closes the object. Does nothing if it is closed.
    pub(crate) fn close(&self, py: Python<'_>) {
        if self.uses.close(py) {
            self.release_value();
        }
    }

    #[inline]
    fn end_use(&self, py: Python<'_>) {
        if self.uses.end(py) {
            self.release_value();
        }
    }

    /// For whoever `Uses` has told that it is the last.
    #[cold]
    fn release_value(&self) {
        // SAFETY: the object is closed, no use is counted, and `Uses` tells this once, so that there is no other reference.
        if let Some(value) = unsafe { (*self.value.get()).take() } {
            release(value);
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.get_mut().take() {
            release(value);
        }
    }
}

impl<T: Send + Sync + 'static> Lent<'_, T> {
    /// The object for longer than the call.
    #[inline]
    pub(crate) fn share(&self) -> Arc<T> {
        self.value.clone()
    }
}

impl<T: Send + Sync + 'static> Deref for Lent<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: Send + Sync + 'static> Drop for Lent<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was made on this thread, which it does not leave, with the interpreter. What runs without the interpreter has
        // no values of its own that do not leave a thread, so that it is not there that it is dropped.
        let py = unsafe { Python::assume_attached() };
        self.slot.end_use(py);
    }
}

/// Drops an object of the library without the interpreter: that may wait for locks of a driver, whose holder may be about to
/// run Python.
pub(crate) fn release<T: Send>(value: T) {
    if process::is_forked() {
        // The child of a fork must not call the driver.
        return forget(value);
    }
    let mut value = Some(value);
    Python::try_attach(|py| {
        let value = value.take();
        process::detached(py, || drop(value));
    });
    drop(value);
}
