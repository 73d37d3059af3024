//! What is reported about memory to a checker of its use.

use super::block::Block;
use super::piece::RawPiece;
use super::table::MemoryKind;
use std::fmt;

/// Bytes before and after each piece of memory, where memory is checked.
pub(crate) const ZONE: usize = 256;

/// What a new piece of memory is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) kind: MemoryKind,
    pub(crate) device: u32,
    /// As many bytes as were asked for.
    pub(crate) bytes: usize,
    /// The stream in whose order it is allocated.
    pub(crate) stream: Option<u64>,
}

/// Who frees a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreedBy {
    Stream(u64),
    /// A call that first waits for all work of its context.
    Call,
}

/// Observes allocations.
pub(crate) trait MemoryObserver: fmt::Debug + Send + Sync {
    /// A caller gets memory. Nobody uses it yet.
    fn allocated(&self, block: &Block, origin: Origin);

    /// A caller registers memory of the program. No work uses it yet.
    fn registered(&self, address: u64, origin: Origin);

    /// Memory of the program is not registered any more.
    fn unregistered(&self, address: u64);

    /// A stream has reached the allocation of memory.
    fn arrived(&self, address: u64);

    /// Somebody will free memory, or frees it now.
    fn freeing(&self, address: u64, by: FreedBy);

    /// A launch of a graph allocates memory that the graph has at an address of its own.
    fn graph_allocated(&self, address: u64, stream: u64);

    /// Memory of a graph is freed, and keeps its address.
    fn graph_freed(&self, address: u64, by: FreedBy);

    /// Takes memory that is freed.
    fn retire(&self, raw: RawPiece);
}
