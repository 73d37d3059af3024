//! Errors of the library as exceptions.

use crate::{host_functions, process, threads};
use anabranch::hal::InsideWork;
use anabranch::{Error, ErrorKind, Status};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for an error. An exception of a host function that the error reports is its cause.
#[cold]
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let cause = match error.kind() {
        ErrorKind::Panicked => error.message().and_then(host_functions::take_exception),
        _ => None,
    };
    let made = match &cause {
        Some(_) => make(py, &error.clone().with_hint("see the cause; later work of the stream runs")),
        None => make(py, error),
    };
    // Where a signal handler raises an exception meanwhile, the cause is that one's.
    let exception = made.unwrap_or_else(|failure| failure);
    if cause.is_some() {
        exception.set_cause(py, cause);
    }
    exception
}

/// Whether an exception is an error of the library.
pub(crate) fn is_of_library(py: Python<'_>, exception: &PyErr) -> bool {
    let class = py.import("anabranch._errors").and_then(|module| module.getattr("AnabranchError"));
    class.is_ok_and(|class| exception.matches(py, class).unwrap_or(false))
}

/// Whether code of the program has raised an exception. What Python raises by itself has no traceback where it is caught here.
pub(crate) fn is_of_program(py: Python<'_>, exception: &PyErr) -> bool {
    exception.traceback(py).is_some()
}

/// The exception for a call that this module refuses.
#[cold]
pub(crate) fn refused(
    py: Python<'_>,
    status: Status,
    operation: &'static str,
    message: impl Into<String>,
    hint: &'static str,
) -> PyErr {
    raise(py, &Error::argument(status, operation, message).with_hint(hint))
}

/// Whether the library may be called: not in a child of a fork, where a call might wait for threads that do not exist; and not
/// inside of a host function, where a driver would wait for the function: it does not know that this thread runs it, and cannot
/// refuse calls.
#[inline(always)]
pub(crate) fn is_usable() -> bool {
    !process::is_forked() && (!threads::is_any_attached() || !is_inside())
}

/// Whether this thread runs a host function. A function of its own: the mark of the thread costs more to find than all else that is
/// asked, and would be looked for in any case.
#[cold]
#[inline(never)]
fn is_inside() -> bool {
    InsideWork::is_entered()
}

/// Refuses calls where the library must not be called.
#[inline]
pub(crate) fn require_usable(py: Python<'_>) -> PyResult<()> {
    if is_usable() { Ok(()) } else { Err(unusable(py)) }
}

/// Refuses in a child of a fork what needs no driver, but memory of it, which is not there.
pub(crate) fn require_memory(py: Python<'_>) -> PyResult<()> {
    if process::is_forked() { Err(unusable(py)) } else { Ok(()) }
}

#[cold]
fn unusable(py: Python<'_>) -> PyErr {
    if !process::is_forked() {
        let hint = "leave it to a thread that the function wakes, or to a callback of asyncio";
        return refused(py, Status::NOT_PERMITTED, "calling the library", "a host function must not", hint);
    }
    let message = "this process was forked from one that used the library";
    let hint = "start processes before the first call, or with the method `spawn` of multiprocessing";
    refused(py, Status::NOT_INITIALIZED, "calling the library", message, hint)
}

/// The exception for the use of an object that was closed.
#[cold]
pub(crate) fn closed(py: Python<'_>, what: &'static str) -> PyErr {
    let message = format!("the {what} is closed");
    refused(py, Status::INVALID_HANDLE, "using a closed object", message, "call it before close(), or make another one")
}

fn make(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let make = MAKE.get_or_try_init(py, || {
        let module = py.import("anabranch._errors")?;
        module.getattr("make").map(Bound::unbind)
    })?;
    let details = PyDict::new(py);
    details.set_item("status", error.status().0)?;
    details.set_item("name", error.status().name())?;
    details.set_item("operation", error.operation())?;
    details.set_item("place", error.place())?;
    details.set_item("detail", error.message())?;
    details.set_item("hint", error.hint())?;
    details.set_item("log", error.log())?;
    details.set_item("is_asynchronous", error.is_asynchronous())?;
    details.set_item("is_sticky", error.is_sticky())?;
    let kind = match error.kind() {
        ErrorKind::Compile => "compile",
        ErrorKind::Absent => "absent",
        _ => "",
    };
    Ok(PyErr::from_value(make.bind(py).call1((kind, error.to_string(), details))?))
}
