//! Copies between plain host memory and other memory, through pinned memory.
//!
//! A driver that copies from or to plain memory may wait, in the call, for the earlier work of the stream. A submission that
//! uses memory of a graph excludes others while it calls the driver, so that it must not wait there: it might wait for work
//! that needs one of them. And some drivers keep other threads waiting meanwhile that create an event, for example. Here only the
//! library waits, for an event.

use super::plain_copy::PlainCopy;
use super::scope;
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::Allocation;
use anabranch_core::on_host::{copy_rows, row};
use anabranch_core::staging::StagingBlock;
use anabranch_core::stream::SyncEvent;
use anabranch_core::trace;
use anabranch_hal::{Copy3d, CopyPlace};
use anabranch_sync::Mutex;
use std::collections::VecDeque;
use std::fmt;

/// Larger copies are made in parts of this size in bytes: while the device copies one, the host copies another.
const PART: usize = 1 << 20;

/// How many blocks the uploads of a scope use at once.
const MOST_BLOCKS: usize = 16;

/// The parts of a copy. Launches of graphs on other threads may write memory that graphs retain between two calls, so that a copy
/// of it is one part.
fn parts(plain: &PlainCopy<'_>, is_retained: bool) -> impl Iterator<Item = Copy3d> + use<> {
    let (copy, extent) = (plain.copy, plain.copy.extent);
    let steps = if is_retained { extent } else { part_of(extent) };
    let positions = move |axis: usize| (0..extent[axis]).step_by(steps[axis]);
    let origins = positions(2).flat_map(move |z| positions(1).flat_map(move |y| positions(0).map(move |x| [x, y, z])));
    origins.map(move |begin| Copy3d {
        source: moved(copy.source, begin),
        destination: moved(copy.destination, begin),
        extent: std::array::from_fn(|axis| steps[axis].min(extent[axis] - begin[axis])),
    })
}

/// The place of a part that begins there in the region.
fn moved(place: CopyPlace, begin: [usize; 3]) -> CopyPlace {
    CopyPlace { origin: std::array::from_fn(|axis| place.origin[axis] + begin[axis]), ..place }
}

/// The extent of a part of a region, of which no extent is 0.
fn part_of([width, rows, slices]: [usize; 3]) -> [usize; 3] {
    let width_of_part = width.min(PART);
    let rows_of_part = (PART / width).clamp(1, rows);
    let slices_of_part = (PART / width / rows).clamp(1, slices);
    [width_of_part, rows_of_part, slices_of_part]
}

/// Staging memory for a part of a copy.
fn block_for(stream: &Stream, part: &Copy3d) -> Result<StagingBlock> {
    StagingBlock::take(stream.core().context(), part.extent.iter().product())
}

/// The same copy to the block, and from there.
fn through(part: &Copy3d, block: &StagingBlock) -> Result<(Copy3d, Copy3d)> {
    let [width, rows, slices] = part.extent;
    let address = block.pointer(width * rows * slices, 1, 1)?.expose_provenance() as u64;
    // The region alone.
    let staged = CopyPlace { pitch: width, height: rows, ..row(address, width) };
    Ok((Copy3d { destination: staged, ..*part }, Copy3d { source: staged, ..*part }))
}

/// Queues a part of a copy, while the stream is in no capture. Returns what `queue` returns, and an event behind it.
fn queue_part<R>(
    stream: &Stream,
    plain: &PlainCopy<'_>,
    queue: impl FnOnce() -> Result<R>,
) -> Result<(R, Option<SyncEvent>)> {
    scope::outside_captures(stream, plain.operation, || {
        scope::refuse_captured(stream, plain.operation, plain.memory())?;
        Ok((queue()?, stream.core().sync_event()?))
    })
}

/// A block that the device writes.
struct Reading {
    block: StagingBlock,
    /// From the block to plain memory.
    rest: Copy3d,
    written: Option<SyncEvent>,
}

