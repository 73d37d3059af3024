//! Copies: checked when they are enqueued, done when they run.

use super::block::StagedBytes;
use super::table::{AllocationTable, Lookup, MemoryKind};
use crate::checker::Operation;
use crate::engine::entry::{Entry, SMALL_COPY};
use crate::engine::stream::{Position, StreamState};
use crate::engine::wait::Patience;
use anabranch_hal::{Copy3d, CopyKind, CopyPlace, Failure, NodeParameters, Result, Status};
use std::ptr;
use std::sync::Arc;

/// The largest upload from pageable memory that is staged. H100: 128 KiB do not block the host, 64 MiB do.
const STAGING_LIMIT: usize = 256 << 10;

/// How many bytes may be staged at once, in all streams. Beyond it uploads wait for their turn.
const STAGED_IN_ALL: u64 = 64 << 20;

/// How the host takes part in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    /// The source is pageable host memory, and may be staged.
    stage: bool,
    /// The host waits until the copy is done, unless it was staged.
    wait: bool,
    /// The source is host memory.
    from_host: bool,
    /// The destination is.
    to_host: bool,
}

/// Enqueues a copy, and waits for it where the hardware does. `synchronous`: by the rules of the call without a stream.
///
/// # Safety
/// Both ranges stay valid until the copy has run.
pub(crate) unsafe fn copy(
    stream: &Arc<StreamState>,
    kind: CopyKind,
    destination: u64,
    source: u64,
    bytes: usize,
    synchronous: bool,
) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let manner = manner(&stream.core.shared.table, kind, destination, source, bytes, synchronous)?;
    if let Some(mut recording) = stream.recording()? {
        let end = |address, host| CopyPlace { address, host, pitch: bytes, height: 1, origin: [0; 3] };
        let copy = Copy3d {
            source: end(source, manner.from_host),
            destination: end(destination, manner.to_host),
            extent: [bytes, 1, 1],
        };
        // SAFETY: the caller vouches for what the node does.
        unsafe { recording.add(NodeParameters::Copy(copy)) }?;
        return Ok(());
    }
    let engine = &stream.core.shared.engine;
    if let Some(checker) = engine.checker.as_ref().filter(|_| manner.stage)
        && !checker.may_run(&Operation::staging(source, bytes), stream)
    {
        return stream.core.check();
    }
    if manner.stage && bytes <= SMALL_COPY {
        let mut data = [0; SMALL_COPY];
        // SAFETY: the caller vouches for the source, and the array is large enough and the call's own.
        unsafe { ptr::copy_nonoverlapping(address(source).cast_const(), data.as_mut_ptr(), bytes) };
        stream.enqueue(Entry::SmallCopy { destination, length: bytes as u8, source: data });
        return Ok(());
    }
    if manner.stage && bytes <= STAGING_LIMIT {
        // SAFETY: the caller vouches for the source.
        let staged = unsafe { StagedBytes::copy_from(source, bytes, &engine.staged_bytes, STAGED_IN_ALL) };
        if let Some(staged) = staged {
            stream.enqueue(Entry::StagedCopy { destination, source: Box::new(staged) });
            return Ok(());
        }
    }
    let sequence = stream.enqueue(Entry::Copy {
        destination,
        source,
        bytes,
        to_host: manner.to_host,
        from_host: manner.from_host,
    });
    if manner.wait {
        engine.wait(&Position { stream: Arc::clone(stream), sequence }, Patience::Auto);
        stream.core.check()?;
    }
    Ok(())
}

