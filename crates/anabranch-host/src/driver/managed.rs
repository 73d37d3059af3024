//! Managed memory: moved and discarded in batches. There is nowhere to move it to.

use super::{Shared, batch};
use crate::engine::{StreamState, work};
use crate::memory::{Fill, Lookup, MemoryKind};
use anabranch_hal::{DevicePointer, Failure, FillPattern, ManagedRange, MemoryLocation, Prefetch, Result, Status};
use std::sync::Arc;

/// What discarded memory contains. Nobody may rely on it, and it is not what was there, so that who does is found.
const DISCARDED: FillPattern = FillPattern::U8(0xd5);

fn check_ranges(shared: &Shared, ranges: &[ManagedRange]) -> Result<()> {
    if ranges.is_empty() {
        return Err(Failure::argument(Status::INVALID_VALUE, "the batch has no ranges"));
    }
    for (index, range) in ranges.iter().enumerate() {
        match shared.memory.table.find(range.address.0, range.bytes) {
            Lookup::Inside(MemoryKind::Managed) if range.bytes > 0 => {}
            _ => {
                let message = format!("range {index} of the batch is empty, or not within managed memory");
                return Err(Failure::argument(Status::INVALID_VALUE, message));
            }
        }
    }
    Ok(())
}

/// Checks what is to be moved, and returns the ranges.
pub(super) fn prefetch_all(
    shared: &Shared,
    stream: &Arc<StreamState>,
    prefetches: &[Prefetch],
) -> Result<Vec<ManagedRange>> {
    batch::queue(shared, stream)?;
    let ranges: Vec<_> = prefetches.iter().map(|prefetch| prefetch.range).collect();
    check_ranges(shared, &ranges)?;
    for prefetch in prefetches {
        if let MemoryLocation::Device(device) = prefetch.location {
            shared.memory.device(device.0)?;
        }
    }
    Ok(ranges)
}

/// Discards ranges in stream order.
///
/// # Safety
/// As for `Memory::discard_batch_async`.
pub(super) unsafe fn discard_all(shared: &Shared, stream: &Arc<StreamState>, ranges: &[ManagedRange]) -> Result<()> {
    let stream = batch::queue(shared, stream)?;
    check_ranges(shared, ranges)?;
    for &ManagedRange { address, bytes } in ranges {
        stream.enqueue(work(Fill { address: address.0, pattern: DISCARDED, count: bytes }));
    }
    Ok(())
}

/// Checks what is to be attached. All memory is memory of this process, so that nothing need be queued.
pub(super) fn attach(shared: &Shared, stream: &Arc<StreamState>, address: DevicePointer, bytes: usize) -> Result<()> {
    shared.captures.refuse(stream)?;
    let table = &shared.memory.table;
    let range = table.range_of(address.0).filter(|range| range.address == address);
    let is_whole = range.is_some_and(|range| bytes == 0 || bytes as u64 == range.bytes);
    if !is_whole || table.kind_at(address.0) != Some(MemoryKind::Managed) {
        let message = "it is not a whole allocation of managed memory";
        return Err(Failure::argument(Status::INVALID_VALUE, message));
    }
    Ok(())
}
