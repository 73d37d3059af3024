//! Objects that can be closed.

use crate::{error, process};
use pyo3::prelude::*;
use std::mem::forget;
use std::sync::{Arc, Mutex, PoisonError};

/// An object of the library, until it is closed. Calls that are running keep it.
pub(crate) struct Slot<T: Send + Sync + 'static> {
    what: &'static str,
    value: Mutex<Option<Arc<T>>>,
}

impl<T: Send + Sync + 'static> Slot<T> {
    /// `what` is what the object is called.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self::of_shared(what, Arc::new(value))
    }

    pub(crate) fn of_shared(what: &'static str, value: Arc<T>) -> Self {
        Self { what, value: Mutex::new(Some(value)) }
    }

    /// The object, if it is open.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Arc<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The object, if it is open, or else an exception. Whether the library may be called, the functions of `wait` ask.
    #[inline]
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<T>> {
        self.peek().ok_or_else(|| error::closed(py, self.what))
    }

    /// Shows the object to the garbage collector, unless somebody else has it, too.
    pub(crate) fn visit<E>(&self, show: impl FnOnce(&T) -> Result<(), E>) -> Result<(), E> {
        let Ok(value) = self.value.try_lock() else { return Ok(()) };
        match &*value {
            Some(value) if Arc::strong_count(value) == 1 => show(value),
            _ => Ok(()),
        }
    }

    /// Closes the object. Does nothing if it is closed.
    pub(crate) fn close(&self) {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(value) = value {
            release(value);
        }
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        self.close();
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
