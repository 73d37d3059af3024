//! What graphs retain, and when it is released.

use super::graph_tools::{chain, digit, graph_of, is_released, is_retained, launch, note, run, word};
use super::memory_raw::numbers;
use super::order_tools::Log;
use super::order_trace::settle;
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels;
use anabranch::{ExecutableGraph, Graph, NodeWork, Result, flush_deferred_drops};
use std::sync::Arc;

pub(super) const CASES: &[Case] = &[
    Case::new("graph.executable_dropped_in_flight", "G5", executable_dropped_in_flight),
    Case::new("graph.dropped_before_its_launch", "G5", dropped_before_its_launch),
    Case::new("graph.stream_dropped_behind_a_launch", "G5", stream_dropped_behind_a_launch),
    Case::new("graph.dropped_inside_of_a_host_function", "G5", dropped_inside_of_a_host_function),
    Case::new("graph.retains_buffers", "G5", retains_buffers),
    Case::new("graph.retains_modules", "G5", retains_modules),
    Case::new("graph.retains_events_and_signals", "G5", retains_events_and_signals),
    Case::new("graph.retains_what_was_captured", "G5", retains_what_was_captured),
    Case::new("graph.releases_closures", "G5", releases_closures),
    Case::new("graph.releases_closures_unlaunched", "G5", releases_closures_unlaunched),
    Case::new("graph.releases_closures_after_the_last_launch", "G5", releases_closures_after_the_last_launch),
    Case::new("graph.clone_retains_closures", "G5", clone_retains_closures),
    Case::new("graph.child_retains_closures", "G5", child_retains_closures),
    Case::new("graph.update_retains_closures", "G5", update_retains_closures),
];

/// A node that holds a reference to an object.
fn holding(object: &Arc<()>) -> NodeWork<'static> {
    let held = object.clone();
    NodeWork::host_func(move || {
        let _held = &held;
    })
}

fn executable_dropped_in_flight(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [note(&log, 1), note(&log, 2)])?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    drop(executable);
    drop(graph);
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1, 2])
}

fn dropped_before_its_launch(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let graph = graph_of(environment, digit(environment, &mut word, 4)?)?;
    let executable = graph.instantiate()?;
    drop(graph);
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![4])
}

fn stream_dropped_behind_a_launch(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let executable = graph_of(environment, note(&log, 1))?.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    let event = stream.record_event()?;
    drop(stream);
    let other = environment.stream()?;
    executable.launch(&other)?;
    gate.open();
    event.synchronize()?;
    other.synchronize()?;
    equal("what has run", log.numbers(), vec![1, 1])
}

fn dropped_inside_of_a_host_function(environment: &Environment) -> Verdict {
    let (stream, object) = (environment.stream()?, Arc::new(()));
    let graph = graph_of(environment, holding(&object))?;
    let (executable, clone) = (graph.instantiate()?, graph.try_clone()?);
    launch(&executable, &stream)?;
    stream.launch_host_func(move || drop((executable, graph, clone)))?;
    stream.synchronize()?;
    is_released(environment, "the references to it", &object)
}

/// A graph that copies numbers to `result` through memory that is dropped here.
fn by_way_of_dropped_memory(
    environment: &Environment,
    result: &mut anabranch::Buffer<u8>,
) -> anabranch::Result<ExecutableGraph> {
    let (stream, context) = (environment.stream()?, environment.context());
    let source = stream.upload(&numbers(50_000))?;
    let mut plain = context.allocate_zeroed::<u8>(&stream, 50_000)?;
    let mut pinned = context.allocate_pinned::<u8>(50_000)?;
    let mut graph = context.create_graph()?;
    let works =
        [NodeWork::copy(&mut plain, &source)?, NodeWork::copy(&mut pinned, &plain)?, NodeWork::copy(result, &pinned)?];
    chain(&mut graph, works)?;
    graph.instantiate()
}

fn retains_buffers(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut result = stream.allocate_zeroed::<u8>(50_000)?;
    let executable = by_way_of_dropped_memory(environment, &mut result)?;
    environment.context().synchronize()?;
    flush_deferred_drops();
    // These allocations would reuse the memory if it had been released.
    let _others = [stream.upload(&[1u8; 50_000])?, stream.upload(&[2u8; 50_000])?];
    for _ in 0..2 {
        stream.fill(&mut result, 0u8)?;
        launch(&executable, &stream)?;
        equal("what arrived", stream.download(&result)? == numbers(50_000), true)?;
    }
    Ok(())
}

fn retains_modules(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let module = kernels::program().load(environment.context())?;
    let kernel = module.kernel("add")?;
    // SAFETY: `add` accesses only the number that its first argument points to.
    let work = unsafe { NodeWork::kernel(&kernel, &super::graph_tools::one(), (&mut word, 10u32, 6u32)) }?;
    let executable = graph_of(environment, work)?.instantiate()?;
    drop((kernel, module));
    flush_deferred_drops();
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![6])
}

