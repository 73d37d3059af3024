//! Functions of Python that run in stream order.
//!
//! A driver calls a host function on a thread of its own, perhaps with locks that other threads wait for. That thread does
//! not attach to the interpreter: it waits for a thread of this module, which does. The calls of this module are made without
//! the interpreter, so that whoever holds such a lock waits for nobody.

use crate::threads;
use anabranch::hal::InsideWork;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// How many exceptions are kept that nobody has asked for.
const KEPT: usize = 256;

static NEXT: AtomicU64 = AtomicU64::new(1);
static EXCEPTIONS: Mutex<VecDeque<(u64, PyErr)>> = Mutex::new(VecDeque::new());

/// A function with its arguments.
pub(crate) struct Function {
    call: Arc<dyn Fn(Python<'_>) -> PyResult<()> + Send + Sync>,
}

impl Function {
    pub(crate) fn new(call: impl Fn(Python<'_>) -> PyResult<()> + Send + Sync + 'static) -> Self {
        Self { call: Arc::new(call) }
    }

    /// Calls it on a thread of this module, and waits for that. An exception unwinds, which the library reports to whoever
    /// synchronises.
    pub(crate) fn run(&self) {
        let (sender, receiver) = channel();
        let call = self.call.clone();
        threads::run(move || {
            let result = threads::attach(|py| {
                // As on the driver's own thread: the function must not call the library.
                let _inside = InsideWork::enter();
                call(py).map_err(|error| {
                    let message = describe(py, &error);
                    (message, error)
                })
            });
            // Before whoever waits goes on, which may drop the last reference.
            drop(call);
            let _ = sender.send(result);
        });
        // When the interpreter is ending, the function is not called.
        if let Ok(Some(Err((message, error)))) = receiver.recv() {
            let number = keep(error);
            // It has been told already where the exception was raised.
            std::panic::resume_unwind(Box::new(format!("raised {message} (exception {number})")));
        }
    }
}

fn describe(py: Python<'_>, error: &PyErr) -> String {
    let name = error.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    match error.value(py).str().map(|text| text.to_string()) {
        Ok(text) if !text.is_empty() => format!("{name}: {text}"),
        _ => name,
    }
}

fn keep(error: PyErr) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut exceptions = EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let oldest = if exceptions.len() >= KEPT { exceptions.pop_front() } else { None };
    exceptions.push_back((number, error));
    drop(exceptions);
    drop(oldest);
    number
}

/// The exception that a message of the library is about.
pub(crate) fn take_exception(message: &str) -> Option<PyErr> {
    let number: u64 = message.rsplit_once("(exception ")?.1.split(')').next()?.parse().ok()?;
    let mut exceptions = EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let index = exceptions.iter().position(|(kept, _)| *kept == number)?;
    exceptions.remove(index).map(|(_, error)| error)
}
