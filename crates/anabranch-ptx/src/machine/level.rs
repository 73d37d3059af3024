//! Inner loops, compiled for each generation of vectors that the processor may have.

use super::{Form, Lanes, Op, Run, Step};
use crate::memory::Short;
use crate::memory::Vectors;
#[cfg(target_arch = "x86_64")]
use crate::memory::{Long, Middle};

/// The vectors that a processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the target has.
    Baseline,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 with its byte, word, doubleword and quadword instructions.
    Avx512,
}

/// The best level of this processor.
pub fn detect() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Level::Avx512,
            (true, false) => Level::Avx2,
            _ => Level::Baseline,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    Level::Baseline
}

/// An operation: what it does with its operands, and which function performs it at a level.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) form: Form,
    pub(crate) run: fn(Level) -> Run,
    /// What it calls where it is not what it mostly is.
    pub(crate) rest: fn(Level) -> Run,
}

/// An operation, as lowering names it.
pub(crate) type Select = fn() -> Chosen;

/// What an operation does. `run` is inlined into a function of each level.
pub(crate) trait Body {
    /// What it does with its operands.
    const FORM: Form;

    /// Performs the operation.
    ///
    /// # Safety
    ///
    /// The slots of the operation lie within the frame of the lanes, and have the sizes that `FORM` says.
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step;
}

unsafe fn baseline<B: Body>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
    // SAFETY: the caller's promise is that of `Body::run`.
    unsafe { B::run::<Short>(lanes, op) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<B: Body>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
    // SAFETY: the caller's promise is that of `Body::run`.
    unsafe { B::run::<Middle>(lanes, op) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx512<B: Body>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
    // SAFETY: the caller's promise is that of `Body::run`.
    unsafe { B::run::<Long>(lanes, op) }
}

/// A function of each level. The linker of programs asks only for levels that [`detect`] has found.
pub(crate) fn body<B: Body>() -> Chosen {
    fn run<B: Body>(level: Level) -> Run {
        #[cfg(target_arch = "x86_64")]
        match level {
            Level::Avx512 => return avx512::<B>,
            Level::Avx2 => return avx2::<B>,
            Level::Baseline => {}
        }
        let _ = level;
        baseline::<B>
    }
    Chosen { form: B::FORM, run: run::<B>, rest: run::<B> }
}

/// A function of each level, and one for what is rarer, of each level too.
pub(crate) fn body_and_rest<B: Body, R: Body>() -> Chosen {
    Chosen { rest: body::<R>().run, ..body::<B>() }
}

/// The same for what is rare itself.
pub(crate) fn few_and_rest<B: Body, R: Body>() -> Chosen {
    Chosen { rest: body_of_few::<R>().run, ..body_of_few::<B>() }
}

/// The same with the function for AVX2 at the highest level too, for what is rarer: compilers take long for each function.
pub(crate) fn body_of_few<B: Body>() -> Chosen {
    fn run<B: Body>(level: Level) -> Run {
        #[cfg(target_arch = "x86_64")]
        if level >= Level::Avx2 {
            return avx2::<B>;
        }
        let _ = level;
        baseline::<B>
    }
    Chosen { form: B::FORM, run: run::<B>, rest: run::<B> }
}

/// The same function for all levels, for what vectors do not make faster.
pub(crate) fn body_of<B: Body>() -> Chosen {
    fn run<B: Body>(_: Level) -> Run {
        baseline::<B>
    }
    Chosen { form: B::FORM, run: run::<B>, rest: run::<B> }
}
