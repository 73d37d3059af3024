//! What a queue holds.

use super::kernel::KernelWork;
use super::stream::Position;
use super::value::ValueCondition;
use crate::executable::GraphLaunch;
use crate::graph::GraphBlock;
use crate::memory::{Block, Piece, StagedBytes};
use anabranch_hal::{Callback, Copy3d, FillPattern, HostWork, Value};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The largest upload that is kept in its entry, in bytes.
pub(crate) const SMALL_COPY: usize = 32;

/// One entry of a stream's queue. What is large is boxed, so that queues of many small entries stay small.
pub(crate) enum Entry {
    /// A kernel launch.
    Kernel(Arc<KernelWork>),
    /// A copy between two addresses, each of which may be one of host memory that the driver knows nothing of.
    Copy { destination: u64, source: u64, bytes: usize, to_host: bool, from_host: bool },
    /// An upload of a few bytes, which were copied when it was enqueued.
    SmallCopy { destination: u64, length: u8, source: [u8; SMALL_COPY] },
    /// An upload whose data was copied when it was enqueued.
    StagedCopy { destination: u64, source: Box<StagedBytes> },
    /// A copy of rows and slices.
    Copy3d(Box<Copy3d>),
    /// A fill.
    Fill { address: u64, pattern: FillPattern, count: usize },
    /// Host work, which is dropped once the context is lost.
    HostFunction(HostWork),
    /// Host work of the older kind, which is told the status.
    Callback(Callback),
    /// A place of another stream that must be reached first.
    WaitFor(Position),
    /// A value in memory that must be there first.
    WaitValue(ValueCondition),
    /// A value to write.
    WriteValue { address: u64, value: Value },
    /// Takes the time, in nanoseconds since the driver was made.
    TimeStamp(Arc<AtomicU64>),
    /// Memory is allocated from here on. Only where memory is checked.
    Arrive(u64),
    /// Gives memory back.
    Release(Box<Block>),
    /// Frees memory that a pool has replaced. Only where memory is checked.
    Retire(Box<Piece>),
    /// Gives a share in a graph's memory back.
    ReleaseShare(Arc<GraphBlock>),
    /// A launch of a graph.
    Graph(GraphLaunch),
}

const _: () = assert!(size_of::<Entry>() <= 56, "ten million entries must stay small");

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Kernel(_) => "Kernel",
            Self::Copy { .. } => "Copy",
            Self::SmallCopy { .. } => "SmallCopy",
            Self::StagedCopy { .. } => "StagedCopy",
            Self::Copy3d(_) => "Copy3d",
            Self::Fill { .. } => "Fill",
            Self::HostFunction(_) => "HostFunction",
            Self::Callback(_) => "Callback",
            Self::WaitFor(_) => "WaitFor",
            Self::WaitValue(_) => "WaitValue",
            Self::WriteValue { .. } => "WriteValue",
            Self::TimeStamp(_) => "TimeStamp",
            Self::Arrive(_) => "Arrive",
            Self::Release(_) => "Release",
            Self::Retire(_) => "Retire",
            Self::ReleaseShare(_) => "ReleaseShare",
            Self::Graph(_) => "Graph",
        })
    }
}
