//! Editing graphs and the bodies of their conditional nodes.

use super::{BodyGraph, Conditional, Graph, NodeWork};
use crate::error::{Error, Result};
use crate::kernel::{Kernel, KernelArguments, LaunchConfig};
use crate::memory::Buffer;
use anabranch_core::graph::GraphEdge;
use anabranch_core::memory::byte_size;
use anabranch_core::node::{Dependencies, Node};
use anabranch_hal::{ConditionalKind, DeviceOrdinal, Status};
use bytemuck::Pod;

/// Implements the same methods for graphs and for bodies. A body is not a `&mut Graph`, which could be swapped with the graph
/// of another variable and outlive the graph around it.
macro_rules! edit {
    ($graph:ty) => {
        impl $graph {
            /// Adds a node that depends on others.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the work is not valid on the device,
            /// or a node is named twice, was removed, or belongs to another graph;
            /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the work belongs to another
            /// context; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) for a child that allocates
            /// memory or has conditional nodes, and if children and bodies of conditional nodes would be nested more
            /// than 64 levels deep.
            #[track_caller]
            pub fn add(&mut self, dependencies: impl Dependencies, work: NodeWork<'_>) -> Result<Node> {
                self.object().add(&dependencies.list(), &work.core)
            }

            /// Adds a kernel launch: [`NodeWork::kernel`].
            ///
            /// # Safety
            /// Same as for [`NodeWork::kernel`].
            ///
            /// # Errors
            /// Same as [`NodeWork::kernel`] and [`add`](Self::add).
            pub unsafe fn add_kernel<A: KernelArguments>(
                &mut self,
                dependencies: impl Dependencies,
                kernel: &Kernel,
                config: &LaunchConfig,
                arguments: A,
            ) -> Result<Node> {
                // SAFETY: the caller promises that each launch of the kernel is sound.
                self.add(dependencies, unsafe { NodeWork::kernel(kernel, config, arguments) }?)
            }

            /// Adds an allocation of `length` elements, whose contents are unspecified. The memory has the same address at
            /// every launch. Nodes of this graph that follow the allocation can use it. Unless the graph
            /// [frees](Self::add_free) it, the memory remains allocated after a launch, and the graph cannot be launched again
            /// unless it was instantiated with [`AUTO_FREE_ON_LAUNCH`](anabranch_hal::InstantiateFlags::AUTO_FREE_ON_LAUNCH). When the
            /// executable graph is dropped, it is freed behind the last launch. Follows `cuGraphAddMemAllocNode`.
            ///
            /// # Safety
            /// Nodes that use the memory follow this node, and those that read an element follow nodes that have written it: also
            /// nodes that are added, set or moved later, by calls that are not unsafe.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if `length` is 0;
            /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory;
            /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no such nodes.
            pub unsafe fn add_allocation<T: Pod>(
                &mut self,
                dependencies: impl Dependencies,
                length: usize,
            ) -> Result<(Node, Buffer<T>)> {
                // SAFETY: the caller promises that elements are read only after they were written.
                unsafe { self.add_allocation_with_access(dependencies, length, &[]) }
            }

            /// Like [`add_allocation`](Self::add_allocation), but other devices can use the memory too.
            ///
            /// # Safety
            /// Same as for [`add_allocation`](Self::add_allocation).
            ///
            /// # Errors
            /// Same as [`add_allocation`](Self::add_allocation);
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) or
            /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for a device that does not exist.
            pub unsafe fn add_allocation_with_access<T: Pod>(
                &mut self,
                dependencies: impl Dependencies,
                length: usize,
                access: &[DeviceOrdinal],
            ) -> Result<(Node, Buffer<T>)> {
                let operation = "adding an allocation to a graph";
                let bytes = byte_size::<T>(length, operation)?;
                let (node, memory) = self.object().add_allocation(&dependencies.list(), bytes, access)?;
                Ok((node, Buffer::of_others(memory, length)))
            }

            /// Adds a free of memory that this graph allocates.
            ///
            /// # Safety
            /// No node that uses the memory runs after this one or concurrently with it, neither one that is added, set or moved later,
            /// by calls that are not unsafe.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the memory does not belong to this
            /// graph, is already freed, or the node does not follow the allocation.
            pub unsafe fn add_free<T: Pod>(
                &mut self,
                dependencies: impl Dependencies,
                memory: Buffer<T>,
            ) -> Result<Node> {
                if memory.allocation().graph() != Some(self.object().id()) {
                    return Err(Error::argument(
                        Status::INVALID_VALUE,
                        "adding a free to a graph",
                        "the buffer was not allocated by this graph; drop it instead",
                    )
                    .at(self.object().place()));
                }
                // SAFETY: the caller promises that no node uses the memory after the free, or beside it.
                self.add(dependencies, unsafe { NodeWork::free(memory.device_pointer()) })
            }

            /// Replaces the work of a node by other work of the same kind. Existing executable graphs do not change. The graph
            /// releases what the node referred to before, except that what was captured stays retained until the graph is
            /// dropped.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the work is of another kind, the node
            /// does not belong to this graph, or it fills memory whose allocation was captured; otherwise the same as
            /// [`add`](Self::add).
            pub fn set_node(&mut self, node: Node, work: NodeWork<'_>) -> Result<()> {
                self.object().set_node(node, &work.core)
            }

            /// Removes a node and its edges. The graph releases what the node referred to, except that what was captured stays
            /// retained until the graph is dropped.
            ///
            /// # Errors
            /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the graph was ever asked to add an
            /// allocation or a free.
            #[track_caller]
            pub fn remove_node(&mut self, node: Node) -> Result<()> {
                self.object().remove_node(node)
            }

            /// Adds edges. If one is refused, the edges before it that have the same data have been added, and of those
            /// before them none, unless the graph was ever asked to add an allocation or a free.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for an edge that already exists, an edge
            /// from a node to itself, or an edge with data that the nodes do not support. A cycle is detected when the
            /// graph is [instantiated](Graph::instantiate).
            #[track_caller]
            pub fn add_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
                self.object().add_edges(edges)
            }

            /// Removes edges by their nodes, whatever the data is. If one is refused, the edges before it have been removed.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for an edge that does not exist;
            /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the graph was ever asked to add an
            /// allocation or a free.
            #[track_caller]
            pub fn remove_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
                self.object().remove_edges(edges)
            }

            /// Makes a value for one conditional node of this graph. With a default, the value is set to it at every launch.
            /// Without one, the value is unspecified until a kernel sets it. The graph can be neither cloned nor a child from
            /// then on. Follows `cuGraphConditionalHandleCreate`.
            ///
            /// # Errors
            /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no conditional nodes.
            pub fn create_conditional(&mut self, default: Option<u32>) -> Result<Conditional> {
                let handle = self.object().create_conditional(default)?;
                Ok(Conditional { handle, graph: self.object().id() })
            }

            /// Adds a conditional node. [`body`](Self::body) returns its bodies, which are empty at first.
            ///
            /// * [`ConditionalKind::If`]: 1 body, which runs if the value is not 0, or 2, of which the second runs if it is 0.
            /// * [`ConditionalKind::While`]: 1 body, which runs repeatedly while the value is not 0.
            /// * [`ConditionalKind::Switch`]: the body whose index is the value runs, if there is one.
            ///
            /// Each conditional value belongs to one node.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the kind does not support that number
            /// of bodies, there are more than 4096, or the value belongs to another graph or another node;
            /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no such nodes, or if
            /// children and bodies of conditional nodes would be nested more than 64 levels deep.
            pub fn add_conditional(
                &mut self,
                dependencies: impl Dependencies,
                conditional: Conditional,
                kind: ConditionalKind,
                bodies: u32,
            ) -> Result<Node> {
                let operation = "adding a conditional node to a graph";
                if conditional.graph != self.object().id() {
                    return Err(Error::argument(
                        Status::INVALID_VALUE,
                        operation,
                        "the conditional value belongs to another graph; make one with this graph's create_conditional",
                    )
                    .at(self.object().place()));
                }
                self.object().add_conditional(&dependencies.list(), conditional.handle, kind, bodies)
            }

            /// One of the bodies of a conditional node, counted from 0, to be filled or inspected.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the node has no such body. Bodies of
            /// captured conditional nodes cannot be accessed this way.
            pub fn body(&mut self, node: Node, index: usize) -> Result<BodyGraph<'_>> {
                let body = self.object().body(node, index)?;
                Ok(BodyGraph::new(body))
            }
        }
    };
}

edit!(Graph);
edit!(BodyGraph<'_>);
