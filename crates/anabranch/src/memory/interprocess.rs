//! Memory of other processes.

use super::Buffer;
use super::foreign::check;
use crate::context::Context;
use crate::error::Result;
use anabranch_core::interprocess::OpenedMemory;
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, byte_size};
use anabranch_core::memory_pool::ImportedPoolCore;
use anabranch_hal::{InterprocessMemoryHandle, InterprocessPoolMemoryHandle};
use bytemuck::Pod;
use std::fmt;
use std::sync::Arc;

const OPERATION: &str = "opening memory of another process";

impl<T: Pod> Buffer<T> {
    /// Exports the memory, so that another process can [open](Self::open) it. It must have been allocated with
    /// [`Context::allocate_zeroed`](crate::Context::allocate_zeroed). The handle is 64 bytes, which the program sends in
    /// whatever way it likes. Follows `cuIpcGetMemHandle`.
    ///
    /// The other process can use the memory until this process frees it, and must not use it later. An [interprocess
    /// event](crate::EventFlags::INTERPROCESS) orders the work of both.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it, as the
    /// software device; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for memory that was allocated in
    /// another way, or has no bytes.
    #[track_caller]
    pub fn export(&self) -> Result<InterprocessMemoryHandle> {
        self.allocation().export()
    }

    /// Exports memory that was allocated from an [interprocess pool](crate::MemoryPoolOptions::interprocess), so that another
    /// process that has [imported](ImportedMemoryPool::open) the pool can open it. Follows `cuMemPoolExportPointer`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for memory that is of no such pool, or has no bytes.
    #[track_caller]
    pub fn export_from_pool(&self) -> Result<InterprocessPoolMemoryHandle> {
        self.allocation().export_from_pool()
    }

    /// Opens memory that another process has [exported](Self::export), as `length` elements from its start. It is closed
    /// when the buffer, and every graph that uses it, is gone, the last use is complete, and the context is idle;
    /// [`flush_deferred_drops`](crate::flush_deferred_drops) waits for that. Follows `cuIpcOpenMemHandle`.
    ///
    /// Memory of one device of one process can be open in one context of each device of this process.
    ///
    /// # Safety
    /// The handle is one that [`export`](Self::export) has returned. The memory is that of elements of this type, which are
    /// initialised. The other process keeps the memory until it is
    /// closed here, and both use it only in work that is ordered, or only read it. No other buffer of this process has any of
    /// it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it, as the
    /// software device; [`CUDA_ERROR_INVALID_CONTEXT (201)`](crate::Status::INVALID_CONTEXT) if this process has exported
    /// it; [`CUDA_ERROR_ALREADY_MAPPED (208)`](crate::Status::ALREADY_MAPPED) if it is open in this context already;
    /// [`CUDA_ERROR_MAP_FAILED (205)`](crate::Status::MAP_FAILED),
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) or
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the other process or its memory does not exist any
    /// more, or the bytes are not those of a handle; [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for
    /// memory of another device than the context's; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if there
    /// is less of it.
    #[track_caller]
    pub unsafe fn open(context: &Context, exported: &InterprocessMemoryHandle, length: usize) -> Result<Self> {
        let bytes = byte_size::<T>(length, OPERATION)?;
        of_opened(context, OpenedMemory::open(context.core(), exported)?, bytes, length)
    }
}

fn of_opened<T: Pod>(context: &Context, opened: OpenedMemory, bytes: usize, length: usize) -> Result<Buffer<T>> {
    let address = opened.address();
    check(OPERATION, context, address, bytes, align_of::<T>())?;
    let memory = Allocation::foreign(context.core(), address, bytes, Keeper::new(opened));
    Ok(Buffer::of_others(memory, length))
}

#[cfg(unix)]
impl super::MemoryPool {
    /// Exports the pool, so that another process can [import](ImportedMemoryPool::open) it and open memory that was allocated
    /// from it. It must have been created with [`MemoryPoolOptions::interprocess`](crate::MemoryPoolOptions::interprocess).
    /// The operating system sends the file descriptor to the other process: through a Unix socket, or to a child that inherits
    /// it. Follows `cuMemPoolExportToShareableHandle`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) unless the pool was created for that.
    pub fn export(&self) -> Result<std::os::fd::OwnedFd> {
        use std::os::fd::FromRawFd;
        let descriptor = self.core().export()?;
        // SAFETY: the driver has just made this file descriptor, and nobody else has it.
        Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(descriptor) })
    }
}

/// A memory pool of another process, from which memory is opened and nothing is allocated.
///
/// Buffers remain valid when the pool is dropped.
pub struct ImportedMemoryPool {
    core: Arc<ImportedPoolCore>,
    context: Context,
}

impl ImportedMemoryPool {
    /// Imports a pool that another process has [exported](crate::MemoryPool). Its memory is opened in `context`, which is one
    /// of the pool's device. The file descriptor can be closed afterwards. Follows `cuMemPoolImportFromShareableHandle`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it, as the
    /// software device; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the file descriptor is not that of
    /// a pool.
    #[cfg(unix)]
    pub fn open(context: &Context, descriptor: impl std::os::fd::AsFd) -> Result<Self> {
        let core = ImportedPoolCore::import(context.core(), descriptor.as_fd())?;
        Ok(Self { core, context: context.clone() })
    }

    /// Opens memory of the pool that the other process has [exported](Buffer::export_from_pool), as `length` elements from its
    /// start. It is closed when the buffer, and every graph that uses it, is gone, the last use is complete, and the context is
    /// idle; [`flush_deferred_drops`](crate::flush_deferred_drops) waits for that. Follows `cuMemPoolImportPointer`.
    ///
    /// # Safety
    /// The memory is that of elements of this type, which are initialised. The other process frees the memory after it is
    /// closed here, and both use it only in work that is ordered, or only read it. That work comes behind the allocation. No
    /// other buffer of this process has any of it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_ALREADY_MAPPED (208)`](crate::Status::ALREADY_MAPPED) if it is open in this context already;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the bytes are not those of memory of this pool, if
    /// the other process does not have it any more, or if there is less of it;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for memory of another device than the context's.
    #[track_caller]
    pub unsafe fn open_buffer<T: Pod>(
        &self,
        exported: &InterprocessPoolMemoryHandle,
        length: usize,
    ) -> Result<Buffer<T>> {
        let bytes = byte_size::<T>(length, OPERATION)?;
        of_opened(&self.context, OpenedMemory::open_of_pool(&self.core, exported)?, bytes, length)
    }
}

impl fmt::Debug for ImportedMemoryPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.core, formatter)
    }
}
