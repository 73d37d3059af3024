//! The future of work being complete.

use super::interest::{Interest, Point};
use super::point::Awaited;
use super::reactor;
use super::registry::Registry;
use crate::capture::unprohibited;
use crate::error::Result;
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
        // Inside of a driver's callback only the reactor may ask.
        if !host_work::is_inside()
            && let Some(result) = unprohibited(awaited.context().driver(), || look(awaited, since))
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
        let interest = Interest::new(awaited, since, waker);
        if !reactor.register(&interest) {
            return self.finish(Err(reactor::closed()));
        }
        self.stage = Stage::Waiting { interest, reactor };
        Poll::Pending
    }
}

/// Asks until the point is reached, for as long as it pays. No capture can depend on what is asked.
fn look(awaited: &Awaited, since: Instant) -> Option<Result<()>> {
    if let Some(result) = awaited.look() {
        awaited.waited(Duration::ZERO);
        return Some(result);
    }
    let spin = awaited.spin();
    if spin.is_zero() {
        return None;
    }
    loop {
        std::hint::spin_loop();
        if let Some(result) = awaited.look() {
            awaited.waited(since.elapsed());
            return Some(result);
        }
        if since.elapsed() >= spin {
            return None;
        }
    }
}

/// Drops a waker, which may be the last to refer to a task and all that it holds.
fn drop_waker(waker: Option<Waker>) {
    if let Some(waker) = waker {
        reaper::now_or_later(move || drop(waker));
    }
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
        if let Stage::Waiting { interest, reactor } = &self.stage
            && let Some(waker) = interest.give_up()
        {
            reactor.note_given_up();
            drop_waker(Some(waker));
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
