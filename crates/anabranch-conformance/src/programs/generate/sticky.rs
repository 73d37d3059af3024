//! Programs in which a kernel loses the context, followed by calls of all kinds for that context.

use super::super::call::{
    CaptureCall, EventCall, ExecutableCall, GraphCall, MemoryCall, ModuleCall, NodeSpec, StreamCall,
};
use super::super::slots::{ContextSlot, Flags, ModuleSlot, New};
use super::Generator;
use anabranch::hal::{CaptureMode, MemoryPoolAttribute};

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(3, 3);
    prepare(generator);
    for _ in 0..generator.numbers.below(12) {
        let stream = generator.stream();
        generator.work(stream);
    }
    generator.read_contents();
    let stream = generator.created_stream();
    let trap = generator.numbers.chance(1, 2);
    generator.push(ModuleCall::LaunchFault { stream, trap });
    // From here on every answer is certain.
    generator.push(StreamCall::Synchronize { stream });
    let length = generator.calls.len() + 30 + generator.numbers.below(30);
    generator.until(length, step);
}

/// Makes one object of each kind.
fn prepare(generator: &mut Generator) {
    let (graph, executable) = (generator.model.new_graph(), generator.model.new_executable());
    let context = ContextSlot(0);
    generator.push(GraphCall::Create { graph: New(graph), context });
    generator.note_graph(graph, true);
    for _ in 0..2 {
        let work = NodeSpec::Kernel(generator.kernel());
        let node = New(generator.new_node(graph, Some(work.clone())));
        generator.push(GraphCall::AddNode { node, dependencies: vec![], work });
    }
    generator.push(ExecutableCall::Instantiate { graph, executable: New(executable), flags: Flags(0), upload: None });
    generator.model.executables.push((executable, graph));
    let pool = generator.model.new_pool();
    generator.push(MemoryCall::PoolCreate { pool: New(pool), max_bytes: 0 });
    generator.model.pools.push(pool);
    let bytes = 4096;
    for kind in 0..4 {
        let memory = New(generator.model.new_memory());
        let stream = generator.created_stream();
        generator.push(match kind {
            0 => MemoryCall::Allocate { memory, context, bytes },
            1 => MemoryCall::AllocatePinned { memory, context, bytes, flags: Flags(0) },
            2 => MemoryCall::AllocateManaged { memory, context, bytes },
            _ => MemoryCall::AllocateAsync { memory, stream, bytes, pool: None },
        });
        generator.model.memory.push(memory.0);
    }
    let function = generator.model.new_function();
    generator.push(ModuleCall::Function { function: New(function), module: Some(ModuleSlot(0)), name: "count_up" });
    generator.model.functions.push(function);
    for event in generator.model.events.clone() {
        if generator.numbers.chance(1, 2) {
            let stream = generator.created_stream();
            generator.push(EventCall::Record { event: Some(event.slot), stream, flags: Flags(0) });
        }
    }
}

fn step(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(28) {
        0..=3 => generator.work(stream),
        4 | 5 => generator.odd_work(stream),
        6..=8 => generator.ask_stream(stream),
        9..=11 => generator.ask_event(),
        12..=14 => generator.ask_context(),
        15 => generator.push(StreamCall::Synchronize { stream }),
        16 => {
            let (context, flags) = (generator.context(), generator.numbers.one_of([0, 1, 2]));
            generator.create_stream(context, flags, 0);
        }
        17 => {
            let (context, flags) = (generator.context(), generator.numbers.one_of([0, 2, 4]));
            generator.create_event(context, flags);
        }
        18 => {
            let event = Some(generator.event());
            generator.push(EventCall::Record { event, stream, flags: Flags(0) });
        }
        19 => {
            let event = Some(generator.event());
            generator.push(StreamCall::WaitEvent { stream, event, flags: Flags(0) });
        }
        20 => capture(generator),
        21 | 22 => graph(generator),
        23 | 24 => executable(generator),
        25 => kernel(generator),
        26 => memory(generator),
        _ => destroy(generator),
    }
}

fn capture(generator: &mut Generator) {
    let stream = generator.stream();
    let call = match generator.numbers.below(5) {
        0 => CaptureCall::Begin { stream, mode: CaptureMode::Relaxed, graph: New(generator.model.new_graph()) },
        1 => CaptureCall::End { stream },
        2 => CaptureCall::Status { stream },
        3 => CaptureCall::Info { stream, edge_data: true, first: 0 },
        _ => CaptureCall::ExchangeMode { mode: CaptureMode::ThreadLocal },
    };
    generator.push(call);
}

