//! Driver calls on graphs, for what the library makes impossible or does not tell. Nothing here is ever launched.

use crate::case::{Failed, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{AddedNode, Call, Dependency, Detail, Driver, Edge, ExecutableGraphHandle, Failure, Live};
use anabranch::{
    ConditionalHandle, EdgeData, GraphHandle, GraphInstantiateResult, GraphNodeHandle, GraphUpdateResult,
    InstantiateFlags, NodeParameters, Status, Stream, StreamHandle,
};
use std::cell::RefCell;

/// A graph of the driver's, whose nodes are named by their places in the order in which they were added.
pub(super) struct RawGraph<'a> {
    environment: &'a Environment,
    handle: GraphHandle,
    /// The graph of a node is destroyed with the node.
    owned: bool,
    /// Those that were removed are none.
    nodes: RefCell<Vec<Option<AddedNode>>>,
}

/// An executable graph of the driver's.
pub(super) struct RawExecutable<'a> {
    environment: &'a Environment,
    handle: ExecutableGraphHandle,
}

/// The reason of a failed instantiation: the status, the result and the node.
pub(super) type Refusal = (Status, Option<GraphInstantiateResult>, Option<GraphNodeHandle>);

fn driver(environment: &Environment) -> &dyn Driver {
    &**environment.device().driver()
}

fn call(environment: &Environment) -> Call<'_> {
    environment.context().live().into()
}

fn no_node() -> Failed {
    Failed("the case names a node that does not exist".to_owned())
}

impl<'a> RawGraph<'a> {
    pub(super) fn new(environment: &'a Environment) -> Result<Self, Failed> {
        let handle = driver(environment).graph_create(&call(environment));
        let handle = handle.map_err(|failure| Failed(format!("creating a graph: {failure}")))?;
        Ok(Self::of(environment, handle, true))
    }

    fn of(environment: &'a Environment, handle: GraphHandle, owned: bool) -> Self {
        Self { environment, handle, owned, nodes: RefCell::default() }
    }

    /// A graph of empty nodes, each of which depends on the one before.
    pub(super) fn row(environment: &'a Environment, count: usize) -> Result<Self, Failed> {
        let graph = Self::new(environment)?;
        for place in 0..count {
            let after: Vec<usize> = place.checked_sub(1).into_iter().collect();
            graph.must_add(&after, NodeParameters::Empty)?;
        }
        Ok(graph)
    }

    pub(super) fn handle(&self) -> GraphHandle {
        self.handle
    }

