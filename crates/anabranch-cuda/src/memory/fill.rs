//! Fills. The driver fills with 8, 16 and 32 bits; 64 bits are made of two fills of columns.

use crate::error::check;
use crate::ffi::CudaFunctions;
use crate::ffi::cuda_types::CUstream;
use anabranch_hal::{DevicePointer, Failure, FillPattern, Result, Status};

/// The most rows in one fill of columns. The driver for CUDA 13.0 takes more, but the limit is not documented.
const MAX_ROWS: usize = i32::MAX as usize;

/// Queues a fill.
///
/// # Safety
///
/// The stream is live and known by itself or by the current context, and the range stays valid until the fill has run.
pub(super) unsafe fn queue(
    functions: &CudaFunctions,
    address: DevicePointer,
    pattern: FillPattern,
    count: usize,
    stream: CUstream,
) -> Result<()> {
    let to = address.0;
    // SAFETY: the caller promises that the stream is live, and keeps the range valid, which has as many elements of the
    // pattern's width.
    check(unsafe {
        match pattern {
            FillPattern::U8(value) => functions.cuMemsetD8Async(to, value, count, stream),
            FillPattern::U16(value) => functions.cuMemsetD16Async(to, value, count, stream),
            FillPattern::U32(value) => functions.cuMemsetD32Async(to, value, count, stream),
            FillPattern::U64(value) => return queue_64(functions, address, value, count, stream),
        }
    })
}

/// Queues a fill with 64 bits.
///
/// # Safety
///
/// As for [`queue`].
unsafe fn queue_64(
    functions: &CudaFunctions,
    address: DevicePointer,
    value: u64,
    count: usize,
    stream: CUstream,
) -> Result<()> {
    // The driver itself would accept an address that is aligned to the halves. It does not look at that of a fill of nothing.
    if count > 0 && !address.0.is_multiple_of(8) {
        let message = format!("the address {:#x} is not aligned to the 8 bytes of the pattern", address.0);
        return Err(Failure::argument(Status::INVALID_VALUE, message));
    }
    let [low, high] = halves(value);
    if low == high || count == 0 {
        let words = count.checked_mul(2).ok_or(Failure::new(Status::INVALID_VALUE))?;
        // SAFETY: the caller promises that the stream is live, and keeps the range valid, which is this one in halves of the
        // pattern.
        return check(unsafe { functions.cuMemsetD32Async(address.0, low, words, stream) });
    }
    for (start, rows) in rows(address, count) {
        // Rows of one word, 8 bytes apart.
        for (to, half) in [(start, low), (start.byte_add(4), high)] {
            // SAFETY: the caller promises that the stream is live, and keeps the range valid; these are the first or the
            // second halves of the words in a part of it.
            check(unsafe { functions.cuMemsetD2D32Async(to.0, 8, half, 1, rows, stream) })?;
        }
    }
    Ok(())
}

/// The halves of a pattern in the order in which memory has them. NVIDIA's devices are little-endian.
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// A range of 8-byte elements, in parts of as many rows as one fill can have.
fn rows(address: DevicePointer, count: usize) -> impl Iterator<Item = (DevicePointer, usize)> {
    (0..count.div_ceil(MAX_ROWS)).map(move |part| {
        let first = part * MAX_ROWS;
        // Wrapping: the driver refuses a range that does not exist.
        (address.byte_add(first.wrapping_mul(8)), (count - first).min(MAX_ROWS))
    })
}

#[cfg(test)]
mod tests {
    use super::{MAX_ROWS, halves, rows};
    use anabranch_hal::DevicePointer;

    fn collected(count: usize) -> Vec<(u64, usize)> {
        rows(DevicePointer(0x1000), count).map(|(address, rows)| (address.0, rows)).collect()
    }

    #[test]
    fn the_low_half_comes_first() {
        assert_eq!(halves(0x0123_4567_89ab_cdef), [0x89ab_cdef, 0x0123_4567]);
    }

    #[test]
    fn a_range_that_one_fill_can_have_is_one_part() {
        assert_eq!(collected(0), []);
        assert_eq!(collected(1), [(0x1000, 1)]);
        assert_eq!(collected(MAX_ROWS), [(0x1000, MAX_ROWS)]);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn a_greater_range_is_split_without_gap_or_overlap() {
        let second = 0x1000 + 8 * MAX_ROWS as u64;
        assert_eq!(collected(MAX_ROWS + 1), [(0x1000, MAX_ROWS), (second, 1)]);
        let parts = collected(3 * MAX_ROWS + 17);
        assert_eq!(parts.iter().map(|&(_, rows)| rows).sum::<usize>(), 3 * MAX_ROWS + 17);
        assert!(parts.windows(2).all(|pair| pair[0].0 + 8 * pair[0].1 as u64 == pair[1].0));
    }
}
