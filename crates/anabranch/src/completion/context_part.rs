//! What a context has for its futures.

use super::diagnostics::{CompletionDiagnostics, Counters};
use super::events::EventPool;
use super::flags::FlagPool;
use super::point::Awaited;
use super::reactor;
use super::registry::Registry;
use super::spin;
use crate::context::{Context, ContextCore};
use crate::error::{Result, ResultExt};
use anabranch_hal::{BackendKind, Capabilities, EventFlags, EventHandle, Failure};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

/// How it is told that a place in a stream is reached.
const UNDECIDED: u8 = 0;
const BY_EVENTS: u8 = 1;
const BY_FLAGS: u8 = 2;

/// What is to be destroyed before the context is.
pub(crate) struct Leftovers {
    pub(crate) events: Vec<EventHandle>,
    /// Addresses of pinned memory.
    pub(crate) pinned: Vec<usize>,
}

pub(crate) struct ContextCompletion {
    spin: AtomicU64,
    notice: AtomicU8,
    flags: Arc<FlagPool>,
    /// What tells the task from others that made a first poll last.
    last_task: AtomicUsize,
    events: EventPool,
    /// An event that is never recorded. Asking it tells whether the context is lost.
    pulse: OnceLock<EventHandle>,
    reactor: Mutex<Option<Arc<Registry<Awaited>>>>,
    counters: Arc<Counters>,
}

impl Default for ContextCompletion {
    fn default() -> Self {
        Self {
            spin: AtomicU64::new(nanoseconds(spin::USUAL)),
            notice: AtomicU8::new(UNDECIDED),
            flags: Arc::default(),
            last_task: AtomicUsize::new(0),
            events: EventPool::default(),
            pulse: OnceLock::new(),
            reactor: Mutex::default(),
            counters: Arc::default(),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl ContextCompletion {
    pub(super) fn events(&self) -> &EventPool {
        &self.events
    }

    pub(super) fn spin(&self) -> Duration {
        Duration::from_nanos(self.spin.load(Ordering::Relaxed))
    }

    /// Whether this task made the last first poll too. While tasks take turns, one that looks on keeps another from running.
    pub(super) fn is_same_task(&self, waker: &Waker) -> bool {
        let task = waker.data().addr();
        let last = self.last_task.load(Ordering::Relaxed);
        if last != task {
            self.last_task.store(task, Ordering::Relaxed);
        }
        last == task || last == 0
    }

    pub(super) fn flags(&self) -> &Arc<FlagPool> {
        &self.flags
    }

    /// Whether marks are told of by flags in memory, and not by events. On GPUs that is faster. The host device has no
    /// dearer way to tell something than by writing memory in stream order, and no cheaper one than by an event.
    #[inline(always)]
    pub(super) fn uses_flags(&self, context: &ContextCore) -> bool {
        match self.notice.load(Ordering::Relaxed) {
            UNDECIDED => self.decide(context),
            notice => notice == BY_FLAGS,
        }
    }

    #[cold]
    fn decide(&self, context: &ContextCore) -> bool {
        let device = context.device();
        let flags =
            device.backend() != BackendKind::Host && device.capabilities().contains(Capabilities::STREAM_VALUE_64);
        self.notice.store(if flags { BY_FLAGS } else { BY_EVENTS }, Ordering::Relaxed);
        flags
    }

    /// There is no memory for flags.
    pub(super) fn give_up_flags(&self) {
        self.notice.store(BY_EVENTS, Ordering::Relaxed);
    }

    /// The reactor, started if this is its first use. `None`: there is no thread to be had.
    pub(super) fn reactor(&self, context: &ContextCore) -> Option<Arc<Registry<Awaited>>> {
        let mut reactor = self.reactor.lock();
        if reactor.is_none() {
            *reactor = reactor::start(context.shared_driver().clone(), self.counters.clone());
        }
        reactor.clone()
    }

    /// An error that everything in the context answers, because it is lost.
    pub(super) fn check(&self, context: &ContextCore) -> Result<()> {
        let asked = match self.pulse.get() {
            // SAFETY: the event is destroyed when the context ends.
            Some(&event) => unsafe { context.driver().event_query(context.handle(), event) },
            None => self.create_pulse(context),
        };
        match asked {
            Err(failure) if failure.status.is_sticky() => Err(failure).during(super::OPERATION, || context.place()),
            _ => Ok(()),
        }
    }

    fn create_pulse(&self, context: &ContextCore) -> Result<(), Failure> {
        // SAFETY: the context's handle is live as long as its core.
        let event = unsafe { context.driver().event_create(context.handle(), EventFlags::DISABLE_TIMING) }?;
        match self.pulse.set(event) {
            Ok(()) => Ok(()),
            // SAFETY: another thread was quicker, so that nobody else has this event.
            Err(event) => unsafe { context.driver().event_destroy(context.handle(), event) },
        }
    }

    /// Ends the reactor, and returns what is left.
    pub(crate) fn close(&mut self) -> Leftovers {
        if let Some(reactor) = self.reactor.get_mut().take() {
            reactor.close();
        }
        let mut events = self.events.take_all();
        events.extend(self.pulse.take());
        Leftovers { events, pinned: self.flags.take_pages() }
    }
}

impl Context {
    /// How long the first poll of a future of this context looks on before its task is put to sleep: 20 microseconds unless
    /// it was [set](Self::set_completion_spin).
    pub fn completion_spin(&self) -> Duration {
        self.core().completion().spin()
    }

    /// Chooses how long the first poll of a future of this context looks on before its task is put to sleep. It saves short
    /// waits the change of threads, and costs the executor's thread that time; with [`Duration::ZERO`] a poll asks once.
    /// Where recent waits for a stream took longer, nothing is spent on looking on.
    pub fn set_completion_spin(&self, spin: Duration) {
        self.core().completion().spin.store(nanoseconds(spin), Ordering::Relaxed);
    }

    /// For tests and measurements: whether the device writes a flag behind work that is awaited from now on, or an event is
    /// recorded there. `None` leaves it to the library.
    #[doc(hidden)]
    pub fn set_completion_by_flags(&self, flags: Option<bool>) {
        let notice = flags.map_or(UNDECIDED, |flags| if flags { BY_FLAGS } else { BY_EVENTS });
        self.core().completion().notice.store(notice, Ordering::Relaxed);
    }

    /// For tests and measurements.
    #[doc(hidden)]
    pub fn completion_diagnostics(&self) -> CompletionDiagnostics {
        CompletionDiagnostics::new(&self.core().completion().counters)
    }
}
