//! Fills: checked, and enqueued or captured.

use super::Shared;
use crate::capture::{Recording, Target};
use crate::engine::work;
use crate::memory::{Fill, check_alignment, check_fill};
use anabranch_hal::{DevicePointer, Failure, FillNode, FillPattern, NodeParameters, Result, Status};

/// Enqueues a fill. `CUDA_ERROR_INVALID_VALUE (1)` where it is not aligned to the pattern, or outside of memory, which a
/// capture does not look at.
///
/// # Safety
/// The range stays valid until the fill has run.
pub(super) unsafe fn fill(
    shared: &Shared,
    target: Target<'_>,
    begin: u64,
    pattern: FillPattern,
    count: usize,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let bad = || Failure::new(Status::INVALID_VALUE);
    let bytes = count.checked_mul(pattern.width()).ok_or_else(bad)?;
    match target {
        Target::Queue(stream) => {
            check_fill(&shared.memory.table, begin, pattern, bytes)?;
            stream.enqueue(work(Fill { address: begin, pattern, count }));
            Ok(())
        }
        Target::Capture(mut recording) => {
            check_alignment(begin, pattern)?;
            // SAFETY: the caller keeps the range valid until the fill has run, which is at each launch of the nodes.
            unsafe { record(&mut recording, DevicePointer(begin), pattern, count) }
        }
    }
}

/// Makes nodes of a fill. Nodes have no width of 64 bits: two fills of columns make up one, or one of as many words where
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
        // SAFETY: the fill is within the range, which the caller keeps valid at each launch.
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
