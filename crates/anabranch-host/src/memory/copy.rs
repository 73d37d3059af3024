//! Copies: checked when they are enqueued, done when they run.

use super::table::{AllocationTable, Lookup, MemoryKind};
use crate::engine::{Operation, Use};
use anabranch_hal::{Copy3d, CopyPlace, Failure, Result, Status};
use std::ptr;

/// A copy of rows and slices that was checked. Its pitches and heights are spelled out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeCopy {
    copy: Copy3d,
    /// Whether one end is pageable host memory.
    pub(crate) touches_pageable: bool,
}

impl VolumeCopy {
    /// `CUDA_ERROR_INVALID_VALUE (1)` where the ends cannot be what they are said to be. No extent is 0.
    pub(crate) fn new(table: &AllocationTable, copy: &Copy3d) -> Result<Self> {
        let (source, from) = place(table, &copy.source, copy.extent)?;
        let (destination, to) = place(table, &copy.destination, copy.extent)?;
        let touches_pageable = from == Lookup::Unknown || to == Lookup::Unknown;
        Ok(Self { copy: Copy3d { source, destination, extent: copy.extent }, touches_pageable })
    }

    /// What the copy uses.
    pub(crate) fn operation(&self) -> Operation {
        let end = |place: &CopyPlace| {
            // What overflows was refused.
            let (address, bytes) = volume_range(place, self.copy.extent).unwrap_or((place.address, 0));
            Use { address, bytes: bytes as u64, may_be_host: place.host }
        };
        Operation::new("a copy", [end(&self.copy.source), end(&self.copy.destination)])
    }

    /// Copies each row by `run_copy`.
    ///
    /// # Safety
    /// Both volumes are valid, as `run_copy` needs it.
    pub(crate) unsafe fn run(&self, run_copy: unsafe fn(u64, u64, usize)) {
        let [width, rows, slices] = self.copy.extent;
        for slice in 0..slices {
            for row in 0..rows {
                let row_of = |place: &CopyPlace| {
                    let [x, y, z] = place.origin;
                    offset(place, [x, y + row, z + slice]).map(|offset| place.address.wrapping_add(offset as u64))
                };
                // The check has found that no offset overflows.
                if let (Some(source), Some(destination)) = (row_of(&self.copy.source), row_of(&self.copy.destination)) {
                    // SAFETY: the row lies in both volumes, which the caller promises are valid.
                    unsafe { run_copy(destination, source, width) }
                }
            }
        }
    }
}

/// One end of a copy, and what memory it is; `CUDA_ERROR_INVALID_VALUE (1)` where its pitch or height do not fit, or it is
/// outside of memory.
fn place(table: &AllocationTable, place: &CopyPlace, extent: [usize; 3]) -> Result<(CopyPlace, Lookup)> {
    let bad = || Failure::new(Status::INVALID_VALUE);
    // Hardware leaves the origin out of the account in memory from pools.
    let counts_origin = table.find(place.address, 0) != Lookup::Inside(MemoryKind::Pooled);
    let place = spelled_out(place, extent, counts_origin).filter(|place| place.address != 0).ok_or_else(bad)?;
    let (first, bytes) = volume_range(&place, extent).ok_or_else(bad)?;
    let found = table.find(first, bytes);
    match found {
        Lookup::Overrun => Err(bad()),
        Lookup::Unknown if !place.host => Err(bad()),
        _ => Ok((place, found)),
    }
}

/// The place with its pitch and height, of which 0 means that rows or slices lie close together. `None`: they are less than
/// the region needs, from its origin on or without it, also where it has a single row or slice.
fn spelled_out(place: &CopyPlace, extent: [usize; 3], counts_origin: bool) -> Option<CopyPlace> {
    let least = |origin: usize, extent: usize, given: usize| {
        let end = origin.checked_add(extent)?;
        let given = if given == 0 { end } else { given };
        (given >= if counts_origin { end } else { extent }).then_some(given)
    };
    let pitch = least(place.origin[0], extent[0], place.pitch)?;
    let height = least(place.origin[1], extent[1], place.height)?;
    Some(CopyPlace { pitch, height, ..*place })
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
    // SAFETY: the caller promises that so many bytes can be read at the one address and written at the other.
    unsafe { ptr::copy(source.cast_const(), destination, bytes) }
}

/// The pointer to an address that the driver was given as a number.
pub(crate) fn address(address: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address as usize)
}
