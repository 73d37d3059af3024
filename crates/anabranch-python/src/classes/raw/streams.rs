//! Streams, their captures, and functions that they call.

use super::events::event_of;
use super::{Calls, possible, status_of, stream_of};
use crate::host_functions::Function;
use anabranch::hal::{Call, CaptureMode, Driver, Helping, HostWork, RepeatableWork, contain};
use anabranch::{CaptureStatus, EventWaitFlags, Status, StreamFlags, StreamHandle};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use std::sync::Arc;

/// Calls for streams; see Raw. 0 and 1 are the legacy default stream, and 2 is the default stream of the thread.
#[pyclass(frozen, weakref, module = "anabranch.raw")]
pub(crate) struct RawStreams(pub(super) Calls);

fn mode_of(mode: u32) -> PyResult<CaptureMode> {
    match mode {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(PyValueError::new_err(format!("there is no capture mode {mode}; there are 0, 1 and 2"))),
    }
}

fn number_of(mode: CaptureMode) -> u32 {
    match mode {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    }
}

fn status_number(status: CaptureStatus) -> u32 {
    match status {
        CaptureStatus::None => 0,
        CaptureStatus::Active => 1,
        CaptureStatus::Invalidated => 2,
    }
}

/// A call of a function of Python that says what it raises where such exceptions are said, as nobody else is there. `call` is the
/// function of `_contained.py` that calls it with the arguments.
fn contained(py: Python<'_>, call: &str, arguments: &Bound<'_, PyTuple>) -> PyResult<Arc<Function>> {
    let call = py.import("anabranch._contained")?.getattr(call)?.unbind();
    Function::new(py, call, arguments.clone().unbind(), None)
}

/// Makes a call on a thread of the driver, which must not unwind.
fn run(call: impl FnOnce()) {
    drop(contain(call));
}

#[pymethods]
impl RawStreams {
    /// Creates a stream (cuStreamCreateWithPriority).
    #[pyo3(signature = (flags = 0, priority = 0))]
    fn create(&self, py: Python<'_>, flags: u32, priority: i32) -> PyResult<usize> {
        let flags = StreamFlags::from_bits_retain(flags);
        let stream =
            self.0.make(py, "creating a stream", |driver, call| driver.stream_create(call, flags, priority))?;
        Ok(stream.as_raw())
    }

    /// Destroys a stream (cuStreamDestroy). Work that is queued still runs.
    fn destroy(&self, py: Python<'_>, stream: usize) -> PyResult<()> {
        self.0.make(py, "destroying a stream", |driver, call| {
            // SAFETY: the caller promises that it exists and that nobody uses it any more, as the class says.
            unsafe { driver.stream_destroy(call, StreamHandle::from_raw(possible(stream)?)) }
        })
    }

    /// The status of a stream: 0 if all its work is complete, 600 if it is not (cuStreamQuery).
    fn query(&self, py: Python<'_>, stream: usize) -> PyResult<i32> {
        self.0.make(py, "querying a stream", |driver, call| {
            // SAFETY: this thread has locked nothing, nor has it the interpreter.
            let _helping = unsafe { Helping::enter() };
            status_of(driver.stream_query(call, stream_of(stream)?))
        })
    }

    /// Waits until all work of a stream is complete (cuStreamSynchronize).
    fn synchronize(&self, py: Python<'_>, stream: usize) -> PyResult<()> {
        self.0.make(py, "synchronizing a stream", |driver, call| driver.stream_synchronize(call, stream_of(stream)?))
    }

    /// Lets later work of a stream wait for an event (cuStreamWaitEvent).
    #[pyo3(signature = (stream, event, flags = 0))]
    fn wait_event(&self, py: Python<'_>, stream: usize, event: usize, flags: u32) -> PyResult<()> {
        let flags = EventWaitFlags::from_bits_retain(flags);
        self.0.make(py, "waiting for an event", |driver, call| {
            driver.stream_wait_event(call, stream_of(stream)?, event_of(event)?, flags)
        })
    }

    /// The flags that a stream was created with (cuStreamGetFlags).
    fn flags(&self, py: Python<'_>, stream: usize) -> PyResult<u32> {
        let flags = self.0.make(py, "asking for the flags of a stream", |driver, call| {
            driver.stream_flags(call, stream_of(stream)?)
        })?;
        Ok(flags.bits())
    }

