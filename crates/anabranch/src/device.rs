//! Devices and their properties.

use crate::error::Result;
use anabranch_core::device::DeviceCore;
use anabranch_core::device_name::DeviceName;
use anabranch_hal::{
    BackendKind, Capabilities, DeviceOrdinal, DeviceProperties, Driver, DriverVersion, GraphMemoryAttribute,
    MemoryReport, PriorityRange,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A device. Cheap to clone. Two are equal if they are the same device of the same driver.
///
/// Follows the Driver API's group *Device Management*.
#[derive(Clone)]
pub struct Device {
    core: Arc<DeviceCore>,
}

impl Device {
    pub(crate) fn from_core(core: Arc<DeviceCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<DeviceCore> {
        &self.core
    }

    /// The device's name in this library, such as `cuda:0`. (The product's name is among the
    /// [properties](Self::properties).)
    pub fn name(&self) -> DeviceName {
        self.core.name()
    }

    /// The back end of the device.
    pub fn backend(&self) -> BackendKind {
        self.core.name().backend
    }

    /// The number of the device within its back end.
    pub fn ordinal(&self) -> DeviceOrdinal {
        self.core.ordinal()
    }

    /// The constant properties of the device: product name, memory, limits, capabilities.
    pub fn properties(&self) -> &DeviceProperties {
        self.core.properties()
    }

    /// What the device can do beyond what every device can do.
    pub fn capabilities(&self) -> Capabilities {
        self.core.properties().capabilities
    }

    /// The range of stream priorities. Lower numbers are more urgent.
    pub fn stream_priority_range(&self) -> PriorityRange {
        self.core.properties().priority_range
    }

    /// The version of the driver's interface.
    pub fn driver_version(&self) -> DriverVersion {
        self.core.driver().version()
    }

    /// Whether kernels and copies of this device can access the memory of `peer` directly, once
    /// [`Context::enable_peer_access`](crate::Context::enable_peer_access) has been called.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if `peer` belongs to another driver.
    pub fn can_access_peer(&self, peer: &Device) -> Result<bool> {
        self.core.can_access_peer(&peer.core)
    }

    /// A number about the graph memory of this device. Follows `cuDeviceGetGraphMemAttribute`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if graphs cannot allocate memory.
    pub fn graph_memory_attribute(&self, attribute: GraphMemoryAttribute) -> Result<u64> {
        self.core.graph_memory_attribute(attribute)
    }

    /// Resets one of the two high-water marks to the currently used or reserved amount.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for the other attributes;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if graphs cannot allocate memory.
    pub fn reset_graph_memory_high(&self, attribute: GraphMemoryAttribute) -> Result<()> {
        self.core.reset_graph_memory_high(attribute)
    }

    /// Returns memory that graphs own and do not use to the device. Follows `cuDeviceGraphMemTrim`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if graphs cannot allocate memory.
    pub fn trim_graph_memory(&self) -> Result<()> {
        self.core.trim_graph_memory()
    }

    /// Findings about the use of this device's memory, and its current allocations. `None` if the driver does not check
    /// memory. Host devices check memory if [enabled](crate::InstanceBuilder::host_check_memory).
    ///
    /// ```
    /// use anabranch::Instance;
    ///
    /// let device = Instance::builder().cuda(false).host_check_memory(true).build()?.device("host")?;
    /// let context = device.context()?;
    /// let stream = context.create_stream()?;
    /// let buffer = stream.upload(&[1u32, 2, 3])?;
    /// stream.synchronize()?;
    /// let report = device.memory_report().ok_or("not checked")?;
    /// assert!(report.findings.is_empty());
    /// assert_eq!(report.allocations.len(), 1);
    /// assert_eq!(report.allocations[0].bytes, 12);
    /// # drop(buffer);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_report(&self) -> Option<MemoryReport> {
        self.core.memory_report()
    }

    /// The underlying driver, for what this library does not offer. Its methods are `unsafe`.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        self.core.driver()
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.core == other.core
    }
}

impl Eq for Device {}

impl Hash for Device {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(formatter)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(formatter)
    }
}
