//! Memory pools.

use crate::classes::device::Device;
use crate::slot::{Lent, Slot};
use crate::wait;
use anabranch::MemoryPoolAttribute;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool of memory for stream-ordered allocations. Freed memory stays in the pool for later allocations until the pool is
/// trimmed, or at a synchronization if the pool holds more than its release threshold. Buffers remain valid when their pool is
/// closed.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct MemoryPool {
    slot: Slot<anabranch::MemoryPool>,
    handle: usize,
    /// The number of a pool that was created. The driver may give its handle to another one afterwards. The default pool of a device, of
    /// which there may be several objects, has 0, and its handle for ever.
    number: u64,
}

static CREATED: AtomicU64 = AtomicU64::new(0);

impl MemoryPool {
    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, anabranch::MemoryPool>> {
        self.slot.get(py)
    }

    fn attribute(&self, py: Python<'_>, attribute: MemoryPoolAttribute) -> PyResult<u64> {
        let pool = self.slot.get(py)?;
        wait::call(py, || pool.attribute(attribute))
    }
}

impl MemoryPool {
    /// A pool that was just created.
    pub(crate) fn created(pool: anabranch::MemoryPool) -> Self {
        Self { number: CREATED.fetch_add(1, Ordering::Relaxed) + 1, ..Self::default_of_device(pool) }
    }

    /// The default pool of a device.
    pub(crate) fn default_of_device(pool: anabranch::MemoryPool) -> Self {
        let handle = pool.as_raw().as_raw();
        Self { slot: Slot::new("memory pool", pool), handle, number: 0 }
    }

    fn identity(&self) -> (u64, usize) {
        (self.number, self.handle)
    }
}

#[pymethods]
impl MemoryPool {
    /// The device.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Device> {
        Ok(Device(self.slot.get(py)?.device().clone()))
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        self.slot.get(py).map(|_| self.handle)
    }

    /// The number of bytes in use by allocations.
    #[getter]
    fn used_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.attribute(py, MemoryPoolAttribute::UsedCurrent)
    }

    /// The largest number of bytes in use since the last reset.
    #[getter]
    fn used_bytes_high(&self, py: Python<'_>) -> PyResult<u64> {
        self.attribute(py, MemoryPoolAttribute::UsedHigh)
    }

    /// The number of bytes reserved from the device.
    #[getter]
    fn reserved_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.attribute(py, MemoryPoolAttribute::ReservedCurrent)
    }

    /// The largest number of bytes reserved since the last reset.
    #[getter]
    fn reserved_bytes_high(&self, py: Python<'_>) -> PyResult<u64> {
        self.attribute(py, MemoryPoolAttribute::ReservedHigh)
    }

    /// The number of bytes that the pool keeps at a synchronization when it could return memory to the device.
    #[getter]
    fn release_threshold(&self, py: Python<'_>) -> PyResult<u64> {
        self.attribute(py, MemoryPoolAttribute::ReleaseThreshold)
    }

    #[setter]
    fn set_release_threshold(&self, py: Python<'_>, bytes: u64) -> PyResult<()> {
        let pool = self.slot.get(py)?;
        wait::call(py, || pool.set_release_threshold(bytes))
    }

    /// Sets the largest numbers of bytes to the current ones.
    fn reset_high_watermarks(&self, py: Python<'_>) -> PyResult<()> {
        let pool = self.slot.get(py)?;
        wait::call(py, || pool.reset_high_watermarks())
    }

    /// Returns memory to the device until the pool reserves at most `keep_bytes`, or no more than its allocations need.
    #[pyo3(signature = (keep_bytes = 0))]
    fn trim(&self, py: Python<'_>, keep_bytes: usize) -> PyResult<()> {
        let pool = self.slot.get(py)?;
        wait::call(py, || pool.trim(keep_bytes))
    }

    /// Allows or forbids another device to use the memory of the pool.
    fn set_peer_access(&self, py: Python<'_>, peer: &Bound<'_, Device>, allowed: bool) -> PyResult<()> {
        let (pool, peer) = (self.slot.get(py)?, peer.get().0.clone());
        wait::call(py, || pool.set_peer_access(&peer, allowed))
    }

    /// Gives up this object's hold on the pool. Buffers of the pool remain valid.
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
        other.cast::<Self>().is_ok_and(|other| self.identity() == other.get().identity())
    }

    fn __hash__(&self) -> usize {
        match self.number {
            0 => self.handle,
            number => number as usize,
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.slot.peek(py) {
            Some(pool) => format!("<anabranch.MemoryPool {:#x} of {}>", self.handle, pool.device().name()),
            None => format!("<anabranch.MemoryPool {:#x} (closed)>", self.handle),
        }
    }
}
