//! Fills.

use super::copy::address;
use super::table::{AllocationTable, Lookup};
use crate::capture::Recording;
use crate::engine::entry::Entry;
use crate::engine::stream::StreamState;
use anabranch_hal::{DevicePointer, Failure, FillNode, FillPattern, NodeParameters, Result, Status};
use std::sync::Arc;

/// Enqueues a fill. 1 where it is outside of memory or not aligned to the pattern.
///
/// # Safety
/// The range stays valid until the fill has run.
pub(crate) unsafe fn fill(stream: &Arc<StreamState>, begin: u64, pattern: FillPattern, count: usize) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let bad = || Failure::new(Status::INVALID_VALUE);
    let bytes = count.checked_mul(pattern.width()).ok_or_else(bad)?;
    check_fill(&stream.core.shared.table, begin, pattern, bytes)?;
    if let Some(mut recording) = stream.recording()? {
        // SAFETY: the caller vouches for the range.
        return unsafe { record(&mut recording, DevicePointer(begin), pattern, count) };
    }
    stream.enqueue(Entry::Fill { address: begin, pattern, count });
    Ok(())
}

/// Makes nodes of a fill. Nodes have no width of 64 bits: two fills of columns stand for one, or one of as many words where
/// both halves are the same.
///
/// # Safety
/// As for [`fill`], at each launch.
#[cold]
unsafe fn record(
    recording: &mut Recording<'_>,
    address: DevicePointer,
    pattern: FillPattern,
    count: usize,
) -> Result<()> {
    let mut add = |address, pitch, pattern, width, height| {
        let node = FillNode { address, pitch, pattern, width, height };
        // SAFETY: the caller vouches for the range.
        unsafe { recording.add(NodeParameters::Fill(node)) }.map(|_| ())
    };
    let FillPattern::U64(value) = pattern else {
        return add(address, 0, pattern, count, 1);
    };
    let [low, high] = [value as u32, (value >> 32) as u32].map(FillPattern::U32);
    if low == high {
        return add(address, 0, low, count * 2, 1);
    }
    let (first, second) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
    add(address, 8, first, 1, count)?;
    add(address.byte_add(4), 8, second, 1, count)
}

/// 1 where a fill of so many bytes is outside of memory or not aligned to the pattern.
pub(crate) fn check_fill(table: &AllocationTable, begin: u64, pattern: FillPattern, bytes: usize) -> Result<()> {
    let inside = matches!(table.find(begin, bytes), Lookup::Inside(_));
    let aligned = begin.is_multiple_of(pattern.width() as u64);
    if inside && aligned { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

/// Fills memory.
///
/// # Safety
/// `begin` is aligned to the pattern, and valid for writes of `count` elements.
pub(crate) unsafe fn run_fill(begin: u64, pattern: FillPattern, count: usize) {
    let begin = address(begin);
    match pattern {
        // SAFETY: the caller vouches for the range.
        FillPattern::U8(value) => unsafe { begin.write_bytes(value, count) },
        // SAFETY: as above, and for the alignment.
        FillPattern::U16(value) => unsafe { fill_with(begin.cast(), value, count) },
        // SAFETY: as above.
        FillPattern::U32(value) => unsafe { fill_with(begin.cast(), value, count) },
        // SAFETY: as above.
        FillPattern::U64(value) => unsafe { fill_with(begin.cast(), value, count) },
    }
}

/// # Safety
/// `begin` is aligned, and valid for writes of `count` elements.
unsafe fn fill_with<T: Copy>(begin: *mut T, value: T, count: usize) {
    for index in 0..count {
        // SAFETY: the caller vouches for the range.
        unsafe { begin.add(index).write(value) }
    }
}
