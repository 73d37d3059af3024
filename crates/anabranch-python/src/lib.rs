//! The extension module of the Python package `anabranch`. Each class wraps one of the library's; rules are the library's.

mod classes;
mod current;
mod dtype;
mod error;
mod exit;
mod fast_call;
mod few;
mod host_data;
mod host_functions;
mod kept;
mod memory;
mod process;
mod slot;
mod threads;
mod turn;
mod uninterrupted;
mod wait;

use classes::arguments::{Reads, Scalar};
use classes::buffer::{Buffer, ManagedBuffer, PinnedBuffer};
use classes::capture::Capture;
use classes::compiler::{Compiled, compile};
use classes::completion::Completion;
use classes::conditional::{Conditional, ConditionalNode};
use classes::config::LaunchConfig;
use classes::context::Context;
use classes::device::{Device, absent_backends, default_device, device, devices};
use classes::event::Event;
use classes::executable::ExecutableGraph;
use classes::frequent;
use classes::graph::Graph;
use classes::memory_report::flush_deferred_drops;
use classes::module::{Kernel, Module};
use classes::node_work::NodeWork;
use classes::open_graph::GraphNode;
use classes::pool::MemoryPool;
use classes::raw::{OwnedMemory, Raw, RawEvents, RawGraphs, RawMemory, RawPools, RawStreams, free_later};
use classes::signal::Signal;
use classes::stream::Stream;
use classes::virtual_memory::{AddressRange, PhysicalMemory};
use exit::{after_fork, at_exit};
use host_functions::{HostCall, next_call, write_unraisable};
use pyo3::prelude::*;
use uninterrupted::{finalizing, restoring};

/// What the package is made of; import `anabranch` instead.
#[pymodule]
fn _anabranch(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Before the classes, which are made by the interpreter that imports the module first.
    process::require_main_interpreter()?;
    module.add_class::<Reads>()?;
    module.add_class::<Scalar>()?;
    module.add_class::<Buffer>()?;
    module.add_class::<ManagedBuffer>()?;
    module.add_class::<PinnedBuffer>()?;
    module.add_class::<Capture>()?;
    module.add_class::<Compiled>()?;
    module.add_class::<Completion>()?;
    module.add_class::<Conditional>()?;
    module.add_class::<ConditionalNode>()?;
    module.add_class::<LaunchConfig>()?;
    module.add_class::<Context>()?;
    module.add_class::<Device>()?;
    module.add_class::<Event>()?;
    module.add_class::<ExecutableGraph>()?;
    module.add_class::<Graph>()?;
    module.add_class::<Kernel>()?;
    module.add_class::<Module>()?;
    module.add_class::<NodeWork>()?;
    module.add_class::<GraphNode>()?;
    module.add_class::<MemoryPool>()?;
    module.add_class::<Raw>()?;
    module.add_class::<RawEvents>()?;
    module.add_class::<RawGraphs>()?;
    module.add_class::<RawMemory>()?;
    module.add_class::<OwnedMemory>()?;
    module.add_class::<RawPools>()?;
    module.add_class::<RawStreams>()?;
    module.add_class::<Signal>()?;
    module.add_class::<Stream>()?;
    module.add_class::<AddressRange>()?;
    module.add_class::<PhysicalMemory>()?;
    module.add_class::<HostCall>()?;
    module.add_function(wrap_pyfunction!(compile, module)?)?;
    module.add_function(wrap_pyfunction!(absent_backends, module)?)?;
    module.add_function(wrap_pyfunction!(default_device, module)?)?;
    module.add_function(wrap_pyfunction!(device, module)?)?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(flush_deferred_drops, module)?)?;
    module.add_function(wrap_pyfunction!(free_later, module)?)?;
    module.add_function(wrap_pyfunction!(after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(at_exit, module)?)?;
    module.add_function(wrap_pyfunction!(next_call, module)?)?;
    module.add_function(wrap_pyfunction!(restoring, module)?)?;
    module.add_function(wrap_pyfunction!(finalizing, module)?)?;
    module.add_function(wrap_pyfunction!(write_unraisable, module)?)?;
    frequent::install(module.py())?;
    module.add("_ENTERED", current::entered(module.py())?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
