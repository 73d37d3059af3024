//! Workers that cannot be started, and chains of any length: what tests through the contract cannot bring about.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::HostDriver;
use crate::engine;
use crate::options::HostOptions;
use anabranch_hal::*;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A driver whose workers cannot be started while the result says so, and a context of it.
fn without_workers() -> (HostDriver, Call<'static>, Arc<AtomicBool>) {
    let options = HostOptions { workers: Some(2), memory_bytes_per_device: 1 << 20, ..HostOptions::default() };
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let start = move |engine| match failing.load(Ordering::SeqCst) {
        true => Err(io::Error::other("there are no threads")),
        false => engine::start_worker(engine),
    };
    let driver = HostDriver::with(&options, engine::start_with(&options, None, Box::new(start)), None);
    // SAFETY: the context goes with the driver.
    let context = unsafe { Live::new(driver.primary_context_retain(DeviceOrdinal(0)).unwrap()) };
    (driver, context.into(), fails)
}

fn stream(driver: &HostDriver, call: &Call<'_>) -> Live<'static, StreamHandle> {
    // SAFETY: the stream goes with the driver, or is destroyed after its last use.
    unsafe { Live::new(driver.stream_create(call, StreamFlags::NON_BLOCKING, 0).unwrap()) }
}

fn event(driver: &HostDriver, call: &Call<'_>) -> Live<'static, EventHandle> {
    // SAFETY: the event goes with the driver.
    unsafe { Live::new(driver.event_create(call, EventFlags::DISABLE_TIMING).unwrap()) }
}

/// Makes one stream wait for another.
fn follow(
    driver: &HostDriver,
    call: &Call<'_>,
    later: Live<'_, StreamHandle>,
    earlier: Live<'_, StreamHandle>,
    event: Live<'_, EventHandle>,
) {
    driver.event_record(call, event, earlier, EventRecordFlags::empty()).unwrap();
    driver.stream_wait_event(call, later, event, EventWaitFlags::empty()).unwrap();
}

fn count(driver: &HostDriver, call: &Call<'_>, stream: Live<'_, StreamHandle>, counter: &Arc<AtomicUsize>) {
    let counter = Arc::clone(counter);
    let work = HostWork::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    driver.stream_launch_host_function(call, stream, work).unwrap();
}

/// Waits for a stream.
fn synchronize(driver: &HostDriver, call: &Call<'_>, stream: Live<'_, StreamHandle>) {
    driver.stream_synchronize(call, stream).unwrap();
}

/// A number in device memory, initially of any value.
fn number(driver: &HostDriver, call: &Call<'_>) -> DevicePointer {
    driver.allocate(call, 4).unwrap()
}

fn wait_for_seven(driver: &HostDriver, call: &Call<'_>, stream: Live<'_, StreamHandle>, address: DevicePointer) {
    // SAFETY: the stream is live, and the memory goes with the driver.
    unsafe { driver.stream_wait_value(call, stream, address, Value::U32(7), WaitValueFlags::EQUAL) }.unwrap();
}

fn until(mut condition: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    // SAFETY: nothing is locked.
    let _helping = unsafe { Helping::enter() };
    while !condition() {
        assert!(begin.elapsed().as_secs() < 20, "never came true");
        std::thread::yield_now();
    }
}

#[test]
fn a_worker_that_could_not_be_started_is_tried_again_by_later_work() {
    let (driver, call, fails) = without_workers();
    let (first, second, ran) = (stream(&driver, &call), stream(&driver, &call), Arc::default());
    count(&driver, &call, first, &ran);
    assert_eq!(ran.load(Ordering::SeqCst), 0, "there is nobody to run it");
    fails.store(false, Ordering::SeqCst);
    // Of the same stream, whose token is queued already, and of another.
    let mut put = 1;
    until(|| {
        put += 2;
        count(&driver, &call, first, &ran);
        count(&driver, &call, second, &ran);
        ran.load(Ordering::SeqCst) > 0
    });
    until(|| ran.load(Ordering::SeqCst) == put);
}

#[test]
fn queries_run_nothing_and_the_starter_finds_workers() {
    let (driver, call, fails) = without_workers();
    let (one, ran) = (stream(&driver, &call), Arc::default());
    (0..10).for_each(|_| count(&driver, &call, one, &ran));
    for _ in 0..100 {
        assert_eq!(driver.stream_query(&call, one).unwrap_err().status, Status::NOT_READY);
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    fails.store(false, Ordering::SeqCst);
    until(|| driver.stream_query(&call, one).is_ok());
    assert_eq!(ran.load(Ordering::SeqCst), 10);
}

#[test]
fn who_synchronizes_runs_nothing_else() {
    let (driver, call, fails) = without_workers();
    let (one, other, ran) = (stream(&driver, &call), stream(&driver, &call), Arc::default());
    let (address, stray) = (number(&driver, &call), Arc::default());
    wait_for_seven(&driver, &call, one, address);
    count(&driver, &call, one, &ran);
    count(&driver, &call, other, &stray);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| synchronize(&driver, &call, one));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished());
        assert_eq!(stray.load(Ordering::SeqCst), 0);
        fails.store(false, Ordering::SeqCst);
        until(|| stray.load(Ordering::SeqCst) == 1);
        // SAFETY: the stream is live, and the memory goes with the driver.
        unsafe { driver.stream_write_value(&call, other, address, Value::U32(7), WriteValueFlags::empty()) }.unwrap();
    });
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn who_synchronizes_waits_for_workers_that_write_the_awaited_value() {
    let (driver, call, fails) = without_workers();
    let (waiting, writing, ran) = (stream(&driver, &call), stream(&driver, &call), Arc::default());
    let address = number(&driver, &call);
    wait_for_seven(&driver, &call, waiting, address);
    count(&driver, &call, waiting, &ran);
    // SAFETY: the stream is live, and the memory goes with the driver.
    unsafe { driver.stream_write_value(&call, writing, address, Value::U32(7), WriteValueFlags::empty()) }.unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| synchronize(&driver, &call, waiting));
        fails.store(false, Ordering::SeqCst);
    });
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn two_threads_that_wait_for_one_stream_leave_it_to_each_other() {
    let (driver, call, _fails) = without_workers();
    let (one, ran) = (stream(&driver, &call), Arc::new(AtomicUsize::new(0)));
    for _ in 0..50 {
        count(&driver, &call, one, &ran);
        std::thread::scope(|scope| {
            scope.spawn(|| synchronize(&driver, &call, one));
            count(&driver, &call, one, &ran);
            synchronize(&driver, &call, one);
        });
    }
    assert_eq!(ran.load(Ordering::SeqCst), 100);
}

