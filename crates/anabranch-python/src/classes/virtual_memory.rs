//! Virtual memory: reserved addresses, and memory that is mapped there.

use crate::classes::buffer::Buffer;
use crate::classes::context::Context;
use crate::classes::device::Device;
use crate::dtype::DType;
use crate::memory::{Memory, View, extents};
use crate::slot::Slot;
use crate::wait;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of a device without an address, which AddressRange.map maps to several. It is freed when this and all its mappings are
/// gone. Its contents are unspecified at first.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct PhysicalMemory {
    slot: Slot<anabranch::PhysicalMemory>,
    size: usize,
}

/// Addresses to which memory is mapped piece by piece, so that a buffer can grow where it is. Nothing is unmapped that is in use: the
/// buffers of a mapping keep it, and graphs that use these do.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct AddressRange {
    slot: Slot<Mutex<anabranch::AddressRange>>,
    context: Context,
    size: usize,
}

impl PhysicalMemory {
    pub(crate) fn create(py: Python<'_>, context: &anabranch::Context, size: usize) -> PyResult<Self> {
        let memory = wait::call(py, || context.create_physical_memory(size))?;
        Ok(Self { slot: Slot::new("physical memory", memory), size })
    }
}

impl AddressRange {
    pub(crate) fn reserve(py: Python<'_>, context: &anabranch::Context, size: usize) -> PyResult<Self> {
        let range = wait::call(py, || context.reserve_addresses(size))?;
        let context = Context::new(context.clone());
        Ok(Self { slot: Slot::new("address range", Mutex::new(range)), context, size })
    }
}

/// Called without the interpreter, because another thread may hold the lock while it calls the driver.
fn lock(range: &Mutex<anabranch::AddressRange>) -> MutexGuard<'_, anabranch::AddressRange> {
    range.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl PhysicalMemory {
    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.size
    }

    /// Gives up this object's hold on the memory, which its mappings keep.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __repr__(&self) -> String {
        let closed = if self.slot.is_open() { "" } else { " (closed)" };
        format!("<anabranch.PhysicalMemory of {} bytes{closed}>", self.size)
    }
}

#[pymethods]
impl AddressRange {
    /// The number of bytes that were reserved.
    #[getter]
    fn nbytes(&self) -> usize {
        self.size
    }

    /// The context whose device uses the memory.
    #[getter]
    fn context(&self) -> Context {
        Context::new(self.context.library().clone())
    }

    /// Maps all of the memory at an offset in bytes, which is a multiple of Context.physical_memory_granularity.
    fn map(&self, py: Python<'_>, offset: usize, memory: &Bound<'_, PhysicalMemory>) -> PyResult<()> {
        let (range, memory) = (self.slot.get(py)?, memory.get().slot.get(py)?);
        wait::call(py, || lock(&range).map(offset, &memory))
    }

    /// Unmaps what was mapped at an offset, when no buffer has any of it and the context is idle. Until then, nothing else can be
    /// mapped there; flush_deferred_drops waits for it. Returns whether something was mapped at that offset.
    fn unmap(&self, py: Python<'_>, offset: usize) -> PyResult<bool> {
        let range = self.slot.get(py)?;
        wait::call(py, || Ok(lock(&range).unmap(offset)))
    }

    /// Lets kernels and copies of another device use all that is mapped now.
    fn allow_peer_access(&self, py: Python<'_>, peer: &Bound<'_, Device>) -> PyResult<()> {
        let (range, peer) = (self.slot.get(py)?, &peer.get().0);
        wait::call(py, || lock(&range).allow_peer_access(peer))
    }

    /// A buffer from an offset in bytes. All of its memory is mapped, and stays mapped as long as the buffer is used. The contents of
    /// memory that was not written are unspecified. Uses of two buffers that have memory in common are not ordered.
    #[pyo3(signature = (offset, shape, dtype = None))]
    fn buffer(
        &self,
        py: Python<'_>,
        offset: usize,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Buffer> {
        let (range, shape) = (self.slot.get(py)?, extents(shape)?);
        let dtype = dtype.map_or(Ok(DType::U8), DType::of_python)?;
        let memory = wait::call(py, || Memory::mapped(&lock(&range), offset, dtype, &shape))?;
        Ok(Buffer::new(View::whole(memory, dtype, shape)))
    }

    /// Gives the addresses back when no buffer has any of them and the context is idle.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __repr__(&self) -> String {
        let closed = if self.slot.is_open() { "" } else { " (closed)" };
        format!("<anabranch.AddressRange of {} bytes{closed}>", self.size)
    }
}
