//! What is allocated, and what is still to be freed.

use crate::wait;
use anabranch::MemoryReport;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Waits until what was dropped is freed, except for what work that is not complete uses. Memory that takes long to free is freed on
/// another thread: call this before measuring free memory, and before mapping memory where other memory was unmapped.
#[pyfunction]
pub(crate) fn flush_deferred_drops(py: Python<'_>) -> PyResult<()> {
    wait::for_call(py, || {
        anabranch::flush_deferred_drops();
        Ok(())
    })
}

/// A report as numbers and texts.
pub(crate) fn describe<'py>(py: Python<'py>, report: &MemoryReport) -> PyResult<Bound<'py, PyDict>> {
    let (findings, allocations) = (PyList::empty(py), PyList::empty(py));
    for finding in &report.findings {
        let described = PyDict::new(py);
        described.set_item("kind", finding.kind.to_string())?;
        described.set_item("address", finding.address)?;
        described.set_item("bytes", finding.bytes)?;
        described.set_item("stream", finding.stream)?;
        described.set_item("message", &finding.message)?;
        findings.append(described)?;
    }
    for allocation in &report.allocations {
        let described = PyDict::new(py);
        described.set_item("kind", allocation.kind.to_string())?;
        described.set_item("address", allocation.address)?;
        described.set_item("bytes", allocation.bytes)?;
        described.set_item("stream", allocation.stream)?;
        allocations.append(described)?;
    }
    let described = PyDict::new(py);
    described.set_item("findings", findings)?;
    described.set_item("allocations", allocations)?;
    Ok(described)
}
