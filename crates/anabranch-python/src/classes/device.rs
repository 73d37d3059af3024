//! Devices.

use crate::classes::context::Context;
use crate::classes::memory_report;
use crate::classes::pool::MemoryPool;
use crate::{error, process, wait};
use anabranch::{ContextFlags, GraphMemoryAttribute, Instance, MemoryPoolOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

/// All devices of the process, from the first call that asks for one.
static INSTANCE: OnceLock<Instance> = OnceLock::new();

fn instance(py: Python<'_>) -> PyResult<&'static Instance> {
    error::require_usable(py)?;
    if let Some(instance) = INSTANCE.get() {
        return Ok(instance);
    }
    // If two threads load at the same time, one result is dropped: all instances have the same drivers.
    process::note_loaded();
    let loaded = wait::call(py, Instance::new)?;
    Ok(INSTANCE.get_or_init(|| loaded))
}

/// All devices: GPUs first, then software devices. The first call of the process loads the drivers.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    Ok(instance(py)?.devices().iter().cloned().map(Device).collect())
}

/// The device with that name, such as "cuda:0", "host" or "host:1".
#[pyfunction]
pub(crate) fn device(py: Python<'_>, name: &str) -> PyResult<Device> {
    instance(py)?.device(name).map(Device).map_err(|error| error::raise(py, &error))
}

/// The device that the environment variable ANABRANCH_DEVICE names, or else the first GPU, or else the software device.
#[pyfunction]
pub(crate) fn default_device(py: Python<'_>) -> PyResult<Device> {
    instance(py)?.default_device().map(Device).map_err(|error| error::raise(py, &error))
}

/// The back ends that are not available: pairs of the name, and of the reason with the remedy.
#[pyfunction]
pub(crate) fn absent_backends(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let absent = instance(py)?.absent_backends().iter();
    Ok(absent.map(|absent| (absent.backend.to_string(), absent.absence.to_string())).collect())
}

/// A device. Two are equal if they are the same device.
#[pyclass(frozen, weakref, module = "anabranch")]
pub(crate) struct Device(pub(crate) anabranch::Device);

#[pymethods]
impl Device {
    /// The name in this library, such as "cuda:0" or "host:0".
    #[getter]
    fn name(&self) -> String {
        self.0.name().to_string()
    }

    /// The number of the device within its back end.
    #[getter]
    fn ordinal(&self) -> u32 {
        self.0.ordinal().0
    }

    /// The back end: "cuda" or "host".
    #[getter]
    fn backend(&self) -> String {
        self.0.backend().to_string()
    }

    /// The version of CUDA that the driver implements: major and minor.
    #[getter]
    fn driver_version(&self) -> (u32, u32) {
        let version = self.0.driver_version();
        (version.major, version.minor)
    }

    /// The constant properties: product name, uuid, memory in bytes, limits, and the names of what it can do beyond other
    /// devices.
    #[getter]
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let properties = self.0.properties();
        let listed = PyDict::new(py);
        listed.set_item("name", &properties.name)?;
        listed.set_item("pci_bus_id", properties.pci_bus_id.as_deref())?;
        listed.set_item("compute_capability", properties.compute_capability)?;
        listed.set_item("total_memory", properties.total_memory)?;
        listed.set_item("multiprocessor_count", properties.multiprocessor_count)?;
        listed.set_item("warp_size", properties.warp_size)?;
        listed.set_item("max_threads_per_block", properties.max_threads_per_block)?;
        listed.set_item("max_block_dimensions", properties.max_block_dimensions)?;
        listed.set_item("max_grid_dimensions", properties.max_grid_dimensions)?;
        listed.set_item("max_shared_memory_per_block", properties.max_shared_memory_per_block)?;
        listed.set_item("max_shared_memory_per_block_optin", properties.max_shared_memory_per_block_optin)?;
        listed.set_item("uuid", PyBytes::new(py, &properties.uuid))?;
        let capabilities = properties.capabilities.iter_names().map(|(name, _)| name.to_lowercase());
        listed.set_item("capabilities", PyFrozenSet::new(py, capabilities)?)?;
        Ok(listed)
    }

    /// The 16 bytes that identify the device, also in other processes and programs.
    #[getter]
    fn uuid<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.properties().uuid)
    }

    /// Whether this device can use memory of another one.
    fn can_access_peer(&self, py: Python<'_>, peer: &Bound<'_, Self>) -> PyResult<bool> {
        let peer = &peer.get().0;
        wait::call(py, || self.0.can_access_peer(peer))
    }

    /// The least urgent and the most urgent priority of streams. Smaller numbers are more urgent.
    #[getter]
    fn stream_priority_range(&self) -> (i32, i32) {
        let range = self.0.stream_priority_range();
        (range.least, range.greatest)
    }

    /// The primary context of the device, which all callers share.
    fn context(&self, py: Python<'_>) -> PyResult<Context> {
        wait::call(py, || self.0.context()).map(Context::new)
    }

    /// Creates another context.
    fn create_context(&self, py: Python<'_>) -> PyResult<Context> {
        wait::call(py, || self.0.create_context(ContextFlags::empty())).map(Context::new)
    }

    /// The memory pool that `Stream.allocate` uses by default.
    fn default_memory_pool(&self, py: Python<'_>) -> PyResult<MemoryPool> {
        wait::call(py, || self.0.default_memory_pool()).map(MemoryPool::default_of_device)
    }

    /// The bytes that graphs of the device use and have reserved for what they allocate, and the most of both.
    fn graph_memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let listed = PyDict::new(py);
        for (name, attribute) in [
            ("used_bytes", GraphMemoryAttribute::UsedCurrent),
            ("used_bytes_high", GraphMemoryAttribute::UsedHigh),
            ("reserved_bytes", GraphMemoryAttribute::ReservedCurrent),
            ("reserved_bytes_high", GraphMemoryAttribute::ReservedHigh),
        ] {
            listed.set_item(name, wait::call(py, || self.0.graph_memory_attribute(attribute))?)?;
        }
        Ok(listed)
    }

    /// Sets the most bytes that graphs have used, or have reserved, to the current number.
    #[pyo3(signature = (*, reserved = false))]
    fn reset_graph_memory_high(&self, py: Python<'_>, reserved: bool) -> PyResult<()> {
        let attribute = if reserved { GraphMemoryAttribute::ReservedHigh } else { GraphMemoryAttribute::UsedHigh };
        wait::call(py, || self.0.reset_graph_memory_high(attribute))
    }

    /// Returns memory that graphs have reserved and do not use to the device.
    fn trim_graph_memory(&self, py: Python<'_>) -> PyResult<()> {
        wait::call(py, || self.0.trim_graph_memory())
    }

    /// What the device knows of memory errors, and all memory that is allocated: "findings" and "allocations". None unless it is the
    /// software device, and the environment variable ANABRANCH_HOST_CHECK_MEMORY has it check memory.
    fn memory_report<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let report = wait::call(py, || Ok(self.0.memory_report()))?;
        report.map(|report| memory_report::describe(py, &report)).transpose()
    }

    /// Makes a memory pool. `max_bytes` is its maximum size, or 0 for the driver's default.
    #[pyo3(signature = (*, max_bytes = 0, interprocess = false))]
    fn create_memory_pool(&self, py: Python<'_>, max_bytes: u64, interprocess: bool) -> PyResult<MemoryPool> {
        let options = MemoryPoolOptions { max_bytes, interprocess };
        wait::call(py, || self.0.create_memory_pool(&options)).map(MemoryPool::created)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.0 == other.get().0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("<anabranch.Device {}>", self.0.name())
    }
}
