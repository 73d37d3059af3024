//! Closures in streams: their panics, and what is dropped inside of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{ErrorKind, Status};
use common::{hold, host};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn safety_11_a_panic_is_reported_by_the_next_wait_and_later_work_runs() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let ran = Arc::new(AtomicU32::new(0));
    let later = ran.clone();
    stream.launch_host_func(|| panic!("the {} one", "first")).unwrap();
    stream.launch_host_func(move || _ = later.fetch_add(1, Ordering::Relaxed)).unwrap();
    other.launch_host_func(|| {}).unwrap();
    other.synchronize().unwrap();
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert_eq!(error.status(), Status::LAUNCH_FAILED);
    assert!(error.to_string().contains("the first one"), "{error}");
    assert!(!error.is_sticky());
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    stream.synchronize().unwrap();
}

#[test]
fn a_panic_of_a_value_that_is_not_text_is_reported_too() {
    let context = host();
    let stream = context.create_stream().unwrap();
    stream.add_callback(|_, _| std::panic::panic_any(7)).unwrap();
    assert!(stream.synchronize().unwrap_err().to_string().contains("not text"));
}

#[test]
fn safety_12_objects_can_be_dropped_inside_of_a_host_function() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let inner = context.create_stream().unwrap();
    let event = inner.record_event().unwrap();
    let buffer = inner.upload(&[1u8; 100]).unwrap();
    let pinned = context.allocate_pinned::<u8>(100).unwrap();
    let signal = hold(&context, &inner);
    stream.launch_host_func(move || drop((inner, event, buffer, pinned))).unwrap();
    stream.synchronize().unwrap();
    signal.set(1);
    anabranch::flush_deferred_drops();
}

#[test]
fn calls_inside_of_a_host_function_are_not_permitted() {
    let context = host();
    let stream = Arc::new(context.create_stream().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let (inside, other) = (stream.clone(), context.clone());
    stream
        .launch_host_func(move || {
            sender.send(inside.synchronize().unwrap_err().status()).unwrap();
            sender.send(other.create_stream().unwrap_err().status()).unwrap();
            sender.send(inside.upload(&[1u8]).unwrap_err().status()).unwrap();
        })
        .unwrap();
    assert!(receiver.iter().all(|status| status == Status::NOT_PERMITTED));
    stream.synchronize().unwrap();
}

#[test]
fn closures_are_dropped_exactly_once_whether_they_run_or_not() {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicU32::new(0));
    let context = host();
    let stream = context.create_stream().unwrap();
    for _ in 0..100 {
        let counted = Counted(dropped.clone());
        stream.launch_host_func(move || drop(counted)).unwrap();
        let counted = Counted(dropped.clone());
        stream
            .add_callback(move |_, status| assert!(status.is_success(), "{}", counted.0.load(Ordering::Relaxed)))
            .unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 200);
}
