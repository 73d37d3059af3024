//! The work of a node, checked and with everything that it refers to.

use super::{Conditional, Graph};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::kernel::{Kernel, KernelArguments, KernelCall, LaunchConfig};
use crate::memory::{BufferSlice, BufferSliceMut, FillElement, Region, Volume, VolumeMut, region_copy};
use crate::stream::{ExternalSemaphore, Signal, WaitCondition};
use anabranch_core::conditional_setter::setting_kernel;
use anabranch_core::external_semaphore::operations;
use anabranch_core::host_work::RepeatableHostWork;
use anabranch_core::memory::Allocation;
use anabranch_core::node_work::NodeWork as NodeWorkCore;
use anabranch_hal::{
    Access, Copy3d, CopyPlace, DevicePointer, FillNode, FillPattern, KernelNode, NodeParameters, Status, Value,
    ValueOperation, WriteValueFlags,
};
use bytemuck::Pod;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The work of a node. It is made once and then [added](Graph::add) to a graph. It can also [replace](Graph::set_node)
/// the work of a node in a graph or in an [executable graph](crate::ExecutableGraph::set_node).
///
/// The graph retains what the work refers to, including buffers, as long as a launch of it can run. The `NodeWork`
/// itself retains it until then. From now on, the host can access pinned and managed memory of the work only between
/// launches. Nodes of one graph that use the same memory must be ordered by edges, which the caller adds. Without an
/// edge, their order is unspecified.
pub struct NodeWork<'a> {
    pub(super) core: NodeWorkCore,
    lifetime: PhantomData<&'a Graph>,
}

