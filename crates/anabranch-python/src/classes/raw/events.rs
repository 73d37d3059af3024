//! Events.

use super::{Calls, possible, status_of, stream_of};
use anabranch::hal::{Helping, InterprocessEventHandle, Live, Result};
use anabranch::{EventFlags, EventHandle, EventRecordFlags};
use pyo3::prelude::*;

/// Calls for events; see Raw.
#[pyclass(frozen, weakref, module = "anabranch.raw")]
pub(crate) struct RawEvents(pub(super) Calls);

/// An event of the caller, who promises that it exists.
pub(super) fn event_of(event: usize) -> Result<Live<'static, EventHandle>> {
    let handle = EventHandle::from_raw(possible(event)?);
    // SAFETY: whoever calls a method of this module promises that the event exists during the call, as the classes say.
    Ok(unsafe { Live::new(handle) })
}

#[pymethods]
impl RawEvents {
    /// Creates an event (cuEventCreate).
    #[pyo3(signature = (flags = 0))]
    fn create(&self, py: Python<'_>, flags: u32) -> PyResult<usize> {
        let flags = EventFlags::from_bits_retain(flags);
        let event = self.0.make(py, "creating an event", |driver, call| driver.event_create(call, flags))?;
        Ok(event.as_raw())
    }

    /// Destroys an event (cuEventDestroy).
    fn destroy(&self, py: Python<'_>, event: usize) -> PyResult<()> {
        self.0.make(py, "destroying an event", |driver, call| {
            // SAFETY: the caller promises that it exists and that nobody uses it any more, as the class says.
            unsafe { driver.event_destroy(call, EventHandle::from_raw(possible(event)?)) }
        })
    }

    /// Records an event behind all work of the stream until now (cuEventRecordWithFlags).
    #[pyo3(signature = (event, stream, flags = 0))]
    fn record(&self, py: Python<'_>, event: usize, stream: usize, flags: u32) -> PyResult<()> {
        let flags = EventRecordFlags::from_bits_retain(flags);
        self.0.make(py, "recording an event", |driver, call| {
            driver.event_record(call, event_of(event)?, stream_of(stream)?, flags)
        })
    }

    /// The status of an event: 0 if it is complete, 600 if it is not (cuEventQuery).
    fn query(&self, py: Python<'_>, event: usize) -> PyResult<i32> {
        self.0.make(py, "querying an event", |driver, call| {
            // SAFETY: this thread has locked nothing, nor has it the interpreter.
            let _helping = unsafe { Helping::enter() };
            status_of(driver.event_query(call, event_of(event)?))
        })
    }

    /// Waits until an event is complete (cuEventSynchronize).
    fn synchronize(&self, py: Python<'_>, event: usize) -> PyResult<()> {
        self.0.make(py, "waiting for an event", |driver, call| driver.event_synchronize(call, event_of(event)?))
    }

    /// The time between two events in milliseconds (cuEventElapsedTime).
    fn elapsed(&self, py: Python<'_>, start: usize, end: usize) -> PyResult<f32> {
        self.0.make(py, "measuring time between events", |driver, call| {
            driver.event_elapsed(call, event_of(start)?, event_of(end)?)
        })
    }

    /// A description of an event for other processes (cuIpcGetEventHandle).
    fn export<'py>(&self, py: Python<'py>, event: usize) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        let exported =
            self.0.make(py, "exporting an event", |driver, call| driver.event_export(call, event_of(event)?))?;
        Ok(pyo3::types::PyBytes::new(py, &exported.0))
    }

    /// Opens an event of another process (cuIpcOpenEventHandle).
    fn open(&self, py: Python<'_>, exported: [u8; 64]) -> PyResult<usize> {
        let exported = InterprocessEventHandle(exported);
        let event = self.0.make(py, "opening an event", |driver, call| driver.event_open(call, &exported))?;
        Ok(event.as_raw())
    }
}
