//! Events.

use crate::classes::completion::Completion;
use crate::classes::context::Context;
use crate::classes::stream::Stream;
use crate::slot::{Lent, Slot};
use crate::wait;
use anabranch::EventFlags;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A point in the work of a stream, which streams and the host can wait for.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Event {
    slot: Slot<anabranch::Event>,
    id: u64,
}

impl Event {
    pub(crate) fn new(event: anabranch::Event) -> Self {
        let id = event.id();
        Self { slot: Slot::new("event", event), id }
    }

    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, anabranch::Event>> {
        self.slot.get(py)
    }

    /// The event, if it is open.
    #[inline]
    pub(crate) fn peek<'a>(&'a self, py: Python<'a>) -> Option<Lent<'a, anabranch::Event>> {
        self.slot.peek(py)
    }
}

#[pymethods]
impl Event {
    /// An id that is unique in the process and never reused.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.get(py)?.context()))
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.as_raw().as_raw())
    }

    /// Whether it measures time.
    #[getter]
    fn is_timing(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.flags().is_none_or(|flags| !flags.contains(EventFlags::DISABLE_TIMING)))
    }

    /// Whether the host sleeps while it waits for the event, instead of asking again and again. False for an event of another
    /// library.
    #[getter]
    fn is_blocking_sync(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.get(py)?.flags().is_some_and(|flags| flags.contains(EventFlags::BLOCKING_SYNC)))
    }

    /// Describes the event for `Context.open_event` of another process, in 64 bytes. The event was created with `interprocess`.
    fn interprocess_handle<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let event = self.get(py)?;
        Ok(PyBytes::new(py, &wait::call(py, || event.export())?.0))
    }

    /// Records the event behind all work of the stream until now. Its former point is forgotten.
    fn record(&self, py: Python<'_>, stream: &Bound<'_, Stream>) -> PyResult<()> {
        let (event, stream) = (self.get(py)?, stream.get().get(py)?);
        wait::call(py, || event.record(&stream))
    }

    /// Lets the stream wait for the event.
    fn wait(&self, py: Python<'_>, stream: &Bound<'_, Stream>) -> PyResult<()> {
        let (event, stream) = (self.get(py)?, stream.get().get(py)?);
        wait::call(py, || stream.wait_event(&event))
    }

    /// Whether the work is complete. An event that was never recorded is complete.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        let event = self.get(py)?;
        wait::call(py, || event.query())
    }

    /// Waits until the work is complete.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let event = self.get(py)?;
        let sleeps = event.flags().is_none_or(|flags| flags.contains(EventFlags::BLOCKING_SYNC));
        let is_complete = match sleeps {
            true => wait::call(py, || event.query())?,
            false => wait::for_a_moment(py, || event.query())?,
        };
        if is_complete {
            return Ok(());
        }
        let completion = wait::call(py, || Ok(event.completed()))?;
        wait::for_future(py, completion)
    }

    /// The time from another event to this one in milliseconds. Both are complete.
    fn elapsed_since(&self, py: Python<'_>, start: &Bound<'_, Self>) -> PyResult<f32> {
        let (event, start) = (self.get(py)?, start.get().get(py)?);
        wait::call(py, || event.elapsed_since(&start))
    }

    /// The time in milliseconds, as `end - start`.
    fn __sub__(&self, py: Python<'_>, start: &Bound<'_, Self>) -> PyResult<f32> {
        self.elapsed_since(py, start)
    }

    /// An awaitable that is ready when the work is complete.
    fn completed(&self, py: Python<'_>) -> PyResult<Completion> {
        let event = self.get(py)?;
        wait::call(py, || Ok(event.completed())).map(Completion::of_work)
    }

    fn __await__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Bound::new(py, self.completed(py)?)?.call_method0("__await__")
    }

    /// Destroys the event. Waits for it that are queued still happen.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.id == other.get().id)
    }

    fn __hash__(&self) -> u64 {
        self.id
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.slot.peek(py) {
            Some(event) => format!("<anabranch.Event {} of {}>", self.id, event.context().device().name()),
            None => format!("<anabranch.Event {} (closed)>", self.id),
        }
    }
}
