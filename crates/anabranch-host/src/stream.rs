//! Streams.

use crate::context::ContextCore;
use crate::device::PRIORITY_RANGE;
use crate::driver::HostDriver;
use crate::engine::entry::Entry;
use crate::engine::host_work::permitted;
use crate::engine::stream::{Role, StreamState};
use crate::engine::value::{Comparison, ValueCondition};
use crate::engine::wait::Patience;
use crate::event::Recorded;
use crate::handles;
use crate::memory::{Lookup, MemoryKind};
use crate::per_thread::per_thread_stream;
use anabranch_hal::{
    Callback, ContextHandle, DevicePointer, EventHandle, EventWaitFlags, Failure, HostWork, NodeParameters, Result,
    Status, StreamAttribute, StreamAttributeKind, StreamFlags, StreamHandle, Streams, SynchronizationPolicy, Value,
    ValueOperation, WaitValueFlags, WriteValueFlags,
};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

/// A stream for the duration of a call.
#[derive(Debug)]
pub(crate) enum StreamReference {
    /// A share that the stream's handle holds, and that is therefore not given back here.
    Borrowed(ManuallyDrop<Arc<StreamState>>),
    /// A share of the call's own.
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
pub(crate) unsafe fn resolve_even_if_lost(context: ContextHandle, stream: StreamHandle) -> Result<StreamReference> {
    permitted()?;
    // SAFETY: the handle rule.
    let context = unsafe { handles::context(context) }?;
    if stream.is_legacy() {
        return Ok(StreamReference::Owned(Arc::clone(&context.legacy)));
    }
    if stream.is_per_thread() {
        return per_thread_stream(context).map(StreamReference::Owned);
    }
    // SAFETY: the handle is the address of a stream in an `Arc` (`Handles::insert`), one share of which belongs to the
    // handle until it is destroyed, which by the handle rule is later than the reference's end. The share is not given
    // back, because it is never dropped.
    let stream = unsafe { Arc::from_raw(stream.as_raw() as *const StreamState) };
    Ok(StreamReference::Borrowed(ManuallyDrop::new(stream)))
}

/// The stream that a handle names in a context; a lost context's error if either's context is lost.
///
/// # Safety
/// As for [`resolve_even_if_lost`].
#[inline]
pub(crate) unsafe fn resolve(context: ContextHandle, stream: StreamHandle) -> Result<StreamReference> {
    // SAFETY: the caller's word.
    let stream = unsafe { resolve_even_if_lost(context, stream) }?;
    stream.core.check()?;
    if stream.core.handle() != context {
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
    }
    Ok(stream)
}

/// How a thread waits for a stream.
pub(crate) fn patience(stream: &StreamState) -> Patience {
    match stream.policy() {
        SynchronizationPolicy::Spin => Patience::Spin,
        SynchronizationPolicy::Yield => Patience::Yield,
        SynchronizationPolicy::BlockingSync => Patience::Sleep,
        _ => stream.core.patience(),
    }
}

/// Checks the address of a value operation.
fn check_value(
    core: &ContextCore,
    address: DevicePointer,
    value: Value,
    usable: impl FnOnce(MemoryKind) -> bool,
) -> Result<()> {
    let width = value.width();
    let found = core.shared.table.find(address.0, width as usize);
    let inside = matches!(found, Lookup::Inside(kind) if usable(kind));
    if inside && address.0.is_multiple_of(width) { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

/// The condition of a value wait, checked.
///
/// # Safety
/// The address stays valid, initialised memory until the condition is used no more.
pub(crate) unsafe fn value_condition(
    core: &ContextCore,
    address: DevicePointer,
    value: Value,
    flags: WaitValueFlags,
) -> Result<ValueCondition> {
    if !WaitValueFlags::all().contains(flags) {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    if flags.contains(WaitValueFlags::FLUSH) {
        return Err(Failure::new(Status::NOT_SUPPORTED));
    }
    check_value(core, address, value, |_| true)?;
    let comparison = match flags {
        WaitValueFlags::EQUAL => Comparison::Equal,
        WaitValueFlags::AND => Comparison::And,
        WaitValueFlags::NOR => Comparison::Nor,
        _ => Comparison::GreaterOrEqual,
    };
    // SAFETY: the alignment was checked; the rest is the caller's word.
    Ok(unsafe { ValueCondition::new(address.0, value, comparison) })
}

/// Checks a value write.
pub(crate) fn check_value_write(
    core: &ContextCore,
    address: DevicePointer,
    value: Value,
    flags: WriteValueFlags,
) -> Result<()> {
    // Hardware refuses to leave the barrier out, and to write memory of pools and managed memory.
    if !flags.is_empty() {
        return Err(Failure::new(Status::INVALID_VALUE));
    }
    let usable = |kind| !matches!(kind, MemoryKind::Pooled | MemoryKind::Managed | MemoryKind::Graph);
    check_value(core, address, value, usable)
}

impl Streams for HostDriver {
    unsafe fn stream_create(&self, context: ContextHandle, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        permitted()?;
        // SAFETY: the handle rule.
        let context = unsafe { handles::context(context) }?;
        context.core.check()?;
        if !StreamFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let role = if flags.contains(StreamFlags::NON_BLOCKING) { Role::NonBlocking } else { Role::Blocking };
        let priority = PRIORITY_RANGE.clamp(priority);
        let stream = StreamState::new(Arc::clone(&context.core), role, priority);
        Ok(StreamHandle::from_raw(context.core.streams.insert(stream)))
    }

    unsafe fn stream_destroy(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        if stream.is_legacy() || stream.is_per_thread() {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { handles::stream(stream) }?.core);
        let removed = core.streams.remove(stream.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        // Whoever runs the stream's work, or waits for it, has a share of its own.
        drop(removed);
        core.check()
    }

    unsafe fn stream_query(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(context, stream) }?;
        self.shared.captures.before_synchronizing(&stream)?;
        self.shared.engine.step();
        let end = stream.end();
        let covered = || stream.core.blocking_streams().iter().all(|other| other.is_idle());
        if !end.is_complete() || (stream.role == Role::Legacy && !covered()) {
            return Err(Failure::new(Status::NOT_READY));
        }
        stream.core.check()?;
        stream.take_failure(end.sequence)
    }

    unsafe fn stream_synchronize(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(context, stream) }?;
        self.shared.captures.before_synchronizing(&stream)?;
        let patience = patience(&stream);
        let engine = &self.shared.engine;
        let end = stream.end_in_order();
        if stream.role == Role::Legacy {
            let ends: Vec<_> = stream.core.blocking_streams().iter().map(StreamState::end).collect();
            ends.iter().for_each(|end| engine.wait(end, patience));
        }
        engine.wait(&end, patience);
        self.shared.device(stream.core.device)?.give_idle_memory_back();
        stream.core.check()?;
        stream.take_failure(end.sequence)
    }

    unsafe fn stream_take_failure(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve_even_if_lost(context, stream) }?;
        stream.take_failure(stream.completion.completed())
    }

    unsafe fn stream_wait_event(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
        flags: EventWaitFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        if !EventWaitFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let external = flags.contains(EventWaitFlags::EXTERNAL);
        // SAFETY: the handle rule.
        let state = unsafe { handles::event(event) }?;
        if external {
            let mut recording = stream.recording()?.ok_or(Failure::new(Status::ILLEGAL_STATE))?;
            // SAFETY: the handle rule.
            unsafe { recording.add(NodeParameters::EventWait(event)) }?;
            return Ok(());
        }
        let recorded = state.recorded();
        if let Recorded::Captured(record) = &recorded {
            return self.shared.captures.wait_event(&stream, record);
        }
        if let Some(recording) = stream.recording()? {
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

    unsafe fn stream_flags(&self, context: ContextHandle, stream: StreamHandle) -> Result<StreamFlags> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        self.shared.captures.before_asking(&stream)?;
        Ok(stream.flags())
    }

    unsafe fn stream_priority(&self, context: ContextHandle, stream: StreamHandle) -> Result<i32> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        Ok(stream.priority)
    }

    unsafe fn stream_id(&self, context: ContextHandle, stream: StreamHandle) -> Result<u64> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        self.shared.captures.before_asking(&stream)?;
        Ok(stream.id)
    }

    unsafe fn stream_context(&self, context: ContextHandle, stream: StreamHandle) -> Result<ContextHandle> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        Ok(stream.core.handle())
    }

