//! Memory, pools and copies (Driver API, groups MEM and MALLOC_ASYNC).

mod attributes;
mod managed;

pub use attributes::{AttributedCopy, AttributedCopy3d, CopyAttributes, CopyFlags, CopySourceOrder, MemoryLocation};
pub use managed::{ManagedRange, MemoryAttachment, Prefetch};

use crate::{
    Call, ContextHandle, DeviceOrdinal, DevicePointer, Live, MemoryPoolHandle, MemoryReport, Result, StreamHandle,
};
use bitflags::bitflags;

bitflags! {
    /// Flags for allocating pinned memory (`CU_MEMHOSTALLOC_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PinnedFlags: u32 {
        /// The memory is pinned for every context, not only for the current one.
        const PORTABLE = 0x1;
        /// The memory is mapped into the address space of the device.
        const DEVICE_MAP = 0x2;
        /// The memory is write-combined: the host writes it fast and reads it slowly.
        const WRITE_COMBINED = 0x4;
    }
}

bitflags! {
    /// Flags for registering host memory (`CU_MEMHOSTREGISTER_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct RegisterFlags: u32 {
        /// The memory is pinned for every context, not only for the current one.
        const PORTABLE = 0x1;
        /// The memory is mapped into the address space of the device.
        const DEVICE_MAP = 0x2;
        /// The memory is that of another device, such as a PCIe device, and not of the host.
        const IO_MEMORY = 0x4;
        /// The device only reads the memory. Memory that is mapped for the host as read-only needs this.
        const READ_ONLY = 0x8;
    }
}

/// The free and total memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The number of bytes that are free at the moment.
    pub free: u64,
    /// The total number of bytes.
    pub total: u64,
}

/// The allocation that an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// The first address.
    pub address: DevicePointer,
    /// The size in bytes.
    pub bytes: u64,
    /// The device that the memory belongs to. Pinned and managed memory can be used by all devices, and belongs to none.
    pub device: Option<DeviceOrdinal>,
}

/// The kinds of memory that a copy reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// From host memory to device memory.
    HostToDevice,
    /// From device memory to host memory.
    DeviceToHost,
    /// From device memory to device memory.
    DeviceToDevice,
    /// The driver infers the kinds from the addresses. A copy between two host addresses blocks the host until it is
    /// complete.
    Inferred,
}

/// The source or destination of a two- or three-dimensional copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPlace {
    /// The address of the whole volume. It is a host address if `host` is set.
    pub address: u64,
    /// Whether the address is in host memory.
    pub host: bool,
    /// The distance between the starts of two rows, in bytes. 0 stands for where the region ends in a row.
    pub pitch: usize,
    /// The distance between the starts of two slices, in rows. 0 stands for where the region ends in a slice.
    pub height: usize,
    /// The start of the region: bytes in x, rows in y, slices in z.
    pub origin: [usize; 3],
}

/// A two- or three-dimensional copy (`CUDA_MEMCPY3D`). A two-dimensional copy has a depth of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy3d {
    /// The source of the copy.
    pub source: CopyPlace,
    /// The destination of the copy.
    pub destination: CopyPlace,
    /// The extents of the region: bytes in x, rows in y, slices in z.
    pub extent: [usize; 3],
}

/// The pattern to fill memory with. The address must be aligned to the width of the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillPattern {
    /// One byte.
    U8(u8),
    /// Two bytes.
    U16(u16),
    /// Four bytes.
    U32(u32),
    /// Eight bytes.
    U64(u64),
}

impl FillPattern {
    /// The width in bytes.
    pub const fn width(self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }
}

/// Options for creating a memory pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPoolOptions {
    /// The maximum size of the pool in bytes, or 0 for the driver's default.
    pub max_bytes: u64,
    /// Whether other processes can open memory of the pool. Needs [`INTERPROCESS_POOLS`](crate::Capabilities::INTERPROCESS_POOLS).
    pub interprocess: bool,
}

