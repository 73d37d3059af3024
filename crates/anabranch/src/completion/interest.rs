//! One future's interest in a point being reached: where its waker is kept, and the result left.

use crate::error::Result;
use crate::sync::Mutex;
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

    /// How long after the first poll it pays to wake the task early, so that it looks on itself when the point is reached.
    fn look_again_after(&self) -> Option<Duration>;
}

/// Shared by a future and the reactor.
pub(crate) struct Interest<P> {
    point: P,
    since: Instant,
    /// Whether its task is the only one that awaits work lately.
    alone: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    state: State,
    /// A task is woken early once at most.
    woken_early: bool,
}

enum State {
    Waiting(Waker),
    /// The task was woken early, and will look itself.
    Looking,
    Over(Result<()>),
    GivenUp,
}

/// What the reactor is to do about an interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Look whether the point is reached.
    Awaited,
    /// Leave that to the task, which looks itself.
    Looking,
    /// Let it go.
    Over,
    /// Let it go, and count it.
    GivenUp,
}

/// What is to be done for whoever waited.
#[derive(Debug)]
pub(crate) enum Finished {
    /// Wake the task.
    Wake(Waker),
    /// Nothing: the task is awake, or has the result.
    Nothing,
    /// Count it: nobody waited any more.
    GivenUp,
}

impl<P: Point> Interest<P> {
    /// The interest of a future that was first polled at `since`, and whose task is woken by `waker`.
    pub(crate) fn new(point: P, since: Instant, waker: Waker, alone: bool) -> Arc<Self> {
        let inner = Inner { state: State::Waiting(waker), woken_early: false };
        Arc::new(Self { point, since, alone, inner: Mutex::new(inner) })
    }

    pub(crate) fn point(&self) -> &P {
        &self.point
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// When the future was first polled.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.inner.lock().state {
            State::Waiting(_) => Standing::Awaited,
            State::Looking => Standing::Looking,
            State::Over(_) => Standing::Over,
            State::GivenUp => Standing::GivenUp,
        }
    }

    /// The result, or, from now on, `waker` in place of the one before. That one is returned. Neither is it dropped under
    /// the lock, nor the new one cloned.
    pub(crate) fn poll(&self, waker: &Waker) -> (Poll<Result<()>>, Option<Waker>) {
        match &self.inner.lock().state {
            State::Over(result) => return (Poll::Ready(result.clone()), None),
            State::Waiting(current) if current.will_wake(waker) => return (Poll::Pending, None),
            State::Waiting(_) | State::Looking => {}
            // Only the future itself gives up, when it is dropped.
            State::GivenUp => return (Poll::Pending, None),
        }
        let waker = waker.clone();
        let state = &mut self.inner.lock().state;
        match state {
            State::Over(result) => (Poll::Ready(result.clone()), Some(waker)),
            State::Waiting(current) => (Poll::Pending, Some(replace(current, waker))),
            State::Looking => {
                *state = State::Waiting(waker);
                (Poll::Pending, None)
            }
            State::GivenUp => (Poll::Pending, Some(waker)),
        }
    }

    /// The waker of a task that is to look itself from now on, once.
    pub(crate) fn wake_early(&self) -> Option<Waker> {
        let mut inner = self.inner.lock();
        if !self.alone || inner.woken_early {
            return None;
        }
        match replace(&mut inner.state, State::Looking) {
            State::Waiting(waker) => {
                inner.woken_early = true;
                Some(waker)
            }
            before @ (State::Looking | State::Over(_) | State::GivenUp) => {
                inner.state = before;
                None
            }
        }
    }

    /// Leaves the result, unless there is one, and says what is to be done for whoever waited.
    pub(crate) fn finish(&self, result: Result<()>) -> Finished {
        let mut inner = self.inner.lock();
        let finished = match replace(&mut inner.state, State::Over(result)) {
            State::Waiting(waker) => Finished::Wake(waker),
            State::Looking => Finished::Nothing,
            before @ State::Over(_) => {
                inner.state = before;
                return Finished::Nothing;
            }
            before @ State::GivenUp => {
                inner.state = before;
                return Finished::GivenUp;
            }
        };
        drop(inner);
        self.point.waited(self.since.elapsed());
        finished
    }

    /// Leaves the result that the task has found itself, unless the reactor was quicker.
    pub(crate) fn found(&self, result: Result<()>) {
        let mut inner = self.inner.lock();
        if let State::Looking = inner.state {
            inner.state = State::Over(result);
        }
    }

    /// Nobody waits any more. The waker, if there is one, is returned; the first value says whether the reactor still has to
    /// let go of this.
    pub(crate) fn give_up(&self) -> (bool, Option<Waker>) {
        let mut inner = self.inner.lock();
        match replace(&mut inner.state, State::GivenUp) {
            State::Waiting(waker) => (true, Some(waker)),
            State::Looking => (true, None),
            before @ (State::Over(_) | State::GivenUp) => {
                inner.state = before;
                (false, None)
            }
        }
    }
}
