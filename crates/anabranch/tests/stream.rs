//! Streams as objects: identity, handles, the current stream, the end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{BorrowedStream, ContextFlags, Status, Stream, StreamFlags, SynchronizationPolicy};
use common::{hold, host};
use std::collections::HashSet;

#[test]
fn safety_22_two_handles_of_one_stream_are_equal() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let borrowed = stream.to_borrowed();
    assert_eq!(*borrowed, stream);
    assert_ne!(stream, other);
    assert_eq!(context.legacy_stream().unwrap(), context.legacy_stream().unwrap());
    let set: HashSet<&Stream> = [&stream, &*borrowed, &other].into_iter().collect();
    assert_eq!(set.len(), 2);
}

#[test]
fn the_current_stream_nests_and_is_restored() {
    let context = host();
    let (outer, inner) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let current = || Stream::with_current(|stream| stream.map(Stream::id));
    assert_eq!(current(), None);
    {
        let _outer = outer.enter();
        assert_eq!(current(), Some(outer.id()));
        {
            let _inner = inner.enter();
            assert_eq!(current(), Some(inner.id()));
            assert_eq!(std::thread::spawn(current).join().unwrap(), None);
        }
        assert_eq!(current(), Some(outer.id()));
        Stream::with_current(|stream| stream.unwrap().launch_host_func(|| {})).unwrap();
    }
    assert_eq!(current(), None);
    outer.synchronize().unwrap();
}

#[test]
fn a_leaked_guard_of_a_stream_that_has_ended_is_passed_over() {
    let context = host();
    let stream = context.create_stream().unwrap();
    std::mem::forget(stream.enter());
    drop(stream);
    assert!(Stream::with_current(|stream| stream.is_none()));
}

#[test]
fn shutdown_returns_the_errors_of_the_work() {
    let context = host();
    context.create_stream().unwrap().shutdown().unwrap();
    let stream = context.create_stream().unwrap();
    stream.launch_host_func(|| panic!("on purpose")).unwrap();
    assert_eq!(stream.shutdown().unwrap_err().status(), Status::LAUNCH_FAILED);
}

#[test]
fn dropping_a_stream_does_not_wait_and_its_work_still_runs() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let (sender, receiver) = std::sync::mpsc::channel();
    stream.launch_host_func(move || sender.send(1).unwrap()).unwrap();
    drop(stream);
    assert!(receiver.try_recv().is_err());
    signal.set(1);
    assert_eq!(receiver.recv().unwrap(), 1);
}

#[test]
fn foreign_handles_are_used_and_not_destroyed() {
    let context = host();
    let owner = context.create_stream_with_priority(StreamFlags::empty(), -3).unwrap();
    {
        // SAFETY: `owner` keeps the stream alive.
        let borrowed = unsafe { BorrowedStream::from_raw(&context, owner.as_raw()) }.unwrap();
        assert_eq!(borrowed.priority().unwrap(), -3);
        assert_eq!(borrowed.flags().unwrap(), StreamFlags::empty());
        assert_eq!(borrowed.id(), owner.id());
        owner.wait(&borrowed).unwrap();
    }
    owner.launch_host_func(|| {}).unwrap();
    owner.synchronize().unwrap();
}

#[test]
fn attributes_are_kept() {
    let stream = host().create_stream().unwrap();
    stream.set_synchronization_policy(SynchronizationPolicy::BlockingSync).unwrap();
    assert_eq!(stream.synchronization_policy().unwrap(), SynchronizationPolicy::BlockingSync);
    assert_eq!(stream.access_policy_window().unwrap_err().status(), Status::NOT_SUPPORTED);
}

#[test]
fn attributes_are_copied_within_a_context() {
    let context = host();
    let [stream, other] = [context.create_stream().unwrap(), context.create_stream().unwrap()];
    other.set_synchronization_policy(SynchronizationPolicy::Yield).unwrap();
    stream.copy_attributes_from(&other).unwrap();
    assert_eq!(stream.synchronization_policy().unwrap(), SynchronizationPolicy::Yield);
    stream.copy_attributes_from(&stream).unwrap();
    stream.set_synchronization_policy(SynchronizationPolicy::Spin).unwrap();
    assert_eq!(other.synchronization_policy().unwrap(), SynchronizationPolicy::Yield);
    let elsewhere = stream.device().create_context(ContextFlags::empty()).unwrap().create_stream().unwrap();
    assert_eq!(elsewhere.copy_attributes_from(&other).unwrap_err().status(), Status::INVALID_HANDLE);
    assert_eq!(elsewhere.synchronization_policy().unwrap(), SynchronizationPolicy::Auto);
}

#[test]
fn ten_million_operations_on_one_stream_are_bounded_in_memory() {
    let stream = host().create_stream().unwrap();
    for _ in 0..10_000_000 {
        stream.launch_host_func(|| {}).unwrap();
    }
    stream.synchronize().unwrap();
    let peak = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    if let Some(kibibytes) = peak {
        assert!(kibibytes < 400 * 1024, "{kibibytes} KiB at the most");
    }
}
