//! `mbarrier`: barrier objects, which are words of 64 bits in shared memory.
//!
//! From the lowest bit: 20 bits of the arrivals that each phase expects, 20 of those that this phase still waits for, and 24 of
//! the number of the phase. The state that an arrival returns is the word before it.

use super::atomic::Word;
use super::load::{SHARED, SPACE};
use crate::machine::{Body, Form, Lanes, Op, Step, Use, Vectors, When, Width};
use crate::memory::AccessKind;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most arrivals of a phase.
const MOST: u64 = (1 << 20) - 1;

/// What is done, in `target`.
pub(crate) const INITIALIZE: u32 = 0;
pub(crate) const INVALIDATE: u32 = 1;
pub(crate) const ARRIVE: u32 = 2;
/// Later phases expect fewer arrivals.
pub(crate) const DROP: u32 = 3;
/// Whether the phase of a state is over.
pub(crate) const OF_STATE: u32 = 4;
/// Whether a phase of this parity is over.
pub(crate) const OF_PARITY: u32 = 5;

const fn phase(word: u64) -> u64 {
    word >> 40
}

#[inline(always)]
fn change(kind: u32, word: u64, count: u64) -> u64 {
    let count = count.min(MOST);
    match kind {
        INITIALIZE => count << 20 | count,
        INVALIDATE => 0,
        _ => {
            let expected = (word & MOST).saturating_sub(if kind == DROP { count } else { 0 });
            let pending = (word >> 20 & MOST).saturating_sub(count);
            let (phase, pending) =
                if pending == 0 { (phase(word).wrapping_add(1), expected) } else { (phase(word), pending) };
            phase << 40 | pending << 20 | expected
        }
    }
}

/// `init`, `inval`, `arrive`, `arrive_drop`: the count is in `b`, and the state before goes to `d`.
pub(crate) struct Change;
impl Body for Change {
    const FORM: Form = Form {
        d: Use::Write(Width::W64),
        a: Use::Read(Width::W64),
        b: Use::Read(Width::W64),
        c: Use::No,
        e: Use::No,
        when: When::Atomic(8),
    };

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let kind = if matches!(op.target, INITIALIZE | INVALIDATE) { AccessKind::Write } else { AccessKind::Atomic };
        // SAFETY: lowering has made the operation for planes of 64 bits, and `locate` returns addresses that may be accessed.
        unsafe {
            if (lanes.locate)(lanes, op, kind) != Step::Next {
                return Step::Fault;
            }
            let counts = *lanes.plane::<u64>(op.b);
            let exclusive = op.flags & SPACE == SHARED;
            let place = lanes.plane::<u64>(op.d);
            for lane in (0..32).filter(|lane| lanes.mask >> lane & 1 != 0) {
                let count = counts[lane];
                let old = u64::update(lanes.addresses.0[lane], exclusive, |word| change(op.target, word, count));
                if op.flags & super::atomic::RESULT != 0 {
                    (*place)[lane] = old;
                }
            }
        }
        Step::Next
    }
}

/// `test_wait`, `try_wait`: the state or the parity is in `b`, and the predicate is `d`.
pub(crate) struct Ask;
impl Body for Ask {
    const FORM: Form = Form {
        d: Use::Write(Width::Predicate),
        a: Use::Read(Width::W64),
        b: Use::Read(Width::W64),
        c: Use::No,
        e: Use::No,
        when: When::Atomic(8),
    };

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: as above, and `d` is a predicate.
        unsafe {
            if (lanes.locate)(lanes, op, AccessKind::Read) != Step::Next {
                return Step::Fault;
            }
            // Who asks may ask until others have arrived.
            lanes.watches = true;
            let asked = *lanes.plane::<u64>(op.b);
            let mut over = 0;
            for lane in (0..32).filter(|lane| lanes.mask >> lane & 1 != 0) {
                // Memory that is only read may be so for all.
                let word = with_exposed_provenance_mut(lanes.addresses.0[lane] as usize);
                let now = phase(AtomicU64::from_ptr(word).load(Ordering::Acquire));
                let differs =
                    if op.target == OF_STATE { now != phase(asked[lane]) } else { (now ^ asked[lane]) & 1 != 0 };
                over |= u32::from(differs) << lane;
            }
            if op.flags & super::atomic::RESULT != 0 {
                lanes.set_predicate(op.d, over);
            }
        }
        Step::Next
    }
}

/// `pending_count`: what a state still waits for.
pub(crate) struct Pending;
impl Body for Pending {
    const FORM: Form = Form::one(Width::W32, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` is a plane of 64 bits, and `d` one of 32.
        unsafe {
            let states = *lanes.plane::<u64>(op.a);
            lanes.set_plane(op.d, &states.map(|state| (state >> 20 & MOST) as u32));
        }
        Step::Next
    }
}
