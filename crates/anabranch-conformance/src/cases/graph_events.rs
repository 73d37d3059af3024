//! Nodes that record events and wait for them.

use super::graph_tools::{chain, graph_of, launch, note, word};
use super::order_tools::Log;
use super::order_trace::{Trace, settle};
use crate::case::{Case, Verdict, equal, holds};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::NodeWork;

pub(super) const CASES: &[Case] = &[
    Case::new("graph.event_before_the_launch", "G1", event_before_the_launch),
    Case::new("graph.event_recorded_by_a_launch", "G1", event_recorded_by_a_launch),
    Case::new("graph.event_recorded_in_the_middle", "G1", event_recorded_in_the_middle),
    Case::new("graph.event_awaited_by_another_stream", "G1", event_awaited_by_another_stream),
    Case::new("graph.event_awaited_by_a_launch", "G1", event_awaited_by_a_launch),
    Case::new("graph.event_never_recorded_is_no_wait", "G1", event_never_recorded_is_no_wait),
    Case::new("graph.event_recorded_by_every_launch", "G1", event_recorded_by_every_launch),
    Case::new("graph.events_measure_a_launch", "G1", events_measure_a_launch),
    Case::new("graph.event_between_two_graphs", "G1", event_between_two_graphs),
];

fn event_before_the_launch(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let graph = graph_of(environment, NodeWork::event_record(&event))?;
    let _executable = graph.instantiate()?;
    holds("it is complete as if never recorded", event.query()?)
}

fn event_recorded_by_a_launch(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    let executable = graph_of(environment, NodeWork::event_record(&event))?.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    equal("querying it while the gate is shut", event.query()?, false)?;
    gate.open();
    event.synchronize()?;
    holds("querying it afterwards", event.query()?)?;
    Ok(stream.synchronize()?)
}

/// The event does not wait for later nodes of its graph.
fn event_recorded_in_the_middle(environment: &Environment) -> Verdict {
    let (stream, context, log) = (environment.stream()?, environment.context(), Log::default());
    let event = context.create_event()?;
    let mut graph = context.create_graph()?;
    let gate = Gate::new(environment)?;
    chain(&mut graph, [note(&log, 1), NodeWork::event_record(&event), gate.node(), note(&log, 2)])?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    event.synchronize()?;
    equal("what has run when it is complete", log.numbers(), vec![1])?;
    equal("querying the stream", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1, 2])
}

fn event_awaited_by_another_stream(environment: &Environment) -> Verdict {
    let (stream, other, event) = (environment.stream()?, environment.stream()?, environment.context().create_event()?);
    let (log, idle) = (Log::default(), environment.stream()?);
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [note(&log, 1), NodeWork::event_record(&event)])?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    other.wait_event(&event)?;
    log.push_in(&other, 2)?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    other.synchronize()?;
    equal("what has run", log.numbers(), vec![1, 2])?;
    Ok(stream.synchronize()?)
}

fn event_awaited_by_a_launch(environment: &Environment) -> Verdict {
    let (stream, other, event) = (environment.stream()?, environment.stream()?, environment.context().create_event()?);
    let (log, idle) = (Log::default(), environment.stream()?);
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [NodeWork::event_wait(&event), note(&log, 2)])?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &other)?;
    log.push_in(&other, 1)?;
    other.record(&event)?;
    executable.launch(&stream)?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    stream.synchronize()?;
    equal("what has run", log.numbers(), vec![1, 2])?;
    Ok(other.synchronize()?)
}

fn event_never_recorded_is_no_wait(environment: &Environment) -> Verdict {
    let (stream, log, event) = (environment.stream()?, Log::default(), environment.context().create_event()?);
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [NodeWork::event_wait(&event), note(&log, 1)])?;
    launch(&graph.instantiate()?, &stream)?;
    equal("what has run", log.numbers(), vec![1])
}

fn event_recorded_by_every_launch(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    let executable = graph_of(environment, NodeWork::event_record(&event))?.instantiate()?;
    for _ in 0..3 {
        let gate = Gate::shut(environment, &stream)?;
        executable.launch(&stream)?;
        equal("querying it while the gate is shut", event.query()?, false)?;
        gate.open();
        stream.synchronize()?;
        holds("querying it afterwards", event.query()?)?;
    }
    Ok(())
}

fn events_measure_a_launch(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (start, end) = (environment.context().create_event()?, environment.context().create_event()?);
    let mut graph = environment.context().create_graph()?;
    let between = super::graph_tools::digit(environment, &mut word, 1)?;
    chain(&mut graph, [NodeWork::event_record(&start), between, NodeWork::event_record(&end)])?;
    let executable = graph.instantiate()?;
    launch(&executable, &stream)?;
    launch(&executable, &stream)?;
    holds("no time before the start", end.elapsed_since(&start)? >= 0.0)
}

fn event_between_two_graphs(environment: &Environment) -> Verdict {
    let (first, second, event) = (environment.stream()?, environment.stream()?, environment.context().create_event()?);
    let trace = Trace::new(environment)?;
    let (mut early, mut late) = (environment.context().create_graph()?, environment.context().create_graph()?);
    chain(&mut early, [trace.node(1)?, NodeWork::event_record(&event)])?;
    chain(&mut late, [NodeWork::event_wait(&event), trace.node(2)?])?;
    let (early, late) = (early.instantiate()?, late.instantiate()?);
    let gate = Gate::shut(environment, &first)?;
    early.launch(&first)?;
    late.launch(&second)?;
    trace.is_untouched()?;
    gate.open();
    second.synchronize()?;
    equal("the order", trace.read()?, 12)?;
    Ok(first.synchronize()?)
}
