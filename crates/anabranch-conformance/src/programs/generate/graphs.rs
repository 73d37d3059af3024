//! Programs about graphs that are built node by node, changed and launched.

use super::super::call::{ExecutableCall, GraphCall, NodeSpec, StreamCall};
use super::super::slots::{ContextSlot, DependencySlot, EdgeSlot, EdgeSpec, Flags, GraphSlot, New, NodeSlot};
use super::nodes::{Taste, node_spec, node_spec_like};
use super::{Generator, devices};

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(3, 3);
    run(generator);
}

/// Calls for graphs, over the streams and events that there are.
pub(super) fn run(generator: &mut Generator) {
    let taste = Taste::new(generator);
    for _ in 0..generator.numbers.one_of([1, 2, 3]) {
        create(generator);
    }
    let length = 50 + generator.numbers.below(60);
    generator.until(length, |generator| {
        if generator.has_two_devices && generator.numbers.chance(1, 12) {
            devices::graph_step(generator);
        } else {
            step(generator, taste);
        }
    });
}

fn create(generator: &mut Generator) {
    let (graph, context) = (generator.model.new_graph(), generator.context());
    generator.push(GraphCall::Create { graph: New(graph), context });
    generator.note_graph(graph, true);
}

/// A graph that probably exists.
pub(super) fn graph(generator: &mut Generator) -> GraphSlot {
    let known: Vec<GraphSlot> = generator.model.graphs.iter().map(|graph| graph.slot).collect();
    generator.numbers.pick(&known).unwrap_or(GraphSlot(0))
}

