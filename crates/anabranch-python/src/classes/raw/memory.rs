//! Memory.

use super::owned::{self, OwnedMemory};
use super::pools::pool_of;
use super::{Calls, stream_of};
use crate::classes::context::Context;
use crate::classes::stream::Stream;
use anabranch::hal::{Copy3d, CopyKind, CopyPlace, InterprocessMemoryHandle};
use anabranch::{DeviceOrdinal, DevicePointer, FillPattern, PinnedFlags, RegisterFlags};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ptr::with_exposed_provenance_mut;

/// Calls for memory; see Raw. Sizes are in bytes. Kinds of copies are 1 (from the host to the device), 2 (from the device to the
/// host), 3 (on the device), and 0 or 4, where the driver finds out.
#[pyclass(frozen, weakref, module = "anabranch.raw")]
pub(crate) struct RawMemory(pub(super) Calls);

fn kind_of(kind: u32) -> PyResult<CopyKind> {
    match kind {
        1 => Ok(CopyKind::HostToDevice),
        2 => Ok(CopyKind::DeviceToHost),
        3 => Ok(CopyKind::DeviceToDevice),
        0 | 4 => Ok(CopyKind::Inferred),
        _ => Err(PyValueError::new_err(format!("there is no kind of copies {kind}; there are 0 to 4"))),
    }
}

/// Rows of a region, which begin `pitch` bytes behind each other.
fn rows_at(address: u64, host: bool, pitch: usize) -> CopyPlace {
    CopyPlace { address, host, pitch, height: 0, origin: [0; 3] }
}

#[pymethods]
impl RawMemory {
    /// The free and the total memory of the device (cuMemGetInfo).
    fn info(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let info = self.0.make(py, "asking for the free memory", |driver, call| driver.memory_info(call))?;
        Ok((info.free, info.total))
    }

    /// The allocation that an address is in: its first address, its size, and the number of its device, or None for memory of the
    /// host and managed memory.
    fn range(&self, py: Python<'_>, address: u64) -> PyResult<(u64, u64, Option<u32>)> {
        let range = self
            .0
            .make(py, "asking for an allocation", |driver, call| driver.memory_range(call, DevicePointer(address)))?;
        Ok((range.address.0, range.bytes, range.device.map(|device| device.0)))
    }

    /// Allocates memory (cuMemAlloc).
    pub(super) fn allocate(&self, py: Python<'_>, size: usize) -> PyResult<u64> {
        Ok(self.0.make(py, "allocating memory", |driver, call| driver.allocate(call, size))?.0)
    }

    /// Frees memory, also managed memory (cuMemFree).
    fn free(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        self.0.make(py, "freeing memory", |driver, call| {
            // SAFETY: the caller promises that it is allocated and that nobody uses it any more, as the class says.
            unsafe { driver.free(call, DevicePointer(address)) }
        })
    }

    /// Allocates memory in stream order, from a pool or from the default one (cuMemAllocFromPoolAsync).
    #[pyo3(signature = (size, stream, pool = None))]
    pub(super) fn allocate_async(
        &self,
        py: Python<'_>,
        size: usize,
        stream: usize,
        pool: Option<usize>,
    ) -> PyResult<u64> {
        let address = self.0.make(py, "allocating memory", |driver, call| {
            driver.allocate_async(call, size, pool.map(pool_of).transpose()?, stream_of(stream)?)
        })?;
        Ok(address.0)
    }

    /// Frees memory in stream order (cuMemFreeAsync).
    fn free_async(&self, py: Python<'_>, address: u64, stream: usize) -> PyResult<()> {
        self.0.make(py, "freeing memory", |driver, call| {
            // SAFETY: the caller promises that it is allocated and that nobody uses it behind this, as the class says.
            unsafe { driver.free_async(call, DevicePointer(address), stream_of(stream)?) }
        })
    }

    /// Allocates pinned memory of the host (cuMemHostAlloc).
    #[pyo3(signature = (size, flags = 0))]
    pub(super) fn allocate_pinned(&self, py: Python<'_>, size: usize, flags: u32) -> PyResult<usize> {
        let flags = PinnedFlags::from_bits_retain(flags);
        self.0.make(py, "allocating pinned memory", |driver, call| {
            driver.allocate_pinned(call, size, flags).map(|address| address.expose_provenance())
        })
    }

