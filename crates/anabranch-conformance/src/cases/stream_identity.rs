//! The identity of streams: ids, handles, equality.

use crate::case::{Case, Verdict, equal, holds, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{Live, StreamHandle};
use anabranch::{BorrowedStream, ContextFlags, Status, Stream, SynchronizationPolicy};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

pub(super) const CASES: &[Case] = &[
    Case::new("stream_identity.ids_are_never_reused", "S5", ids_are_never_reused),
    Case::new("stream_identity.ids_of_streams_alive_at_once", "S5", ids_of_streams_alive_at_once),
    Case::new("stream_identity.id_stays", "S5", id_stays),
    Case::new("stream_identity.legacy_has_one_id", "S5", legacy_has_one_id),
    Case::new("stream_identity.default_streams_differ", "S5", default_streams_differ),
    Case::new("stream_identity.borrowed_is_equal", "S5", borrowed_is_equal),
    Case::new("stream_identity.borrowed_reaches_the_same_stream", "S5", borrowed_reaches_the_same_stream),
    Case::new("stream_identity.raw_round_trip", "S5", raw_round_trip),
    Case::new("stream_identity.raw_keeps_pending_work", "S3", raw_keeps_pending_work),
    Case::new("stream_identity.tells_its_context", "S5", tells_its_context),
    Case::new("stream_identity.tells_its_device", "S5", tells_its_device),
    Case::new("stream_identity.attributes_are_copied", "S5", attributes_are_copied),
];

fn ids_are_never_reused(environment: &Environment) -> Verdict {
    let mut ids = HashSet::new();
    for number in 0..1000 {
        let stream = if number % 2 == 0 { environment.stream()? } else { environment.blocking_stream()? };
        holds(&format!("the id {} is new", stream.id()), ids.insert(stream.id()))?;
    }
    Ok(())
}

fn ids_of_streams_alive_at_once(environment: &Environment) -> Verdict {
    let streams = (0..40).map(|_| environment.stream()).collect::<anabranch::Result<Vec<_>>>()?;
    let mut ids: HashSet<u64> = streams.iter().map(Stream::id).collect();
    ids.insert(environment.context().legacy_stream()?.id());
    ids.insert(environment.context().per_thread_stream()?.id());
    equal("the number of ids", ids.len(), 42)
}

fn id_stays(environment: &Environment) -> Verdict {
    let (driver, context, stream) = (environment.device().driver(), environment.context(), environment.stream()?);
    let _others = [environment.stream()?, environment.stream()?];
    let asked = driver.stream_id(&context.live().into(), stream.live());
    equal("the driver's result later", asked.unwrap_or_default(), stream.id())
}

fn borrow(environment: &Environment, handle: StreamHandle) -> anabranch::Result<BorrowedStream<'_>> {
    // SAFETY: default streams live as long as their context.
    unsafe { BorrowedStream::from_raw(environment.context(), handle) }
}

fn legacy_has_one_id(environment: &Environment) -> Verdict {
    let (null, named) = (borrow(environment, StreamHandle::NULL)?, borrow(environment, StreamHandle::LEGACY)?);
    equal("the ids", null.id(), named.id())?;
    holds("both handles are equal as streams", *null == *named)?;
    holds("and equal to the context's", *null == environment.context().legacy_stream()?)
}

fn default_streams_differ(environment: &Environment) -> Verdict {
    let (legacy, own) = (environment.context().legacy_stream()?, environment.context().per_thread_stream()?);
    holds("the ids differ", legacy.id() != own.id())?;
    holds("the streams differ", legacy != own && legacy != environment.stream()? && own != environment.stream()?)
}

fn borrowed_is_equal(environment: &Environment) -> Verdict {
    let (stream, other, hasher) = (environment.stream()?, environment.stream()?, RandomState::new());
    let borrowed = stream.to_borrowed();
    holds("a borrowed handle is equal", *borrowed == stream)?;
    equal("its id", borrowed.id(), stream.id())?;
    equal("its hash", hasher.hash_one(&*borrowed), hasher.hash_one(&stream))?;
    holds("another stream is not equal", other != stream && *borrowed != other)?;
    drop(borrowed);
    holds("dropping a borrowed handle leaves the stream", stream.query()?)
}

fn borrowed_reaches_the_same_stream(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    equal("query through a borrowed handle", stream.to_borrowed().query()?, false)?;
    gate.open();
    stream.to_borrowed().synchronize()?;
    holds("query of the stream", stream.query()?)
}

fn raw_round_trip(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (id, handle) = (stream.id(), stream.into_raw());
    // SAFETY: the handle was just released by its owner, and no other code has it.
    let stream = unsafe { Stream::from_raw(environment.context(), handle)? };
    equal("the handle", stream.as_raw(), handle)?;
    equal("the id", stream.id(), id)?;
    stream.launch_host_func(|| ())?;
    stream.synchronize()?;
    Ok(())
}

fn raw_keeps_pending_work(environment: &Environment) -> Verdict {
    let (stream, word) = (environment.stream()?, environment.context().create_signal()?);
    let gate = Gate::shut(environment, &stream)?;
    stream.write_signal(&word, 1)?;
    let handle = stream.into_raw();
    // SAFETY: the handle was just released by its owner, and no other code has it.
    let stream = unsafe { Stream::from_raw(environment.context(), handle)? };
    equal("query while the stream has pending work", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    equal("what the work wrote", word.get(), 1)
}

fn tells_its_context(environment: &Environment) -> Verdict {
    let (driver, context, stream) = (environment.device().driver(), environment.context(), environment.stream()?);
    for handle in [stream.live(), Live::<StreamHandle>::NULL, Live::LEGACY, Live::PER_THREAD] {
        let owner = driver.stream_context(&context.live().into(), handle);
        equal("asking", status_of(owner.clone()), Status::SUCCESS)?;
        equal("the context", owner.ok(), Some(context.as_raw()))?;
    }
    holds("the library's result", stream.context() == *context)
}

/// Where the driver has the call.
fn tells_its_device(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let streams = [environment.stream()?, environment.blocking_stream()?, other.create_stream()?];
    for stream in &streams {
        let call = environment.context().live().into();
        match environment.device().driver().stream_device(&call, stream.live()) {
            Ok(device) => equal("the device", device, environment.device().ordinal())?,
            Err(failure) => equal("a driver before CUDA 12.8", failure.status, Status::NOT_SUPPORTED)?,
        }
    }
    Ok(())
}

fn attributes_are_copied(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.blocking_stream()?);
    for policy in [SynchronizationPolicy::Yield, SynchronizationPolicy::Spin, SynchronizationPolicy::BlockingSync] {
        other.set_synchronization_policy(policy)?;
        stream.copy_attributes_from(&other)?;
        equal("the policy of the copy", stream.synchronization_policy()?, policy)?;
    }
    stream.set_synchronization_policy(SynchronizationPolicy::Spin)?;
    equal("the policy of the original", other.synchronization_policy()?, SynchronizationPolicy::BlockingSync)
}
