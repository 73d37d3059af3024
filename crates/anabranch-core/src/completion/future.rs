//! The future that waits for work.

use super::awaited::{Awaited, AwaitedPoint};
use super::outstanding::Outstanding;
use super::reactor;
use super::registry::Registry;
use super::waiter::{Awaitable, Waiter, WaiterStatus};
use super::waking;
use crate::contained::contain_quietly;
use crate::error::{Error, Result};
use crate::host_work;
use crate::reaper;
use crate::stream::{OpenStream, StreamCore};
use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::Status;
use futures_core::FusedFuture;
use smallvec::SmallVec;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker, ready};
use std::time::{Duration, Instant};

/// A future that is ready when all work that was queued before the future was made is complete. See
/// `Stream::completion_future`, `Event::completed` and `ExecutableGraph::launch_async`.
///
/// What the future waits for is determined when it is made, not when it is first polled. The future can be sent to
/// other threads and polled by any executor. Polling it again after it was ready returns the same result. Dropping it
/// stops only the waiting: the work continues. If making the future failed, it returns that error when it is awaited.
///
/// Wakers are called on the thread of the library that looks after all futures of the context, so they must not wait for
/// anything. A future that is polled inside of a waker, as by an executor that runs tasks there, or by `block_on`, and is
/// not ready, returns `CUDA_ERROR_NOT_PERMITTED (800)`: the thread that would have to wake its task is this one.
#[must_use = "a future says nothing unless it is awaited"]
pub struct Completion {
    stage: Stage,
    /// The streams whose work is checked for panics at the end. The first panic is reported, and the others remain.
    checked: SmallVec<[Arc<StreamCore>; 1]>,
    /// Whether the result was returned.
    told: bool,
}

enum Stage {
    /// Not polled yet.
    Fresh(Awaited),
    /// Registered with the reactor.
    Waiting {
        waiter: Arc<Waiter<Awaited>>,
        reactor: Arc<Registry<Awaited>>,
    },
    Over(Result<()>),
}

impl Completion {
    pub(crate) fn new(awaited: Result<Awaited>, checked: Option<Arc<StreamCore>>) -> Self {
        match awaited {
            Ok(awaited) => Self { stage: Stage::Fresh(awaited), checked: checked.into_iter().collect(), told: false },
            Err(error) => Self { stage: Stage::Over(Err(error)), checked: SmallVec::new(), told: false },
        }
    }

    /// A future of all work that is in a stream now. `reports_panics`: whether it also reports a panic of a closure of
    /// the stream.
    pub fn of_stream(stream: &OpenStream, reports_panics: bool) -> Self {
        let awaited = AwaitedPoint::put(stream, super::OPERATION).map(Awaited::Point);
        Self::new(awaited, reports_panics.then(|| stream.core().clone()))
    }

    /// The future also reports a panic of a closure of this stream, all of whose work is complete when the future is ready.
    pub fn check_also(&mut self, stream: &Arc<StreamCore>) {
        if !self.is_over() {
            self.checked.push(stream.clone());
        }
    }

    /// A future that has already failed.
    pub fn failed(error: Error) -> Self {
        Self::new(Err(error), None)
    }

    /// Stops waiting. Returns what was waited for, unless that is already known to be over.
    pub fn abandon(&mut self) -> Option<Outstanding> {
        match std::mem::replace(&mut self.stage, Stage::Over(Ok(()))) {
            Stage::Fresh(awaited) => Some(Outstanding::Unasked(awaited)),
            Stage::Waiting { waiter, reactor } => {
                give_up(&waiter, &reactor);
                Some(Outstanding::Asked(waiter))
            }
            Stage::Over(_) => None,
        }
    }

    /// Whether the result is known.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    fn finish(&mut self, result: Result<()>) -> Poll<Result<()>> {
        let checked = std::mem::take(&mut self.checked);
        let result = result.and_then(|()| checked.iter().try_for_each(|stream| stream.take_failure(super::OPERATION)));
        self.stage = Stage::Over(result.clone());
        self.told = true;
        Poll::Ready(result)
    }

    fn poll_anywhere(&mut self, waker: &Waker) -> Poll<Result<()>> {
        match &self.stage {
            Stage::Over(result) => {
                let result = result.clone();
                self.told = true;
                Poll::Ready(result)
            }
            Stage::Fresh(_) => self.poll_fresh(waker),
            Stage::Waiting { waiter, .. } => {
                check_again(waiter);
                let (result, before) = waiter.poll(waker);
                drop_waker(before);
                let result = ready!(result);
                self.finish(result)
            }
        }
    }

    /// Checks for as long as that pays, and then registers with the reactor.
    fn poll_fresh(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let Stage::Fresh(awaited) = &self.stage else { return Poll::Pending };
        let since = Instant::now();
        let alone = awaited.completion().is_same_task(waker);
        // Inside of a driver's callback only the reactor may ask.
        if !host_work::is_inside()
            && !awaited.is_behind_others()
            && let Some(result) = without_captures(awaited, || check(awaited, since, alone))
        {
            return self.finish(result);
        }
        let Some(reactor) = awaited.completion().reactor(awaited.context()) else {
            // There is no thread to be had, so the executor's has to look.
            waker.wake_by_ref();
            return Poll::Pending;
        };
        let waker = waker.clone();
        let Stage::Fresh(awaited) = std::mem::replace(&mut self.stage, Stage::Over(Ok(()))) else {
            return Poll::Pending;
        };
        awaited.register();
        let waiter = Waiter::new(awaited, since, waker, alone);
        if !reactor.register(&waiter) {
            return self.finish(Err(reactor::closed()));
        }
        self.stage = Stage::Waiting { waiter, reactor };
        Poll::Pending
    }
}

