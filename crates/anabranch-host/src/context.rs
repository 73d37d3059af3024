//! Contexts.

use crate::device::Shared;
use crate::driver::HostDriver;
use crate::engine::barrier::LegacyOrder;
use crate::engine::entry::Entry;
use crate::engine::host_work::permitted;
use crate::engine::queue::Tail;
use crate::engine::stream::{Position, Role, StreamState};
use crate::engine::wait::Patience;
use crate::error::{StreamFailure, drop_quietly};
use crate::event::EventState;
use crate::executable::ExecutableState;
use crate::graph::GraphState;
use crate::handles::{self, Handles};
use crate::module::ModuleState;
use anabranch_hal::{
    ContextFlags, ContextHandle, Contexts, Detail, DeviceOrdinal, Failure, KernelFault, Result, Status,
};
use parking_lot::{Mutex, RwLock};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What the streams of a context share, and what outlives the context's handle until they are done.
pub(crate) struct ContextCore {
    pub(crate) shared: Arc<Shared>,
    /// Never used again for another context of the process.
    pub(crate) id: u64,
    pub(crate) device: u32,
    flags: ContextFlags,
    handle: AtomicUsize,
    lost: OnceLock<KernelFault>,
    destroyed: AtomicBool,
    pub(crate) legacy_order: LegacyOrder,
    legacy: OnceLock<Weak<StreamState>>,
    /// All streams, destroyed ones included until their work is done.
    registry: RwLock<Vec<Weak<StreamState>>>,
    /// How many in the registry are no more.
    gone: AtomicUsize,
    pub(crate) streams: Handles<StreamState>,
    pub(crate) events: Handles<EventState>,
    pub(crate) modules: Handles<ModuleState>,
    pub(crate) graphs: Handles<GraphState>,
    pub(crate) executables: Handles<ExecutableState>,
    peers: Mutex<HashSet<u64>>,
    /// An unreported failure of a stream that is no more.
    adopted: Mutex<Option<StreamFailure>>,
}

/// A context as its handle names it.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) core: Arc<ContextCore>,
    pub(crate) legacy: Arc<StreamState>,
}

impl ContextState {
    pub(crate) fn new(shared: &Arc<Shared>, device: u32, flags: ContextFlags) -> Arc<Self> {
        let core = Arc::new(ContextCore {
            shared: Arc::clone(shared),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            device,
            flags,
            handle: AtomicUsize::new(0),
            lost: OnceLock::new(),
            destroyed: AtomicBool::new(false),
            legacy_order: LegacyOrder::new(),
            legacy: OnceLock::new(),
            registry: RwLock::new(Vec::new()),
            gone: AtomicUsize::new(0),
            streams: Handles::default(),
            events: Handles::default(),
            modules: Handles::default(),
            graphs: Handles::default(),
            executables: Handles::default(),
            peers: Mutex::new(HashSet::new()),
            adopted: Mutex::new(None),
        });
        let legacy = StreamState::new(Arc::clone(&core), Role::Legacy, 0);
        core.legacy.get_or_init(|| Arc::downgrade(&legacy));
        let context = Arc::new(Self { core, legacy });
        context.core.handle.store(Arc::as_ptr(&context) as usize, Ordering::Relaxed);
        context
    }

    /// Completes the context's work and lets go of everything made in it.
    pub(crate) fn tear_down(&self) {
        self.core.wait_for_all(self.core.patience());
        self.let_go();
    }

    /// Lets go of everything made in the context.
    pub(crate) fn let_go(&self) {
        self.core.destroyed.store(true, Ordering::Release);
        self.core.shared.captures.context_gone(&self.core);
        for stream in self.core.registered() {
            stream.drop_queued();
        }
        // First what holds objects of the caller's, which may ask for the rest.
        self.core.executables.take_all().into_iter().for_each(drop_quietly);
        self.core.graphs.take_all().into_iter().for_each(drop_quietly);
        drop(self.core.events.take_all());
        drop(self.core.streams.take_all());
        drop(self.core.modules.take_all());
        self.core.shared.graph_memory.release_context(self.core.id);
        self.core.shared.table.remove_owned_by(self.core.id);
    }
}

impl ContextCore {
    pub(crate) fn handle(&self) -> ContextHandle {
        ContextHandle::from_raw(self.handle.load(Ordering::Relaxed))
    }

    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
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

    /// Loses the context. The first fault stays.
    #[cold]
    pub(crate) fn lose(&self, fault: KernelFault) {
        self.lost.get_or_init(|| fault);
        // Streams that wait for a value wait no more.
        self.shared.engine.values.written();
    }

    pub(crate) fn patience(&self) -> Patience {
        if self.flags.contains(ContextFlags::SCHEDULE_BLOCKING_SYNC) {
            Patience::Sleep
        } else if self.flags.contains(ContextFlags::SCHEDULE_YIELD) {
            Patience::Yield
        } else if self.flags.contains(ContextFlags::SCHEDULE_SPIN) {
            Patience::Spin
        } else {
            Patience::Auto
        }
    }

