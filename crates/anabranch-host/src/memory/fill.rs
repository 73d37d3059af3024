//! Fills: checked when they are enqueued, done when they run.

use super::copy::address;
use super::table::{AllocationTable, Lookup};
use crate::engine::{Operation, Use};
use anabranch_hal::{Failure, FillPattern, Result, Status};

/// What a fill uses.
pub(crate) fn fill_operation(address: u64, bytes: usize) -> Operation {
    Operation::new("a fill", [Use::device(address, bytes as u64)])
}

/// `CUDA_ERROR_INVALID_VALUE (1)` where a fill of so many bytes is outside of memory or not aligned to the pattern.
pub(crate) fn check_fill(table: &AllocationTable, begin: u64, pattern: FillPattern, bytes: usize) -> Result<()> {
    check_alignment(begin, pattern)?;
    let inside = matches!(table.find(begin, bytes), Lookup::Inside(_));
    if inside { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

/// `CUDA_ERROR_INVALID_VALUE (1)` where a fill is not aligned to the pattern.
pub(crate) fn check_alignment(begin: u64, pattern: FillPattern) -> Result<()> {
    let aligned = begin.is_multiple_of(pattern.width() as u64);
    if aligned { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

/// Fills memory.
///
/// # Safety
/// `begin` is aligned to the pattern, and valid for writes of `count` elements.
pub(crate) unsafe fn run_fill(begin: u64, pattern: FillPattern, count: usize) {
    let begin = address(begin);
    match pattern {
        // SAFETY: the caller promises that `count` bytes can be written.
        FillPattern::U8(value) => unsafe { begin.write_bytes(value, count) },
        // SAFETY: the caller promises that `count` elements can be written, and that the first is aligned.
        FillPattern::U16(value) => unsafe { fill_with(begin.cast(), value, count) },
        // SAFETY: the caller promises that `count` elements can be written, and that the first is aligned.
        FillPattern::U32(value) => unsafe { fill_with(begin.cast(), value, count) },
        // SAFETY: the caller promises that `count` elements can be written, and that the first is aligned.
        FillPattern::U64(value) => unsafe { fill_with(begin.cast(), value, count) },
    }
}

/// # Safety
/// `begin` is aligned, and valid for writes of `count` elements.
unsafe fn fill_with<T: Copy>(begin: *mut T, value: T, count: usize) {
    for index in 0..count {
        // SAFETY: the element is one of the `count` that the caller promises can be written.
        unsafe { begin.add(index).write(value) }
    }
}
