//! Order within streams, between them, and against the legacy default stream.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use support::{Fixture, Gate, SMALL, live, status, until};

const LEGACY: Live<'_, StreamHandle> = Live::LEGACY;
const PER_THREAD: Live<'_, StreamHandle> = Live::PER_THREAD;

/// Two entries on `first`, the earlier one pending, then one on `second`.
fn queue(
    fixture: &Fixture,
    first: Live<'_, StreamHandle>,
    second: Live<'_, StreamHandle>,
) -> (Gate, Arc<Mutex<Vec<u32>>>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let gate = fixture.gate(first);
    let (one, two) = (Arc::clone(&order), Arc::clone(&order));
    fixture.host(first, move || one.lock().unwrap().push(1));
    fixture.host(second, move || two.lock().unwrap().push(2));
    (gate, order)
}

fn assert_waits(fixture: &Fixture, first: Live<'_, StreamHandle>, second: Live<'_, StreamHandle>) {
    let (gate, order) = queue(fixture, first, second);
    // Other work has its turn meanwhile; the second entry would have had its own.
    for _ in 0..20 {
        let other = fixture.stream();
        fixture.host(other, || ());
        until("other work", || fixture.query(other) == 0);
        assert_eq!(fixture.query(second), 600);
    }
    gate.open();
    fixture.synchronize(second).unwrap();
    assert_eq!(*order.lock().unwrap(), [1, 2]);
    fixture.synchronize_all().unwrap();
}

fn assert_overtakes(fixture: &Fixture, first: Live<'_, StreamHandle>, second: Live<'_, StreamHandle>) {
    let (gate, order) = queue(fixture, first, second);
    // Not by the stream, because a query of the legacy stream covers others.
    until("the second entry", || *order.lock().unwrap() == [2]);
    gate.open();
    fixture.synchronize_all().unwrap();
    assert_eq!(*order.lock().unwrap(), [2, 1]);
}

#[test]
fn entries_of_a_stream_run_in_order() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..10_000 {
        let seen = Arc::clone(&seen);
        fixture.host(stream, move || seen.lock().unwrap().push(number));
    }
    fixture.synchronize(stream).unwrap();
    assert!(seen.lock().unwrap().iter().copied().eq(0..10_000));
}

#[test]
fn streams_overlap() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.stream(), fixture.stream());
    let (to_b, from_a) = std::sync::mpsc::channel();
    let (to_a, from_b) = std::sync::mpsc::channel();
    fixture.host(a, move || {
        to_b.send(()).unwrap();
        from_b.recv().unwrap();
    });
    fixture.host(b, move || {
        from_a.recv().unwrap();
        to_a.send(()).unwrap();
    });
    fixture.synchronize_all().unwrap();
}

#[test]
fn more_blocked_host_functions_than_workers_are_no_deadlock() {
    let fixture = Fixture::new();
    let gates: Vec<_> = (0..8).map(|_| fixture.gate(fixture.stream())).collect();
    let done = Arc::new(AtomicUsize::new(0));
    let other = fixture.stream();
    let count = Arc::clone(&done);
    fixture.host(other, move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    until("work beside blocked host functions", || fixture.query(other) == 0);
    assert_eq!(done.load(Ordering::SeqCst), 1);
    gates.into_iter().for_each(Gate::open);
    fixture.synchronize_all().unwrap();
}

#[test]
fn legacy_and_blocking_streams_wait_for_each_other() {
    let fixture = Fixture::new();
    let blocking = fixture.blocking();
    assert_waits(&fixture, blocking, LEGACY);
    assert_waits(&fixture, LEGACY, blocking);
    assert_waits(&fixture, Live::<StreamHandle>::NULL, blocking);
    assert_overtakes(&fixture, blocking, fixture.blocking());
}

#[test]
fn non_blocking_streams_and_the_legacy_stream_do_not_wait() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    assert_overtakes(&fixture, stream, LEGACY);
    assert_overtakes(&fixture, LEGACY, stream);
}

#[test]
fn the_per_thread_stream_is_a_blocking_one() {
    let fixture = Fixture::new();
    assert_waits(&fixture, PER_THREAD, LEGACY);
    assert_waits(&fixture, LEGACY, PER_THREAD);
    assert_overtakes(&fixture, PER_THREAD, fixture.blocking());
    assert_overtakes(&fixture, PER_THREAD, fixture.stream());
}

#[test]
fn per_thread_streams_are_one_for_each_thread() {
    let fixture = Fixture::new();
    let id = || fixture.driver.stream_id(&fixture.context.into(), PER_THREAD).unwrap();
    let own = id();
    assert_eq!(own, id());
    let other = std::thread::scope(|scope| scope.spawn(id).join().unwrap());
    assert_ne!(own, other);
}

#[test]
fn work_of_an_ended_thread_still_runs() {
    let fixture = Fixture::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let gate = std::thread::scope(|scope| {
        let gate = scope.spawn(|| {
            let gate = fixture.gate(PER_THREAD);
            fixture.host(PER_THREAD, move || sender.send(()).unwrap());
            gate
        });
        gate.join().unwrap()
    });
    gate.open();
    receiver.recv().unwrap();
    fixture.synchronize_all().unwrap();
}