    /// Enters a new stream.
    pub(crate) fn register_stream(&self, stream: &Arc<StreamState>) {
        let mut registry = self.registry.write();
        if self.gone.load(Ordering::Relaxed) > registry.len() / 2 {
            registry.retain(|stream| stream.strong_count() > 0);
            self.gone.store(0, Ordering::Relaxed);
        }
        registry.push(Arc::downgrade(stream));
    }

    /// A registered stream is no more.
    pub(crate) fn stream_gone(&self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the failure of a stream that goes, for the next synchronisation of the context.
    pub(crate) fn adopt_failure(&self, failure: StreamFailure) {
        self.adopted.lock().get_or_insert(failure);
    }

    /// The legacy stream. `None`: the context is no more.
    pub(crate) fn legacy_stream(&self) -> Option<Arc<StreamState>> {
        self.legacy.get().and_then(Weak::upgrade)
    }

    fn registered(&self) -> Vec<Arc<StreamState>> {
        self.registry.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// The streams that the legacy stream covers.
    pub(crate) fn blocking_streams(&self) -> Vec<Arc<StreamState>> {
        let registry = self.registry.read();
        registry.iter().filter_map(Weak::upgrade).filter(|stream| stream.role == Role::Blocking).collect()
    }

    /// Puts waits for all busy blocking streams at the end of the legacy queue.
    pub(crate) fn wait_for_blocking_streams(&self, tail: &mut Tail<'_, Entry>) {
        for stream in self.registry.read().iter().filter_map(Weak::upgrade) {
            if stream.role == Role::Blocking {
                LegacyOrder::wait_for_blocking(tail, stream, |stream, sequence| {
                    Entry::WaitFor(Position { stream, sequence })
                });
            }
        }
    }

    /// Puts a wait for the legacy stream at the end of a blocking stream's queue.
    #[cold]
    pub(crate) fn wait_for_legacy(&self, tail: &mut Tail<'_, Entry>, sequence: u64) {
        // The legacy stream goes with its context, once its work is complete.
        if let Some(stream) = self.legacy_stream() {
            let position = Position { stream, sequence };
            if !position.is_complete() {
                tail.push(Entry::WaitFor(position));
            }
        }
    }

    /// Waits for all that is queued in any stream of the context.
    pub(crate) fn wait_for_all(&self, patience: Patience) {
        let ends: Vec<Position> = self.registered().iter().map(StreamState::end_in_order).collect();
        for end in ends {
            self.shared.engine.wait(&end, patience);
        }
    }

    /// Waits for all work, and reports what failed in it.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let ends: Vec<Position> = self.registered().iter().map(StreamState::end).collect();
        for end in &ends {
            self.shared.engine.wait(end, self.patience());
        }
        self.shared.device(self.device)?.give_idle_memory_back();
        self.check()?;
        if let Some(failure) = self.adopted.lock().take() {
            return Err(failure.into());
        }
        ends.iter().try_for_each(|end| end.stream.take_failure(end.sequence))
    }
}

impl fmt::Debug for ContextCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ContextCore")
            .field("id", &self.id)
            .field("device", &self.device)
            .field("lost", &self.lost.get())
            .finish_non_exhaustive()
    }
}

impl Contexts for HostDriver {
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        permitted()?;
        self.shared.device(device.0)?.retain_primary(&self.shared)
    }

    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()> {
        permitted()?;
        if let Some(context) = self.shared.device(device.0)?.release_primary()? {
            context.tear_down();
        }
        Ok(())
    }

    fn context_create(&self, device: DeviceOrdinal, flags: ContextFlags) -> Result<ContextHandle> {
        permitted()?;
        self.shared.device(device.0)?;
        if !ContextFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let context = ContextState::new(&self.shared, device.0, flags);
        Ok(ContextHandle::from_raw(self.contexts.insert(context)))
    }

    unsafe fn context_destroy(&self, context: ContextHandle) -> Result<()> {
        permitted()?;
        let context = self.contexts.remove(context.as_raw()).ok_or(Failure::new(Status::INVALID_CONTEXT))?;
        context.tear_down();
        Ok(())
    }

    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let core = &unsafe { handles::context(context) }?.core;
        core.shared.captures.before_synchronizing_context(core)?;
        core.synchronize()
    }

    unsafe fn context_enable_peer_access(&self, context: ContextHandle, peer: ContextHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let (context, peer) = unsafe { (handles::context(context)?, handles::context(peer)?) };
        context.core.check()?;
        if context.core.device == peer.core.device {
            return Err(Failure::new(Status::PEER_ACCESS_UNSUPPORTED));
        }
        if context.core.peers.lock().insert(peer.core.id) {
            Ok(())
        } else {
            Err(Failure::new(Status::PEER_ACCESS_ALREADY_ENABLED))
        }
    }

    unsafe fn context_disable_peer_access(&self, context: ContextHandle, peer: ContextHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        let (context, peer) = unsafe { (handles::context(context)?, handles::context(peer)?) };
        context.core.check()?;
        if context.core.peers.lock().remove(&peer.core.id) {
            Ok(())
        } else {
            Err(Failure::new(Status::PEER_ACCESS_NOT_ENABLED))
        }
    }
}
