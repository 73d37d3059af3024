//! Programs about captures, and about every other call while streams capture.

use super::super::HostThread;
use super::super::call::{CaptureCall, EventCall, ExecutableCall, GraphCall, NodeSpec, StreamCall};
use super::super::slots::{ContextSlot, DependencySlot, EdgeSpec, Flags, GraphSlot, New, NodeSlot, StreamSlot};
use super::model::ModelCapture;
use super::{Generator, devices, nodes};
use anabranch::hal::{CaptureMode, DependencyUpdate};

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(5, 4);
    run(generator);
}

/// Calls that capture and launch, over the streams and events that there are.
pub(super) fn run(generator: &mut Generator) {
    // Of the programs that do nothing wrong, captures become long.
    let wild = generator.numbers.one_of([0, 1, 2, 8]);
    let length = 60 + generator.numbers.below(60);
    generator.until(length, |generator| {
        let active: Vec<usize> =
            (0..generator.model.captures.len()).filter(|&index| generator.model.captures[index].is_active).collect();
        if generator.has_two_devices && generator.numbers.chance(1, 10) {
            if devices::capture_step(generator) {
                active.iter().for_each(|&capture| generator.model.captures[capture].is_suspect = true);
            }
            return;
        }
        match generator.numbers.pick(&active) {
            Some(capture) if generator.numbers.chance(wild, 32) => {
                anything(generator);
                generator.model.captures[capture].is_suspect = true;
            }
            Some(capture) => inside(generator, capture),
            None => outside(generator),
        }
    });
}

fn mode(generator: &mut Generator) -> CaptureMode {
    generator.numbers.one_of([CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed])
}

fn thread(generator: &mut Generator) -> HostThread {
    if generator.numbers.chance(1, 8) { HostThread::Second } else { HostThread::First }
}

/// A call while nothing captures.
fn outside(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(16) {
        0..=7 => begin(generator),
        8 => begin_to_graph(generator),
        9 => generator.work(stream),
        10 => generator.ask_stream(stream),
        11 | 12 => launch(generator),
        13 => record(generator, stream),
        14 => {
            let graphs: Vec<GraphSlot> = usable(generator);
            if let (Some((executable, _)), Some(graph)) = (generator.executable(), generator.numbers.pick(&graphs)) {
                generator.push(ExecutableCall::Update { executable, graph });
            }
        }
        _ => anything(generator),
    }
}

fn usable(generator: &Generator) -> Vec<GraphSlot> {
    generator.model.graphs.iter().filter(|graph| graph.is_usable).map(|graph| graph.slot).collect()
}

fn begin(generator: &mut Generator) {
    let (stream, mode, thread) = (generator.created_stream(), mode(generator), thread(generator));
    let stream = if generator.numbers.chance(1, 16) { generator.stream() } else { stream };
    let graph = generator.model.new_graph();
    generator.push_on(thread, CaptureCall::Begin { stream, mode, graph: New(graph) });
    if stream.0 >= 6 || stream.is_per_thread() {
        generator.note_graph(graph, false);
        begun(generator, stream, thread, graph);
    }
}

fn begun(generator: &mut Generator, origin: StreamSlot, thread: HostThread, graph: GraphSlot) {
    let capture = ModelCapture { origin, thread, graph, members: vec![origin], is_active: true, is_suspect: false };
    generator.model.captures.push(capture);
}

fn begin_to_graph(generator: &mut Generator) {
    let graphs = usable(generator);
    let graph = match generator.numbers.pick(&graphs) {
        Some(graph) if generator.numbers.chance(3, 4) => graph,
        _ => create_graph(generator),
    };
    let (stream, mode, thread) = (generator.created_stream(), mode(generator), thread(generator));
    let dependencies = dependencies(generator, graph);
    generator.push_on(thread, CaptureCall::BeginToGraph { stream, graph, dependencies, mode });
    if let Some(graph) = generator.model.graph(graph) {
        graph.is_usable = false;
    }
    begun(generator, stream, thread, graph);
}

/// A new graph, or the body of a conditional node of one.
fn create_graph(generator: &mut Generator) -> GraphSlot {
    let (graph, context) = (generator.model.new_graph(), generator.context());
    generator.push(GraphCall::Create { graph: New(graph), context });
    generator.note_graph(graph, true);
    // All kernels in a conditional node must be of one context.
    if generator.has_two_devices || generator.numbers.chance(2, 3) {
        return graph;
    }
    let work = nodes::conditional(generator, graph, false);
    let NodeSpec::Conditional { first: New(body), .. } = work else { return graph };
    let node = New(generator.new_node(graph, Some(work.clone())));
    generator.push(GraphCall::AddNode { node, dependencies: vec![], work });
    generator.note_graph(body, true);
    body
}

