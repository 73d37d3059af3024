//! Streams.

use super::per_thread::per_thread_stream;
use super::{ContextState, HostDriver, Shared, present, usable};
use crate::capture::Target;
use crate::engine::{Entry, Role, StreamState, work};
use crate::error::permitted;
use crate::event::{EventState, Recorded};
use crate::limits::{MOST_VALUES, PRIORITY_RANGE};
use crate::memory::{ValueStep, ValueWrite, check_value_write, value_condition, value_step};
use anabranch_hal::{
    Call, Callback, ContextHandle, DeviceOrdinal, DevicePointer, EventHandle, EventWaitFlags, Failure, HostWork, Live,
    NodeParameters, Result, Status, StreamAttribute, StreamAttributeKind, StreamFlags, StreamHandle, Streams, Value,
    ValueOperation, WaitValueFlags, WriteValueFlags,
};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

/// A stream for the duration of a call.
#[derive(Debug)]
pub(super) enum StreamReference<'a> {
    /// The handle's own reference, which is therefore not dropped here.
    Borrowed(ManuallyDrop<Arc<StreamState>>, PhantomData<Live<'a, StreamHandle>>),
    /// A reference of the call's own.
    Owned(Arc<StreamState>),
}

impl Deref for StreamReference<'_> {
    type Target = Arc<StreamState>;

    #[inline]
    fn deref(&self) -> &Arc<StreamState> {
        match self {
            Self::Borrowed(stream, _) => stream,
            Self::Owned(stream) => stream,
        }
    }
}

/// The stream that a handle names in a context, whether or not a context is lost.
#[inline]
pub(super) fn resolve_even_if_lost<'a>(
    shared: &Shared,
    context: Live<'_, ContextHandle>,
    stream: Live<'a, StreamHandle>,
) -> Result<StreamReference<'a>> {
    permitted()?;
    let context = ContextState::of(context)?;
    if stream.handle().is_legacy() {
        return Ok(StreamReference::Owned(Arc::clone(&context.legacy)));
    }
    if stream.handle().is_per_thread() {
        return per_thread_stream(shared, context).map(StreamReference::Owned);
    }
    Ok(made(stream))
}

/// The stream that a handle names, which is not that of a default stream.
fn made<'a>(stream: Live<'a, StreamHandle>) -> StreamReference<'a> {
    // SAFETY: the handle is the address of a stream in an `Arc` (`Handles::insert`), whose reference count includes one for the
    // handle until the stream is destroyed, which is later than the end of this reference, as `Live` says. That count is not
    // changed, because the `Arc` is never dropped.
    let stream = unsafe { Arc::from_raw(stream.handle().as_raw() as *const StreamState) };
    StreamReference::Borrowed(ManuallyDrop::new(stream), PhantomData)
}

/// The stream that a handle names in a context; a lost context's error if either's context is lost.
#[inline]
pub(super) fn resolve<'a>(
    shared: &Shared,
    context: Live<'_, ContextHandle>,
    stream: Live<'a, StreamHandle>,
) -> Result<StreamReference<'a>> {
    let stream = resolve_even_if_lost(shared, context, stream)?;
    stream.core.check()?;
    if stream.core.handle() != context.handle() {
        ContextState::of(context)?.core.check()?;
    }
    Ok(stream)
}

impl Streams for HostDriver {
    fn stream_create(&self, call: &Call<'_>, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        present(call)?;
        // Reported before a lost context.
        if !StreamFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let context = usable(call)?;
        let role = if flags.contains(StreamFlags::NON_BLOCKING) { Role::NonBlocking } else { Role::Blocking };
        let priority = PRIORITY_RANGE.clamp(priority);
        let stream = StreamState::new(&context.core, role, priority);
        Ok(StreamHandle::from_raw(self.streams.insert(stream)))
    }

