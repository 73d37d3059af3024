//! Graphs: captured, or built by hand.

use crate::classes::buffer::Buffer;
use crate::classes::conditional::{Conditional, kind_of};
use crate::classes::context::Context;
use crate::classes::event::Event;
use crate::classes::executable::ExecutableGraph;
use crate::classes::node_parameters;
use crate::classes::node_work::NodeWork;
use crate::classes::open_graph::{GraphNode, OpenGraph, nodes_of};
use crate::classes::stream::Stream;
use crate::dtype::DType;
use crate::few::Few;
use crate::memory::{View, extents};
use crate::slot::{Lent, Slot};
use crate::wait;
use anabranch::{DevicePointer, EdgeData, GraphEdge, InstantiateFlags, Node};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Work that is described once and launched many times: nodes, and the order between them. Captured from a stream, or built by
/// hand.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Graph {
    slot: Slot<OpenGraph>,
    id: u64,
}

/// A node, and one that runs behind it.
type Edge = (Py<GraphNode>, Py<GraphNode>);

fn edges_of(edges: &Few<Edge>) -> Vec<GraphEdge> {
    let edge = |(from, to): &Edge| GraphEdge { from: from.get().0, to: to.get().0, data: EdgeData::default() };
    edges.0.iter().map(edge).collect()
}

fn nodes_to_python(nodes: Vec<Node>) -> Vec<GraphNode> {
    nodes.into_iter().map(GraphNode).collect()
}

impl Graph {
    pub(crate) fn new(graph: anabranch::Graph) -> Self {
        Self::open(OpenGraph::new(graph))
    }

    fn open(graph: OpenGraph) -> Self {
        Self { id: graph.id, slot: Slot::new("graph", graph) }
    }

    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, OpenGraph>> {
        self.slot.get(py)
    }
}

