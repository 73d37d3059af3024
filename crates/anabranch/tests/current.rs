//! Calls that use the thread's current stream.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Buffer, DualModule, HostFunction, Instance, LaunchConfig, Status, Stream, current};
use common::{hold, host};
use std::sync::Arc;
use std::sync::mpsc::channel;

fn current_of(context: &anabranch::Context) -> Option<u64> {
    Stream::with_current_of(context, |stream| stream.map(Stream::id))
}

#[test]
fn calls_without_a_stream_run_in_the_order_of_the_current_one() {
    let context = host();
    let (held, free) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = free.allocate_zeroed::<u32>(4).unwrap();
    free.synchronize().unwrap();
    let gate = hold(&context, &held);
    {
        let _guard = held.enter();
        current::fill(&mut buffer, 7).unwrap();
    }
    assert!(!held.query().unwrap());
    assert!(free.query().unwrap(), "nothing was queued elsewhere");
    gate.set(1);
    held.synchronize().unwrap();
    let _guard = free.enter();
    assert_eq!(buffer.to_vec().unwrap(), [7; 4]);
}

#[test]
fn each_call_takes_the_current_stream_of_its_context() {
    let instance = Instance::builder().cuda(false).host_devices(2).isolated().build().unwrap();
    let contexts = ["host:0", "host:1"].map(|name| instance.device(name).unwrap().context().unwrap());
    let [first, second] = contexts.each_ref().map(|context| Arc::new(context.create_stream().unwrap()));
    first.make_current();
    second.make_current();
    // The last one, for what has no context yet.
    let there = Buffer::from_slice(&[1u32, 2]).unwrap();
    assert!(there.context() == contexts[1]);
    let _guard = first.enter();
    let mut here = Buffer::<u32>::zeroed(2).unwrap();
    assert!(here.context() == contexts[0]);
    current::fill(&mut here, 5).unwrap();
    assert_eq!((here.to_vec().unwrap(), there.to_vec().unwrap()), (vec![5, 5], vec![1, 2]));

    let twice = HostFunction::new("twice", &[8], |block, arguments| {
        let data = arguments.slice::<u32>(0);
        block.phase(|thread, _| data.set(thread.global_x(), 2 * data.get(thread.global_x())));
    });
    let mut there = there;
    let kernel = DualModule::new().host_function(twice).load(&contexts[1]).unwrap().kernel("twice").unwrap();
    // SAFETY: it uses two numbers, one each thread.
    unsafe { current::launch(&kernel, &LaunchConfig::new(1, 2), (&mut there,)) }.unwrap();
    assert_eq!(there.to_vec().unwrap(), [2, 4]);
    let refused = current::copy(&mut here, &there).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_HANDLE);
}

#[test]
fn entered_streams_come_before_one_that_was_made_current() {
    let context = host();
    let (used, other) = (Arc::new(context.create_stream().unwrap()), Arc::new(context.create_stream().unwrap()));
    let entered = context.create_stream().unwrap();
    assert_eq!(current_of(&context), None);
    used.make_current();
    assert_eq!(current_of(&context), Some(used.id()));
    {
        let _guard = entered.enter();
        other.make_current();
        assert_eq!(current_of(&context), Some(entered.id()));
    }
    assert_eq!(current_of(&context), Some(other.id()));
    used.make_current();
    assert_eq!(Stream::with_current(|stream| stream.map(Stream::id)), Some(used.id()));
    // Every thread has its own.
    assert_eq!(std::thread::scope(|scope| scope.spawn(|| current_of(&context)).join().unwrap()), None);
    drop(used);
    assert_eq!(current_of(&context), None, "a stream that has ended is not current any more");
}

#[test]
fn without_a_current_stream_the_error_says_what_to_do() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[1u8, 2]).unwrap();
    let errors = [
        Buffer::from_slice(&[1u8]).map(drop),
        Buffer::<u8>::zeroed(1).map(drop),
        buffer.to_vec().map(drop),
        current::fill(&mut buffer, 1),
        current::copy(&mut buffer, &stream.allocate_zeroed(2).unwrap()),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.status(), Status::ILLEGAL_STATE);
        assert!(error.to_string().contains("Stream::make_current"), "{error}");
    }
}

#[test]
fn inside_of_a_host_function_they_are_not_permitted() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (sender, receiver) = channel();
    stream
        .launch_host_func(move || sender.send(Buffer::from_slice(&[1u8]).map(drop).unwrap_err().status()).unwrap())
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), Status::NOT_PERMITTED);
}
