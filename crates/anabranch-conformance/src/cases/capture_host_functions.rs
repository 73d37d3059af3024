//! Host functions in captures, and calls that are refused without invalidating the capture.

use super::capture_tools::{Bench, MODES, UNSUPPORTED, answer, capture, is_made_of, run, shape};
use super::graph_tools::is_released;
use super::order_tools::Log;
use super::order_trace::Trace;
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::hal::GraphNodeKind;
use anabranch::{Capabilities, CaptureMode, Status};
use std::sync::Arc;
use std::sync::mpsc::channel;

const BACKGROUND: &[Need] = &[Need::Capability(Capabilities::BACKGROUND_PROGRESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("capture.host_function_that_runs_once", "H1", host_function_that_runs_once),
    Case::new("capture.host_function_at_every_launch", "H1", host_function_at_every_launch),
    Case::new("capture.host_function_is_ordered", "H1", host_function_is_ordered),
    Case::new("capture.host_function_is_retained", "H1", host_function_is_retained),
    Case::new("capture.host_function_may_not_call_the_driver", "H1", may_not_call_the_driver).needs(BACKGROUND),
    Case::new("capture.callback", "H2", callback),
    Case::new("capture.copies_of_borrowed_memory", "X2", copies_of_borrowed_memory),
];

/// The function is refused, because a graph may be launched again. The capture continues.
fn host_function_that_runs_once(environment: &Environment) -> Verdict {
    for mode in MODES {
        let (bench, kept) = (Bench::capturing(environment, mode)?, Arc::new(()));
        let inside = kept.clone();
        refused("launching it", bench.origin.launch_host_func(move || drop(inside)), UNSUPPORTED)?;
        anabranch::flush_deferred_drops();
        equal("the number of references to what it captured", Arc::strong_count(&kept), 1)?;
        bench.put(&bench.origin)?;
        let graph = bench.ends_well("a host function that runs once")?;
        equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
    }
    Ok(())
}

fn host_function_at_every_launch(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let inside = log.clone();
    let graph =
        stream.capture(CaptureMode::Global, |scope| scope.launch_repeatable_host_func(move || inside.push(1)))?;
    is_made_of(&graph, &[GraphNodeKind::HOST])?;
    equal("what ran before the launch", log.numbers(), vec![])?;
    let executable = graph.instantiate()?;
    drop(graph);
    for _ in 0..10 {
        executable.launch(&stream)?;
    }
    stream.synchronize()?;
    equal("what ran", log.numbers(), vec![1; 10])
}

fn host_function_is_ordered(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let graph = capture(&stream, CaptureMode::Relaxed, || {
        for number in 0..50 {
            let inside = log.clone();
            stream.launch_repeatable_host_func(move || inside.push(number))?;
        }
        Ok(())
    })?;
    run(&graph, &stream)?;
    equal("the order", log.numbers(), (0..50).collect())
}

fn host_function_is_retained(environment: &Environment) -> Verdict {
    let (stream, kept) = (environment.stream()?, Arc::new(()));
    let inside = kept.clone();
    let graph = stream.capture(CaptureMode::Global, |scope| {
        scope.launch_repeatable_host_func(move || {
            let _unused = &inside;
        })
    })?;
    let executable = graph.instantiate()?;
    drop(graph);
    executable.launch(&stream)?;
    holds("the executable graph retains what it captured", Arc::strong_count(&kept) > 1)?;
    drop(executable);
    stream.synchronize()?;
    is_released(environment, "the references to what it captured", &kept)
}

fn may_not_call_the_driver(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context().clone());
    let (sender, receiver) = channel();
    let sender = parking_lot::Mutex::new(sender);
    let graph = stream.capture(CaptureMode::Global, |scope| {
        scope.launch_repeatable_host_func(move || {
            let _ = sender.lock().send((answer(context.create_event()), answer(context.synchronize())));
        })
    })?;
    run(&graph, &stream)?;
    equal("the results of the calls", receiver.recv().ok(), Some((Status::NOT_PERMITTED, Status::NOT_PERMITTED)))
}

fn callback(environment: &Environment) -> Verdict {
    for mode in MODES {
        let (bench, log) = (Bench::capturing(environment, mode)?, Log::default());
        let inside = log.clone();
        refused("adding it", bench.origin.add_callback(move |_, _| inside.push(1)), UNSUPPORTED)?;
        bench.is_invalidated("adding a callback")?;
        equal("what has run", log.numbers(), vec![])?;
    }
    Ok(())
}

/// The copies are refused, because a graph would use the memory after the borrow has ended.
fn copies_of_borrowed_memory(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let mut words = stream.upload(&[1u32, 2])?;
    for mode in MODES {
        let mut answers = Vec::new();
        let graph = stream.capture(mode, |scope| {
            answers.push(answer(scope.upload(&[3u32])));
            answers.push(answer(scope.copy_from_host(&mut words, &[4, 5])));
            answers.push(answer(scope.copy_to_host(&mut [0; 2], &words)));
            answers.push(answer(scope.download(&words)));
            answers.push(answer(scope.sync_scope(|_| Ok(()))));
            scope.fill(&mut words, 6u32)
        })?;
        equal("the results of the calls", answers, vec![UNSUPPORTED; 5])?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
        trace.append(&stream, 1)?;
        equal("the words", stream.download(&words)?, vec![1, 2])?;
    }
    Ok(())
}
