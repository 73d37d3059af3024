//! Kernels in Rust, whose PTX is beside this file. Made with a nightly compiler from a crate with this as src/lib.rs, and with
//! `crate-type = ["rlib"]`, `opt-level = 3`, `overflow-checks = false` and `panic = "abort"`:
//!
//! RUSTFLAGS="--emit=asm -C target-cpu=sm_70" cargo +nightly build --release -Z build-std=core --target nvptx64-nvidia-cuda

#![no_std]
#![feature(abi_ptx, stdarch_nvptx)]

use core::arch::nvptx::*;
use core::slice::{from_raw_parts, from_raw_parts_mut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::*;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: it ends the kernel.
    unsafe { trap() }
}

fn index() -> usize {
    // SAFETY: they are only read.
    unsafe { (_block_idx_x() * _block_dim_x() + _thread_idx_x()) as usize }
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn saxpy(y: *mut f32, x: *const f32, a: f32, n: u32) {
    // SAFETY: the caller has passed `n` elements.
    let (y, x) = unsafe { (from_raw_parts_mut(y, n as usize), from_raw_parts(x, n as usize)) };
    if let (Some(y), Some(x)) = (y.get_mut(index()), x.get(index())) {
        *y += a * *x;
    }
}

#[inline(never)]
fn collatz(mut n: u64) -> u32 {
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn steps(to: *mut u32, n: u32) {
    // SAFETY: the caller has passed `n` elements.
    if let Some(to) = unsafe { from_raw_parts_mut(to, n as usize) }.get_mut(index()) {
        *to = collatz(index() as u64 + 1);
    }
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn bits(to: *mut u32, from: *const u32, n: usize) {
    // SAFETY: the caller has passed `n` elements.
    let (to, from) = unsafe { (from_raw_parts_mut(to, n), from_raw_parts(from, n)) };
    let i = index();
    if let (Some(to), Some(a), Some(b)) = (to.get_mut(i), from.get(i), from.get(n - 1 - i)) {
        *to = a.rotate_left(5).count_ones() + b.leading_zeros() + (u64::from(*a).reverse_bits() >> 32) as u32;
    }
}

static TABLE: [u16; 8] = [1, 10, 100, 1000, 10000, 5, 6, 7];

#[no_mangle]
pub unsafe extern "ptx-kernel" fn wide(to: *mut u64, n: u32) {
    // SAFETY: the caller has passed `n` elements.
    if let Some(to) = unsafe { from_raw_parts_mut(to, n as usize) }.get_mut(index()) {
        let i = index();
        let wide = (i as u128 + 1).wrapping_mul(0x1234_5678_9abc_def0_1111_2222_3333_4444);
        *to = u64::from(TABLE[i % 8]) ^ (wide >> 64) as u64 ^ (wide as u64).checked_div(i as u64).unwrap_or(77);
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Circle(f64),
    Square(f64),
    Nothing,
}

#[inline(never)]
fn shape(i: usize) -> Shape {
    match i % 3 {
        0 => Shape::Circle(i as f64),
        1 => Shape::Square(i as f64 * 0.5),
        _ => Shape::Nothing,
    }
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn area(to: *mut f64, n: u32) {
    // SAFETY: the caller has passed `n` elements.
    if let Some(to) = unsafe { from_raw_parts_mut(to, n as usize) }.get_mut(index()) {
        *to = match shape(index()) {
            Shape::Circle(radius) => 3.25 * radius * radius,
            Shape::Square(side) => side * side,
            Shape::Nothing => -1.0,
        };
    }
}

#[inline(never)]
fn sort(values: &mut [i32; 12]) {
    for _ in 0..12 {
        for i in 0..11 {
            if values[i] > values[i + 1] {
                values.swap(i, i + 1);
            }
        }
    }
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn sorted(to: *mut i32, n: u32) {
    // SAFETY: the caller has passed `n` elements.
    if let Some(to) = unsafe { from_raw_parts_mut(to, n as usize) }.get_mut(index()) {
        let i = index();
        let mut values = [0; 12];
        for (k, value) in values.iter_mut().enumerate() {
            *value = ((i * 31 + k * 17) % 23) as i32 - 11;
        }
        sort(&mut values);
        let functions: [fn(i32) -> i32; 3] = [|x| x + 1, |x| x * 3, |x| -x];
        *to = values[3] * 100 + values[8] + functions[i % 3](i as i32);
    }
}

#[no_mangle]
pub unsafe extern "ptx-kernel" fn atomics(to: *const AtomicU32) {
    // SAFETY: the caller has passed four elements.
    let to: &[AtomicU32; 4] = unsafe { &*to.cast() };
    to[0].fetch_add(index() as u32, SeqCst);
    to[1].fetch_max(index() as u32, Relaxed);
    let mut seen = to[2].load(Acquire);
    while let Err(now) = to[2].compare_exchange(seen, seen + 1, AcqRel, Acquire) {
        seen = now;
    }
    // SAFETY: all threads of the block come to it.
    unsafe { _syncthreads() };
    if index() == 0 {
        to[3].store(to[0].load(Relaxed), Release);
    }
}
