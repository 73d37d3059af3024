//! 16 bytes that are accessed as a whole.
//!
//! A processor of x86-64 does so with the vectors of AVX and with `cmpxchg16b`. Elsewhere a lock makes accesses of 16 bytes
//! whole for each other, and other accesses may see one half without the other.

use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Held by accesses of 16 bytes where the processor has no instruction for them.
static LOCK: Mutex<()> = Mutex::new(());

/// # Safety
///
/// 8 bytes at this address of the process may be accessed with atomic accesses, and it is a multiple of 8.
unsafe fn half<'h>(address: u64) -> &'h AtomicU64 {
    // SAFETY: the caller promises that.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address as usize)) }
}

/// The two halves, one after the other.
///
/// # Safety
///
/// 16 bytes at this address of the process may be read with atomic accesses, and it is a multiple of 8.
#[inline(always)]
pub(crate) unsafe fn load_halves(address: u64) -> u128 {
    // SAFETY: the caller promises that.
    let [low, high] = unsafe { [half(address), half(address + 8)] }.map(|half| half.load(Ordering::Relaxed));
    u128::from(high) << 64 | u128::from(low)
}

/// The two halves, one after the other.
///
/// # Safety
///
/// 16 bytes at this address of the process may be written with atomic accesses, and it is a multiple of 8.
#[inline(always)]
pub(crate) unsafe fn store_halves(address: u64, value: u128) {
    // SAFETY: the caller promises that.
    unsafe {
        half(address).store(value as u64, Ordering::Relaxed);
        half(address + 8).store((value >> 64) as u64, Ordering::Relaxed);
    }
}

/// Reads 16 bytes at once.
///
/// # Safety
///
/// As for [`load_halves`], and the address is a multiple of 16.
pub(crate) unsafe fn load(address: u64) -> u128 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx") {
        let value: std::arch::x86_64::__m128i;
        // SAFETY: the caller promises these bytes, at a multiple of 16; a processor with AVX reads them at once.
        unsafe {
            std::arch::asm!(
                "vmovdqa {value}, [{from}]",
                value = out(xmm_reg) value,
                from = in(reg) with_exposed_provenance_mut::<u8>(address as usize),
                options(nostack, preserves_flags, readonly),
            );
            return std::mem::transmute::<std::arch::x86_64::__m128i, u128>(value);
        }
    }
    let _held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's promise is passed on.
    unsafe { load_halves(address) }
}

/// Writes 16 bytes at once.
///
/// # Safety
///
/// As for [`store_halves`], and the address is a multiple of 16.
pub(crate) unsafe fn store(address: u64, value: u128) {
    // SAFETY: the caller's promise is passed on.
    unsafe { update(address, |_| value) };
}

/// Changes 16 bytes at once, and returns what they were.
///
/// # Safety
///
/// 16 bytes at this address of the process may be read and written with atomic accesses, and it is a multiple of 16.
pub(crate) unsafe fn update(address: u64, change: impl Fn(u128) -> u128) -> u128 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("cmpxchg16b") {
        // SAFETY: the caller's promise is passed on.
        let mut old = unsafe { load_halves(address) };
        loop {
            // SAFETY: the processor has the instruction, and the caller promises these bytes, at a multiple of 16.
            let found = unsafe { exchange(with_exposed_provenance_mut(address as usize), old, change(old)) };
            if found == old {
                return old;
            }
            old = found;
        }
    }
    let _held = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let old = load_halves(address);
        store_halves(address, change(old));
        old
    }
}

/// # Safety
///
/// The processor has `cmpxchg16b`; 16 bytes may be accessed with atomic accesses, at a multiple of 16.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn exchange(place: *mut u128, old: u128, new: u128) -> u128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: the caller promises the instruction and the bytes. It takes one half from `rbx`, which the compiler keeps for
    // itself, and which is what it was afterwards.
    unsafe {
        std::arch::asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, rsi",
            in("rdi") place,
            inout("rsi") new as u64 => _,
            in("rcx") (new >> 64) as u64,
            inout("rax") low,
            inout("rdx") high,
            options(nostack),
        );
    }
    u128::from(high) << 64 | u128::from(low)
}
