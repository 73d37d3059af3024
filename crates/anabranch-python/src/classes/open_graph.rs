//! Graphs and the bodies of their conditional nodes, as threads of Python share them.

use crate::dtype::{DType, Element, TypedCall};
use crate::few::Few;
use crate::memory::{Memory, count};
use anabranch::{BodyGraph, Conditional, ConditionalKind, Error, GraphEdge, Node, NodeWork, Result, Status};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A graph or a body that a thread uses. Both have the same methods.
pub(crate) enum Edited<'a> {
    Graph(&'a mut anabranch::Graph),
    Body(BodyGraph<'a>),
}

macro_rules! either {
    ($this:expr, $graph:ident => $result:expr) => {
        match $this {
            Self::Graph($graph) => $result,
            Self::Body($graph) => $result,
        }
    };
}

impl Edited<'_> {
    pub(crate) fn graph(&self) -> &anabranch::Graph {
        either!(self, graph => graph)
    }

    pub(crate) fn add(&mut self, dependencies: &[Node], work: NodeWork<'_>) -> Result<Node> {
        either!(self, graph => graph.add(dependencies, work))
    }

    /// # Safety
    /// As for [`anabranch::Graph::add_allocation`].
    pub(crate) unsafe fn add_allocation<T: bytemuck::Pod>(
        &mut self,
        dependencies: &[Node],
        length: usize,
    ) -> Result<(Node, anabranch::Buffer<T>)> {
        // SAFETY: the caller promises the same.
        either!(self, graph => unsafe { graph.add_allocation(dependencies, length) })
    }

    pub(crate) fn add_conditional(
        &mut self,
        dependencies: &[Node],
        conditional: Conditional,
        kind: ConditionalKind,
        bodies: u32,
    ) -> Result<Node> {
        either!(self, graph => graph.add_conditional(dependencies, conditional, kind, bodies))
    }

    pub(crate) fn create_conditional(&mut self, default: Option<u32>) -> Result<Conditional> {
        either!(self, graph => graph.create_conditional(default))
    }

    pub(crate) fn set_node(&mut self, node: Node, work: NodeWork<'_>) -> Result<()> {
        either!(self, graph => graph.set_node(node, work))
    }

    pub(crate) fn remove_node(&mut self, node: Node) -> Result<()> {
        either!(self, graph => graph.remove_node(node))
    }

    pub(crate) fn add_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
        either!(self, graph => graph.add_edges(edges))
    }

    pub(crate) fn remove_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
        either!(self, graph => graph.remove_edges(edges))
    }

    pub(crate) fn body(&mut self, node: Node, index: usize) -> Result<BodyGraph<'_>> {
        either!(self, graph => graph.body(node, index))
    }
}

/// A graph, or the body of a conditional node within it, which keeps it. One thread at a time uses a graph.
pub(crate) struct OpenGraph {
    root: Arc<Mutex<anabranch::Graph>>,
    /// The node and the number of each body on the way to this one.
    path: Vec<(Node, usize)>,
    pub(crate) id: u64,
    pub(crate) handle: usize,
    pub(crate) context: anabranch::Context,
}

impl OpenGraph {
    pub(crate) fn new(graph: anabranch::Graph) -> Self {
        let (id, handle, context) = (graph.id(), graph.as_raw().as_raw(), graph.context());
        Self { root: Arc::new(Mutex::new(graph)), path: Vec::new(), id, handle, context }
    }

    /// The body of a node.
    pub(crate) fn body(&self, node: Node, index: usize) -> Result<Self> {
        let (id, handle) = self.edit(|graph| {
            let body = graph.body(node, index)?;
            Ok((body.id(), body.as_raw().as_raw()))
        })?;
        let mut path = self.path.clone();
        path.push((node, index));
        Ok(Self { root: self.root.clone(), path, id, handle, context: self.context.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, anabranch::Graph> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses the graph, when no other thread does. Called without the interpreter.
    pub(crate) fn edit<R>(&self, edit: impl FnOnce(&mut Edited<'_>) -> Result<R>) -> Result<R> {
        descend(&mut Edited::Graph(&mut self.lock()), &self.path, edit)
    }

    /// Reads the graph, when no other thread uses it. Called without the interpreter.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&anabranch::Graph) -> Result<R>) -> Result<R> {
        self.edit(|graph| read(graph.graph()))
    }

    /// Adds an allocation. Called without the interpreter.
    pub(crate) fn add_allocation(
        &self,
        dependencies: &[Node],
        dtype: DType,
        shape: &[usize],
    ) -> Result<(Node, Memory)> {
        struct Add<'a>(&'a OpenGraph, &'a [Node], usize);

        impl TypedCall for Add<'_> {
            type Output = Result<(Node, Memory)>;

            fn call<T: Element>(self) -> Self::Output {
                // SAFETY: that elements are read only after they were written, the program promises: all types of elements are
                // valid with any bits, so that what is read otherwise is unspecified and nothing worse.
                let (node, buffer) = self.0.edit(|graph| unsafe { graph.add_allocation::<T>(self.1, self.2) })?;
                Ok((node, Memory::of(buffer)))
            }
        }

        dtype.with(Add(self, dependencies, count(dtype, shape)?))
    }

    /// Uses the graph and reads another one, which becomes a part of it.
    pub(crate) fn edit_with<R>(
        &self,
        other: &Self,
        edit: impl FnOnce(&mut Edited<'_>, &anabranch::Graph) -> Result<R>,
    ) -> Result<R> {
        if Arc::ptr_eq(&self.root, &other.root) {
            let message = "a graph cannot be a child of itself, or of what it contains";
            let error = Error::argument(Status::INVALID_VALUE, "adding a graph to a graph", message);
            return Err(error.with_hint("clone it first"));
        }
        // All take the locks of two graphs in the same order.
        let early = (Arc::as_ptr(&self.root) < Arc::as_ptr(&other.root)).then(|| self.lock());
        let mut inner = other.lock();
        let mut outer = early.unwrap_or_else(|| self.lock());
        descend(&mut Edited::Graph(&mut inner), &other.path, |inner| {
            descend(&mut Edited::Graph(&mut outer), &self.path, |outer| edit(outer, inner.graph()))
        })
    }
}

fn descend<R>(
    graph: &mut Edited<'_>,
    path: &[(Node, usize)],
    edit: impl FnOnce(&mut Edited<'_>) -> Result<R>,
) -> Result<R> {
    match path.split_first() {
        None => edit(graph),
        Some((&(node, index), rest)) => descend(&mut Edited::Body(graph.body(node, index)?), rest, edit),
    }
}

/// A node of a graph, or of the body of a conditional node.
#[pyclass(frozen, eq, hash, name = "Node", module = "anabranch")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GraphNode(pub(crate) Node);

#[pymethods]
impl GraphNode {
    /// The id of its graph.
    #[getter]
    fn graph_id(&self) -> u64 {
        self.0.graph()
    }

    /// Its number within its graph, from 0. Numbers are not reused.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.Node {} of graph {}>", self.0.number(), self.0.graph())
    }
}

/// The nodes that a new one depends on: None, a node, or a sequence of nodes.
pub(crate) fn nodes_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<Node>> {
    if object.is_none() {
        return Ok(Vec::new());
    }
    if let Ok(node) = object.cast::<GraphNode>() {
        return Ok(vec![node.get().0]);
    }
    let Few(nodes) = object.extract::<Few<Py<GraphNode>>>()?;
    Ok(nodes.iter().map(|node| node.get().0).collect())
}
