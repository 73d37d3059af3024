//! Memory of other APIs and processes, imported by a file descriptor.

use super::Buffer;
#[cfg(unix)]
use crate::context::Context;
use crate::error::{Error, Result};
use anabranch_core::external_memory::ExternalMemoryCore;
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, byte_size};
use anabranch_hal::Status;
use bytemuck::Pod;
use std::fmt;
use std::sync::Arc;

const OPERATION: &str = "using external memory";

/// Memory that another API, such as Vulkan, or another process has exported as a file descriptor. It is used through
/// [buffers](Self::buffer).
///
/// It is given up when this is dropped, every buffer of it, and every graph that uses these, is gone, their last use is
/// complete, and the context is idle; [`flush_deferred_drops`](crate::flush_deferred_drops) waits for that. What has exported
/// it keeps it. Follows the Driver API's group *External Resource Interoperability*.
///
/// On the software device it is a file that can be mapped, such as one of `memfd_create`, which several processes and other
/// code of this one share. An [`ExternalSemaphore`](crate::ExternalSemaphore) orders the work of both sides:
///
/// ```
/// # #[cfg(unix)] {
/// use anabranch::{Buffer, ExternalSemaphoreKind};
/// use std::os::fd::OwnedFd;
/// use std::os::unix::fs::FileExt;
///
/// # let context = anabranch::Instance::new()?.device("host")?.context()?;
/// # let shared = |bytes| { let file = tempfile::tempfile().unwrap(); file.set_len(bytes).unwrap(); file };
/// let (memory_file, semaphore_file) = (shared(4096), shared(8)); // two files without a name
/// let stream = context.create_stream()?;
/// // SAFETY: nobody makes the files shorter, and the semaphore only grows.
/// let (memory, semaphore) = unsafe {
///     let semaphore = OwnedFd::from(semaphore_file.try_clone().unwrap());
///     (
///         context.import_external_memory(OwnedFd::from(memory_file.try_clone().unwrap()), 4096)?,
///         context.import_external_semaphore(semaphore, ExternalSemaphoreKind::Timeline)?,
///     )
/// };
/// // SAFETY: files begin with zeros, no other buffer has any of it, and the other side uses it behind the semaphore.
/// let mut buffer: Buffer<u8> = unsafe { memory.buffer(0, 4096)? };
/// stream.wait_external_semaphore(&semaphore, 1)?;
/// stream.fill(&mut buffer, 7)?;
/// stream.signal_external_semaphore(&semaphore, 2)?;
/// // The other side: it lets the stream go on, and reads what it has written.
/// semaphore_file.write_all_at(&1u64.to_ne_bytes(), 0).unwrap();
/// stream.synchronize()?;
/// let (mut value, mut bytes) = ([0; 8], [0; 4096]);
/// semaphore_file.read_exact_at(&mut value, 0).unwrap();
/// memory_file.read_exact_at(&mut bytes, 0).unwrap();
/// assert_eq!((u64::from_ne_bytes(value), bytes), (2, [7; 4096]));
/// # }
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Clone)]
pub struct ExternalMemory {
    core: Arc<ExternalMemoryCore>,
}

#[cfg(unix)]
impl Context {
    /// Imports memory of the context's device that another API or another process has exported as an opaque file descriptor.
    /// Follows `cuImportExternalMemory` and `cuExternalMemoryGetMappedBuffer`.
    ///
    /// The file descriptor belongs to the driver then; if this fails, it is closed.
    ///
    /// # Safety
    /// If the file descriptor is that of memory, `bytes` is the size with which it was allocated (on the software device: the
    /// file is at least as long, and is not made shorter), as long as this, a buffer of it or a graph uses it. It was not
    /// allocated for one image or buffer only.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver cannot import memory this way;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for 0 bytes, and on the software device for more than
    /// the file has; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE),
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE),
    /// [`CUDA_ERROR_OPERATING_SYSTEM (304)`](crate::Status::OPERATING_SYSTEM) or
    /// [`CUDA_ERROR_UNKNOWN (999)`](crate::Status::UNKNOWN) if the descriptor is not that of memory of the device;
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function.
    pub unsafe fn import_external_memory(
        &self,
        descriptor: std::os::fd::OwnedFd,
        bytes: usize,
    ) -> Result<ExternalMemory> {
        // SAFETY: the caller promises what is said of the memory.
        let core = unsafe { ExternalMemoryCore::import(self.core(), descriptor, bytes, false) }?;
        Ok(ExternalMemory { core })
    }

    /// Imports memory that was allocated for one image or buffer only, which Vulkan calls a dedicated allocation. Otherwise
    /// like [`import_external_memory`](Self::import_external_memory).
    ///
    /// # Safety
    /// As for [`import_external_memory`](Self::import_external_memory), but it was allocated for one image or buffer only.
    ///
    /// # Errors
    /// Same as [`import_external_memory`](Self::import_external_memory).
    pub unsafe fn import_dedicated_external_memory(
        &self,
        descriptor: std::os::fd::OwnedFd,
        bytes: usize,
    ) -> Result<ExternalMemory> {
        // SAFETY: the caller promises what is said of the memory.
        let core = unsafe { ExternalMemoryCore::import(self.core(), descriptor, bytes, true) }?;
        Ok(ExternalMemory { core })
    }
}

impl ExternalMemory {
    /// The size in bytes.
    pub fn byte_len(&self) -> usize {
        self.core.bytes()
    }

    /// A buffer of `length` elements from an offset in bytes. The memory remains imported as long as the buffer is used.
    ///
    /// # Safety
    /// Work that reads an element follows what has written it, here or on the other side. The other side uses the memory only in
    /// work that is ordered with that here, or both only read it; [signals](crate::Stream::signal_external_semaphore) and
    /// [waits](crate::Stream::wait_external_semaphore) order them. No other buffer of this process has any of the memory while
    /// work uses it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the elements extend past the end of the memory, or the
    /// offset is not aligned for them; [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) for more elements than
    /// the address space has.
    #[track_caller]
    pub unsafe fn buffer<T: Pod>(&self, offset: usize, length: usize) -> Result<Buffer<T>> {
        let bytes = byte_size::<T>(length, OPERATION)?;
        let refuse = |message: String, hint: &'static str| {
            let error = Error::argument(Status::INVALID_VALUE, OPERATION, message).with_hint(hint);
            Err(error.at(self.core.context().place()))
        };
        if offset.checked_add(bytes).is_none_or(|end| end > self.core.bytes()) {
            let message = format!("{bytes} bytes at {offset} do not fit into {}", self.core.bytes());
            return refuse(message, "use fewer elements, or a smaller offset");
        }
        let address = self.core.address().byte_add(offset);
        if !address.0.is_multiple_of(align_of::<T>() as u64) {
            let message = format!("{address:?} is not aligned to the {} bytes of the elements", align_of::<T>());
            return refuse(message, "use an offset that is a multiple of the size of the elements");
        }
        let keeper = Keeper::new(self.core.clone());
        let memory = Allocation::foreign(self.core.context(), address, bytes, keeper);
        Ok(Buffer::of_others(memory, length))
    }
}

impl fmt::Debug for ExternalMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ExternalMemory({:?})", self.core)
    }
}
