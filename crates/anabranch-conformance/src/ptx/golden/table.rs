//! The launches and inputs of the kernels. Those that could hang are last.

use super::{COOPERATIVE, Given, Golden, INTEGERS, REALS};
use crate::ptx::element::{Element, Float};

const BYTE: Element = Element::bits(1);
const WORD: Element = Element::bits(4);
const LONG: Element = Element::bits(8);
const SINGLE: Element = Element::any_nan(4, Float::Single);
const DOUBLE: Element = Element::any_nan(8, Float::Double);
const NEAR: Element = Element::near(4, Float::Single, 1.0 / 1_048_576.0, 1e-6);
const NEAR_DOUBLE: Element = Element::near(8, Float::Double, 1e-12, 1e-13);

/// A kernel with one row of blocks and threads.
const fn row(module: &'static str, name: &'static str, grid: u32, block: u32, arguments: fn(&mut Given)) -> Golden {
    Golden { name, module, grid: [grid, 1, 1], block: [block, 1, 1], shared: 0, arguments }
}

const fn plane(
    module: &'static str,
    name: &'static str,
    grid: [u32; 2],
    block: [u32; 2],
    arguments: fn(&mut Given),
) -> Golden {
    let [width, height] = block;
    Golden { name, module, grid: [grid[0], grid[1], 1], block: [width, height, 1], shared: 0, arguments }
}

const fn shared(bytes: u32, golden: Golden) -> Golden {
    Golden { shared: bytes, ..golden }
}

/// A structure that a kernel takes by value, laid out as C++ does.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Mixed {
    a: i8,
    padding: u8,
    b: i16,
    c: i32,
    d: i64,
    e: [u32; 5],
    padding_at_end: u32,
}

/// Words to words, one of each thread.
fn word_each(given: &mut Given, count: usize) {
    given.zeros(count, WORD);
    let words = given.bits32(count);
    given.input(&words);
}

