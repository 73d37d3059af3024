//! Captures on several threads at once.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use support::{Fixture, live, status};

const ROUNDS: usize = 300;

/// How many nodes a graph has, which is then destroyed.
fn count(fixture: &Fixture, graph: Live<'_, GraphHandle>) -> usize {
    let nodes = fixture.driver.graph_nodes(&fixture.context.into(), graph).unwrap();
    unsafe { fixture.driver.graph_destroy(&fixture.context.into(), graph.handle()) }.unwrap();
    nodes.len()
}

#[test]
fn each_thread_captures_its_own() {
    let fixture = Fixture::new();
    let all = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (fixture, all) = (&fixture, &all);
            scope.spawn(move || {
                let (origin, fork) = (Live::PER_THREAD, fixture.stream());
                let mode = if thread % 2 == 0 { CaptureMode::ThreadLocal } else { CaptureMode::Relaxed };
                all.wait();
                let mut last = 0;
                for round in 0..ROUNDS {
                    fixture.begin(origin, mode);
                    let id = fixture.info(origin, false).unwrap().id;
                    assert!(id > last, "numbers only grow");
                    last = id;
                    fixture.fork(origin, fork);
                    for _ in 0..=(round % 5) {
                        assert_eq!((fixture.node(origin), fixture.node(fork)), (0, 0));
                    }
                    fixture.fork(fork, origin);
                    let graph = fixture.end_with_graph(origin).unwrap();
                    assert_eq!(count(fixture, live(graph)), 2 * (round % 5 + 1));
                }
                fixture.assert_usable(fork);
            });
        }
    });
    fixture.synchronize_all().unwrap();
}

#[test]
fn several_captures_of_one_thread() {
    let fixture = Fixture::new();
    let streams: Vec<_> = (0..8).map(|_| fixture.stream()).collect();
    for stream in &streams {
        fixture.begin(*stream, CaptureMode::Global);
    }
    for (number, stream) in streams.iter().enumerate() {
        for _ in 0..number {
            assert_eq!(fixture.node(*stream), 0);
        }
    }
    for (number, stream) in streams.iter().enumerate().rev() {
        assert_eq!(count(&fixture, live(fixture.end_with_graph(*stream).unwrap())), number);
    }
}

#[test]
fn streams_of_one_capture_on_several_threads() {
    let fixture = Fixture::new();
    let origin = fixture.stream();
    let forks: Vec<_> = (0..4).map(|_| fixture.stream()).collect();
    fixture.begin(origin, CaptureMode::Global);
    for fork in &forks {
        fixture.fork(origin, *fork);
    }
    std::thread::scope(|scope| {
        for fork in &forks {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    assert_eq!(fixture.node(*fork), 0);
                }
            });
        }
    });
    for fork in &forks {
        fixture.fork(*fork, origin);
    }
    assert_eq!(count(&fixture, live(fixture.end_with_graph(origin).unwrap())), 4 * ROUNDS);
}

/// Captures again and again while another thread does something, and returns how the captures ended, by status.
fn against(fixture: &Fixture, mode: CaptureMode, stream: Live<'_, StreamHandle>, other: impl Fn() + Sync) -> Vec<i32> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                other();
            }
        });
        let endings = (0..ROUNDS)
            .map(|_| {
                fixture.begin(stream, mode);
                let node = fixture.node(stream);
                assert!([0, 901].contains(&node), "{node}");
                std::thread::yield_now();
                fixture.end(stream)
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        endings
    })
}

