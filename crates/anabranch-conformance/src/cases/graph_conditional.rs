//! Conditional nodes.

use super::graph_tools::{Refusal, add, chain_by, digit, graph_of, launch, note, run, word};
use super::order_tools::Log;
use crate::case::{Case, Need, Verdict, equal, refused};
use crate::environment::Environment;
use crate::kernels::{SETTERS, setters};
use anabranch::{
    Buffer, Capabilities, CaptureMode, ConditionalKind, Graph, GraphInstantiateResult, InstantiateFlags, Module,
    NodeWork, Result, Status, Stream,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.conditional_if", "G1", conditional_if),
    Case::new("graph.conditional_if_and_else", "G1", conditional_if_and_else),
    Case::new("graph.conditional_switch", "G1", conditional_switch),
    Case::new("graph.conditional_while_never", "G1", conditional_while_never),
    Case::new("graph.conditional_with_an_empty_body", "G1", conditional_with_an_empty_body),
    Case::new("graph.conditional_body_of_every_kind", "G1", conditional_body_of_every_kind),
    Case::new("graph.conditional_body_refused", "G1", conditional_body_refused),
    Case::new("graph.conditional_in_a_conditional", "G1", conditional_in_a_conditional),
    Case::new("graph.conditional_body_is_no_graph_of_its_own", "G6", conditional_body_is_no_graph_of_its_own),
    Case::new("graph.conditional_body_captured", "G1", conditional_body_captured),
    Case::new("graph.conditional_body_in_order", "G1", conditional_body_in_order),
    Case::new("graph.conditional_value_of_a_body", "G1", conditional_value_of_a_body),
    Case::new("graph.conditional_set_by_a_kernel", "G1", conditional_set_by_a_kernel).needs(SETTING),
    Case::new("graph.conditional_while_a_kernel_says_so", "G1", conditional_while_a_kernel_says_so).needs(SETTING),
    Case::new("graph.conditional_value_begins_anew", "G1", conditional_value_begins_anew).needs(SETTING),
    Case::new("graph.conditional_set_by_ptx", "G1", conditional_set_by_ptx)
        .needs(&[Need::ConditionalSetting, Need::Capability(Capabilities::PTX_MODULES)]),
];

const SETTING: &[Need] = &[Need::ConditionalSetting];

/// A graph with one conditional node. Its bodies append 1, 2 and so on, and a node after it appends 9.
fn decided(
    environment: &Environment,
    word: &mut Buffer<u32>,
    default: Option<u32>,
    kind: ConditionalKind,
    bodies: u32,
) -> Result<Graph> {
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(default)?;
    let node = graph.add_conditional((), value, kind, bodies)?;
    for body in 0..bodies {
        graph.body(node, body as usize)?.add((), digit(environment, word, body + 1)?)?;
    }
    graph.add(node, digit(environment, word, 9)?)?;
    Ok(graph)
}

/// Checks that each of two launches appends `expected`.
fn appends(
    environment: &Environment,
    default: Option<u32>,
    kind: ConditionalKind,
    bodies: u32,
    expected: u32,
) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let executable = decided(environment, &mut word, default, kind, bodies)?.instantiate()?;
    let what = format!("{kind:?} of {bodies} with {default:?}");
    launch(&executable, &stream)?;
    equal(&what, stream.download(&word)?, vec![expected])?;
    stream.fill_zero(&mut word)?;
    launch(&executable, &stream)?;
    equal(&format!("{what}, again"), stream.download(&word)?, vec![expected])
}

fn conditional_if(environment: &Environment) -> Verdict {
    for (default, expected) in [(1, 19), (0, 9), (7, 19)] {
        appends(environment, Some(default), ConditionalKind::If, 1, expected)?;
    }
    Ok(())
}

fn conditional_if_and_else(environment: &Environment) -> Verdict {
    appends(environment, Some(1), ConditionalKind::If, 2, 19)?;
    appends(environment, Some(0), ConditionalKind::If, 2, 29)
}

fn conditional_switch(environment: &Environment) -> Verdict {
    appends(environment, Some(1), ConditionalKind::Switch, 3, 29)?;
    appends(environment, Some(5), ConditionalKind::Switch, 3, 9)
}

fn conditional_while_never(environment: &Environment) -> Verdict {
    appends(environment, Some(0), ConditionalKind::While, 1, 9)
}

/// A graph with an `if` node whose body runs.
fn always(environment: &Environment) -> Result<(Graph, anabranch::Node)> {
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(Some(1))?;
    let node = graph.add_conditional((), value, ConditionalKind::If, 1)?;
    Ok((graph, node))
}

