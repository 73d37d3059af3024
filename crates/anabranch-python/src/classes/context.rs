//! Contexts, and what is made in them.

use crate::classes::buffer::{self, Buffer};
use crate::classes::device::Device;
use crate::classes::event::Event;
use crate::classes::graph::Graph;
use crate::classes::module::Module;
use crate::classes::raw::Raw;
use crate::classes::signal::Signal;
use crate::classes::stream::Stream;
use crate::classes::virtual_memory::{AddressRange, PhysicalMemory};
use crate::classes::{cuda_array, module, open_stream, tensor};
use crate::dtype::DType;
use crate::kept::Kept;
use crate::memory::{Memory, Place, View, extents};
use crate::slot::release;
use crate::{error, wait};
use anabranch::{EventFlags, EventHandle, InterprocessEventHandle, Status, StreamFlags};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;

/// More than a name needs. A longer one may be more than memory holds twice.
const LONGEST_NAME: usize = 1 << 16;

/// The state of a device as this program uses it: streams, events, memory and modules belong to a context.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Context(ManuallyDrop<anabranch::Context>);

impl Context {
    pub(crate) fn new(context: anabranch::Context) -> Self {
        Self(ManuallyDrop::new(context))
    }

    /// The library's object.
    pub(crate) fn library(&self) -> &anabranch::Context {
        &self.0
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        release(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

#[pymethods]
impl Context {
    /// The device.
    #[getter]
    fn device(&self) -> Device {
        Device(self.0.device().clone())
    }

    /// An id that is unique in the process and never reused.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id()
    }

    /// Calls of the driver with plain numbers, as in C, for what other libraries have made and for code that was written for them.
    #[getter]
    fn raw(&self) -> Raw {
        Raw::new(anabranch::Context::clone(&self.0))
    }

    /// Creates a stream. By default, it is not ordered with the legacy default stream. Smaller priorities are more urgent;
    /// those out of Device.stream_priority_range are clamped.
    #[pyo3(signature = (*, priority = 0, non_blocking = true, name = None))]
    fn create_stream(&self, py: Python<'_>, priority: i32, non_blocking: bool, name: Option<&str>) -> PyResult<Stream> {
        if name.is_some_and(|name| name.len() > LONGEST_NAME) {
            return Err(PyValueError::new_err(format!("a name of more than {LONGEST_NAME} bytes is too long")));
        }
        let flags = if non_blocking { StreamFlags::NON_BLOCKING } else { StreamFlags::empty() };
        let stream = wait::call(py, || self.0.create_stream_with_priority(flags, priority))?;
        if let Some(name) = name {
            stream.set_name(name);
        }
        Ok(Stream::owned(stream))
    }

    /// The legacy default stream, which is ordered with all blocking streams of the context.
    fn legacy_stream(&self, py: Python<'_>) -> PyResult<Stream> {
        wait::call(py, || self.0.legacy_stream()).map(Stream::owned)
    }

    /// The calling thread's default stream.
    fn per_thread_stream(&self, py: Python<'_>) -> PyResult<Stream> {
        wait::call(py, || self.0.per_thread_stream()).map(Stream::owned)
    }

    /// The stream of another library, an object with the method `__cuda_stream__`, which is kept. The stream has to exist as long
    /// as the object.
    fn stream_from(&self, stream: &Bound<'_, PyAny>) -> PyResult<Stream> {
        open_stream::foreign(stream, &self.0)
    }

    /// The stream of another library with that handle of the driver, which has to exist as long as the result. `owner` is kept
    /// until then. Drivers trust handles: a wrong one ends the process. `stream_from` takes objects, and is safer.
    #[pyo3(signature = (handle, owner = None))]
    fn stream_from_handle(&self, py: Python<'_>, handle: usize, owner: Option<Py<PyAny>>) -> PyResult<Stream> {
        open_stream::of_handle(py, &self.0, handle, owner.unwrap_or_else(|| py.None()))
    }

    /// The event of another library with that handle of the driver, which has to exist as long as the result. `owner` is kept
    /// until then. Drivers trust handles: a wrong one ends the process.
    #[pyo3(signature = (handle, owner = None))]
    fn event_from_handle(&self, py: Python<'_>, handle: usize, owner: Option<Py<PyAny>>) -> PyResult<Event> {
        let (handle, owner) = (EventHandle::from_raw(handle), owner.map(Kept::new));
        // SAFETY: the caller promises that the event exists as long as what is kept.
        wait::call(py, || unsafe { anabranch::Event::from_raw(&self.0, handle, owner) }).map(Event::new)
    }

    /// An empty graph, to which nodes are added by hand.
    fn create_graph(&self, py: Python<'_>) -> PyResult<Graph> {
        wait::call(py, || self.0.create_graph()).map(Graph::new)
    }

    /// Creates a signal: a number of 64 bits, at first 0, that streams and the host set and wait for.
    fn create_signal(&self, py: Python<'_>) -> PyResult<Signal> {
        Signal::create(py, &self.0)
    }

    /// Opens an event of another process, which `Event.interprocess_handle` describes there.
    fn open_event(&self, py: Python<'_>, exported: [u8; 64]) -> PyResult<Event> {
        wait::call(py, || anabranch::Event::open(&self.0, &InterprocessEventHandle(exported))).map(Event::new)
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self) -> usize {
        self.0.as_raw().as_raw()
    }

    /// Creates an event. One without timing costs less, and only such a one can be `interprocess`. `blocking_sync` lets waits of the host
    /// sleep instead of spin.
    #[pyo3(signature = (*, timing = true, blocking_sync = false, interprocess = false))]
    fn create_event(&self, py: Python<'_>, timing: bool, blocking_sync: bool, interprocess: bool) -> PyResult<Event> {
        if timing && interprocess {
            let (message, hint) = ("an event of several processes has no timing", "pass timing=False");
            return Err(error::refused(py, Status::INVALID_VALUE, "creating an event", message, hint));
        }
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::DISABLE_TIMING, !timing);
        flags.set(EventFlags::BLOCKING_SYNC, blocking_sync);
        flags.set(EventFlags::INTERPROCESS, interprocess);
        wait::call(py, || self.0.create_event_with_flags(flags)).map(Event::new)
    }

    /// A buffer of memory that somebody else has allocated, as elements of int8: memory of this context's device, or pinned
    /// memory, of so many bytes. `owner` is kept until the buffer, and every graph that uses it, is gone, and its last use is
    /// complete. Drivers trust addresses: a wrong one loses the context, or ends the process.
    #[pyo3(signature = (address, size, owner = None))]
    fn buffer_from_address(
        &self,
        py: Python<'_>,
        address: u64,
        size: usize,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Buffer> {
        let owner = owner.unwrap_or_else(|| py.None());
        // SAFETY: the caller promises that so many bytes are there as long as what is kept.
        let memory = wait::call(py, || unsafe { Memory::foreign(&self.0, address, DType::I8, &[size], owner) })?;
        Ok(Buffer::new(View::whole(memory, DType::I8, vec![size])))
    }

    /// Allocates pinned host memory, filled with zeros. `shape` is a number of elements or a sequence of extents.
    #[pyo3(signature = (shape, dtype = None))]
    fn allocate_pinned(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (shape, dtype) = (extents(shape)?, dtype.map_or(Ok(DType::U8), DType::of_python)?);
        let memory = wait::call(py, || Memory::shared(&self.0, Place::Pinned, dtype, &shape))?;
        buffer::create(py, View::whole(memory, dtype, shape))
    }

    /// Allocates memory, filled with zeros, that the host and the device access at the same address, and that the driver moves
    /// between them. `shape` is a number of elements or a sequence of extents.
    #[pyo3(signature = (shape, dtype = None))]
    fn allocate_managed(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (shape, dtype) = (extents(shape)?, dtype.map_or(Ok(DType::U8), DType::of_python)?);
        let memory = wait::call(py, || Memory::shared(&self.0, Place::Managed, dtype, &shape))?;
        buffer::create(py, View::whole(memory, dtype, shape))
    }

    /// The number of bytes that the sizes of physical memory and of address ranges, and offsets in these, are multiples of.
    fn physical_memory_granularity(&self, py: Python<'_>) -> PyResult<usize> {
        wait::call(py, || self.0.physical_memory_granularity())
    }

    /// Allocates memory of the device without an address, of so many bytes. The software device has no virtual memory.
    fn create_physical_memory(&self, py: Python<'_>, size: usize) -> PyResult<PhysicalMemory> {
        PhysicalMemory::create(py, &self.0, size)
    }

    /// Reserves so many bytes of addresses, to which nothing is mapped yet. The software device has no virtual memory.
    fn reserve_addresses(&self, py: Python<'_>, size: usize) -> PyResult<AddressRange> {
        AddressRange::reserve(py, &self.0, size)
    }

    /// A buffer of the array of another library, through DLPack and without a copy. Work in the stream, or in the legacy default
    /// stream, that uses the array comes before all uses of the buffer.
    #[pyo3(name = "from_dlpack", signature = (array, *, stream = None))]
    fn import_tensor(&self, array: &Bound<'_, PyAny>, stream: Option<&Bound<'_, Stream>>) -> PyResult<Py<PyAny>> {
        tensor::import(&self.0, array, stream)
    }

    /// A buffer of an array of a GPU that has `__cuda_array_interface__`, without a copy. All uses of the buffer come behind the
    /// work of the stream that the array names, and of `stream`.
    #[pyo3(name = "from_cuda_array_interface", signature = (array, *, stream = None))]
    fn import_cuda_array(&self, array: &Bound<'_, PyAny>, stream: Option<&Bound<'_, Stream>>) -> PyResult<Py<PyAny>> {
        cuda_array::import(&self.0, array, stream)
    }

    /// Loads a module: PTX as text, machine code of NVIDIA's tools as bytes, or what `compile` returned. Waits until the
    /// context is idle.
    fn load_module(&self, image: &Bound<'_, PyAny>) -> PyResult<Module> {
        module::load(&self.0, image)
    }

    /// Waits until all work of the context is complete.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let context = anabranch::Context::clone(&self.0);
        wait::for_wait(py, self.0.id(), move || context.synchronize_unreported())?;
        wait::call(py, || self.0.report_panic())
    }

    /// The free and the total memory of the device in bytes.
    fn memory_info(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let info = wait::call(py, || self.0.memory_info())?;
        Ok((info.free, info.total))
    }

    /// How often the library has made a stream wait for another one, because both use the same memory.
    #[getter]
    fn orders_inserted(&self) -> u64 {
        self.0.orders_inserted()
    }

    /// Whether work is refused for which the library would have to make a stream wait.
    #[getter]
    fn strict_order(&self) -> bool {
        self.0.strict_order()
    }

    #[setter]
    fn set_strict_order(&self, strict: bool) {
        self.0.set_strict_order(strict);
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| *self.0 == *other.get().0)
    }

    fn __hash__(&self) -> u64 {
        self.0.id()
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.Context {} of {}>", self.0.id(), self.0.device().name())
    }
}