fn manner(
    table: &AllocationTable,
    kind: CopyKind,
    destination: u64,
    source: u64,
    bytes: usize,
    synchronous: bool,
) -> Result<Manner> {
    let from = table.find(source, bytes);
    let to = table.find(destination, bytes);
    let known = |place| matches!(place, Lookup::Inside(_));
    let is_host = |place| matches!(place, Lookup::Unknown | Lookup::Inside(MemoryKind::Pinned));
    let possible = match kind {
        CopyKind::HostToDevice => known(to),
        CopyKind::DeviceToHost => known(from),
        CopyKind::DeviceToDevice => known(to) && known(from),
        CopyKind::Inferred => true,
    };
    if !possible || from == Lookup::Overrun || to == Lookup::Overrun || source == 0 || destination == 0 {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    let from_pageable = from == Lookup::Unknown;
    let to_pageable = to == Lookup::Unknown;
    let between_hosts = kind == CopyKind::Inferred && is_host(from) && is_host(to);
    let touches_host = is_host(from) || is_host(to);
    Ok(Manner {
        stage: from_pageable && !between_hosts,
        wait: from_pageable || to_pageable || between_hosts || (synchronous && touches_host),
        from_host: is_host(from),
        to_host: is_host(to),
    })
}

/// Enqueues a copy of rows and slices.
///
/// # Safety
/// Both volumes stay valid until the copy has run.
pub(crate) unsafe fn copy_3d(stream: &Arc<StreamState>, copy: &Copy3d) -> Result<()> {
    if copy.extent.contains(&0) {
        return Ok(());
    }
    let (from, to) = check_copy_3d(&stream.core.shared.table, copy)?;
    if let Some(mut recording) = stream.recording()? {
        // SAFETY: the caller vouches for what the node does.
        unsafe { recording.add(NodeParameters::Copy(*copy)) }?;
        return Ok(());
    }
    let sequence = stream.enqueue(Entry::Copy3d(Box::new(*copy)));
    if from == Lookup::Unknown || to == Lookup::Unknown {
        stream.core.shared.engine.wait(&Position { stream: Arc::clone(stream), sequence }, Patience::Auto);
        stream.core.check()?;
    }
    Ok(())
}

/// What both ends of a copy are, from and to; 1 where they cannot be what they are said to be. No extent is 0.
pub(crate) fn check_copy_3d(table: &AllocationTable, copy: &Copy3d) -> Result<(Lookup, Lookup)> {
    Ok((place(table, &copy.source, copy.extent)?, place(table, &copy.destination, copy.extent)?))
}

/// What one end of the copy is; 1 where its pitch or height do not fit, or it is outside of memory.
fn place(table: &AllocationTable, place: &CopyPlace, extent: [usize; 3]) -> Result<Lookup> {
    let bad = || Failure::new(Status::INVALID_VALUE);
    let [x, y, z] = place.origin;
    let [width, rows, slices] = extent;
    let row_end = x.checked_add(width).ok_or_else(bad)?;
    let rows_end = y.checked_add(rows).ok_or_else(bad)?;
    let slices_end = z.checked_add(slices).ok_or_else(bad)?;
    let several_rows = rows_end > 1 || slices_end > 1;
    if place.address == 0 || (several_rows && row_end > place.pitch) || (slices_end > 1 && rows_end > place.height) {
        return Err(bad());
    }
    let (first, bytes) = volume_range(place, extent).ok_or_else(bad)?;
    let found = table.find(first, bytes);
    match found {
        Lookup::Overrun => Err(bad()),
        Lookup::Unknown if !place.host => Err(bad()),
        _ => Ok(found),
    }
}

/// The range from the first byte of a region to its last, by its address and size. `None`: it is too large. No extent is 0.
pub(crate) fn volume_range(place: &CopyPlace, extent: [usize; 3]) -> Option<(u64, usize)> {
    let [x, y, z] = place.origin;
    let [width, rows, slices] = extent;
    let begin = offset(place, [x, y, z])?;
    let last_row = [x, y.checked_add(rows)?.checked_sub(1)?, z.checked_add(slices)?.checked_sub(1)?];
    let end = offset(place, last_row)?.checked_add(width)?;
    Some((place.address.checked_add(begin as u64)?, end.checked_sub(begin)?))
}

/// How far a point is from the volume's address.
fn offset(place: &CopyPlace, [x, y, z]: [usize; 3]) -> Option<usize> {
    z.checked_mul(place.height)?.checked_add(y)?.checked_mul(place.pitch)?.checked_add(x)
}

/// Copies between two addresses. The ranges may overlap.
///
/// # Safety
/// The source is valid for reads, and the destination for writes, of `bytes` bytes.
pub(crate) unsafe fn run_copy(destination: u64, source: u64, bytes: usize) {
    let (destination, source) = (address(destination), address(source));
    // SAFETY: the caller vouches for both ranges.
    unsafe { ptr::copy(source.cast_const(), destination, bytes) }
}

/// Copies rows and slices.
///
/// # Safety
/// Both volumes are valid, and the copy was checked by [`copy_3d`].
pub(crate) unsafe fn run_copy_3d(copy: &Copy3d) {
    let [width, rows, slices] = copy.extent;
    for slice in 0..slices {
        for row in 0..rows {
            let row_of = |place: &CopyPlace| {
                let [x, y, z] = place.origin;
                offset(place, [x, y + row, z + slice]).map(|offset| place.address.wrapping_add(offset as u64))
            };
            // The check has found that no offset overflows.
            if let (Some(source), Some(destination)) = (row_of(&copy.source), row_of(&copy.destination)) {
                // SAFETY: the caller vouches for the volumes, and the row lies in them.
                unsafe { run_copy(destination, source, width) }
            }
        }
    }
}

/// The pointer to an address that the driver was given as a number.
pub(crate) fn address(address: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address as usize)
}