impl Reading {
    /// Waits for the device, and copies to plain memory. Returns the block, which nobody uses any more.
    ///
    /// # Safety
    /// The destination is valid, and nobody else uses it.
    unsafe fn finish(self) -> Result<StagingBlock> {
        // A panic of earlier work is left for later calls on the stream to report.
        self.written.as_ref().map_or(Ok(()), SyncEvent::synchronize)?;
        // SAFETY: the copy to the block is complete, and the caller keeps the destination valid, which nobody else uses.
        unsafe { copy_rows(&self.rest) };
        Ok(self.block)
    }
}

/// Copies to plain memory. Returns when the copy is complete.
///
/// # Safety
/// The source is within the memory. The destination is valid until this returns, and nobody else uses it.
#[track_caller]
pub(super) unsafe fn download(stream: &Stream, plain: &PlainCopy<'_>) -> Result<()> {
    trace::queued!(stream = stream.core().id(), "{}", plain.operation);
    let _whole = trace::Whole::begin();
    let (mut before, mut idle) = (None::<Reading>, None);
    let is_retained = plain.memory().is_some_and(Allocation::is_retained);
    for part in parts(plain, is_retained) {
        let ((block, rest), written) = queue_part(stream, plain, || {
            let block = idle.take().map_or_else(|| block_for(stream, &part), Ok)?;
            let (to_block, rest) = through(&part, &block)?;
            // SAFETY: the source is within the memory. The block is freed, or used by somebody else, only when the copy is over.
            unsafe { plain.queue(stream, &to_block) }?;
            Ok((block, rest))
        })?;
        if let Some(reading) = before.replace(Reading { block, rest, written }) {
            // SAFETY: the caller keeps the destination valid, which nobody else uses.
            idle = Some(unsafe { reading.finish() }?);
        }
    }
    if let Some(reading) = before {
        // SAFETY: the same.
        unsafe { reading.finish() }?.give_back();
    }
    if let Some(block) = idle {
        block.give_back();
    }
    Ok(())
}

/// Waits until the device has read a block, and returns it for reuse. If that fails, it is freed later.
fn give_back((block, read): (StagingBlock, Option<SyncEvent>)) -> Result<()> {
    read.as_ref().map_or(Ok(()), SyncEvent::synchronize)?;
    block.give_back();
    Ok(())
}

/// Blocks that the device may still read, each with an event behind that.
#[derive(Default)]
pub(super) struct Written(VecDeque<(StagingBlock, Option<SyncEvent>)>);

impl fmt::Debug for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Written({} blocks)", self.0.len())
    }
}

impl Written {
    /// The block that was written first, if there are as many as there may be.
    fn pop_surplus(&mut self) -> Option<(StagingBlock, Option<SyncEvent>)> {
        if self.0.len() < MOST_BLOCKS { None } else { self.0.pop_front() }
    }

    /// Returns the blocks for reuse when the device has read them.
    pub(super) fn give_back(self) {
        for written in self.0 {
            // The scope has waited, and has the errors.
            let _ = give_back(written);
        }
    }
}

/// Copies from plain memory, which is not used any more when this returns. It returns before the copy is complete, unless too many
/// blocks are in use, or a graph retains the memory, whose block may be large.
///
/// # Safety
/// The destination is within the memory. The source is valid until this returns, and nobody writes it.
#[track_caller]
pub(super) unsafe fn upload(stream: &Stream, plain: &PlainCopy<'_>, written: &Mutex<Written>) -> Result<()> {
    trace::queued!(stream = stream.core().id(), "{}", plain.operation);
    let _whole = trace::Whole::begin();
    let is_retained = plain.memory().is_some_and(Allocation::is_retained);
    for part in parts(plain, is_retained) {
        let surplus = written.lock().pop_surplus();
        surplus.map_or(Ok(()), give_back)?;
        let block_and_event = queue_part(stream, plain, || {
            let block = block_for(stream, &part)?;
            let (to_block, from_block) = through(&part, &block)?;
            // SAFETY: the caller keeps the source valid; the block has room for the part, and is used by nobody else.
            unsafe { copy_rows(&to_block) };
            // SAFETY: the destination is within the memory. The block is freed, or used by somebody else, only when the copy is
            // over.
            unsafe { plain.queue(stream, &from_block) }?;
            Ok(block)
        })?;
        if is_retained {
            give_back(block_and_event)?;
        } else {
            written.lock().0.push_back(block_and_event);
        }
    }
    Ok(())
}
