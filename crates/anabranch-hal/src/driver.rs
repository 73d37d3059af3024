//! The driver as a whole.

use crate::{
    Captures, Contexts, Devices, Events, ExternalMemory, ExternalSemaphores, Graphs, GreenContexts, InterprocessMemory,
    Memory, Modules, Objects, Streams, TensorMaps, VirtualMemory,
};
use std::fmt;

/// The family of devices that a driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// NVIDIA GPUs, through the CUDA driver.
    Cuda,
    /// AMD GPUs, through HIP.
    Hip,
    /// The software device, which runs on threads of the process.
    Host,
}

impl BackendKind {
    /// The name of the family in device names: `cuda`, `hip` or `host`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The version of a driver's interface, such as CUDA 13.0. The software device reports the CUDA version whose semantics
/// it implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Why a back end or a compiler is not available on this machine, and how to make it available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// What is missing: one sentence without a full stop.
    pub reason: String,
    /// How to fix it: one sentence without a full stop.
    pub remedy: String,
}

impl fmt::Display for Absence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for Absence {}

/// A driver for one family of devices. It implements all groups of calls.
///
/// # Safety
///
/// Callers rely on what the calls return. Handles are those of objects that exist until they are destroyed, addresses are
/// those of as much memory as was asked for, work runs in the order of its stream and not before the events that it waits
/// for, and what is called complete is. No call unwinds. A driver that passes calls on passes a [`Live`](crate::Live) to the driver that
/// made the object only.
pub unsafe trait Driver:
    Devices
    + Contexts
    + Streams
    + Captures
    + Events
    + Memory
    + InterprocessMemory
    + VirtualMemory
    + ExternalMemory
    + ExternalSemaphores
    + Modules
    + Graphs
    + GreenContexts
    + TensorMaps
    + Objects
    + fmt::Debug
    + Send
    + Sync
{
    /// Returns the family of devices.
    fn kind(&self) -> BackendKind;

    /// Returns the version of the driver's interface.
    fn version(&self) -> DriverVersion;
}
