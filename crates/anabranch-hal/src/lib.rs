//! The driver contract of Anabranch.
//!
//! A *driver* provides mechanism without policy. Each call does exactly what the CUDA driver API documents for the call
//! of the same name, with the same status codes. This holds for any hardware, and for the software device. The library
//! on top is responsible for ownership, lifetimes, ordering between streams, and futures. It uses drivers only through
//! this crate.
//!
//! * Every trait is object-safe. A layer (a checker, a tracer, a fault injector) is a [`Driver`] that owns a driver;
//!   [`Forward`] forwards the calls that it does not handle itself.
//! * Handles are opaque and typed. A handle is never reused for another kind of object.
//! * [`Status`] is a newtype over the driver's integer and not an `enum`, so that it can represent codes that a newer
//!   driver adds.
//!
//! # Safety
//!
//! **The handle rule**: every handle that a driver is given is that of an object that this driver made and that still
//! exists. [`Live`] is a handle for which somebody has promised that. Methods that need no other promise are safe.
//!
//! Methods are `unsafe` if work accesses addresses, if an object is destroyed, or if handles are inside of other values,
//! such as [`NodeParameters`] and [`Dependency`]. Each says in its section *Safety* what the caller promises. Addresses
//! must remain valid for an operation until the operation has *completed*, not merely until the call returns.
//!
//! Methods that destroy an object take its bare handle. The caller promises that the object exists, and that nobody uses
//! a handle or a [`Live`] of it during the call or afterwards.
//!
//! # Portability
//!
//! Calls may be made from any thread. A driver that needs a context to be current on the thread makes it current for
//! the duration of the call, and then restores the previous one.

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

mod call;
mod capture;
mod compiler;
mod context;
mod device;
mod driver;
mod event;
mod external_memory;
mod external_semaphore;
mod failure;
mod forward;
mod graph;
mod graph_result;
mod green_context;
mod handle;
mod host_kernel;
mod host_work;
mod inside;
mod interprocess;
mod launch;
mod launch_attributes;
mod live;
mod memory;
mod memory_report;
mod module;
mod object;
mod panic;
mod recapture;
mod status;
mod stream;
mod tensor_map;
mod virtual_memory;

pub use call::Call;
pub use capture::{CaptureInfo, CaptureMode, CaptureStatus, Captures, DependencyUpdate};
pub use compiler::{CompileOutput, CompileRequest, Compiler, FoundCompiler, OutputKind};
pub use context::{ContextFlags, Contexts};
pub use device::{Capabilities, DeviceProperties, Devices, PriorityRange};
pub use driver::{Absence, BackendKind, Driver, DriverVersion};
pub use event::{EventFlags, EventRecordFlags, EventWaitFlags, Events, InterprocessEventHandle};
pub use external_memory::ExternalMemory;
pub use external_semaphore::{ExternalSemaphoreKind, ExternalSemaphoreOperation, ExternalSemaphores};
pub use failure::{Detail, Failure, Result};
pub use forward::{Forward, Layered};
pub use graph::{
    AddedNode, AllocationNode, ConditionalKind, ConditionalNode, Dependency, Edge, EdgeData, EdgeKind,
    ExecutableGraphs, FillNode, GraphMemoryAttribute, GraphNodeKind, Graphs, InstantiateFlags, KernelNode,
    NodeParameters,
};
pub use graph_result::{GraphInstantiateResult, GraphUpdateResult};
pub use green_context::{GreenContexts, MultiprocessorResource, MultiprocessorSplit, RESOURCE_BYTES, SplitFlags};
pub use handle::{
    ConditionalHandle, ContextHandle, DeviceOrdinal, DevicePointer, EventHandle, ExecutableGraphHandle,
    ExternalMemoryHandle, ExternalSemaphoreHandle, FunctionHandle, GraphHandle, GraphNodeHandle, GreenContextHandle,
    Handle, MemoryPoolHandle, ModuleHandle, StreamHandle,
};
pub use host_kernel::{
    Block, ConditionalValues, DeviceElement, GlobalRange, GlobalSlice, HostArguments, HostBody, HostFunction,
    HostGlobal, HostModule, KernelFault, SharedMemory, TensorElement, TensorView, Thread, UsedRange,
};
pub use host_work::{Callback, HostWork, HostWorkKey, RepeatableWork};
pub use inside::{Helping, InsideWork, InsideWorkBefore, LaunchedIn};
pub use interprocess::{InterprocessMemory, InterprocessMemoryHandle, InterprocessPoolMemoryHandle};
pub use launch::{Access, DeclaredRange, Launch};
pub use launch_attributes::{
    ClusterSchedulingPolicy, KernelAttributes, LaunchOverlap, MemorySyncDomain, MemorySyncDomainMap, ProgrammaticEvent,
};
pub use live::Live;
pub use memory::{
    ALLOCATION_ALIGNMENT, AttributedCopy, AttributedCopy3d, Copy3d, CopyAttributes, CopyFlags, CopyKind, CopyPlace,
    CopySourceOrder, FillPattern, ManagedRange, Memory, MemoryAttachment, MemoryInfo, MemoryLocation,
    MemoryPoolAttribute, MemoryPoolOptions, MemoryRange, PinnedFlags, Prefetch, RegisterFlags,
};
pub use memory_report::{AllocationKind, LiveAllocation, MemoryFinding, MemoryFindingKind, MemoryReport};
pub use module::{FunctionAttribute, FunctionInfo, ModuleImage, Modules, ParameterInfo};
pub use object::{ObjectHandle, ObjectId, Objects};
pub use panic::{Raised, Thrown, contain};
pub use recapture::{RecaptureChanges, RecaptureRecord, RecapturedNode};
pub use status::Status;
pub use stream::{
    AccessPolicyWindow, AccessProperty, BarrierScope, Reduction, StreamAttribute, StreamAttributeKind, StreamFlags,
    Streams, SynchronizationPolicy, Value, ValueOperation, WaitValueFlags, WriteValueFlags,
};
pub use tensor_map::{
    EncodedTensorMap, MOST_TENSOR_DIMENSIONS, TensorDataType, TensorFill, TensorMaps, TensorPromotion, TensorSwizzle,
    TiledTensor,
};
pub use virtual_memory::{PhysicalMemoryHandle, VirtualMemory};