/// Calls `check`, on which no capture can depend.
fn without_captures<R>(awaited: &Awaited, check: impl FnOnce() -> R) -> R {
    if awaited.asks_driver() { with_relaxed_capture_mode(awaited.context().driver(), check) } else { check() }
}

/// Checks until the point is reached, for as long as that pays, or once if tasks take turns.
fn check(awaited: &Awaited, since: Instant, alone: bool) -> Option<Result<()>> {
    let result = match awaited.check() {
        Some(result) => {
            awaited.waited(Duration::ZERO);
            return Some(result);
        }
        None if alone => spin_check(awaited, since, awaited.spin()),
        None => None,
    };
    if result.is_some() {
        awaited.waited(since.elapsed());
    }
    result
}

/// How often a long check queries whether the context is lost, which a flag does not show.
const CHECK: Duration = Duration::from_micros(200);

/// Checks until the point is reached, or for as long as `spin`.
fn spin_check(awaited: &Awaited, since: Instant, spin: Duration) -> Option<Result<()>> {
    if spin.is_zero() {
        return None;
    }
    let mut next_check = since.elapsed() + CHECK;
    loop {
        std::hint::spin_loop();
        if let Some(result) = awaited.check() {
            return Some(result);
        }
        let checked = since.elapsed();
        if checked >= spin {
            return None;
        }
        if checked >= next_check {
            if let Err(error) = awaited.check_context() {
                return Some(Err(error));
            }
            next_check = checked + CHECK;
        }
    }
}

/// Like [`spin_check`], in a task that the reactor has woken early. Without a result, the reactor checks again.
fn check_again(waiter: &Waiter<Awaited>) {
    if waiter.status() != WaiterStatus::Checking || host_work::is_inside() {
        return;
    }
    let awaited = waiter.point();
    let spin = awaited.completion().spin();
    let result = without_captures(awaited, || awaited.check().or_else(|| spin_check(awaited, Instant::now(), spin)));
    awaited.checked_again(result.is_some(), waiter.since().elapsed());
    if let Some(result) = result {
        waiter.found(result);
    }
}

/// The error of a future that would never be woken.
#[cold]
fn refused() -> Error {
    Error::driver(super::OPERATION, Status::NOT_PERMITTED.into())
        .with_message("a future that is not ready was polled inside of a waker, which keeps it from being woken")
        .with_hint("let the waker schedule the task, and poll it on a thread of the executor")
}

/// Drops a waker, which may be the last reference to a task and everything that it holds. What comes after this is done
/// even if that unwinds.
fn drop_waker(waker: Option<Waker>) {
    if let Some(waker) = waker {
        reaper::now_or_later(move || _ = contain_quietly(|| drop(waker)));
    }
}

/// Gives up a waiter, because nobody waits any more.
fn give_up(waiter: &Waiter<Awaited>, reactor: &Registry<Awaited>) {
    let (registered, waker) = waiter.give_up();
    if registered {
        reactor.note_given_up();
    }
    drop_waker(waker);
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<()>> {
        let polled = self.poll_anywhere(task.waker());
        if polled.is_ready() || !waking::is_here() {
            return polled;
        }
        let result = self.abandon().and_then(|work| work.check());
        self.finish(result.unwrap_or_else(|| Err(refused())))
    }
}

impl FusedFuture for Completion {
    /// Whether it was ready, so that polling it returns nothing new.
    fn is_terminated(&self) -> bool {
        self.told
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Stage::Waiting { waiter, reactor } = &self.stage {
            give_up(waiter, reactor);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Fresh(_) => "not polled",
            Stage::Waiting { .. } => "waiting",
            Stage::Over(Ok(())) => "complete",
            Stage::Over(Err(_)) => "failed",
        };
        write!(formatter, "Completion({stage})")
    }
}
