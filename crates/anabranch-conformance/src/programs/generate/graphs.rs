//! Programs about graphs that are built node by node, changed and launched.

use super::super::call::{ExecutableCall, GraphCall, KernelSpec, NodeSpec, StreamCall, ValueSpec};
use super::super::slots::{
    ConditionalSlot, ContextSlot, DependencySlot, EdgeSlot, EdgeSpec, Flags, GraphSlot, New, NodeSlot,
};
use super::Generator;
use super::model::ModelGraph;
use anabranch::hal::ConditionalKind;

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(3, 3);
    create(generator);
    // Programs that do little wrong have graphs that can be launched.
    let wild = generator.numbers.one_of([0, 1, 4]);
    let length = 50 + generator.numbers.below(60);
    generator.until(length, |generator| step(generator, wild));
}

fn create(generator: &mut Generator) -> GraphSlot {
    let (graph, context) = (generator.model.new_graph(), generator.context());
    generator.push(GraphCall::Create { graph: New(graph), context });
    note(generator, graph, 0);
    graph
}

fn note(generator: &mut Generator, slot: GraphSlot, nodes: u16) {
    generator.model.graphs.push(ModelGraph { slot, nodes, is_usable: true });
}

fn graph(generator: &mut Generator) -> GraphSlot {
    let known: Vec<GraphSlot> = generator.model.graphs.iter().map(|graph| graph.slot).collect();
    generator.numbers.pick(&known).unwrap_or(GraphSlot(0))
}

fn step(generator: &mut Generator, wild: usize) {
    let graph = graph(generator);
    match generator.numbers.below(40) {
        0..=13 => add_node(generator, graph, wild),
        14 | 15 => edges(generator, graph, wild),
        16 => {
            if let Some(node) = generator.node_of(graph) {
                generator.push(GraphCall::DestroyNode { node });
            }
        }
        17 => {
            let clone = generator.model.new_graph();
            generator.push(GraphCall::Clone { graph, clone: New(clone) });
            for _ in 0..generator.numbers.below(4) {
                let found = generator.node_of(graph).unwrap_or(NodeSlot { graph, index: 0 });
                generator.push(GraphCall::FindInClone { node: found, clone });
            }
            note(generator, clone, 1);
        }
        18..=21 => look(generator, graph),
        22 => set_parameters(generator, graph, wild),
        23..=26 => instantiate(generator, graph, wild),
        27..=35 => executable(generator, graph, wild),
        36 => {
            create(generator);
        }
        37 if generator.model.graphs.len() > 1 => {
            let position = generator.numbers.below(generator.model.graphs.len());
            let graph = generator.model.graphs.swap_remove(position).slot;
            generator.push(GraphCall::Destroy { graph });
        }
        38 => {
            let attribute = generator.numbers.below(4) as u8;
            let call = match generator.numbers.below(4) {
                0 => GraphCall::MemoryTrim {},
                1 => GraphCall::MemoryReset { attribute },
                _ => GraphCall::MemoryAttribute { attribute },
            };
            generator.push(call);
        }
        _ => {
            for context in [0, 1].map(ContextSlot) {
                generator.push(StreamCall::ContextSynchronize { context });
            }
            generator.read_contents();
        }
    }
}

fn edge_data(generator: &mut Generator, wild: usize) -> EdgeSpec {
    if !generator.numbers.chance(wild, 48) {
        return EdgeSpec::default();
    }
    let ports = [0, 0, 1, 2, 255];
    EdgeSpec(generator.numbers.one_of(ports), generator.numbers.one_of([0, 0, 1]), generator.numbers.below(3) as u8)
}