    pub(super) fn live(&self) -> Live<'_, GraphHandle> {
        // SAFETY: the graph, or that of its node, is destroyed when this is dropped, and this is used on one thread.
        unsafe { Live::new(self.handle) }
    }

    pub(super) fn node(&self, place: usize) -> Result<GraphNodeHandle, Failed> {
        self.nodes.borrow().get(place).and_then(Option::as_ref).map(|added| added.node).ok_or_else(no_node)
    }

    fn live_node(&self, place: usize) -> Result<Live<'_, GraphNodeHandle>, Failed> {
        // SAFETY: the node was added, and was not removed.
        self.node(place).map(|node| unsafe { Live::new(node) })
    }

    /// A graph that a conditional node of this one runs.
    pub(super) fn body(&self, place: usize, number: usize) -> Result<RawGraph<'_>, Failed> {
        let nodes = self.nodes.borrow();
        let body = nodes.get(place).and_then(Option::as_ref).and_then(|added| added.bodies.get(number));
        body.map(|&body| RawGraph::of(self.environment, body, false)).ok_or_else(no_node)
    }

    /// Adds a node behind others, whose edges have data. The objects of the parameters are the case's, and live longer.
    pub(super) fn add_with(
        &self,
        after: &[(usize, EdgeData)],
        parameters: &NodeParameters,
    ) -> Result<Result<AddedNode, Status>, Failed> {
        let dependency = |&(place, data): &(usize, EdgeData)| Ok(Dependency { node: self.node(place)?, data });
        let after = after.iter().map(dependency).collect::<Result<Vec<_>, Failed>>()?;
        let environment = self.environment;
        // SAFETY: the nodes are in the graph. The objects live longer than it, and nothing launches it.
        let added = unsafe { driver(environment).graph_add_node(&call(environment), self.live(), &after, parameters) };
        if let Ok(added) = &added {
            self.nodes.borrow_mut().push(Some(added.clone()));
        }
        Ok(added.map_err(|failure| failure.status))
    }

    /// Adds a node behind others. The objects of the parameters are the case's, and live longer.
    pub(super) fn add(
        &self,
        after: &[usize],
        parameters: &NodeParameters,
    ) -> Result<Result<AddedNode, Status>, Failed> {
        let after: Vec<_> = after.iter().map(|&place| (place, EdgeData::default())).collect();
        self.add_with(&after, parameters)
    }

    /// A new value for a conditional node.
    pub(super) fn value(&self) -> Result<ConditionalHandle, Failed> {
        let made = driver(self.environment).graph_conditional_create(&call(self.environment), self.live(), Some(0));
        made.map_err(|failure| Failed(format!("creating a value: {failure}")))
    }

    /// Adds a node that must be accepted.
    pub(super) fn must_add(&self, after: &[usize], parameters: NodeParameters) -> Result<AddedNode, Failed> {
        let kind = parameters.kind();
        self.add(after, &parameters)?.map_err(|status| Failed(format!("adding a node of kind {kind}: {status:?}")))
    }

    /// Checks that a node is refused, and that the graph keeps the nodes and edges that it has.
    pub(super) fn refuses(
        &self,
        what: &str,
        after: &[(usize, EdgeData)],
        parameters: &NodeParameters,
        status: Status,
    ) -> Verdict {
        let before = self.counts()?;
        let found = self.add_with(after, parameters)?.map(|_| ());
        equal(what, found, Err(status))?;
        equal(&format!("{what}: nodes and edges"), self.counts()?, before)
    }

    /// How many nodes and edges the driver lists.
    pub(super) fn counts(&self) -> Result<(usize, usize), Failed> {
        let (driver, call) = (driver(self.environment), call(self.environment));
        let failed = |failure: Failure| Failed(format!("listing a graph: {failure}"));
        let nodes = driver.graph_nodes(&call, self.live()).map_err(failed)?;
        Ok((nodes.len(), driver.graph_edges(&call, self.live()).map_err(failed)?.len()))
    }

    /// The data of the edges, in the order in which the driver lists them.
    pub(super) fn edge_data(&self) -> Result<Vec<EdgeData>, Failed> {
        let edges = driver(self.environment).graph_edges(&call(self.environment), self.live());
        let edges = edges.map_err(|failure| Failed(format!("listing edges: {failure}")))?;
        Ok(edges.iter().map(|edge| edge.data).collect())
    }

    pub(super) fn remove(&self, place: usize) -> Result<Status, Failed> {
        let node = self.node(place)?;
        // SAFETY: the node was added, and nobody names it any more if it is removed.
        let status = status_of(unsafe { driver(self.environment).graph_destroy_node(&call(self.environment), node) });
        if status == Status::SUCCESS
            && let Some(removed) = self.nodes.borrow_mut().get_mut(place)
        {
            *removed = None;
        }
        Ok(status)
    }

    fn edges(&self, edges: &[(usize, usize, EdgeData)]) -> Result<Vec<Edge>, Failed> {
        let edge = |&(from, to, data): &_| Ok(Edge { from: self.node(from)?, to: self.node(to)?, data });
        edges.iter().map(edge).collect()
    }

    pub(super) fn connect(&self, edges: &[(usize, usize, EdgeData)]) -> Result<Status, Failed> {
        let (driver, call, edges) = (driver(self.environment), call(self.environment), self.edges(edges)?);
        // SAFETY: the nodes are in the graph.
        Ok(status_of(unsafe { driver.graph_add_edges(&call, self.live(), &edges) }))
    }

    pub(super) fn disconnect(&self, edges: &[(usize, usize, EdgeData)]) -> Result<Status, Failed> {
        let (driver, call, edges) = (driver(self.environment), call(self.environment), self.edges(edges)?);
        // SAFETY: the nodes are in the graph.
        Ok(status_of(unsafe { driver.graph_remove_edges(&call, self.live(), &edges) }))
    }

    /// Replaces the parameters of a node. The objects of the new ones are the case's, and live longer.
    pub(super) fn set(&self, place: usize, parameters: &NodeParameters) -> Result<Status, Failed> {
        let (driver, call, node) = (driver(self.environment), call(self.environment), self.live_node(place)?);
        // SAFETY: the objects live longer than the graph, and nothing launches it.
        Ok(status_of(unsafe { driver.graph_node_set_parameters(&call, node, parameters) }))
    }

    pub(super) fn parameters(&self, place: usize) -> Result<Result<NodeParameters, Status>, Failed> {
        let (driver, call) = (driver(self.environment), call(self.environment));
        Ok(driver.graph_node_parameters(&call, self.live_node(place)?).map_err(|failure| failure.status))
    }

    /// Adds a node below a node of any graph: the status.
    pub(super) fn add_below(&self, node: GraphNodeHandle, parameters: &NodeParameters) -> Status {
        let below = [Dependency { node, data: EdgeData::default() }];
        let environment = self.environment;
        // SAFETY: the case keeps the graph of the node. The objects of the parameters live longer, and nothing launches this.
        let added = unsafe { driver(environment).graph_add_node(&call(environment), self.live(), &below, parameters) };
        status_of(added)
    }

    /// Clones the graph. The clone's nodes are not named.
    fn cloned(&self) -> anabranch::hal::Result<Self> {
        let clone = driver(self.environment).graph_clone(&call(self.environment), self.live());
        clone.map(|handle| Self::of(self.environment, handle, true))
    }

    /// The status of cloning the graph. The clone is destroyed.
    pub(super) fn try_clone(&self) -> Status {
        status_of(self.cloned())
    }

    /// A clone, which must be made.
    pub(super) fn must_clone(&self) -> Result<Self, Failed> {
        self.cloned().map_err(|failure| Failed(format!("cloning: {failure}")))
    }

    /// Adds the graph to a new one as a child.
    pub(super) fn become_child(&self) -> Result<Status, Failed> {
        let parent = Self::new(self.environment)?;
        let added = parent.add(&[], &NodeParameters::Child(self.handle))?;
        Ok(added.err().unwrap_or(Status::SUCCESS))
    }

    /// Instantiates the graph.
    pub(super) fn instantiate(
        &self,
        flags: InstantiateFlags,
        upload: Option<&Stream>,
    ) -> Result<RawExecutable<'a>, Refusal> {
        let (environment, upload) = (self.environment, upload.map(Owner::live));
        let made = driver(environment).graph_instantiate(&call(environment), self.live(), flags, upload);
        made.map(|handle| RawExecutable { environment, handle }).map_err(|failure| match failure.detail.as_deref() {
            Some(&Detail::Instantiate { result, node }) => (failure.status, Some(result), node),
            _ => (failure.status, None, None),
        })
    }

    /// Instantiates the graph, which must succeed.
    pub(super) fn must_instantiate(&self) -> Result<RawExecutable<'a>, Failed> {
        self.instantiate(InstantiateFlags::empty(), None)
            .map_err(|refusal| Failed(format!("instantiating: {refusal:?}")))
    }

    /// The status of instantiating the graph. The executable graph is destroyed.
    pub(super) fn try_instantiate(&self) -> Status {
        self.instantiate(InstantiateFlags::empty(), None).map_or_else(|(status, ..)| status, |_| Status::SUCCESS)
    }
}

