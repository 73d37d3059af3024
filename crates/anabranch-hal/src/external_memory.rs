//! Memory of other APIs and processes (Driver API, group EXTRES_INTEROP).

use crate::{Call, DevicePointer, ExternalMemoryHandle, Live, Result};

/// Importing memory that another API or another process has exported, such as Vulkan.
pub trait ExternalMemory {
    /// Imports memory by an opaque POSIX file descriptor. On success the driver owns the descriptor; otherwise it has
    /// either closed it or left it open. `dedicated`: the memory was allocated for one resource only.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot import memory this way; another error if the descriptor is not
    /// that of memory of the context's device.
    ///
    /// # Safety
    ///
    /// The file descriptor is open. If it is that of memory, there are so many bytes of it, as long as it is imported.
    unsafe fn external_memory_import(
        &self,
        call: &Call<'_>,
        descriptor: i32,
        bytes: usize,
        dedicated: bool,
    ) -> Result<ExternalMemoryHandle>;

    /// Gives a part of imported memory an address.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for no bytes, or if they are not all of that memory.
    fn external_memory_map(
        &self,
        call: &Call<'_>,
        memory: Live<'_, ExternalMemoryHandle>,
        offset: usize,
        bytes: usize,
    ) -> Result<DevicePointer>;

    /// Takes the address of imported memory back. May block until the device is idle.
    ///
    /// # Safety
    ///
    /// The address was given by one call of [`external_memory_map`](Self::external_memory_map), and nobody uses the memory
    /// there any more, nor does queued work.
    unsafe fn external_memory_unmap(&self, call: &Call<'_>, address: DevicePointer) -> Result<()>;

    /// Gives imported memory up. What has exported it keeps it.
    ///
    /// # Safety
    ///
    /// The memory exists, none of it has an address any more, and nobody uses the handle during the call or afterwards.
    unsafe fn external_memory_destroy(&self, call: &Call<'_>, memory: ExternalMemoryHandle) -> Result<()>;
}
