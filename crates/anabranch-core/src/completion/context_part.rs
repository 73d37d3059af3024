//! What a context stores for its futures.

use super::awaited::Awaited;
use super::diagnostics::{CompletionDiagnostics, Counters};
use super::events::EventPool;
use super::flags::FlagPool;
use super::reactor;
use super::registry::Registry;
use super::spin;
use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use crate::extensions::{ClosingContext, Extension};
use crate::lost_context::is_lost;
use crate::ranks;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::{Call, Capabilities, EventFlags, EventHandle, Failure, Live};
use anabranch_sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

/// How it becomes known that a point is reached.
const UNDECIDED: u8 = 0;
const BY_EVENTS: u8 = 1;
const BY_FLAGS: u8 = 2;

/// What a context stores for its futures.
pub struct ContextCompletion {
    spin: AtomicU64,
    notice: AtomicU8,
    flags: Arc<FlagPool>,
    /// Identifies the task that made the latest first poll.
    last_task: AtomicUsize,
    events: EventPool,
    /// An event that is never recorded. Querying it shows whether the context is lost.
    pulse: OnceLock<EventHandle>,
    reactor: Mutex<Option<Arc<Registry<Awaited>>>>,
    counters: Arc<Counters>,
}

impl Default for ContextCompletion {
    fn default() -> Self {
        Self {
            spin: AtomicU64::new(nanoseconds(spin::DEFAULT)),
            notice: AtomicU8::new(UNDECIDED),
            flags: Arc::default(),
            last_task: AtomicUsize::new(0),
            events: EventPool::default(),
            pulse: OnceLock::new(),
            reactor: Mutex::new(ranks::REACTOR, None),
            counters: Arc::default(),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl ContextCompletion {
    /// Events for points.
    pub fn events(&self) -> &EventPool {
        &self.events
    }

    /// How long a first poll spins.
    pub fn spin(&self) -> Duration {
        Duration::from_nanos(self.spin.load(Ordering::Relaxed))
    }

    /// Whether this task also made the previous first poll. While tasks take turns, one that spins keeps another from
    /// running.
    pub fn is_same_task(&self, waker: &Waker) -> bool {
        let task = waker.data().addr();
        let last = self.last_task.load(Ordering::Relaxed);
        if last != task {
            self.last_task.store(task, Ordering::Relaxed);
        }
        last == task || last == 0
    }

    /// Flags for points.
    pub fn flags(&self) -> &Arc<FlagPool> {
        &self.flags
    }

    /// Whether flags in memory, instead of events, show that points are reached.
    #[inline(always)]
    pub fn uses_flags(&self, context: &ContextCore) -> bool {
        match self.notice.load(Ordering::Relaxed) {
            UNDECIDED => self.decide(context),
            notice => notice == BY_FLAGS,
        }
    }

    #[cold]
    fn decide(&self, context: &ContextCore) -> bool {
        let flags = context.device().can(Capabilities::STREAM_VALUE_64 | Capabilities::FAST_VALUE_WRITES);
        self.notice.store(if flags { BY_FLAGS } else { BY_EVENTS }, Ordering::Relaxed);
        flags
    }

    /// Called if there is no memory for flags.
    pub fn give_up_flags(&self) {
        self.notice.store(BY_EVENTS, Ordering::Relaxed);
    }

    /// The reactor, which is started at its first use. `None`: no thread can be started.
    pub fn reactor(&self, context: &ContextCore) -> Option<Arc<Registry<Awaited>>> {
        let mut reactor = self.reactor.lock();
        if reactor.is_none() {
            *reactor = reactor::start(context.shared_driver().clone(), self.counters.clone());
        }
        reactor.clone()
    }

    /// The error that every call on the context returns if the context is lost.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self, context: &ContextCore, operation: &'static str) -> Result<()> {
        let call = context.call(operation);
        let asked = with_relaxed_capture_mode(context.driver(), || match self.pulse.get() {
            Some(&event) => {
                // SAFETY: the event is destroyed when the context is closed.
                context.driver().event_query(&call, unsafe { Live::new(event) })
            }
            None => self.create_pulse(context, &call),
        });
        match asked {
            Err(failure) if is_lost(context.driver(), &call, &failure) => {
                Err(failure).during(operation, || context.place())
            }
            _ => Ok(()),
        }
    }

    fn create_pulse(&self, context: &ContextCore, call: &Call<'_>) -> Result<(), Failure> {
        let event = context.driver().event_create(call, EventFlags::DISABLE_TIMING)?;
        match self.pulse.set(event) {
            Ok(()) => Ok(()),
            // SAFETY: another thread was quicker, so that nobody else has this event.
            Err(event) => unsafe { context.driver().event_destroy(call, event) },
        }
    }
}

impl Extension for ContextCompletion {
    fn close(&mut self, context: &ClosingContext<'_>) {
        let call = Call::new(context.context, "closing a context");
        // The calls fail only on a lost context, and then all this is freed with the context.
        for event in self.events.take_all().into_iter().chain(self.pulse.take()) {
            // SAFETY: the events were the context's own, and nobody is left to use them.
            let _ = unsafe { context.driver.event_destroy(&call, event) };
        }
        for page in self.flags.take_pages() {
            // SAFETY: the memory was the context's own, and nobody is left to read it. The call waits for work that is still to
            // write there.
            let _ = unsafe { context.driver.free_pinned(&call, page as *mut u8) };
        }
    }
}

impl Drop for ContextCompletion {
    fn drop(&mut self) {
        if let Some(reactor) = self.reactor.get_mut().take() {
            reactor.close();
        }
    }
}

impl ContextCore {
    /// The error that every call on the context returns if it is lost.
    ///
    /// # Errors
    /// That error.
    pub fn refuse_if_lost(&self, operation: &'static str) -> Result<()> {
        self.extension::<ContextCompletion>().check(self, operation)
    }

    /// How long the first poll of a future spins.
    pub fn completion_spin(&self) -> Duration {
        self.extension::<ContextCompletion>().spin()
    }

    /// Sets how long the first poll of a future spins.
    pub fn set_completion_spin(&self, spin: Duration) {
        self.extension::<ContextCompletion>().spin.store(nanoseconds(spin), Ordering::Relaxed);
    }

    /// For tests and measurements: whether the device writes a flag after work that is awaited from now on, or an event
    /// is recorded there. With `None`, the library chooses.
    pub fn set_completion_by_flags(&self, flags: Option<bool>) {
        let notice = flags.map_or(UNDECIDED, |flags| if flags { BY_FLAGS } else { BY_EVENTS });
        self.extension::<ContextCompletion>().notice.store(notice, Ordering::Relaxed);
    }

    /// For tests and measurements.
    pub fn completion_diagnostics(&self) -> CompletionDiagnostics {
        CompletionDiagnostics::new(&self.extension::<ContextCompletion>().counters)
    }
}
