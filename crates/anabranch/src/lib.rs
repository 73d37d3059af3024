//! Queues of GPU work: streams, events, graphs, stream-ordered memory and kernel launches, on NVIDIA GPUs and on a
//! *software device* that has the same semantics without a GPU.
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
//! # A kernel, a graph and an await
//!
//! ```
//! use anabranch::{CaptureMode, DualModule, Instance, LaunchConfig};
//!
//! anabranch::kernels! {
//!     /// The kernels of the program, and their parameters.
//!     struct Kernels {
//!         fn saxpy(y: &mut [f32], x: &[f32], a: f32, n: u32);
//!     }
//! }
//!
//! # futures::executor::block_on(async {
//! let context = Instance::new()?.device("host")?.context()?; // or "cuda:0"
//! let stream = context.create_stream()?;
//! // A closure for the software device. For GPUs, add `.ptx(include_str!("saxpy.ptx"))`.
//! let module = DualModule::new().host_function(Kernels::host_function("saxpy", |block, arguments| {
//!     let (y, x, a) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1), arguments.scalar::<f32>(2));
//!     block.phase(|thread, _shared| {
//!         let i = thread.global_x();
//!         if i < y.len() {
//!             y.set(i, a * x.get(i) + y.get(i));
//!         }
//!     });
//! }));
//! let kernels = Kernels::load(&module.load(&context)?)?;
//! let (x, mut y) = (stream.upload(&[1.0f32, 2.0, 3.0])?, stream.upload(&[10.0f32; 3])?);
//! let config = LaunchConfig::for_elements(3);
//!
//! // A kernel. Closures are checked while they run; for a GPU's code, the program makes the promises of `launch`.
//! kernels.saxpy(&mut y, &x, 2.0, 3).launch_checked(&stream, &config)?;
//!
//! // A graph: captured once, and launched as often as wanted.
//! let step = stream.capture_executable(CaptureMode::Global, |scope| {
//!     kernels.saxpy(&mut y, &x, -1.0, 3).launch_checked(scope, &config)
//! })?;
//! step.launch(&stream)?;
//!
//! // An await, on any executor. Dropping a future gives up nothing but the waiting.
//! step.launch_async(&stream).await?;
//! assert_eq!(stream.download_async(&y).await?, [10.0; 3]);
//! # Ok::<(), anabranch::Error>(())
//! # })?;
//! # Ok::<(), anabranch::Error>(())
//! ```
//!
//! # What there is
//!
//! * [`Instance`], [`Device`], [`Context`]: the available devices and their state.
//! * [`Stream`], [`Event`]: ordered work, and order between streams.
//! * [`Completion`], [`Enqueued`], [`Pipeline`]: work that tasks await, on any executor.
//! * [`Upload`], [`Download`], [`Stream::copy_async`], [`Stream::launch_async`]: operations that own their buffers
//!   until they are complete.
//! * [`Operation`], [`StreamPool`]: work that is composed before it is queued, in a stream or in several.
//! * [`Stream::capture`], [`Graph`], [`ExecutableGraph`]: work that is described once and launched many times.
//! * [`Buffer`], [`PinnedBuffer`], [`ManagedBuffer`], [`MemoryPool`]: memory that safe code cannot free, move or race
//!   while queued work uses it.
//! * [`Module`], [`Kernel`], [`Compiler`], [`DualModule`]: code for GPUs, and PTX or Rust
//!   closures for the software device.
//! * [`kernels!`], [`KernelCall`]: kernel parameters that are declared once, for launches with typed arguments.
//! * [`guide`]: [graphs](guide::graphs), [safety](guide::safety), [semantics](guide::semantics) and
//!   [environment variables](guide::environment).
//! * [`other_libraries`]: the names that Warp, `cuda.core`, CuPy, Mojo and the CUDA driver API use for the same
//!   concepts.
//!
//! The folder `examples` of the package has programs for both kinds of device. `saxpy` is the first to read. As short are
//! `three_streams`, `timeouts`, `training_step`, `cudarc_port`, `plugin`, `two_devices` and `rayon_streams`.
//!
//! # Threads and processes
//!
//! The library starts a few threads, the first of them with the first context. They free what cannot be freed where it is
//! dropped, wake futures, and run the work of the software device. When the process exits, they are not joined: work that is
//! pending then may or may not run.
//!
//! A process that was *forked* has none of these threads, and CUDA cannot be used in it at all. The child must not call the
//! library, and must not drop its objects: call `exec`, or end with `_exit`. To use devices in several processes, start them
//! before the first [`Instance`] is made, or with `exec`. The library does not detect this.
//!
//! # Cargo features
//!
//! `cuda` and `host` are the back ends; both are on by default. `tracing` emits spans and events of the `tracing` crate
//! under the target `anabranch`: calls that block or are rare at level `DEBUG` (opening devices and contexts,
//! synchronizing, loading modules, compiling, allocating and freeing memory outside stream order, errors of drops), and
//! queued work at level `TRACE` (launches, copies, fills, records, waits, allocations in stream order). What a
//! subscriber throws ends there, and it can call the library as little as a host function can. Without this feature, the
//! program contains no tracing code.
//!
//! `dlpack` is the module of that name: tensors of other libraries, without copies.
//!
//! `half` makes `f16` and `bf16` of the [`half`](https://docs.rs/half) crate numbers like others: elements of buffers, values of
//! fills, arguments of kernels, and elements in kernels that are closures.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

