//! Streams that join captures, and must be joined to the origin.

use super::capture_tools::{Bench, capture, is_made_of, run, shape, usable};
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use anabranch::hal::GraphNodeKind;
use anabranch::{CaptureMode, CaptureStatus, ContextFlags, EventFlags, LaunchConfig, Status, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.event_makes_a_stream_join", "C4", event_makes_a_stream_join),
    Case::new("capture.stream_makes_a_stream_join", "C4", stream_makes_a_stream_join),
    Case::new("capture.buffers_order_forks", "C4", buffers_order_forks),
    Case::new("capture.buffers_make_streams_join", "C4", buffers_make_streams_join),
    Case::new("capture.earlier_buffers_make_no_stream_join", "C4", earlier_buffers_make_no_stream_join),
    Case::new("capture.three_streams_fork_and_join", "C4", three_streams_fork_and_join),
    Case::new("capture.per_thread_stream_joins", "C4", per_thread_stream_joins),
    Case::new("capture.stream_of_another_context_joins", "C4", stream_of_another_context_joins),
    Case::new("capture.unjoined_fork", "C4", unjoined_fork),
    Case::new("capture.unjoined_fork_of_a_fork", "C4", unjoined_fork_of_a_fork),
    Case::new("capture.unjoined_at_the_third_fork", "C4", unjoined_at_the_third_fork),
    Case::new("capture.unjoined_fork_was_dropped", "C4", unjoined_fork_was_dropped),
    Case::new("capture.unjoined_before_any_node", "C4", unjoined_before_any_node),
    Case::new("capture.fork_goes_on_after_its_join", "C4", fork_goes_on_after_its_join),
    Case::new("capture.deepest_fork_joins_all", "C4", deepest_fork_joins_all),
    Case::new("capture.fork_without_nodes", "C4", fork_without_nodes),
    Case::new("capture.joined_twice", "C4", joined_twice),
    Case::new("capture.fork_and_join_again_and_again", "C4", fork_and_join_again_and_again),
];

fn event_makes_a_stream_join(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.other.wait_event(&bench.captured)?;
    equal("the status of the other", bench.other.capture_status()?, CaptureStatus::Active)?;
    bench.put(&bench.other)?;
    bench.follow(&bench.origin, &bench.other)?;
    let graph = bench.ends_well("a fork and a join")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])
}

fn stream_makes_a_stream_join(environment: &Environment) -> Verdict {
    let (origin, fork, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let graph = capture(&origin, CaptureMode::Global, || {
        trace.append(&origin, 1)?;
        fork.wait_stream(&origin)?;
        equal("the status of the fork", fork.capture_status()?, CaptureStatus::Active)?;
        trace.append(&fork, 2)?;
        origin.wait_stream(&fork)?;
        trace.append(&origin, 3)
    })?;
    equal("the status of the fork", fork.capture_status()?, CaptureStatus::None)?;
    equal("nodes, roots and edges", shape(&graph)?, [3, 1, 3])?;
    run(&graph, &fork)?;
    equal("the order", trace.read()?, 123)?;
    usable(environment, &[&origin, &fork])
}

/// Uses of one buffer in several streams of a capture are ordered.
fn buffers_order_forks(environment: &Environment) -> Verdict {
    let (origin, fork) = (environment.stream()?, environment.stream()?);
    let (mut word, add) = (origin.allocate_zeroed::<u32>(1)?, environment.kernel("add")?);
    let graph = origin.capture(CaptureMode::Global, |scope| {
        scope.fork(&fork)?;
        for (stream, digit) in [(scope.stream(), 1u32), (&fork, 2), (scope.stream(), 3), (&fork, 4)] {
            // SAFETY: `add` accesses only the number that its first argument points to.
            unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), (&mut word, 10u32, digit)) }?;
        }
        scope.join(&fork)
    })?;
    equal("nodes and roots", shape(&graph)?[..2].to_vec(), vec![4, 1])?;
    run(&graph, &origin)?;
    equal("the order", origin.download(&word)?, vec![1234])?;
    usable(environment, &[&origin, &fork])
}