impl NodeWork<'_> {
    fn of(core: NodeWorkCore) -> Self {
        Self { core, lifetime: PhantomData }
    }

    /// # Safety
    /// Same as for [`NodeWorkCore::new`].
    unsafe fn new(parameters: NodeParameters) -> Self {
        // SAFETY: the caller promises that what the parameters refer to exists, and that the node is sound at every launch.
        Self::of(unsafe { NodeWorkCore::new(parameters) })
    }

    fn with_memory(self, memory: &Arc<Allocation>, access: Access) -> Self {
        Self::of(self.core.with_memory(memory, access))
    }

    /// No work. An empty node can have dependencies, and other nodes can depend on it.
    pub fn empty() -> Self {
        Self::of(NodeWorkCore::empty())
    }

    /// A kernel launch. Follows `cuGraphAddKernelNode`.
    ///
    /// # Safety
    /// Same as for [`Stream::launch`](crate::Stream::launch), at every launch of every graph that contains the node.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the arguments do not match the parameters of
    /// the kernel; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the configuration has
    /// programmatic serialization or events, instead of which nodes have edges.
    pub unsafe fn kernel<A: KernelArguments>(kernel: &Kernel, config: &LaunchConfig<'_>, arguments: A) -> Result<Self> {
        if config.shape.overlap.is_some() {
            let message = "a node has edges instead of programmatic serialization and events of the launch";
            return Err(Error::argument(Status::NOT_SUPPORTED, "making a node", message)
                .with_hint("make the node without them, and add its dependencies with EdgeKind::PROGRAMMATIC"));
        }
        arguments.with(|arguments| {
            kernel.core().check(arguments.sizes)?;
            let bytes = |(value, size): (&*const std::ffi::c_void, &usize)| {
                // SAFETY: `with` gives as many sizes as addresses, and each value has its size.
                unsafe { std::slice::from_raw_parts(value.cast::<u8>(), *size) }.to_vec()
            };
            let shape = &config.shape;
            let parameters = NodeParameters::Kernel(KernelNode {
                function: kernel.as_raw(),
                grid: shape.grid,
                block: shape.block,
                cluster: shape.cluster,
                dynamic_shared_bytes: shape.dynamic_shared_bytes,
                cooperative: shape.cooperative,
                priority: shape.priority,
                attributes: shape.attributes.unwrap_or_default(),
                arguments: arguments.values.iter().zip(arguments.sizes).map(bytes).collect(),
                ranges: arguments.ranges.to_vec(),
            });
            // SAFETY: the caller promises that each launch is sound. The work retains the memory and the module.
            let mut work = unsafe { NodeWorkCore::new(parameters) };
            for access in arguments.accesses {
                work = work.with_memory(access.memory, access.access);
            }
            Ok(Self::of(work.with_object(kernel.core().module().clone()).in_context(kernel.core().context())))
        })
    }

    /// A copy between device, pinned and managed memory, in any combination. Follows `cuGraphAddMemcpyNode`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ, or there is nothing to
    /// copy.
    pub fn copy<'d, 's, T: Pod>(
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<Self> {
        let (destination, source) = (destination.into(), source.into());
        crate::memory::require_equal_lengths(destination.len(), source.len())?;
        let bytes = source.byte_len();
        if bytes == 0 {
            return Err(nothing_to_do());
        }
        let place = |memory: &Arc<Allocation>, address: DevicePointer| CopyPlace {
            address: address.0,
            host: memory.is_pinned(),
            pitch: bytes,
            height: 1,
            origin: [0; 3],
        };
        let copy = Copy3d {
            source: place(source.allocation(), source.device_pointer()),
            destination: place(destination.allocation(), destination.device_pointer()),
            extent: [bytes, 1, 1],
        };
        // SAFETY: the copy is within its source and destination, which the work retains.
        Ok(unsafe { Self::new(NodeParameters::Copy(copy)) }
            .with_memory(source.allocation(), Access::Read)
            .with_memory(destination.allocation(), Access::Write))
    }

    /// A copy of a region of rows and slices.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the region is not within either volume, or
    /// there is nothing to copy.
    pub fn copy_region<T: Pod>(destination: VolumeMut<'_, T>, source: Volume<'_, T>, region: &Region) -> Result<Self> {
        let copy = region_copy(&destination, &source, region)?.ok_or_else(nothing_to_do)?;
        // SAFETY: the copy is within its source and destination, which the work retains.
        Ok(unsafe { Self::new(NodeParameters::Copy(copy)) }
            .with_memory(source.allocation(), Access::Read)
            .with_memory(destination.allocation(), Access::Write))
    }

    /// Sets every element to `value`. Follows `cuGraphAddMemsetNode`, which supports elements of up to 32 bits.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for 64-bit elements whose halves differ, or if
    /// there is nothing to fill.
    pub fn fill<'d, T: FillElement>(destination: impl Into<BufferSliceMut<'d, T>>, value: T) -> Result<Self> {
        let destination = destination.into();
        let (pattern, width) = match value.pattern() {
            FillPattern::U64(bits) if bits >> 32 == bits & 0xffff_ffff => {
                (FillPattern::U32(bits as u32), destination.len() * 2)
            }
            FillPattern::U64(_) => {
                return Err(Error::argument(
                    Status::INVALID_VALUE,
                    "filling in a graph",
                    "a node fills with at most 32 bits; capture a fill of 64 bits instead, or use a kernel",
                ));
            }
            pattern => (pattern, destination.len()),
        };
        Self::fill_pattern(&destination, pattern, width)
    }

    /// Sets every byte to zero.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if there is nothing to fill.
    pub fn fill_zero<'d, T: Pod>(destination: impl Into<BufferSliceMut<'d, T>>) -> Result<Self> {
        let destination = destination.into();
        Self::fill_pattern(&destination, FillPattern::U8(0), destination.byte_len())
    }

    fn fill_pattern<T: Pod>(destination: &BufferSliceMut<'_, T>, pattern: FillPattern, width: usize) -> Result<Self> {
        if width == 0 {
            return Err(nothing_to_do());
        }
        let fill = FillNode { address: destination.device_pointer(), pitch: 0, pattern, width, height: 1 };
        // SAFETY: the fill is within its destination, which the work retains.
        Ok(unsafe { Self::new(NodeParameters::Fill(fill)) }.with_memory(destination.allocation(), Access::Write))
    }

    /// A host function, which runs at every launch. The rules of
    /// [`Stream::launch_host_func`](crate::Stream::launch_host_func) apply to each run. A panic is reported by the stream of
    /// the launch; if several launches may be running and the driver does not say which it is, as on CUDA, by the first of
    /// their streams that is asked. Follows `cuGraphAddHostNode`.
    pub fn host_func(function: impl Fn() + Send + Sync + 'static) -> Self {
        Self::of(NodeWorkCore::host_function(RepeatableHostWork::new(function)))
    }

    /// Records an event when the earlier nodes are complete, for work outside the graph.
    pub fn event_record(event: &Event) -> Self {
        Self::of(NodeWorkCore::event_record(event.core()))
    }

    /// Waits for what an event has captured by the time of the launch. If the event was then last recorded in a capture that has
    /// not ended, the launch is refused.
    pub fn event_wait(event: &Event) -> Self {
        Self::of(NodeWorkCore::event_wait(event.core()))
    }

    /// Signals a semaphore of another API or process when the earlier nodes are complete. Each launch signals the same value.
    /// Follows `cuGraphAddExternalSemaphoresSignalNode`.
    pub fn signal_external_semaphore(semaphore: &ExternalSemaphore, value: u64) -> Self {
        let operations = operations(&[(semaphore.core(), value)]);
        Self::external(NodeParameters::ExternalSignal(operations), semaphore)
    }

    /// Waits for a semaphore of another API or process. Follows `cuGraphAddExternalSemaphoresWaitNode`.
    pub fn wait_external_semaphore(semaphore: &ExternalSemaphore, value: u64) -> Self {
        let operations = operations(&[(semaphore.core(), value)]);
        Self::external(NodeParameters::ExternalWait(operations), semaphore)
    }

    fn external(parameters: NodeParameters, semaphore: &ExternalSemaphore) -> Self {
        let core = semaphore.core();
        // SAFETY: the parameters name the semaphore, which the work retains.
        let work = unsafe { NodeWorkCore::new(parameters) };
        Self::of(work.with_object(core.clone()).in_context(core.context()))
    }

    /// Waits until a signal's value satisfies the condition.
    pub fn wait_signal(signal: &Signal, condition: WaitCondition, value: u64) -> Self {
        let (address, flags) = (signal.allocation().address(), condition.flags());
        // A wait changes nothing, and a write is unordered by its nature.
        let operation = ValueOperation::Wait { address, value: Value::U64(value), flags };
        // SAFETY: the address is that of the signal's memory, which the work retains.
        unsafe { Self::new(NodeParameters::ValueOperations(vec![operation])) }
            .with_memory(signal.allocation(), Access::Read)
    }

    /// Sets a signal's value.
    pub fn write_signal(signal: &Signal, value: u64) -> Self {
        let (address, flags) = (signal.allocation().address(), WriteValueFlags::empty());
        let operation = ValueOperation::Write { address, value: Value::U64(value), flags };
        // SAFETY: the address is that of the signal's memory, which the work retains.
        unsafe { Self::new(NodeParameters::ValueOperations(vec![operation])) }
            .with_memory(signal.allocation(), Access::Read)
    }

    /// Sets the value of a conditional node of the same graph, at every launch, to the first element of `value` at the
    /// time the node runs. On CUDA, this needs the library `libcudadevrt.a` of the CUDA toolkit at run time. The first call
    /// for a context loads a kernel, for which a driver may wait until the context has no work in flight.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if `value` is empty;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no conditional nodes;
    /// [`CUDA_ERROR_FILE_NOT_FOUND (301)`](crate::Status::FILE_NOT_FOUND) if the library is not found.
    pub fn set_conditional<'v>(conditional: Conditional, value: impl Into<BufferSlice<'v, u32>>) -> Result<Self> {
        let value = value.into();
        if value.is_empty() {
            return Err(nothing_to_do());
        }
        let context = value.allocation().context();
        let kernel = setting_kernel(context, conditional.handle, value.device_pointer())?;
        // SAFETY: the kernel reads one element of the memory, which the work retains. It stays loaded as long as the context.
        let work = unsafe { NodeWorkCore::new(NodeParameters::Kernel(kernel)) };
        let work = work.with_memory(value.allocation(), Access::Read);
        Ok(Self::of(work.in_context(context).setting_conditional_of(conditional.graph, conditional.handle)))
    }

    /// Value waits and writes, in order. Follows `cuGraphAddBatchMemOpNode`.
    ///
    /// # Safety
    /// The addresses are valid for the device at every launch.
    pub unsafe fn value_operations(operations: impl Into<Vec<ValueOperation>>) -> Self {
        // SAFETY: the caller keeps the addresses valid at every launch.
        unsafe { Self::new(NodeParameters::ValueOperations(operations.into())) }
    }

    /// A free of memory that a graph allocated, by its address. Prefer [`Graph::add_free`].
    ///
    /// # Safety
    /// At every launch, an allocation node has allocated the memory before this node runs, and nothing uses it
    /// afterwards. If that node is of another graph, executable graphs with this one are not updated: drivers hang or crash at
    /// the next launch.
    pub unsafe fn free(address: DevicePointer) -> Self {
        // SAFETY: the caller promises that the memory is allocated when the node runs, and that nothing uses it afterwards.
        unsafe { Self::new(NodeParameters::Free(address)) }
    }

    /// Any parameters that the driver supports. Nothing is retained for them.
    ///
    /// # Safety
    /// Everything that the parameters refer to lives as long as the graph, and everything made from it, can run. The
    /// work of the node is sound at every launch.
    pub unsafe fn from_parameters(parameters: NodeParameters) -> Self {
        // SAFETY: the caller promises that what the parameters refer to lives as long as something can run the node, and that
        // the node is sound at every launch.
        unsafe { Self::new(parameters) }
    }
}

