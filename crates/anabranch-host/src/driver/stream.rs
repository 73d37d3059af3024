//! Streams.

use super::per_thread::per_thread_stream;
use super::{ContextState, HostDriver, Shared, usable};
use crate::engine::{Entry, Role, StreamState, work};
use crate::error::permitted;
use crate::event::{EventState, Recorded};
use crate::handles::handle;
use crate::limits::PRIORITY_RANGE;
use crate::memory::{ValueWrite, check_value_write, value_condition};
use anabranch_hal::{
    Call, Callback, ContextHandle, DevicePointer, EventHandle, EventWaitFlags, Failure, HostWork, NodeParameters,
    Result, Status, StreamAttribute, StreamAttributeKind, StreamFlags, StreamHandle, Streams, Value, ValueOperation,
    WaitValueFlags, WriteValueFlags,
};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

handle!(StreamState, StreamHandle, INVALID_HANDLE);

/// A stream for the duration of a call.
#[derive(Debug)]
pub(super) enum StreamReference {
    /// The handle's own reference, which is therefore not dropped here.
    Borrowed(ManuallyDrop<Arc<StreamState>>),
    /// A reference of the call's own.
    Owned(Arc<StreamState>),
}

impl Deref for StreamReference {
    type Target = Arc<StreamState>;

    #[inline]
    fn deref(&self) -> &Arc<StreamState> {
        match self {
            Self::Borrowed(stream) => stream,
            Self::Owned(stream) => stream,
        }
    }
}

/// The stream that a handle names in a context, whether or not a context is lost.
///
/// # Safety
/// The handle rule; neither is destroyed while the reference is used.
#[inline]
pub(super) unsafe fn resolve_even_if_lost(
    shared: &Shared,
    context: ContextHandle,
    stream: StreamHandle,
) -> Result<StreamReference> {
    permitted()?;
    // SAFETY: the handle rule.
    let context = unsafe { ContextState::of(context) }?;
    if stream.is_legacy() {
        return Ok(StreamReference::Owned(Arc::clone(&context.legacy)));
    }
    if stream.is_per_thread() {
        return per_thread_stream(shared, context).map(StreamReference::Owned);
    }
    // SAFETY: the handle is the address of a stream in an `Arc` (`Handles::insert`), whose reference count includes one for the
    // handle until it is destroyed, which by the handle rule is later than the end of this reference. That count is not
    // changed, because the `Arc` is never dropped.
    let stream = unsafe { Arc::from_raw(stream.as_raw() as *const StreamState) };
    Ok(StreamReference::Borrowed(ManuallyDrop::new(stream)))
}

/// The stream that a handle names in a context; a lost context's error if either's context is lost.
///
/// # Safety
/// As for [`resolve_even_if_lost`].
#[inline]
pub(super) unsafe fn resolve(shared: &Shared, context: ContextHandle, stream: StreamHandle) -> Result<StreamReference> {
    // SAFETY: the caller guarantees it.
    let stream = unsafe { resolve_even_if_lost(shared, context, stream) }?;
    stream.core.check()?;
    if stream.core.handle() != context {
        // SAFETY: the handle rule.
        unsafe { ContextState::of(context) }?.core.check()?;
    }
    Ok(stream)
}

impl Streams for HostDriver {
    unsafe fn stream_create(&self, call: &Call<'_>, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        // SAFETY: the handle rule.
        let context = unsafe { usable(call) }?;
        if !StreamFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let role = if flags.contains(StreamFlags::NON_BLOCKING) { Role::NonBlocking } else { Role::Blocking };
        let priority = PRIORITY_RANGE.clamp(priority);
        let stream = StreamState::new(&context.core, role, priority);
        Ok(StreamHandle::from_raw(self.streams.insert(stream)))
    }

    unsafe fn stream_destroy(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        if stream.is_legacy() || stream.is_per_thread() {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { StreamState::of(stream) }?.core);
        let removed = self.streams.remove(stream.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        // A thread that runs the stream's work, or waits for it, holds its own reference.
        drop(removed);
        core.check()
    }

    unsafe fn stream_query(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(&self.shared, call.context, stream) }?;
        self.shared.captures.before_synchronizing(&stream)?;
        self.shared.engine.help_with_query();
        let end = stream.end();
        let blocking = |other: &Arc<StreamState>| other.role == Role::Blocking;
        let covered = || stream.core.streams().iter().filter(|other| blocking(other)).all(|other| other.is_idle());
        if !stream.completion.is_complete(end) || (stream.role == Role::Legacy && !covered()) {
            return Err(Failure::new(Status::NOT_READY));
        }
        stream.core.check()?;
        stream.take_failure(end)
    }

