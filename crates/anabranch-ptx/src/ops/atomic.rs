//! Atomic operations: real ones on global memory; memory of a block belongs to the thread that runs it.

use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::half::{Brain, Half, Packed};
use super::load::{SHARED, SPACE};
use super::real::Real;
use super::{Fn2, half};
use crate::machine::{Body, Form, Lanes, Op, Step, Use, Vectors, When, Width};
use crate::memory::AccessKind;

/// What is done, in `target`.
pub(crate) const NAMES: [&str; 10] = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"];

/// The operand's type, in the bits of `flags` above the space.
pub(crate) const UNSIGNED: u32 = 0;
pub(crate) const SIGNED: u32 = 1;
pub(crate) const REAL: u32 = 2;
pub(crate) const HALF: u32 = 3;
pub(crate) const BRAIN: u32 = 4;
pub(crate) const HALF_PAIR: u32 = 5;
pub(crate) const BRAIN_PAIR: u32 = 6;
pub(crate) const TYPE_SHIFT: u32 = 8;
/// The old value is wanted.
pub(crate) const RESULT: u32 = 1 << 16;

/// Bits that processors change atomically.
pub(super) trait Word: Copy + Default + PartialEq {
    /// # Safety
    ///
    /// The word at this address of the process may be accessed with atomic accesses.
    unsafe fn update(address: u64, exclusive: bool, change: impl Fn(Self) -> Self) -> Self;
    /// What is stored. `shared`: the word is in shared memory, whose sums keep subnormal numbers.
    fn change(op: &Op, shared: bool, old: Self, b: Self, c: Self) -> Self;
}

macro_rules! word {
    ($type:ident $atomic:ident $signed:ident |$kind:ident, $flush:ident, $old:ident, $b:ident| $real:expr) => {
        impl Word for $type {
            #[inline(always)]
            unsafe fn update(address: u64, exclusive: bool, change: impl Fn($type) -> $type) -> $type {
                // SAFETY: the caller promises that this word may be accessed, and it is aligned.
                let place = unsafe { $atomic::from_ptr(with_exposed_provenance_mut(address as usize)) };
                let mut old = place.load(Ordering::Relaxed);
                if exclusive {
                    place.store(change(old), Ordering::Relaxed);
                    return old;
                }
                loop {
                    match place.compare_exchange_weak(old, change(old), Ordering::SeqCst, Ordering::Relaxed) {
                        Ok(old) => return old,
                        Err(other) => old = other,
                    }
                }
            }

            #[inline(always)]
            fn change(op: &Op, shared: bool, $old: $type, $b: $type, c: $type) -> $type {
                let $kind = op.flags >> TYPE_SHIFT & 15;
                let $flush = !shared;
                match (op.target, $kind) {
                    (0, UNSIGNED | SIGNED) => $old.wrapping_add($b),
                    (1, UNSIGNED) => $old.min($b),
                    (1, SIGNED) => ($old as $signed).min($b as $signed) as $type,
                    (2, UNSIGNED) => $old.max($b),
                    (2, SIGNED) => ($old as $signed).max($b as $signed) as $type,
                    (3, _) => {
                        if $old >= $b {
                            0
                        } else {
                            $old + 1
                        }
                    }
                    (4, _) => {
                        if $old == 0 || $old > $b {
                            $b
                        } else {
                            $old - 1
                        }
                    }
                    (5, _) => $old & $b,
                    (6, _) => $old | $b,
                    (7, _) => $old ^ $b,
                    (8, _) => $b,
                    (9, _) => {
                        if $old == $b {
                            c
                        } else {
                            $old
                        }
                    }
                    _ => $real(op.target),
                }
            }
        }
    };
}

word!(u16 AtomicU16 i16 |kind, flush, old, b| |target| {
    let _ = flush;
    match (kind, target) {
        (HALF, 0) => <half::Add<Half>>::apply(old, b),
        (HALF, 1) => <half::Min<Half>>::apply(old, b),
        (HALF, _) => <half::Max<Half>>::apply(old, b),
        (_, 0) => <half::Add<Brain>>::apply(old, b),
        (_, 1) => <half::Min<Brain>>::apply(old, b),
        _ => <half::Max<Brain>>::apply(old, b),
    }
});

