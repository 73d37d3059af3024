//! Graph launches: in which streams, and in which order.

use super::graph_tools::{chain, digit, graph_of, launch, note, word};
use super::order_tools::{Log, comes_first, comes_second};
use super::order_trace::{Trace, settle};
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{ContextFlags, NodeWork, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.launched_into_every_stream", "G2", launched_into_every_stream),
    Case::new("graph.launch_follows_its_stream", "G2", launch_follows_its_stream),
    Case::new("graph.launch_is_followed", "G2", launch_is_followed),
    Case::new("graph.launches_follow_each_other", "G2", launches_follow_each_other),
    Case::new("graph.launches_follow_across_three_streams", "G2", launches_follow_across_three_streams),
    Case::new("graph.executables_do_not_wait_for_each_other", "G2", executables_do_not_wait_for_each_other),
    Case::new("graph.many_launches_in_flight", "G2", many_launches_in_flight),
    Case::new("graph.launch_between_work_of_its_stream", "G2", launch_between_work_of_its_stream),
    Case::new("graph.legacy_launch_waits_for_blocking_streams", "D1", legacy_launch_waits_for_blocking_streams),
    Case::new("graph.blocking_streams_wait_for_a_legacy_launch", "D1", blocking_streams_wait_for_a_legacy_launch),
    Case::new("graph.legacy_launch_and_a_non_blocking_stream", "D2", legacy_launch_and_a_non_blocking_stream),
    Case::new("graph.buffers_of_a_launch_wait_for_their_writers", "G2", buffers_of_a_launch_wait_for_their_writers),
    Case::new("graph.later_uses_of_buffers_wait_for_the_launch", "G2", later_uses_of_buffers_wait_for_the_launch),
    Case::new("graph.event_behind_a_launch", "G2", event_behind_a_launch),
];

fn launched_into_every_stream(environment: &Environment) -> Verdict {
    let context = environment.context();
    let other = environment.device().create_context(ContextFlags::empty())?;
    let streams = [
        environment.stream()?,
        environment.blocking_stream()?,
        context.legacy_stream()?,
        context.per_thread_stream()?,
        other.create_stream()?,
    ];
    let log = Log::default();
    let executable = graph_of(environment, note(&log, 1))?.instantiate()?;
    for stream in &streams {
        launch(&executable, stream)?;
    }
    equal("how often it ran", log.numbers().len(), streams.len())?;
    let trace = Trace::new(environment)?;
    let kernel = graph_of(environment, trace.node(1)?)?.instantiate()?;
    for stream in &streams {
        launch(&kernel, stream)?;
    }
    equal("the kernels", trace.read()?, 11_111)
}

fn launch_follows_its_stream(environment: &Environment) -> Verdict {
    let (stream, idle, log) = (environment.stream()?, environment.stream()?, Log::default());
    let executable = graph_of(environment, note(&log, 1))?.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    equal("querying the stream", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1])
}

fn launch_is_followed(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [note(&log, 2), note(&log, 3)])?;
    let executable = graph.instantiate()?;
    log.push_in(&stream, 1)?;
    executable.launch(&stream)?;
    log.push_in(&stream, 4)?;
    executable.launch(&stream)?;
    log.push_in(&stream, 5)?;
    stream.synchronize()?;
    equal("the order", log.numbers(), vec![1, 2, 3, 4, 2, 3, 5])
}

/// The second stream has no other work to wait for.
fn launches_follow_each_other(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let trace = Trace::new(environment)?;
    // Hardware does not serialise launches of graphs that do nothing.
    let other = Trace::new(environment)?;
    let graph = graph_of(environment, other.node(3)?)?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    executable.launch(&first)?;
    executable.launch(&second)?;
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &first, &second)
}

fn launches_follow_across_three_streams(environment: &Environment) -> Verdict {
    let streams = [environment.stream()?, environment.stream()?, environment.stream()?];
    let (log, idle) = (Log::default(), environment.stream()?);
    let executable = graph_of(environment, note(&log, 7))?.instantiate()?;
    let gate = Gate::shut(environment, &streams[0])?;
    for (number, stream) in (1..).zip(&streams) {
        executable.launch(stream)?;
        log.push_in(stream, number)?;
    }
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    streams.iter().try_for_each(Stream::synchronize)?;
    let numbers = log.numbers();
    let launches = |numbers: &[u32]| numbers.iter().filter(|&&number| number == 7).count();
    equal("launches", launches(&numbers), 3)?;
    let (before, _) = numbers.split_at(numbers.iter().position(|&number| number == 3).unwrap_or(0));
    equal("launches before the last stream's own work", launches(before), 3)
}