    unsafe fn stream_synchronize(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(&self.shared, call.context, stream) }?;
        self.shared.captures.before_synchronizing(&stream)?;
        let strategy = stream.strategy();
        let engine = &self.shared.engine;
        let end = stream.end_in_order();
        if stream.role == Role::Legacy {
            let mut streams = stream.core.streams();
            streams.retain(|other| other.role == Role::Blocking);
            let ends: Vec<_> = streams.into_iter().map(|other| (other.end(), other)).collect();
            ends.iter().for_each(|(end, other)| engine.wait_for(other, *end, strategy));
        }
        engine.wait_for(&stream, end, strategy);
        self.shared.memory.device(stream.core.device)?.give_idle_memory_back();
        stream.core.check()?;
        stream.take_failure(end)
    }

    unsafe fn stream_take_failure(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(&self.shared, call.context, stream) }?;
        stream.take_failure(stream.completion.completed())
    }

    unsafe fn stream_wait_event(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        event: EventHandle,
        flags: EventWaitFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        if !EventWaitFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let external = flags.contains(EventWaitFlags::EXTERNAL);
        // SAFETY: the handle rule.
        let state = unsafe { EventState::of(event) }?;
        if external {
            let mut recording = self.shared.captures.recording(&stream)?.ok_or(Failure::new(Status::ILLEGAL_STATE))?;
            // SAFETY: the handle rule.
            unsafe { recording.add(NodeParameters::EventWait(event)) }?;
            return Ok(());
        }
        let recorded = state.recorded();
        if let Recorded::Captured(record) = &recorded {
            return self.shared.captures.wait_event(&stream, record);
        }
        if let Some(recording) = self.shared.captures.recording(&stream)? {
            return if matches!(recorded, Recorded::Never) { Ok(()) } else { recording.refuse_outside() };
        }
        if let Recorded::At(position) = recorded
            && !Arc::ptr_eq(&position.stream, &stream)
            && !position.is_complete()
        {
            stream.enqueue(Entry::WaitFor(position));
        }
        Ok(())
    }

    unsafe fn stream_flags(&self, call: &Call<'_>, stream: StreamHandle) -> Result<StreamFlags> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        self.shared.captures.before_asking(&stream)?;
        Ok(stream.flags())
    }

    unsafe fn stream_priority(&self, call: &Call<'_>, stream: StreamHandle) -> Result<i32> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        Ok(stream.priority)
    }

    unsafe fn stream_id(&self, call: &Call<'_>, stream: StreamHandle) -> Result<u64> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        self.shared.captures.before_asking(&stream)?;
        Ok(stream.id)
    }

    unsafe fn stream_context(&self, call: &Call<'_>, stream: StreamHandle) -> Result<ContextHandle> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        Ok(stream.core.handle())
    }

    unsafe fn stream_attribute(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        match kind {
            StreamAttributeKind::SynchronizationPolicy => Ok(StreamAttribute::SynchronizationPolicy(stream.policy())),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    unsafe fn stream_set_attribute(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        attribute: &StreamAttribute,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        match attribute {
            StreamAttribute::SynchronizationPolicy(policy) if stream.set_policy(*policy) => Ok(()),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    unsafe fn stream_launch_host_function(&self, call: &Call<'_>, stream: StreamHandle, work: HostWork) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        if let Some(mut recording) = self.shared.captures.recording(&stream)? {
            let work = work.repeatable().ok_or(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED))?;
            // SAFETY: host work names no handle.
            unsafe { recording.add(NodeParameters::Host(work)) }?;
            return Ok(());
        }
        stream.enqueue(Entry::HostFunction(work));
        Ok(())
    }

    unsafe fn stream_add_callback(&self, call: &Call<'_>, stream: StreamHandle, callback: Callback) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        if let Some(recording) = self.shared.captures.recording(&stream)? {
            return recording.refuse();
        }
        stream.enqueue(Entry::Callback(callback));
        Ok(())
    }

    unsafe fn stream_wait_value(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        // SAFETY: the caller vouches for the address.
        let condition = unsafe { value_condition(&self.shared.memory.table, address, value, flags) }?;
        if let Some(mut recording) = self.shared.captures.recording(&stream)? {
            let operation = ValueOperation::Wait { address, value, flags };
            // SAFETY: the caller vouches for what the node does.
            unsafe { recording.add(NodeParameters::ValueOperations(vec![operation])) }?;
            return Ok(());
        }
        stream.enqueue(Entry::WaitValue(condition));
        Ok(())
    }

    unsafe fn stream_write_value(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        check_value_write(&self.shared.memory.table, address, value, flags)?;
        if let Some(mut recording) = self.shared.captures.recording(&stream)? {
            let operation = ValueOperation::Write { address, value, flags };
            // SAFETY: the caller vouches for what the node does.
            unsafe { recording.add(NodeParameters::ValueOperations(vec![operation])) }?;
            return Ok(());
        }
        stream.enqueue(work(ValueWrite { address: address.0, value }));
        Ok(())
    }
}
