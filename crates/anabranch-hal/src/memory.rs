//! Memory, pools and copies (Driver API, groups MEM and MALLOC_ASYNC).

use crate::{ContextHandle, DeviceOrdinal, DevicePointer, MemoryPoolHandle, MemoryReport, Result, StreamHandle};
use bitflags::bitflags;

bitflags! {
    /// How pinned memory is made (`CU_MEMHOSTALLOC_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PinnedFlags: u32 {
        /// Pinned for every context, and not just for this one.
        const PORTABLE = 0x1;
        /// Mapped into the device's addresses.
        const DEVICE_MAP = 0x2;
        /// Fast to write for the host, slow to read.
        const WRITE_COMBINED = 0x4;
    }
}

/// Free and total memory of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes free at the moment.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Which kinds of memory a copy connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// From host to device memory.
    HostToDevice,
    /// From device to host memory.
    DeviceToHost,
    /// Within device memory.
    DeviceToDevice,
    /// The driver tells by the addresses. Between two host addresses the host waits until the copy is done.
    Inferred,
}

/// One end of a two- or three-dimensional copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPlace {
    /// The address of the whole volume, a host address where `host` is set.
    pub address: u64,
    /// Whether the address is one of host memory.
    pub host: bool,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Rows from one slice to the next.
    pub height: usize,
    /// Where the region starts: bytes in x, rows in y, slices in z.
    pub origin: [usize; 3],
}

/// A two- or three-dimensional copy (`CUDA_MEMCPY3D`). A two-dimensional one has a depth of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy3d {
    /// Where the data comes from.
    pub source: CopyPlace,
    /// Where it goes.
    pub destination: CopyPlace,
    /// The region's extent: bytes in x, rows in y, slices in z.
    pub extent: [usize; 3],
}

/// What memory is filled with. The address must be aligned to the pattern's width.
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

/// How a memory pool is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPoolOptions {
    /// The pool's limit in bytes, or 0 for the driver's own.
    pub max_bytes: u64,
}

/// A number that a memory pool can be asked for, and some of which can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryPoolAttribute {
    /// Bytes the pool keeps when it could give memory back; may be set.
    ReleaseThreshold,
    /// Bytes reserved from the device.
    ReservedCurrent,
    /// The most bytes ever reserved; setting it to 0 starts anew.
    ReservedHigh,
    /// Bytes in use by allocations.
    UsedCurrent,
    /// The most bytes ever in use; setting it to 0 starts anew.
    UsedHigh,
}

/// Memory: allocated, copied, filled, freed.
pub trait Memory {
    /// Free and total memory of the context's device.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn memory_info(&self, context: ContextHandle) -> Result<MemoryInfo>;

    /// Allocates device memory. 1 for zero bytes, 2 when there is not enough.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn allocate(&self, context: ContextHandle, bytes: usize) -> Result<DevicePointer>;

    /// Frees device memory. May block until the device has done all its work. The null address is ignored.
    ///
    /// # Safety
    /// The handle rule; no queued work uses the memory, except work that this call waits for.
    unsafe fn free(&self, context: ContextHandle, address: DevicePointer) -> Result<()>;