    unsafe fn stream_destroy(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        present(call)?;
        if stream.is_legacy() || stream.is_per_thread() {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        let removed = self.streams.remove(stream.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        for graph in self.shared.captures.stream_gone(&removed) {
            drop(self.graphs.remove(graph.handle().as_raw()));
        }
        let core = Arc::clone(&removed.core);
        // A thread that runs the stream's work, or waits for it, holds its own reference.
        drop(removed);
        core.check()
    }

    fn stream_query(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
        self.shared.captures.before_synchronizing(&stream)?;
        self.shared.engine.help_with_query();
        let end = stream.end();
        let blocking = |other: &Arc<StreamState>| other.role == Role::Blocking;
        let covered = || stream.core.streams().iter().filter(|other| blocking(other)).all(|other| other.is_idle());
        let ready = stream.completion.is_complete(end) && (stream.role != Role::Legacy || covered());
        // A context that is lost says so whatever is still running.
        stream.core.check()?;
        if ready { stream.take_failure(end) } else { Err(Failure::new(Status::NOT_READY)) }
    }

    fn stream_synchronize(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
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
        self.shared.memory.device(stream.core.device)?.give_idle_memory_back(&stream.core);
        stream.core.check()?;
        stream.take_failure(end)
    }

    fn stream_take_failure(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
        stream.take_failure(stream.completion.completed())
    }

    fn stream_wait_event(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        event: Live<'_, EventHandle>,
        flags: EventWaitFlags,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        // What was recorded, perhaps with a stream, is dropped without the captures' lock.
        let recorded = EventState::of(event).map(EventState::recorded);
        let captures = &self.shared.captures;
        let mut target = captures.target(&stream)?;
        if !EventWaitFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        let recorded = recorded.as_ref().map_err(Failure::clone)?;
        if flags.contains(EventWaitFlags::EXTERNAL) {
            if let Recorded::Captured(record) = recorded {
                captures.check_wait(&mut target, record)?;
            }
            let Target::Capture(mut recording) = target else { return Err(Failure::new(Status::ILLEGAL_STATE)) };
            // SAFETY: the event exists, as `Live` says. The node shares it, and can wait for it at any launch.
            return unsafe { recording.add(NodeParameters::EventWait(event.handle())) }.map(|_| ());
        }
        match (recorded, target) {
            (Recorded::Captured(record), target) => captures.wait_event(target, record),
            (Recorded::Never, _) => Ok(()),
            (Recorded::At(_), Target::Capture(recording)) => recording.refuse_outside(),
            (Recorded::At(position), Target::Queue(stream)) => {
                if !Arc::ptr_eq(&position.stream, stream) && (!position.is_complete() || position.undone().is_some()) {
                    stream.enqueue(Entry::WaitFor(position.clone()));
                }
                Ok(())
            }
        }
    }

    fn stream_flags(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<StreamFlags> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        Ok(stream.flags())
    }

    fn stream_priority(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<i32> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.target(&stream)?;
        Ok(stream.priority)
    }

    fn stream_id(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<u64> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        Ok(stream.id)
    }

    fn stream_context(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<ContextHandle> {
        // That of a default stream is told even if it is lost.
        let is_default = Live::default_stream(stream.handle()).is_some();
        let stream = if is_default {
            resolve_even_if_lost(&self.shared, call.context, stream)?
        } else {
            resolve(&self.shared, call.context, stream)?
        };
        self.shared.captures.allow(&stream)?;
        Ok(stream.core.handle())
    }

    fn stream_owner(&self, stream: Live<'_, StreamHandle>) -> Result<ContextHandle> {
        permitted()?;
        if Live::default_stream(stream.handle()).is_some() {
            // No context is current.
            return Err(Failure::new(Status::INVALID_CONTEXT));
        }
        let stream = made(stream);
        stream.core.check()?;
        self.shared.captures.allow(&stream)?;
        Ok(stream.core.handle())
    }

    fn stream_attribute(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.target(&stream)?;
        match kind {
            StreamAttributeKind::SynchronizationPolicy => Ok(StreamAttribute::SynchronizationPolicy(stream.policy())),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    fn stream_set_attribute(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        attribute: &StreamAttribute,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.target(&stream)?;
        match attribute {
            StreamAttribute::SynchronizationPolicy(policy) if stream.set_policy(*policy) => Ok(()),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    fn stream_copy_attributes(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        from: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let from = resolve(&self.shared, call.context, from)?;
        self.shared.captures.target(&stream)?;
        self.shared.captures.target(&from)?;
        if !Arc::ptr_eq(&stream.core, &from.core) {
            return Err(Failure::argument(Status::INVALID_VALUE, "the streams belong to different contexts"));
        }
        stream.set_policy(from.policy());
        Ok(())
    }

    fn stream_device(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<DeviceOrdinal> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.allow(&stream)?;
        Ok(DeviceOrdinal(stream.core.device))
    }

    fn stream_launch_host_function(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        work: HostWork,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        match self.shared.captures.target_of_host_function(&stream)? {
            Target::Queue(stream) => {
                stream.enqueue(Entry::HostFunction(work));
                Ok(())
            }
            Target::Capture(mut recording) => {
                let work = work.repeatable().ok_or(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED))?;
                // SAFETY: the node runs a key, which names no handle, and for which nothing runs if its closure no longer
                // exists.
                unsafe { recording.add(NodeParameters::Host(work)) }.map(|_| ())
            }
        }
    }

    fn stream_add_callback(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, callback: Callback) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.refuse(&stream)?;
        stream.enqueue(Entry::Callback(callback));
        Ok(())
    }

    unsafe fn stream_wait_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller keeps the address valid until the wait is complete.
        let condition = unsafe { value_condition(Some(&self.shared.memory.table), address, value, flags) }?;
        match target {
            Target::Queue(stream) => {
                stream.enqueue(Entry::WaitValue(condition));
                Ok(())
            }
            Target::Capture(mut recording) => {
                let operation = ValueOperation::Wait { address, value, flags };
                // SAFETY: the caller keeps the address valid until the wait is complete, which is at every launch of the node.
                unsafe { recording.add(NodeParameters::ValueOperations(vec![operation])) }.map(|_| ())
            }
        }
    }

    unsafe fn stream_write_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        check_value_write(Some(&self.shared.memory.table), address, value, flags)?;
        match target {
            Target::Queue(stream) => {
                stream.enqueue(work(ValueWrite { address: address.0, value, reduction: None }));
                Ok(())
            }
            Target::Capture(mut recording) => {
                let operation = ValueOperation::Write { address, value, flags };
                // SAFETY: the caller keeps the address valid until the write is complete, which is at every launch of the
                // node.
                unsafe { recording.add(NodeParameters::ValueOperations(vec![operation])) }.map(|_| ())
            }
        }
    }

    unsafe fn stream_value_operations(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ValueOperation],
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        if operations.len() > MOST_VALUES {
            return Err(Failure::argument(Status::INVALID_VALUE, "a batch has at most 255 value operations"));
        }
        let table = &self.shared.memory.table;
        let entries = operations.iter().filter_map(|operation| {
            // SAFETY: the caller keeps the address valid until the operation is complete.
            let step = unsafe { value_step(Some(table), operation) }.transpose()?;
            Some(step.map(|step| match step {
                ValueStep::Wait(condition) => Entry::WaitValue(condition),
                ValueStep::Write(write) => work(write),
            }))
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        match target {
            Target::Queue(stream) => {
                for entry in entries {
                    stream.enqueue(entry);
                }
                Ok(())
            }
            Target::Capture(mut recording) => {
                // SAFETY: the caller keeps the addresses valid until the operations are complete, which is at every launch of the
                // node.
                unsafe { recording.add(NodeParameters::ValueOperations(operations.to_vec())) }.map(|_| ())
            }
        }
    }
}
