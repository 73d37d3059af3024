//! Nodes of a graph.

use crate::{
    ConditionalHandle, Copy3d, DeclaredRange, DeviceOrdinal, DevicePointer, EventHandle, ExternalSemaphoreOperation,
    FillPattern, FunctionHandle, GraphHandle, GraphNodeHandle, HostWorkKey, KernelAttributes, ValueOperation,
};
use std::fmt;

/// The kind of a node (`CUgraphNodeType`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct GraphNodeKind(pub u32);

impl GraphNodeKind {
    /// A kernel launch.
    pub const KERNEL: Self = Self(0);
    /// A copy.
    pub const COPY: Self = Self(1);
    /// A fill.
    pub const FILL: Self = Self(2);
    /// A host function.
    pub const HOST: Self = Self(3);
    /// Another graph, copied into this one.
    pub const CHILD: Self = Self(4);
    /// No work. Other nodes can depend on it.
    pub const EMPTY: Self = Self(5);
    /// A wait for an event that is recorded outside the graph.
    pub const EVENT_WAIT: Self = Self(6);
    /// A record of an event that is visible outside the graph.
    pub const EVENT_RECORD: Self = Self(7);
    /// Signals of semaphores of another API or process.
    pub const EXTERNAL_SIGNAL: Self = Self(8);
    /// Waits for semaphores of another API or process.
    pub const EXTERNAL_WAIT: Self = Self(9);
    /// An allocation.
    pub const ALLOCATE: Self = Self(10);
    /// A free.
    pub const FREE: Self = Self(11);
    /// Value waits and writes.
    pub const VALUE_OPERATIONS: Self = Self(12);
    /// Graphs that run depending on a conditional value.
    pub const CONDITIONAL: Self = Self(13);

    /// The name of the kind in words, or `None` if it is not one of the kinds above.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::KERNEL => "kernel",
            Self::COPY => "copy",
            Self::FILL => "fill",
            Self::HOST => "host function",
            Self::CHILD => "child graph",
            Self::EMPTY => "empty",
            Self::EVENT_WAIT => "event wait",
            Self::EVENT_RECORD => "event record",
            Self::EXTERNAL_SIGNAL => "external signal",
            Self::EXTERNAL_WAIT => "external wait",
            Self::ALLOCATE => "allocation",
            Self::FREE => "free",
            Self::VALUE_OPERATIONS => "value operations",
            Self::CONDITIONAL => "conditional",
            _ => return None,
        })
    }
}

impl fmt::Display for GraphNodeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "kind {}", self.0),
        }
    }
}

impl fmt::Debug for GraphNodeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A kernel launch, as a node stores it (`CUDA_KERNEL_NODE_PARAMS`).
#[derive(Clone, Debug, PartialEq)]
pub struct KernelNode {
    /// The kernel.
    pub function: FunctionHandle,
    /// The extents of the grid in x, y and z, in blocks.
    pub grid: [u32; 3],
    /// The extents of a block in x, y and z, in threads.
    pub block: [u32; 3],
    /// The extents of a cluster in x, y and z, in blocks, if the launch uses clusters.
    pub cluster: Option<[u32; 3]>,
    /// The dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must run at the same time.
    pub cooperative: bool,
    /// The priority of the node. It has an effect only with
    /// [`InstantiateFlags::USE_NODE_PRIORITY`](crate::InstantiateFlags::USE_NODE_PRIORITY).
    pub priority: Option<i32>,
    /// Other attributes of the kernel.
    pub attributes: KernelAttributes,
    /// The value of each argument as bytes, in order. There are as many as the kernel declares.
    pub arguments: Vec<Vec<u8>>,
    /// The memory ranges that the launch declares to use.
    pub ranges: Vec<DeclaredRange>,
}

/// A fill of rows (`CUDA_MEMSET_NODE_PARAMS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillNode {
    /// The first address.
    pub address: DevicePointer,
    /// The distance between the starts of two rows, in bytes. Ignored if there is only one row.
    pub pitch: usize,
    /// The pattern to fill with. Nodes do not support [`FillPattern::U64`]: the driver answers
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    pub pattern: FillPattern,
    /// The number of elements in a row.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