fn conditional_with_an_empty_body(environment: &Environment) -> Verdict {
    let (mut graph, node) = always(environment)?;
    equal("nodes of the body", graph.body(node, 0)?.nodes()?.len(), 0)?;
    refused("a second body", graph.body(node, 1), Status::INVALID_VALUE)?;
    Ok(run(&graph, &environment.stream()?)?)
}

fn conditional_body_of_every_kind(environment: &Environment) -> Verdict {
    let (stream, mut number) = word(environment)?;
    let (source, mut copied, mut filled) =
        (stream.upload(&[4u32])?, stream.allocate_zeroed::<u32>(1)?, stream.allocate_zeroed::<u32>(1)?);
    let child = graph_of(environment, digit(environment, &mut number, 2)?)?;
    let (mut graph, node) = always(environment)?;
    let mut body = graph.body(node, 0)?;
    let first = body.add((), digit(environment, &mut number, 1)?)?;
    let second = body.add(first, NodeWork::child(&child))?;
    let third = body.add(second, NodeWork::copy(&mut copied, &source)?)?;
    let fourth = body.add(third, NodeWork::empty())?;
    body.add(fourth, NodeWork::fill(&mut filled, 5u32)?)?;
    run(&graph, &stream)?;
    equal("the kernels", stream.download(&number)?, vec![12])?;
    equal("the copy", stream.download(&copied)?, vec![4])?;
    equal("the fill", stream.download(&filled)?, vec![5])
}

fn conditional_body_refused(environment: &Environment) -> Verdict {
    let context = environment.context();
    let (event, signal) = (context.create_event()?, context.create_signal()?);
    let works = [
        ("a host function", NodeWork::host_func(|| ())),
        ("an event wait", NodeWork::event_wait(&event)),
        ("an event record", NodeWork::event_record(&event)),
        ("a value operation", NodeWork::write_signal(&signal, 1)),
    ];
    let unsupported = GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED;
    for (what, work) in works {
        let (mut graph, node) = always(environment)?;
        graph.body(node, 0)?.add((), work)?;
        refused(what, graph.instantiate(), Status::INVALID_VALUE)?;
        let refusal = Refusal::of(environment, &graph, InstantiateFlags::empty())?;
        equal(what, refusal.result, unsupported)?;
    }
    let (mut graph, node) = always(environment)?;
    let mut body = graph.body(node, 0)?;
    // SAFETY: nothing reads the memory.
    let (allocated, memory): (_, Buffer<u32>) = unsafe { body.add_allocation((), 4) }?;
    // SAFETY: nothing uses the memory.
    unsafe { body.add_free(allocated, memory) }?;
    let refusal = Refusal::of(environment, &graph, InstantiateFlags::empty())?;
    equal("an allocation", (refusal.status, refusal.result), (Status::INVALID_VALUE, unsupported))
}

fn conditional_in_a_conditional(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (mut graph, node) = always(environment)?;
    let mut body = graph.body(node, 0)?;
    let value = body.create_conditional(Some(1))?;
    let first = body.add((), digit(environment, &mut word, 1)?)?;
    let inner = body.add_conditional(first, value, ConditionalKind::Switch, 2)?;
    body.add(inner, digit(environment, &mut word, 3)?)?;
    body.body(inner, 1)?.add((), digit(environment, &mut word, 2)?)?;
    run(&graph, &stream)?;
    equal("the number", stream.download(&word)?, vec![123])
}

fn conditional_body_is_no_graph_of_its_own(environment: &Environment) -> Verdict {
    let (mut graph, node) = always(environment)?;
    let body = graph.body(node, 0)?;
    refused("cloning it", body.try_clone(), Status::NOT_SUPPORTED)?;
    refused("instantiating it", body.instantiate(), Status::NOT_SUPPORTED)
}

fn conditional_body_captured(environment: &Environment) -> Verdict {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
        let (stream, mut word) = word(environment)?;
        let (add, config) = (environment.kernel("add")?, super::graph_tools::one());
        let (mut graph, node) = always(environment)?;
        stream.capture_into(&mut graph.body(node, 0)?, (), mode, |scope| {
            // SAFETY: `add` accesses only the number that its first argument points to.
            unsafe { scope.launch(&add, &config, (&mut word, 10u32, 1u32)) }?;
            // SAFETY: `add` accesses only the number that its first argument points to.
            unsafe { scope.launch(&add, &config, (&mut word, 10u32, 2u32)) }
        })?;
        equal("nodes of the body", graph.body(node, 0)?.nodes()?.len(), 2)?;
        run(&graph, &stream)?;
        equal(&format!("the number with {mode:?}"), stream.download(&word)?, vec![12])?;
    }
    Ok(())
}

