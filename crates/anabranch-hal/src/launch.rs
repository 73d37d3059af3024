//! One kernel launch, as a driver takes it (Driver API, group EXEC).

use std::ffi::c_void;

/// Whether a kernel reads or writes memory that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only reads.
    Read,
    /// Writes, and perhaps reads.
    Write,
}

/// A range of device memory that a launch declares to use: one argument's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredRange {
    /// Which argument points there, from 0.
    pub argument: u32,
    /// First address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// What the kernel may do there.
    pub access: Access,
}

/// One kernel launch.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y and z, where the launch has clusters.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must run at the same time.
    pub cooperative: bool,
    /// The priority of this launch, in place of the stream's.
    pub priority: Option<i32>,
    /// The address of each argument's value, in order; as many as the kernel declares.
    pub arguments: &'a [*const c_void],
    /// The memory that the launch declares to use. May be empty where the caller vouches for the kernel.
    pub ranges: &'a [DeclaredRange],
}
