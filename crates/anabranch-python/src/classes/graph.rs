//! Graphs.

use crate::classes::completion::Completion;
use crate::classes::context::Context;
use crate::classes::stream::Stream;
use crate::slot::{Lent, Slot};
use crate::wait;
use anabranch::InstantiateFlags;
use pyo3::prelude::*;

/// Work that was captured: nodes, and the order between them.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Graph {
    slot: Slot<anabranch::Graph>,
    id: u64,
}

impl Graph {
    pub(crate) fn new(graph: anabranch::Graph) -> Self {
        let id = graph.id();
        Self { slot: Slot::new("graph", graph), id }
    }

    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> PyResult<Lent<'a, anabranch::Graph>> {
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
        Ok(self.slot.get(py)?.as_raw().as_raw())
    }

    /// The context.
    #[getter]
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        Ok(Context::new(self.slot.get(py)?.context()))
    }

    /// The number of nodes, without those of graphs inside of it.
    #[getter]
    fn node_count(&self, py: Python<'_>) -> PyResult<usize> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.nodes().map(|nodes| nodes.len()))
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
        let executable = wait::call(py, || match &upload {
            Some(stream) => graph.instantiate_and_upload(flags | InstantiateFlags::UPLOAD, stream),
            None => graph.instantiate_with_flags(flags),
        })?;
        Ok(ExecutableGraph::new(executable))
    }

    /// The graph in the language of Graphviz.
    fn to_dot(&self, py: Python<'_>) -> PyResult<String> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.to_dot())
    }

    /// The graph in the language of Mermaid.
    fn to_mermaid(&self, py: Python<'_>) -> PyResult<String> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.to_mermaid())
    }

    /// The nodes and edges as JSON.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.to_json())
    }

    /// A copy of the graph.
    fn clone(&self, py: Python<'_>) -> PyResult<Self> {
        let graph = self.slot.get(py)?;
        wait::call(py, || graph.try_clone()).map(Self::new)
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

/// A graph that can be launched any number of times.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct ExecutableGraph {
    slot: Slot<anabranch::ExecutableGraph>,
    id: u64,
}

impl ExecutableGraph {
    fn new(executable: anabranch::ExecutableGraph) -> Self {
        let id = executable.id();
        Self { slot: Slot::new("executable graph", executable), id }
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
        let (executable, graph) = (self.slot.get(py)?, graph.get().slot.get(py)?);
        wait::call(py, || executable.update(&graph).map_err(anabranch::Error::from))
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