fn conditional_body_in_order(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let log = Log::default();
    let mut graph = environment.context().create_graph()?;
    let first = graph.add((), note(&log, 1))?;
    let value = graph.create_conditional(Some(1))?;
    let node = graph.add_conditional(first, value, ConditionalKind::If, 1)?;
    let works = (1..=5).map(|number| digit(environment, &mut word, number)).collect::<Result<Vec<_>>>()?;
    let mut body = graph.body(node, 0)?;
    chain_by(|after, work| body.add(after, work), works)?;
    graph.add(node, note(&log, 2))?;
    run(&graph, &stream)?;
    equal("the body's order", stream.download(&word)?, vec![12_345])?;
    equal("the order around it", log.numbers(), vec![1, 2])
}

/// A conditional value that was created for a body is accepted when the whole graph is instantiated.
fn conditional_value_of_a_body(environment: &Environment) -> Verdict {
    let (mut graph, node) = always(environment)?;
    graph.body(node, 0)?.create_conditional(Some(1))?;
    refused("with a value that no node uses", graph.instantiate(), Status::INVALID_VALUE)?;
    let refusal = Refusal::of(environment, &graph, InstantiateFlags::empty())?;
    equal("the reason", refusal.result, GraphInstantiateResult::CONDITIONAL_HANDLE_UNUSED)
}

fn conditional_set_by_a_kernel(environment: &Environment) -> Verdict {
    chosen_by(environment, &setters().load(environment.context())?)
}

/// The same PTX on every device.
fn conditional_set_by_ptx(environment: &Environment) -> Verdict {
    chosen_by(environment, &Module::load_ptx(environment.context(), SETTERS)?)
}

/// Checks that a kernel chooses the body that runs.
fn chosen_by(environment: &Environment, setters: &Module) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let decide = setters.kernel("decide")?;
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(Some(0))?;
    let arguments = (value.argument(), 2u32);
    // SAFETY: `decide` uses no memory.
    let first = unsafe { graph.add_kernel((), &decide, &super::graph_tools::one(), arguments) }?;
    let node = graph.add_conditional(first, value, ConditionalKind::Switch, 3)?;
    for body in 0..3 {
        graph.body(node, body)?.add((), digit(environment, &mut word, body as u32 + 1)?)?;
    }
    run(&graph, &stream)?;
    equal("the body that ran", stream.download(&word)?, vec![3])
}

/// A loop that runs `left` times, and adds 1 each time.
fn counted_loop(
    environment: &Environment,
    left: &mut Buffer<u32>,
    count: &mut Buffer<u32>,
    default: Option<u32>,
) -> Result<Graph> {
    let count_down = setters().load(environment.context())?.kernel("count_down")?;
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(default)?;
    let node = graph.add_conditional((), value, ConditionalKind::While, 1)?;
    let mut body = graph.body(node, 0)?;
    let first = body.add((), add(environment, count, 1, 1)?)?;
    // SAFETY: `count_down` accesses only the number that its second argument points to.
    unsafe { body.add_kernel(first, &count_down, &super::graph_tools::one(), (value.argument(), left)) }?;
    Ok(graph)
}

fn loops(environment: &Environment, default: Option<u32>) -> Result<(Stream, Buffer<u32>, Buffer<u32>, Graph)> {
    let (stream, mut count) = word(environment)?;
    let mut left = stream.upload(&[5u32])?;
    let graph = counted_loop(environment, &mut left, &mut count, default)?;
    Ok((stream, left, count, graph))
}

fn conditional_while_a_kernel_says_so(environment: &Environment) -> Verdict {
    let (stream, _left, count, graph) = loops(environment, Some(1))?;
    run(&graph, &stream)?;
    equal("how often the body ran", stream.download(&count)?, vec![5])
}

fn conditional_value_begins_anew(environment: &Environment) -> Verdict {
    let (stream, mut left, count, graph) = loops(environment, Some(1))?;
    let executable = graph.instantiate()?;
    for expected in [5, 10, 15] {
        stream.copy_from_host(&mut left, &[5])?;
        launch(&executable, &stream)?;
        equal("how often the body ran", stream.download(&count)?, vec![expected])?;
    }
    Ok(())
}
