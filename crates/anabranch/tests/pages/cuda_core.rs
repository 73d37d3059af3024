//! `cuda.core`.

use crate::common::{hold, host};
use anabranch::{BorrowedStream, EventFlags, Instance, Status, StreamFlags, StreamHandle};

#[test]
fn a_device_makes_streams() {
    let context = host();
    let (one, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    assert_ne!(one, other);
    let flags = StreamFlags::NON_BLOCKING;
    let lowest = context.create_stream_with_priority(flags, one.priority().unwrap()).unwrap();
    assert_eq!(lowest.priority().unwrap(), one.priority().unwrap());
    assert_eq!(lowest.flags().unwrap(), one.flags().unwrap());
}

#[test]
fn an_event_is_made_with_options() {
    let stream = host().create_stream().unwrap();
    let start = stream.record_event().unwrap();
    let plain = stream.record_event_with_flags(EventFlags::DISABLE_TIMING).unwrap();
    assert_eq!(plain.flags(), Some(EventFlags::DISABLE_TIMING));
    stream.synchronize().unwrap();
    assert_eq!(plain.elapsed_since(&start).unwrap_err().status(), Status::INVALID_HANDLE);
    assert!(start.elapsed_since(&start).unwrap() == 0.0);
}

#[test]
fn a_stream_waits_for_either() {
    let context = host();
    let [held, behind_event, behind_stream] = [(); 3].map(|()| context.create_stream().unwrap());
    let gate = hold(&context, &held);
    behind_event.wait(&held.record_event().unwrap()).unwrap();
    behind_stream.wait(&held).unwrap();
    assert!(!behind_event.query().unwrap() && !behind_stream.query().unwrap());
    gate.set(1);
    behind_event.synchronize().unwrap();
    behind_stream.synchronize().unwrap();
}

#[test]
fn a_stream_knows_its_device() {
    let instance = Instance::builder().cuda(false).host_devices(2).build().unwrap();
    let [first, second] = ["host:0", "host:1"].map(|name| instance.device(name).unwrap());
    let stream = second.context().unwrap().create_stream().unwrap();
    assert_eq!(stream.device(), second);
    assert_ne!(stream.device(), first);
}

#[test]
fn a_handle_goes_through_an_integer() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let number: usize = stream.as_raw().as_raw();
    // SAFETY: `stream` keeps the stream, which is of this context.
    let borrowed = unsafe { BorrowedStream::from_raw(&context, StreamHandle::from_raw(number)) }.unwrap();
    assert_eq!(*borrowed, stream);
}

#[test]
fn a_stream_says_whether_it_is_non_blocking() {
    let context = host();
    assert!(context.create_stream().unwrap().is_non_blocking().unwrap());
    for stream in [context.create_stream_with_flags(StreamFlags::empty()), context.legacy_stream()] {
        assert!(!stream.unwrap().is_non_blocking().unwrap());
    }
}
