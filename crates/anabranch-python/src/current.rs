//! The streams that `with` has entered. Without code of Python, so that no signal handler raises an exception in between.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyTuple};

/// The variable of the task or thread. What it has is never changed, but replaced, so that a task has its own.
pub(crate) fn entered(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ENTERED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let options = [("default", PyTuple::empty(py))].into_py_dict(py)?;
        let variable = py.import("contextvars")?.getattr("ContextVar")?;
        PyResult::Ok(variable.call(("anabranch.current_streams",), Some(&options))?.unbind())
    };
    Ok(ENTERED.get_or_try_init(py, make)?.bind(py))
}

/// Makes a stream current.
pub(crate) fn enter(stream: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = stream.py();
    let entered = entered(py)?;
    let streams = entered.call_method0("get")?.cast_into::<PyTuple>()?;
    let streams = PyTuple::new(py, streams.iter().chain([stream.clone()]).collect::<Vec<_>>())?;
    entered.call_method1("set", (streams,)).map(drop)
}

/// Makes the former stream current again. Streams may be left in another order than they were entered in.
pub(crate) fn leave(stream: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = stream.py();
    let entered = entered(py)?;
    let streams = entered.call_method0("get")?.cast_into::<PyTuple>()?;
    let mut streams = streams.iter().collect::<Vec<_>>();
    let Some(index) = streams.iter().rposition(|each| each.is(stream)) else { return Ok(()) };
    streams.remove(index);
    entered.call_method1("set", (PyTuple::new(py, streams)?,)).map(drop)
}
