//! Calls of code of the program, whose panics end there.

use crate::thread_capture_mode::ModesBefore;
use anabranch_hal::{InsideWorkBefore, Thrown, contain};
use anabranch_sync::{Rank, require_none_held};

/// Calls code of the program, with no lock held, where a panic cannot be reported. The panic itself has been printed.
#[track_caller]
pub(crate) fn contain_quietly<R>(run: impl FnOnce() -> R) -> Option<R> {
    require_none_held(Rank::LOWEST);
    // SAFETY: it is a variable of this function.
    let _before = unsafe { InsideWorkBefore::note() };
    let _modes = ModesBefore::note();
    contain(run).ok()
}

/// Runs code of the program as inside of a host function. Marks that it leaks end with it.
///
/// # Errors
/// What it throws.
#[inline(always)]
pub(crate) fn contain_inside<R>(run: impl FnOnce() -> R) -> Result<R, Thrown> {
    // SAFETY: it is a variable of this function.
    let _inside = unsafe { InsideWorkBefore::enter() };
    contain(run)
}
