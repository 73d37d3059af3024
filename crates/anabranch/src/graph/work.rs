//! What a node does, checked and with all that it refers to.

use super::conditional_setter::setting_kernel;
use super::parts::KeptMemory;
use super::{Conditional, Graph, GraphObject};
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::host_work;
use crate::kernel::{Kernel, KernelArguments, LaunchConfig};
use crate::memory::{Allocation, BufferSlice, BufferSliceMut, FillElement, Region, Volume, VolumeMut, region_copy};
use crate::stream::{Signal, WaitCondition};
use anabranch_hal::{
    Access, Copy3d, CopyPlace, DevicePointer, FillNode, FillPattern, KernelNode, NodeParameters, Retained, Status,
    Value, ValueOperation, WriteValueFlags,
};
use bytemuck::Pod;
use smallvec::SmallVec;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a node does. It is made once, and then [added](Graph::add) to a graph, or [put](Graph::set_node) in place of what a
/// node did, in a graph or in an [executable one](crate::ExecutableGraph::set_node).
///
/// The graph keeps what the work refers to, buffers included, for as long as a launch of it can run, and the work does so until
/// then: pinned and managed memory is kept from plain references from now on. Nodes of one graph
/// that use the same memory are ordered by edges, which are the caller's to add: without one, which comes first is
/// unspecified.
pub struct NodeWork<'a> {
    pub(super) parameters: NodeParameters,
    pub(super) memory: SmallVec<[KeptMemory; 3]>,
    pub(super) kept: SmallVec<[Retained; 1]>,
    /// The graph that becomes a child.
    pub(super) child: Option<Arc<GraphObject>>,
    /// The context that the work must be used in, unless any of the driver's will do.
    pub(super) context: Option<Arc<ContextCore>>,
    /// A value of the graph that the work is for.
    pub(super) conditional: Option<Conditional>,
    lifetime: PhantomData<&'a Graph>,
}

