//! Graphs of any shape, with all kinds of nodes, that are changed, captured into, updated and launched in any order.
//!
//! Which node gets whose work by an update is the driver's to say, and the order of nodes without edges is nobody's. So nobody
//! knows what the memory contains, which belongs to such a program alone. What must hold is that all of it is there, that
//! it was written before it is read, and that whatever is refused leaves everything usable.

use crate::edited::{Work, work};
use crate::environment::LENGTH;
use crate::tally::note;
use crate::world::World;
use anabranch::{
    Buffer, CaptureMode, CaptureScope, ConditionalKind, Context, DependencyUpdate, EdgeData, Error, ExecutableGraph,
    Graph, GraphEdge, GraphNodeKind, Node, NodeWork, PinnedBuffer, RecaptureChanges, Result, Stream,
};
use proptest::prelude::*;
use std::iter;

const BUFFERS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Tangled {
    stream: usize,
    changes: Vec<Change>,
}

/// What a node does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Fills or copies memory of the device.
    Memory(Work),
    ToPinned(Work),
    FromPinned(Work),
    Host(Work),
    Empty,
    /// Another graph. The number chooses it.
    Child(usize),
}

/// What is captured.
#[derive(Clone, Copy, Debug)]
enum Step {
    Memory(Work),
    /// Memory that the graph allocates, and frees unless it is kept outside of the capture.
    Allocate {
        work: Work,
        is_kept: bool,
    },
    Host(Work),
    /// Work that depends on the value of memory of the host.
    If(Work),
    /// Goes on behind other nodes of the capture.
    Move(usize),
}

#[derive(Clone, Debug)]
enum Change {
    Create,
    Add {
        graph: usize,
        after: [usize; 2],
        kind: Kind,
    },
    /// A conditional node, with work in its body. Some of the numbers of bodies are refused.
    AddConditional {
        graph: usize,
        after: [usize; 2],
        kind: ConditionalKind,
        bodies: u32,
        value: u32,
        work: Work,
    },
    Capture {
        steps: Vec<Step>,
    },
    /// No steps are a capture of nothing.
    CaptureInto {
        graph: usize,
        after: [usize; 2],
        steps: Vec<Step>,
    },
    CaptureAgain {
        graph: usize,
        steps: Vec<Step>,
    },
    Remove {
        graph: usize,
        node: usize,
    },
    Edge {
        graph: usize,
        nodes: [usize; 2],
        adds: bool,
    },
    /// Other work of the same kind.
    Set {
        graph: usize,
        node: usize,
        work: Work,
    },
    Clone {
        graph: usize,
    },
    Instantiate {
        graph: usize,
    },
    SetExecutable {
        executable: usize,
        node: usize,
        work: Work,
    },
    Enable {
        executable: usize,
        node: usize,
        enabled: bool,
    },
    Update {
        executable: usize,
        graph: usize,
    },
    Launch {
        executable: usize,
        awaited: bool,
    },
    DropGraph {
        graph: usize,
    },
    DropExecutable {
        executable: usize,
    },
    Renew {
        buffer: usize,
    },
    RenewPinned {
        value: u32,
    },
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        8 => work().prop_map(Kind::Memory),
        1 => work().prop_map(Kind::ToPinned),
        1 => work().prop_map(Kind::FromPinned),
        2 => work().prop_map(Kind::Host),
        1 => Just(Kind::Empty),
        1 => (0..4usize).prop_map(Kind::Child),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => work().prop_map(Step::Memory),
        4 => (work(), any::<bool>()).prop_map(|(work, is_kept)| Step::Allocate { work, is_kept }),
        1 => work().prop_map(Step::Host),
        1 => work().prop_map(Step::If),
        1 => (0..8usize).prop_map(Step::Move),
    ];
    prop::collection::vec(step, 0..4)
}

