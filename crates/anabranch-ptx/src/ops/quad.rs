//! Values of 128 bits.

use super::load::{Load, Store};
use super::plain_functions;
use crate::machine::{Body, Form, Lanes, Op, Step, Use, Vectors, When, Width};
use crate::memory::{AccessKind, whole};

plain_functions! {
    CopiedQuad(a: u128) -> u128 { a }
    LowDouble(a: u128) -> u64 { a as u64 }
    HighDouble(a: u128) -> u64 { (a >> 64) as u64 }
}

plain_functions! {
    PairDoubles(a: u64, b: u64) -> u128 { u128::from(b) << 64 | u128::from(a) }
}

/// Does something for each lane that runs, at the address that it accesses.
///
/// # Safety
///
/// The operation is one with an address.
#[inline(always)]
unsafe fn each(lanes: &mut Lanes<'_>, op: &Op, kind: AccessKind, act: impl Fn(&mut Lanes<'_>, usize, u64)) -> Step {
    // SAFETY: the caller's promise is passed on.
    if unsafe { (lanes.locate)(lanes, op, kind) } != Step::Next {
        return Step::Fault;
    }
    let mut left = lanes.mask;
    while left != 0 {
        let lane = (left.trailing_zeros() & 31) as usize;
        left &= left - 1;
        let address = lanes.addresses.0[lane];
        act(lanes, lane, address);
    }
    Step::Next
}

/// A load that others see as a whole.
pub(crate) struct LoadWhole;
impl Body for LoadWhole {
    const FORM: Form = <Load<u128, u128>>::FORM;

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `locate` has found addresses that may be read, at multiples of 16, and `d` is a plane of 128 bits.
        unsafe {
            each(lanes, op, AccessKind::Read, |lanes, lane, address| {
                (*lanes.plane::<u128>(op.d))[lane] = whole::load(address);
            })
        }
    }
}

/// A store that others see as a whole.
pub(crate) struct StoreWhole;
impl Body for StoreWhole {
    const FORM: Form = <Store<u128, u128>>::FORM;

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `locate` has found addresses that may be written, at multiples of 16, and `d` is a plane of 128 bits.
        unsafe {
            each(lanes, op, AccessKind::Write, |lanes, lane, address| {
                whole::store(address, (*lanes.plane::<u128>(op.d))[lane]);
            })
        }
    }
}

/// `atom.exch.b128` and `atom.cas.b128`.
pub(crate) struct Exchange;
impl Body for Exchange {
    const FORM: Form = Form {
        d: Use::Write(Width::W128),
        a: Use::Read(Width::W64),
        b: Use::Read(Width::W128),
        c: Use::Read(Width::W128),
        e: Use::No,
        when: When::Atomic(16),
    };

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        lanes.watches = true;
        let compares = super::atomic::NAMES.get(op.target as usize) == Some(&"cas");
        // SAFETY: `locate` has found addresses that may be accessed, at multiples of 16, and `b`, `c` and `d` are planes of 128
        // bits, of which `d` is written if the result is wanted.
        unsafe {
            each(lanes, op, AccessKind::Atomic, |lanes, lane, address| {
                let [b, c] = [op.b, op.c].map(|slot| (*lanes.plane::<u128>(slot))[lane]);
                let old = whole::update(address, |old| match compares {
                    true if old == b => c,
                    true => old,
                    false => b,
                });
                if op.flags & super::atomic::RESULT != 0 {
                    (*lanes.plane::<u128>(op.d))[lane] = old;
                }
            })
        }
    }
}
