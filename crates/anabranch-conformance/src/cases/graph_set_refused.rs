//! Replaced parameters of nodes of executable graphs, and what is told first of several wrong things.

use super::graph_raw::{RawExecutable, RawGraph};
use super::graph_tools::{raw_digit, single_row, word};
use crate::case::{Case, Failed, Need, Verdict, equal};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{Copy3d, RepeatableWork, Value};
use anabranch::{
    AllocationNode, Buffer, Capabilities, ContextFlags, DevicePointer, Event, FillNode, FillPattern, GraphUpdateResult,
    KernelNode, NodeParameters, PinnedBuffer, Status, ValueOperation, WriteValueFlags,
};

const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];
const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];
const COOPERATIVE: &[Need] = &[Need::Capability(Capabilities::COOPERATIVE_LAUNCH)];

pub(super) const CASES: &[Case] = &[
    Case::new("graph.executable_empty_node", "G3", empty_node),
    Case::new("graph.executable_attributes_stay", "G3", attributes_stay).needs(CLUSTERS),
    Case::new("graph.executable_attributes_before_all_else", "G3", attributes_before_all_else).needs(COOPERATIVE),
    Case::new("graph.executable_nodes_of_all_kinds", "G3", nodes_of_all_kinds),
    Case::new("graph.executable_nodes_of_all_kinds_of_another_graph", "G3", nodes_of_another_graph),
    Case::new("graph.executable_record_of_another_context", "G3", record_of_another_context),
    Case::new("graph.executable_wait_of_another_context", "G3", wait_of_another_context),
    Case::new("graph.executable_child_for_a_node_added_later", "G3", child_for_a_node_added_later).needs(POOLS),
    Case::new("graph.update_by_a_record_of_another_context", "G3", update_by_a_record_of_another_context),
    Case::new("graph.update_by_a_cooperative_kernel", "G3", update_by_a_cooperative_kernel).needs(COOPERATIVE),
    Case::new("graph.update_by_a_kernel_with_a_cluster", "G3", update_by_a_kernel_with_a_cluster).needs(CLUSTERS),
];

type Found = (Status, Option<GraphUpdateResult>);

const DONE: Found = (Status::SUCCESS, None);
const INVALID: Found = (Status::INVALID_VALUE, None);
const ATTRIBUTES: Found = (Status::GRAPH_EXEC_UPDATE_FAILURE, Some(GraphUpdateResult::ATTRIBUTES_CHANGED));

/// Memory, events and a graph that nodes use.
struct Objects<'a> {
    environment: &'a Environment,
    buffer: Buffer<u32>,
    pinned: PinnedBuffer<u64>,
    event: Event,
    child: RawGraph<'a>,
    work: RepeatableWork,
}

impl<'a> Objects<'a> {
    fn new(environment: &'a Environment) -> Result<Self, Failed> {
        let (_, buffer) = word(environment)?;
        let pinned = environment.context().allocate_pinned(2)?;
        let (event, child) = (environment.context().create_event()?, RawGraph::row(environment, 1)?);
        Ok(Self { environment, buffer, pinned, event, child, work: RepeatableWork::new(|| ()) })
    }

    fn kernel(&self) -> Result<KernelNode, Failed> {
        Ok(raw_digit(self.environment, self.buffer.device_pointer(), 1)?)
    }

    /// Parameters of nodes: a kernel, a copy, a fill, a host function, nothing, a wait, a record, a child, and value operations.
    fn all(&self) -> Result<Vec<NodeParameters>, Failed> {
        let (memory, pinned) = (self.buffer.device_pointer(), self.pinned.device_pointer());
        let copy = Copy3d { source: single_row(memory, 4), destination: single_row(memory, 4), extent: [4, 1, 1] };
        let fill = FillNode { address: memory, pitch: 0, pattern: FillPattern::U32(1), width: 1, height: 1 };
        let write = ValueOperation::Write { address: pinned, value: Value::U32(1), flags: WriteValueFlags::empty() };
        Ok(vec![
            NodeParameters::Kernel(self.kernel()?),
            NodeParameters::Copy(copy),
            NodeParameters::Fill(fill),
            NodeParameters::Host(self.work.key()),
            NodeParameters::Empty,
            NodeParameters::EventWait(self.event.live().handle()),
            NodeParameters::EventRecord(self.event.live().handle()),
            NodeParameters::Child(self.child.handle()),
            NodeParameters::ValueOperations(vec![write]),
        ])
    }

    /// A graph with a node of each of the parameters.
    fn graph(&self) -> Result<RawGraph<'a>, Failed> {
        let graph = RawGraph::new(self.environment)?;
        for parameters in self.all()? {
            graph.must_add(&[], parameters)?;
        }
        Ok(graph)
    }
}

fn set(
    executable: &RawExecutable<'_>,
    graph: &RawGraph<'_>,
    place: usize,
    parameters: NodeParameters,
) -> Result<Found, Failed> {
    let (status, result, _) = executable.set(graph, place, &parameters)?;
    Ok((status, result))
}