word!(u32 AtomicU32 i32 |kind, flush, old, b| |target| {
    match (kind, target) {
        // Global memory flushes subnormal numbers, as documented; shared memory does not.
        (REAL, 0) if flush => f32::from_bits(old).flushed().add(f32::from_bits(b).flushed()).flushed().to_bits(),
        (REAL, 0) => f32::from_bits(old).add(f32::from_bits(b)).to_bits(),
        (REAL, 1) => f32::from_bits(old).least(f32::from_bits(b)).to_bits(),
        (REAL, _) => f32::from_bits(old).most(f32::from_bits(b)).to_bits(),
        (HALF_PAIR, 0) => <Packed<half::Add<Half>>>::apply(old, b),
        (HALF_PAIR, 1) => <Packed<half::Min<Half>>>::apply(old, b),
        (HALF_PAIR, _) => <Packed<half::Max<Half>>>::apply(old, b),
        (_, 0) => <Packed<half::Add<Brain>>>::apply(old, b),
        (_, 1) => <Packed<half::Min<Brain>>>::apply(old, b),
        _ => <Packed<half::Max<Brain>>>::apply(old, b),
    }
});

word!(u64 AtomicU64 i64 |kind, flush, old, b| |target| {
    let _ = (kind, flush);
    match target {
        0 => f64::from_bits(old).add(f64::from_bits(b)).to_bits(),
        1 => f64::from_bits(old).least(f64::from_bits(b)).to_bits(),
        _ => f64::from_bits(old).most(f64::from_bits(b)).to_bits(),
    }
});

/// # Safety
///
/// As for [`Body::run`]: the operands are planes of words `T`.
#[inline(always)]
unsafe fn perform<T: Word>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
    // SAFETY: the slots are planes of words, and `locate` returns addresses that may be accessed.
    unsafe {
        if (lanes.locate)(lanes, op, AccessKind::Atomic) != Step::Next {
            return Step::Fault;
        }
        lanes.watches = true;
        let [b, c] = [op.b, op.c].map(|slot| *lanes.plane::<T>(slot));
        let exclusive = op.flags & SPACE == SHARED;
        let place = lanes.plane::<T>(op.d);
        let mut left = lanes.mask;
        while left != 0 {
            let lane = (left.trailing_zeros() & 31) as usize;
            left &= left - 1;
            // A generic address may be one of shared memory too.
            let shared = exclusive || lanes.addresses.0[lane].wrapping_sub(lanes.shared.start) < lanes.shared.bytes;
            let change = |old| T::change(op, shared, old, b[lane], c[lane]);
            let old = T::update(lanes.addresses.0[lane], exclusive, change);
            if op.flags & RESULT != 0 {
                (*place)[lane] = old;
            }
        }
    }
    Step::Next
}

/// `atom` and `red` of 16 bits.
pub(crate) struct Short;
/// Of 32 bits.
pub(crate) struct Single;
/// Of 64 bits.
pub(crate) struct Double;

impl Body for Short {
    const FORM: Form = Form {
        d: Use::Write(Width::W16),
        a: Use::Read(Width::W64),
        b: Use::Read(Width::W16),
        c: Use::Read(Width::W16),
        e: Use::No,
        when: When::Atomic(2),
    };

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: lowering has made the operation for planes of 16 bits.
        unsafe { perform::<u16>(lanes, op) }
    }
}

impl Body for Single {
    const FORM: Form = Form {
        d: Use::Write(Width::W32),
        a: Use::Read(Width::W64),
        b: Use::Read(Width::W32),
        c: Use::Read(Width::W32),
        e: Use::No,
        when: When::Atomic(4),
    };

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: lowering has made the operation for planes of 32 bits.
        unsafe { perform::<u32>(lanes, op) }
    }
}

impl Body for Double {
    const FORM: Form = Form {
        d: Use::Write(Width::W64),
        a: Use::Read(Width::W64),
        b: Use::Read(Width::W64),
        c: Use::Read(Width::W64),
        e: Use::No,
        when: When::Atomic(8),
    };

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: lowering has made the operation for planes of 64 bits.
        unsafe { perform::<u64>(lanes, op) }
    }
}

/// `fence`, `membar`: all of them are the strongest one.
pub(crate) struct Fence;
impl Body for Fence {
    const FORM: Form = Form::NONE;

    unsafe fn run<V: Vectors>(_: &mut Lanes<'_>, _: &Op) -> Step {
        std::sync::atomic::fence(Ordering::SeqCst);
        Step::Next
    }
}

/// Before a load that sees what others write.
pub(crate) struct Watch;
impl Body for Watch {
    const FORM: Form = Form::NONE;

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, _: &Op) -> Step {
        lanes.watches = true;
        Step::Next
    }
}