/// Some nodes of a graph, without repetition, mostly.
fn dependencies(generator: &mut Generator, graph: GraphSlot) -> Vec<DependencySlot> {
    let count = generator.numbers.one_of([0, 1, 1, 1, 2, 3]);
    let mut nodes: Vec<NodeSlot> = (0..count).filter_map(|_| generator.node_of(graph)).collect();
    if generator.numbers.chance(15, 16) {
        nodes.sort_unstable();
        nodes.dedup();
    }
    let with_data = |node| {
        let data = if generator.numbers.chance(1, 24) {
            EdgeSpec(
                generator.numbers.below(3) as u8,
                generator.numbers.below(2) as u8,
                generator.numbers.below(3) as u8,
            )
        } else {
            EdgeSpec::default()
        };
        DependencySlot { node, data }
    };
    nodes.into_iter().map(with_data).collect()
}

/// A call while a capture is active, for one of its streams.
fn inside(generator: &mut Generator, index: usize) {
    let capture = generator.model.captures[index].clone();
    let member = generator.numbers.pick(&capture.members).unwrap_or(capture.origin);
    // A capture that was invalidated is looked at for a while, and then ended.
    if capture.is_suspect && generator.numbers.chance(1, 5) {
        return end(generator, index);
    }
    match generator.numbers.below(40) {
        0..=13 => {
            generator.work(member);
            found_node(generator, member, capture.graph);
        }
        14..=18 => fork(generator, index, member),
        19..=22 => join(generator, index, member),
        23..=26 => {
            end(generator, index);
        }
        27 => update(generator, member, capture.graph),
        28 => generator.push(CaptureCall::Status { stream: member }),
        29 => generator.push(CaptureCall::Info { stream: member, edge_data: false, first: 0 }),
        30 => {
            let mode = mode(generator);
            generator.push(CaptureCall::ExchangeMode { mode });
        }
        31 => {
            let stream = generator.stream();
            generator.work(stream);
        }
        32 => {
            let dependencies = dependencies(generator, capture.graph);
            let node = New(generator.new_node(capture.graph, Some(NodeSpec::Empty)));
            generator.push(GraphCall::AddNode { node, dependencies, work: NodeSpec::Empty });
        }
        33 => begin(generator),
        34 => {
            generator.odd_work(member);
            generator.model.captures[index].is_suspect = true;
        }
        35 => {
            let stream = generator.stream();
            generator.ask_stream(stream);
        }
        36 => record(generator, member),
        37 => {
            let event = generator.event();
            let flags = Flags(generator.numbers.one_of([0, 1, 1, 2]));
            generator.push(StreamCall::WaitEvent { stream: member, event: Some(event), flags });
        }
        38 if capture.is_suspect => launch(generator),
        _ => {
            let graph = capture.graph;
            let call = match generator.numbers.below(3) {
                0 => GraphCall::Nodes { graph },
                1 => GraphCall::Edges { graph },
                _ => GraphCall::RootNodes { graph },
            };
            generator.push(call);
        }
    }
}

/// Asks which nodes were made, so that they have names.
fn found_node(generator: &mut Generator, stream: StreamSlot, graph: GraphSlot) {
    let first = generator.new_node(graph, Some(NodeSpec::Empty)).index;
    generator.push(CaptureCall::Info { stream, edge_data: true, first });
}

fn record(generator: &mut Generator, stream: StreamSlot) {
    let event = generator.event_for(stream);
    let flags = generator.numbers.one_of([0, 0, 0, 1, 1, 2]);
    generator.push(EventCall::Record { event: Some(event), stream, flags: Flags(flags) });
    let captured = generator.model.capture_of(stream);
    if let Some(event) = generator.model.events.iter_mut().find(|known| known.slot == event && flags == 0) {
        event.captured = captured;
    }
}

/// Makes another stream a member of the capture.
fn fork(generator: &mut Generator, index: usize, member: StreamSlot) {
    let event = generator.event_for(member);
    let stream = if generator.numbers.chance(1, 12) { generator.stream() } else { generator.created_stream() };
    generator.push(EventCall::Record { event: Some(event), stream: member, flags: Flags(0) });
    generator.push(StreamCall::WaitEvent { stream, event: Some(event), flags: Flags(0) });
    generator.push(CaptureCall::Info { stream, edge_data: true, first: 0 });
    if generator.model.capture_of(stream).is_none() && stream.0 >= 6 {
        generator.model.captures[index].members.push(stream);
    }
}