impl NodeWork<'_> {
    fn new(parameters: NodeParameters) -> Self {
        Self {
            parameters,
            memory: SmallVec::new(),
            kept: SmallVec::new(),
            child: None,
            context: None,
            conditional: None,
            lifetime: PhantomData,
        }
    }

    fn with_memory(mut self, memory: &Arc<Allocation>, access: Access) -> Self {
        self.memory.push(KeptMemory::new(memory, access));
        self
    }

    /// Nothing. Nodes can depend on it, and it on nodes.
    pub fn empty() -> Self {
        Self::new(NodeParameters::Empty)
    }

    /// A kernel launch. Follows `cuGraphAddKernelNode`.
    ///
    /// # Safety
    /// As for [`Stream::launch`](crate::Stream::launch), at every launch of every graph that the node gets into.
    ///
    /// # Errors
    /// 1 when the arguments do not fit the kernel's parameters.
    pub unsafe fn kernel<A: KernelArguments>(kernel: &Kernel, config: &LaunchConfig, arguments: A) -> Result<Self> {
        let parameters = arguments.with(|values, sizes, ranges| {
            kernel.check(sizes)?;
            let bytes = |(value, size): (&*const std::ffi::c_void, &usize)| {
                // SAFETY: `with` gives as many sizes as addresses, and each value has its size.
                unsafe { std::slice::from_raw_parts(value.cast::<u8>(), *size) }.to_vec()
            };
            Ok::<_, Error>(KernelNode {
                function: kernel.as_raw(),
                grid: config.grid,
                block: config.block,
                cluster: config.cluster,
                dynamic_shared_bytes: config.dynamic_shared_bytes,
                cooperative: config.cooperative,
                priority: config.priority,
                arguments: values.iter().zip(sizes).map(bytes).collect(),
                ranges: ranges.to_vec(),
            })
        })?;
        let mut work = Self::new(NodeParameters::Kernel(parameters));
        arguments.for_each_use(&mut |used| work.memory.push(KeptMemory::new(&used.memory, used.access)));
        work.kept.push(kernel.module_core().clone());
        work.context = Some(kernel.context().clone());
        Ok(work)
    }

    /// A copy between device, pinned and managed memory, in any combination. Follows `cuGraphAddMemcpyNode`.
    ///
    /// # Errors
    /// 1 when the lengths differ, or there is nothing to copy.
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
        Ok(Self::new(NodeParameters::Copy(copy))
            .with_memory(source.allocation(), Access::Read)
            .with_memory(destination.allocation(), Access::Write))
    }

    /// A copy of a region of rows and slices.
    ///
    /// # Errors
    /// 1 when the region is not within either volume, or there is nothing to copy.
    pub fn copy_region<T: Pod>(destination: VolumeMut<'_, T>, source: Volume<'_, T>, region: &Region) -> Result<Self> {
        let copy = region_copy(&destination, &source, region)?.ok_or_else(nothing_to_do)?;
        Ok(Self::new(NodeParameters::Copy(copy))
            .with_memory(source.allocation(), Access::Read)
            .with_memory(destination.allocation(), Access::Write))
    }

    /// Sets every element to `value`. Follows `cuGraphAddMemsetNode`, which has elements of up to 32 bits.
    ///
    /// # Errors
    /// 1 for elements of 64 bits whose halves differ, or when there is nothing to fill.
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
    /// 1 when there is nothing to fill.
    pub fn fill_zero<'d, T: Pod>(destination: impl Into<BufferSliceMut<'d, T>>) -> Result<Self> {
        let destination = destination.into();
        Self::fill_pattern(&destination, FillPattern::U8(0), destination.byte_len())
    }

    fn fill_pattern<T: Pod>(destination: &BufferSliceMut<'_, T>, pattern: FillPattern, width: usize) -> Result<Self> {
        if width == 0 {
            return Err(nothing_to_do());
        }
        let fill = FillNode { address: destination.device_pointer(), pitch: 0, pattern, width, height: 1 };
        Ok(Self::new(NodeParameters::Fill(fill)).with_memory(destination.allocation(), Access::Write))
    }

    /// A host function, which runs at every launch. The rules of
    /// [`Stream::launch_host_func`](crate::Stream::launch_host_func) hold for each run. Follows `cuGraphAddHostNode`.
    pub fn host_func(function: impl Fn() + Send + Sync + 'static) -> Self {
        Self::new(NodeParameters::Host(host_work::repeatable(function)))
    }

    /// Records an event, for those outside of the graph, when the nodes before are done.
    pub fn event_record(event: &Event) -> Self {
        event.share();
        Self::event(NodeParameters::EventRecord(event.as_raw()), event)
    }

    /// Waits for what an event captured last when the node begins.
    pub fn event_wait(event: &Event) -> Self {
        Self::event(NodeParameters::EventWait(event.as_raw()), event)
    }

    fn event(parameters: NodeParameters, event: &Event) -> Self {
        let mut work = Self::new(parameters);
        work.kept.push(event.raw().clone());
        work.context = Some(event.context_core().clone());
        work
    }

    /// Waits until a signal's value satisfies the condition.
    pub fn wait_signal(signal: &Signal, condition: WaitCondition, value: u64) -> Self {
        let (address, flags) = (signal.allocation().address(), condition.flags());
        // A wait changes nothing, and a write is unordered by its nature.
        Self::new(NodeParameters::ValueOperations(vec![ValueOperation::Wait {
            address,
            value: Value::U64(value),
            flags,
        }]))
        .with_memory(signal.allocation(), Access::Read)
    }

    /// Sets a signal's value.
    pub fn write_signal(signal: &Signal, value: u64) -> Self {
        let (address, flags) = (signal.allocation().address(), WriteValueFlags::empty());
        Self::new(NodeParameters::ValueOperations(vec![ValueOperation::Write {
            address,
            value: Value::U64(value),
            flags,
        }]))
        .with_memory(signal.allocation(), Access::Read)
    }

    /// Sets the value of a conditional node of the same graph to what `value` holds when the node runs: its first element,
    /// at every launch. On CUDA, setting the value needs the library `libcudadevrt.a` of the CUDA toolkit at run time.
    ///
    /// # Errors
    /// 1 when `value` is empty; 801 or 301 where the device has no conditional nodes, or the library is not found.
    pub fn set_conditional<'v>(conditional: Conditional, value: impl Into<BufferSlice<'v, u32>>) -> Result<Self> {
        let value = value.into();
        if value.is_empty() {
            return Err(nothing_to_do());
        }
        let kernel = setting_kernel(value.allocation().context(), conditional.handle, value.device_pointer())?;
        let mut work = Self::new(NodeParameters::Kernel(kernel)).with_memory(value.allocation(), Access::Read);
        work.context = Some(value.allocation().context().clone());
        work.conditional = Some(conditional);
        Ok(work)
    }

    /// Value waits and writes, in order. Follows `cuGraphAddBatchMemOpNode`.
    ///
    /// # Safety
    /// The addresses are valid for the device at every launch.
    pub unsafe fn value_operations(operations: impl Into<Vec<ValueOperation>>) -> Self {
        Self::new(NodeParameters::ValueOperations(operations.into()))
    }

    /// A free of memory that a graph allocated, by its address. Prefer [`Graph::add_free`].
    ///
    /// # Safety
    /// The memory was allocated by an allocation node, at every launch before this node runs, and nothing uses it
    /// afterwards.
    pub unsafe fn free(address: DevicePointer) -> Self {
        Self::new(NodeParameters::Free(address))
    }

    /// Anything that the driver takes, with nothing kept alive for it.
    ///
    /// # Safety
    /// Whatever the parameters refer to lives as long as the graph, and all that is made from it, can run; what the node
    /// does is sound at every launch.
    pub unsafe fn from_parameters(parameters: NodeParameters) -> Self {
        Self::new(parameters)
    }
}

impl<'a> NodeWork<'a> {
    /// Another graph, which is copied with all that it keeps. Later changes of it do not reach the copy. Follows
    /// `cuGraphAddChildGraphNode`.
    pub fn child(graph: &'a Graph) -> Self {
        let mut work = NodeWork::new(NodeParameters::Child(graph.as_raw()));
        work.child = Some(graph.object().clone());
        work.context = Some(graph.object().context().clone());
        work
    }
}

fn nothing_to_do() -> Error {
    Error::argument(Status::INVALID_VALUE, "making a node", "there are no elements; use an empty node instead")
}

impl fmt::Debug for NodeWork<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "NodeWork({})", self.parameters.kind())
    }
}