#[test]
fn the_legacy_stream_covers_blocking_streams() {
    let fixture = Fixture::new();
    let blocking = fixture.blocking();
    let event = fixture.event();
    let gate = fixture.gate(blocking);
    assert_eq!(fixture.query(LEGACY), 600);
    fixture.record(event, LEGACY);
    assert_eq!(fixture.query_event(event), 600);
    // A non-blocking stream that waits for the event waits for the blocking stream through it.
    let stream = fixture.stream();
    fixture.wait(stream, event);
    fixture.host(stream, || ());
    assert_eq!(fixture.query(stream), 600);
    gate.open();
    fixture.synchronize(LEGACY).unwrap();
    assert_eq!(fixture.query_event(event), 0);
    assert_eq!(fixture.query(blocking), 0);
    fixture.synchronize(stream).unwrap();
}

#[test]
fn an_event_wait_in_the_legacy_stream_holds_blocking_streams_back() {
    let fixture = Fixture::new();
    let (stream, blocking) = (fixture.stream(), fixture.blocking());
    let event = fixture.event();
    let gate = fixture.gate(stream);
    fixture.record(event, stream);
    fixture.wait(LEGACY, event);
    fixture.host(blocking, || ());
    assert_eq!(fixture.query(blocking), 600);
    gate.open();
    fixture.synchronize(blocking).unwrap();
    assert_eq!(fixture.query(stream), 0);
}

#[test]
fn a_blocking_stream_made_later_waits_for_the_legacy_stream_too() {
    let fixture = Fixture::new();
    let gate = fixture.gate(LEGACY);
    let blocking = fixture.blocking();
    fixture.host(blocking, || ());
    assert_eq!(fixture.query(blocking), 600);
    gate.open();
    fixture.synchronize(blocking).unwrap();
}

#[test]
fn threads_on_legacy_and_blocking_streams_never_wait_in_a_cycle() {
    let fixture = Fixture::new();
    let streams: Vec<_> = (0..3).map(|_| fixture.blocking()).collect();
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (fixture, streams, count) = (&fixture, &streams, &count);
            scope.spawn(move || {
                for round in 0..2_000 {
                    let stream =
                        if round % 3 == 0 { LEGACY } else { live(streams[(round + thread) % streams.len()].handle()) };
                    let count = Arc::clone(count);
                    fixture.host(stream, move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                    if round % 500 == 0 {
                        fixture.synchronize(stream).unwrap();
                    }
                }
            });
        }
    });
    fixture.synchronize_all().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 8_000);
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let gate = fixture.gate(stream);
    let (sender, receiver) = std::sync::mpsc::channel();
    fixture.host(stream, move || sender.send(1).unwrap());
    assert_eq!(status(unsafe { fixture.driver.stream_destroy(&fixture.context.into(), stream.handle()) }), 0);
    gate.open();
    fixture.synchronize_all().unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn the_seed_alone_decides_the_order_of_the_deterministic_mode() {
    let run = |seed| {
        let fixture = Fixture::with(anabranch_host::HostOptions { seed: Some(seed), ..SMALL });
        let order = Arc::new(Mutex::new(Vec::new()));
        for stream in 0..4 {
            let handle = fixture.stream();
            for entry in 0..4 {
                let order = Arc::clone(&order);
                fixture.host(handle, move || order.lock().unwrap().push((stream, entry)));
            }
        }
        assert!(order.lock().unwrap().is_empty());
        fixture.synchronize_all().unwrap();
        order.lock().unwrap().clone()
    };
    assert_eq!(run(7), run(7));
    assert!((0..8).any(|seed| run(seed) != run(7)));
}

#[test]
fn the_more_urgent_of_ready_streams_runs_first() {
    // Kernels throughout: a worker inside of host work is a reason to start another.
    let fixture = Fixture::with(anabranch_host::HostOptions { workers: Some(1), ..SMALL });
    let order = Arc::new(Mutex::new(Vec::new()));
    let (started, has_started) = std::sync::mpsc::channel();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let mut functions = vec![HostFunction::new("held", &[], move |_, _| {
        started.send(()).unwrap();
        let _ = gate.lock().unwrap().recv();
    })];
    let priorities = [0, -5, -2];
    for priority in priorities {
        let order = Arc::clone(&order);
        functions.push(HostFunction::new(priority.to_string(), &[], move |_, _| order.lock().unwrap().push(priority)));
    }
    let module = fixture.load(functions);
    let function = |name: &str| fixture.driver.module_function(&fixture.context.into(), module, name).unwrap();
    fixture.launch(fixture.stream(), live(function("held")), 1, 1, &[]).unwrap();
    has_started.recv().unwrap();
    let streams = priorities.map(|priority| {
        let flags = StreamFlags::NON_BLOCKING;
        let stream = live(fixture.driver.stream_create(&fixture.context.into(), flags, priority).unwrap());
        fixture.launch(stream, live(function(&priority.to_string())), 1, 1, &[]).unwrap();
        stream
    });
    drop(open);
    until("all three", || streams.iter().all(|&stream| fixture.query(stream) == 0));
    assert_eq!(*order.lock().unwrap(), [-5, -2, 0]);
}
