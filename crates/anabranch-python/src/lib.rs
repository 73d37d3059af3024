//! The extension module of the Python package `anabranch`. Each class wraps one of the library's; rules are the library's.

mod classes;
mod dtype;
mod error;
mod exit;
mod fast_call;
mod few;
mod host_data;
mod host_functions;
mod memory;
mod process;
mod slot;
mod threads;
mod wait;

use pyo3::prelude::*;

/// What the package is made of; import `anabranch` instead.
#[pymodule]
mod _anabranch {
    use super::classes::frequent;
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::classes::arguments::{Reads, Scalar};
    #[pymodule_export]
    use super::classes::buffer::{Buffer, ManagedBuffer, PinnedBuffer};
    #[pymodule_export]
    use super::classes::capture::Capture;
    #[pymodule_export]
    use super::classes::compiler::{Compiled, compile};
    #[pymodule_export]
    use super::classes::completion::Completion;
    #[pymodule_export]
    use super::classes::conditional::{Conditional, ConditionalNode};
    #[pymodule_export]
    use super::classes::config::LaunchConfig;
    #[pymodule_export]
    use super::classes::context::Context;
    #[pymodule_export]
    use super::classes::device::{Device, absent_backends, default_device, device, devices};
    #[pymodule_export]
    use super::classes::event::Event;
    #[pymodule_export]
    use super::classes::executable::ExecutableGraph;
    #[pymodule_export]
    use super::classes::graph::Graph;
    #[pymodule_export]
    use super::classes::memory_report::flush_deferred_drops;
    #[pymodule_export]
    use super::classes::module::{Kernel, Module};
    #[pymodule_export]
    use super::classes::node_work::NodeWork;
    #[pymodule_export]
    use super::classes::open_graph::GraphNode;
    #[pymodule_export]
    use super::classes::pool::MemoryPool;
    #[pymodule_export]
    use super::classes::raw::{Raw, RawEvents, RawGraphs, RawMemory, RawPools, RawStreams};
    #[pymodule_export]
    use super::classes::signal::Signal;
    #[pymodule_export]
    use super::classes::stream::Stream;
    #[pymodule_export]
    use super::classes::virtual_memory::{AddressRange, PhysicalMemory};
    #[pymodule_export]
    use super::exit::{after_fork, at_exit};
    #[pymodule_export]
    use super::host_functions::{HostCall, next_call, write_unraisable};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        frequent::install(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
