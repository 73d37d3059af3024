//! Which stream a worker runs next.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use anabranch_host::HostOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::{Fixture, SMALL, live};

/// Kernels in a stream that is as long as this.
const KERNELS: usize = 400;

/// Has the only worker run a stream of kernels, of which each takes at least `length`, and enqueues one operation in
/// another stream while the first kernel runs. Returns how many kernels had run when the operation ran.
fn kernels_before(busy_priority: i32, priority: i32, length: Duration) -> usize {
    let fixture = Fixture::with(HostOptions { workers: Some(1), ..SMALL });
    let stream = |priority| {
        let context = fixture.context.into();
        fixture.driver.stream_create(&context, StreamFlags::NON_BLOCKING, priority).unwrap()
    };
    let (busy, other) = (stream(busy_priority), stream(priority));
    let ran = Arc::new(AtomicUsize::new(0));
    let (started, has_started) = channel();
    let (open, gate) = channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let counter = Arc::clone(&ran);
    let kernel = fixture.function(HostFunction::new("busy", &[], move |_, _| {
        if counter.load(Ordering::SeqCst) == 0 {
            started.send(()).unwrap();
            gate.lock().recv().unwrap();
        }
        let begin = Instant::now();
        while begin.elapsed() < length {
            std::hint::spin_loop();
        }
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let (sender, receiver) = channel();
    let counter = Arc::clone(&ran);
    // A kernel, since another worker would take the place of one that runs a host function.
    let look = fixture.function(HostFunction::new("look", &[], move |_, _| {
        sender.send(counter.load(Ordering::SeqCst)).unwrap();
    }));
    for _ in 0..KERNELS {
        fixture.launch(live(busy), kernel, 1, 1, &[]).unwrap();
    }
    has_started.recv().unwrap();
    fixture.launch(live(other), look, 1, 1, &[]).unwrap();
    open.send(()).unwrap();
    let before = receiver.recv().unwrap();
    fixture.synchronize_all().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), KERNELS);
    before
}

#[test]
fn a_stream_gives_way_to_another_after_a_slice_of_time() {
    assert_eq!(kernels_before(0, 0, Duration::from_millis(1)), 1);
}

#[test]
fn a_stream_gives_way_to_a_more_urgent_one_after_each_operation() {
    assert_eq!(kernels_before(0, -5, Duration::ZERO), 1);
}

#[test]
fn the_least_urgent_stream_has_its_turn_while_a_more_urgent_one_is_busy() {
    let before = kernels_before(-5, 0, Duration::from_micros(200));
    assert!(before < KERNELS, "{before}");
}