/// Changes of graphs and executable graphs that there are, of which the first are the most likely ones.
fn change() -> impl Strategy<Value = Change> {
    use Change::*;
    let n = || prop_oneof![3 => Just(0usize), 1 => 1..3usize];
    let node = || 0..6usize;
    let after = || [0..12usize, 0..12usize];
    let conditional = prop_oneof![Just(ConditionalKind::If), Just(ConditionalKind::Switch)];
    let add_conditional = (n(), after(), conditional, 0..4u32, 0..3u32, work());
    prop_oneof![
        2 => (n(), after(), kind()).prop_map(|(graph, after, kind)| Add { graph, after, kind }),
        2 => add_conditional.prop_map(|(graph, after, kind, bodies, value, work)| AddConditional {
            graph, after, kind, bodies, value, work
        }),
        1 => steps().prop_map(|steps| Capture { steps }),
        4 => (n(), after(), prop_oneof![Just(Vec::new()), steps()])
            .prop_map(|(graph, after, steps)| CaptureInto { graph, after, steps }),
        1 => (n(), steps()).prop_map(|(graph, steps)| CaptureAgain { graph, steps }),
        3 => (n(), node()).prop_map(|(graph, node)| Remove { graph, node }),
        4 => (n(), [node(), node()], any::<bool>()).prop_map(|(graph, nodes, adds)| Edge { graph, nodes, adds }),
        4 => (n(), node(), work()).prop_map(|(graph, node, work)| Set { graph, node, work }),
        1 => n().prop_map(|graph| Clone { graph }),
        2 => n().prop_map(|graph| Instantiate { graph }),
        6 => (n(), node(), work()).prop_map(|(executable, node, work)| SetExecutable { executable, node, work }),
        4 => (n(), node(), any::<bool>()).prop_map(|(executable, node, enabled)| Enable { executable, node, enabled }),
        8 => (n(), n()).prop_map(|(executable, graph)| Update { executable, graph }),
        8 => (n(), any::<bool>()).prop_map(|(executable, awaited)| Launch { executable, awaited }),
        1 => n().prop_map(|graph| DropGraph { graph }),
        1 => n().prop_map(|executable| DropExecutable { executable }),
        4 => (0..BUFFERS).prop_map(|buffer| Renew { buffer }),
        1 => any::<u32>().prop_map(|value| RenewPinned { value }),
    ]
}

/// What one node after the other goes through whose work is another node's by an update: what the update paired is changed, and
/// what the nodes had is let go.
fn story() -> impl Strategy<Value = Vec<Change>> {
    use Change::*;
    let node = || 0..6usize;
    let shape = prop_oneof![
        1 => [0..12usize, 0..12usize].prop_map(|after| CaptureInto { graph: 0, after, steps: Vec::new() }),
        1 => ([0..12usize, 0..12usize], work()).prop_map(|(after, work)| AddConditional {
            graph: 0, after, kind: ConditionalKind::If, bodies: 3, value: 0, work
        }),
        1 => ([node(), node()], any::<bool>()).prop_map(|(nodes, adds)| Edge { graph: 0, nodes, adds }),
    ];
    let executable = prop_oneof![
        2 => (node(), work()).prop_map(|(node, work)| SetExecutable { executable: 0, node, work }),
        1 => node().prop_map(|node| Enable { executable: 0, node, enabled: false }),
    ];
    let graph = prop_oneof![
        1 => (node(), work()).prop_map(|(node, work)| Set { graph: 0, node, work }),
        1 => node().prop_map(|node| Remove { graph: 0, node }),
    ];
    let renew = (0..BUFFERS).prop_map(|buffer| Renew { buffer });
    (shape, executable, graph, renew, any::<bool>()).prop_map(|(shape, executable, graph, renew, awaited)| {
        let update = Update { executable: 0, graph: 0 };
        vec![shape, update, executable, graph, renew, Launch { executable: 0, awaited }]
    })
}

/// Starts with a graph that does a little, and an executable graph of it.
pub(crate) fn tangled() -> impl Strategy<Value = Tangled> {
    let after = [0..12usize, 0..12usize];
    let add = (after, kind()).prop_map(|(after, kind)| Change::Add { graph: 0, after, kind });
    let first = prop_oneof![Just(Change::Create), steps().prop_map(|steps| Change::Capture { steps })];
    let changes = prop_oneof![4 => change().prop_map(|change| vec![change]), 1 => story()];
    let changes = prop::collection::vec(changes, 1..20);
    let changes = (first, prop::collection::vec(add, 1..4), changes);
    (0..4usize, changes).prop_map(|(stream, (first, adds, changes))| {
        let first = iter::once(first).chain(adds).chain([Change::Instantiate { graph: 0 }]);
        Tangled { stream, changes: first.chain(changes.into_iter().flatten()).collect() }
    })
}

/// What such a program has.
struct Tangle {
    context: Context,
    stream: Stream,
    buffers: Vec<Buffer<u32>>,
    pinned: PinnedBuffer<u32>,
    graphs: Vec<Graph>,
    executables: Vec<ExecutableGraph>,
    /// Memory of graphs, kept outside of their captures.
    captured: Vec<Buffer<u32>>,
}

