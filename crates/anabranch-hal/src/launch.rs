//! One kernel launch, as a driver receives it (Driver API, group EXEC).

use crate::{KernelAttributes, LaunchOverlap};
use std::ffi::c_void;

/// How a kernel accesses memory that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The kernel only reads the memory.
    Read,
    /// The kernel writes the memory, and may read it.
    Write,
}

/// A range of device memory that a launch declares to use for one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredRange {
    /// The index of the argument that points to the range, from 0.
    pub argument: u32,
    /// The first address.
    pub address: u64,
    /// The size in bytes, or [`TO_THE_END`](Self::TO_THE_END).
    pub bytes: u64,
    /// How the kernel accesses the range.
    pub access: Access,
}

impl DeclaredRange {
    /// The size of a range that extends to the end of the allocation that its first address is in. An argument that is an
    /// address and nothing else has such a range. If there is no allocation, the kernel has no memory for the argument.
    pub const TO_THE_END: u64 = u64::MAX;
}

/// One kernel launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The extents of the grid in x, y and z, in blocks.
    pub grid: [u32; 3],
    /// The extents of a block in x, y and z, in threads.
    pub block: [u32; 3],
    /// The extents of a cluster in x, y and z, in blocks, if the launch uses clusters.
    pub cluster: Option<[u32; 3]>,
    /// The dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must run at the same time.
    pub cooperative: bool,
    /// The priority of this launch, if it differs from that of the stream.
    pub priority: Option<i32>,
    /// Other attributes of the kernel, if there are any.
    pub attributes: Option<&'a KernelAttributes>,
    /// How the launch overlaps with other work, if it does.
    pub overlap: Option<&'a LaunchOverlap<'a>>,
    /// The address of each argument's value, in order. There are as many as the kernel declares.
    pub arguments: &'a [*const c_void],
    /// The memory ranges that the launch declares to use. May be empty if the caller guarantees that the kernel is
    /// sound.
    pub ranges: &'a [DeclaredRange],
}
