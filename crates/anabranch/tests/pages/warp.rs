//! Warp.

use crate::common::{hold, host};
use anabranch::{CaptureMode, EventFlags, Instance, Status};

#[test]
fn a_stream_is_made_on_the_default_device() {
    let instance = Instance::builder().cuda(false).isolated().build().unwrap();
    if std::env::var_os(anabranch::DEVICE_VARIABLE).is_none_or(|name| name.is_empty()) {
        let device = instance.default_device().unwrap();
        let stream = device.context().unwrap().create_stream().unwrap();
        assert_eq!(stream.device(), instance.device("host:0").unwrap());
    }
    assert_eq!(instance.device("cuda:0").unwrap_err().status(), Status::NO_DEVICE);
}

#[test]
fn a_record_makes_an_event_of_the_same_device() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let event = stream.record_event().unwrap();
    assert_eq!(*event.context().device(), stream.device());
    assert_eq!(event.flags(), Some(EventFlags::empty()));
    event.synchronize().unwrap();
}

#[test]
fn no_wait_blocks_the_host() {
    let context = host();
    let [held, behind_event, behind_stream] = [(); 3].map(|()| context.create_stream().unwrap());
    let gate = hold(&context, &held);
    behind_event.wait_event(&held.record_event().unwrap()).unwrap();
    behind_stream.wait_stream(&held).unwrap();
    assert!(!behind_event.is_complete().unwrap() && !behind_stream.is_complete().unwrap());
    gate.set(1);
    behind_event.synchronize().unwrap();
    behind_stream.synchronize().unwrap();
    assert!(held.is_complete().unwrap());
}

#[test]
fn a_given_event_remains_recorded() {
    let context = host();
    let (held, waiting) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let gate = hold(&context, &held);
    waiting.wait_stream_with_event(&held, &event).unwrap();
    assert!(!event.query().unwrap() && !waiting.is_complete().unwrap());
    gate.set(1);
    event.synchronize().unwrap();
    waiting.synchronize().unwrap();
}

#[test]
fn a_query_beside_a_capture_depends_on_its_mode() {
    let context = host();
    let (captures, asked) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    captures.begin_capture(CaptureMode::Relaxed).unwrap();
    assert!(asked.is_complete().unwrap());
    captures.end_capture().unwrap();
    captures.begin_capture(CaptureMode::Global).unwrap();
    assert_eq!(asked.is_complete().unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(captures.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    assert!(asked.is_complete().unwrap());
}