pub use anabranch_hal as hal;
pub use anabranch_hal::{
    Absence, Access, AccessPolicyWindow, AccessProperty, AllocationKind, AllocationNode, BackendKind, BarrierScope,
    Block, Capabilities, CaptureMode, CaptureStatus, ClusterSchedulingPolicy, ConditionalHandle, ConditionalKind,
    ConditionalNode, ContextFlags, ContextHandle, DependencyUpdate, DeviceElement, DeviceOrdinal, DevicePointer,
    DeviceProperties, DriverVersion, EdgeData, EdgeKind, EventFlags, EventHandle, EventRecordFlags, EventWaitFlags,
    ExecutableGraphHandle, ExternalSemaphoreHandle, ExternalSemaphoreKind, ExternalSemaphoreOperation, FillNode,
    FillPattern, FunctionAttribute, FunctionHandle, FunctionInfo, GlobalSlice, GraphHandle, GraphInstantiateResult,
    GraphMemoryAttribute, GraphNodeHandle, GraphNodeKind, GraphUpdateResult, GreenContextHandle, HostArguments,
    HostFunction, HostModule, InstantiateFlags, InterprocessEventHandle, InterprocessMemoryHandle,
    InterprocessPoolMemoryHandle, KernelAttributes, KernelFault, KernelNode, LiveAllocation, MemoryAttachment,
    MemoryFinding, MemoryFindingKind, MemoryInfo, MemoryLocation, MemoryPoolAttribute, MemoryPoolHandle,
    MemoryPoolOptions, MemoryReport, MemorySyncDomain, MemorySyncDomainMap, ModuleHandle, NodeParameters, OutputKind,
    ParameterInfo, PinnedFlags, PriorityRange, RecaptureChanges, Reduction, RegisterFlags, SharedMemory, SplitFlags,
    Status, StreamFlags, StreamHandle, SynchronizationPolicy, TensorDataType, TensorElement, TensorFill,
    TensorPromotion, TensorSwizzle, TensorView, Thread, ValueOperation, WaitValueFlags, WriteValueFlags,
};

/// Implemented by the elements of buffers and the values of [`Scalar`].
pub use bytemuck;
/// Its `f16` and `bf16` are elements of buffers and arguments of kernels.
#[cfg(feature = "half")]
pub use half;