/// Says that something was refused, and notes it.
#[track_caller]
fn refused(error: &Error, what: &'static str) {
    assert!(!error.is_sticky(), "{error}");
    note(what);
}

fn nodes_of(graph: &Graph, numbers: [usize; 2]) -> Vec<Node> {
    let nodes = graph.nodes().unwrap();
    // Half of the numbers mean no node.
    let of_number =
        |number: usize| nodes.get((number / 2).checked_rem(nodes.len())?).copied().filter(|_| number.is_multiple_of(2));
    let mut nodes: Vec<Node> = numbers.into_iter().filter_map(of_number).collect();
    nodes.dedup();
    nodes
}

fn node_of(graph: &Graph, number: usize) -> Option<Node> {
    let nodes = graph.nodes().unwrap();
    nodes.get(number.checked_rem(nodes.len())?).copied()
}

/// The work as work of a node of that kind.
fn as_before(kind: GraphNodeKind, work: Work) -> Kind {
    let from = work.from.filter(|from| from % BUFFERS != work.to % BUFFERS).unwrap_or(work.to + 1);
    match kind {
        GraphNodeKind::FILL => Kind::Memory(Work { from: None, ..work }),
        GraphNodeKind::COPY => Kind::Memory(Work { from: Some(from), ..work }),
        GraphNodeKind::HOST => Kind::Host(work),
        _ => Kind::Empty,
    }
}

impl Tangle {
    fn new(context: &Context, stream: Stream) -> Self {
        let buffers = (0..BUFFERS).map(|_| stream.allocate_zeroed(LENGTH).unwrap()).collect();
        let pinned = context.allocate_pinned(LENGTH).unwrap();
        let (graphs, executables, captured) = (Vec::new(), Vec::new(), Vec::new());
        Self { context: context.clone(), stream, buffers, pinned, graphs, executables, captured }
    }