pub(super) static TABLE: &[Golden] = &[
    row(INTEGERS, "add_numbers", 4, 128, |given| {
        given.zeros(500, WORD);
        for _ in 0..2 {
            let words = given.bits32(500);
            given.input(&words);
        }
        given.value(500u32);
    }),
    row(INTEGERS, "divide", 4, 64, |given| {
        given.zeros(256, LONG);
        let (a, mut b) = (given.bits64(256), given.bits64(256));
        for (index, b) in b.iter_mut().enumerate() {
            // Nearly all sizes of divisors, and none whose low half is -1, by which the least number has no quotient.
            *b = (*b >> (index % 60)) & !2;
        }
        given.input(&a);
        given.input(&b);
        given.value(256u32);
    }),
    row(INTEGERS, "histogram_global", 4, 96, |given| {
        given.zeros(256, WORD);
        let data = given.bytes(4000, 200);
        given.input(&data);
        given.value(4000u32);
    }),
    row(INTEGERS, "histogram_shared", 4, 96, |given| {
        given.zeros(256, WORD);
        let data = given.bytes(4000, 256);
        given.input(&data);
        given.value(4000u32);
    }),
    row(INTEGERS, "philox", 4, 64, |given| {
        given.zeros(1000, WORD);
        given.value(0x1234_5678u32);
        given.value(0x9abc_def0u32);
        given.value(250u32);
    }),
    row(INTEGERS, "find_text", 16, 128, |given| {
        given.output(&[0u32, u32::MAX, 0], WORD);
        let text = given.bytes(2000, 3);
        given.input(&text);
        given.value(2000u32);
        given.input(&text[700..705]);
        given.value(5u32);
    }),
    plane(INTEGERS, "life", [4, 3], [16, 16], |given| {
        given.zeros(61 * 45, BYTE);
        let cells = given.bytes(61 * 45, 2);
        given.input(&cells);
        given.value(61i32);
        given.value(45i32);
    }),
    row(INTEGERS, "sieve", 2, 64, |given| {
        given.zeros(4000, BYTE);
        given.value(4000u32);
    }),
    row(INTEGERS, "crc32", 2, 64, |given| {
        given.zeros(128, WORD);
        let data = given.bytes(128 * 37, 256);
        given.input(&data);
        given.value(37u32);
    }),
    row(INTEGERS, "sha256", 2, 32, |given| {
        given.zeros(64 * 8, WORD);
        let message = given.bits32(64 * 16);
        given.input(&message);
    }),
    plane(INTEGERS, "floyd_warshall", [1, 1], [24, 24], |given| {
        let distances = given.words(24 * 24, 1000);
        given.output(&distances, WORD);
        given.value(24u32);
    }),
    row(INTEGERS, "binary_search", 2, 128, |given| {
        given.zeros(256, WORD);
        let mut sorted = given.words(300, 5000);
        sorted.sort_unstable();
        given.input(&sorted);
        given.value(300u32);
        let keys = given.words(256, 5100);
        given.input(&keys);
    }),
    shared(
        4 * 49,
        row(INTEGERS, "edit_distance", 1, 48, |given| {
            given.zeros(48, WORD);
            for _ in 0..2 {
                let word = given.bytes(48, 4);
                given.input(&word);
            }
            given.value(48u32);
        }),
    ),
    row(INTEGERS, "long_sums", 2, 32, |given| {
        given.zeros(64 * 9, WORD);
        for _ in 0..2 {
            // Words of ones carry far.
            let words: Vec<u32> =
                given.bits32(64 * 8).into_iter().map(|word| if word & 3 == 0 { word } else { !0 }).collect();
            given.input(&words);
        }
    }),
    row(INTEGERS, "by_value", 1, 32, |given| {
        given.zeros(32, LONG);
        let e = [1, 20, 300, 4000, u32::MAX];
        given.value(Mixed { a: -3, padding: 0, b: -300, c: 70_000, d: 1 << 40, e, padding_at_end: 0 });
        given.value(200u8);
    }),
    row(INTEGERS, "recursion", 1, 15, |given| given.zeros(15, WORD)),
    row(INTEGERS, "indirect", 2, 64, |given| word_each(given, 128)),
    row(INTEGERS, "switches", 4, 64, |given| word_each(given, 256)),
    row(INTEGERS, "collatz", 8, 64, |given| given.zeros(512, WORD)),
    row(COOPERATIVE, "sum_shared", 4, 256, |given| {
        given.zeros(4, SINGLE);
        let numbers = given.singles(1024);
        given.input(&numbers);
    }),
    row(COOPERATIVE, "sum_shuffles", 4, 128, |given| {
        given.zeros(16, DOUBLE);
        let numbers = given.doubles(512);
        given.input(&numbers);
    }),
    shared(2 * 4 * 100, row(COOPERATIVE, "scan_shared", 4, 100, |given| word_each(given, 400))),
    row(COOPERATIVE, "scan_shuffles", 2, 256, |given| word_each(given, 512)),
    plane(COOPERATIVE, "matrix_product", [3, 3], [16, 16], |given| {
        given.zeros(48 * 48, SINGLE);
        for _ in 0..2 {
            let numbers = given.singles(48 * 48);
            given.input(&numbers);
        }
        given.value(48u32);
    }),
    plane(COOPERATIVE, "transpose", [3, 2], [16, 16], |given| {
        given.zeros(40 * 30, LONG);
        let numbers = given.bits64(40 * 30);
        given.input(&numbers);
        given.value(40u32);
        given.value(30u32);
    }),
    shared(
        4 * 256,
        row(COOPERATIVE, "bitonic_sort", 2, 256, |given| {
            let numbers = given.bits32(512);
            given.output(&numbers, WORD);
        }),
    ),
    row(COOPERATIVE, "radix_pass", 1, 512, |given| word_each(given, 512)),
    row(COOPERATIVE, "ballots", 2, 128, |given| word_each(given, 256)),
    row(COOPERATIVE, "last_block", 20, 64, |given| {
        given.zeros(1, WORD);
        given.zeros(20, WORD);
        given.zeros(1, WORD);
        let words = given.bits32(20 * 64);
        given.input(&words);
    }),
    row(COOPERATIVE, "barriers", 2, 128, |given| word_each(given, 256)),
    row(REALS, "saxpy", 4, 128, |given| {
        let y = given.singles(500);
        given.output(&y, SINGLE);
        let x = given.singles(500);
        given.input(&x);
        given.value(0.3f32);
        given.value(500u32);
    }),
    row(REALS, "softmax", 1, 32, |given| {
        given.zeros(32 * 20, NEAR);
        let numbers = given.singles(32 * 20);
        given.input(&numbers);
        given.value(20u32);
    }),
    row(REALS, "layer_norm", 1, 32, |given| {
        given.zeros(32 * 20, NEAR);
        let numbers = given.singles(32 * 20);
        given.input(&numbers);
        given.value(20u32);
    }),
    row(REALS, "fft", 4, 64, |given| {
        let numbers = given.singles(512);
        // Compilers may contract its products and sums, of which some nearly cancel.
        given.output(&numbers, Element::near(4, Float::Single, 1.0 / 1_048_576.0, 1e-4));
    }),
    row(REALS, "sparse_product", 2, 64, |given| {
        given.zeros(100, DOUBLE);
        let mut starts = vec![0u32];
        for row in 0..100 {
            let length = given.numbers.below(12) as u32;
            starts.push(starts[row] + length);
        }
        let count = starts[100] as usize;
        let (columns, values, x) = (given.words(count, 80), given.doubles(count), given.doubles(80));
        given.input(&starts);
        given.input(&columns);
        given.input(&values);
        given.input(&x);
        given.value(100u32);
    }),
    row(REALS, "n_body", 2, 64, |given| {
        given.zeros(128 * 4, Element::near(4, Float::Single, 1.0 / 262_144.0, 1e-3));
        let bodies = given.singles(128 * 4);
        given.input(&bodies);
        given.value(128u32);
    }),
    row(REALS, "black_scholes", 2, 64, |given| {
        given.zeros(128, NEAR_DOUBLE);
        let prices: Vec<f64> = given.doubles(128).into_iter().map(|value| 50.0 + value * 5.0).collect();
        given.input(&prices);
        for value in [48.0f64, 0.03, 0.2] {
            given.value(value);
        }
    }),
    plane(REALS, "mandelbrot", [3, 3], [16, 16], |given| {
        given.zeros(48 * 48, WORD);
        given.value(48u32);
        given.value(100u32);
    }),
    plane(REALS, "heat", [3, 2], [16, 16], |given| {
        given.zeros(40 * 30, SINGLE);
        let numbers = given.singles(40 * 30);
        given.input(&numbers);
        given.value(40u32);
        given.value(30u32);
    }),
    plane(REALS, "convolve", [3, 2], [16, 16], |given| {
        given.zeros(40 * 30, SINGLE);
        let numbers = given.singles(40 * 30);
        given.input(&numbers);
        given.value(40i32);
        given.value(30i32);
    }),
    row(REALS, "matrix_vector", 1, 64, |given| {
        given.zeros(64, DOUBLE);
        let (matrix, vector) = (given.doubles(64 * 50), given.doubles(50));
        given.input(&matrix);
        given.input(&vector);
        given.value(50u32);
    }),
    row(REALS, "nearest_centre", 4, 64, |given| {
        given.zeros(256, WORD);
        let (points, centres) = (given.singles(512), given.singles(14));
        given.input(&points);
        given.input(&centres);
        given.value(7u32);
    }),
    row(REALS, "rounding", 4, 64, |given| {
        given.zeros(256, SINGLE);
        let numbers = given.doubles(256);
        given.input(&numbers);
    }),
    row(REALS, "half_products", 1, 64, |given| {
        given.zeros(64, WORD);
        for _ in 0..2 {
            // Numbers of about one.
            let pairs: Vec<u32> =
                given.bits32(512).into_iter().map(|bits| (bits & 0x87ff_87ff) | 0x3800_3800).collect();
            given.input(&pairs);
        }
    }),
    row(REALS, "elementary", 4, 64, |given| {
        given.zeros(256, NEAR_DOUBLE);
        let numbers = given.doubles(256);
        given.input(&numbers);
    }),
    row(REALS, "elementary_single", 4, 64, |given| {
        given.zeros(256, NEAR);
        let numbers = given.singles(256);
        given.input(&numbers);
    }),
    row(REALS, "horner", 4, 64, |given| {
        given.zeros(256, DOUBLE);
        let numbers = given.doubles(256);
        given.input(&numbers);
        given.value(30u32);
    }),
    row(COOPERATIVE, "lock_over_blocks", 8, 32, |given| {
        given.zeros(1, WORD);
        given.zeros(2, WORD);
    }),
    row(COOPERATIVE, "lock_in_warp", 4, 64, |given| given.zeros(4, WORD)),
    row(COOPERATIVE, "hand_over", 2, 64, |given| given.zeros(128, WORD)),
];
