//! Reserved addresses, and memory that is mapped there (Driver API, group VA).

use crate::{DeviceOrdinal, DevicePointer, Result};

/// Memory of a device without an address (`CUmemGenericAllocationHandle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PhysicalMemoryHandle(pub u64);

/// Reserving addresses, and mapping memory there.
pub trait VirtualMemory {
    /// Returns the number of bytes that sizes, offsets and alignments of a device's physical memory are multiples of.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver does not support virtual memory.
    fn physical_memory_granularity(&self, device: DeviceOrdinal) -> Result<usize>;

    /// Reserves addresses, to which nothing is mapped. An alignment of 0 is the driver's own.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a size that is no multiple of the granularity.
    fn address_reserve(&self, bytes: usize, alignment: usize) -> Result<DevicePointer>;

    /// Gives reserved addresses back.
    ///
    /// # Safety
    ///
    /// They were reserved by one call with that size, and nothing is mapped there.
    unsafe fn address_free(&self, address: DevicePointer, bytes: usize) -> Result<()>;

    /// Allocates memory of a device without an address.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a size that is no multiple of the granularity; `CUDA_ERROR_OUT_OF_MEMORY (2)`
    /// if there is not enough memory.
    fn physical_memory_create(&self, device: DeviceOrdinal, bytes: usize) -> Result<PhysicalMemoryHandle>;

    /// Frees physical memory when nothing maps it any more.
    ///
    /// # Safety
    ///
    /// The memory exists, and nobody uses the handle any more.
    unsafe fn physical_memory_release(&self, memory: PhysicalMemoryHandle) -> Result<()>;

    /// Maps all of a piece of physical memory. No device has access to it yet.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if something is mapped there already.
    ///
    /// # Safety
    ///
    /// The addresses are reserved by the caller. The memory exists and has that size.
    unsafe fn memory_map(&self, address: DevicePointer, bytes: usize, memory: PhysicalMemoryHandle) -> Result<()>;

    /// Unmaps what one call has mapped.
    ///
    /// # Safety
    ///
    /// It was mapped by one call with that size, and no work uses it any more.
    unsafe fn memory_unmap(&self, address: DevicePointer, bytes: usize) -> Result<()>;

    /// Allows or forbids a device to access mapped memory.
    ///
    /// # Safety
    ///
    /// All of the range is mapped. If access is forbidden, no work of that device uses it any more.
    unsafe fn memory_set_access(
        &self,
        address: DevicePointer,
        bytes: usize,
        device: DeviceOrdinal,
        allowed: bool,
    ) -> Result<()>;
}
