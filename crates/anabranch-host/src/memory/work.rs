//! Queue entries that work on memory.
//!
//! The caller that enqueues it guarantees that the memory is valid until it has run. The SAFETY comments below rest on
//! that, and on the checks that were made then.

use super::HostMemory;
use super::block::{Block, StagedBytes};
use super::copy::{VolumeCopy, address, run_copy};
use super::fill::{fill_operation, run_fill};
use super::graph::GraphBlock;
use super::leaving::Leaving;
use super::observer::FreedBy;
use super::piece::Piece;
use super::racing::{copy_racing, store_racing};
use super::value::value_write_operation;
use crate::engine::{Entry, Operation, Outcome, Turn, Use, Work, reduce_value, work, write_value};
use anabranch_hal::{FillPattern, Reduction, Value};
use std::sync::Arc;

/// The largest upload that is kept in its entry, in bytes.
pub(crate) const SMALL_COPY: usize = 23;

/// Copies bytes of the host's, which nobody writes. `RACING`: other work may use the destination at the same time, as the
/// variables of modules.
///
/// # Safety
/// The destination is valid for as many bytes, and does not overlap the source.
unsafe fn store<const RACING: bool>(destination: u64, source: &[u8]) {
    if RACING {
        // SAFETY: the caller keeps the destination valid. What may use it at the same time does so atomically.
        unsafe { store_racing(destination, source) }
    } else {
        // SAFETY: the caller keeps the destination valid, and nobody else uses it now.
        unsafe { run_copy(destination, source.as_ptr().expose_provenance() as u64, source.len()) }
    }
}

/// A copy between two addresses, each of which may be one of host memory that the driver knows nothing of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<const RACING: bool> {
    pub(crate) destination: u64,
    pub(crate) source: u64,
    pub(crate) bytes: usize,
    pub(crate) to_host: bool,
    pub(crate) from_host: bool,
}

impl<const RACING: bool> Work for Copy<RACING> {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        if RACING && self.from_host {
            // SAFETY: the caller that enqueued the copy guaranteed the source, which the program does not write meanwhile.
            let source = unsafe { std::slice::from_raw_parts(address(self.source).cast_const(), self.bytes) };
            // SAFETY: the caller that enqueued the copy guaranteed the destination, which is memory of the driver's.
            unsafe { store_racing(self.destination, source) }
        } else if RACING {
            // SAFETY: the caller that enqueued the copy guaranteed both ranges.
            unsafe { copy_racing(self.destination, self.source, self.bytes) }
        } else {
            // SAFETY: the caller that enqueued the copy guaranteed both ranges.
            unsafe { run_copy(self.destination, self.source, self.bytes) }
        }
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        let end = |address, may_be_host| Use { address, bytes: self.bytes as u64, may_be_host };
        let ends = [end(self.source, self.from_host), end(self.destination, self.to_host)];
        Some(Operation::new("a copy", ends))
    }
}

/// An upload of a few bytes, which were copied when it was enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallCopy<const RACING: bool> {
    pub(crate) destination: u64,
    pub(crate) length: u8,
    pub(crate) source: [u8; SMALL_COPY],
}

impl<const RACING: bool> Work for SmallCopy<RACING> {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        // SAFETY: the caller that enqueued the copy guaranteed the destination; the source is its own, and at least as
        // long.
        unsafe { store::<RACING>(self.destination, &self.source[..usize::from(self.length)]) }
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        Some(Operation::new("a copy", [Use::device(self.destination, u64::from(self.length))]))
    }
}

/// An upload whose data was copied when it was enqueued.
#[derive(Debug)]
pub(crate) struct StagedCopy<const RACING: bool> {
    pub(crate) destination: u64,
    pub(crate) source: StagedBytes,
}

impl<const RACING: bool> Work for StagedCopy<RACING> {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        let source = self.source.data();
        // SAFETY: the caller that enqueued the copy guaranteed the destination; the source is its own.
        unsafe { store::<RACING>(self.destination, source) }
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        Some(Operation::new("a copy", [Use::device(self.destination, self.source.data().len() as u64)]))
    }
}

impl Work for VolumeCopy {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        // SAFETY: the caller that enqueued the copy guaranteed both volumes.
        unsafe { VolumeCopy::run(self, run_copy) }
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        Some(VolumeCopy::operation(self))
    }
}

/// A fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    pub(crate) pattern: FillPattern,
    pub(crate) count: usize,
}

impl Work for Fill {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        // SAFETY: the caller that enqueued the fill guaranteed the range; that the address is aligned was checked then.
        unsafe { run_fill(self.address, self.pattern, self.count) }
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        Some(fill_operation(self.address, self.count.saturating_mul(self.pattern.width())))
    }
}

/// A value to write, or to combine with what is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueWrite {
    pub(crate) address: u64,
    pub(crate) value: Value,
    pub(crate) reduction: Option<Reduction>,
}

impl ValueWrite {
    /// Writes the value, or what it makes of the number that is there.
    ///
    /// # Safety
    /// The address is aligned for the value, and valid, initialised memory.
    pub(crate) unsafe fn run(&self) {
        match self.reduction {
            // SAFETY: the caller promises that the address is valid, and aligned.
            None => unsafe { write_value(self.address, self.value) },
            // SAFETY: the caller promises that the address is valid, and aligned.
            Some(reduction) => unsafe { reduce_value(self.address, self.value, reduction) },
        }
    }
}

impl Work for ValueWrite {
    fn run(&mut self, turn: &Turn<'_>) -> Outcome {
        // SAFETY: the caller that enqueued the write guaranteed the address; its alignment was checked then.
        unsafe { ValueWrite::run(self) }
        turn.engine.values.written_at(self.address);
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        Some(value_write_operation(self.address, self.value))
    }
}

/// Memory is allocated from here on. Only where there is an observer.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) address: u64,
}

impl Work for Arrival {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        self.memory.notify(|observer| observer.arrived(self.address));
        Outcome::Done
    }

    fn skip(&mut self, turn: &Turn<'_>) -> Outcome {
        self.run(turn)
    }
}

/// What is freed where the stream comes to it, whether or not the context is lost.
struct Release<T>(#[allow(dead_code, reason = "held for its drop")] T);

impl<T: Send> Work for Release<T> {
    fn run(&mut self, _: &Turn<'_>) -> Outcome {
        Outcome::Done
    }
}

/// An entry that frees a block.
pub(crate) fn release(leaving: &Leaving, block: Block) -> Entry {
    let noted = leaving.note(block.address(), block.bytes() as u64);
    work(Release(Box::new((noted, block))))
}

/// An entry that frees memory of that many bytes, which a pool has replaced.
pub(crate) fn retire(leaving: &Leaving, piece: Piece, bytes: usize) -> Entry {
    let noted = leaving.note(piece.address(), bytes as u64);
    work(Release(Box::new((noted, piece))))
}

/// Frees memory that a graph has allocated.
#[derive(Debug)]
pub(crate) struct FreeGraphBlock {
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) block: Arc<GraphBlock>,
}

impl Work for FreeGraphBlock {
    fn run(&mut self, turn: &Turn<'_>) -> Outcome {
        let by = FreedBy::Stream(turn.stream.id);
        self.memory.notify(|observer| observer.graph_freed(self.block.address(), by));
        Outcome::Done
    }
}
