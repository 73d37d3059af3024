//! The waiter of a future: its waker, and the result.

use crate::error::Result;
use crate::ranks;
use anabranch_sync::modelled::Mutex;
use std::mem::replace;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// Something that will be complete at some time, and can be checked without blocking.
pub trait Awaitable: Send + Sync + 'static {
    /// The wait queue. Points of one queue are reached in the order of their values.
    fn queue(&self) -> usize;

    /// The value in the queue.
    fn value(&self) -> u64;

    /// Whether it is reached: `None` if not yet, and an error if it never will be, or if it was reached with an error.
    fn check(&self) -> Option<Result<()>>;

    /// An error that keeps every point from being reached.
    fn check_context(&self) -> Result<()>;

    /// Notes how long a future waited for it.
    fn waited(&self, time: Duration);

    /// How long after the first poll it pays to wake the task early, so that it spins when the point is reached.
    fn check_again_after(&self) -> Option<Duration>;
}

/// Shared by a future and the reactor.
pub struct Waiter<P> {
    point: P,
    since: Instant,
    /// Whether only this task has recently awaited work.
    alone: bool,
    inner: Mutex<Inner>,
}

struct Inner {
    state: State,
    /// A task is woken early at most once.
    woken_early: bool,
}

enum State {
    Waiting(Waker),
    /// The task was woken early, and will check itself.
    Checking,
    Over(Result<()>),
    GivenUp,
}

/// What the reactor must do with a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaiterStatus {
    /// Check whether the point is reached.
    Awaited,
    /// Leave that to the task, which checks itself.
    Checking,
    /// Release it.
    Over,
    /// Release it, and count it.
    GivenUp,
}

/// What must be done for the task that waited.
#[derive(Debug)]
pub enum Finished {
    /// Wake the task.
    Wake(Waker),
    /// Nothing: the task is awake, or has the result.
    Nothing,
    /// Count it: no task waited any more.
    GivenUp,
}

impl<P: Awaitable> Waiter<P> {
    /// The waiter of a future that was first polled at `since`, and whose task is woken by `waker`.
    pub fn new(point: P, since: Instant, waker: Waker, alone: bool) -> Arc<Self> {
        let inner = Inner { state: State::Waiting(waker), woken_early: false };
        Arc::new(Self { point, since, alone, inner: Mutex::new(ranks::WAITER, inner) })
    }

    pub fn point(&self) -> &P {
        &self.point
    }

    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// When the future was first polled.
    pub fn since(&self) -> Instant {
        self.since
    }

    pub fn status(&self) -> WaiterStatus {
        match self.inner.lock().state {
            State::Waiting(_) => WaiterStatus::Awaited,
            State::Checking => WaiterStatus::Checking,
            State::Over(_) => WaiterStatus::Over,
            State::GivenUp => WaiterStatus::GivenUp,
        }
    }

    /// The result, or, from now on, `waker` in place of the previous one, which is returned. The previous one is not
    /// dropped under the lock, nor is the new one cloned there.
    pub fn poll(&self, waker: &Waker) -> (Poll<Result<()>>, Option<Waker>) {
        match &self.inner.lock().state {
            State::Over(result) => return (Poll::Ready(result.clone()), None),
            State::Waiting(current) if current.will_wake(waker) => return (Poll::Pending, None),
            State::Waiting(_) | State::Checking => {}
            // Only the future itself gives up, when it is dropped.
            State::GivenUp => return (Poll::Pending, None),
        }
        let waker = waker.clone();
        let state = &mut self.inner.lock().state;
        match state {
            State::Over(result) => (Poll::Ready(result.clone()), Some(waker)),
            State::Waiting(current) => (Poll::Pending, Some(replace(current, waker))),
            State::Checking => {
                *state = State::Waiting(waker);
                (Poll::Pending, None)
            }
            State::GivenUp => (Poll::Pending, Some(waker)),
        }
    }

    /// Returns the waker of a task that is to check itself from now on. This happens at most once.
    pub fn wake_early(&self) -> Option<Waker> {
        let mut inner = self.inner.lock();
        if !self.alone || inner.woken_early {
            return None;
        }
        match replace(&mut inner.state, State::Checking) {
            State::Waiting(waker) => {
                inner.woken_early = true;
                Some(waker)
            }
            before @ (State::Checking | State::Over(_) | State::GivenUp) => {
                inner.state = before;
                None
            }
        }
    }

    /// Stores the result, unless there is one, and returns what must be done for the task that waited.
    pub fn finish(&self, result: Result<()>) -> Finished {
        let mut inner = self.inner.lock();
        let finished = match replace(&mut inner.state, State::Over(result)) {
            State::Waiting(waker) => Finished::Wake(waker),
            State::Checking => Finished::Nothing,
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

    /// Stores the result that the task has found itself, unless the reactor was quicker.
    pub fn found(&self, result: Result<()>) {
        let mut inner = self.inner.lock();
        if let State::Checking = inner.state {
            inner.state = State::Over(result);
        }
    }

    /// Gives up waiting. Returns whether the reactor still has to release this waiter, and the waker, if there is one.
    pub fn give_up(&self) -> (bool, Option<Waker>) {
        let mut inner = self.inner.lock();
        match replace(&mut inner.state, State::GivenUp) {
            State::Waiting(waker) => (true, Some(waker)),
            State::Checking => (true, None),
            before @ (State::Over(_) | State::GivenUp) => {
                inner.state = before;
                (false, None)
            }
        }
    }
}
