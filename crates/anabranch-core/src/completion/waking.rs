//! Calls of wakers by a reactor.

use crate::contained::contain_quietly;
use std::cell::Cell;
use std::task::Waker;

thread_local! {
    static WAKING: Cell<bool> = const { Cell::new(false) };
}

/// Wakes a task. A panic of its executor does not end the reactor.
pub(super) fn wake(waker: Waker) {
    WAKING.set(true);
    contain_quietly(|| waker.wake());
    WAKING.set(false);
}

/// Whether this thread is a reactor that calls a waker. Until the waker returns, the reactor wakes nobody.
pub(super) fn is_here() -> bool {
    WAKING.try_with(Cell::get).unwrap_or(false)
}
