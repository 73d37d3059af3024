//! Devices: what there is, and what it can do.

use crate::context::Context;
use crate::device_name::DeviceName;
use crate::error::{Error, Result, ResultExt};
use crate::memory::MemoryPool;
use anabranch_hal::{
    BackendKind, Capabilities, ContextFlags, DeviceOrdinal, DeviceProperties, Driver, DriverVersion,
    GraphMemoryAttribute, MemoryPoolOptions, MemoryReport, PriorityRange, Status,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A device. Cheap to clone; equal when it is the same device of the same driver.
///
/// Follows the Driver API's group *Device Management*.
#[derive(Clone)]
pub struct Device {
    inner: Arc<DeviceInner>,
}

struct DeviceInner {
    driver: Arc<dyn Driver>,
    name: DeviceName,
    properties: DeviceProperties,
}

impl Device {
    pub(crate) fn new(driver: Arc<dyn Driver>, name: DeviceName, properties: DeviceProperties) -> Self {
        Self { inner: Arc::new(DeviceInner { driver, name, properties }) }
    }

    /// The device's name in this library, such as `cuda:0`. (The product's name is among the
    /// [properties](Self::properties).)
    pub fn name(&self) -> DeviceName {
        self.inner.name
    }

    /// Which family of devices it belongs to.
    pub fn backend(&self) -> BackendKind {
        self.inner.name.backend
    }

    /// Its number within the family.
    pub fn ordinal(&self) -> DeviceOrdinal {
        self.inner.name.ordinal
    }

    /// What does not change about it: product name, memory, limits, capabilities.
    pub fn properties(&self) -> &DeviceProperties {
        &self.inner.properties
    }

    /// What it can do beyond the common ground.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.properties.capabilities
    }

    /// The meaningful range of stream priorities; lower numbers are more urgent.
    pub fn stream_priority_range(&self) -> PriorityRange {
        self.inner.properties.priority_range
    }

    /// The version of the driver's interface.
    pub fn driver_version(&self) -> DriverVersion {
        self.inner.driver.version()
    }

    /// The device's primary context, which it shares with other libraries in the process.
    ///
    /// # Errors
    /// What the driver says when it cannot start the device, such as 2 when its memory is full.
    pub fn context(&self) -> Result<Context> {
        Context::primary(self)
    }

    /// A context of its own on this device. Memory and streams of one context cannot be launched into from another.
    /// Most programs want [`context`](Self::context).
    ///
    /// # Errors
    /// As [`context`](Self::context).
    pub fn create_context(&self, flags: ContextFlags) -> Result<Context> {
        Context::create(self, flags)
    }

    /// Whether kernels and copies of this device can reach the memory of `peer` directly, once
    /// [`Context::enable_peer_access`] has been called.
    ///
    /// # Errors
    /// 101 when `peer` belongs to another back end.
    pub fn can_access_peer(&self, peer: &Device) -> Result<bool> {
        let operation = "asking for peer access";
        if !self.same_driver(peer) {
            return Err(Error::argument(
                Status::INVALID_DEVICE,
                operation,
                format!("{} and {} do not belong to one driver; copy through host memory", self, peer),
            ));
        }
        self.driver().device_can_access_peer(self.ordinal(), peer.ordinal()).during(operation, || self.to_string())
    }

    /// The memory pool that stream-ordered allocation uses by default.
    ///
    /// # Errors
    /// 801 where the device has no pools.
    pub fn default_memory_pool(&self) -> Result<MemoryPool> {
        MemoryPool::default_of(self)
    }

    /// Makes a memory pool.
    ///
    /// # Errors
    /// 801 where the device has no pools.
    pub fn create_memory_pool(&self, options: &MemoryPoolOptions) -> Result<MemoryPool> {
        MemoryPool::create(self, options)
    }

    /// A number about the memory that graphs of this device own. Follows `cuDeviceGetGraphMemAttribute`.
    ///
    /// # Errors
    /// 801 where graphs do not allocate.
    pub fn graph_memory_attribute(&self, attribute: GraphMemoryAttribute) -> Result<u64> {
        self.driver()
            .graph_memory_attribute(self.ordinal(), attribute)
            .during("asking about the memory of graphs", || self.to_string())
    }

    /// Starts one of the two highest numbers anew, from what is used or reserved now.
    ///
    /// # Errors
    /// 1 for the other numbers; 801 where graphs do not allocate.
    pub fn reset_graph_memory_high(&self, attribute: GraphMemoryAttribute) -> Result<()> {
        self.driver()
            .graph_memory_reset(self.ordinal(), attribute)
            .during("starting a number about the memory of graphs anew", || self.to_string())
    }

    /// Gives memory that graphs own and do not use back to the device. Follows `cuDeviceGraphMemTrim`.
    ///
    /// # Errors
    /// 801 where graphs do not allocate.
    pub fn trim_graph_memory(&self) -> Result<()> {
        self.driver().graph_memory_trim(self.ordinal()).during("trimming the memory of graphs", || self.to_string())
    }

    /// What was done wrong with the memory of this device, and what of it is allocated. `None` where the driver does not
    /// check memory; host devices do when they are [told to](crate::InstanceBuilder::host_check_memory).
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
        self.driver().memory_report(self.ordinal())
    }

    /// The driver underneath, for what this library does not offer. Its methods are `unsafe`.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.inner.driver
    }

    pub(crate) fn same_driver(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.inner.driver, &other.inner.driver)
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.same_driver(other)
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
        write!(formatter, "Device({}, {:?})", self.name(), self.properties().name)
    }
}
