//! One future's interest in a point being reached: where its waker is kept, and the result left.

use super::sync::Mutex;
use crate::error::Result;
use std::mem::replace;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// Something that will be complete at some time, and can be asked without blocking.
pub(crate) trait Point: Send + Sync + 'static {
    /// Points of one lane are reached in the order of their places.
    fn lane(&self) -> usize;

    /// The place in the lane.
    fn place(&self) -> u64;

    /// Whether it is reached: `None` while it is not, an error when it never will be, or was not as it should.
    fn look(&self) -> Option<Result<()>>;

    /// An error that keeps every point from being reached.
    fn check_context(&self) -> Result<()>;

    /// Notes how long was waited for it.
    fn waited(&self, time: Duration);
}

/// Shared by a future and the reactor.
pub(crate) struct Interest<P> {
    point: P,
    since: Instant,
    state: Mutex<State>,
}

enum State {
    Waiting(Waker),
    Over(Result<()>),
    GivenUp,
}

impl<P: Point> Interest<P> {
    /// The interest of a future that was first polled at `since`, and whose task is woken by `waker`.
    pub(crate) fn new(point: P, since: Instant, waker: Waker) -> Arc<Self> {
        Arc::new(Self { point, since, state: Mutex::new(State::Waiting(waker)) })
    }

    pub(crate) fn point(&self) -> &P {
        &self.point
    }

    /// The result, or, from now on, `waker` in place of the one before. That one is returned. Neither is it dropped under
    /// the lock, nor the new one cloned.
    pub(crate) fn poll(&self, waker: &Waker) -> (Poll<Result<()>>, Option<Waker>) {
        match &*self.state.lock() {
            State::Over(result) => return (Poll::Ready(result.clone()), None),
            State::Waiting(current) if current.will_wake(waker) => return (Poll::Pending, None),
            State::Waiting(_) => {}
            // Only the future itself gives up, when it is dropped.
            State::GivenUp => return (Poll::Pending, None),
        }
        let waker = waker.clone();
        match &mut *self.state.lock() {
            State::Over(result) => (Poll::Ready(result.clone()), Some(waker)),
            State::Waiting(current) => (Poll::Pending, Some(replace(current, waker))),
            State::GivenUp => (Poll::Pending, Some(waker)),
        }
    }

    /// Leaves the result, and returns the waker of whoever still waits.
    pub(crate) fn finish(&self, result: Result<()>) -> Option<Waker> {
        let mut state = self.state.lock();
        match replace(&mut *state, State::Over(result)) {
            State::Waiting(waker) => {
                drop(state);
                self.point.waited(self.since.elapsed());
                Some(waker)
            }
            before @ (State::Over(_) | State::GivenUp) => {
                *state = before;
                None
            }
        }
    }

    /// Nobody waits any more. Returns the waker if somebody did.
    pub(crate) fn give_up(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        match replace(&mut *state, State::GivenUp) {
            State::Waiting(waker) => Some(waker),
            before @ (State::Over(_) | State::GivenUp) => {
                *state = before;
                None
            }
        }
    }

    /// Whether somebody still waits.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(*self.state.lock(), State::Waiting(_))
    }
}
