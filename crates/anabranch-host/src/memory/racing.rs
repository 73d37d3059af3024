//! Copies and fills of memory that other work may use at the same time.
//!
//! Nothing orders the nodes of a graph but its edges, and safe code can make a graph whose nodes use one piece of memory
//! without an edge between them. Hardware then leaves unspecified values. The same is done here by atomic accesses of up to
//! 64 bits: a plain access beside another one would be a data race, which the language leaves undefined. Kernels that are
//! closures access memory in the same way.

use super::copy::address;
use anabranch_hal::FillPattern;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The largest access, in bytes.
const WORD: usize = 8;

/// Loads and stores `width` bytes, which is a power of two up to [`WORD`].
macro_rules! access {
    ($width:expr, $atomic:ident => $action:expr) => {
        match $width {
            WORD => {
                type $atomic = AtomicU64;
                $action
            }
            4 => {
                type $atomic = AtomicU32;
                $action
            }
            2 => {
                type $atomic = AtomicU16;
                $action
            }
            _ => {
                type $atomic = AtomicU8;
                $action
            }
        }
    };
}

/// Copies bytes. The ranges may overlap.
///
/// # Safety
/// The source is valid for reads and writes, and the destination for writes, of `bytes` bytes. Other threads access them atomically, or
/// not at all.
pub(crate) unsafe fn copy_racing(destination: u64, source: u64, bytes: usize) {
    let is_backward = destination > source && destination - source < bytes as u64;
    let copy = |at: usize, width: usize| {
        let (to, from) = (address(destination + at as u64), address(source + at as u64));
        access!(width, Atomic => {
            // SAFETY: these bytes are within the ranges, which the caller keeps valid, and are aligned to the width.
            let (to, from) = unsafe { (Atomic::from_ptr(to.cast()), Atomic::from_ptr(from.cast())) };
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        });
    };
    let mut left = 0..bytes;
    while !left.is_empty() {
        let (first, last) = (left.start as u64, left.end as u64);
        if is_backward {
            let width = widest((destination + last) | (source + last), left.len());
            left.end -= width;
            copy(left.end, width);
        } else {
            let width = widest((destination + first) | (source + first), left.len());
            copy(left.start, width);
            left.start += width;
            if width == WORD {
                words(&mut left, |at| copy(at, WORD));
            }
        }
    }
}

/// Copies bytes that nobody else writes to memory that others may use. The source may be read-only.
///
/// # Safety
/// The destination is valid for writes of as many bytes, and does not overlap the source. Other threads access it
/// atomically, or not at all.
pub(crate) unsafe fn store_racing(destination: u64, source: &[u8]) {
    let mut left = 0..source.len();
    while !left.is_empty() {
        let width = widest(destination + left.start as u64, left.len());
        let to = address(destination + left.start as u64);
        let bytes = &source[left.start..left.start + width];
        access!(width, Atomic => {
            // SAFETY: these bytes are within the destination, which the caller keeps valid, and are aligned to the width.
            let to = unsafe { Atomic::from_ptr(to.cast()) };
            to.store(bytemuck::pod_read_unaligned(bytes), Ordering::Relaxed);
        });
        left.start += width;
    }
}

/// Does all the whole words that are left, from an aligned one on.
fn words(left: &mut Range<usize>, mut each: impl FnMut(usize)) {
    let end = left.end - left.len() % WORD;
    (left.start..end).step_by(WORD).for_each(&mut each);
    left.start = end;
}

/// The widest access at addresses whose bits are these.
fn widest(addresses: u64, bytes: usize) -> usize {
    let aligned = 1 << addresses.trailing_zeros().min(WORD.trailing_zeros());
    let fitting = 1 << bytes.min(WORD).ilog2();
    usize::min(aligned, fitting)
}

/// Fills `count` elements.
///
/// # Safety
/// `begin` is aligned to the pattern, and valid for writes of `count` elements. Other threads access them atomically, or not
/// at all.
pub(crate) unsafe fn fill_racing(begin: u64, pattern: FillPattern, count: usize) {
    let word: u64 = match pattern {
        FillPattern::U8(value) => u64::from(value) * (u64::MAX / u64::from(u8::MAX)),
        FillPattern::U16(value) => u64::from(value) * (u64::MAX / u64::from(u16::MAX)),
        FillPattern::U32(value) => u64::from(value) * (u64::MAX / u64::from(u32::MAX)),
        FillPattern::U64(value) => value,
    };
    let fill = |at: usize, width: usize| {
        let to = address(begin + at as u64);
        access!(width, Atomic => {
            // SAFETY: these bytes are within the range, which the caller keeps valid, and are aligned to the width.
            let to = unsafe { Atomic::from_ptr(to.cast()) };
            // The word repeats the pattern, and no access is narrower than it.
            to.store(word as _, Ordering::Relaxed);
        });
    };
    let mut left = 0..count * pattern.width();
    while !left.is_empty() {
        let width = widest(begin + left.start as u64, left.len());
        fill(left.start, width);
        left.start += width;
        if width == WORD {
            words(&mut left, |at| fill(at, WORD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{copy_racing, fill_racing, store_racing};
    use anabranch_hal::FillPattern;

    fn numbered() -> Vec<u8> {
        (0..64).collect()
    }

    #[test]
    fn copies_are_those_of_the_standard_library_wherever_they_begin() {
        for (to, from) in (0..17).flat_map(|to| (0..17).map(move |from| (to, from))) {
            for bytes in 0..47 {
                let (mut copied, mut wanted) = (numbered(), numbered());
                wanted.copy_within(from..from + bytes, to);
                let base = copied.as_mut_ptr().expose_provenance() as u64;
                // SAFETY: both ranges are in the vector, which nobody else uses.
                unsafe { copy_racing(base + to as u64, base + from as u64, bytes) };
                assert_eq!(copied, wanted, "{bytes} bytes from {from} to {to}");
                let (mut stored, source) = (numbered(), numbered());
                let base = stored.as_mut_ptr().expose_provenance() as u64;
                // SAFETY: the range is in the vector, which nobody else uses.
                unsafe { store_racing(base + to as u64, &source[from..from + bytes]) };
                assert_eq!(stored, wanted, "{bytes} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn fills_repeat_their_pattern() {
        let patterns = [
            FillPattern::U8(0x12),
            FillPattern::U16(0x1234),
            FillPattern::U32(0x1234_5678),
            FillPattern::U64(0x1234_5678_9abc_def0),
        ];
        for pattern in patterns {
            let element = match pattern {
                FillPattern::U8(value) => value.to_ne_bytes().to_vec(),
                FillPattern::U16(value) => value.to_ne_bytes().to_vec(),
                FillPattern::U32(value) => value.to_ne_bytes().to_vec(),
                FillPattern::U64(value) => value.to_ne_bytes().to_vec(),
            };
            for first in 0..3 {
                for count in 0..5 {
                    let mut words = vec![0_u64; 8];
                    let begin = words.as_mut_ptr().expose_provenance() as u64 + (first * element.len()) as u64;
                    // SAFETY: the range is in the vector, which nobody else uses, and aligned to the pattern.
                    unsafe { fill_racing(begin, pattern, count) };
                    let mut wanted = vec![0; first * element.len()];
                    wanted.extend(element.repeat(count));
                    wanted.resize(64, 0);
                    let filled: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    assert_eq!(filled, wanted, "{pattern:?}, {count} elements from {first}");
                }
            }
        }
    }
}
