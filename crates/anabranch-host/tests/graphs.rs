//! Graphs: built, launched, ordered.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use support::graphs::{copy, fill, kernel};
use support::{Fixture, SMALL, live, status, until};

/// A list that host nodes write their numbers into.
type Log = Arc<Mutex<Vec<u32>>>;

fn logger(log: &Log, number: u32) -> impl Fn() + Send + Sync + 'static {
    let log = Arc::clone(log);
    move || log.lock().unwrap().push(number)
}

#[test]
fn nodes_of_all_plain_kinds_run_in_order_at_every_launch() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(64));
    let double = fixture.function(HostFunction::new("double", &[8], |block, arguments| {
        let values = arguments.slice::<u32>(0);
        block.phase(|_, _| (0..values.len()).for_each(|index| values.set(index, 2 * values.get(index))));
    }));
    let (event, ran) = (fixture.event(), Arc::new(AtomicUsize::new(0)));
    let mut host = vec![0u32; 4];
    let graph = fixture.graph();
    let filled = fixture.add(graph, &[], fill(memory, 21, 16));
    let doubled = fixture.add(graph, &[filled], kernel(double, &[&memory.0.to_ne_bytes()], &[(0, memory, 64)]));
    let empty = fixture.add(graph, &[doubled], NodeParameters::Empty);
    let recorded = fixture.add(graph, &[empty], NodeParameters::EventRecord(event.handle()));
    let waited = fixture.add(graph, &[recorded], NodeParameters::EventWait(event.handle()));
    let written = fixture.add(
        graph,
        &[waited],
        NodeParameters::ValueOperations(vec![
            ValueOperation::Write { address: memory, value: Value::U32(5), flags: WriteValueFlags::empty() },
            ValueOperation::Wait { address: memory, value: Value::U32(5), flags: WaitValueFlags::EQUAL },
        ]),
    );
    let copied = fixture.add(graph, &[written], copy((host.as_mut_ptr() as u64, true), (memory.0, false), 16));
    let counted = Arc::clone(&ran);
    fixture.add_host(graph, &[copied], move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let executable = fixture.instantiate(graph);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    for round in 1..=3 {
        fixture.run_graph(executable, stream);
        assert_eq!(fixture.read(memory, 16)[..3], [5, 42, 42]);
        assert_eq!(ran.load(Ordering::SeqCst), round);
        assert_eq!(fixture.query_event(event), 0);
    }
    assert_eq!(host, [5, 42, 42, 42]);
}

#[test]
fn branches_of_a_diamond_overlap() {
    let fixture = Fixture::new();
    let (stream, log) = (fixture.stream(), Log::default());
    let both = Arc::new(Barrier::new(2));
    let graph = fixture.graph();
    let first = fixture.add_host(graph, &[], logger(&log, 1));
    let branch = |number| {
        let (both, log) = (Arc::clone(&both), logger(&log, number));
        fixture.add_host(graph, &[first], move || {
            both.wait();
            log();
        })
    };
    let branches = [branch(2), branch(2)];
    fixture.add_host(graph, &branches, logger(&log, 3));
    let executable = fixture.instantiate(graph);
    for _ in 0..50 {
        fixture.launch_graph(executable, stream).unwrap();
    }
    fixture.synchronize(stream).unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2, 2, 3].repeat(50));
}

#[test]
fn more_branches_than_workers_wait_for_each_other() {
    let fixture = Fixture::new();
    let (stream, all) = (fixture.stream(), Arc::new(Barrier::new(16)));
    let graph = fixture.graph();
    for _ in 0..16 {
        let all = Arc::clone(&all);
        fixture.add_host(graph, &[], move || {
            all.wait();
        });
    }
    let executable = fixture.instantiate(graph);
    for _ in 0..5 {
        fixture.run_graph(executable, stream);
    }
}

#[test]
fn a_launch_is_in_the_order_of_its_stream() {
    let fixture = Fixture::new();
    let log = Log::default();
    let graph = fixture.graph();
    fixture.add_host(graph, &[], logger(&log, 2));
    let executable = fixture.instantiate(graph);
    for stream in [fixture.stream(), fixture.blocking(), Live::LEGACY, Live::PER_THREAD] {
        fixture.host(stream, logger(&log, 1));
        fixture.launch_graph(executable, stream).unwrap();
        fixture.host(stream, logger(&log, 3));
        fixture.synchronize(stream).unwrap();
    }
    assert_eq!(*log.lock().unwrap(), [1, 2, 3].repeat(4));
}

