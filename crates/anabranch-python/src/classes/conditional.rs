//! Conditional nodes, and others that are added to a graph while it is captured by two calls.

use crate::classes::capture::mode_of;
use crate::classes::graph::Graph;
use crate::classes::open_stream::OpenStream;
use crate::wait;
use anabranch::{CaptureMode, ConditionalKind, Node, NodeWork, Result, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The value that decides what a conditional node of a graph runs. A kernel of the graph sets it by
/// `cudaGraphSetConditional(handle, value)`, and gets the handle as an argument of 64 bits.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Conditional {
    pub(crate) value: anabranch::Conditional,
}

#[pymethods]
impl Conditional {
    /// The handle, which is valid as long as the graph.
    #[getter]
    fn handle(&self) -> u64 {
        self.value.as_raw().0
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.Conditional {:#x}>", self.handle())
    }
}

/// A conditional node that was added to a capture. `Stream.end_capture` takes what its bodies are.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct ConditionalNode {
    pub(crate) node: Node,
    /// The number of bodies.
    #[pyo3(get)]
    bodies: u32,
}

#[pymethods]
impl ConditionalNode {
    fn __repr__(&self) -> String {
        format!("<anabranch.ConditionalNode of {} bodies>", self.bodies)
    }
}

/// Adds to the graph that a stream captures: ends the capture, changes the graph, and captures into it behind the nodes that
/// `change` returns, or behind those that came last. All streams of the capture have been joined.
fn change<T>(
    stream: &Stream,
    mode: CaptureMode,
    change: impl FnOnce(&mut anabranch::Graph, &[(Node, anabranch::EdgeData)]) -> Result<(T, Option<Node>)>,
) -> Result<T> {
    let last = stream.capture_info()?.dependencies;
    let mut graph = stream.end_capture()?;
    let changed = change(&mut graph, &last);
    let resumed = match &changed {
        Ok((_, Some(node))) => stream.begin_capture_to_graph(graph, *node, mode),
        _ => stream.begin_capture_to_graph(graph, &last[..], mode),
    };
    // The error of the change comes first: it is the reason, and the capture goes on without it.
    let (value, _) = changed?;
    resumed.map_err(|(error, _)| error)?;
    Ok(value)
}

pub(crate) fn kind_of(text: &str) -> PyResult<ConditionalKind> {
    match text {
        "if" => Ok(ConditionalKind::If),
        "while" => Ok(ConditionalKind::While),
        "switch" => Ok(ConditionalKind::Switch),
        _ => {
            Err(PyValueError::new_err(format!("there is no kind {text:?}; there are \"if\", \"while\" and \"switch\"")))
        }
    }
}

pub(crate) fn create(py: Python<'_>, stream: &OpenStream, default: Option<u32>, mode: &str) -> PyResult<Conditional> {
    let mode = mode_of(mode)?;
    let value = wait::call(py, || change(stream, mode, |graph, _| Ok((graph.create_conditional(default)?, None))))?;
    Ok(Conditional { value })
}

pub(crate) fn add(
    py: Python<'_>,
    stream: &OpenStream,
    conditional: &Conditional,
    kind: &str,
    bodies: u32,
    mode: &str,
) -> PyResult<ConditionalNode> {
    let (kind, mode, value) = (kind_of(kind)?, mode_of(mode)?, conditional.value);
    let node = wait::call(py, || {
        change(stream, mode, |graph, last| {
            let node = graph.add_conditional(last, value, kind, bodies)?;
            Ok((node, Some(node)))
        })
    })?;
    Ok(ConditionalNode { node, bodies })
}

pub(crate) fn add_child(py: Python<'_>, stream: &OpenStream, child: &Graph, mode: &str) -> PyResult<()> {
    let (child, mode) = (child.get(py)?, mode_of(mode)?);
    wait::call(py, || {
        change(stream, mode, |graph, last| {
            let node = child.read(|child| graph.add(last, NodeWork::child(child)))?;
            Ok(((), Some(node)))
        })
    })
}

/// The graph of a body, the node, and which of its bodies it becomes.
pub(crate) type Body<'py> = (Bound<'py, ConditionalNode>, usize, Bound<'py, Graph>);

/// Ends a capture, and fills bodies of its conditional nodes.
pub(crate) fn end_capture(py: Python<'_>, stream: &OpenStream, bodies: &[Body<'_>]) -> PyResult<Graph> {
    let parts = bodies
        .iter()
        .map(|(node, index, part)| Ok((node.get().node, *index, part.get().get(py)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let graph = wait::call(py, || {
        let mut graph = stream.end_capture()?;
        for (node, index, part) in &parts {
            part.read(|part| graph.body(*node, *index)?.add((), NodeWork::child(part)))?;
        }
        Ok(graph)
    })?;
    Ok(Graph::new(graph))
}
