//! Graphs and executable graphs.

use super::{Calls, possible, stream_of};
use anabranch::hal::{Live, Result};
use anabranch::{ExecutableGraphHandle, GraphHandle, InstantiateFlags};
use pyo3::prelude::*;

/// Calls for graphs; see Raw. Two threads must not use a graph at the same time.
#[pyclass(frozen, weakref, module = "anabranch.raw")]
pub(crate) struct RawGraphs(pub(super) Calls);

/// A graph of the caller, who promises that it exists and that no other thread uses it.
fn graph_of(graph: usize) -> Result<Live<'static, GraphHandle>> {
    let handle = GraphHandle::from_raw(possible(graph)?);
    // SAFETY: whoever calls a method of this module promises both, as the classes say.
    Ok(unsafe { Live::new(handle) })
}

/// An executable graph of the caller, who promises that it exists and that no other thread uses it.
fn executable_of(executable: usize) -> Result<Live<'static, ExecutableGraphHandle>> {
    let handle = ExecutableGraphHandle::from_raw(possible(executable)?);
    // SAFETY: whoever calls a method of this module promises both, as the classes say.
    Ok(unsafe { Live::new(handle) })
}

#[pymethods]
impl RawGraphs {
    /// Destroys a graph (cuGraphDestroy). Executable graphs made of it can still be launched.
    fn destroy(&self, py: Python<'_>, graph: usize) -> PyResult<()> {
        self.0.make(py, "destroying a graph", |driver, call| {
            // SAFETY: the caller promises that it exists and that nobody uses it any more, as the class says.
            unsafe { driver.graph_destroy(call, GraphHandle::from_raw(possible(graph)?)) }
        })
    }

    /// Makes an executable graph (cuGraphInstantiateWithFlags).
    #[pyo3(signature = (graph, flags = 0))]
    fn instantiate(&self, py: Python<'_>, graph: usize, flags: u32) -> PyResult<usize> {
        let flags = InstantiateFlags::from_bits_retain(flags);
        let executable = self.0.make(py, "instantiating a graph", |driver, call| {
            driver.graph_instantiate(call, graph_of(graph)?, flags, None)
        })?;
        Ok(executable.as_raw())
    }

    /// Destroys an executable graph (cuGraphExecDestroy). Launches that are queued still run.
    fn destroy_executable(&self, py: Python<'_>, executable: usize) -> PyResult<()> {
        self.0.make(py, "destroying an executable graph", |driver, call| {
            // SAFETY: the caller promises that it exists and that nobody uses it any more, as the class says.
            unsafe { driver.executable_destroy(call, ExecutableGraphHandle::from_raw(possible(executable)?)) }
        })
    }

    /// Launches an executable graph in stream order (cuGraphLaunch).
    fn launch(&self, py: Python<'_>, executable: usize, stream: usize) -> PyResult<()> {
        self.0.make(py, "launching a graph", |driver, call| {
            // SAFETY: the caller promises that what the nodes use exists, as the class says.
            unsafe { driver.executable_launch(call, executable_of(executable)?, stream_of(stream)?) }
        })
    }

    /// Prepares the first launch in stream order (cuGraphUpload).
    fn upload(&self, py: Python<'_>, executable: usize, stream: usize) -> PyResult<()> {
        self.0.make(py, "uploading a graph", |driver, call| {
            driver.executable_upload(call, executable_of(executable)?, stream_of(stream)?)
        })
    }

    /// A copy of a graph (cuGraphClone).
    fn clone(&self, py: Python<'_>, graph: usize) -> PyResult<usize> {
        let clone = self.0.make(py, "cloning a graph", |driver, call| driver.graph_clone(call, graph_of(graph)?))?;
        Ok(clone.as_raw())
    }

    /// The number of nodes of a graph (cuGraphGetNodes).
    fn node_count(&self, py: Python<'_>, graph: usize) -> PyResult<usize> {
        self.0.make(py, "listing the nodes of a graph", |driver, call| {
            driver.graph_nodes(call, graph_of(graph)?).map(|nodes| nodes.len())
        })
    }

    /// A graph in the language of Graphviz.
    fn to_dot(&self, py: Python<'_>, graph: usize) -> PyResult<String> {
        let context = self.0.0.clone();
        // The library describes graphs that it owns.
        let copy = self.clone(py, graph)?;
        crate::wait::call(py, || {
            // SAFETY: the copy was just made for this. It never runs.
            unsafe { anabranch::Graph::from_raw(&context, GraphHandle::from_raw(copy)) }.to_dot()
        })
    }
}
