//! Streams.

use crate::classes::arguments;
use crate::classes::buffer::Buffer;
use crate::classes::capture::{Capture, mode_of};
use crate::classes::completion::Completion;
use crate::classes::conditional::{self, Conditional, ConditionalNode};
use crate::classes::config::LaunchConfig;
use crate::classes::context::Context;
use crate::classes::device::Device;
use crate::classes::event::Event;
use crate::classes::graph::Graph;
use crate::classes::module::Kernel;
use crate::classes::open_stream::{OpenStream, foreign, wait_for};
use crate::classes::pool::MemoryPool;
use crate::classes::signal::{Signal, condition_of};
use crate::classes::transfer;
use crate::dtype::DType;
use crate::few::Few;
use crate::host_data::HostData;
use crate::host_functions::Function;
use crate::memory::{Memory, View, extents};
use crate::slot::{Lent, Slot};
use crate::{current, error, wait};
use anabranch::{CaptureStatus, EventFlags, Status};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A queue of work that runs in order. `with stream:` makes it the current stream.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Stream {
    slot: Slot<OpenStream>,
    id: u64,
}

impl Stream {
    pub(crate) fn new(stream: OpenStream) -> Self {
        let id = stream.id();
        Self { slot: Slot::new("stream", stream), id }
    }

    pub(crate) fn owned(stream: anabranch::Stream) -> Self {
        Self::new(OpenStream::Owned(stream))
    }

    /// Another object for the same stream, which ends when both are closed.
    pub(crate) fn share(&self, py: Python<'_>, context: &anabranch::Context) -> PyResult<Self> {
        let stream = self.get(py)?;
        if matches!(*stream, OpenStream::Body(_)) {
            let (message, hint) = ("the stream of a body ends with it", "use the stream of the capture itself");
            return Err(error::refused(py, Status::NOT_PERMITTED, "opening a stream", message, hint));
        }
        if stream.context() != *context {
            let (message, hint) = ("the stream belongs to another context", "take it from its own one");
            return Err(error::refused(py, Status::INVALID_HANDLE, "opening a stream", message, hint));
        }
        Ok(Self { slot: Slot::of_shared("stream", stream.share()), id: self.id })
    }

    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, OpenStream>> {
        self.slot.get(py)
    }

    /// The stream, if it is open.
    #[inline]
    pub(crate) fn peek<'a>(&'a self, py: Python<'a>) -> Option<Lent<'a, OpenStream>> {
        self.slot.peek(py)
    }
}