fn step(generator: &mut Generator, taste: Taste) {
    let graph = graph(generator);
    match generator.numbers.below(40) {
        0..=13 => add_node(generator, graph, taste),
        14 | 15 => edges(generator, graph, taste),
        16 => destroy_node(generator, graph),
        17 => clone(generator, graph),
        18..=21 => look(generator, graph),
        22 | 23 => {
            let Some(node) = generator.node_of(graph) else { return };
            if let Some(parameters) = new_parameters(generator, node, taste) {
                generator.push(GraphCall::NodeSetParameters { node, parameters });
            }
        }
        24..=26 => instantiate(generator, graph, taste),
        27..=35 => executable(generator, graph, taste),
        36 => create(generator),
        37 if generator.model.graphs.len() > 2 => {
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

fn edge_data(generator: &mut Generator, taste: Taste) -> EdgeSpec {
    if !taste.is_wrong(&mut generator.numbers) {
        return EdgeSpec::default();
    }
    let ports = [0, 0, 1, 2, 255];
    EdgeSpec(generator.numbers.one_of(ports), generator.numbers.one_of([0, 0, 1]), generator.numbers.below(3) as u8)
}

fn add_node(generator: &mut Generator, graph: GraphSlot, taste: Taste) {
    let count = generator.numbers.one_of([0, 1, 1, 1, 2, 2]);
    let of = if taste.is_wrong(&mut generator.numbers) { self::graph(generator) } else { graph };
    let mut nodes: Vec<NodeSlot> = (0..count).filter_map(|_| generator.node_of(of)).collect();
    if !taste.is_wrong(&mut generator.numbers) {
        nodes.sort_unstable();
        nodes.dedup();
    }
    let dependencies: Vec<DependencySlot> =
        nodes.into_iter().map(|node| DependencySlot { node, data: edge_data(generator, taste) }).collect();
    let (work, is_right) = node_spec(generator, graph, taste);
    let bodies = match &work {
        NodeSpec::Conditional { first: New(first), bodies, .. } => (first.0..first.0 + *bodies as u16).collect(),
        _ => Vec::new(),
    };
    let node = New(generator.new_node(graph, is_right.then(|| work.clone())));
    if let Some(graph) = generator.model.graph(graph).filter(|_| is_right) {
        graph.edges.extend(dependencies.iter().map(|dependency| (dependency.node.index, node.0.index)));
    }
    generator.push(GraphCall::AddNode { node, dependencies, work });
    if is_right {
        bodies.into_iter().for_each(|body| generator.note_graph(GraphSlot(body), true));
    }
}

fn edges(generator: &mut Generator, graph: GraphSlot, taste: Taste) {
    let (count, adds) = (generator.numbers.one_of([1, 1, 1, 2, 3]), generator.numbers.chance(2, 3));
    let mut edges = Vec::new();
    for _ in 0..count {
        let (Some(mut from), Some(mut to)) = (generator.node_of(graph), generator.node_of(graph)) else { return };
        // Later nodes depend on earlier ones, so that there is no cycle.
        if from.index > to.index && !taste.is_wrong(&mut generator.numbers) {
            std::mem::swap(&mut from, &mut to);
        }
        let is_wrong = taste.is_wrong(&mut generator.numbers);
        let known = generator.model.graph(graph).map(|graph| graph.edges.clone()).unwrap_or_default();
        if adds && !is_wrong && (from == to || known.contains(&(from.index, to.index))) {
            continue;
        }
        if let (false, false, Some((earlier, later))) = (adds, is_wrong, generator.numbers.pick(&known)) {
            (from.index, to.index) = (earlier, later);
        }
        if let Some(graph) = generator.model.graph(graph) {
            graph.edges.retain(|edge| *edge != (from.index, to.index));
            graph.edges.extend(adds.then_some((from.index, to.index)));
        }
        edges.push(EdgeSlot { from, to, data: edge_data(generator, taste) });
    }
    generator.push(match adds {
        true => GraphCall::AddEdges { graph, edges },
        false => GraphCall::RemoveEdges { graph, edges },
    });
}

fn destroy_node(generator: &mut Generator, graph: GraphSlot) {
    if let Some(node) = generator.node_of(graph) {
        generator.push(GraphCall::DestroyNode { node });
        if let Some(graph) = generator.model.graph(graph) {
            graph.nodes.retain(|(index, _)| *index != node.index);
            graph.edges.retain(|(from, to)| *from != node.index && *to != node.index);
        }
    }
}

fn clone(generator: &mut Generator, graph: GraphSlot) {
    let clone = generator.model.new_graph();
    generator.push(GraphCall::Clone { graph, clone: New(clone) });
    generator.note_graph(clone, true);
    for _ in 0..generator.numbers.below(4) {
        let Some(node) = generator.node_of(graph) else { return };
        generator.push(GraphCall::FindInClone { node, clone });
        let work = generator.model.graph(graph).and_then(|graph| graph.work(node.index));
        if let (Some(clone), Some(work)) = (generator.model.graph(clone), work) {
            clone.nodes.retain(|(index, _)| *index != node.index);
            clone.nodes.push((node.index, work));
            clone.numbers = clone.numbers.max(node.index + 1);
        }
    }
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

/// Other parameters for a node, mostly of the same kind.
fn new_parameters(generator: &mut Generator, node: NodeSlot, taste: Taste) -> Option<NodeSpec> {
    let work = generator.model.graph(node.graph)?.work(node.index)?;
    Some(node_spec_like(generator, node.graph, &work, taste))
}

fn instantiate(generator: &mut Generator, graph: GraphSlot, taste: Taste) {
    let executable = generator.model.new_executable();
    let flags = if taste.is_wrong(&mut generator.numbers) {
        generator.numbers.one_of([4, 6, 0x10, 0x8000_0000])
    } else {
        generator.numbers.one_of([0, 0, 0, 0, 1, 2, 3, 8])
    };
    let upload = if generator.numbers.chance(1, 4) || flags & 2 != 0 { Some(generator.stream()) } else { None };
    let (flags, new) = (Flags(flags), New(executable));
    generator.push(ExecutableCall::Instantiate { graph, executable: new, flags, upload });
    generator.model.executables.push((executable, graph));
    let numbers = generator.model.graph(graph).map_or(0, |graph| graph.numbers);
    generator.model.instantiated.insert(executable, numbers);
    if generator.numbers.chance(3, 4) {
        let stream = generator.stream();
        generator.push(ExecutableCall::Launch { executable, stream });
    }
}

fn executable(generator: &mut Generator, graph: GraphSlot, taste: Taste) {
    let Some((executable, of)) = generator.executable() else {
        return instantiate(generator, graph, taste);
    };
    let other = taste.is_wrong(&mut generator.numbers);
    let (from, limit) = match other {
        true => (graph, u16::MAX),
        false => (of, generator.model.instantiated.get(&executable).copied().unwrap_or(u16::MAX)),
    };
    // A node that existed when the graph was instantiated.
    let mut node = generator.node_of(from);
    for _ in 0..3 {
        node = node.filter(|node| node.index < limit).or_else(|| generator.node_of(from));
    }
    let stream = generator.stream();
    let call = match (generator.numbers.below(16), node) {
        (0..=5, _) => ExecutableCall::Launch { executable, stream },
        (6, _) => ExecutableCall::Upload { executable, stream },
        (7, _) => ExecutableCall::Flags { executable },
        (8..=10, _) => {
            let graph = if generator.numbers.chance(2, 3) { of } else { graph };
            ExecutableCall::Update { executable, graph }
        }
        (11, Some(node)) => ExecutableCall::SetEnabled { executable, node, enabled: generator.numbers.chance(1, 2) },
        (12, Some(node)) => ExecutableCall::Enabled { executable, node },
        (13 | 14, Some(node)) => match new_parameters(generator, node, taste) {
            Some(parameters) => ExecutableCall::SetParameters { executable, node, parameters },
            None => ExecutableCall::Launch { executable, stream },
        },
        (15, _) if generator.numbers.chance(1, 3) => {
            generator.model.executables.retain(|(known, _)| *known != executable);
            ExecutableCall::Destroy { executable }
        }
        _ => ExecutableCall::Launch { executable, stream },
    };
    generator.push(call);
}
