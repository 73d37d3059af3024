//! Queues of GPU work: streams, events, graphs, stream-ordered memory and kernel launches, on NVIDIA GPUs and on a
//! *software device* that has the same semantics with no GPU at all.
//!
//! ```
//! use anabranch::Instance;
//!
//! let instance = Instance::new()?;                     // what is missing is data, never an error
//! let device = instance.default_device()?;             // ANABRANCH_DEVICE, else the first GPU, else the host
//! let context = device.context()?;
//! let (producer, consumer) = (context.create_stream()?, context.create_stream()?);
//!
//! let buffer = producer.upload(&[1.0f32, 2.0, 3.0])?;  // allocated and copied in the order of `producer`
//! let result = consumer.download(&buffer)?;            // ordered behind it: one event, made by the library
//! assert_eq!(result, [1.0, 2.0, 3.0]);
//! # Ok::<(), anabranch::Error>(())
//! ```
//!
//! * [`Instance`], [`Device`], [`Context`]: what there is.
//! * [`Stream`], [`Event`]: work in order, and order between streams.
//! * [`Completion`], [`Enqueued`], [`Pipeline`]: work awaited by tasks, on any executor.
//! * [`Upload`], [`Download`], [`Stream::copy_async`], [`Stream::launch_async`]: work that owns what it uses until it is over.
//! * [`Stream::capture`], [`Graph`], [`ExecutableGraph`]: work described once, and launched many times.
//! * [`Buffer`], [`PinnedBuffer`], [`ManagedBuffer`], [`MemoryPool`]: memory that safe code cannot free, move or race
//!   while queued work uses it.
//! * [`Module`], [`Kernel`], [`Compiler`], [`DualModule`]: code, for GPUs and as Rust closures.
//! * [`kernels!`], [`KernelCall`]: the parameters of kernels, declared once, for launches that take typed arguments.
//! * [`other_libraries`]: what Warp, `cuda.core`, CuPy, Mojo and the CUDA driver API call these things.
//!
//! # Cargo features
//!
//! `cuda` and `host`, both on unless turned off, are the back ends. `tracing` tells subscribers of the `tracing` crate,
//! under the target `anabranch`, what the library does: what blocks or is rare as spans and events at level `DEBUG`
//! (opening devices and contexts, synchronizing, loading modules, compiling, allocations that are not in stream order,
//! freeing them, errors of drops), and what is queued as events at level `TRACE` (launches, copies, fills, records,
//! waits, allocations in stream order). Without the feature there is nothing of this in the program.

pub use anabranch_hal as hal;
pub use anabranch_hal::{
    Absence, Access, AccessPolicyWindow, AccessProperty, AllocationKind, AllocationNode, BackendKind, Block,
    Capabilities, CaptureMode, CaptureStatus, ConditionalHandle, ConditionalKind, ConditionalNode, ContextFlags,
    ContextHandle, DependencyUpdate, DeviceElement, DeviceOrdinal, DevicePointer, DeviceProperties, DriverVersion,
    EdgeData, EdgeKind, EventFlags, EventHandle, EventRecordFlags, EventWaitFlags, ExecutableGraphHandle, FillNode,
    FillPattern, FunctionAttribute, FunctionHandle, FunctionInfo, GlobalSlice, GraphHandle, GraphInstantiateResult,
    GraphMemoryAttribute, GraphNodeHandle, GraphNodeKind, GraphUpdateResult, HostArguments, HostFunction, HostModule,
    InstantiateFlags, InterprocessEventHandle, KernelFault, KernelNode, LiveAllocation, MemoryFinding,
    MemoryFindingKind, MemoryInfo, MemoryPoolAttribute, MemoryPoolHandle, MemoryPoolOptions, MemoryReport,
    ModuleHandle, NodeParameters, OutputKind, ParameterInfo, PinnedFlags, PriorityRange, SharedMemory, Status,
    StreamFlags, StreamHandle, SynchronizationPolicy, Thread, ValueOperation, WaitValueFlags, WriteValueFlags,
};

/// What the elements of buffers and the values of [`Scalar`] implement.
pub use bytemuck;

mod attributes;
mod capture;
mod compiler;
mod completion;
mod context;
mod device;
mod event;
mod graph;
mod instance;
mod kernel;
mod memory;
mod module;
pub mod other_libraries;
mod owned;
mod ranks;
mod stream;

use anabranch_core::{error, trace};

pub use anabranch_core::capture::CaptureInfo;
pub use anabranch_core::capture_mode::CaptureModeGuard;
pub use anabranch_core::completion::Completion;
#[doc(hidden)]
pub use anabranch_core::completion::CompletionDiagnostics;
pub use anabranch_core::device_name::DeviceName;
pub use anabranch_core::drop_error::{reset_drop_error_hook, set_drop_error_hook};
pub use anabranch_core::error::{Error, ErrorKind, Result};
pub use anabranch_core::graph::GraphEdge;
pub use anabranch_core::node::{Dependencies, Node};
pub use anabranch_core::reaper::flush_deferred_drops;
pub use capture::CaptureScope;
pub use compiler::{Architecture, CompileOptions, Compiled, CompiledImage, Compiler};
pub use completion::{Enqueued, Pipeline};
pub use context::Context;
pub use device::Device;
pub use event::{Event, WaitTarget};
pub use graph::{
    BodyGraph, Conditional, EdgeDescription, ExecutableGraph, Graph, GraphDescription, NodeDescription, NodeWork,
    UpdateError,
};
pub use instance::{AbsentBackend, DEVICE_VARIABLE, Instance, InstanceBuilder};
pub use kernel::{Dimensions, Kernel, KernelArgument, KernelArguments, KernelCall, LaunchConfig, Scalar};
pub use memory::{
    Buffer, BufferSlice, BufferSliceMut, FillElement, ManagedBuffer, MemoryPool, OwnedBuffer, PinnedBuffer, Reads,
    Region, ScopedStream, StreamScope, Volume, VolumeMut,
};
pub use module::{DualModule, Module};
pub use owned::{Download, Upload};
pub use stream::{BorrowedStream, CurrentStreamGuard, Signal, Stream, WaitCondition};

/// The examples of the README are tested as those of the documentation are.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