#[pymethods]
impl Stream {
    /// An id that is unique in the process and never reused.
    #[getter]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The name that it was created with.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.get(py)?.name().map(ToOwned::to_owned))
    }

    /// The handle of the driver.
    #[getter]
    pub(crate) fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.as_raw().as_raw())
    }

    /// The device.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Device> {
        Ok(Device(self.get(py)?.device()))
    }

    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.get(py)?.context()))
    }

    /// The priority. Smaller numbers are more urgent.
    #[getter]
    fn priority(&self, py: Python<'_>) -> PyResult<i32> {
        let stream = self.get(py)?;
        wait::call(py, || stream.priority())
    }

    /// Whether it is not ordered with the legacy default stream.
    #[getter]
    fn is_non_blocking(&self, py: Python<'_>) -> PyResult<bool> {
        let stream = self.get(py)?;
        wait::call(py, || stream.is_non_blocking())
    }

    /// How often the library has made this stream wait for another one, because both use the same memory.
    #[getter]
    fn orders_inserted(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.orders_inserted())
    }

    /// Whether all work is complete.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        let stream = self.get(py)?;
        wait::call(py, || stream.query())
    }

    /// Waits until all work is complete. Ctrl-C ends the wait.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.get(py)?;
        // This reports what a host function has raised, as the wait does.
        if wait::for_a_moment(py, || stream.query())? {
            return Ok(());
        }
        let completion = wait::call(py, || Ok(stream.synchronize_async()))?;
        wait::for_future(py, completion)
    }

    /// An awaitable that is ready when all work until now is complete.
    fn completed(&self, py: Python<'_>) -> PyResult<Completion> {
        let stream = self.get(py)?;
        wait::call(py, || Ok(stream.synchronize_async())).map(Completion::of_work)
    }

    /// Records an event behind all work until now: the one that is passed, or a new one. While the stream captures, an external
    /// record becomes a node that records the event at each launch, instead of a point of the capture.
    #[pyo3(signature = (event = None, *, timing = true, external = false))]
    fn record<'py>(
        &self,
        py: Python<'py>,
        event: Option<Bound<'py, Event>>,
        timing: bool,
        external: bool,
    ) -> PyResult<Bound<'py, Event>> {
        let stream = self.get(py)?;
        if let Some(event) = event {
            {
                let recorded = event.get().get(py)?;
                wait::call(py, || match external {
                    true => stream.record_external(&recorded).map(drop),
                    false => stream.record(&recorded).map(drop),
                })?;
            }
            return Ok(event);
        }
        if external {
            return Err(PyTypeError::new_err(
                "an external record is of an event that is passed: a graph keeps recording it",
            ));
        }
        let flags = if timing { EventFlags::empty() } else { EventFlags::DISABLE_TIMING };
        Bound::new(py, Event::new(wait::call(py, || stream.record_event_with_flags(flags))?))
    }

    /// Lets later work wait for an event, for the work of another stream until now, or for that of another library's stream.
    /// While the stream captures, an external wait for an event becomes a node that waits at each launch for its latest record.
    #[pyo3(signature = (target, *, external = false))]
    fn wait(&self, py: Python<'_>, target: &Bound<'_, PyAny>, external: bool) -> PyResult<()> {
        let stream = self.get(py)?;
        if let Ok(event) = target.cast::<Event>() {
            let event = event.get().get(py)?;
            return wait::call(py, || match external {
                true => stream.wait_event_external(&event),
                false => stream.wait_event(&event),
            });
        }
        if external {
            return Err(PyTypeError::new_err("an external wait is for an event: record one in the other stream"));
        }
        if let Ok(other) = target.cast::<Self>() {
            let other = other.get().get(py)?;
            return wait::call(py, || stream.wait_stream(&other));
        }
        let foreign = foreign(target, &stream.context())?;
        let other = foreign.get(py)?;
        wait::call(py, || stream.wait_stream(&other))
    }

    /// Sets a signal behind all work until now.
    fn write_signal(&self, py: Python<'_>, signal: &Bound<'_, Signal>, value: u64) -> PyResult<()> {
        let (stream, signal) = (self.get(py)?, signal.get().get(py)?);
        wait::call(py, || stream.write_signal(&signal, value))
    }

    /// Lets later work wait until a signal satisfies a condition: "greater_or_equal" (with wrap-around), "equal", "and" (they have
    /// a bit in common) or "nor" (a bit is in neither).
    #[pyo3(signature = (signal, value, condition = "greater_or_equal"))]
    fn wait_signal(&self, py: Python<'_>, signal: &Bound<'_, Signal>, value: u64, condition: &str) -> PyResult<()> {
        let condition = condition_of(condition)?;
        let (stream, signal) = (self.get(py)?, signal.get().get(py)?);
        wait::call(py, || stream.wait_signal(&signal, condition, value))
    }

    /// Allocates memory in stream order, filled with zeros: from a pool, or else from the device's default one. `shape` is a
    /// number of elements or a sequence of extents.
    #[pyo3(signature = (shape, dtype = None, *, pool = None))]
    fn allocate(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        pool: Option<&Bound<'_, MemoryPool>>,
    ) -> PyResult<Buffer> {
        let (stream, shape) = (self.get(py)?, extents(shape)?);
        let dtype = dtype.map_or(Ok(DType::U8), DType::of_python)?;
        let pool = pool.map(|pool| pool.get().get(py)).transpose()?;
        let memory = wait::call(py, || Memory::zeroed(&stream, dtype, &shape, pool.as_deref()))?;
        Ok(Buffer::new(View::whole(memory, dtype, shape)))
    }

    /// Copies data of the host to new memory: an object with the buffer protocol, such as an array of NumPy or bytes, or a list
    /// of numbers with a dtype. Returns when the data can be changed.
    #[pyo3(signature = (data, dtype = None))]
    fn upload(&self, py: Python<'_>, data: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Buffer> {
        let (stream, dtype) = (self.get(py)?, dtype.map(DType::of_python).transpose()?);
        let HostData { bytes, dtype, shape } = HostData::of_python(data, dtype)?;
        let bytes = bytes.as_bytes(py);
        wait_for(py, &stream)?;
        let memory = wait::call(py, || Memory::uploaded(&stream, dtype, bytes))?;
        Ok(Buffer::new(View::whole(memory, dtype, shape)))
    }

    /// Like `upload`, for `await`: the result of the awaitable is the buffer. The data can be changed at once.
    #[pyo3(signature = (data, dtype = None))]
    fn upload_async(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Completion> {
        let (stream, dtype) = (self.get(py)?, dtype.map(DType::of_python).transpose()?);
        let HostData { bytes, dtype, shape } = HostData::of_python(data, dtype)?;
        let bytes = bytes.as_bytes(py);
        let upload = wait::call(py, || Ok(Memory::uploading(&stream, dtype, bytes)))?;
        Ok(Completion::of_upload(upload, dtype, shape))
    }

    /// Copies a buffer to the host, and waits for that. The result is a `memoryview` that can be written, of its shape; elements
    /// of float16 and bfloat16 are integers of 16 bits there.
    fn download(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>) -> PyResult<Py<PyAny>> {
        transfer::download(&*self.get(py)?, buffer)
    }

    /// Like `download`, for `await`: the result of the awaitable is the `memoryview`.
    fn download_async(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>) -> PyResult<Completion> {
        transfer::download_async(&*self.get(py)?, buffer)
    }

    /// Copies a buffer to another one of the same type and number of elements.
    fn copy(&self, py: Python<'_>, destination: &Bound<'_, Buffer>, source: &Bound<'_, Buffer>) -> PyResult<()> {
        transfer::copy(&*self.get(py)?, destination, source)
    }

    /// Copies a buffer of one context to a buffer of another one. The stream belongs to either. Raw.enable_peer_access makes it faster.
    fn copy_peer(&self, py: Python<'_>, destination: &Bound<'_, Buffer>, source: &Bound<'_, Buffer>) -> PyResult<()> {
        transfer::copy_peer(&*self.get(py)?, destination, source)
    }

    /// Copies a buffer to new memory, without waiting.
    fn clone_buffer(&self, py: Python<'_>, source: &Bound<'_, Buffer>) -> PyResult<Buffer> {
        transfer::clone_buffer(&*self.get(py)?, source)
    }

    /// Copies data of the host, as for `upload`, to a buffer. Returns when the data can be changed.
    fn copy_from_host(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        transfer::copy_from_host(&*self.get(py)?, buffer, data)
    }

    /// Copies a buffer to an object with the buffer protocol that can be written, and waits for that.
    fn copy_to_host(&self, py: Python<'_>, destination: &Bound<'_, PyAny>, buffer: &Bound<'_, Buffer>) -> PyResult<()> {
        transfer::copy_to_host(&*self.get(py)?, destination, buffer)
    }

    /// Fills a buffer with a number.
    fn fill(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        transfer::fill(&*self.get(py)?, buffer, value)
    }

    /// Fills a buffer with a pattern of 1, 2, 4 or 8 bytes, which divides its size.
    fn fill_pattern(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>, pattern: Few<u8>) -> PyResult<()> {
        transfer::fill_pattern(py, &*self.get(py)?, buffer, &pattern.0)
    }

    /// Notes that work of another library in this stream, submitted until now, uses a buffer: the stream waits for what has
    /// used it before, and later uses come behind the stream's work.
    fn note_use(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>) -> PyResult<()> {
        transfer::note_use(py, &*self.get(py)?, buffer)
    }

    /// Moves managed memory (`Context.allocate_managed`), or a part of it, to this stream's device, or to the host, ahead of its use
    /// there. It never changes results.
    #[pyo3(signature = (buffer, *, to_host = false))]
    fn prefetch(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>, to_host: bool) -> PyResult<()> {
        transfer::prefetch(py, &*self.get(py)?, buffer, to_host)
    }

    /// Says who uses managed memory from now on, in stream order: "single" (this stream alone), "host" (no stream), or "global" (all
    /// streams). Work of others that uses it is refused. A part of a buffer cannot be attached.
    fn attach(&self, py: Python<'_>, buffer: &Bound<'_, Buffer>, attachment: &str) -> PyResult<()> {
        transfer::attach(py, &*self.get(py)?, buffer, attachment)
    }

    /// Launches a kernel. `config` is a LaunchConfig or a pair of grid and block. Arguments are buffers, which the kernel may
    /// write unless they are in Reads, and numbers: an int or a float gets the size of the parameter; a number of NumPy or ctypes,
    /// a Scalar, or bytes must have it. Arguments have to be of the types that the kernel declares: only their number and sizes
    /// are checked.
    #[pyo3(signature = (kernel, config, *arguments))]
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &Bound<'_, Kernel>,
        config: &Bound<'_, PyAny>,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let config = LaunchConfig::of_python(config)?;
        arguments::launch(py, &*self.get(py)?, kernel.get(), &config, arguments)
    }

    /// Calls a function in stream order, on another thread, at every launch if the stream captures. It must not call this
    /// library. What it raises is the cause of the error that the next call that synchronises reports.
    #[pyo3(signature = (function, /, *arguments, **keywords))]
    fn launch_host_func(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        arguments: Py<PyTuple>,
        keywords: Option<Py<PyDict>>,
    ) -> PyResult<()> {
        let stream = self.get(py)?;
        let function = Function::new(py, function, arguments, keywords)?;
        wait::call(py, || stream.launch_repeatable_host_func(move || function.run()))
    }

    /// Calls a function once in stream order, on another thread, with this stream and a status, which is 0 unless the context
    /// is in error. It must not call this library, and cannot be captured.
    fn add_callback(this: Bound<'_, Self>, function: Py<PyAny>) -> PyResult<()> {
        let (py, stream) = (this.py(), this.get().get(this.py())?);
        let arguments = PyTuple::new(py, [&this])?.unbind();
        let function = Function::new(py, function, arguments, None)?;
        wait::call(py, || stream.add_callback(move |_, status| function.run_with_status(status.0)))
    }

    /// A context manager that captures what is submitted to the stream within it. `mode` is "global", "thread_local" or
    /// "relaxed".
    #[pyo3(signature = (mode = "global"))]
    fn capture(this: Bound<'_, Self>, mode: &str) -> PyResult<Capture> {
        Ok(Capture::new(this.unbind(), mode_of(mode)?))
    }

    /// Begins a capture, which `end_capture` ends: `with stream.capture()` does both. `mode` is as for `capture`.
    #[pyo3(signature = (mode = "global"))]
    fn begin_capture(&self, py: Python<'_>, mode: &str) -> PyResult<()> {
        let (stream, mode) = (self.get(py)?, mode_of(mode)?);
        wait::call(py, || stream.begin_capture(mode))
    }

    /// Ends the capture that `begin_capture` began, and returns its graph. `bodies` are what conditional nodes run: tuples of
    /// the node, the number of the body, and the graph that it becomes.
    #[pyo3(signature = (bodies = Few::default()))]
    fn end_capture(&self, py: Python<'_>, bodies: Few<conditional::Body<'_>>) -> PyResult<Graph> {
        conditional::end_capture(py, &*self.get(py)?, &bodies.0)
    }

    /// Makes a value for a conditional node of the graph that `begin_capture` captures, in this mode. All streams of the
    /// capture have been joined. With a default, it is set to that at every launch.
    #[pyo3(signature = (default = None, *, mode = "global"))]
    fn create_conditional(&self, py: Python<'_>, default: Option<u32>, mode: &str) -> PyResult<Conditional> {
        conditional::create(py, &*self.get(py)?, default, mode)
    }

    /// Adds a conditional node to the graph that `begin_capture` captures, in this mode. All streams of the capture have been
    /// joined. `kind` is "if" (with 1 body, or 2, of which the second runs if the value is 0), "while" or "switch".
    #[pyo3(signature = (conditional, kind, bodies = 1, *, mode = "global"))]
    fn add_conditional(
        &self,
        py: Python<'_>,
        conditional: &Bound<'_, Conditional>,
        kind: &str,
        bodies: u32,
        mode: &str,
    ) -> PyResult<ConditionalNode> {
        conditional::add(py, &*self.get(py)?, conditional.get(), kind, bodies, mode)
    }

    /// Adds a graph as a node to the graph that `begin_capture` captures, in this mode. All streams of the capture have been
    /// joined.
    #[pyo3(signature = (graph, *, mode = "global"))]
    fn add_child(&self, py: Python<'_>, graph: &Bound<'_, Graph>, mode: &str) -> PyResult<()> {
        conditional::add_child(py, &*self.get(py)?, graph.get(), mode)
    }

    /// Whether the stream captures: "none", "active" or "invalidated". An invalidated capture has to be ended, too.
    #[getter]
    fn capture_status(&self, py: Python<'_>) -> PyResult<&'static str> {
        let stream = self.get(py)?;
        Ok(match wait::call(py, || stream.capture_status())? {
            CaptureStatus::None => "none",
            CaptureStatus::Active => "active",
            CaptureStatus::Invalidated => "invalidated",
        })
    }

    /// Whether the stream is capturing.
    #[getter]
    fn is_capturing(&self, py: Python<'_>) -> PyResult<bool> {
        let stream = self.get(py)?;
        wait::call(py, || stream.is_capturing())
    }

    /// The id of the capture that the stream belongs to. Ids are never reused. None if it does not capture.
    #[getter]
    fn capture_id(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let stream = self.get(py)?;
        let info = wait::call(py, || stream.capture_info())?;
        Ok((info.status == CaptureStatus::Active).then_some(info.id))
    }

    /// The stream for other libraries: a version, and the handle.
    fn __cuda_stream__(&self, py: Python<'_>) -> PyResult<(u32, usize)> {
        Ok((0, self.handle(py)?))
    }

    /// Ends the stream. Work that is queued still runs.
    pub(crate) fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__<'py>(this: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        this.get().get(this.py())?;
        current::enter(&this)?;
        Ok(this)
    }

    fn __exit__(
        this: Bound<'_, Self>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        current::leave(&this)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else { return false };
        let same = self.slot.peek(py).zip(other.get().slot.peek(py)).map(|(this, other)| **this == **other);
        same.unwrap_or(self.id == other.get().id)
    }

    fn __hash__(&self) -> u64 {
        self.id
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.slot.peek(py) {
            Some(stream) => format!("<anabranch.Stream {} of {}>", self.id, stream.device().name()),
            None => format!("<anabranch.Stream {} (closed)>", self.id),
        }
    }
}