#[pymethods]
impl Graph {
    /// An id that is unique in the process and never reused.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.slot.get(py)?.handle)
    }

    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.slot.get(py)?.context.clone()))
    }

    /// The number of nodes, without those of graphs inside of it.
    #[getter]
    fn node_count(&self, py: Python<'_>) -> PyResult<usize> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.nodes().map(|nodes| nodes.len())))
    }

    /// Makes an executable graph. `upload` is a stream in which it is prepared for its first launch.
    #[pyo3(signature = (*, upload = None, auto_free_on_launch = false, use_node_priority = false))]
    fn instantiate(
        &self,
        py: Python<'_>,
        upload: Option<&Bound<'_, Stream>>,
        auto_free_on_launch: bool,
        use_node_priority: bool,
    ) -> PyResult<ExecutableGraph> {
        let (graph, upload) = (self.slot.get(py)?, upload.map(|stream| stream.get().get(py)).transpose()?);
        let mut flags = InstantiateFlags::empty();
        flags.set(InstantiateFlags::AUTO_FREE_ON_LAUNCH, auto_free_on_launch);
        flags.set(InstantiateFlags::USE_NODE_PRIORITY, use_node_priority);
        let executable = wait::call(py, || {
            graph.read(|graph| match &upload {
                Some(stream) => graph.instantiate_and_upload(flags | InstantiateFlags::UPLOAD, stream),
                None => graph.instantiate_with_flags(flags),
            })
        })?;
        Ok(ExecutableGraph::new(executable))
    }

    /// The graph in the language of Graphviz.
    fn to_dot(&self, py: Python<'_>) -> PyResult<String> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.to_dot()))
    }

    /// The graph in the language of Mermaid.
    fn to_mermaid(&self, py: Python<'_>) -> PyResult<String> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.to_mermaid()))
    }

    /// The nodes and edges as JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.to_json()))
    }

    /// Adds a node that runs behind others: None, a node, or a sequence of nodes.
    fn add(&self, py: Python<'_>, dependencies: &Bound<'_, PyAny>, work: &Bound<'_, NodeWork>) -> PyResult<GraphNode> {
        let (dependencies, work) = (nodes_of(dependencies)?, work.get().lend(py));
        let graph = self.slot.get(py)?;
        work.add_to(py, &graph, &dependencies).map(GraphNode)
    }

    /// Adds an allocation of memory, which has the same address at every launch. Returns the node and the buffer, which nodes
    /// behind the allocation can use; its contents are unspecified at first. `shape` is a number of elements or a sequence of
    /// extents.
    #[pyo3(signature = (dependencies, shape, dtype = None))]
    fn add_allocation(
        &self,
        py: Python<'_>,
        dependencies: &Bound<'_, PyAny>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(GraphNode, Buffer)> {
        let (dependencies, shape) = (nodes_of(dependencies)?, extents(shape)?);
        let dtype = dtype.map_or(Ok(DType::U8), DType::of_python)?;
        let graph = self.slot.get(py)?;
        let (node, memory) = wait::call(py, || graph.add_allocation(&dependencies, dtype, &shape))?;
        Ok((GraphNode(node), Buffer::new(View::whole(memory, dtype, shape))))
    }

    /// Adds a node that frees a buffer of `add_allocation`, behind all nodes that use it.
    fn add_free(
        &self,
        py: Python<'_>,
        dependencies: &Bound<'_, PyAny>,
        buffer: &Bound<'_, Buffer>,
    ) -> PyResult<GraphNode> {
        let (dependencies, view) = (nodes_of(dependencies)?, buffer.get().view(py)?);
        let graph = self.slot.get(py)?;
        let node = wait::call(py, || {
            let address = DevicePointer(view.address()?);
            // SAFETY: that no node uses the memory behind the free or beside it, the program promises. A driver refuses memory
            // that the graph does not allocate.
            graph.edit(|graph| graph.add(&dependencies, unsafe { anabranch::NodeWork::free(address) }))
        })?;
        Ok(GraphNode(node))
    }

    /// Makes a value for a conditional node of this graph. With a default, it is set to that at every launch.
    #[pyo3(signature = (default = None))]
    fn create_conditional(&self, py: Python<'_>, default: Option<u32>) -> PyResult<Conditional> {
        let graph = self.slot.get(py)?;
        let value = wait::call(py, || graph.edit(|graph| graph.create_conditional(default)))?;
        Ok(Conditional { value })
    }

    /// Adds a conditional node. `kind` is "if" (with 1 body, or 2, of which the second runs if the value is 0), "while" or
    /// "switch". `body` returns its bodies.
    #[pyo3(signature = (dependencies, conditional, kind, bodies = 1))]
    fn add_conditional(
        &self,
        py: Python<'_>,
        dependencies: &Bound<'_, PyAny>,
        conditional: &Bound<'_, Conditional>,
        kind: &str,
        bodies: u32,
    ) -> PyResult<GraphNode> {
        let (dependencies, conditional, kind) = (nodes_of(dependencies)?, conditional.get().value, kind_of(kind)?);
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.edit(|graph| graph.add_conditional(&dependencies, conditional, kind, bodies)))
            .map(GraphNode)
    }

    /// A body of a conditional node, counted from 0, to be filled or inspected. It can be neither cloned nor instantiated.
    fn body(&self, py: Python<'_>, node: &Bound<'_, GraphNode>, index: usize) -> PyResult<Self> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        wait::call(py, || graph.body(node, index)).map(Self::open)
    }

    /// Replaces the work of a node by other work of the same kind. Executable graphs do not change.
    fn set_node(&self, py: Python<'_>, node: &Bound<'_, GraphNode>, work: &Bound<'_, NodeWork>) -> PyResult<()> {
        let (graph, node, work) = (self.slot.get(py)?, node.get().0, work.get().lend(py));
        work.set_in(py, &graph, node)
    }

    /// Removes a node and its edges.
    fn remove_node(&self, py: Python<'_>, node: &Bound<'_, GraphNode>) -> PyResult<()> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        wait::call(py, || graph.edit(|graph| graph.remove_node(node)))
    }

    /// Adds edges: pairs of a node, and one that runs behind it.
    fn add_edges(&self, py: Python<'_>, edges: Few<Edge>) -> PyResult<()> {
        let (graph, edges) = (self.slot.get(py)?, edges_of(&edges));
        wait::call(py, || graph.edit(|graph| graph.add_edges(&edges)))
    }

    /// Removes edges by their nodes.
    fn remove_edges(&self, py: Python<'_>, edges: Few<Edge>) -> PyResult<()> {
        let (graph, edges) = (self.slot.get(py)?, edges_of(&edges));
        wait::call(py, || graph.edit(|graph| graph.remove_edges(&edges)))
    }

    /// All nodes.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<GraphNode>> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.nodes())).map(nodes_to_python)
    }

    /// The nodes that run behind no other.
    fn root_nodes(&self, py: Python<'_>) -> PyResult<Vec<GraphNode>> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.root_nodes())).map(nodes_to_python)
    }

    /// All edges: pairs of a node, and one that runs behind it.
    fn edges(&self, py: Python<'_>) -> PyResult<Vec<(GraphNode, GraphNode)>> {
        let graph = self.slot.get(py)?;
        let edges = wait::call(py, || graph.read(|graph| graph.edges()))?;
        Ok(edges.into_iter().map(|edge| (GraphNode(edge.from), GraphNode(edge.to))).collect())
    }

    /// The nodes that a node runs behind. Looks through all edges of the graph, as `edges` does.
    fn dependencies_of(&self, py: Python<'_>, node: &Bound<'_, GraphNode>) -> PyResult<Vec<GraphNode>> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        let found = wait::call(py, || graph.read(|graph| graph.dependencies_of(node)))?;
        Ok(found.into_iter().map(|(node, _)| GraphNode(node)).collect())
    }

    /// The nodes that run behind a node. Looks through all edges of the graph, as `edges` does.
    fn dependents_of(&self, py: Python<'_>, node: &Bound<'_, GraphNode>) -> PyResult<Vec<GraphNode>> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        let found = wait::call(py, || graph.read(|graph| graph.dependents_of(node)))?;
        Ok(found.into_iter().map(|(node, _)| GraphNode(node)).collect())
    }

    /// What a node does, as a word or two: "kernel", "copy", "fill" and so on.
    fn node_kind(&self, py: Python<'_>, node: &Bound<'_, GraphNode>) -> PyResult<String> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        wait::call(py, || graph.read(|graph| graph.node_kind(node).map(|kind| kind.to_string())))
    }

    /// What a node does, as a dict: its "kind", and what the driver says of it by name, such as the "grid" and the "arguments" of
    /// a kernel as bytes, or the "address", "pattern" and "width" of a fill. Handles and addresses are numbers, which are valid as
    /// long as the graph. Changing the dict changes nothing; `set_node` does.
    fn node_parameters<'py>(&self, py: Python<'py>, node: &Bound<'py, GraphNode>) -> PyResult<Bound<'py, PyDict>> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        let parameters = wait::call(py, || graph.read(|graph| graph.node_parameters(node)))?;
        node_parameters::to_python(py, &parameters)
    }

    /// The event that a node records or waits for, which stays usable when the graph has let go of it. None for other nodes, and if
    /// the graph does not keep it, because another library has added the node.
    fn node_event(&self, py: Python<'_>, node: &Bound<'_, GraphNode>) -> PyResult<Option<Event>> {
        let (graph, node) = (self.slot.get(py)?, node.get().0);
        let event = wait::call(py, || graph.read(|graph| graph.node_event(node)))?;
        Ok(event.map(Event::new))
    }

    /// The node of a clone of this graph that was copied from a node of this one.
    fn find_in_clone(
        &self,
        py: Python<'_>,
        node: &Bound<'_, GraphNode>,
        clone: &Bound<'_, Self>,
    ) -> PyResult<GraphNode> {
        let (graph, node, clone) = (self.slot.get(py)?, node.get().0, clone.get().slot.get(py)?);
        wait::call(py, || graph.edit_with(&clone, |graph, clone| graph.graph().find_in_clone(node, clone)))
            .map(GraphNode)
    }

    /// A copy of the graph.
    fn clone(&self, py: Python<'_>) -> PyResult<Self> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.read(|graph| graph.try_clone())).map(Self::new)
    }

    /// Destroys the graph. Executable graphs made of it can still be launched.
    fn close(&self, py: Python<'_>) {
        self.slot.close(py);
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __exit__(&self, kind: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>, _traceback: &Bound<'_, PyAny>) {
        self.close(kind.py());
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.id == other.get().id)
    }

    fn __hash__(&self) -> u64 {
        self.id
    }

    fn __repr__(&self) -> String {
        let closed = if self.slot.is_open() { "" } else { " (closed)" };
        format!("<anabranch.Graph {}{closed}>", self.id)
    }
}
