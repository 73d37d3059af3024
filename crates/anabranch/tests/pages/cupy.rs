//! CuPy.

use crate::common::{hold, host};
use crate::has_trait;
use anabranch::{DeviceOrdinal, Status, Stream, StreamFlags};
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::mpsc::channel;

#[test]
fn a_plain_stream_waits_for_the_null_stream() {
    let context = host();
    let null = context.legacy_stream().unwrap();
    let plain = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let non_blocking = context.create_stream().unwrap();
    let gate = hold(&context, &null);
    plain.launch_host_func(|| {}).unwrap();
    non_blocking.launch_host_func(|| {}).unwrap();
    non_blocking.synchronize().unwrap();
    assert!(!plain.is_complete().unwrap());
    gate.set(1);
    plain.synchronize().unwrap();
}

#[test]
fn every_stream_has_a_device() {
    let context = host();
    for stream in [context.legacy_stream(), context.per_thread_stream(), context.create_stream()] {
        let device = stream.unwrap().device();
        assert_eq!(device, *context.device());
        assert_eq!(device.ordinal(), DeviceOrdinal(0));
    }
}

#[test]
fn a_callback_gets_the_stream_and_the_status() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (sender, receiver) = channel();
    let user_data = 7;
    stream.add_callback(move |stream, status| sender.send((stream.clone(), status, user_data)).unwrap()).unwrap();
    let (called, status, data) = receiver.recv().unwrap();
    assert!(called == stream && called != other && called.id() == stream.id());
    assert_eq!((status, data), (Status::SUCCESS, 7));
}

#[test]
fn a_record_makes_an_event_that_measures_time() {
    let stream = host().create_stream().unwrap();
    let start = stream.record_event().unwrap();
    stream.launch_host_func(|| {}).unwrap();
    let end = stream.record_event().unwrap();
    end.synchronize().unwrap();
    assert!(end.elapsed_since(&start).unwrap() >= 0.0);
}

#[test]
fn streams_are_hashed_and_not_compared() {
    const { assert!(has_trait!(Stream: Eq) && has_trait!(Stream: Hash)) };
    const { assert!(!has_trait!(Stream: PartialOrd)) };
    let context = host();
    let streams: HashSet<Stream> = [(); 3].map(|()| context.create_stream().unwrap()).into();
    let ids: HashSet<u64> = streams.iter().map(Stream::id).collect();
    assert_eq!(ids.len(), 3);
}