fn add_node(generator: &mut Generator, graph: GraphSlot, wild: usize) {
    let count = generator.numbers.one_of([0, 1, 1, 1, 2, 2]);
    let of = if generator.numbers.chance(wild, 100) { self::graph(generator) } else { graph };
    let mut nodes: Vec<NodeSlot> = (0..count).filter_map(|_| generator.node_of(of)).collect();
    if !generator.numbers.chance(wild, 64) {
        nodes.sort_unstable();
        nodes.dedup();
    }
    let dependencies: Vec<DependencySlot> =
        nodes.into_iter().map(|node| DependencySlot { node, data: edge_data(generator, wild) }).collect();
    let (node, is_right) = node_spec(generator, graph, wild, true);
    let bodies = match &node {
        NodeSpec::Conditional { first: New(first), bodies, .. } => (first.0..first.0 + *bodies as u16).collect(),
        _ => Vec::new(),
    };
    generator.push(GraphCall::AddNode { graph, dependencies, node });
    if is_right {
        if let Some(graph) = generator.model.graph(graph) {
            graph.nodes += 1;
        }
        bodies.into_iter().for_each(|body| note(generator, GraphSlot(body), 0));
    }
}

/// What a node does, and whether that is probably accepted. `is_new` if it is for a node that is added.
fn node_spec(generator: &mut Generator, graph: GraphSlot, wild: usize, is_new: bool) -> (NodeSpec, bool) {
    let is_wrong = generator.numbers.chance(wild, 32);
    let spec = match generator.numbers.below(24) {
        0..=5 => {
            let kernel = generator.kernel();
            NodeSpec::Kernel(KernelSpec { wrong: is_wrong.then(|| generator.wrong()), ..kernel })
        }
        6..=8 => {
            let ((from, to), region) = (generator.ends(), generator.region());
            let rows = generator.numbers.one_of([1, 1, 2]);
            let extent = [generator.numbers.below(17).max(usize::from(!is_wrong)), rows, rows];
            NodeSpec::Copy { from, to, region, extent }
        }
        9 | 10 => NodeSpec::Fill {
            region: generator.region(),
            width: if is_wrong { 8 } else { generator.numbers.one_of([1, 2, 4]) },
            count: 1 + generator.numbers.below(8) as u8,
            rows: generator.numbers.one_of([1, 1, 2]),
            pitch: generator.numbers.one_of([16, 32]),
            odd: is_wrong,
        },
        11 | 12 => NodeSpec::Host(generator.numbers.below(1000) as u32),
        13 => NodeSpec::Child(self::graph(generator)),
        14 => NodeSpec::EventRecord(generator.event()),
        15 => NodeSpec::EventWait(generator.event()),
        16 | 17 if is_new => {
            let memory = generator.model.new_memory();
            let bytes = if is_wrong { 1 << 50 } else { generator.numbers.one_of([1, 512, 4096]) };
            if !is_wrong {
                generator.model.memory.push(memory);
            }
            NodeSpec::Allocate { memory: New(memory), bytes }
        }
        18 => match generator.numbers.pick(&generator.model.memory) {
            Some(memory) => NodeSpec::Free(Some(memory)),
            None if is_wrong => NodeSpec::Free(None),
            None => NodeSpec::Empty,
        },
        19 => {
            let count = generator.numbers.one_of([1, 1, 2, 3]);
            let count = if is_wrong { generator.numbers.one_of([0, 1]) } else { count };
            let operation = |generator: &mut Generator| match generator.numbers.below(3) {
                0 if is_wrong => ValueSpec::WaitOdd,
                0 => ValueSpec::WaitOpen,
                _ => ValueSpec::Write(generator.numbers.below(8) as u8),
            };
            NodeSpec::Values((0..count).map(|_| operation(generator)).collect())
        }
        20 if is_new => return conditional(generator, graph, is_wrong),
        _ => NodeSpec::Empty,
    };
    (spec, !is_wrong)
}

fn conditional(generator: &mut Generator, graph: GraphSlot, is_wrong: bool) -> (NodeSpec, bool) {
    let value = ConditionalSlot(generator.model.new_value());
    let kind = generator.numbers.one_of([ConditionalKind::If, ConditionalKind::While, ConditionalKind::Switch]);
    let default = if kind == ConditionalKind::While { 0 } else { generator.numbers.below(3) as u32 };
    let of = if is_wrong { self::graph(generator) } else { graph };
    generator.push(GraphCall::ConditionalCreate { graph: of, value: New(value), default: Some(default) });
    let bodies = match kind {
        ConditionalKind::While => 1,
        ConditionalKind::If => 1 + u32::from(generator.numbers.chance(1, 2)),
        ConditionalKind::Switch => 1 + generator.numbers.below(3) as u32,
    };
    let bodies = if is_wrong { generator.numbers.one_of([0, 1, 3]) } else { bodies };
    let first = generator.model.new_graph();
    (1..bodies).for_each(|_| {
        generator.model.new_graph();
    });
    (NodeSpec::Conditional { value, kind, bodies, first: New(first) }, !is_wrong)
}

