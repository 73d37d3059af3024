//! What safe code cannot do with launches of graphs, on the host device. The numbers are those of docs/safety.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, ExecutableGraph, Instance, Signal, Status, Stream, StreamFlags, WaitCondition,
    flush_deferred_drops,
};
use common::{checked_host, hold};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A graph that waits for a signal, uses memory that its launch leaves allocated, and counts its runs.
struct Held {
    executable: ExecutableGraph,
    go: Signal,
    runs: Arc<AtomicUsize>,
    memory: Buffer<u32>,
}

impl Held {
    fn capture(context: &Context) -> Self {
        let stream = context.create_stream().unwrap();
        let (go, runs, mut memory) = (context.create_signal().unwrap(), Arc::<AtomicUsize>::default(), None);
        let count = runs.clone();
        let executable = stream.capture_executable(CaptureMode::Relaxed, |scope| {
            let mut allocated = scope.allocate_zeroed::<u32>(40)?;
            scope.wait_signal(&go, WaitCondition::Equal, 1)?;
            scope.fill(&mut allocated, 7u32)?;
            memory = Some(allocated);
            scope.launch_repeatable_host_func(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        });
        Self { executable: executable.unwrap(), go, runs, memory: memory.unwrap() }
    }

    /// Drops what was captured, and then lets it run in the stream in which it was launched.
    fn outlives_its_executable(self, context: &Context, launched: &Stream) {
        let Self { executable, go, runs, memory } = self;
        drop((executable, memory));
        flush_deferred_drops();
        go.set(1);
        launched.synchronize().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        context.synchronize().unwrap();
        assert_eq!(context.device().memory_report().unwrap().findings, []);
    }
}

#[test]
fn safety_116_a_launch_that_is_refused_is_not_the_last_one() {
    let context = checked_host();
    let [launched, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let held = Held::capture(&context);
    held.executable.launch(&launched).unwrap();
    // Its memory is not freed.
    assert_eq!(held.executable.launch(&other).unwrap_err().status(), Status::INVALID_VALUE);
    held.outlives_its_executable(&context, &launched);
}

#[test]
fn safety_116_a_launch_that_is_refused_beside_a_capture_is_not_the_last_one() {
    let context = checked_host();
    let (launched, legacy) = (context.create_stream().unwrap(), context.legacy_stream().unwrap());
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let runs = Arc::<AtomicUsize>::default();
    let count = runs.clone();
    let executable = launched.capture_executable(CaptureMode::Relaxed, |scope| {
        scope.launch_repeatable_host_func(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    });
    let executable = executable.unwrap();
    let go = hold(&context, &launched);
    executable.launch(&launched).unwrap();
    blocking.begin_capture(CaptureMode::Relaxed).unwrap();
    assert_eq!(executable.launch(&legacy).unwrap_err().status(), Status::STREAM_CAPTURE_IMPLICIT);
    drop(blocking.end_capture());
    drop(executable);
    flush_deferred_drops();
    go.set(1);
    launched.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn safety_116_a_launch_that_is_refused_is_not_told_the_panics_of_others() {
    let context = checked_host();
    let [launched, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let mut memory = None;
    let executable = other.capture_executable(CaptureMode::Relaxed, |scope| {
        memory = Some(scope.allocate_zeroed::<u32>(40)?);
        scope.launch_repeatable_host_func(|| panic!("of the launch that was queued"))
    });
    let executable = executable.unwrap();
    let go = hold(&context, &launched);
    executable.launch(&launched).unwrap();
    executable.launch(&other).unwrap_err();
    other.synchronize().unwrap();
    go.set(1);
    assert_eq!(launched.synchronize().unwrap_err().status(), Status::LAUNCH_FAILED);
    other.synchronize().unwrap();
    context.synchronize().unwrap();
}

/// With every order of work that has none.
#[test]
fn safety_117_the_next_executable_graph_comes_behind_the_free_of_what_the_last_one_has_left() {
    for seed in 0..200 {
        let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).host_seed(seed);
        let context = instance.build().unwrap().device("host").unwrap().context().unwrap();
        let [first, second] = [(); 2].map(|()| context.create_stream().unwrap());
        let mut memory = None;
        let graph = first.capture(CaptureMode::Relaxed, |scope| {
            let mut allocated = scope.allocate_zeroed::<u32>(40)?;
            scope.fill(&mut allocated, 7u32)?;
            memory = Some(allocated);
            Ok(())
        });
        let graph = graph.unwrap();
        let executable = graph.instantiate().unwrap();
        executable.launch(&first).unwrap();
        drop(executable);
        if seed % 2 == 0 {
            drop(first);
        }
        graph.instantiate().unwrap().launch(&second).unwrap();
        second.synchronize().unwrap();
        drop((graph, memory));
        context.synchronize().unwrap();
        assert_eq!(context.device().memory_report().unwrap().findings, [], "seed {seed}");
    }
}