#[test]
fn a_launch_in_the_legacy_stream_is_a_barrier() {
    let fixture = Fixture::new();
    let (one, two, log) = (fixture.blocking(), fixture.blocking(), Log::default());
    let graph = fixture.graph();
    fixture.add_host(graph, &[], logger(&log, 2));
    let executable = fixture.instantiate(graph);
    let gate = fixture.gate(one);
    fixture.host(one, logger(&log, 1));
    fixture.launch_graph(executable, Live::LEGACY).unwrap();
    fixture.host(two, logger(&log, 3));
    gate.open();
    fixture.synchronize_all().unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn launches_of_one_executable_follow_each_other_across_streams() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.stream(), fixture.stream());
    let running = Arc::new(AtomicUsize::new(0));
    let total = Arc::new(AtomicUsize::new(0));
    let graph = fixture.graph();
    for _ in 0..3 {
        let (running, total) = (Arc::clone(&running), Arc::clone(&total));
        let before = fixture.add_host(graph, &[], {
            let running = Arc::clone(&running);
            move || {
                running.fetch_add(1, Ordering::SeqCst);
            }
        });
        fixture.add_host(graph, &[before], move || {
            assert!(running.load(Ordering::SeqCst) <= 3);
            total.fetch_add(1, Ordering::SeqCst);
            running.fetch_sub(1, Ordering::SeqCst);
        });
    }
    let executable = fixture.instantiate(graph);
    for _ in 0..100 {
        fixture.launch_graph(executable, one).unwrap();
        fixture.launch_graph(executable, two).unwrap();
    }
    // A stream that ends does not take its launches with it.
    unsafe { fixture.driver.stream_destroy(&fixture.context.into(), two.handle()) }.unwrap();
    fixture.synchronize_all().unwrap();
    assert_eq!((total.load(Ordering::SeqCst), running.load(Ordering::SeqCst)), (600, 0));
}

#[test]
fn a_held_up_launch_holds_up_the_next_one_in_another_stream() {
    let fixture = Fixture::new();
    let (one, two, log) = (fixture.stream(), fixture.stream(), Log::default());
    let graph = fixture.graph();
    fixture.add_host(graph, &[], logger(&log, 2));
    let executable = fixture.instantiate(graph);
    let gate = fixture.gate(one);
    fixture.host(one, logger(&log, 1));
    fixture.launch_graph(executable, one).unwrap();
    fixture.launch_graph(executable, two).unwrap();
    assert_eq!(fixture.query(two), 600);
    gate.open();
    fixture.synchronize(two).unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2, 2]);
}

#[test]
fn a_recorded_event_is_pending_until_its_node_is_done() {
    let fixture = Fixture::new();
    let (stream, other) = (fixture.stream(), fixture.stream());
    let event = live(fixture.driver.event_create(&fixture.context.into(), EventFlags::empty()).unwrap());
    let (sender, receiver) = mpsc::channel::<()>();
    let (second_sender, second_receiver) = mpsc::channel::<()>();
    let (receiver, second_receiver) = (Mutex::new(receiver), Mutex::new(second_receiver));
    let graph = fixture.graph();
    let first = fixture.add_host(graph, &[], move || receiver.lock().unwrap().recv().unwrap());
    let recorded = fixture.add(graph, &[first], NodeParameters::EventRecord(event.handle()));
    fixture.add_host(graph, &[recorded], move || second_receiver.lock().unwrap().recv().unwrap());
    let executable = fixture.instantiate(graph);
    let seen = Arc::new(AtomicUsize::new(0));
    for round in 1..=2 {
        fixture.launch_graph(executable, stream).unwrap();
        fixture.wait(other, event);
        let counted = Arc::clone(&seen);
        fixture.host(other, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(fixture.query_event(event), 600);
        sender.send(()).unwrap();
        fixture.synchronize(other).unwrap();
        assert_eq!((fixture.query_event(event), fixture.query(stream)), (0, 600));
        assert_eq!(seen.load(Ordering::SeqCst), round);
        second_sender.send(()).unwrap();
        fixture.synchronize(stream).unwrap();
    }
    let later = live(fixture.driver.event_create(&fixture.context.into(), EventFlags::empty()).unwrap());
    fixture.record(later, stream);
    fixture.synchronize(stream).unwrap();
    let elapsed = fixture.driver.event_elapsed(&fixture.context.into(), event, later).unwrap();
    assert!((0.0..10_000.0).contains(&elapsed), "{elapsed}");
}

#[test]
fn a_waiting_node_holds_up_what_follows_it_and_nothing_else() {
    let fixture = Fixture::new();
    let (stream, other, event, log) = (fixture.stream(), fixture.stream(), fixture.event(), Log::default());
    let memory = fixture.allocate(8);
    fixture.fill(other, memory, 0, 2);
    fixture.synchronize(other).unwrap();
    let graph = fixture.graph();
    let waited = fixture.add(graph, &[], NodeParameters::EventWait(event.handle()));
    let wait = ValueOperation::Wait { address: memory, value: Value::U32(7), flags: WaitValueFlags::EQUAL };
    let awaited = fixture.add(graph, &[waited], NodeParameters::ValueOperations(vec![wait]));
    fixture.add_host(graph, &[awaited], logger(&log, 2));
    fixture.add_host(graph, &[], logger(&log, 1));
    let executable = fixture.instantiate(graph);
    let gate = fixture.gate(other);
    fixture.record(event, other);
    fixture.launch_graph(executable, stream).unwrap();
    until("the branch that does not wait has run", || !log.lock().unwrap().is_empty());
    gate.open();
    fixture.synchronize(other).unwrap();
    assert_eq!((fixture.query(stream), log.lock().unwrap().len()), (600, 1));
    fixture.fill(other, memory, 7, 1);
    fixture.synchronize(stream).unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2]);
}

