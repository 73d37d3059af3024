//! What some kernels compute, in plain Rust: what other places than the kernel say it should.

use crate::ptx::subject::Argument;

/// The elements of the first output of a kernel, if it has a model.
pub(super) fn of(name: &str, arguments: &[Argument]) -> Option<Vec<u64>> {
    let bytes = |index: usize| match arguments.get(index) {
        Some(Argument::Memory(bytes) | Argument::Value(bytes)) => &bytes[..],
        None => &[],
    };
    let words = |index: usize| -> Vec<u32> {
        bytes(index)
            .chunks_exact(4)
            .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
            .collect()
    };
    let all = |values: Vec<u32>| Some(values.into_iter().map(u64::from).collect());
    match name {
        "histogram_global" | "histogram_shared" => {
            let mut bins = vec![0; 256];
            bytes(1).iter().for_each(|byte| bins[usize::from(*byte)] += 1);
            Some(bins)
        }
        "find_text" => {
            let pattern = bytes(3);
            let places: Vec<u64> = (0u64..)
                .zip(bytes(1).windows(pattern.len()))
                .filter(|(_, part)| *part == pattern)
                .map(|(at, _)| at)
                .collect();
            Some(vec![places.len() as u64, *places.first()?, *places.last()?])
        }
        "sieve" => Some((0..4000).map(|number| u64::from(is_multiple_of_a_small_prime(number))).collect()),
        "crc32" => Some(bytes(1).chunks_exact(37).map(|data| u64::from(crc32(data))).collect()),
        "binary_search" => {
            let sorted = words(1);
            Some(words(3).iter().map(|key| sorted.partition_point(|number| number < key) as u64).collect())
        }
        "recursion" => all((0..15).map(|at| ackermann(at % 3, at / 3 % 5)).collect()),
        "collatz" => Some((1..=512).map(collatz).collect()),
        "scan_shared" => all(sums(&words(1), 100)),
        "scan_shuffles" => all(sums(&words(1), 256)),
        "bitonic_sort" => {
            let mut numbers: Vec<i32> = words(0).into_iter().map(u32::cast_signed).collect();
            numbers.chunks_mut(256).for_each(<[i32]>::sort_unstable);
            all(numbers.into_iter().map(i32::cast_unsigned).collect())
        }
        "radix_pass" => {
            let mut numbers = words(1);
            numbers.sort_by_key(|number| number & 15);
            all(numbers)
        }
        "transpose" => {
            let at = |x: usize, y: usize| {
                bytes(1)[(y * 40 + x) * 8..].iter().take(8).rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            };
            Some((0..40).flat_map(|x| (0..30).map(move |y| at(x, y))).collect())
        }
        "last_block" => all(vec![words(3).into_iter().fold(0, u32::wrapping_add)]),
        "lock_over_blocks" => Some(vec![0]),
        "hand_over" => Some((0..128).map(|at| (63 - at % 64) * 3 + at % 64).collect()),
        _ => None,
    }
}

/// Of a prime that one of the 128 threads has, and not that prime itself.
fn is_multiple_of_a_small_prime(number: u32) -> bool {
    (2..130).any(|prime| (2..prime).all(|factor| prime % factor != 0) && number > prime && number.is_multiple_of(prime))
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xedb8_8320 })
    })
}

fn ackermann(m: u32, n: u32) -> u32 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ackermann(m - 1, 1),
        (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

fn collatz(mut number: u64) -> u64 {
    let mut steps = 0;
    while number != 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

/// The sums from the start of each block.
fn sums(numbers: &[u32], block: usize) -> Vec<u32> {
    let of_block = |part: &[u32]| {
        part.iter()
            .scan(0u32, |sum, number| {
                *sum = sum.wrapping_add(*number);
                Some(*sum)
            })
            .collect::<Vec<u32>>()
    };
    numbers.chunks(block).flat_map(of_block).collect()
}