/// A buffer that captured work uses belongs to the capture. The library makes other streams that use it wait, as
/// always, and so these streams join the capture.
fn buffers_make_streams_join(environment: &Environment) -> Verdict {
    let (origin, fork) = (environment.stream()?, environment.stream()?);
    let (mut word, add) = (origin.allocate_zeroed::<u32>(1)?, environment.kernel("add")?);
    let graph = origin.capture(CaptureMode::Relaxed, |scope| {
        for (stream, digit) in [(scope.stream(), 1u32), (&fork, 2), (scope.stream(), 3)] {
            // SAFETY: `add` accesses only the number that its first argument points to.
            unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), (&mut word, 10u32, digit)) }?;
        }
        Ok(())
    })?;
    equal("the number before the launch", fork.download(&word)?, vec![0])?;
    run(&graph, &origin)?;
    equal("the number after it", fork.download(&word)?, vec![123])?;
    usable(environment, &[&origin, &fork])
}

/// A stream does not join a capture because of a buffer that the capturing stream used only before the capture.
fn earlier_buffers_make_no_stream_join(environment: &Environment) -> Verdict {
    let (origin, other) = (environment.stream()?, environment.stream()?);
    let (mut word, add) = (origin.allocate_zeroed::<u32>(1)?, environment.kernel("add")?);
    let mut captured = origin.allocate_zeroed::<u32>(1)?;
    let graph = origin.capture(CaptureMode::Relaxed, |scope| {
        scope.fill(&mut captured, 4u32)?;
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { other.launch(&add, &LaunchConfig::new(1, 1), (&mut word, 10u32, 2u32)) }
    })?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    equal("the number before the launch", other.download(&word)?, vec![2])?;
    run(&graph, &origin)?;
    equal("both numbers after it", (other.download(&word)?, other.download(&captured)?), (vec![2], vec![4]))?;
    usable(environment, &[&origin, &other])
}

fn three_streams_fork_and_join(environment: &Environment) -> Verdict {
    let streams = [environment.stream()?, environment.stream()?, environment.stream()?];
    let traces = [Trace::new(environment)?, Trace::new(environment)?, Trace::new(environment)?];
    let [origin, left, right] = &streams;
    let graph = origin.capture(CaptureMode::Global, |scope| {
        let put = |trace: &Trace<'_>, stream: &Stream, digit| {
            // The check of the number of nodes detects failures.
            let _ = trace.append(stream, digit);
        };
        traces.iter().for_each(|trace| put(trace, scope, 1));
        scope.fork(left)?;
        scope.fork(right)?;
        for ((stream, trace), digit) in streams.iter().zip(&traces).zip(2..) {
            put(trace, stream, digit);
            put(trace, stream, digit);
        }
        scope.join(left)?;
        scope.join(right)?;
        traces.iter().for_each(|trace| put(trace, scope, 9));
        Ok(())
    })?;
    equal("nodes, roots and edges", shape(&graph)?, [12, 1, 13])?;
    run(&graph, right)?;
    let found = [traces[0].read()?, traces[1].read()?, traces[2].read()?];
    equal("the orders", found, [1229, 1339, 1449])?;
    usable(environment, &[origin, left, right])
}

fn per_thread_stream_joins(environment: &Environment) -> Verdict {
    let (origin, trace) = (environment.stream()?, Trace::new(environment)?);
    let fork = environment.context().per_thread_stream()?;
    let graph = capture(&origin, CaptureMode::Relaxed, || {
        trace.append(&origin, 1)?;
        fork.wait_stream(&origin)?;
        trace.append(&fork, 2)?;
        Ok(origin.wait_stream(&fork)?)
    })?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
    run(&graph, &origin)?;
    equal("the order", trace.read()?, 12)?;
    usable(environment, &[&origin, &fork])
}

fn stream_of_another_context_joins(environment: &Environment) -> Verdict {
    let context = environment.device().create_context(ContextFlags::empty())?;
    let (fork, mut word) = {
        let stream = context.create_stream()?;
        let word = stream.allocate_zeroed::<u32>(1)?;
        stream.synchronize()?;
        (stream, word)
    };
    let joined = context.create_event_with_flags(EventFlags::DISABLE_TIMING)?;
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    fork.wait_event(&bench.captured)?;
    equal("its status", fork.capture_status()?, CaptureStatus::Active)?;
    fork.fill(&mut word, 5u32)?;
    fork.record(&joined)?;
    bench.origin.wait_event(&joined)?;
    let graph = bench.ends_well("a stream of another context that joins")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
    equal("its status afterwards", fork.capture_status()?, CaptureStatus::None)?;
    run(&graph, &bench.origin)?;
    equal("the word", fork.download(&word)?, vec![5])
}

