//! The driver contract of Anabranch.
//!
//! A *driver* is mechanism without policy: what it does for a call is exactly what the CUDA driver API documents for
//! the call of that name, with the same status codes, whatever hardware, or none, is behind it. Ownership, lifetimes,
//! ordering between streams and futures are the business of the `anabranch` crate, which knows drivers only through
//! this one.
//!
//! * Every trait is object-safe. A layer (a checker, a tracer, a fault injector) is a [`Driver`] that owns a driver.
//! * Handles are opaque and typed; a handle is never reused for another kind of object.
//! * [`Status`] is a newtype over the driver's integer and not an `enum`: a code that a newer driver adds stays
//!   representable.
//! * Most methods are `unsafe`, for one reason, stated once here and called **the handle rule**: every handle passed in
//!   must come from the same driver and must not have been destroyed, and every address must be valid for the
//!   operation until the operation has *run* (not merely until the call returns).
//!
//! # Portability
//!
//! Calls may be made from any thread. A driver that needs a context current on the thread makes it so for the duration
//! of the call and leaves the thread as it found it.

mod capture;
mod compiler;
mod context;
mod device;
mod driver;
mod event;
mod failure;
mod graph;
mod handle;
mod host_kernel;
mod host_work;
mod inside;
mod launch;
mod memory;
mod memory_report;
mod module;
mod status;
mod stream;

pub use capture::{CaptureInfo, CaptureMode, CaptureStatus, Captures, DependencyUpdate};
pub use compiler::{CompileOutput, CompileRequest, Compiler, FoundCompiler, OutputKind};
pub use context::{ContextFlags, Contexts};
pub use device::{Capabilities, DeviceProperties, Devices, PriorityRange};
pub use driver::{Absence, BackendKind, Driver, DriverVersion};
pub use event::{EventFlags, EventRecordFlags, EventWaitFlags, Events, InterprocessEventHandle};
pub use failure::{Detail, Failure, Result};
pub use graph::{
    AddedNode, AllocationNode, ConditionalKind, ConditionalNode, Dependency, Edge, EdgeData, EdgeKind,
    ExecutableGraphs, FillNode, GraphInstantiateResult, GraphMemoryAttribute, GraphNodeKind, GraphUpdateResult, Graphs,
    InstantiateFlags, KernelNode, NodeParameters, RepeatableWork, Retained, ValueOperation,
};
pub use handle::{
    ConditionalHandle, ContextHandle, DeviceOrdinal, DevicePointer, EventHandle, ExecutableGraphHandle, FunctionHandle,
    GraphHandle, GraphNodeHandle, MemoryPoolHandle, ModuleHandle, StreamHandle,
};
pub use host_kernel::{
    Block, ConditionalValues, DeviceElement, GlobalRange, GlobalSlice, HostArguments, HostBody, HostFunction,
    HostGlobal, HostModule, KernelFault, SharedMemory, Thread, UsedRange,
};
pub use host_work::{Callback, HostWork};
pub use inside::InsideWork;
pub use launch::{Access, DeclaredRange, Launch};
pub use memory::{
    Copy3d, CopyKind, CopyPlace, FillPattern, Memory, MemoryInfo, MemoryPoolAttribute, MemoryPoolOptions, PinnedFlags,
};
pub use memory_report::{AllocationKind, LiveAllocation, MemoryFinding, MemoryFindingKind, MemoryReport};
pub use module::{FunctionAttribute, FunctionInfo, ModuleImage, Modules, ParameterInfo};
pub use status::Status;
pub use stream::{
    AccessPolicyWindow, AccessProperty, StreamAttribute, StreamAttributeKind, StreamFlags, Streams,
    SynchronizationPolicy, Value, WaitValueFlags, WriteValueFlags,
};
