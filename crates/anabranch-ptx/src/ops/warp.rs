//! What lanes of a warp do together. Each lane first waits until the lanes that its mask names are here. Lanes that are at one place
//! may have different masks, as those of tiles do: each group of one mask does it by itself.

use std::marker::PhantomData;

use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Use, Vectors, When, Width};
use crate::ops::real::Real;

/// Runs `body` for each group of lanes that have one mask in `e`, if all lanes that the mask names are here; they are in `taken`. Lanes
/// that have ended do not count. Afterwards `taken` has the lanes for which it was done, and the others go on waiting.
#[inline(always)]
unsafe fn together(lanes: &mut Lanes<'_>, op: &Op, mut body: impl FnMut(&mut Lanes<'_>)) -> Step {
    let here = lanes.mask;
    // SAFETY: `e` is a plane of 32 bits.
    let named = unsafe { *lanes.plane::<u32>(op.e) };
    let (mut left, mut done) = (here, 0);
    while left != 0 {
        let members = named[(left.trailing_zeros() & 31) as usize];
        // Mostly it is the same for all.
        let group = if named.iter().all(|other| *other == members) {
            left
        } else {
            (0..LANES).filter(|&lane| named[lane] == members).fold(0, |lanes, lane| lanes | 1 << lane) & left
        };
        left &= !group;
        let taken = members & lanes.live;
        if taken & !here == 0 {
            (lanes.mask, lanes.taken) = (group, taken);
            body(lanes);
            done |= group;
        }
    }
    (lanes.mask, lanes.taken) = (here, done);
    if done == here { Step::Next } else { Step::Gather }
}

macro_rules! together {
    ($(#[$attribute:meta])* $name:ident $form:expr, |$lanes:ident, $op:ident| $body:block) => {
        $(#[$attribute])*
        pub(crate) struct $name;
        impl Body for $name {
            const FORM: Form = $form;

            unsafe fn run<V: Vectors>($lanes: &mut Lanes<'_>, $op: &Op) -> Step {
                // SAFETY: the slots are planes of 32 bits, or predicates, as lowering made them.
                unsafe { together($lanes, $op, |$lanes| $body) }
            }
        }
    };
}

/// Modes of `shfl`, in `flags`.
pub(crate) const UP: u32 = 0;
pub(crate) const DOWN: u32 = 1;
pub(crate) const BUTTERFLY: u32 = 2;
pub(crate) const INDEXED: u32 = 3;
/// A second result is wanted: `guard` is not used by these operations themselves, so that its slot is free for it.
pub(crate) const SECOND: u64 = 1;

/// `shfl.sync`: values `a`, lanes `b`, limits `c`. `target` is the slot of the predicate where `imm` is [`SECOND`].
pub(crate) struct Shuffle;
impl Body for Shuffle {
    const FORM: Form = Form::three(Width::W32, Width::W32, Width::W32, Width::W32).with(Width::W32).when(When::Second);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of 32 bits, and a predicate.
        let shuffle = |lanes: &mut Lanes<'_>| unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u32>(slot));
            let mut values = [0u32; LANES];
            let mut inside = 0u32;
            for lane in 0..LANES {
                let own = lane as u32;
                let (count, segment, limit) = (b[lane] & 31, c[lane] >> 8 & 31, c[lane] & 31);
                let most = (own & segment) | (limit & !segment);
                let (source, within) = match op.flags {
                    UP => (own.wrapping_sub(count), own as i32 - count as i32 >= most as i32),
                    DOWN => (own + count, own + count <= most),
                    BUTTERFLY => (own ^ count, own ^ count <= most),
                    _ => {
                        let source = (own & segment) | (count & !segment);
                        (source, source <= most)
                    }
                };
                values[lane] = a[if within { source as usize & 31 } else { lane }];
                inside |= u32::from(within) << lane;
            }
            lanes.set_plane(op.d, &values);
            if op.imm == SECOND {
                lanes.set_predicate(crate::machine::Slot(op.target), inside);
            }
        };
        // SAFETY: `e` is a plane of 32 bits.
        unsafe { together(lanes, op, shuffle) }
    }
}

together!(
    /// `bar.warp.sync`.
    Meet Form::NONE.with(Width::W32).when(When::Together), | lanes,
    _op | {
        let _ = lanes;
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    }
);

/// The `flags` of [`Meet`], by which it is known.
pub(crate) const MEET: u32 = 1 << 31;

/// Modes of `vote`, in `flags`.
pub(crate) const ALL: u32 = 0;
pub(crate) const ANY: u32 = 1;
pub(crate) const UNIFORM: u32 = 2;

together!(
    /// `vote.sync`: the predicate `a`, with `negate`, to the predicate `d`.
    Vote Form::one(Width::Predicate, Width::Predicate).with(Width::W32).when(When::Together), | lanes,
    op | {
        let all = lanes.mask & lanes.taken;
        let holds = (lanes.predicate(op.a) ^ op.negate) & all;
        let result = match op.flags {
            ALL => holds == all,
            ANY => holds != 0,
            _ => holds == all || holds == 0,
        };
        lanes.set_predicate(op.d, if result { !0 } else { 0 });
    }
);

