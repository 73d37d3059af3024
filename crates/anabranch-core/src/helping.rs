//! Questions to a driver that may run work of the program meanwhile.

use anabranch_hal::Helping;

/// Lets a driver run work of the program in the questions that the caller asks it until the result is dropped, if no other thread runs
/// that work. The caller holds no lock.
#[inline]
pub(crate) fn helping() -> Helping {
    // SAFETY: callers hold no lock while they ask, nor are they in the middle of a change. Before a driver runs anything, it looks for
    // locks in builds with debug assertions.
    unsafe { Helping::enter() }
}