impl<'a> NodeWork<'a> {
    /// Another graph, which is copied with everything that it retains. Later changes of it do not affect the copy.
    /// Follows `cuGraphAddChildGraphNode`.
    pub fn child(graph: &'a Graph) -> Self {
        Self::of(NodeWorkCore::child(graph.object()))
    }
}

impl<A: KernelArguments> KernelCall<'_, A> {
    /// The launch as the work of a node, for [`Graph::add`](crate::Graph::add) and for replacing the work of a node.
    ///
    /// # Safety
    /// The promises [above](Self#what-the-caller-of-a-launch-promises), at every launch of every graph that contains
    /// the node.
    ///
    /// # Errors
    /// Same as [`NodeWork::kernel`].
    pub unsafe fn into_node<'n>(self, config: &LaunchConfig<'_>) -> Result<NodeWork<'n>> {
        let (kernel, arguments) = self.into_parts();
        // SAFETY: the arguments are those that were declared, and the caller promises that the declaration is that of the code,
        // and that each launch is sound.
        unsafe { NodeWork::kernel(kernel, config, arguments) }
    }
}

fn nothing_to_do() -> Error {
    Error::argument(Status::INVALID_VALUE, "making a node", "there are no elements; use an empty node instead")
}

impl fmt::Debug for NodeWork<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeWork({})", self.core.parameters().kind())
    }
}