#[test]
fn children_are_copied_when_they_are_added() {
    let fixture = Fixture::new();
    let (stream, log) = (fixture.stream(), Log::default());
    let (child, graph) = (fixture.graph(), fixture.graph());
    let inner = fixture.add_host(child, &[], logger(&log, 2));
    fixture.add_host(child, &[inner], logger(&log, 3));
    let first = fixture.add_host(graph, &[], logger(&log, 1));
    let node = fixture.add(graph, &[first], NodeParameters::Child(child.handle()));
    let empty = fixture.graph();
    let nothing = fixture.add(graph, &[node], NodeParameters::Child(empty.handle()));
    fixture.add_host(graph, &[nothing], logger(&log, 4));
    fixture.add_host(child, &[], logger(&log, 9));
    fixture.destroy_graph(child);
    let NodeParameters::Child(copied) =
        fixture.driver.graph_node_parameters(&fixture.context.into(), live(node)).unwrap()
    else {
        panic!("a child graph is one")
    };
    assert_eq!(fixture.driver.graph_nodes(&fixture.context.into(), live(copied)).unwrap().len(), 2);
    let executable = fixture.instantiate(graph);
    fixture.run_graph(executable, stream);
    assert_eq!(*log.lock().unwrap(), [1, 2, 3, 4]);
}

#[test]
fn destroying_in_flight_does_not_block_and_the_launch_is_done() {
    let fixture = Fixture::new();
    let (stream, log) = (fixture.stream(), Log::default());
    let graph = fixture.graph();
    let first = fixture.add_host(graph, &[], logger(&log, 1));
    fixture.add_host(graph, &[first], logger(&log, 2));
    let executable = fixture.instantiate(graph);
    let gate = fixture.gate(stream);
    fixture.launch_graph(executable, stream).unwrap();
    fixture.launch_graph(executable, stream).unwrap();
    fixture.destroy_executable(executable);
    fixture.destroy_graph(graph);
    assert!(log.lock().unwrap().is_empty());
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2, 1, 2]);
}

#[test]
fn a_panic_of_a_kernel_in_a_node_is_reported_once_and_the_rest_runs() {
    let fixture = Fixture::new();
    let (stream, log) = (fixture.stream(), Log::default());
    let panics = fixture.function(HostFunction::new("panics", &[], |_, _| panic!("in a kernel")));
    let graph = fixture.graph();
    let first = fixture.add(graph, &[], kernel(panics, &[], &[]));
    fixture.add_host(graph, &[first], logger(&log, 1));
    let executable = fixture.instantiate(graph);
    fixture.launch_graph(executable, stream).unwrap();
    let failure = fixture.synchronize(stream).unwrap_err();
    assert_eq!(failure.status, Status::LAUNCH_FAILED);
    assert_eq!(failure.detail.as_deref(), Some(&Detail::Panic("in a kernel".to_owned())));
    fixture.synchronize(stream).unwrap();
    assert_eq!(*log.lock().unwrap(), [1]);
}

