//! Helpers of the cases about graphs.

use super::order_tools::Log;
use crate::case::{Failed, Verdict, equal, refused};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{Access, CopyPlace, DeclaredRange, Detail};
use anabranch::{
    Buffer, Dependencies, DevicePointer, ExecutableGraph, Graph, GraphInstantiateResult, GraphNodeHandle,
    InstantiateFlags, KernelNode, LaunchConfig, Node, NodeParameters, NodeWork, Result, Status, Stream,
    flush_deferred_drops,
};
use std::sync::Arc;
use std::time::Duration;

/// A launch of one thread.
pub(super) fn one() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 1)
}

/// A number in device memory that is 0, and a stream to access it in.
pub(super) fn word(environment: &Environment) -> Result<(Stream, Buffer<u32>)> {
    let stream = environment.stream()?;
    let word = stream.allocate_zeroed(1)?;
    stream.synchronize()?;
    Ok((stream, word))
}

/// A node that multiplies a number by `factor` and adds `value`.
pub(super) fn add(
    environment: &Environment,
    word: &mut Buffer<u32>,
    factor: u32,
    value: u32,
) -> Result<NodeWork<'static>> {
    let kernel = environment.kernel("add")?;
    // SAFETY: `add` accesses only the number that its first argument points to.
    unsafe { NodeWork::kernel(&kernel, &one(), (word, factor, value)) }
}

/// A node that appends a digit to a number.
pub(super) fn digit(environment: &Environment, word: &mut Buffer<u32>, digit: u32) -> Result<NodeWork<'static>> {
    add(environment, word, 10, digit)
}

/// The driver-level parameters of a node that appends a digit.
pub(super) fn raw_digit(environment: &Environment, address: DevicePointer, digit: u32) -> Result<KernelNode> {
    let arguments = vec![address.0.to_ne_bytes().to_vec(), 10u32.to_ne_bytes().to_vec(), digit.to_ne_bytes().to_vec()];
    Ok(KernelNode {
        function: environment.kernel("add")?.as_raw(),
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: anabranch::KernelAttributes::NONE,
        arguments,
        ranges: vec![DeclaredRange { argument: 0, address: address.0, bytes: 4, access: Access::Write }],
    })
}

/// The source or destination of a copy of a single row.
pub(super) fn single_row(address: DevicePointer, bytes: usize) -> CopyPlace {
    CopyPlace { address: address.0, host: false, pitch: bytes, height: 1, origin: [0; 3] }
}

/// A node that logs a number at every launch.
pub(super) fn note(log: &Log, number: u32) -> NodeWork<'static> {
    let log = log.clone();
    NodeWork::host_func(move || log.push(number))
}

/// Adds nodes in a chain.
pub(super) fn chain(graph: &mut Graph, works: impl IntoIterator<Item = NodeWork<'static>>) -> Result<Vec<Node>> {
    chain_by(|after, work| graph.add(after, work), works)
}

/// Like [`chain`], with a function that adds a node after others.
pub(super) fn chain_by(
    mut add: impl FnMut(&[Node], NodeWork<'static>) -> Result<Node>,
    works: impl IntoIterator<Item = NodeWork<'static>>,
) -> Result<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    for work in works {
        let node = add(nodes.last().map(std::slice::from_ref).unwrap_or_default(), work)?;
        nodes.push(node);
    }
    Ok(nodes)
}

/// A graph of one node.
pub(super) fn graph_of(environment: &Environment, work: NodeWork<'_>) -> Result<Graph> {
    let mut graph = environment.context().create_graph()?;
    graph.add((), work)?;
    Ok(graph)
}

/// Instantiates the graph, launches it once and waits for it.
pub(super) fn run(graph: &Graph, stream: &Stream) -> Result<()> {
    launch(&graph.instantiate()?, stream)
}

/// Launches once and waits for completion.
pub(super) fn launch(executable: &ExecutableGraph, stream: &Stream) -> Result<()> {
    executable.launch(stream)?;
    stream.synchronize()
}

/// Checks that the graph refuses a node and does not change.
pub(super) fn refuses(what: &str, graph: &mut Graph, parameters: NodeParameters, status: Status) -> Verdict {
    refuses_after(what, graph, (), parameters, status)
}

/// Checks that the graph refuses a node with dependencies and does not change.
pub(super) fn refuses_after(
    what: &str,
    graph: &mut Graph,
    dependencies: impl Dependencies,
    parameters: NodeParameters,
    status: Status,
) -> Verdict {
    let before = (graph.nodes()?.len(), graph.edges()?.len());
    // SAFETY: the driver or the library refuses the call.
    let work = unsafe { NodeWork::from_parameters(parameters) };
    refused(what, graph.add(dependencies, work), status)?;
    equal(&format!("{what}: nodes and edges"), (graph.nodes()?.len(), graph.edges()?.len()), before)
}

/// The driver's handles of the nodes of a graph.
pub(super) fn handles(environment: &Environment, graph: &Graph) -> Result<Vec<GraphNodeHandle>, Failed> {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    driver.graph_nodes(&context.into(), graph.live()).map_err(|failure| Failed(format!("nodes: {failure}")))
}

/// Why the driver does not instantiate a graph.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) result: GraphInstantiateResult,
    pub(super) node: Option<GraphNodeHandle>,
}

impl Refusal {
    pub(super) fn of(environment: &Environment, graph: &Graph, flags: InstantiateFlags) -> Result<Self, Failed> {
        let (driver, context) = (environment.device().driver(), environment.context().live());
        let failure = match driver.graph_instantiate(&context.into(), graph.live(), flags, None) {
            Ok(executable) => {
                // SAFETY: it was just created, and no other code has its handle.
                let _ = unsafe { driver.executable_destroy(&context.into(), executable) };
                return Err(Failed("the graph could be instantiated".to_owned()));
            }
            Err(failure) => failure,
        };
        match failure.detail.as_deref() {
            Some(&Detail::Instantiate { result, node }) => Ok(Self { status: failure.status, result, node }),
            _ => Err(Failed(format!("the driver gives no reason: {failure}"))),
        }
    }
}

/// Checks that only the caller holds a reference to an object, after all dropped objects have been released. A driver
/// may release what a graph retained a moment after its last launch.
pub(super) fn is_released<T>(environment: &Environment, what: &str, object: &Arc<T>) -> Verdict {
    const ATTEMPTS: u32 = 5000;
    for _ in 0..ATTEMPTS {
        environment.context().synchronize()?;
        flush_deferred_drops();
        if Arc::strong_count(object) == 1 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    equal(what, Arc::strong_count(object), 1)
}

/// Checks that an object is still retained after all dropped objects have been released.
pub(super) fn is_retained<T>(what: &str, object: &Arc<T>) -> Verdict {
    flush_deferred_drops();
    equal(what, Arc::strong_count(object) > 1, true)
}