/// An empty node has no parameters. They can be replaced whatever the executable graph is.
fn empty_node(environment: &Environment) -> Verdict {
    let (graph, other) = (RawGraph::row(environment, 1)?, RawGraph::row(environment, 1)?);
    let executable = graph.must_instantiate()?;
    equal("its own", set(&executable, &graph, 0, NodeParameters::Empty)?, DONE)?;
    equal("another graph's", set(&executable, &other, 0, NodeParameters::Empty)?, DONE)?;
    let objects = Objects::new(environment)?;
    let wait = NodeParameters::EventWait(objects.event.live().handle());
    graph.must_add(&[], wait)?;
    equal("a node of another kind", set(&executable, &graph, 1, NodeParameters::Empty)?, INVALID)
}

fn attributes_stay(environment: &Environment) -> Verdict {
    let objects = Objects::new(environment)?;
    let plain = objects.kernel()?;
    let clusters = KernelNode { grid: [3, 1, 1], cluster: Some([3, 1, 1]), ..plain.clone() };
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], NodeParameters::Kernel(plain.clone()))?;
    graph.must_add(&[], NodeParameters::Kernel(clusters.clone()))?;
    let executable = graph.must_instantiate()?;
    let kernel = |kernel: &KernelNode| NodeParameters::Kernel(kernel.clone());
    equal("another cluster", set(&executable, &graph, 0, kernel(&clusters))?, ATTRIBUTES)?;
    equal("no cluster", set(&executable, &graph, 1, kernel(&plain))?, ATTRIBUTES)?;
    let single = KernelNode { cluster: Some([1, 1, 1]), ..plain.clone() };
    equal("a cluster of one block", set(&executable, &graph, 0, kernel(&single))?, DONE)?;
    equal("the same cluster", set(&executable, &graph, 1, kernel(&clusters))?, DONE)?;
    let important = KernelNode { priority: Some(-1), ..plain };
    equal("another priority", set(&executable, &graph, 0, kernel(&important))?, ATTRIBUTES)
}

fn attributes_before_all_else(environment: &Environment) -> Verdict {
    let objects = Objects::new(environment)?;
    let plain = objects.kernel()?;
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], NodeParameters::Kernel(plain.clone()))?;
    let (executable, other) = (graph.must_instantiate()?, RawGraph::row(environment, 1)?.must_instantiate()?);
    let cooperative = KernelNode { cooperative: true, ..plain };
    let too_large = KernelNode { grid: [1 << 20, 1, 1], ..cooperative.clone() };
    equal("too large a grid", set(&executable, &graph, 0, NodeParameters::Kernel(too_large))?, ATTRIBUTES)?;
    let found = set(&other, &graph, 0, NodeParameters::Kernel(cooperative.clone()))?;
    equal("a node of another graph", found, ATTRIBUTES)?;
    graph.must_add(&[], NodeParameters::Empty)?;
    let found = set(&executable, &graph, 1, NodeParameters::Kernel(cooperative))?;
    equal("a node of another kind", found, ATTRIBUTES)
}

/// One letter for each pair of a node and parameters, row by row: `.` success, `1` `CUDA_ERROR_INVALID_VALUE (1)`, `8`
/// `CUDA_ERROR_NOT_SUPPORTED (801)`, `9` `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)`, `?` something else.
fn table(executable: &RawExecutable<'_>, graph: &RawGraph<'_>, all: &[NodeParameters]) -> Result<String, Failed> {
    let mut table = String::new();
    for place in 0..all.len() {
        for parameters in all {
            let (status, _) = set(executable, graph, place, parameters.clone())?;
            table.push(match status {
                Status::SUCCESS => '.',
                Status::INVALID_VALUE => '1',
                Status::NOT_SUPPORTED => '8',
                Status::GRAPH_EXEC_UPDATE_FAILURE => '9',
                _ => '?',
            });
        }
        table.push(' ');
    }
    Ok(table)
}

/// A table in which nodes and parameters of one kind have a letter, and others are refused.
fn expected(same: impl Fn(usize) -> char) -> String {
    let answer = |node: usize, given: usize| match given {
        _ if node == given => same(node),
        _ => '1',
    };
    (0..KINDS).map(|node| (0..KINDS).map(|given| answer(node, given)).chain([' ']).collect::<String>()).collect()
}

const KINDS: usize = 9;
const EMPTY: usize = 4;

fn nodes_of_all_kinds(environment: &Environment) -> Verdict {
    let objects = Objects::new(environment)?;
    let graph = objects.graph()?;
    let found = table(&graph.must_instantiate()?, &graph, &objects.all()?)?;
    equal("each node with the parameters of each kind", found, expected(|_| '.'))
}

fn nodes_of_another_graph(environment: &Environment) -> Verdict {
    let objects = Objects::new(environment)?;
    let (graph, other) = (objects.graph()?, objects.graph()?);
    let found = table(&graph.must_instantiate()?, &other, &objects.all()?)?;
    let expected = expected(|node| if node == EMPTY { '.' } else { '1' });
    equal("each node with the parameters of each kind", found, expected)
}