/// An allocation (`CUDA_MEM_ALLOC_NODE_PARAMS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationNode {
    /// The device on which the memory resides.
    pub device: DeviceOrdinal,
    /// The size in bytes.
    pub bytes: usize,
    /// Other devices that can access the memory.
    pub access: Vec<DeviceOrdinal>,
    /// The address of the memory, which is the same at every launch. The driver chooses it and ignores this field when
    /// a node is added.
    pub address: DevicePointer,
}

/// How a conditional node chooses which of its bodies to run (`CUgraphConditionalNodeType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionalKind {
    /// Runs the first body once if the value is not 0. Otherwise runs the second body once, if there is one.
    If,
    /// Runs its only body repeatedly while the value is not 0.
    While,
    /// Runs the body whose index equals the value once. Runs none if there is no such body.
    Switch,
}

/// A conditional node (`CUDA_CONDITIONAL_NODE_PARAMS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalNode {
    /// The conditional value.
    pub handle: ConditionalHandle,
    /// How the value chooses a body.
    pub kind: ConditionalKind,
    /// The number of bodies.
    pub body_count: u32,
    /// The bodies, which the node owns. The driver creates them and ignores this field when a node is added.
    pub bodies: Vec<GraphHandle>,
}

/// The parameters of a node: what it does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeParameters {
    /// A kernel launch.
    Kernel(KernelNode),
    /// A copy of a region of rows and slices.
    Copy(Copy3d),
    /// A fill.
    Fill(FillNode),
    /// A host function that runs at every launch. Its owner must keep the [`RepeatableWork`](crate::RepeatableWork)
    /// alive for as long as a launch can run. A driver that knows in which stream it was launched says so, by
    /// [`LaunchedIn`](crate::LaunchedIn).
    Host(HostWorkKey),
    /// Another graph. It is copied when the node is added. When the parameters are read back, the handle is that of the
    /// copy, which the node owns.
    Child(GraphHandle),
    /// No work.
    Empty,
    /// A wait for the work that the event has captured most recently when the node begins.
    EventWait(EventHandle),
    /// A record of the event, when the nodes that this node depends on are complete.
    EventRecord(EventHandle),
    /// Signals of semaphores, when the nodes that this node depends on are complete.
    ExternalSignal(Vec<ExternalSemaphoreOperation>),
    /// Waits for semaphores.
    ExternalWait(Vec<ExternalSemaphoreOperation>),
    /// An allocation.
    Allocate(AllocationNode),
    /// A free of memory that a graph allocated.
    Free(DevicePointer),
    /// Value waits and writes, in order.
    ValueOperations(Vec<ValueOperation>),
    /// Graphs that run depending on a conditional value.
    Conditional(ConditionalNode),
}

impl NodeParameters {
    /// Returns the kind of node that has such parameters.
    pub const fn kind(&self) -> GraphNodeKind {
        match self {
            Self::Kernel(_) => GraphNodeKind::KERNEL,
            Self::Copy(_) => GraphNodeKind::COPY,
            Self::Fill(_) => GraphNodeKind::FILL,
            Self::Host(_) => GraphNodeKind::HOST,
            Self::Child(_) => GraphNodeKind::CHILD,
            Self::Empty => GraphNodeKind::EMPTY,
            Self::EventWait(_) => GraphNodeKind::EVENT_WAIT,
            Self::EventRecord(_) => GraphNodeKind::EVENT_RECORD,
            Self::ExternalSignal(_) => GraphNodeKind::EXTERNAL_SIGNAL,
            Self::ExternalWait(_) => GraphNodeKind::EXTERNAL_WAIT,
            Self::Allocate(_) => GraphNodeKind::ALLOCATE,
            Self::Free(_) => GraphNodeKind::FREE,
            Self::ValueOperations(_) => GraphNodeKind::VALUE_OPERATIONS,
            Self::Conditional(_) => GraphNodeKind::CONDITIONAL,
        }
    }
}

/// The result of adding a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedNode {
    /// The node.
    pub node: GraphNodeHandle,
    /// The address of the allocation, if the node is [`NodeParameters::Allocate`].
    pub address: Option<DevicePointer>,
    /// The empty bodies of the node, if it is [`NodeParameters::Conditional`].
    pub bodies: Vec<GraphHandle>,
}