#[test]
fn ends_and_what_invalidates() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let asked = [0, 900];
    let endings = against(&fixture, CaptureMode::Relaxed, stream, || {
        assert!(asked.contains(&status(fixture.synchronize_all())));
    });
    assert!(endings.iter().all(|ending| [0, 901].contains(ending)), "{endings:?}");
    let endings = against(&fixture, CaptureMode::Relaxed, stream, || {
        assert!(asked.contains(&fixture.query(stream)));
    });
    assert!(endings.iter().all(|ending| [0, 901].contains(ending)), "{endings:?}");
    let endings =
        against(&fixture, CaptureMode::Global, stream, || match fixture.driver.allocate(&fixture.context.into(), 16) {
            Ok(address) => {
                let freed = status(unsafe { fixture.driver.free(&fixture.context.into(), address) });
                assert!(asked.contains(&freed));
            }
            Err(failure) => assert_eq!(failure.status.0, 900),
        });
    assert!(endings.iter().all(|ending| [0, 901].contains(ending)), "{endings:?}");
    // Thread-local captures are left alone.
    let endings = against(&fixture, CaptureMode::ThreadLocal, stream, || {
        let address = fixture.allocate(16);
        fixture.free(address);
    });
    assert!(endings.iter().all(|ending| *ending == 0), "{endings:?}");
    fixture.assert_usable(stream);
}

#[test]
fn of_two_ends_one_succeeds() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    for _ in 0..ROUNDS {
        fixture.begin(stream, CaptureMode::Relaxed);
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| fixture.end(stream));
            let mut both = [fixture.end(stream), other.join().unwrap()];
            both.sort_unstable();
            both
        });
        assert_eq!(both, [0, 401]);
    }
    fixture.assert_usable(stream);
}

#[test]
fn a_stream_that_joins_while_the_capture_ends() {
    let fixture = Fixture::new();
    let (origin, fork, event) = (fixture.stream(), fixture.stream(), fixture.event());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let answer = fixture.try_wait(fork, event);
                assert!([0, 1].contains(&answer), "{answer}");
                fixture.node(fork);
            }
        });
        for _ in 0..ROUNDS {
            fixture.begin(origin, CaptureMode::Relaxed);
            fixture.record(event, origin);
            assert_eq!(fixture.node(origin), 0);
            let ending = fixture.end(origin);
            assert!([0, 904].contains(&ending), "{ending}");
        }
        over.store(true, Ordering::Relaxed);
    });
    fixture.assert_usable(fork);
    fixture.assert_usable(origin);
    fixture.synchronize_all().unwrap();
}

#[test]
fn captures_that_merge_on_two_threads() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.stream(), fixture.stream());
    let (first, second) = (fixture.event(), fixture.event());
    for _ in 0..ROUNDS {
        let both = Barrier::new(2);
        let capture = |stream, own, other| {
            fixture.begin(stream, CaptureMode::Relaxed);
            fixture.record(own, stream);
            both.wait();
            let answer = fixture.try_wait(stream, other);
            both.wait();
            (answer, fixture.end(stream))
        };
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| capture(one, first, second));
            let right = capture(two, second, first);
            (left.join().unwrap(), right)
        });
        // The first of them invalidates both.
        let mut answers = [left.0, right.0];
        answers.sort_unstable();
        assert_eq!((answers, left.1, right.1), ([901, 902], 901, 901));
    }
    fixture.assert_usable(one);
    fixture.assert_usable(two);
}

#[test]
fn work_is_either_captured_or_run() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (ran, put, captured) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let ran = Arc::clone(&ran);
                let work = move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                };
                assert_eq!(fixture.repeatable(stream, work), 0);
                put.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..ROUNDS {
            fixture.begin(stream, CaptureMode::Relaxed);
            std::thread::yield_now();
            let graph = fixture.end_with_graph(stream).unwrap();
            captured.fetch_add(count(&fixture, live(graph)), Ordering::Relaxed);
        }
        over.store(true, Ordering::Relaxed);
    });
    fixture.synchronize(stream).unwrap();
    let (ran, captured) = (ran.load(Ordering::Relaxed), captured.load(Ordering::Relaxed));
    assert_eq!(ran + captured, put.load(Ordering::Relaxed), "{ran} ran, {captured} were captured");
}

#[test]
fn numbers_are_unique_in_the_process() {
    static HIGHEST: AtomicU64 = AtomicU64::new(0);
    for _ in 0..3 {
        let fixture = Fixture::new();
        fixture.begin(Live::PER_THREAD, CaptureMode::Relaxed);
        let id = fixture.info(Live::PER_THREAD, false).unwrap().id;
        assert!(HIGHEST.swap(id, Ordering::Relaxed) < id);
        assert_eq!(fixture.end(Live::PER_THREAD), 0);
    }
}