/// An executable graph of one node with an event, its graph, and an event of another context.
fn another_context<'a>(
    environment: &'a Environment,
    event: &Event,
    node: impl Fn(&Event) -> NodeParameters,
) -> Result<(RawGraph<'a>, RawExecutable<'a>), Failed> {
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], node(event))?;
    let executable = graph.must_instantiate()?;
    Ok((graph, executable))
}

fn record(event: &Event) -> NodeParameters {
    NodeParameters::EventRecord(event.live().handle())
}

fn wait(event: &Event) -> NodeParameters {
    NodeParameters::EventWait(event.live().handle())
}

/// The work of a record belongs to the context of its event.
fn record_of_another_context(environment: &Environment) -> Verdict {
    let context = environment.device().create_context(ContextFlags::empty())?;
    let (near, other, far) =
        (environment.context().create_event()?, environment.context().create_event()?, context.create_event()?);
    let (graph, executable) = another_context(environment, &near, record)?;
    equal("an event of the same context", set(&executable, &graph, 0, record(&other))?, DONE)?;
    equal("an event of another context", set(&executable, &graph, 0, record(&far))?, INVALID)?;
    equal("in the graph itself", graph.set(0, &record(&far))?, Status::SUCCESS)
}

fn wait_of_another_context(environment: &Environment) -> Verdict {
    let context = environment.device().create_context(ContextFlags::empty())?;
    let (near, far) = (environment.context().create_event()?, context.create_event()?);
    let (graph, executable) = another_context(environment, &near, wait)?;
    let refused = set(&executable, &graph, 0, wait(&far))?;
    equal("an event of another context", refused, (Status::INVALID_VALUE, None))?;
    equal("in the graph itself", graph.set(0, &wait(&far))?, Status::SUCCESS)
}

fn update_by_a_record_of_another_context(environment: &Environment) -> Verdict {
    let context = environment.device().create_context(ContextFlags::empty())?;
    let (near, far) = (environment.context().create_event()?, context.create_event()?);
    let (graph, executable) = another_context(environment, &near, record)?;
    equal("setting the event in the graph", graph.set(0, &record(&far))?, Status::SUCCESS)?;
    let (status, result, _) = executable.update(&graph);
    let changed = Some(GraphUpdateResult::PARAMETERS_CHANGED);
    equal("the update", (status, result), (Status::GRAPH_EXEC_UPDATE_FAILURE, changed))
}

fn updated(environment: &Environment, old: KernelNode, new: KernelNode) -> Result<Found, Failed> {
    let (graph, other) = (RawGraph::new(environment)?, RawGraph::new(environment)?);
    graph.must_add(&[], NodeParameters::Kernel(old))?;
    other.must_add(&[], NodeParameters::Kernel(new))?;
    let (status, result, _) = graph.must_instantiate()?.update(&other);
    Ok((status, result))
}

fn update_by_a_cooperative_kernel(environment: &Environment) -> Verdict {
    let objects = Objects::new(environment)?;
    let plain = objects.kernel()?;
    let cooperative = KernelNode { cooperative: true, ..plain.clone() };
    equal("a cooperative one", updated(environment, plain.clone(), cooperative.clone())?, ATTRIBUTES)?;
    equal("one that is not", updated(environment, cooperative.clone(), plain)?, ATTRIBUTES)?;
    equal("two of them", updated(environment, cooperative.clone(), cooperative)?, DONE)
}

fn update_by_a_kernel_with_a_cluster(environment: &Environment) -> Verdict {
    let objects = Objects::new(environment)?;
    let plain = KernelNode { grid: [4, 1, 1], ..objects.kernel()? };
    let [two, four] = [2, 4].map(|blocks| KernelNode { cluster: Some([blocks, 1, 1]), ..plain.clone() });
    equal("a cluster", updated(environment, plain.clone(), two.clone())?, DONE)?;
    equal("no cluster", updated(environment, two.clone(), plain)?, DONE)?;
    equal("another cluster", updated(environment, two, four)?, DONE)
}

/// A child that allocates is refused before the node is looked for, and one with a conditional value after that.
fn child_for_a_node_added_later(environment: &Environment) -> Verdict {
    let device = environment.device().ordinal();
    let bytes = 512;
    for allocates in [false, true] {
        let (graph, child) = (RawGraph::new(environment)?, RawGraph::new(environment)?);
        let executable = graph.must_instantiate()?;
        graph.must_add(&[], NodeParameters::Child(child.handle()))?;
        let refused = if allocates {
            let allocation = AllocationNode { device, bytes, access: Vec::new(), address: DevicePointer::NULL };
            child.must_add(&[], NodeParameters::Allocate(allocation))?;
            (Status::GRAPH_EXEC_UPDATE_FAILURE, None, None)
        } else {
            child.value()?;
            (Status::INVALID_VALUE, None, None)
        };
        equal("a child", executable.set(&graph, 0, &NodeParameters::Child(child.handle()))?, refused)?;
    }
    Ok(())
}