    /// Allocates device memory in stream order: the address is known at once, and usable after this point of the
    /// stream. From `pool`, or the device's default pool.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn allocate_async(
        &self,
        context: ContextHandle,
        bytes: usize,
        pool: Option<MemoryPoolHandle>,
        stream: StreamHandle,
    ) -> Result<DevicePointer>;

    /// Frees memory of [`allocate_async`](Self::allocate_async) in stream order. The null address is ignored.
    ///
    /// # Safety
    /// The handle rule; all other uses of the memory come before this point of the stream.
    unsafe fn free_async(&self, context: ContextHandle, address: DevicePointer, stream: StreamHandle) -> Result<()>;

    /// Allocates pinned host memory.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn allocate_pinned(&self, context: ContextHandle, bytes: usize, flags: PinnedFlags) -> Result<*mut u8>;

    /// Frees pinned host memory. May block until the device has done all its work.
    ///
    /// # Safety
    /// The handle rule; no queued work uses the memory, except work that this call waits for.
    unsafe fn free_pinned(&self, context: ContextHandle, address: *mut u8) -> Result<()>;

    /// Allocates managed memory, which host and device reach under one address. Freed by [`free`](Self::free).
    /// 801 where the device has none.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn allocate_managed(&self, context: ContextHandle, bytes: usize) -> Result<DevicePointer>;

    /// Moves managed memory in stream order to the device, or to the host where `device` is `None`.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn prefetch_async(
        &self,
        context: ContextHandle,
        address: DevicePointer,
        bytes: usize,
        device: Option<DeviceOrdinal>,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Copies in stream order. Zero bytes are no error.
    ///
    /// # Safety
    /// The handle rule; both ranges stay valid until the copy has run.
    unsafe fn copy_async(
        &self,
        context: ContextHandle,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Copies on the legacy default stream, and waits as the driver does (for host destinations until the copy is
    /// complete; for pageable sources until the data is staged).
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn copy(
        &self,
        context: ContextHandle,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
    ) -> Result<()>;

    /// Copies device memory of one context to device memory of another, in stream order.
    ///
    /// # Safety
    /// The handle rule; both ranges stay valid until the copy has run.
    #[allow(clippy::too_many_arguments, reason = "it is the driver's own signature")]
    unsafe fn copy_peer_async(
        &self,
        context: ContextHandle,
        destination: DevicePointer,
        destination_context: ContextHandle,
        source: DevicePointer,
        source_context: ContextHandle,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Copies a region of rows and slices in stream order.
    ///
    /// # Safety
    /// The handle rule; both volumes stay valid until the copy has run.
    unsafe fn copy_3d_async(&self, context: ContextHandle, copy: &Copy3d, stream: StreamHandle) -> Result<()>;

    /// Fills `count` elements of the pattern's width, in stream order.
    ///
    /// # Safety
    /// The handle rule; the range stays valid until the fill has run.
    unsafe fn fill_async(
        &self,
        context: ContextHandle,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: StreamHandle,
    ) -> Result<()>;

    /// The device's default memory pool. 801 where it has none.
    fn default_memory_pool(&self, device: DeviceOrdinal) -> Result<MemoryPoolHandle>;

    /// Makes a memory pool.
    fn memory_pool_create(&self, device: DeviceOrdinal, options: &MemoryPoolOptions) -> Result<MemoryPoolHandle>;

    /// Destroys a memory pool. Allocations from it stay valid until they are freed. 1 for a default pool.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn memory_pool_destroy(&self, pool: MemoryPoolHandle) -> Result<()>;

    /// Gives memory back to the device until the pool reserves no more than `keep_bytes`, or as little as its
    /// allocations allow.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn memory_pool_trim(&self, pool: MemoryPoolHandle, keep_bytes: usize) -> Result<()>;

    /// Reads a number of a pool.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn memory_pool_attribute(&self, pool: MemoryPoolHandle, attribute: MemoryPoolAttribute) -> Result<u64>;

    /// Sets a number of a pool. 1 where it cannot be set, or not to that.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn memory_pool_set_attribute(
        &self,
        pool: MemoryPoolHandle,
        attribute: MemoryPoolAttribute,
        value: u64,
    ) -> Result<()>;

    /// Lets the device `peer` use, or no longer use, memory of the pool.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn memory_pool_set_access(&self, pool: MemoryPoolHandle, peer: DeviceOrdinal, allowed: bool) -> Result<()>;

    /// What was done wrong with the memory of a device, and what of it is allocated. `None` where the driver does not
    /// check memory, or there is no such device. It can be asked anywhere.
    fn memory_report(&self, device: DeviceOrdinal) -> Option<MemoryReport> {
        let _ = device;
        None
    }
}