/// Makes the origin depend on a member.
fn join(generator: &mut Generator, index: usize, member: StreamSlot) {
    let (origin, event) = (generator.model.captures[index].origin, generator.event_for(member));
    generator.push(EventCall::Record { event: Some(event), stream: member, flags: Flags(0) });
    generator.push(StreamCall::WaitEvent { stream: origin, event: Some(event), flags: Flags(0) });
}

fn update(generator: &mut Generator, stream: StreamSlot, graph: GraphSlot) {
    let dependencies = dependencies(generator, graph);
    let update = generator.numbers.one_of([DependencyUpdate::Add, DependencyUpdate::Set]);
    generator.push(CaptureCall::Update { stream, dependencies, update });
    generator.push(CaptureCall::Info { stream, edge_data: true, first: 0 });
}

/// Ends a capture, mostly after all its streams were joined, and on the thread on which it began.
fn end(generator: &mut Generator, index: usize) {
    let capture = generator.model.captures[index].clone();
    if generator.numbers.chance(7, 8) {
        for member in capture.members.iter().filter(|member| **member != capture.origin) {
            join(generator, index, *member);
        }
    }
    let stream = if generator.numbers.chance(1, 24) { generator.created_stream() } else { capture.origin };
    let thread = if generator.numbers.chance(1, 16) { thread(generator) } else { capture.thread };
    generator.push_on(thread, CaptureCall::End { stream });
    if stream != capture.origin {
        return;
    }
    generator.model.captures[index].is_active = false;
    if let Some(graph) = generator.model.graph(capture.graph) {
        graph.is_usable = true;
    }
    if generator.numbers.chance(3, 4) {
        instantiate_and_launch(generator, capture.graph);
    }
}

fn instantiate_and_launch(generator: &mut Generator, graph: GraphSlot) {
    let executable = generator.model.new_executable();
    let flags = Flags(generator.numbers.one_of([0, 0, 0, 0, 1, 2, 3, 8, 9, 0x10, 0x8000_0000]));
    let upload = if generator.numbers.chance(1, 4) { Some(generator.stream()) } else { None };
    generator.push(ExecutableCall::Instantiate { graph, executable: New(executable), flags, upload });
    generator.model.executables.push((executable, graph));
    for _ in 0..generator.numbers.below(3) {
        let stream = generator.stream();
        generator.push(ExecutableCall::Launch { executable, stream });
    }
    for context in [0, 1].map(ContextSlot) {
        generator.push(StreamCall::ContextSynchronize { context });
    }
    generator.read_contents();
}

fn launch(generator: &mut Generator) {
    let graphs = usable(generator);
    match (generator.executable(), generator.numbers.pick(&graphs)) {
        (Some((executable, _)), _) if generator.numbers.chance(3, 4) => {
            let stream = generator.stream();
            let call = match generator.numbers.below(8) {
                0 => ExecutableCall::Upload { executable, stream },
                1 => ExecutableCall::Flags { executable },
                2 if generator.numbers.chance(1, 2) => ExecutableCall::Destroy { executable },
                _ => ExecutableCall::Launch { executable, stream },
            };
            generator.push(call);
        }
        (_, Some(graph)) => instantiate_and_launch(generator, graph),
        _ => begin(generator),
    }
}

/// A call that may have nothing to do with captures, and may invalidate them.
fn anything(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(16) {
        0..=2 => generator.ask_context(),
        3 | 4 => generator.ask_event(),
        5 => generator.ask_stream(stream),
        6 => generator.push(StreamCall::Synchronize { stream }),
        7 | 8 => generator.odd_work(stream),
        9 => begin(generator),
        10 => {
            let thread = thread(generator);
            generator.push_on(thread, CaptureCall::End { stream });
        }
        11 => {
            let (context, flags) = (generator.context(), generator.numbers.one_of([0, 1]));
            generator.create_stream(context, flags, 0);
        }
        12 if generator.model.streams.len() > 3 => {
            let position = generator.numbers.below(generator.model.streams.len());
            let (stream, _) = generator.model.streams.swap_remove(position);
            generator.push(StreamCall::Destroy { stream });
        }
        13 => {
            let mode = mode(generator);
            generator.push(CaptureCall::ExchangeMode { mode });
        }
        14 => record(generator, stream),
        _ => {
            let event = Some(generator.event());
            let flags = Flags(generator.numbers.one_of([0, 0, 0, 1, 2]));
            generator.push(StreamCall::WaitEvent { stream, event, flags });
        }
    }
}
