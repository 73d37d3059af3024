//! What nodes of graphs do, as data.

use anabranch::hal::{BarrierScope, CopyPlace, KernelNode, Reduction, Value, ValueOperation, WaitValueFlags};
use anabranch::{ConditionalKind, FillPattern, NodeParameters};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// The parameters of a node by their names.
pub(crate) fn to_python<'py>(py: Python<'py>, parameters: &NodeParameters) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("kind", parameters.kind().to_string())?;
    match parameters {
        NodeParameters::Kernel(kernel) => set_kernel(&found, kernel)?,
        NodeParameters::Copy(copy) => {
            found.set_item("source", place(py, &copy.source)?)?;
            found.set_item("destination", place(py, &copy.destination)?)?;
            found.set_item("extent", PyTuple::new(py, copy.extent)?)?;
        }
        NodeParameters::Fill(fill) => {
            let pattern = match fill.pattern {
                FillPattern::U8(value) => PyBytes::new(py, &value.to_le_bytes()),
                FillPattern::U16(value) => PyBytes::new(py, &value.to_le_bytes()),
                FillPattern::U32(value) => PyBytes::new(py, &value.to_le_bytes()),
                FillPattern::U64(value) => PyBytes::new(py, &value.to_le_bytes()),
            };
            found.set_item("address", fill.address.0)?;
            found.set_item("pattern", pattern)?;
            found.set_item("width", fill.width)?;
            found.set_item("height", fill.height)?;
            found.set_item("pitch", fill.pitch)?;
        }
        NodeParameters::Child(graph) => found.set_item("graph", graph.as_raw())?,
        NodeParameters::EventWait(event) | NodeParameters::EventRecord(event) => {
            found.set_item("event", event.as_raw())?;
        }
        NodeParameters::ExternalSignal(operations) | NodeParameters::ExternalWait(operations) => {
            let values: Vec<_> = operations.iter().map(|each| (each.semaphore.as_raw(), each.value)).collect();
            found.set_item("semaphores", values)?;
        }
        NodeParameters::Allocate(allocation) => {
            found.set_item("address", allocation.address.0)?;
            found.set_item("bytes", allocation.bytes)?;
            found.set_item("device", allocation.device.0)?;
            found.set_item("access", allocation.access.iter().map(|device| device.0).collect::<Vec<_>>())?;
        }
        NodeParameters::Free(address) => found.set_item("address", address.0)?,
        NodeParameters::ValueOperations(operations) => {
            let operations: PyResult<Vec<_>> = operations.iter().map(|each| operation(py, each)).collect();
            found.set_item("operations", operations?)?;
        }
        NodeParameters::Conditional(conditional) => {
            let condition = match conditional.kind {
                ConditionalKind::If => "if",
                ConditionalKind::While => "while",
                ConditionalKind::Switch => "switch",
            };
            found.set_item("condition", condition)?;
            found.set_item("bodies", conditional.bodies.iter().map(|body| body.as_raw()).collect::<Vec<_>>())?;
        }
        // A host function is known to the driver only, and an empty node has none.
        _ => {}
    }
    Ok(found)
}

fn set_kernel(found: &Bound<'_, PyDict>, kernel: &KernelNode) -> PyResult<()> {
    let py = found.py();
    found.set_item("function", kernel.function.as_raw())?;
    found.set_item("grid", PyTuple::new(py, kernel.grid)?)?;
    found.set_item("block", PyTuple::new(py, kernel.block)?)?;
    found.set_item("cluster", kernel.cluster.map(|cluster| PyTuple::new(py, cluster)).transpose()?)?;
    found.set_item("shared_bytes", kernel.dynamic_shared_bytes)?;
    found.set_item("cooperative", kernel.cooperative)?;
    found.set_item("priority", kernel.priority)?;
    let arguments: Vec<_> = kernel.arguments.iter().map(|bytes| PyBytes::new(py, bytes)).collect();
    found.set_item("arguments", arguments)
}

fn place<'py>(py: Python<'py>, place: &CopyPlace) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    found.set_item("address", place.address)?;
    found.set_item("is_host", place.host)?;
    found.set_item("pitch", place.pitch)?;
    found.set_item("height", place.height)?;
    found.set_item("origin", PyTuple::new(py, place.origin)?)?;
    Ok(found)
}

fn operation<'py>(py: Python<'py>, operation: &ValueOperation) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    let set_value = |address: u64, value: &Value| {
        let (value, bytes) = match *value {
            Value::U32(value) => (u64::from(value), size_of::<u32>()),
            Value::U64(value) => (value, size_of::<u64>()),
        };
        found.set_item("address", address)?;
        found.set_item("value", value)?;
        found.set_item("bytes", bytes)
    };
    let name = match operation {
        ValueOperation::Wait { address, value, flags } => {
            set_value(address.0, value)?;
            let number = WaitValueFlags::EQUAL | WaitValueFlags::AND;
            let condition = match *flags & number {
                WaitValueFlags::EQUAL => "equal",
                WaitValueFlags::AND => "and",
                WaitValueFlags::NOR => "nor",
                _ => "greater_or_equal",
            };
            found.set_item("condition", condition)?;
            "wait"
        }
        ValueOperation::Write { address, value, .. } => {
            set_value(address.0, value)?;
            "write"
        }
        ValueOperation::Reduce { address, value, reduction } => {
            set_value(address.0, value)?;
            match reduction {
                Reduction::Or => "or",
                Reduction::And => "and",
                Reduction::Add => "add",
            }
        }
        ValueOperation::Barrier { scope: BarrierScope::System } => "barrier",
        ValueOperation::Barrier { scope: BarrierScope::Device } => "device barrier",
        ValueOperation::FlushRemoteWrites => "flush",
    };
    found.set_item("operation", name)?;
    Ok(found)
}