mod attributes;
mod capture;
mod compiler;
mod completion;
mod context;
pub mod current;
mod device;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod event;
mod graph;
mod green_context;
#[cfg(doc)]
pub mod guide;
mod instance;
mod kernel;
mod memory;
mod module;
mod operation;
pub mod other_libraries;
mod owned;
mod ranks;
mod stream;

use anabranch_core::{error, trace};

pub use anabranch_core::capture::CaptureInfo;
pub use anabranch_core::capture_mode::CaptureModeGuard;
pub use anabranch_core::capture_state::RecapturedNode;
pub use anabranch_core::completion::Completion;
#[doc(hidden)]
pub use anabranch_core::completion::CompletionDiagnostics;
pub use anabranch_core::device_name::DeviceName;
pub use anabranch_core::drop_error::{reset_drop_error_hook, set_drop_error_hook};
/// The error of every call: what was asked for, where, why it failed, and what helps.
///
/// ```
/// use anabranch::{ErrorKind, Instance, Status};
///
/// let stream = Instance::new()?.device("host")?.context()?.create_stream()?;
/// let (mut short, long) = (stream.upload(&[1u8; 3])?, stream.upload(&[2u8; 4])?);
/// let error = stream.copy(&mut short, &long).unwrap_err();
/// assert_eq!((error.status(), error.kind()), (Status::INVALID_VALUE, ErrorKind::Argument));
/// assert!(error.to_string().contains("the destination has 3 elements and the source 4"));
///
/// // An error of earlier work is reported by a call that waits.
/// stream.launch_host_func(|| panic!("on purpose"))?;
/// let error = stream.synchronize().unwrap_err();
/// assert!(error.is_asynchronous() && !error.is_sticky());
/// assert!(error.to_string().contains("on purpose"));
///
/// // What is missing has a reason, and a remedy.
/// if let Err(error) = Instance::new()?.device("cuda:0") {
///     println!("{error}");
/// }
/// # Ok::<(), anabranch::Error>(())
/// ```
#[doc(inline)]
pub use anabranch_core::error::Error;
pub use anabranch_core::error::{ErrorKind, Result};
pub use anabranch_core::graph::GraphEdge;
pub use anabranch_core::node::{Dependencies, Node};
pub use anabranch_core::reaper::flush_deferred_drops;
pub use capture::{CaptureScope, CaptureTarget};
pub use compiler::{Architecture, CompileOptions, Compiled, CompiledImage, Compiler};
pub use completion::{Enqueued, Pipeline};
pub use context::Context;
pub use device::Device;
pub use event::{Event, WaitTarget};
pub use graph::{
    BodyGraph, Conditional, EdgeDescription, ExecutableGraph, Graph, GraphDescription, NodeDescription, NodeWork,
    UpdateError,
};
pub use green_context::{GreenContext, Multiprocessors};
pub use instance::{AbsentBackend, DEVICE_VARIABLE, Instance, InstanceBuilder};
pub use kernel::{
    ArgumentList, Dimensions, Kernel, KernelArgument, KernelArguments, KernelCall, LaunchConfig, Scalar, TensorLayout,
    TensorMap, TensorMapMut,
};
pub use memory::{
    AddressRange, BatchCopy, BatchRegion, Buffer, BufferSlice, BufferSliceMut, CopyHints, Discard, ExternalMemory,
    FillElement, ImportedMemoryPool, ManagedBuffer, MemoryPool, OwnedBuffer, PhysicalMemory, PinnedBuffer, Prefetch,
    Reads, Region, ScopedStream, StreamScope, Volume, VolumeMut,
};
pub use module::{DualModule, Module};
pub use operation::{Operation, RunTarget, StreamPolicy, StreamPool};
pub use owned::{Download, Upload};
pub use stream::{
    BorrowedStream, CallbackStream, CurrentStreamGuard, ExternalSemaphore, Signal, SignalOperation, Stream,
    WaitCondition,
};

/// Tests the examples of the README like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