/// An attribute of a memory pool (`CUmemPool_attribute`). All can be read, and some can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryPoolAttribute {
    /// The number of bytes that the pool retains when it could return memory to the device. Can be set.
    ReleaseThreshold,
    /// The number of bytes reserved from the device.
    ReservedCurrent,
    /// The largest number of bytes ever reserved. Setting it to 0 resets it.
    ReservedHigh,
    /// The number of bytes in use by allocations.
    UsedCurrent,
    /// The largest number of bytes ever in use. Setting it to 0 resets it.
    UsedHigh,
}

/// The alignment of all memory that drivers allocate, in bytes. It may be more.
pub const ALLOCATION_ALIGNMENT: usize = 256;

/// Allocating, copying, filling and freeing memory.
pub trait Memory {
    /// Returns the free and total memory of the context's device.
    fn memory_info(&self, call: &Call<'_>) -> Result<MemoryInfo>;

    /// Returns the allocation that an address is in, whoever has allocated it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if it is in none that the driver knows.
    fn memory_range(&self, call: &Call<'_>, address: DevicePointer) -> Result<MemoryRange>;

    /// Allocates device memory.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for zero bytes. `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is not enough memory.
    fn allocate(&self, call: &Call<'_>, bytes: usize) -> Result<DevicePointer>;

    /// Frees device memory. May block until the device is idle. Freeing the null address does nothing.
    ///
    /// # Safety
    ///
    /// The memory is allocated, and nobody uses it any more. No queued work may use it, except work that this call waits
    /// for.
    unsafe fn free(&self, call: &Call<'_>, address: DevicePointer) -> Result<()>;

    /// Allocates device memory in stream order, from `pool` or else from the default pool of the device. The address is
    /// known when the call returns. The memory can be used by work that is queued later in the stream.
    fn allocate_async(
        &self,
        call: &Call<'_>,
        bytes: usize,
        pool: Option<Live<'_, MemoryPoolHandle>>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<DevicePointer>;

    /// Frees memory that [`allocate_async`](Self::allocate_async) allocated, in stream order. Freeing the null address
    /// does nothing.
    ///
    /// # Safety
    ///
    /// The memory is allocated, and all other uses of it are ordered before this point of the stream.
    unsafe fn free_async(&self, call: &Call<'_>, address: DevicePointer, stream: Live<'_, StreamHandle>) -> Result<()>;

    /// Allocates pinned host memory.
    fn allocate_pinned(&self, call: &Call<'_>, bytes: usize, flags: PinnedFlags) -> Result<*mut u8>;

    /// Frees pinned host memory. May block until the device is idle.
    ///
    /// # Safety
    ///
    /// The memory is allocated, and nobody uses it any more. No queued work may use it, except work that this call waits
    /// for.
    unsafe fn free_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()>;

    /// Registers host memory of the program: pins it, so that it is pinned memory until it is unregistered. Drivers pin whole
    /// pages, and may refuse memory that shares a page with memory that is registered.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a null address, zero bytes, or unknown flags;
    /// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)` if a part of the range is registered; either of the two for
    /// pinned memory of the driver; `CUDA_ERROR_NOT_SUPPORTED (801)` or `CUDA_ERROR_NOT_PERMITTED (800)` if the device or the system cannot
    /// register memory with the flags; `CUDA_ERROR_OUT_OF_MEMORY (2)` if it cannot be pinned.
    ///
    /// # Safety
    ///
    /// The range is host memory that is allocated, and can be written unless the flags contain
    /// [`READ_ONLY`](RegisterFlags::READ_ONLY). It stays allocated until it is unregistered.
    unsafe fn register_pinned(
        &self,
        call: &Call<'_>,
        address: *mut u8,
        bytes: usize,
        flags: RegisterFlags,
    ) -> Result<()>;

    /// Unregisters host memory, by the address that was registered. May block until the device is idle.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED (713)` if none is registered there; `CUDA_ERROR_INVALID_VALUE (1)` for the
    /// null address.
    ///
    /// # Safety
    ///
    /// No queued work uses the memory, except work that this call waits for.
    unsafe fn unregister_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()>;

    /// Returns the address at which the device of the context accesses pinned memory that is mapped for it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the address is in no such memory.
    fn pinned_device_pointer(&self, call: &Call<'_>, address: *mut u8) -> Result<DevicePointer>;

    /// Allocates managed memory, which the host and the device access at the same address. Free it with
    /// [`free`](Self::free).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support managed memory.
    fn allocate_managed(&self, call: &Call<'_>, bytes: usize) -> Result<DevicePointer>;

    /// Moves managed memory to the device in stream order, or to the host if `device` is `None`.
    ///
    /// # Safety
    ///
    /// The range must remain allocated until the memory was moved.
    unsafe fn prefetch_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        device: Option<DeviceOrdinal>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Moves several ranges of managed memory in stream order, in no order among each other (`cuMemPrefetchBatchAsync`).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` in the legacy default stream, for no ranges, and for a range that has no bytes or is not
    /// within managed memory. `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing.
    ///
    /// # Safety
    ///
    /// The ranges must remain allocated until the memory was moved.
    unsafe fn prefetch_batch_async(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Discards the contents of several ranges of managed memory in stream order, in no order among each other
    /// (`cuMemDiscardBatchAsync`).
    ///
    /// # Errors
    ///
    /// Same as [`prefetch_batch_async`](Self::prefetch_batch_async).
    ///
    /// # Safety
    ///
    /// The ranges must remain allocated until that has run. They do not overlap, and nobody else uses them at the same time.
    /// Whoever reads a range before it is written again may find any values, and others each time.
    unsafe fn discard_batch_async(
        &self,
        call: &Call<'_>,
        ranges: &[ManagedRange],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Discards the contents of several ranges of managed memory and then moves them, in stream order and in no order among each
    /// other (`cuMemDiscardAndPrefetchBatchAsync`).
    ///
    /// # Errors
    ///
    /// Same as [`prefetch_batch_async`](Self::prefetch_batch_async).
    ///
    /// # Safety
    ///
    /// Same as [`discard_batch_async`](Self::discard_batch_async).
    unsafe fn discard_and_prefetch_batch_async(
        &self,
        call: &Call<'_>,
        prefetches: &[Prefetch],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Changes in stream order from where a whole allocation of managed memory is used (`cuStreamAttachMemAsync`). It replaces
    /// what was said before. A stream that is destroyed takes its attachments with it.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if it is not a whole allocation of managed memory, and for a single stream if that is the
    /// legacy default stream. `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing.
    ///
    /// # Safety
    ///
    /// The memory must remain allocated until that has run, and is then used as the attachment says: whatever else uses it comes
    /// before.
    unsafe fn attach_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        bytes: usize,
        attachment: MemoryAttachment,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Copies memory in stream order. Copying zero bytes is not an error.
    ///
    /// # Safety
    ///
    /// Both ranges must remain valid until the copy is complete.
    unsafe fn copy_async(
        &self,
        call: &Call<'_>,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Copies memory on the legacy default stream. Waits as long as the CUDA driver does: if the destination is host
    /// memory, until the copy is complete; if the source is pageable memory, until the data is staged.
    ///
    /// # Safety
    ///
    /// Both ranges must remain valid until the copy is complete.
    unsafe fn copy(&self, call: &Call<'_>, kind: CopyKind, destination: u64, source: u64, bytes: usize) -> Result<()>;

    /// Copies device memory of one context to device memory of another, in stream order.
    ///
    /// # Safety
    ///
    /// Both ranges must remain valid until the copy is complete.
    #[allow(clippy::too_many_arguments, reason = "it is the driver's own signature")]
    unsafe fn copy_peer_async(
        &self,
        call: &Call<'_>,
        destination: DevicePointer,
        destination_context: Live<'_, ContextHandle>,
        source: DevicePointer,
        source_context: Live<'_, ContextHandle>,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Copies a region of rows and slices in stream order.
    ///
    /// # Safety
    ///
    /// Both volumes must remain valid until the copy is complete.
    unsafe fn copy_3d_async(&self, call: &Call<'_>, copy: &Copy3d, stream: Live<'_, StreamHandle>) -> Result<()>;

    /// Copies a region of rows and slices of memory of one context to memory of another, in stream order
    /// (`cuMemcpy3DPeerAsync`).
    ///
    /// # Safety
    ///
    /// Both volumes must remain valid until the copy is complete.
    unsafe fn copy_3d_peer_async(
        &self,
        call: &Call<'_>,
        copy: &Copy3d,
        destination_context: Live<'_, ContextHandle>,
        source_context: Live<'_, ContextHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Makes several copies (`cuMemcpyBatchAsync`). All of them come behind the earlier work of the stream and before its
    /// later work, and they have no order among each other.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` in the legacy default stream, for no copies, and if a copy is invalid. Nothing is
    /// copied then. The detail says which copy it is, if the driver does. `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if
    /// the stream is capturing and the driver has no nodes for it. The capture remains valid.
    ///
    /// # Safety
    ///
    /// All ranges must remain valid until the copies are complete, or, for a source that is read during the call, until it
    /// returns. No destination overlaps another range of the batch. A source that is not read in stream order is not
    /// written from the call on, until it was read.
    unsafe fn copy_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Makes several copies of regions (`cuMemcpy3DBatchAsync`), as [`copy_batch_async`](Self::copy_batch_async) does.
    ///
    /// # Errors
    ///
    /// Same as [`copy_batch_async`](Self::copy_batch_async).
    ///
    /// # Safety
    ///
    /// Same as [`copy_batch_async`](Self::copy_batch_async).
    unsafe fn copy_3d_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy3d],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Makes a copy with attributes (`cuMemcpyWithAttributesAsync`).
    ///
    /// # Errors
    ///
    /// Same as [`copy_batch_async`](Self::copy_batch_async).
    ///
    /// # Safety
    ///
    /// Same as [`copy_batch_async`](Self::copy_batch_async).
    unsafe fn copy_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Makes a copy of a region with attributes (`cuMemcpy3DWithAttributesAsync`).
    ///
    /// # Errors
    ///
    /// Same as [`copy_batch_async`](Self::copy_batch_async).
    ///
    /// # Safety
    ///
    /// Same as [`copy_batch_async`](Self::copy_batch_async).
    unsafe fn copy_3d_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy3d,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Fills `count` elements of the pattern's width in stream order.
    ///
    /// # Safety
    ///
    /// The range must remain valid until the fill is complete.
    unsafe fn fill_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Returns the default memory pool of a device.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support memory pools.
    fn default_memory_pool(&self, device: DeviceOrdinal) -> Result<MemoryPoolHandle>;

    /// Creates a memory pool.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` for an interprocess pool if the device does not support it.
    fn memory_pool_create(&self, device: DeviceOrdinal, options: &MemoryPoolOptions) -> Result<MemoryPoolHandle>;

    /// Destroys a memory pool. Allocations from the pool remain valid until they are freed.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a default pool.
    ///
    /// # Safety
    ///
    /// The pool exists, and nobody uses it during the call or afterwards, except that its allocations are freed.
    unsafe fn memory_pool_destroy(&self, pool: MemoryPoolHandle) -> Result<()>;

    /// Returns memory that no allocation needs to the device. The pool reserves at least `keep_bytes` afterwards if it did
    /// before.
    fn memory_pool_trim(&self, pool: Live<'_, MemoryPoolHandle>, keep_bytes: usize) -> Result<()>;

    /// Reads an attribute of a pool.
    fn memory_pool_attribute(&self, pool: Live<'_, MemoryPoolHandle>, attribute: MemoryPoolAttribute) -> Result<u64>;

    /// Sets an attribute of a pool.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the attribute cannot be set, or not to that value.
    fn memory_pool_set_attribute(
        &self,
        pool: Live<'_, MemoryPoolHandle>,
        attribute: MemoryPoolAttribute,
        value: u64,
    ) -> Result<()>;

    /// Allows or forbids the device `peer` to access memory of the pool. Work that accesses it although that is forbidden
    /// fails with `CUDA_ERROR_ILLEGAL_ADDRESS (700)`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if `peer` does not exist, or is the device of the pool and access is forbidden.
    fn memory_pool_set_access(
        &self,
        pool: Live<'_, MemoryPoolHandle>,
        peer: DeviceOrdinal,
        allowed: bool,
    ) -> Result<()>;

    /// Returns the memory errors that were found on a device, and its current allocations. Returns `None` if the driver
    /// does not check memory, or if there is no such device. May be called from anywhere, including host functions.
    fn memory_report(&self, device: DeviceOrdinal) -> Option<MemoryReport> {
        let _ = device;
        None
    }
}
