//! Contexts.

use super::{HostDriver, Shared};
use crate::engine::{ContextCore, Role, StreamState};
use crate::error::permitted;
use crate::handles::handle;
use crate::ranks;
use anabranch_hal::{
    Call, ContextFlags, ContextHandle, Contexts, Detail, DeviceOrdinal, Failure, Live, Result, Status,
};
use anabranch_sync::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// A context as its handle names it.
#[derive(Debug)]
pub(crate) struct ContextState {
    pub(crate) core: Arc<ContextCore>,
    pub(crate) legacy: Arc<StreamState>,
    peers: Mutex<HashSet<u64>>,
}

handle!(ContextState, ContextHandle, INVALID_CONTEXT);

impl ContextState {
    pub(super) fn new(shared: &Shared, device: u32, flags: ContextFlags) -> Arc<Self> {
        let core = ContextCore::new(&shared.engine, device, flags);
        let legacy = StreamState::new(&core, Role::Legacy, 0);
        let context = Arc::new(Self { core, legacy, peers: Mutex::new(ranks::PEERS, HashSet::new()) });
        context.core.set_handle(ContextHandle::from_raw(Arc::as_ptr(&context) as usize));
        context
    }
}

/// The context of a call, which is made outside of host work.
pub(super) fn present<'a>(call: &Call<'a>) -> Result<&'a ContextState> {
    permitted()?;
    ContextState::of(call.context)
}

/// The same, which is not lost.
pub(super) fn usable<'a>(call: &Call<'a>) -> Result<&'a ContextState> {
    let context = present(call)?;
    context.core.check()?;
    Ok(context)
}

impl HostDriver {
    /// Called before a context is made.
    fn prepare_workers(&self) -> Result<()> {
        self.shared.engine.prepare_workers().map_err(|error| {
            let reason = format!("the thread that starts workers cannot be started: {error}");
            Failure::with_detail(Status::OPERATING_SYSTEM, Detail::Fault(reason))
        })
    }

    /// Completes a context's work and destroys everything made in it.
    pub(super) fn tear_down(&self, context: &ContextState) {
        context.core.wait_for_all();
        self.release(context);
    }

    /// Destroys everything made in a context.
    pub(super) fn release(&self, context: &ContextState) {
        let core = &context.core;
        let id = core.id;
        core.note_destroyed();
        self.shared.captures.context_gone(core);
        let streams = core.streams();
        streams.iter().for_each(|stream| stream.drop_queued());
        drop(self.executables.take_those(|executable| executable.core.id == id));
        drop(self.graphs.take_those(|graph| graph.core.id == id));
        drop(self.events.take_those(|event| event.core.id == id));
        drop(self.external_semaphores.take_those(|semaphore| semaphore.core.id == id));
        drop(self.external_memory.take_those(|memory| memory.core.id == id));
        drop(self.streams.take_those(|stream| stream.core.id == id));
        drop(self.modules.take_those(|module| module.core.id == id));
        self.shared.memory.release_context(id);
    }

    /// Waits for all work of a context, and reports what failed in it.
    fn synchronize_context(&self, core: &ContextCore) -> Result<()> {
        let ends = core.wait_for_all();
        self.shared.memory.device(core.device)?.give_idle_memory_back(core);
        core.check()?;
        core.take_failure()?;
        ends.iter().try_for_each(|end| end.stream.take_failure(end.sequence))
    }
}

impl Contexts for HostDriver {
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        permitted()?;
        let primary = self.shared.primary(device.0)?;
        self.prepare_workers()?;
        primary.retain(&self.shared)
    }

    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()> {
        permitted()?;
        if let Some(context) = self.shared.primary(device.0)?.release()? {
            self.tear_down(&context);
        }
        Ok(())
    }

    fn primary_context_is_active(&self, device: DeviceOrdinal) -> Result<bool> {
        permitted()?;
        Ok(self.shared.primary(device.0)?.is_active())
    }

    fn context_current(&self) -> Result<Option<(ContextHandle, DeviceOrdinal)>> {
        permitted().map(|()| None)
    }

    fn context_device(&self, context: Live<'_, ContextHandle>) -> Result<DeviceOrdinal> {
        permitted()?;
        Ok(DeviceOrdinal(ContextState::of(context)?.core.device))
    }

    fn context_create(&self, device: DeviceOrdinal, flags: ContextFlags) -> Result<ContextHandle> {
        permitted()?;
        self.shared.memory.device(device.0)?;
        if !ContextFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        self.prepare_workers()?;
        let context = ContextState::new(&self.shared, device.0, flags);
        Ok(ContextHandle::from_raw(self.contexts.insert(context)))
    }

    unsafe fn context_destroy(&self, call: &Call<'_>) -> Result<()> {
        permitted()?;
        let context =
            self.contexts.remove(call.context.handle().as_raw()).ok_or(Failure::new(Status::INVALID_CONTEXT))?;
        self.tear_down(&context);
        Ok(())
    }

    fn context_synchronize(&self, call: &Call<'_>) -> Result<()> {
        let core = &present(call)?.core;
        self.shared.captures.before_synchronizing_context(core)?;
        self.synchronize_context(core)
    }

    fn lost_context_is_running(&self, call: &Call<'_>) -> bool {
        let Ok(context) = ContextState::of(call.context) else { return false };
        if !context.core.is_lost() {
            return false;
        }
        // As a query does: who gives back what a lost context has used may ask for nothing else, and wait for nothing.
        self.shared.engine.help_with_query();
        context.core.streams().iter().any(|stream| !stream.is_idle())
    }

    fn context_enable_peer_access(&self, call: &Call<'_>, peer: Live<'_, ContextHandle>) -> Result<()> {
        permitted()?;
        let (context, peer) = (ContextState::of(call.context)?, ContextState::of(peer)?);
        context.core.check()?;
        if context.core.device == peer.core.device {
            return Err(Failure::new(Status::PEER_ACCESS_UNSUPPORTED));
        }
        self.shared.captures.before_unsafe_call()?;
        if context.peers.lock().insert(peer.core.id) {
            Ok(())
        } else {
            Err(Failure::new(Status::PEER_ACCESS_ALREADY_ENABLED))
        }
    }

    unsafe fn context_disable_peer_access(&self, call: &Call<'_>, peer: Live<'_, ContextHandle>) -> Result<()> {
        permitted()?;
        let (context, peer) = (ContextState::of(call.context)?, ContextState::of(peer)?);
        context.core.check()?;
        self.shared.captures.before_unsafe_call()?;
        if context.peers.lock().remove(&peer.core.id) {
            Ok(())
        } else {
            Err(Failure::new(Status::PEER_ACCESS_NOT_ENABLED))
        }
    }
}
