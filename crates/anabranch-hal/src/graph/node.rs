//! Nodes of a graph.

use crate::{
    ConditionalHandle, Copy3d, DeclaredRange, DeviceOrdinal, DevicePointer, EventHandle, FillPattern, FunctionHandle,
    GraphHandle, GraphNodeHandle, Value, WaitValueFlags, WriteValueFlags,
};
use std::fmt;
use std::sync::Arc;

/// Host work that can run any number of times. The rules for [`HostWork`](crate::HostWork) hold for each run.
#[derive(Clone)]
pub struct RepeatableWork(Arc<dyn Fn() + Send + Sync + 'static>);

impl RepeatableWork {
    /// Wraps a closure.
    pub fn new(closure: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(closure))
    }

    /// Calls the closure.
    #[inline]
    pub fn run(&self) {
        (self.0)();
    }

    /// Whether both are the same closure, and not merely equal ones.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for RepeatableWork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RepeatableWork")
    }
}

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
    /// Host work.
    pub const HOST: Self = Self(3);
    /// Another graph, copied into this one.
    pub const CHILD: Self = Self(4);
    /// Nothing, which other nodes can depend on.
    pub const EMPTY: Self = Self(5);
    /// A wait for an event recorded outside of the graph.
    pub const EVENT_WAIT: Self = Self(6);
    /// A record of an event that is seen outside of the graph.
    pub const EVENT_RECORD: Self = Self(7);
    /// An allocation.
    pub const ALLOCATE: Self = Self(10);
    /// A free.
    pub const FREE: Self = Self(11);
    /// Value waits and writes.
    pub const VALUE_OPERATIONS: Self = Self(12);
    /// Graphs that run depending on a value.
    pub const CONDITIONAL: Self = Self(13);

    /// The kind's name, in words, if it is one of those above.
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

/// A kernel launch, as a node keeps it (`CUDA_KERNEL_NODE_PARAMS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelNode {
    /// The kernel.
    pub function: FunctionHandle,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y and z, where the launch has clusters.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Whether all blocks must run at the same time.
    pub cooperative: bool,
    /// The node's priority, which counts where the graph was instantiated to use it.
    pub priority: Option<i32>,
    /// The bytes of each argument's value, in order; as many as the kernel declares.
    pub arguments: Vec<Vec<u8>>,
    /// The memory that the launch declares to use.
    pub ranges: Vec<DeclaredRange>,
}

/// A fill of rows (`CUDA_MEMSET_NODE_PARAMS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillNode {
    /// First address.
    pub address: DevicePointer,
    /// Bytes from one row to the next. Not used with a single row.
    pub pitch: usize,
    /// What is filled in. 1 for [`FillPattern::U64`]: nodes have no such width.
    pub pattern: FillPattern,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// An allocation (`CUDA_MEM_ALLOC_NODE_PARAMS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationNode {
    /// Where the memory resides.
    pub device: DeviceOrdinal,
    /// Size in bytes.
    pub bytes: usize,
    /// Other devices that can use it.
    pub access: Vec<DeviceOrdinal>,
    /// Its address, the same at every launch. Chosen by the driver: not looked at when a node is added.
    pub address: DevicePointer,
}

/// One value operation (`CUstreamBatchMemOpParams`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOperation {
    /// Waits until the value at the address satisfies the condition.
    Wait {
        /// Where.
        address: DevicePointer,
        /// Compared with what.
        value: Value,
        /// How.
        flags: WaitValueFlags,
    },
    /// Writes the value.
    Write {
        /// Where.
        address: DevicePointer,
        /// What.
        value: Value,
        /// How.
        flags: WriteValueFlags,
    },
}

/// Which of its graphs a conditional node runs (`CUgraphConditionalNodeType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionalKind {
    /// The first, once, if the value is not 0; the second, if there is one, once otherwise.
    If,
    /// The only one, again and again, while the value is not 0.
    While,
    /// The one whose number, from 0, is the value, once; none when there are not so many.
    Switch,
}

/// A conditional node (`CUDA_CONDITIONAL_NODE_PARAMS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalNode {
    /// The value that decides.
    pub handle: ConditionalHandle,
    /// What it decides.
    pub kind: ConditionalKind,
    /// How many graphs there are to run.
    pub body_count: u32,
    /// The graphs, which belong to the node. Made by the driver: not looked at when a node is added.
    pub bodies: Vec<GraphHandle>,
}

/// What a node does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeParameters {
    /// A kernel launch.
    Kernel(KernelNode),
    /// A copy of rows and slices.
    Copy(Copy3d),
    /// A fill.
    Fill(FillNode),
    /// Host work, which runs at every launch.
    Host(RepeatableWork),
    /// Another graph, which is copied when the node is added. Read back, the handle is that of the copy, which belongs to
    /// the node.
    Child(GraphHandle),
    /// Nothing.
    Empty,
    /// A wait for what the event captured last when the node begins.
    EventWait(EventHandle),
    /// A record of the event when the nodes before are done.
    EventRecord(EventHandle),
    /// An allocation.
    Allocate(AllocationNode),
    /// A free of memory that a graph allocated.
    Free(DevicePointer),
    /// Value waits and writes, in order.
    ValueOperations(Vec<ValueOperation>),
    /// Graphs that run depending on a value.
    Conditional(ConditionalNode),
}

impl NodeParameters {
    /// The kind of node that they are for.
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
            Self::Allocate(_) => GraphNodeKind::ALLOCATE,
            Self::Free(_) => GraphNodeKind::FREE,
            Self::ValueOperations(_) => GraphNodeKind::VALUE_OPERATIONS,
            Self::Conditional(_) => GraphNodeKind::CONDITIONAL,
        }
    }
}

/// What adding a node returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedNode {
    /// The node.
    pub node: GraphNodeHandle,
    /// The address that it allocates, for [`NodeParameters::Allocate`].
    pub address: Option<DevicePointer>,
    /// The graphs to fill, for [`NodeParameters::Conditional`].
    pub bodies: Vec<GraphHandle>,
}
