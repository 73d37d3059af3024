//! Graphs that can be launched.

use crate::classes::completion::Completion;
use crate::classes::context::Context;
use crate::classes::graph::Graph;
use crate::classes::node_work::NodeWork;
use crate::classes::open_graph::GraphNode;
use crate::classes::stream::Stream;
use crate::slot::{Lent, Slot};
use crate::wait;
use pyo3::prelude::*;

/// A graph that can be launched any number of times.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct ExecutableGraph {
    slot: Slot<anabranch::ExecutableGraph>,
    id: u64,
}

impl ExecutableGraph {
    pub(crate) fn new(executable: anabranch::ExecutableGraph) -> Self {
        let id = executable.id();
        Self { slot: Slot::new("executable graph", executable), id }
    }

    /// The executable graph, if it is open.
    #[inline]
    pub(crate) fn peek<'a>(&'a self, py: Python<'a>) -> Option<Lent<'a, anabranch::ExecutableGraph>> {
        self.slot.peek(py)
    }
}

#[pymethods]
impl ExecutableGraph {
    /// An id that is unique in the process and never reused.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// The handle of the driver.
    #[getter]
    fn handle(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.slot.get(py)?.as_raw().as_raw())
    }

    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.slot.get(py)?.context()))
    }

    /// Launches the graph in stream order. Launches of the same graph follow each other.
    fn launch(&self, py: Python<'_>, stream: &Bound<'_, Stream>) -> PyResult<()> {
        let (executable, stream) = (self.slot.get(py)?, stream.get().get(py)?);
        wait::call(py, || executable.launch(&stream))
    }

    /// Launches the graph. The result is an awaitable that is ready when the launch, and all work before it in the stream, is
    /// complete.
    fn launch_async(&self, py: Python<'_>, stream: &Bound<'_, Stream>) -> PyResult<Completion> {
        let (executable, stream) = (self.slot.get(py)?, stream.get().get(py)?);
        let completion = wait::call(py, || Ok(executable.launch_async(&stream)))?;
        Ok(Completion::of_work(completion))
    }

    /// Prepares the first launch in the order of a stream.
    fn upload(&self, py: Python<'_>, stream: &Bound<'_, Stream>) -> PyResult<()> {
        let (executable, stream) = (self.slot.get(py)?, stream.get().get(py)?);
        wait::call(py, || executable.upload(&stream))
    }

    /// Takes over the parameters of a graph with the same nodes and edges, for later launches.
    fn update(&self, py: Python<'_>, graph: &Bound<'_, Graph>) -> PyResult<()> {
        let (executable, graph) = (self.slot.get(py)?, graph.get().get(py)?);
        wait::call(py, || graph.read(|graph| executable.update(graph).map_err(anabranch::Error::from)))
    }

    /// Replaces the work of a node of the graph that this was made of, for later launches. It is of the same kind.
    fn set_node(&self, py: Python<'_>, node: &Bound<'_, GraphNode>, work: &Bound<'_, NodeWork>) -> PyResult<()> {
        let (executable, node, work) = (self.slot.get(py)?, node.get().0, work.get().lend(py));
        work.set_in_executable(py, &executable, node)
    }

    /// Lets later launches run a kernel, a copy or a fill, or leave it out.
    fn set_node_enabled(&self, py: Python<'_>, node: &Bound<'_, GraphNode>, enabled: bool) -> PyResult<()> {
        let (executable, node) = (self.slot.get(py)?, node.get().0);
        wait::call(py, || executable.set_node_enabled(node, enabled))
    }

    /// Whether launches run a kernel, a copy or a fill.
    fn is_node_enabled(&self, py: Python<'_>, node: &Bound<'_, GraphNode>) -> PyResult<bool> {
        let (executable, node) = (self.slot.get(py)?, node.get().0);
        wait::call(py, || executable.is_node_enabled(node))
    }

    /// Destroys the executable graph, behind its last launch.
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
        format!("<anabranch.ExecutableGraph {}{closed}>", self.id)
    }
}