fn unjoined_fork(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    bench.ends_with("a fork without a join", Status::STREAM_CAPTURE_UNJOINED)
}

/// The first fork is joined before the second fork forks from it.
fn unjoined_fork_of_a_fork(environment: &Environment) -> Verdict {
    let third = environment.stream()?;
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    bench.follow(&bench.origin, &bench.other)?;
    bench.follow(&third, &bench.other)?;
    bench.put(&third)?;
    bench.ends_with("a second fork without a join", Status::STREAM_CAPTURE_UNJOINED)?;
    usable(environment, &[&third])
}

fn unjoined_at_the_third_fork(environment: &Environment) -> Verdict {
    let (third, fourth) = (environment.stream()?, environment.stream()?);
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    bench.fork(&bench.other)?;
    bench.follow(&third, &bench.other)?;
    bench.put(&third)?;
    bench.follow(&fourth, &third)?;
    bench.follow(&bench.origin, &third)?;
    bench.put(&fourth)?;
    bench.ends_with("a third fork without a join", Status::STREAM_CAPTURE_UNJOINED)?;
    usable(environment, &[&third, &fourth])
}

fn unjoined_fork_was_dropped(environment: &Environment) -> Verdict {
    let fork = environment.stream()?;
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&fork)?;
    drop(fork);
    equal("the status", bench.status()?, CaptureStatus::Active)?;
    bench.ends_with("a fork that was dropped", Status::STREAM_CAPTURE_UNJOINED)
}

fn unjoined_before_any_node(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    bench.origin.begin_capture(CaptureMode::Relaxed)?;
    bench.origin.record(&bench.captured)?;
    bench.other.wait_event(&bench.captured)?;
    let info = bench.other.capture_info()?;
    equal("the status of the other", info.status, CaptureStatus::Active)?;
    equal("what it depends on", info.dependencies.len(), 0)?;
    bench.put(&bench.other)?;
    bench.ends_with("a fork without a join", Status::STREAM_CAPTURE_UNJOINED)
}

fn fork_goes_on_after_its_join(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    bench.follow(&bench.origin, &bench.other)?;
    bench.put(&bench.other)?;
    bench.ends_with("a fork that continued", Status::STREAM_CAPTURE_UNJOINED)
}

/// A path must lead from every node to the origin. It does not matter which stream was waited for.
fn deepest_fork_joins_all(environment: &Environment) -> Verdict {
    let third = environment.stream()?;
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    bench.fork(&bench.other)?;
    bench.follow(&third, &bench.other)?;
    bench.put(&third)?;
    bench.follow(&bench.origin, &third)?;
    let graph = bench.ends_well("joining the deepest fork")?;
    equal("nodes, roots and edges", shape(&graph)?, [3, 1, 2])?;
    usable(environment, &[&third])
}

fn fork_without_nodes(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.other.wait_event(&bench.captured)?;
    equal("the status of the other", bench.other.capture_status()?, CaptureStatus::Active)?;
    let graph = bench.ends_well("a fork without nodes")?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    is_made_of(&graph, &[GraphNodeKind::KERNEL])
}

fn joined_twice(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    for _ in 0..3 {
        bench.follow(&bench.origin, &bench.other)?;
    }
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("joining again and again")?;
    equal("nodes, roots and edges", shape(&graph)?[..2].to_vec(), vec![3, 1])?;
    run(&graph, &bench.origin)
}

fn fork_and_join_again_and_again(environment: &Environment) -> Verdict {
    let (origin, fork, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let mut expected = 0u32;
    let graph = capture(&origin, CaptureMode::ThreadLocal, || {
        for value in 0..100 {
            let (stream, waiting) = if value % 2 == 0 { (&origin, &fork) } else { (&fork, &origin) };
            trace.multiply_add(stream, 3, value)?;
            waiting.wait_stream(stream)?;
            expected = expected.wrapping_mul(3).wrapping_add(value);
        }
        Ok(())
    })?;
    equal("nodes, roots and edges", shape(&graph)?, [100, 1, 197])?;
    run(&graph, &origin)?;
    equal("the order", trace.read()?, expected)?;
    usable(environment, &[&origin, &fork])
}