    /// Frees pinned memory (cuMemFreeHost).
    fn free_pinned(&self, py: Python<'_>, address: usize) -> PyResult<()> {
        self.0.make(py, "freeing pinned memory", |driver, call| {
            // SAFETY: the caller promises that it is allocated and that nobody uses it any more, as the class says.
            unsafe { driver.free_pinned(call, with_exposed_provenance_mut(address)) }
        })
    }

    /// Pins memory of the host (cuMemHostRegister).
    #[pyo3(signature = (address, size, flags = 0))]
    fn register(&self, py: Python<'_>, address: usize, size: usize, flags: u32) -> PyResult<()> {
        let flags = RegisterFlags::from_bits_retain(flags);
        self.0.make(py, "registering memory", |driver, call| {
            // SAFETY: the caller promises that it is allocated until it is unregistered, as the class says.
            unsafe { driver.register_pinned(call, with_exposed_provenance_mut(address), size, flags) }
        })
    }

    /// Ends what `register` did (cuMemHostUnregister).
    fn unregister(&self, py: Python<'_>, address: usize) -> PyResult<()> {
        self.0.make(py, "unregistering memory", |driver, call| {
            // SAFETY: the caller promises that no queued work uses it, as the class says.
            unsafe { driver.unregister_pinned(call, with_exposed_provenance_mut(address)) }
        })
    }

    /// The address of pinned memory for the device (cuMemHostGetDevicePointer).
    fn pinned_device_pointer(&self, py: Python<'_>, address: usize) -> PyResult<u64> {
        let address = self.0.make(py, "asking for the address of pinned memory", |driver, call| {
            driver.pinned_device_pointer(call, with_exposed_provenance_mut(address))
        })?;
        Ok(address.0)
    }

    /// Allocates managed memory (cuMemAllocManaged).
    pub(super) fn allocate_managed(&self, py: Python<'_>, size: usize) -> PyResult<u64> {
        Ok(self.0.make(py, "allocating managed memory", |driver, call| driver.allocate_managed(call, size))?.0)
    }

    /// Moves managed memory in stream order to a device, or to the host if that is None (cuMemPrefetchAsync).
    fn prefetch_async(
        &self,
        py: Python<'_>,
        address: u64,
        size: usize,
        device: Option<u32>,
        stream: usize,
    ) -> PyResult<()> {
        let device = device.map(DeviceOrdinal);
        self.0.make(py, "prefetching memory", |driver, call| {
            // SAFETY: the caller promises that it is allocated until then, as the class says.
            unsafe { driver.prefetch_async(call, DevicePointer(address), size, device, stream_of(stream)?) }
        })
    }

    /// Copies memory in the legacy default stream, and waits as cudaMemcpy does.
    fn copy(&self, py: Python<'_>, kind: u32, destination: u64, source: u64, size: usize) -> PyResult<()> {
        let kind = kind_of(kind)?;
        self.0.make(py, "copying memory", |driver, call| {
            // SAFETY: the caller promises that both ranges are allocated until the copy is complete, as the class says.
            unsafe { driver.copy(call, kind, destination, source, size) }
        })
    }

    /// Copies memory in stream order (cuMemcpyAsync).
    fn copy_async(
        &self,
        py: Python<'_>,
        kind: u32,
        destination: u64,
        source: u64,
        size: usize,
        stream: usize,
    ) -> PyResult<()> {
        let kind = kind_of(kind)?;
        self.0.make(py, "copying memory", |driver, call| {
            // SAFETY: the caller promises that both ranges are allocated until the copy is complete, as the class says.
            unsafe { driver.copy_async(call, kind, destination, source, size, stream_of(stream)?) }
        })
    }

