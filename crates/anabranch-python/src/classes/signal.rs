//! Signals: numbers that streams and the host set and wait for.

use crate::slot::{Lent, Slot};
use crate::{error, process, wait};
use anabranch::WaitCondition;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A number of 64 bits, at first 0, that the host and streams read, set and wait for. A stream that waits for it waits until it is
/// set: set it before it is dropped. The driver does not know this order, and may deadlock where an event would not.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Signal {
    slot: Slot<anabranch::Signal>,
}

impl Signal {
    pub(crate) fn create(py: Python<'_>, context: &anabranch::Context) -> PyResult<Self> {
        let signal = wait::call(py, || context.create_signal())?;
        Ok(Self { slot: Slot::new("signal", signal) })
    }

    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, anabranch::Signal>> {
        self.slot.get(py)
    }
}

/// A condition by its name.
pub(crate) fn condition_of(name: &str) -> PyResult<WaitCondition> {
    match name {
        "greater_or_equal" => Ok(WaitCondition::GreaterOrEqual),
        "equal" => Ok(WaitCondition::Equal),
        "and" => Ok(WaitCondition::And),
        "nor" => Ok(WaitCondition::Nor),
        _ => Err(PyValueError::new_err(format!(
            "there is no condition {name:?}; there are \"greater_or_equal\", \"equal\", \"and\" and \"nor\""
        ))),
    }
}

#[pymethods]
impl Signal {
    /// The value as the host sees it now.
    #[pyo3(name = "get")]
    fn value(&self, py: Python<'_>) -> PyResult<u64> {
        error::require_memory(py)?;
        Ok(self.get(py)?.get())
    }

    /// Sets the value from the host, also within a host function: streams that wait for it go on.
    #[pyo3(name = "set")]
    fn set_value(&self, py: Python<'_>, value: u64) -> PyResult<()> {
        error::require_memory(py)?;
        self.get(py)?.set(value);
        Ok(())
    }

    /// Ends the signal. Its memory is kept until queued work that uses it is complete.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.slot.peek(py) {
            Some(signal) if !process::is_forked() => format!("<anabranch.Signal of value {}>", signal.get()),
            Some(_) => "<anabranch.Signal>".to_owned(),
            None => "<anabranch.Signal (closed)>".to_owned(),
        }
    }
}
