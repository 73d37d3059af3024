//! What a driver that checks memory has to tell.

use std::fmt;

/// What a driver that checks how memory is used knows about the memory of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// What was done wrong since the driver was loaded, in the order in which it was found. Of very many, the first.
    pub findings: Vec<MemoryFinding>,
    /// What is allocated and not freed, by address. Memory whose free is queued counts until the free has run.
    pub allocations: Vec<LiveAllocation>,
}

/// A wrong use of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryFinding {
    /// In what way it is wrong.
    pub kind: MemoryFindingKind,
    /// The first address that was used, or that was found changed.
    pub address: u64,
    /// How many bytes were used, or were found changed.
    pub bytes: u64,
    /// The number of the stream whose work used it, where that is known.
    pub stream: Option<u64>,
    /// What happened: the operation, the memory, and who allocated and freed it, as far as that is known.
    pub message: String,
}

/// In what way a use of memory is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFindingKind {
    /// Work used memory that was freed before it ran, or while it ran.
    UseAfterFree,
    /// Work used memory of stream-ordered allocation before the stream had come to the allocation.
    UseBeforeAllocation,
    /// Work used more than the memory has.
    OutOfBounds,
    /// Work used an address at which there is no memory of the driver's.
    NoMemory,
    /// Something changed freed memory.
    WriteAfterFree,
    /// Something changed what lies around memory.
    WriteOutOfBounds,
}

/// Memory that is allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAllocation {
    /// Its first address.
    pub address: u64,
    /// Its size in bytes, as it was asked for.
    pub bytes: u64,
    /// What it is.
    pub kind: AllocationKind,
    /// The number of the stream in whose order it was allocated, where it was.
    pub stream: Option<u64>,
}

/// What a piece of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocationKind {
    /// Plain device memory.
    Device,
    /// Managed memory.
    Managed,
    /// Pinned host memory.
    Pinned,
    /// Memory of a pool.
    Pool,
    /// A global variable of a module.
    Global,
    /// Memory that a graph allocates.
    Graph,
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
            Self::Pool => "memory of a pool",
            Self::Global => "a global variable",
            Self::Graph => "memory of a graph",
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
