//! Calls that access memory at any address, one after the other: all work is complete before the next call.

use super::calls;
use crate::programs::slots::{ContextSlot, Flags, MemorySlot, Operand, StreamSlot};
use anabranch::hal::{CopyKind, FillPattern, Value};
use std::fmt::{self, Display, Formatter};

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Device memory of the context of the call.
    Device,
    /// Device memory of the other context.
    Other,
    Pinned,
    Pageable,
    Managed,
    /// Memory that the program has allocated.
    Memory(MemorySlot),
    Null,
    /// An address that belongs to no allocation.
    Garbage,
}

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressSpec {
    pub(crate) base: Base,
    pub(crate) offset: u16,
}

/// One side of a copy of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceSpec {
    pub(crate) address: AddressSpec,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
    pub(crate) origin: [usize; 3],
}

impl Display for AddressSpec {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.base {
            Base::Memory(memory) => memory.show(formatter)?,
            base => write!(formatter, "{base:?}")?,
        }
        if self.offset == 0 { Ok(()) } else { write!(formatter, "+{}", self.offset) }
    }
}

impl Operand for AddressSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

impl Operand for PlaceSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { address, pitch, height, origin } = self;
        write!(formatter, "{address} pitch {pitch} height {height} at {origin:?}")
    }
}

calls! {
    /// Calls that access memory at any address.
    ArenaCall {
        Copy "copy" { context: ContextSlot, kind: CopyKind, to: AddressSpec, from: AddressSpec, bytes: usize }
        CopyAsync "copy_async" { stream: StreamSlot, kind: CopyKind, to: AddressSpec, from: AddressSpec, bytes: usize }
        Copy3d "copy_3d_async" { stream: StreamSlot, to: PlaceSpec, from: PlaceSpec, extent: [usize; 3] }
        CopyPeer "copy_peer_async" {
            stream: StreamSlot, to: AddressSpec, to_context: ContextSlot, from: AddressSpec, from_context: ContextSlot,
            bytes: usize,
        }
        Fill "fill_async" { stream: StreamSlot, at: AddressSpec, pattern: FillPattern, count: usize }
        Prefetch "prefetch_async" { stream: StreamSlot, at: AddressSpec, bytes: usize, device: Option<u32> }
        Free "free" { context: ContextSlot, at: AddressSpec }
        FreeAsync "free_async" { stream: StreamSlot, at: AddressSpec }
        FreeTwice "free_twice" { context: ContextSlot, memory: MemorySlot }
        Wait "stream_wait_value" { stream: StreamSlot, at: AddressSpec, value: Value, flags: Flags }
        Write "stream_write_value" { stream: StreamSlot, at: AddressSpec, value: Value, flags: Flags }
    }
}
