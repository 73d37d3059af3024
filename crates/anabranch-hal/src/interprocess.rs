//! Memory of other processes (Driver API, groups MEM and MALLOC_ASYNC).

use crate::{Call, DevicePointer, Live, MemoryPoolHandle, Result};

/// A description of plain device memory that another process can open (`CUipcMemHandle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterprocessMemoryHandle(pub [u8; 64]);

/// A description of memory of an interprocess pool, which another process can open if it has imported the pool
/// (`CUmemPoolPtrExportData`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterprocessPoolMemoryHandle(pub [u8; 64]);

/// Exporting memory to other processes, and opening theirs.
pub trait InterprocessMemory {
    /// Exports memory that [`allocate`](crate::Memory::allocate) has returned.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support this.
    fn memory_export(&self, call: &Call<'_>, address: DevicePointer) -> Result<InterprocessMemoryHandle>;

    /// Opens memory that another process has exported. Peer access is enabled if it is of another device. Opening it again
    /// in the same context returns the same address, and it has to be closed once more.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_CONTEXT (201)` if this process has exported the memory itself. `CUDA_ERROR_MAP_FAILED (205)`,
    /// `CUDA_ERROR_INVALID_HANDLE (400)` or `CUDA_ERROR_INVALID_VALUE (1)` if the memory does not exist any more, or if
    /// another context of this process has opened memory of the same process and device.
    fn memory_open(&self, call: &Call<'_>, exported: &InterprocessMemoryHandle) -> Result<DevicePointer>;

    /// Closes memory that [`memory_open`](Self::memory_open) has opened. May block until the device is idle.
    ///
    /// # Safety
    ///
    /// If the memory was opened once, nobody uses it any more, and no queued work does.
    unsafe fn memory_close(&self, call: &Call<'_>, address: DevicePointer) -> Result<()>;

    /// Exports a pool. Returns a new POSIX file descriptor, which the caller closes.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` unless the pool was created for other processes.
    fn memory_pool_export(&self, pool: Live<'_, MemoryPoolHandle>) -> Result<i32>;

    /// Imports a pool that another process has exported. Nothing can be allocated from it. It is destroyed like other
    /// pools, when the memory that was opened is freed.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the descriptor is not that of a pool.
    ///
    /// # Safety
    ///
    /// The file descriptor is open. It remains the caller's, but drivers may close it if the call fails.
    unsafe fn memory_pool_import(&self, descriptor: i32) -> Result<MemoryPoolHandle>;

    /// Exports memory of an interprocess pool.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the memory is of no such pool.
    fn pool_memory_export(&self, call: &Call<'_>, address: DevicePointer) -> Result<InterprocessPoolMemoryHandle>;

    /// Opens memory of an imported pool. It is freed with [`free`](crate::Memory::free), before the process that has
    /// exported it frees it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the memory is not of that pool, or does not exist any more.
    fn pool_memory_open(
        &self,
        call: &Call<'_>,
        pool: Live<'_, MemoryPoolHandle>,
        exported: &InterprocessPoolMemoryHandle,
    ) -> Result<DevicePointer>;
}
