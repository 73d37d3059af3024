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

/// A range of managed memory that is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The range.
    pub range: ManagedRange,
    /// Where it is moved to.
    pub location: MemoryLocation,
}
