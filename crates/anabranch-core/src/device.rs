//! Devices: a driver, and the number of a device in it.

use crate::device_name::DeviceName;
use crate::error::{Error, Result, ResultExt};
use crate::extensions::{Extension, Extensions};
use anabranch_hal::{
    Capabilities, DeviceOrdinal, DeviceProperties, Driver, GraphMemoryAttribute, MemoryReport, Status,
};
use std::fmt;
use std::sync::Arc;

/// A device of a driver.
pub struct DeviceCore {
    driver: Arc<dyn Driver>,
    name: DeviceName,
    properties: DeviceProperties,
    observes_objects: bool,
    extensions: Extensions,
}

impl DeviceCore {
    /// All devices of a driver.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn enumerate(driver: &Arc<dyn Driver>) -> Result<Vec<Arc<Self>>> {
        let (operation, backend) = ("enumerating devices", driver.kind());
        let count = driver.device_count().during(operation, || backend.to_string())?;
        let device = |ordinal: u32| {
            let name = DeviceName { backend, ordinal: DeviceOrdinal(ordinal) };
            let properties = driver.device_properties(name.ordinal).during(operation, || name.to_string())?;
            let observes_objects = driver.observes_objects();
            let extensions = Extensions::new();
            Ok(Arc::new(Self { driver: driver.clone(), name, properties, observes_objects, extensions }))
        };
        (0..count).map(device).collect()
    }

    /// The driver.
    #[inline(always)]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// The name, such as `cuda:0`.
    pub fn name(&self) -> DeviceName {
        self.name
    }

    /// The number within the driver.
    pub fn ordinal(&self) -> DeviceOrdinal {
        self.name.ordinal
    }

    /// The constant properties of the device.
    pub fn properties(&self) -> &DeviceProperties {
        &self.properties
    }

    /// What a higher module has attached to the device.
    pub(crate) fn extension<T: Extension + Default>(&self) -> &T {
        self.extensions.get()
    }

    /// Whether the device has all of these capabilities.
    pub fn can(&self, capabilities: Capabilities) -> bool {
        self.properties.capabilities.contains(capabilities)
    }

    /// Whether the driver has a layer that observes objects.
    #[inline(always)]
    pub fn observes_objects(&self) -> bool {
        self.observes_objects
    }

    /// Whether both devices belong to the same driver.
    pub fn same_driver(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.driver, &other.driver)
    }

    /// The error of an operation on objects of two drivers.
    #[cold]
    pub fn refuse_other_driver(&self, other: &Self, operation: &'static str) -> Error {
        let message = if self.name.backend == other.name.backend {
            format!("{self} and {other} belong to two instances with drivers of their own")
        } else {
            format!("{self} and {other} belong to different back ends")
        };
        Error::argument(Status::INVALID_DEVICE, operation, message).with_hint(
            "use devices of one instance, or of instances without options of their own, or copy through host memory",
        )
    }

    /// Whether kernels and copies can access the memory of another device directly.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if the devices belong to different drivers.
    pub fn can_access_peer(&self, peer: &Self) -> Result<bool> {
        let operation = "asking for peer access";
        if !self.same_driver(peer) {
            return Err(self.refuse_other_driver(peer, operation));
        }
        self.driver.device_can_access_peer(self.ordinal(), peer.ordinal()).during(operation, || self.to_string())
    }

    /// A number about the graph memory of the device.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if graphs cannot allocate memory.
    pub fn graph_memory_attribute(&self, attribute: GraphMemoryAttribute) -> Result<u64> {
        self.driver
            .graph_memory_attribute(self.ordinal(), attribute)
            .during("reading an attribute of graph memory", || self.to_string())
    }

    /// Resets one of the two high-water marks.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for the other attributes; `CUDA_ERROR_NOT_SUPPORTED (801)` if graphs cannot
    /// allocate memory.
    pub fn reset_graph_memory_high(&self, attribute: GraphMemoryAttribute) -> Result<()> {
        self.driver
            .graph_memory_reset(self.ordinal(), attribute)
            .during("resetting an attribute of graph memory", || self.to_string())
    }

    /// Returns memory that graphs own and do not use to the device.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if graphs cannot allocate memory.
    pub fn trim_graph_memory(&self) -> Result<()> {
        self.driver.graph_memory_trim(self.ordinal()).during("trimming graph memory", || self.to_string())
    }

    /// The findings of a driver that checks memory, or `None` if it does not.
    pub fn memory_report(&self) -> Option<MemoryReport> {
        self.driver.memory_report(self.ordinal())
    }
}

impl PartialEq for DeviceCore {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.same_driver(other)
    }
}

impl Eq for DeviceCore {}

impl fmt::Display for DeviceCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(formatter)
    }
}

impl fmt::Debug for DeviceCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Device({}, {:?})", self.name, self.properties.name)
    }
}