    unsafe fn stream_attribute(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        match kind {
            StreamAttributeKind::SynchronizationPolicy => Ok(StreamAttribute::SynchronizationPolicy(stream.policy())),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    unsafe fn stream_set_attribute(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        attribute: &StreamAttribute,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        match attribute {
            StreamAttribute::SynchronizationPolicy(policy) if stream.set_policy(*policy) => Ok(()),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    unsafe fn stream_launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        work: HostWork,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        if let Some(mut recording) = stream.recording()? {
            let work = work.repeatable().ok_or(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED))?;
            // SAFETY: host work names no handle.
            unsafe { recording.add(NodeParameters::Host(work.clone())) }?;
            return Ok(());
        }
        stream.enqueue(Entry::HostFunction(work));
        Ok(())
    }

    unsafe fn stream_add_callback(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        callback: Callback,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        if let Some(recording) = stream.recording()? {
            return recording.refuse();
        }
        stream.enqueue(Entry::Callback(callback));
        Ok(())
    }

    unsafe fn stream_wait_value(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the handle rule.
        let core = &unsafe { handles::context(context) }?.core;
        // SAFETY: the caller vouches for the address.
        let condition = unsafe { value_condition(core, address, value, flags) }?;
        if let Some(mut recording) = stream.recording()? {
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
        context: ContextHandle,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the handle rule.
        check_value_write(&unsafe { handles::context(context) }?.core, address, value, flags)?;
        if let Some(mut recording) = stream.recording()? {
            let operation = ValueOperation::Write { address, value, flags };
            // SAFETY: the caller vouches for what the node does.
            unsafe { recording.add(NodeParameters::ValueOperations(vec![operation])) }?;
            return Ok(());
        }
        stream.enqueue(Entry::WriteValue { address: address.0, value });
        Ok(())
    }
}
