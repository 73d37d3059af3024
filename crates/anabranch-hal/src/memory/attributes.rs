//! Attributes of copies, and copies that have some (`CUmemcpyAttributes`, `CUDA_MEMCPY3D_BATCH_OP`).

use super::Copy3d;
use crate::DeviceOrdinal;
use bitflags::bitflags;

bitflags! {
    /// Flags for a copy (`CUmemcpyFlags`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct CopyFlags: u32 {
        /// A hint that the copy should overlap with the work of multiprocessors.
        const PREFER_OVERLAP_WITH_COMPUTE = 0x1;
    }
}

/// When a copy reads its source (`CUmemcpySrcAccessOrder`). The destination is always written in stream order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopySourceOrder {
    /// In stream order.
    #[default]
    Stream,
    /// At any time before the call returns, also before earlier work of the stream.
    DuringCall,
    /// At any time from the call on, also before earlier work of the stream, and after the call has returned.
    Any,
}

/// A place that memory can be in (`CUmemLocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryLocation {
    /// A device.
    Device(DeviceOrdinal),
    /// The host.
    Host,
    /// A NUMA node of the host.
    HostNuma(u32),
}

/// How a copy is made. No attribute changes what is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyAttributes {
    /// When the source is read.
    pub source_order: CopySourceOrder,
    /// Where the source is, as a hint for managed memory and for pageable memory that the device can access.
    pub source_hint: Option<MemoryLocation>,
    /// Where the destination is, as a hint for the same kinds of memory.
    pub destination_hint: Option<MemoryLocation>,
    /// Flags.
    pub flags: CopyFlags,
}

/// A copy with attributes, between two addresses whose kinds the driver infers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributedCopy {
    /// The first address of the destination.
    pub destination: u64,
    /// The first address of the source.
    pub source: u64,
    /// The size in bytes. It is not 0.
    pub bytes: usize,
    /// How the copy is made.
    pub attributes: CopyAttributes,
}

/// A copy of a region with attributes. The driver infers the kinds of both addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributedCopy3d {
    /// The copy. No extent is 0.
    pub copy: Copy3d,
    /// How the copy is made.
    pub attributes: CopyAttributes,
}