fn edges(generator: &mut Generator, graph: GraphSlot, wild: usize) {
    let count = generator.numbers.one_of([1, 1, 1, 2, 3]);
    let mut edges = Vec::new();
    for _ in 0..count {
        let (Some(mut from), Some(mut to)) = (generator.node_of(graph), generator.node_of(graph)) else { return };
        // Later nodes depend on earlier ones, so that there is no cycle.
        if from.index > to.index && !generator.numbers.chance(wild, 16) {
            std::mem::swap(&mut from, &mut to);
        }
        edges.push(EdgeSlot { from, to, data: edge_data(generator, wild) });
    }
    let call = match generator.numbers.chance(2, 3) {
        true => GraphCall::AddEdges { graph, edges },
        false => GraphCall::RemoveEdges { graph, edges },
    };
    generator.push(call);
}

fn look(generator: &mut Generator, graph: GraphSlot) {
    let node = generator.node_of(graph);
    let call = match (generator.numbers.below(8), node) {
        (0..=2, Some(node)) => GraphCall::NodeParameters { node },
        (3, Some(node)) => GraphCall::NodeKind { node },
        (4, _) => GraphCall::RootNodes { graph },
        (5, _) => GraphCall::Nodes { graph },
        _ => GraphCall::Edges { graph },
    };
    generator.push(call);
}

fn set_parameters(generator: &mut Generator, graph: GraphSlot, wild: usize) {
    if let Some(node) = generator.node_of(graph) {
        let (parameters, _) = node_spec(generator, graph, wild, false);
        generator.push(GraphCall::NodeSetParameters { node, parameters });
    }
}

fn instantiate(generator: &mut Generator, graph: GraphSlot, wild: usize) {
    let executable = generator.model.new_executable();
    let usual = [0, 0, 0, 0, 1, 2, 3, 8];
    let flags = if generator.numbers.chance(wild, 16) {
        generator.numbers.one_of([4, 6, 0x10, 0x8000_0000])
    } else {
        generator.numbers.one_of(usual)
    };
    let upload = if generator.numbers.chance(1, 4) || flags & 2 != 0 { Some(generator.stream()) } else { None };
    let (flags, new) = (Flags(flags), New(executable));
    generator.push(ExecutableCall::Instantiate { graph, executable: new, flags, upload });
    generator.model.executables.push((executable, graph));
    if generator.numbers.chance(3, 4) {
        let stream = generator.stream();
        generator.push(ExecutableCall::Launch { executable, stream });
    }
}

fn executable(generator: &mut Generator, graph: GraphSlot, wild: usize) {
    let executables = generator.model.executables.clone();
    let Some((executable, of)) = generator.numbers.pick(&executables) else {
        return instantiate(generator, graph, wild);
    };
    let other = generator.numbers.chance(wild, 32);
    let node = generator.node_of(if other { graph } else { of });
    let stream = generator.stream();
    let call = match (generator.numbers.below(16), node) {
        (0..=6, _) => ExecutableCall::Launch { executable, stream },
        (7, _) => ExecutableCall::Upload { executable, stream },
        (8, _) => ExecutableCall::Flags { executable },
        (9 | 10, _) => ExecutableCall::Update { executable, graph: if generator.numbers.chance(2, 3) { of } else { graph } },
        (11, Some(node)) => ExecutableCall::SetEnabled { executable, node, enabled: generator.numbers.chance(1, 2) },
        (12, Some(node)) => ExecutableCall::Enabled { executable, node },
        (13 | 14, Some(node)) => {
            let (parameters, _) = node_spec(generator, of, wild, false);
            ExecutableCall::SetParameters { executable, node, parameters }
        }
        (15, _) if generator.numbers.chance(1, 3) => ExecutableCall::Destroy { executable },
        _ => ExecutableCall::Launch { executable, stream },
    };
    generator.push(call);
}