    /// Copies rows of bytes in stream order (cuMemcpy2DAsync). Places are pairs of an address and the distance of rows;
    /// the extent is the length of a row and the number of rows. The driver finds nothing out here: 0 is a copy on the host,
    /// and 4 one between addresses that the device can use.
    fn copy_2d_async(
        &self,
        py: Python<'_>,
        kind: u32,
        destination: (u64, usize),
        source: (u64, usize),
        extent: (usize, usize),
        stream: usize,
    ) -> PyResult<()> {
        kind_of(kind)?;
        let copy = Copy3d {
            source: rows_at(source.0, kind <= 1, source.1),
            destination: rows_at(destination.0, kind == 0 || kind == 2, destination.1),
            extent: [extent.0, extent.1, 1],
        };
        self.0.make(py, "copying memory", |driver, call| {
            // SAFETY: the caller promises that both regions are allocated until the copy is complete, as the class says.
            unsafe { driver.copy_3d_async(call, &copy, stream_of(stream)?) }
        })
    }

    /// Copies memory of one context to that of another in stream order (cuMemcpyPeerAsync).
    #[allow(clippy::too_many_arguments, reason = "it is the driver's own signature")]
    fn copy_peer_async(
        &self,
        py: Python<'_>,
        destination: u64,
        destination_context: &Bound<'_, Context>,
        source: u64,
        source_context: &Bound<'_, Context>,
        size: usize,
        stream: usize,
    ) -> PyResult<()> {
        let to = Calls(destination_context.get().library().clone());
        let from = Calls(source_context.get().library().clone());
        let (destination, source) = (DevicePointer(destination), DevicePointer(source));
        self.0.make(py, "copying memory", |driver, call| {
            // SAFETY: the caller promises that both ranges are allocated until the copy is complete, as the class says.
            unsafe {
                driver.copy_peer_async(call, destination, to.live(), source, from.live(), size, stream_of(stream)?)
            }
        })
    }

    /// Fills bytes in stream order (cuMemsetD8Async).
    fn fill_async(&self, py: Python<'_>, address: u64, value: u8, size: usize, stream: usize) -> PyResult<()> {
        let pattern = FillPattern::U8(value);
        self.0.make(py, "filling memory", |driver, call| {
            // SAFETY: the caller promises that the range is allocated until the fill is complete, as the class says.
            unsafe { driver.fill_async(call, DevicePointer(address), pattern, size, stream_of(stream)?) }
        })
    }

    /// A description of memory for other processes (cuIpcGetMemHandle).
    fn export<'py>(&self, py: Python<'py>, address: u64) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        let exported =
            self.0.make(py, "exporting memory", |driver, call| driver.memory_export(call, DevicePointer(address)))?;
        Ok(pyo3::types::PyBytes::new(py, &exported.0))
    }

    /// Opens memory of another process (cuIpcOpenMemHandle).
    fn open(&self, py: Python<'_>, exported: [u8; 64]) -> PyResult<u64> {
        let exported = InterprocessMemoryHandle(exported);
        Ok(self.0.make(py, "opening memory", |driver, call| driver.memory_open(call, &exported))?.0)
    }

    /// Closes memory of another process (cuIpcCloseMemHandle).
    fn close(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        self.0.make(py, "closing memory", |driver, call| {
            // SAFETY: the caller promises that it is open and that nobody uses it any more, as the class says.
            unsafe { driver.memory_close(call, DevicePointer(address)) }
        })
    }

    /// Like allocate, for memory that is freed with the result.
    fn _own(&self, py: Python<'_>, size: usize) -> PyResult<OwnedMemory> {
        owned::of_device(self, py, size)
    }

    /// Like allocate_managed, for memory that is freed with the result.
    fn _own_managed(&self, py: Python<'_>, size: usize) -> PyResult<OwnedMemory> {
        owned::managed(self, py, size)
    }

    /// Like allocate_pinned, for memory that is freed with the result.
    fn _own_pinned(&self, py: Python<'_>, size: usize, flags: u32) -> PyResult<OwnedMemory> {
        owned::pinned(self, py, size, flags)
    }

    /// Like allocate_async, for memory that is freed with the result, in the order of the stream.
    fn _own_async(
        &self,
        py: Python<'_>,
        size: usize,
        stream: &Bound<'_, Stream>,
        pool: Option<usize>,
    ) -> PyResult<OwnedMemory> {
        owned::in_order(self, py, size, stream, pool)
    }
}
