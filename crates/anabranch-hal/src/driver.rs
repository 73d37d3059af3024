//! The driver as a whole.

use crate::{Captures, Contexts, Devices, Events, Graphs, Memory, Modules, Streams};
use std::fmt;

/// Which family of devices a driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// NVIDIA GPUs, through the CUDA driver.
    Cuda,
    /// AMD GPUs, through HIP.
    Hip,
    /// The software device on the threads of this process.
    Host,
}

impl BackendKind {
    /// The name used in device names: `cuda`, `hip` or `host`.
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

/// The version of the interface that a driver offers, such as CUDA 13.0. The host device reports the version whose
/// semantics it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Why a back end, or a compiler, cannot be used on this machine, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// What is missing, in one sentence without its full stop.
    pub reason: String,
    /// What would put it right, in one sentence without its full stop.
    pub remedy: String,
}

impl fmt::Display for Absence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for Absence {}

/// A driver: all the groups of calls, for one family of devices.
pub trait Driver:
    Devices + Contexts + Streams + Captures + Events + Memory + Modules + Graphs + fmt::Debug + Send + Sync
{
    /// The family of devices.
    fn kind(&self) -> BackendKind;

    /// The version of the driver's interface.
    fn version(&self) -> DriverVersion;
}