fn retains_events_and_signals(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let (event, signal) = (context.create_event()?, context.create_signal()?);
    let mut graph = context.create_graph()?;
    let works = [
        NodeWork::event_record(&event),
        NodeWork::write_signal(&signal, 2),
        NodeWork::wait_signal(&signal, anabranch::WaitCondition::GreaterOrEqual, 2),
        NodeWork::event_wait(&event),
    ];
    chain(&mut graph, works)?;
    let executable = graph.instantiate()?;
    drop((event, signal, graph));
    context.synchronize()?;
    flush_deferred_drops();
    launch(&executable, &stream)?;
    Ok(launch(&executable, &stream)?)
}

fn retains_what_was_captured(environment: &Environment) -> Verdict {
    let (stream, object) = (environment.stream()?, Arc::new(()));
    let mut result = stream.allocate_zeroed::<u8>(1000)?;
    let (source, held) = (stream.upload(&numbers(1000))?, object.clone());
    let mut between = stream.allocate_zeroed::<u8>(1000)?;
    let graph = stream.capture(anabranch::CaptureMode::Relaxed, |scope| {
        scope.copy(&mut between, &source)?;
        scope.copy(&mut result, &between)?;
        scope.launch_repeatable_host_func(move || {
            let _held = &held;
        })
    })?;
    drop((source, between));
    let executable = graph.instantiate()?;
    drop(graph);
    stream.synchronize()?;
    flush_deferred_drops();
    launch(&executable, &stream)?;
    equal("what arrived", stream.download(&result)?, numbers(1000))?;
    is_retained("the closure is retained", &object)?;
    drop(executable);
    is_released(environment, "the references to it", &object)
}

fn releases_closures(environment: &Environment) -> Verdict {
    let object = Arc::new(());
    let graph = graph_of(environment, holding(&object))?;
    is_retained("the graph retains it", &object)?;
    drop(graph);
    is_released(environment, "the references to it", &object)
}

fn releases_closures_unlaunched(environment: &Environment) -> Verdict {
    let object = Arc::new(());
    let graph = graph_of(environment, holding(&object))?;
    let executable = graph.instantiate()?;
    drop(graph);
    is_retained("the executable graph retains it", &object)?;
    drop(executable);
    is_released(environment, "the references to it", &object)
}

fn releases_closures_after_the_last_launch(environment: &Environment) -> Verdict {
    let (stream, idle, object) = (environment.stream()?, environment.stream()?, Arc::new(()));
    let graph = graph_of(environment, holding(&object))?;
    let executable = graph.instantiate()?;
    drop(graph);
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    drop(executable);
    settle(&idle)?;
    equal("it is retained while the launch is pending", Arc::strong_count(&object) > 1, true)?;
    gate.open();
    stream.synchronize()?;
    is_released(environment, "the references to it", &object)
}

fn clone_retains_closures(environment: &Environment) -> Verdict {
    let (stream, object) = (environment.stream()?, Arc::new(()));
    let graph = graph_of(environment, holding(&object))?;
    let clone = graph.try_clone()?;
    drop(graph);
    is_retained("the clone retains it", &object)?;
    run(&clone, &stream)?;
    drop(clone);
    is_released(environment, "the references to it", &object)
}

fn child_retains_closures(environment: &Environment) -> Verdict {
    let (stream, object) = (environment.stream()?, Arc::new(()));
    let child = graph_of(environment, holding(&object))?;
    let graph = graph_of(environment, NodeWork::child(&child))?;
    drop(child);
    is_retained("the surrounding graph retains it", &object)?;
    let executable = graph.instantiate()?;
    drop(graph);
    launch(&executable, &stream)?;
    is_retained("the executable graph retains it", &object)?;
    drop(executable);
    is_released(environment, "the references to it", &object)
}

fn updated(environment: &Environment, object: &Arc<()>) -> Result<(Graph, ExecutableGraph)> {
    let graph = graph_of(environment, NodeWork::host_func(|| ()))?;
    let executable = graph.instantiate()?;
    let other = graph_of(environment, holding(object))?;
    executable.update(&other)?;
    Ok((graph, executable))
}

fn update_retains_closures(environment: &Environment) -> Verdict {
    let (stream, object) = (environment.stream()?, Arc::new(()));
    let (_graph, executable) = updated(environment, &object)?;
    is_retained("the executable graph retains it", &object)?;
    launch(&executable, &stream)?;
    is_retained("the executable graph retains it after a launch", &object)?;
    drop(executable);
    is_released(environment, "the references to it", &object)
}