    /// Uses the work, if there is such work.
    fn with_work<R>(&mut self, kind: Kind, with: impl FnOnce(&mut Self, NodeWork<'_>) -> R) -> Option<R> {
        // Out of the way, so that the work can be used with the rest.
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut pinned = std::mem::replace(&mut self.pinned, self.context.allocate_pinned(0).unwrap());
        let of_memory = |to: &mut Vec<Buffer<u32>>, captured: &Vec<Buffer<u32>>, work: Work| {
            let (to_number, from) = (work.to % BUFFERS, work.from.map(|from| from % BUFFERS));
            match from {
                // Memory of a graph is refused outside of its capture.
                Some(from) if from == to_number => NodeWork::copy(&mut to[to_number], captured.first()?).ok(),
                Some(from) => {
                    let [to, from] = to.get_disjoint_mut([to_number, from]).unwrap();
                    NodeWork::copy(to, &*from).ok()
                }
                None => NodeWork::fill(&mut to[to_number], work.value).ok(),
            }
        };
        let made = match kind {
            Kind::Memory(work) => of_memory(&mut buffers, &self.captured, work),
            Kind::ToPinned(work) => NodeWork::copy(&mut pinned, &buffers[work.to % BUFFERS]).ok(),
            Kind::FromPinned(work) => NodeWork::copy(&mut buffers[work.to % BUFFERS], &pinned).ok(),
            Kind::Host(work) => Some(NodeWork::host_func(move || assert_ne!(work.value, u32::MAX, "as it was made"))),
            Kind::Empty => Some(NodeWork::empty()),
            Kind::Child(_) => None,
        };
        let result = made.map(|work| with(self, work));
        (self.buffers, self.pinned) = (buffers, pinned);
        result
    }

    /// Captures the steps. What fails ends the capture.
    fn capture(&mut self, scope: &CaptureScope<'_>, steps: &[Step]) -> Result<()> {
        let buffers = &mut self.buffers;
        for &step in steps {
            match step {
                Step::Memory(work) => {
                    let to = work.to % BUFFERS;
                    match work.from.map(|from| from % BUFFERS).filter(|&from| from != to) {
                        Some(from) => {
                            let [to, from] = buffers.get_disjoint_mut([to, from]).unwrap();
                            scope.copy(to, &*from)?;
                        }
                        None => scope.fill(&mut buffers[to], work.value)?,
                    }
                }
                Step::Allocate { work, is_kept } => {
                    let memory = scope.allocate_zeroed::<u32>(LENGTH)?;
                    scope.copy(&mut buffers[work.to % BUFFERS], &memory)?;
                    if is_kept {
                        self.captured.push(memory);
                    }
                }
                Step::Host(work) => {
                    scope.launch_repeatable_host_func(move || assert_ne!(work.value, u32::MAX, "as it was made"))?;
                }
                Step::If(work) => {
                    let to = &mut buffers[work.to % BUFFERS];
                    scope.capture_if(&self.pinned, |scope| scope.fill(to, work.value))?;
                }
                Step::Move(number) => {
                    let info = scope.stream().capture_info()?;
                    let dependencies = info.dependencies;
                    if let Some(index) = number.checked_rem(dependencies.len()) {
                        let one: Vec<Node> = dependencies[index..=index].iter().map(|(node, _)| *node).collect();
                        scope.stream().update_capture_dependencies_with_mode(&one, DependencyUpdate::Set)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) {
        let (graphs, executables) = (self.graphs.len(), self.executables.len());
        match *change {
            Change::Create => self.graphs.push(self.context.create_graph().unwrap()),
            Change::Add { graph, after, kind } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let after = nodes_of(&self.graphs[graph], after);
                if let Kind::Child(child) = kind {
                    let child = child % graphs;
                    if let Ok([graph, child]) = self.graphs.get_disjoint_mut([graph, child])
                        && let Err(error) = graph.add(&after, NodeWork::child(child))
                    {
                        refused(&error, "children refused");
                    }
                    return;
                }
                if let Some(Err(error)) = self.with_work(kind, |own, work| own.graphs[graph].add(&after, work)) {
                    refused(&error, "nodes refused");
                }
            }
            Change::AddConditional { graph, after, kind, bodies, value, work } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let (graph, buffer) = (&mut self.graphs[graph], &mut self.buffers[work.to % BUFFERS]);
                let after = nodes_of(graph, after);
                let conditional = match graph.create_conditional(Some(value)) {
                    Ok(conditional) => conditional,
                    Err(error) => return refused(&error, "conditional values refused"),
                };
                match graph.add_conditional(&after, conditional, kind, bodies) {
                    Ok(node) => {
                        let mut body = graph.body(node, 0).unwrap();
                        body.add((), NodeWork::fill(buffer, work.value).unwrap()).unwrap();
                        note("conditional nodes");
                    }
                    Err(error) => refused(&error, "conditional nodes refused"),
                }
            }
            Change::Capture { ref steps } => {
                let stream = self.context.create_stream().unwrap();
                match stream.capture(CaptureMode::ThreadLocal, |scope| self.capture(scope, steps)) {
                    Ok(graph) => self.graphs.push(graph),
                    Err(error) => refused(&error, "captures refused"),
                }
            }
            Change::CaptureInto { graph, after, ref steps } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let mut graph = self.graphs.swap_remove(graph);
                let stream = self.context.create_stream().unwrap();
                let after = nodes_of(&graph, after);
                let mode = CaptureMode::ThreadLocal;
                match stream.capture_into(&mut graph, &after, mode, |scope| self.capture(scope, steps)) {
                    Ok(()) => note(if steps.is_empty() { "captures of nothing" } else { "captures into tangles" }),
                    Err(error) => refused(&error, "captures into tangles refused"),
                }
                self.graphs.push(graph);
            }
            Change::CaptureAgain { graph, ref steps } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let mut graph = self.graphs.swap_remove(graph);
                let stream = self.context.create_stream().unwrap();
                let (changes, mode) = (RecaptureChanges::Any, CaptureMode::ThreadLocal);
                match stream.recapture(&mut graph, changes, mode, |scope| self.capture(scope, steps)) {
                    Ok(_) => note("tangles captured again"),
                    Err(error) => refused(&error, "tangles not captured again"),
                }
                self.graphs.push(graph);
            }
            Change::Remove { graph, node } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let graph = &mut self.graphs[graph];
                if let Some(node) = node_of(graph, node)
                    && let Err(error) = graph.remove_node(node)
                {
                    refused(&error, "nodes not removed");
                }
            }
            Change::Edge { graph, nodes, adds } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let graph = &mut self.graphs[graph];
                let edge = if adds {
                    let [from, to] = nodes.map(|node| node_of(graph, node));
                    from.zip(to).map(|(from, to)| GraphEdge { from, to, data: EdgeData::default() })
                } else {
                    let edges = graph.edges().unwrap();
                    nodes[0].checked_rem(edges.len()).map(|edge| edges[edge])
                };
                let Some(edge) = edge else { return };
                let changed = if adds { graph.add_edges(&[edge]) } else { graph.remove_edges(&[edge]) };
                if let Err(error) = changed {
                    refused(&error, "edges refused");
                }
            }
            Change::Set { graph, node, work } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                let Some(node) = node_of(&self.graphs[graph], node) else { return };
                let kind = as_before(self.graphs[graph].node_kind(node).unwrap(), work);
                if let Some(Err(error)) = self.with_work(kind, |own, work| own.graphs[graph].set_node(node, work)) {
                    refused(&error, "changes of nodes refused");
                }
            }
            Change::Clone { graph } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                match self.graphs[graph].try_clone() {
                    Ok(clone) => self.graphs.push(clone),
                    Err(error) => refused(&error, "clones refused"),
                }
            }
            Change::Instantiate { graph } => {
                let Some(graph) = graph.checked_rem(graphs) else { return };
                match self.graphs[graph].instantiate() {
                    Ok(executable) => self.executables.push(executable),
                    Err(error) => refused(&error, "tangles not instantiated"),
                }
            }
            Change::SetExecutable { executable, node, work } => {
                let Some((executable, node, kind)) = self.node_of_executable(executable, node) else { return };
                let kind = as_before(kind, work);
                let set = |own: &mut Self, work: NodeWork<'_>| own.executables[executable].set_node(node, work);
                if let Some(set) = self.with_work(kind, set) {
                    match set {
                        Ok(()) => note("nodes of executable tangles changed"),
                        Err(error) => refused(&error, "nodes of executable tangles not changed"),
                    }
                }
            }
            Change::Enable { executable, node, enabled } => {
                let Some((executable, node, _)) = self.node_of_executable(executable, node) else { return };
                match self.executables[executable].set_node_enabled(node, enabled) {
                    Ok(()) => note("nodes of tangles enabled or disabled"),
                    Err(error) => refused(&error, "nodes of tangles not enabled or disabled"),
                }
            }
            Change::Update { executable, graph } => {
                let (Some(executable), Some(graph)) = (executable.checked_rem(executables), graph.checked_rem(graphs))
                else {
                    return;
                };
                match self.executables[executable].update(&self.graphs[graph]) {
                    Ok(()) => note("updates of tangles"),
                    Err(update) => refused(update.error(), "updates of tangles refused"),
                }
            }
            Change::Launch { executable, awaited } => {
                let Some(executable) = executable.checked_rem(executables) else { return };
                match self.executables[executable].launch(&self.stream) {
                    Ok(()) => note("launches of tangles"),
                    Err(error) => refused(&error, "launches of tangles refused"),
                }
                if awaited {
                    self.stream.synchronize().unwrap();
                }
            }
            Change::DropGraph { graph } => {
                if let Some(graph) = graph.checked_rem(graphs) {
                    drop(self.graphs.swap_remove(graph));
                }
            }
            Change::DropExecutable { executable } => {
                if let Some(executable) = executable.checked_rem(executables) {
                    drop(self.executables.swap_remove(executable));
                }
            }
            Change::Renew { buffer } => self.buffers[buffer % BUFFERS] = self.stream.allocate_zeroed(LENGTH).unwrap(),
            Change::RenewPinned { value } => {
                self.pinned = self.context.allocate_pinned(LENGTH).unwrap();
                self.pinned.write(|words| words.fill(value % 2)).unwrap();
            }
        }
    }

    /// An executable graph, and a node of one of the graphs that there are: of its own, or of another one, which is refused.
    fn node_of_executable(&self, executable: usize, node: usize) -> Option<(usize, Node, GraphNodeKind)> {
        let executable = executable.checked_rem(self.executables.len())?;
        let own = self.executables[executable].graph_id();
        let graph = self.graphs.iter().find(|graph| graph.id() == own).or(self.graphs.first())?;
        let node = node_of(graph, node)?;
        Some((executable, node, graph.node_kind(node).unwrap()))
    }
}

impl World<'_> {
    pub(crate) fn tangled(&mut self, tangled: &Tangled) {
        self.let_go();
        let device = self.stream(tangled.stream).device;
        let context = &self.places[device].context;
        let mut tangle = Tangle::new(context, context.create_stream().unwrap());
        tangled.changes.iter().for_each(|change| tangle.change(change));
        // Everything is whole, whatever was refused.
        for buffer in &tangle.buffers {
            tangle.stream.download(buffer).unwrap();
        }
    }
}
