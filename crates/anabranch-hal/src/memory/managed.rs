//! Ranges of managed memory.

use super::MemoryLocation;
use crate::DevicePointer;

/// A range of managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagedRange {
    /// The first address.
    pub address: DevicePointer,
    /// The size in bytes.
    pub bytes: usize,
}

/// From where managed memory is used (`CUmemAttach_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryAttachment {
    /// From all streams, of any device, and from the host.
    #[default]
    Global,
    /// From the host.
    Host,
    /// From one stream, and from the host.
    Single,
}

/// A range of managed memory that is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The range.
    pub range: ManagedRange,
    /// Where it is moved to.
    pub location: MemoryLocation,
}