#[test]
fn a_fault_in_a_node_loses_the_context_and_nothing_hangs() {
    let fixture = Fixture::new();
    let (stream, event, log) = (fixture.stream(), fixture.event(), Log::default());
    let traps = fixture.function(HostFunction::new("traps", &[], |_, _| KernelFault::trap("a trap").raise()));
    let memory = fixture.allocate(4);
    fixture.fill(stream, memory, 0, 1);
    let graph = fixture.graph();
    let first = fixture.add(graph, &[], kernel(traps, &[], &[]));
    let second = fixture.add_host(graph, &[first], logger(&log, 1));
    fixture.add(graph, &[second], NodeParameters::EventRecord(event.handle()));
    let wait = ValueOperation::Wait { address: memory, value: Value::U32(7), flags: WaitValueFlags::EQUAL };
    fixture.add(graph, &[], NodeParameters::ValueOperations(vec![wait]));
    let executable = fixture.instantiate(graph);
    fixture.launch_graph(executable, stream).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 719);
    assert_eq!(status(fixture.driver.event_synchronize(&fixture.context.into(), event)), 719);
    assert_eq!(status(fixture.launch_graph(executable, stream)), 719);
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn ten_thousand_nodes_run_in_chains_and_side_by_side() {
    let fixture = Fixture::new();
    let (stream, count) = (fixture.stream(), Arc::new(AtomicU64::new(0)));
    let add = |graph, before: &[GraphNodeHandle]| {
        let count = Arc::clone(&count);
        fixture.add_host(graph, before, move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    };
    let (chain, wide) = (fixture.graph(), fixture.graph());
    let mut last = add(chain, &[]);
    for _ in 1..10_000 {
        last = add(chain, &[last]);
    }
    let nodes: Vec<_> = (0..9_999).map(|_| add(wide, &[])).collect();
    add(wide, &nodes);
    for graph in [chain, wide] {
        let executable = fixture.instantiate(graph);
        count.store(0, Ordering::Relaxed);
        fixture.run_graph(executable, stream);
        fixture.run_graph(executable, stream);
        assert_eq!(count.load(Ordering::Relaxed), 20_000);
    }
}

#[test]
fn a_graph_can_be_a_child_of_itself() {
    let fixture = Fixture::new();
    let (stream, log) = (fixture.stream(), Log::default());
    let graph = fixture.graph();
    let first = fixture.add_host(graph, &[], logger(&log, 1));
    fixture.add(graph, &[first], NodeParameters::Child(graph.handle()));
    fixture.add(graph, &[first], NodeParameters::Child(graph.handle()));
    fixture.run_graph(fixture.instantiate(graph), stream);
    assert_eq!(*log.lock().unwrap(), [1; 4]);
}

#[test]
fn one_graph_waits_for_the_record_of_another() {
    let fixture = Fixture::new();
    let (one, two, event, log) = (fixture.stream(), fixture.stream(), fixture.event(), Log::default());
    let (records, waits) = (fixture.graph(), fixture.graph());
    let first = fixture.add_host(records, &[], logger(&log, 1));
    fixture.add(records, &[first], NodeParameters::EventRecord(event.handle()));
    let waited = fixture.add(waits, &[], NodeParameters::EventWait(event.handle()));
    fixture.add_host(waits, &[waited], logger(&log, 2));
    let (records, waits) = (fixture.instantiate(records), fixture.instantiate(waits));
    let gate = fixture.gate(one);
    fixture.launch_graph(records, one).unwrap();
    fixture.launch_graph(waits, two).unwrap();
    assert_eq!(fixture.query(two), 600);
    gate.open();
    fixture.synchronize(two).unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2]);
}

#[test]
fn a_node_that_waits_for_what_comes_after_its_launch_does_not_wait() {
    let fixture = Fixture::new();
    let (stream, event) = (fixture.stream(), fixture.event());
    let graph = fixture.graph();
    let waited = fixture.add(graph, &[], NodeParameters::EventWait(event.handle()));
    fixture.add(graph, &[waited], NodeParameters::EventRecord(event.handle()));
    let executable = fixture.instantiate(graph);
    for _ in 0..3 {
        let gate = fixture.gate(stream);
        fixture.launch_graph(executable, stream).unwrap();
        fixture.record(event, stream);
        fixture.launch_graph(executable, stream).unwrap();
        gate.open();
        fixture.synchronize(stream).unwrap();
    }
}

