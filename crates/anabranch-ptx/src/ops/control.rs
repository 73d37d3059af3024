//! Branches, calls, ends and barriers. These look at their guards themselves.

use crate::fault::{Detail, FaultCode};
use crate::machine::{Body, Failure, Form, LANES, Lanes, Op, Slot, Step, Use, Vectors, When, Width};
use crate::types::Space;

/// The slot of no guard.
pub(crate) const NO_GUARD: Slot = Slot(u32::MAX);

/// The lanes for which the guard holds.
#[inline(always)]
unsafe fn holding(lanes: &mut Lanes<'_>, op: &Op) -> u32 {
    if op.guard == NO_GUARD {
        return lanes.mask;
    }
    // SAFETY: the guard is a predicate.
    lanes.mask & (unsafe { lanes.predicate(op.guard) } ^ op.guard_negate)
}

macro_rules! control {
    ($(#[$attribute:meta])* $name:ident $step:ident $form:expr) => {
        $(#[$attribute])*
        pub(crate) struct $name;
        impl Body for $name {
            const FORM: Form = $form;

            #[inline(always)]
            unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
                // SAFETY: the guard is a predicate, if there is one.
                lanes.taken = unsafe { holding(lanes, op) };
                if lanes.taken == 0 { Step::Next } else { Step::$step }
            }
        }
    };
}

control!(
    /// `exit`.
    Exit Exit Form::NONE.when(When::End)
);
control!(
    /// `ret`.
    Return Return Form::NONE.when(When::End)
);
control!(
    /// `call` of a function; `target` is the site.
    Call Call Form::NONE.when(When::Site)
);
control!(
    /// `bar`, `barrier`: the number is in `a`, the count in `b`, the predicate in `c`; `flags` says what to do.
    Barrier Barrier Form::three(Width::W32, Width::W32, Width::W32, Width::Predicate).when(When::Barrier)
);
control!(
    /// `nanosleep`, and what else lets others go first.
    Yield Yield Form::NONE
);

/// `bra`: `target` is where to.
pub(crate) struct Branch;
impl Body for Branch {
    const FORM: Form = Form::NONE.when(When::Branch);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the guard is a predicate, if there is one.
        let taken = unsafe { holding(lanes, op) };
        jump(lanes, taken)
    }
}

/// A jump of the lanes that run and for which something holds.
#[inline(always)]
pub(super) fn jump(lanes: &mut Lanes<'_>, holds: u32) -> Step {
    let taken = lanes.mask & holds;
    if taken == lanes.mask {
        Step::Jump
    } else if taken == 0 {
        Step::Next
    } else {
        lanes.taken = taken;
        Step::Diverge
    }
}

/// `call` of the functions whose addresses are in `a`, and `brx.idx` by the numbers in `a`.
pub(crate) struct Indirect;
impl Body for Indirect {
    const FORM: Form = Form { a: Use::Read(Width::W64), ..Form::NONE }.when(When::Site);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the guard is a predicate, and `a` is a plane of 64 bits.
        unsafe {
            lanes.taken = holding(lanes, op);
            if lanes.taken == 0 {
                return Step::Next;
            }
            lanes.addresses.0 = *lanes.plane::<u64>(op.a);
        }
        Step::CallIndirect
    }
}

/// What a barrier does, in `flags`.
pub(crate) const SYNC: u32 = 0;
pub(crate) const ARRIVE: u32 = 1;
pub(crate) const REDUCE_COUNT: u32 = 2;
pub(crate) const REDUCE_AND: u32 = 3;
pub(crate) const REDUCE_OR: u32 = 4;
pub(crate) const BARRIER_KIND: u32 = 7;
/// The count is in `b`.
pub(crate) const COUNTED: u32 = 8;
/// All threads of a warp must come to the barrier together.
pub(crate) const ALIGNED: u32 = 16;

/// `trap`, and `brkpt` where no debugger is.
pub(crate) struct Trap;
impl Body for Trap {
    const FORM: Form = Form::NONE;

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the guard is a predicate, if there is one.
        let taken = unsafe { holding(lanes, op) };
        if taken == 0 {
            return Step::Next;
        }
        lanes.fail(Failure {
            code: FaultCode::LAUNCH_FAILED,
            detail: Detail::Trap,
            lane: taken.trailing_zeros() % LANES as u32,
            address: None,
            bytes: 0,
            space: Space::Generic,
        })
    }
}
