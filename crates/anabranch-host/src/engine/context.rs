//! What the streams of a context share.

use super::core::Engine;
use super::legacy::LegacyOrder;
use crate::error::StreamFailure;
use crate::ranks;
use anabranch_hal::{ContextFlags, ContextHandle, Detail, Failure, KernelFault, Result, Status, SynchronizationPolicy};
use anabranch_sync::{Mutex, RwLock};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Of streams that are no more, how many failures are kept.
const MOST_ADOPTED: usize = 64;

/// How a thread waits while others do the work (a hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitStrategy {
    /// Spins for about as long as a context switch takes, then sleeps.
    Auto,
    /// Spins for longer.
    Spin,
    /// Lets other threads run while it spins.
    Yield,
    /// Sleeps at once.
    Sleep,
}

/// What the streams of a context share, and what outlives the context's handle until they are done. `S` is a stream.
pub(crate) struct Context<S> {
    pub(crate) engine: Arc<Engine>,
    /// Never used again for another context of the process.
    pub(crate) id: u64,
    pub(crate) device: u32,
    flags: ContextFlags,
    handle: AtomicUsize,
    lost: OnceLock<KernelFault>,
    destroyed: AtomicBool,
    pub(super) legacy_order: LegacyOrder,
    legacy: OnceLock<Weak<S>>,
    /// All streams, destroyed ones included until their work is done.
    registry: RwLock<Vec<Weak<S>>>,
    /// How many in the registry are no more. A stream adds itself when its work is done.
    gone: AtomicUsize,
    /// Unreported failures of streams that are no more, the first of them first.
    adopted: Mutex<VecDeque<StreamFailure>>,
}

impl<S> Context<S> {
    pub(crate) fn new(engine: &Arc<Engine>, device: u32, flags: ContextFlags) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::clone(engine),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            device,
            flags,
            handle: AtomicUsize::new(0),
            lost: OnceLock::new(),
            destroyed: AtomicBool::new(false),
            legacy_order: LegacyOrder::new(),
            legacy: OnceLock::new(),
            registry: RwLock::new(ranks::STREAMS, Vec::new()),
            gone: AtomicUsize::new(0),
            adopted: Mutex::new(ranks::FAILURE, VecDeque::new()),
        })
    }

    pub(crate) fn handle(&self) -> ContextHandle {
        ContextHandle::from_raw(self.handle.load(Ordering::Relaxed))
    }

    pub(crate) fn set_handle(&self, handle: ContextHandle) {
        self.handle.store(handle.as_raw(), Ordering::Relaxed);
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    pub(crate) fn note_destroyed(&self) {
        self.destroyed.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// The sticky error of a lost context.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(fault) => Err(Failure::with_detail(fault.status, Detail::Fault(fault.message.clone()))),
        }
    }

    /// Loses the context. The first fault stays. One whose status is not that of a lost context is a launch that failed.
    #[cold]
    pub(crate) fn lose(&self, fault: KernelFault) {
        let status = if fault.status.is_sticky() { fault.status } else { Status::LAUNCH_FAILED };
        self.lost.get_or_init(|| KernelFault { status, ..fault });
        // Streams that wait for a value wait no more.
        self.engine.values.changed();
    }

    /// The fault that has lost the context.
    #[inline]
    pub(crate) fn fault(&self) -> Option<&KernelFault> {
        self.lost.get()
    }

    /// Loses the context because its work comes behind work of another, lost one, that was not done: it may use what that should
    /// have written.
    #[cold]
    pub(crate) fn lose_behind(&self, fault: &KernelFault) {
        if !self.is_lost() {
            let message = format!("work comes behind that of another context, which is lost: {}", fault.message);
            self.lose(KernelFault { message, ..fault.clone() });
        }
    }

    pub(crate) fn strategy(&self) -> WaitStrategy {
        if self.flags.contains(ContextFlags::SCHEDULE_BLOCKING_SYNC) {
            WaitStrategy::Sleep
        } else if self.flags.contains(ContextFlags::SCHEDULE_YIELD) {
            WaitStrategy::Yield
        } else if self.flags.contains(ContextFlags::SCHEDULE_SPIN) {
            WaitStrategy::Spin
        } else {
            WaitStrategy::Auto
        }
    }

    /// How a thread waits for a stream of that policy.
    pub(super) fn wait_strategy_of(&self, policy: SynchronizationPolicy) -> WaitStrategy {
        match policy {
            SynchronizationPolicy::Spin => WaitStrategy::Spin,
            SynchronizationPolicy::Yield => WaitStrategy::Yield,
            SynchronizationPolicy::BlockingSync => WaitStrategy::Sleep,
            _ => self.strategy(),
        }
    }

    /// Enters a new stream. The first one is the legacy stream.
    pub(super) fn register_stream(&self, stream: &Arc<S>, is_legacy: bool) {
        if is_legacy {
            self.legacy.get_or_init(|| Arc::downgrade(stream));
        }
        let mut registry = self.registry.write();
        if self.gone.load(Ordering::Relaxed) > registry.len() / 2 {
            registry.retain(|stream| stream.strong_count() > 0);
            self.gone.swap(0, Ordering::AcqRel);
        }
        registry.push(Arc::downgrade(stream));
    }

    /// A stream is about to be no more. All its work is done.
    pub(super) fn stream_goes(&self) {
        self.gone.fetch_add(1, Ordering::Release);
    }

    /// A stream is no more. A failure of it that was not reported is kept for a synchronization of the context.
    pub(super) fn stream_gone(&self, failure: Option<StreamFailure>) {
        if let Some(failure) = failure {
            let mut adopted = self.adopted.lock();
            // Of more that nobody asks for, the first are enough.
            if adopted.len() < MOST_ADOPTED {
                adopted.push_back(failure);
            }
        }
    }

    /// An unreported failure of a stream that is no more.
    pub(crate) fn take_failure(&self) -> Result<()> {
        let failure = self.adopted.lock().pop_front();
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// The legacy stream. `None`: the context is no more.
    pub(crate) fn legacy_stream(&self) -> Option<Arc<S>> {
        self.legacy.get().and_then(Weak::upgrade)
    }

    /// All streams. The caller sees what the work of those has written that are no more.
    pub(crate) fn streams(&self) -> Vec<Arc<S>> {
        let streams = self.registry.read().iter().filter_map(Weak::upgrade).collect();
        // The count of references that was found to be zero was read without order. What the last owner did before is seen
        // behind a fence; ThreadSanitizer knows no fences, and sees it by the number that the stream has changed.
        fence(Ordering::Acquire);
        self.gone.load(Ordering::Acquire);
        streams
    }
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Context")
            .field("id", &self.id)
            .field("device", &self.device)
            .field("lost", &self.lost.get())
            .finish_non_exhaustive()
    }
}