    /// The priority of a stream (cuStreamGetPriority).
    fn priority(&self, py: Python<'_>, stream: usize) -> PyResult<i32> {
        self.0.make(py, "asking for the priority of a stream", |driver, call| {
            driver.stream_priority(call, stream_of(stream)?)
        })
    }

    /// The id of a stream (cuStreamGetId).
    fn id(&self, py: Python<'_>, stream: usize) -> PyResult<u64> {
        self.0.make(py, "asking for the id of a stream", |driver, call| driver.stream_id(call, stream_of(stream)?))
    }

    /// Calls a function in stream order, on another thread (cuLaunchHostFunc). It must not call this package. What it raises goes
    /// to sys.unraisablehook. A function that is captured is kept until the process ends, as nobody says when its graph
    /// does.
    #[pyo3(signature = (stream, function, *arguments))]
    fn launch_host_func(
        &self,
        py: Python<'_>,
        stream: usize,
        function: Bound<'_, PyAny>,
        arguments: Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let arguments = PyTuple::new(py, [function, arguments.into_any()])?;
        let function = contained(py, "call", &arguments)?;
        let launch = move |driver: &dyn Driver, call: &Call<'_>| {
            let stream = stream_of(stream)?;
            if driver.stream_capture_status(call, stream)? == CaptureStatus::None {
                let work = HostWork::new(move || run(|| function.run()));
                return driver.stream_launch_host_function(call, stream, work);
            }
            let work = RepeatableWork::new(move || run(|| function.run()));
            driver.stream_launch_host_function(call, stream, HostWork::from(work.clone()))?;
            std::mem::forget(work);
            Ok(())
        };
        self.0.make(py, "launching a host function", launch)
    }

    /// Calls a function once in stream order, on another thread, with the stream, a status, and the arguments
    /// (cuStreamAddCallback). The status is 0 unless the context is in error. The function must not call this package. What
    /// it raises goes to sys.unraisablehook.
    #[pyo3(signature = (stream, function, *arguments))]
    fn add_callback(
        &self,
        py: Python<'_>,
        stream: usize,
        function: Bound<'_, PyAny>,
        arguments: Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let stream_number = PyInt::new(py, stream).into_any();
        let arguments = PyTuple::new(py, [function, stream_number, arguments.into_any()])?;
        let function = contained(py, "call_back", &arguments)?;
        self.0.make(py, "adding a callback", |driver, call| {
            let callback = Box::new(move |status: Status| run(|| function.run_with_status(status.0)));
            driver.stream_add_callback(call, stream_of(stream)?, callback)
        })
    }

    /// Begins a capture (cuStreamBeginCapture). The mode is 0 (global), 1 (of the thread) or 2 (relaxed).
    fn begin_capture(&self, py: Python<'_>, stream: usize, mode: u32) -> PyResult<()> {
        let mode = mode_of(mode)?;
        self.0
            .make(py, "beginning a capture", |driver, call| driver.stream_begin_capture(call, stream_of(stream)?, mode))
    }

    /// Ends a capture, and returns its graph (cuStreamEndCapture).
    fn end_capture(&self, py: Python<'_>, stream: usize) -> PyResult<usize> {
        let graph =
            self.0.make(py, "ending a capture", |driver, call| driver.stream_end_capture(call, stream_of(stream)?))?;
        Ok(graph.as_raw())
    }

    /// Whether a stream captures: 0 (no), 1 (yes) or 2 (in a capture that an error has invalidated) (cuStreamIsCapturing).
    fn capture_status(&self, py: Python<'_>, stream: usize) -> PyResult<u32> {
        let status = self.0.make(py, "asking whether a stream captures", |driver, call| {
            driver.stream_capture_status(call, stream_of(stream)?)
        })?;
        Ok(status_number(status))
    }

    /// Sets the capture mode of the thread, and returns the former one (cuThreadExchangeStreamCaptureMode).
    fn exchange_capture_mode(&self, py: Python<'_>, mode: u32) -> PyResult<u32> {
        let mode = mode_of(mode)?;
        let former =
            self.0.make(py, "exchanging the capture mode", |driver, _| driver.thread_exchange_capture_mode(mode))?;
        Ok(number_of(former))
    }
}
