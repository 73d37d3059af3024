//! The future of work being complete.

use super::interest::{Interest, Point, Standing};
use super::outstanding::Outstanding;
use super::point::Awaited;
use super::reactor;
use super::registry::Registry;
use crate::capture::unprohibited;
use crate::error::{Error, Result};
use crate::host_work;
use crate::reaper;
use crate::stream::StreamCore;
use futures_core::FusedFuture;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker, ready};
use std::time::{Duration, Instant};

/// A future that is ready when work that was queued before it was made is complete. See
/// [`Stream::completion_future`](crate::Stream::completion_future), [`Event::completed`](crate::Event::completed) and
/// [`ExecutableGraph::launch_async`](crate::ExecutableGraph::launch_async).
///
/// What it waits for is fixed when it is made, and not when it is first polled. It can be sent to other threads and polled
/// by any executor; polling it again when it was ready gives the same result again. Dropping it gives up the waiting and
/// nothing else: the work runs on. Whoever has to learn of an error that came up in making it learns it by awaiting.
#[must_use = "a future says nothing unless it is awaited"]
pub struct Completion {
    stage: Stage,
    /// The stream whose host work is asked for panics at the end.
    checked: Option<Arc<StreamCore>>,
    /// Whether the result was given out.
    told: bool,
}

enum Stage {
    /// Not polled yet.
    Fresh(Awaited),
    /// The reactor looks after it.
    Waiting {
        interest: Arc<Interest<Awaited>>,
        reactor: Arc<Registry<Awaited>>,
    },
    Over(Result<()>),
}

impl Completion {
    pub(super) fn new(awaited: Result<Awaited>, checked: Option<Arc<StreamCore>>) -> Self {
        match awaited {
            Ok(awaited) => Self { stage: Stage::Fresh(awaited), checked, told: false },
            Err(error) => Self { stage: Stage::Over(Err(error)), checked: None, told: false },
        }
    }

    /// One that has failed already.
    pub(crate) fn failed(error: Error) -> Self {
        Self::new(Err(error), None)
    }

    /// Gives the waiting up. Returns what was waited for, unless that is known already to be over.
    pub(crate) fn abandon(&mut self) -> Option<Outstanding> {
        match std::mem::replace(&mut self.stage, Stage::Over(Ok(()))) {
            Stage::Fresh(awaited) => Some(Outstanding::Unasked(awaited)),
            Stage::Waiting { interest, reactor } => {
                give_up(&interest, &reactor);
                Some(Outstanding::Asked(interest))
            }
            Stage::Over(_) => None,
        }
    }

    /// Whether the result is known.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over(_))
    }

    fn finish(&mut self, result: Result<()>) -> Poll<Result<()>> {
        let result = match self.checked.take() {
            Some(stream) => result.and_then(|()| stream.take_failure(super::OPERATION)),
            None => result,
        };
        self.stage = Stage::Over(result.clone());
        self.told = true;
        Poll::Ready(result)
    }

    /// Looks, for as long as it pays, and then lets the reactor look.
    fn poll_fresh(&mut self, waker: &Waker) -> Poll<Result<()>> {
        let Stage::Fresh(awaited) = &self.stage else { return Poll::Pending };
        let since = Instant::now();
        let alone = awaited.context().completion().is_same_task(waker);
        // Inside of a driver's callback only the reactor may ask.
        if !host_work::is_inside()
            && !awaited.is_behind_others()
            && let Some(result) = unprohibited(awaited.context().driver(), || look(awaited, since, alone))
        {
            return self.finish(result);
        }
        let Some(reactor) = awaited.context().completion().reactor(awaited.context()) else {
            // There is no thread to be had, so the executor's has to look.
            waker.wake_by_ref();
            return Poll::Pending;
        };
        let waker = waker.clone();
        let Stage::Fresh(awaited) = std::mem::replace(&mut self.stage, Stage::Over(Ok(()))) else {
            return Poll::Pending;
        };
        awaited.register();
        let interest = Interest::new(awaited, since, waker, alone);
        if !reactor.register(&interest) {
            return self.finish(Err(reactor::closed()));
        }
        self.stage = Stage::Waiting { interest, reactor };
        Poll::Pending
    }
}

/// Asks until the point is reached, for as long as it pays: once while tasks take turns. No capture can depend on what is asked.
fn look(awaited: &Awaited, since: Instant, alone: bool) -> Option<Result<()>> {
    let result = match awaited.look() {
        Some(result) => {
            awaited.waited(Duration::ZERO);
            return Some(result);
        }
        None if alone => look_on(awaited, since, awaited.spin()),
        None => None,
    };
    if result.is_some() {
        awaited.waited(since.elapsed());
    }
    result
}

/// How often a look that goes on for long asks whether the context is lost, which a flag does not tell.
const CHECK: Duration = Duration::from_micros(200);

/// Asks until the point is reached, or this has lasted as long as `spin`.
fn look_on(awaited: &Awaited, since: Instant, spin: Duration) -> Option<Result<()>> {
    if spin.is_zero() {
        return None;
    }
    let mut next_check = since.elapsed() + CHECK;
    loop {
        std::hint::spin_loop();
        if let Some(result) = awaited.look() {
            return Some(result);
        }
        let looked = since.elapsed();
        if looked >= spin {
            return None;
        }
        if looked >= next_check {
            if let Err(error) = awaited.check_context() {
                return Some(Err(error));
            }
            next_check = looked + CHECK;
        }
    }
}

/// As [`look_on`], in a task that the reactor has woken early to do so. Without a result the reactor looks again.
fn look_again(interest: &Interest<Awaited>) {
    if interest.standing() != Standing::Looking || host_work::is_inside() {
        return;
    }
    let awaited = interest.point();
    let spin = awaited.context().completion().spin();
    let result =
        unprohibited(awaited.context().driver(), || awaited.look().or_else(|| look_on(awaited, Instant::now(), spin)));
    awaited.looked_again(result.is_some(), interest.since().elapsed());
    if let Some(result) = result {
        interest.found(result);
    }
}

/// Drops a waker, which may be the last to refer to a task and all that it holds.
fn drop_waker(waker: Option<Waker>) {
    if let Some(waker) = waker {
        reaper::now_or_later(move || drop(waker));
    }
}

/// Nobody waits any more.
fn give_up(interest: &Interest<Awaited>, reactor: &Registry<Awaited>) {
    let (registered, waker) = interest.give_up();
    if registered {
        reactor.note_given_up();
    }
    drop_waker(waker);
}

impl Future for Completion {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<()>> {
        match &self.stage {
            Stage::Over(result) => {
                let result = result.clone();
                self.told = true;
                Poll::Ready(result)
            }
            Stage::Fresh(_) => self.poll_fresh(task.waker()),
            Stage::Waiting { interest, .. } => {
                look_again(interest);
                let (result, before) = interest.poll(task.waker());
                drop_waker(before);
                let result = ready!(result);
                self.finish(result)
            }
        }
    }
}

impl FusedFuture for Completion {
    /// Whether it was ready, so that polling it says nothing new.
    fn is_terminated(&self) -> bool {
        self.told
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Stage::Waiting { interest, reactor } = &self.stage {
            give_up(interest, reactor);
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
