//! Things of the program, each of which is dropped whatever the drop of another one does.

use anabranch_hal::contain;
use std::collections::VecDeque;
use std::thread;

/// A queue of things whose drop is code of the program.
pub(super) struct Each<T>(VecDeque<T>);

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Each<T> {
    pub(super) fn push_back(&mut self, one: T) {
        self.0.push_back(one);
    }

    pub(super) fn push_front(&mut self, one: T) {
        self.0.push_front(one);
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of these and then all of the others. What is shorter is moved, so that adding a few in a loop, at either end, does
    /// not move all that was added before.
    pub(super) fn followed_by(mut self, mut later: Self) -> Self {
        if self.0.len() < later.0.len() {
            while let Some(last) = self.0.pop_back() {
                later.0.push_front(last);
            }
            later
        } else {
            self.0.append(&mut later.0);
            self
        }
    }
}

impl<T> Drop for Each<T> {
    fn drop(&mut self) {
        drop_all(|| self.0.pop_front().is_some());
    }
}

/// Calls `drop_next`, which drops one thing of the program, until it returns that there was none. If a drop unwinds, this
/// function does, when all others were dropped too; what they throw is lost. It does not unwind while the thread does already,
/// which would end the process.
pub(super) fn drop_all(drop_next: impl FnMut() -> bool) {
    struct Rest<F: FnMut() -> bool>(F);

    impl<F: FnMut() -> bool> Drop for Rest<F> {
        fn drop(&mut self) {
            while contain(&mut self.0).unwrap_or(true) {}
        }
    }

    let mut rest = Rest(drop_next);
    while !thread::panicking() && (rest.0)() {}
}
