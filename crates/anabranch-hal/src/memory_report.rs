//! The report of a driver that checks memory.

use std::fmt;

/// The memory errors and current allocations of a device, from a driver that checks memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// The errors since the driver was loaded, in the order in which they were found. If there are too many, only the
    /// first ones are included.
    pub findings: Vec<MemoryFinding>,
    /// The memory that is allocated, by address. If a free is queued, the memory is included until the free has
    /// completed.
    pub allocations: Vec<LiveAllocation>,
}

/// A memory error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFinding {
    /// The kind of the error.
    pub kind: MemoryFindingKind,
    /// The first address that was used, or that was found to have changed.
    pub address: u64,
    /// The number of bytes that were used, or that were found to have changed.
    pub bytes: u64,
    /// The id of the stream whose work used the memory, if it is known.
    pub stream: Option<u64>,
    /// What happened: the operation, the memory, and what is known about its allocation and its free.
    pub message: String,
}

/// The kind of a memory error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFindingKind {
    /// Work used memory that was freed before the work ran, or while it ran.
    UseAfterFree,
    /// Work used stream-ordered memory before its allocation, in the order of the streams.
    UseBeforeAllocation,
    /// Work accessed memory beyond the end of an allocation.
    OutOfBounds,
    /// Work used an address that belongs to no allocation of the driver.
    NoMemory,
    /// The contents of freed memory changed.
    WriteAfterFree,
    /// The contents of the padding around an allocation changed.
    WriteOutOfBounds,
}

/// An allocation that has not been freed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAllocation {
    /// The first address.
    pub address: u64,
    /// The requested size in bytes.
    pub bytes: u64,
    /// The kind of memory.
    pub kind: AllocationKind,
    /// The id of the stream in whose order the memory was allocated, if it was allocated in stream order.
    pub stream: Option<u64>,
}

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocationKind {
    /// Device memory that was not allocated in stream order.
    Device,
    /// Managed memory.
    Managed,
    /// Pinned host memory.
    Pinned,
    /// Host memory of the program that is registered.
    Registered,
    /// Stream-ordered memory from a pool.
    Pool,
    /// A global variable of a module.
    Global,
    /// Memory that a graph allocated.
    Graph,
    /// Memory that another API or process has exported.
    External,
}

impl fmt::Display for MemoryFindingKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UseAfterFree => "use after free",
            Self::UseBeforeAllocation => "use before allocation",
            Self::OutOfBounds => "use out of bounds",
            Self::NoMemory => "use of no memory",
            Self::WriteAfterFree => "write after free",
            Self::WriteOutOfBounds => "write out of bounds",
        })
    }
}

impl fmt::Display for MemoryFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind, self.message)
    }
}

impl fmt::Display for AllocationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Device => "device memory",
            Self::Managed => "managed memory",
            Self::Pinned => "pinned memory",
            Self::Registered => "registered host memory",
            Self::Pool => "memory of a pool",
            Self::Global => "a global variable",
            Self::Graph => "memory of a graph",
            Self::External => "external memory",
        })
    }
}

impl fmt::Display for LiveAllocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, bytes, kind, stream } = self;
        write!(formatter, "{bytes} bytes of {kind} at {address:#x}")?;
        match stream {
            Some(stream) => write!(formatter, ", allocated in stream {stream}"),
            None => Ok(()),
        }
    }
}