together!(
    /// `vote.sync.ballot`: the predicate `a` to bits of all lanes.
    Ballot Form::one(Width::W32, Width::Predicate).with(Width::W32).when(When::Together), | lanes,
    op | {
        let holds = (lanes.predicate(op.a) ^ op.negate) & lanes.mask & lanes.taken;
        lanes.set_plane(op.d, &[holds; LANES]);
    }
);

together!(
    /// `elect.sync`: the lowest lane, and a predicate that holds for it alone, in the slot of `c`.
    Elect Form { c: Use::Write(Width::Predicate), ..Form::made(Width::W32) }.with(Width::W32).when(When::Together), | lanes,
    op | {
        let leader = (lanes.mask & lanes.taken).trailing_zeros() & 31;
        lanes.set_plane(op.d, &[leader; LANES]);
        lanes.set_predicate(op.c, 1 << leader);
    }
);

/// `match.any.sync`, and `match.all.sync` with a predicate in the slot of `c` where `imm` is [`SECOND`].
pub(crate) struct Match<T>(PhantomData<T>);
impl<T: Copy + PartialEq> Body for Match<T> {
    const FORM: Form = Form { c: Use::Write(Width::Predicate), ..Form::one(Width::W32, Width::of_type::<T>()) }
        .with(Width::W32)
        .when(When::Last);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` is a plane of this type, and `d` one of 32 bits.
        let compare = |lanes: &mut Lanes<'_>| unsafe {
            let all = lanes.mask & lanes.taken;
            let a = *lanes.plane::<T>(op.a);
            let equal = |lane: usize| {
                (0..LANES)
                    .filter(|&other| all >> other & 1 != 0 && a[other] == a[lane])
                    .fold(0, |bits, o| bits | 1 << o)
            };
            if op.flags == ALL {
                let every = equal(lanes.first()) == all;
                lanes.set_plane(op.d, &[if every { all } else { 0 }; LANES]);
                if op.imm == SECOND {
                    lanes.set_predicate(op.c, if every { !0 } else { 0 });
                }
            } else {
                let values: [u32; LANES] = std::array::from_fn(equal);
                lanes.set_plane(op.d, &values);
            }
        };
        // SAFETY: `e` is a plane of 32 bits.
        unsafe { together(lanes, op, compare) }
    }
}

/// What `redux` computes, in `flags`.
pub(crate) const REDUCTIONS: [&str; 6] = ["add", "min", "max", "and", "or", "xor"];
/// The type of `redux`, in `imm`.
pub(crate) const OF_UNSIGNED: u64 = 0;
pub(crate) const OF_SIGNED: u64 = 1;
pub(crate) const OF_REAL: u64 = 2;
pub(crate) const OF_REAL_NAN: u64 = 3;

together!(
    /// `redux.sync`.
    Reduce Form::one(Width::W32, Width::W32).with(Width::W32).when(When::Together), | lanes,
    op | {
        let all = lanes.mask & lanes.taken;
        let a = *lanes.plane::<u32>(op.a);
        let values = (0..LANES).filter(|lane| all >> lane & 1 != 0).map(|lane| a[lane]);
        let signed = |f: fn(i32, i32) -> i32| move |a: u32, b: u32| f(a as i32, b as i32) as u32;
        let real = |f: fn(f32, f32) -> f32| move |a: u32, b: u32| f(f32::from_bits(a), f32::from_bits(b)).to_bits();
        let result = match (op.flags, op.imm) {
            (0, _) => values.reduce(u32::wrapping_add),
            (1, OF_UNSIGNED) => values.reduce(u32::min),
            (1, OF_SIGNED) => values.reduce(signed(i32::min)),
            (1, OF_REAL) => values.reduce(real(f32::least)),
            (1, _) => values.reduce(real(f32::least_nan)),
            (2, OF_UNSIGNED) => values.reduce(u32::max),
            (2, OF_SIGNED) => values.reduce(signed(i32::max)),
            (2, OF_REAL) => values.reduce(real(f32::most)),
            (2, _) => values.reduce(real(f32::most_nan)),
            (3, _) => values.reduce(|a, b| a & b),
            (4, _) => values.reduce(|a, b| a | b),
            _ => values.reduce(|a, b| a ^ b),
        };
        lanes.set_plane(op.d, &[result.unwrap_or(0); LANES]);
    }
);

/// `activemask`.
pub(crate) struct ActiveMask;
impl Body for ActiveMask {
    const FORM: Form = Form::made(Width::W32).when(When::Together);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `d` is a plane of 32 bits.
        unsafe { lanes.set_plane(op.d, &[lanes.mask; LANES]) };
        Step::Next
    }
}