fn graph(generator: &mut Generator) {
    let graph = super::graphs::graph(generator);
    let node = generator.node_of(graph);
    let call = match (generator.numbers.below(10), node) {
        (0, _) => {
            let (graph, context) = (generator.model.new_graph(), generator.context());
            generator.note_graph(graph, true);
            GraphCall::Create { graph: New(graph), context }
        }
        (1, _) => GraphCall::Nodes { graph },
        (2, _) => GraphCall::Edges { graph },
        (3, _) => GraphCall::Clone { graph, clone: New(generator.model.new_graph()) },
        (4, Some(node)) => GraphCall::NodeKind { node },
        (5, Some(node)) => GraphCall::NodeParameters { node },
        (6, Some(node)) => GraphCall::NodeSetParameters { node, parameters: NodeSpec::Kernel(generator.kernel()) },
        (7, Some(node)) => GraphCall::DestroyNode { node },
        (8, _) => GraphCall::MemoryAttribute { attribute: 0 },
        _ => {
            let node = New(generator.new_node(graph, Some(NodeSpec::Empty)));
            GraphCall::AddNode { node, dependencies: vec![], work: NodeSpec::Empty }
        }
    };
    generator.push(call);
}

fn executable(generator: &mut Generator) {
    let graph = super::graphs::graph(generator);
    let (stream, node) = (generator.stream(), generator.node_of(graph));
    let Some((executable, _)) = generator.executable() else { return };
    let call = match (generator.numbers.below(8), node) {
        (0, _) => {
            let executable = New(generator.model.new_executable());
            ExecutableCall::Instantiate { graph, executable, flags: Flags(0), upload: None }
        }
        (1, _) => ExecutableCall::Flags { executable },
        (2, _) => ExecutableCall::Upload { executable, stream },
        (3, _) => ExecutableCall::Update { executable, graph },
        (4, Some(node)) => ExecutableCall::Enabled { executable, node },
        (5, Some(node)) => ExecutableCall::SetEnabled { executable, node, enabled: false },
        _ => ExecutableCall::Launch { executable, stream },
    };
    generator.push(call);
}

fn kernel(generator: &mut Generator) {
    let (module, function) = (Some(ModuleSlot(0)), generator.numbers.pick(&generator.model.functions));
    let call = match generator.numbers.below(6) {
        0 => ModuleCall::Names { module },
        1 => ModuleCall::Global { module, name: "table" },
        2 => ModuleCall::Name { function },
        3 => ModuleCall::Info { function },
        4 => ModuleCall::Occupancy { function, threads: 32, shared: 0 },
        _ => ModuleCall::Function { function: New(generator.model.new_function()), module, name: "nothing" },
    };
    generator.push(call);
}

fn memory(generator: &mut Generator) {
    let pool = generator.model.pools.first().copied();
    let call = match (generator.numbers.below(6), pool) {
        (0, _) => MemoryCall::DefaultPool { device: 0 },
        (1, Some(pool)) => MemoryCall::PoolAttribute { pool, attribute: MemoryPoolAttribute::UsedCurrent },
        (2, Some(pool)) => {
            MemoryCall::PoolSetAttribute { pool, attribute: MemoryPoolAttribute::ReleaseThreshold, value: 1 }
        }
        (3, Some(pool)) => MemoryCall::PoolSetAccess { pool, peer: 0, allowed: true },
        (4, _) => MemoryCall::FreePinned { context: ContextSlot(0), memory: generator.model.memory.get(1).copied() },
        _ => MemoryCall::Free { context: ContextSlot(0), memory: generator.model.memory.first().copied() },
    };
    generator.push(call);
}

fn destroy(generator: &mut Generator) {
    match generator.numbers.below(5) {
        0 if generator.model.streams.len() > 1 => {
            let (stream, _) = generator.model.streams.swap_remove(0);
            generator.push(StreamCall::Destroy { stream });
        }
        1 if generator.model.events.len() > 1 => {
            let event = generator.model.events.swap_remove(0).slot;
            generator.push(EventCall::Destroy { event });
        }
        2 if generator.model.graphs.len() > 1 => {
            let graph = generator.model.graphs.swap_remove(0).slot;
            generator.push(GraphCall::Destroy { graph });
        }
        3 => {
            if let Some((executable, _)) = generator.executable() {
                generator.push(ExecutableCall::Destroy { executable });
            }
        }
        _ => {
            if let Some(pool) = generator.model.pools.pop() {
                generator.push(MemoryCall::PoolDestroy { pool });
            }
        }
    }
}
