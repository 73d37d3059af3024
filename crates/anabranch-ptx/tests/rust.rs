//! Kernels that Rust's compiler has made of Rust: calls, tables of functions, enumerations, 128-bit integers, atomics.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Arguments, Device};

const TEXT: &str = include_str!("kernels/rust.ptx");
const COUNT: u32 = 100;

/// Runs a kernel of `COUNT` threads that writes an element each, with and without checks, and compares what it has written.
fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(kernel: &str, expected: impl Fn(u64) -> T) {
    let expected: Vec<T> = (0..u64::from(COUNT)).map(expected).collect();
    for checked in [false, true] {
        let mut device = Device::new(TEXT);
        device.options.checked = checked;
        let out = device.memory.upload(&[T::default(); COUNT as usize]);
        device.launch(kernel, 4, 32, &Arguments::new().with(out).with(COUNT)).unwrap();
        assert_eq!(device.memory.download::<T>(out), expected, "{kernel}");
    }
}

#[test]
fn slices() {
    let mut device = Device::new(TEXT);
    let (y, x): (Vec<f32>, Vec<f32>) = (vec![1.0; COUNT as usize], (0..COUNT).map(|i| i as f32).collect());
    let (to, from) = (device.memory.upload(&y), device.memory.upload(&x));
    device.launch("saxpy", 4, 32, &Arguments::new().with(to).with(from).with(2.5f32).with(COUNT)).unwrap();
    let expected: Vec<f32> = x.iter().map(|x| 2.5 * x + 1.0).collect();
    assert_eq!(device.memory.download::<f32>(to), expected);
}

#[test]
fn loops_of_different_lengths() {
    check("steps", |i| {
        let mut steps = 0u32;
        let mut n = i + 1;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    });
}

#[test]
fn bits_of_integers() {
    let mut device = Device::new(TEXT);
    let from: Vec<u32> = (0..COUNT).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let (to, source) = (device.memory.upload(&[0u32; COUNT as usize]), device.memory.upload(&from));
    device.launch("bits", 4, 32, &Arguments::new().with(to).with(source).with(u64::from(COUNT))).unwrap();
    let expected: Vec<u32> = from
        .iter()
        .zip(from.iter().rev())
        .map(|(a, b)| a.count_ones() + b.leading_zeros() + (u64::from(*a).reverse_bits() >> 32) as u32)
        .collect();
    assert_eq!(device.memory.download::<u32>(to), expected);
}

#[test]
fn integers_of_128_bits() {
    let table = [1u64, 10, 100, 1000, 10_000, 5, 6, 7];
    check("wide", |i| {
        let wide = (u128::from(i) + 1).wrapping_mul(0x1234_5678_9abc_def0_1111_2222_3333_4444);
        table[i as usize % 8] ^ (wide >> 64) as u64 ^ (wide as u64).checked_div(i).unwrap_or(77)
    });
}

#[test]
fn enumerations() {
    check("area", |i| match i % 3 {
        0 => 3.25 * i as f64 * i as f64,
        1 => (i as f64 * 0.5) * (i as f64 * 0.5),
        _ => -1.0,
    });
}

#[test]
fn local_arrays_and_tables_of_functions() {
    check("sorted", |i| {
        let mut values: Vec<i32> = (0..12).map(|k| ((i * 31 + k * 17) % 23) as i32 - 11).collect();
        values.sort_unstable();
        values[3] * 100 + values[8] + [i as i32 + 1, i as i32 * 3, -(i as i32)][i as usize % 3]
    });
}

#[test]
fn atomics() {
    let mut device = Device::new(TEXT);
    let to = device.memory.upload(&[0u32; 4]);
    device.launch("atomics", 1, 128, &Arguments::new().with(to)).unwrap();
    let sum = 127 * 128 / 2;
    assert_eq!(device.memory.download::<u32>(to), [sum, 127, 128, sum]);
}