/// Streams of which each waits for the one before.
fn chain(driver: &HostDriver, call: &Call<'_>, length: usize, ran: &Arc<AtomicUsize>) -> Live<'static, StreamHandle> {
    let event = event(driver, call);
    let mut last = stream(driver, call);
    count(driver, call, last, ran);
    for _ in 1..length {
        let next = stream(driver, call);
        follow(driver, call, next, last, event);
        count(driver, call, next, ran);
        last = next;
    }
    last
}

#[test]
fn helping_follows_chains_of_any_length() {
    const LENGTH: usize = 20_000;
    let (driver, call, _fails) = without_workers();
    let ran = Arc::default();
    let last = chain(&driver, &call, LENGTH, &ran);
    // A small stack, which recursion along the chain would overflow.
    std::thread::scope(|scope| {
        let helper = std::thread::Builder::new().stack_size(128 << 10);
        let driver = &driver;
        helper.spawn_scoped(scope, move || synchronize(driver, &call, last)).unwrap();
    });
    assert_eq!(ran.load(Ordering::SeqCst), LENGTH);
}

#[test]
fn a_chain_that_never_ran_goes_with_the_driver() {
    const LENGTH: usize = 20_000;
    let (driver, call, fails) = without_workers();
    let gate = stream(&driver, &call);
    let address = number(&driver, &call);
    wait_for_seven(&driver, &call, gate, address);
    let (ran, event) = (Arc::default(), event(&driver, &call));
    let mut last = gate;
    fails.store(false, Ordering::SeqCst);
    for _ in 0..LENGTH {
        let next = stream(&driver, &call);
        follow(&driver, &call, next, last, event);
        count(&driver, &call, next, &ran);
        // Nobody but the waits in the queues holds the stream any more.
        // SAFETY: this is the last use of the stream.
        unsafe { driver.stream_destroy(&call, last.handle()) }.unwrap();
        last = next;
    }
    let small = std::thread::Builder::new().stack_size(128 << 10);
    small.spawn(move || drop(driver)).unwrap().join().unwrap();
    assert_eq!(Arc::strong_count(&ran), 1);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}