impl Drop for RawGraph<'_> {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: the graph was made for this, and nobody else names it.
            let _ = unsafe { driver(self.environment).graph_destroy(&call(self.environment), self.handle) };
        }
    }
}

impl RawExecutable<'_> {
    fn live(&self) -> Live<'_, ExecutableGraphHandle> {
        // SAFETY: it is destroyed when this is dropped, and this is used on one thread.
        unsafe { Live::new(self.handle) }
    }

    /// The status of launching it.
    pub(super) fn launch(&self, stream: &Stream) -> Status {
        self.launch_in(Owner::live(stream))
    }

    /// The status of launching it in a stream that the library does not know.
    pub(super) fn launch_in(&self, stream: Live<'_, StreamHandle>) -> Status {
        let (driver, call) = (driver(self.environment), call(self.environment));
        // SAFETY: the nodes use nothing that the case does not keep until the launch is complete.
        status_of(unsafe { driver.executable_launch(&call, self.live(), stream) })
    }

    /// Updates the executable graph: the status, and the reason and the node if there are some.
    pub(super) fn update(&self, graph: &RawGraph<'_>) -> (Status, Option<GraphUpdateResult>, Option<GraphNodeHandle>) {
        let (driver, call) = (driver(self.environment), call(self.environment));
        // SAFETY: what the nodes use is the case's, and nothing launches this.
        reason(unsafe { driver.executable_update(&call, self.live(), graph.live()) })
    }

    /// Replaces the parameters of a node. The objects of the new ones are the case's, and live longer.
    pub(super) fn set(
        &self,
        graph: &RawGraph<'_>,
        place: usize,
        parameters: &NodeParameters,
    ) -> Result<(Status, Option<GraphUpdateResult>, Option<GraphNodeHandle>), Failed> {
        let (driver, call, node) = (driver(self.environment), call(self.environment), graph.live_node(place)?);
        // SAFETY: the objects live longer than this, and nothing launches it.
        Ok(reason(unsafe { driver.executable_set_node_parameters(&call, self.live(), node, parameters) }))
    }
}

fn reason(result: anabranch::hal::Result<()>) -> (Status, Option<GraphUpdateResult>, Option<GraphNodeHandle>) {
    let Err(failure) = result else { return (Status::SUCCESS, None, None) };
    match failure.detail.as_deref() {
        Some(&Detail::Update { result, node }) => (failure.status, Some(result), node),
        _ => (failure.status, None, None),
    }
}

impl Drop for RawExecutable<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made for this, and nobody else names it.
        let _ = unsafe { driver(self.environment).executable_destroy(&call(self.environment), self.handle) };
    }
}
