//! Copies: checked when they are enqueued, done when they run.

use super::table::{AllocationTable, Lookup};
use crate::engine::{Operation, Use};
use anabranch_hal::{Copy3d, CopyPlace, Failure, Result, Status};
use std::ptr;

/// What both ends of a copy are, from and to; `CUDA_ERROR_INVALID_VALUE (1)` where they cannot be what they are said to
/// be. No extent is 0.
pub(crate) fn check_copy_3d(table: &AllocationTable, copy: &Copy3d) -> Result<(Lookup, Lookup)> {
    Ok((place(table, &copy.source, copy.extent)?, place(table, &copy.destination, copy.extent)?))
}

/// What one end of the copy is; `CUDA_ERROR_INVALID_VALUE (1)` where its pitch or height do not fit, or it is outside
/// of memory.
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
fn volume_range(place: &CopyPlace, extent: [usize; 3]) -> Option<(u64, usize)> {
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

/// What a copy of rows and slices uses.
pub(crate) fn copy_3d_operation(copy: &Copy3d) -> Operation {
    let end = |place: &CopyPlace| {
        // What overflows was refused when the copy was enqueued.
        let (address, bytes) = volume_range(place, copy.extent).unwrap_or((place.address, 0));
        Use { address, bytes: bytes as u64, may_be_host: place.host }
    };
    Operation::new("a copy", [end(&copy.source), end(&copy.destination)])
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

/// Copies rows and slices, each row by `run_copy`.
///
/// # Safety
/// Both volumes are valid, as `run_copy` needs it, and the copy was checked by [`check_copy_3d`].
pub(crate) unsafe fn run_copy_3d(copy: &Copy3d, run_copy: unsafe fn(u64, u64, usize)) {
    let [width, rows, slices] = copy.extent;
    for slice in 0..slices {
        for row in 0..rows {
            let row_of = |place: &CopyPlace| {
                let [x, y, z] = place.origin;
                offset(place, [x, y + row, z + slice]).map(|offset| place.address.wrapping_add(offset as u64))
            };
            // The check has found that no offset overflows.
            if let (Some(source), Some(destination)) = (row_of(&copy.source), row_of(&copy.destination)) {
                // SAFETY: the row lies in both volumes, which the caller promises are valid.
                unsafe { run_copy(destination, source, width) }
            }
        }
    }
}

/// The pointer to an address that the driver was given as a number.
pub(crate) fn address(address: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address as usize)
}