fn executables_do_not_wait_for_each_other(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let trace = Trace::new(environment)?;
    let graph = graph_of(environment, NodeWork::empty())?;
    let (one, other) = (graph.instantiate()?, graph.instantiate()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    one.launch(&first)?;
    other.launch(&second)?;
    trace.append(&second, 2)?;
    comes_first(&trace, &gate, &first, &second)
}

fn many_launches_in_flight(environment: &Environment) -> Verdict {
    // Few enough that no driver blocks because its queue is full.
    const LAUNCHES: u32 = 100;
    let (stream, mut word) = word(environment)?;
    let other = environment.stream()?;
    let work = super::graph_tools::add(environment, &mut word, 3, 1)?;
    let executable = graph_of(environment, work)?.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    for number in 0..LAUNCHES {
        executable.launch(if number % 5 == 4 { &other } else { &stream })?;
    }
    gate.open();
    let expected = (0..LAUNCHES).fold(0u32, |number, _| number.wrapping_mul(3).wrapping_add(1));
    equal("the number", stream.download(&word)?, vec![expected])?;
    Ok(other.synchronize()?)
}

fn launch_between_work_of_its_stream(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let trace = Trace::new(environment)?;
    let executable = graph_of(environment, trace.node(5)?)?.instantiate()?;
    for number in 1..=3 {
        trace.append(&stream, number)?;
        executable.launch(&stream)?;
    }
    trace.append(&stream, 4)?;
    stream.synchronize()?;
    equal("the order", trace.read()?, 1_525_354)
}

fn legacy_launch_waits_for_blocking_streams(environment: &Environment) -> Verdict {
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    let trace = Trace::new(environment)?;
    let executable = graph_of(environment, trace.node(2)?)?.instantiate()?;
    let gate = Gate::shut(environment, &blocking)?;
    trace.append(&blocking, 1)?;
    executable.launch(&legacy)?;
    comes_second(&trace, &gate, &blocking, &legacy)
}

fn blocking_streams_wait_for_a_legacy_launch(environment: &Environment) -> Verdict {
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    let trace = Trace::new(environment)?;
    let executable = graph_of(environment, trace.node(1)?)?.instantiate()?;
    let gate = Gate::shut(environment, &legacy)?;
    executable.launch(&legacy)?;
    trace.append(&blocking, 2)?;
    comes_second(&trace, &gate, &legacy, &blocking)
}

fn legacy_launch_and_a_non_blocking_stream(environment: &Environment) -> Verdict {
    let (free, legacy) = (environment.stream()?, environment.context().legacy_stream()?);
    let trace = Trace::new(environment)?;
    let executable = graph_of(environment, trace.node(1)?)?.instantiate()?;
    let gate = Gate::shut(environment, &legacy)?;
    executable.launch(&legacy)?;
    trace.append(&free, 2)?;
    comes_first(&trace, &gate, &legacy, &free)
}

fn buffers_of_a_launch_wait_for_their_writers(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let other = environment.stream()?;
    let executable = graph_of(environment, digit(environment, &mut word, 2)?)?.instantiate()?;
    let gate = Gate::shut(environment, &other)?;
    other.fill(&mut word, 1)?;
    executable.launch(&stream)?;
    equal("querying the launch's stream while the gate is shut", stream.query()?, false)?;
    gate.open();
    equal("the number", stream.download(&word)?, vec![12])?;
    Ok(other.synchronize()?)
}

fn later_uses_of_buffers_wait_for_the_launch(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let other = environment.stream()?;
    let mut seen = environment.context().allocate_pinned::<u32>(1)?;
    let executable = graph_of(environment, digit(environment, &mut word, 2)?)?.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    other.copy(&mut seen, &word)?;
    equal("querying the reader's stream while the gate is shut", other.query()?, false)?;
    gate.open();
    other.synchronize()?;
    equal("what was read", seen.as_slice()?.to_vec(), vec![2])?;
    Ok(stream.synchronize()?)
}

fn event_behind_a_launch(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let executable = graph_of(environment, note(&log, 1))?.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    let event = stream.record_event()?;
    equal("querying it while the gate is shut", event.query()?, false)?;
    gate.open();
    event.synchronize()?;
    equal("what has run", log.numbers(), vec![1])
}