#[test]
fn many_executables_run_in_many_streams_from_many_threads() {
    let fixture = Fixture::with(anabranch_host::HostOptions { queue_limit: 64, ..SMALL });
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let streams = [fixture.stream(), fixture.blocking(), Live::PER_THREAD, Live::LEGACY];
                let graph = fixture.graph();
                let add = |before: &[GraphNodeHandle]| {
                    let count = Arc::clone(&count);
                    fixture.add_host(graph, before, move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    })
                };
                let first = add(&[]);
                let middle: Vec<_> = (0..6).map(|_| add(&[first])).collect();
                add(&middle);
                let executable = fixture.instantiate(graph);
                for round in 0..400 {
                    fixture.launch_graph(executable, streams[round % 4]).unwrap();
                }
                fixture.destroy_executable(executable);
                fixture.destroy_graph(graph);
            });
        }
    });
    fixture.synchronize_all().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 4 * 400 * 8);
}

/// A small generator of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn random_graphs_compute_what_their_nodes_do_one_after_the_other() {
    let seeds = [None, Some(1), Some(2)];
    for (seed, options) in (1..=60u64).zip(seeds.into_iter().cycle()) {
        let fixture = Fixture::with(anabranch_host::HostOptions { seed: options, workers: Some(3), ..SMALL });
        let stream = fixture.stream();
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = 1 + numbers.below(60);
        let cells: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let mut expected: Vec<u64> = Vec::new();
        let graph = fixture.graph();
        let mut nodes = Vec::new();
        for index in 0..count {
            let mut before: Vec<usize> =
                (0..numbers.below(4)).filter(|_| index > 0).map(|_| numbers.below(index.max(1))).collect();
            before.sort_unstable();
            before.dedup();
            let mix = |values: &mut dyn Iterator<Item = u64>| {
                values.fold(index as u64 + 1, |sum, value| sum.wrapping_mul(31).wrapping_add(value))
            };
            expected.push(mix(&mut before.iter().map(|&other| expected[other])));
            let handles: Vec<_> = before.iter().map(|&other| nodes[other]).collect();
            let cells = Arc::clone(&cells);
            nodes.push(fixture.add_host(graph, &handles, move || {
                let values = before.iter().map(|&other| cells[other].load(Ordering::SeqCst));
                let sum = values.fold(index as u64 + 1, |sum, value| sum.wrapping_mul(31).wrapping_add(value));
                cells[index].store(sum, Ordering::SeqCst);
            }));
        }
        let executable = fixture.instantiate(graph);
        for _ in 0..10 {
            cells.iter().for_each(|cell| cell.store(0, Ordering::SeqCst));
            fixture.run_graph(executable, stream);
            let found: Vec<u64> = cells.iter().map(|cell| cell.load(Ordering::SeqCst)).collect();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

#[test]
fn a_driver_that_goes_drops_what_its_graphs_hold() {
    for held_up in [false, true] {
        let log = Log::default();
        let fixture = Fixture::new();
        let (stream, event, other) = (fixture.stream(), fixture.event(), fixture.stream());
        let graph = fixture.graph();
        let first = fixture.add_host(graph, &[], logger(&log, 1));
        let waited = fixture.add(graph, &[first], NodeParameters::EventWait(event.handle()));
        let memory = fixture.allocate(4);
        fixture.fill(stream, memory, 0, 1);
        fixture.synchronize(stream).unwrap();
        if held_up {
            let wait = unsafe {
                fixture.driver.stream_wait_value(
                    &fixture.context.into(),
                    other,
                    memory,
                    Value::U32(1),
                    WaitValueFlags::EQUAL,
                )
            };
            wait.unwrap();
            fixture.record(event, other);
        }
        fixture.add_host(graph, &[waited], logger(&log, 2));
        let executable = fixture.instantiate(graph);
        fixture.launch_graph(executable, stream).unwrap();
        fixture.launch_graph(executable, fixture.stream()).unwrap();
        until("the first node has run", || !log.lock().unwrap().is_empty());
        fixture.destroy_executable(executable);
        drop(fixture);
        assert_eq!(Arc::strong_count(&log), 1, "held up: {held_up}");
    }
}
