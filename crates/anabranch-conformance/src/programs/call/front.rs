//! Calls of the safe API.

use super::calls;
use crate::programs::slots::{
    ContextSlot, EdgeSlot, EventSlot, ExecutableSlot, Flags, FutureSlot, GateSlot, GraphSlot, MemorySlot, New,
    NodeSlot, Operand, PoolSlot, StreamSlot,
};
use anabranch::hal::{CaptureMode, ConditionalKind, DependencyUpdate};
use std::fmt::{self, Display, Formatter};

/// A part of a buffer, in elements. It may extend past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartSpec {
    pub(crate) memory: MemorySlot,
    pub(crate) start: u16,
    pub(crate) end: u16,
}

impl Operand for PartSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}[{}..{}]", self.memory, self.start, self.end)
    }
}

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferKind {
    /// In device memory that is not allocated in stream order.
    Plain,
    Pinned,
    Managed,
}

impl Operand for BufferKind {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

/// A kernel of the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontKernel {
    /// Sets the first element to itself times `factor` plus `value`.
    Add { factor: u32, value: u32 },
    /// Adds 1 to the first element in each thread.
    CountUp,
    /// Reverses as many elements as a block has threads, for each block.
    Reverse,
    /// Numbers an element for each thread.
    Indices,
}

/// What is wrong with a launch on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongLaunch {
    EmptyGrid,
    LargeBlock,
    LargeShared,
    /// An argument less than the kernel has.
    FewArguments,
    /// An argument of another size than the kernel has.
    WideArgument,
}

/// A launch of a kernel that writes a part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrontLaunch {
    /// Where the kernel is loaded.
    pub(crate) context: ContextSlot,
    pub(crate) kernel: FrontKernel,
    pub(crate) part: PartSpec,
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) wrong: Option<WrongLaunch>,
}

impl FrontLaunch {
    /// How many elements the kernel uses.
    pub(crate) fn elements(&self) -> usize {
        match self.kernel {
            FrontKernel::Add { .. } | FrontKernel::CountUp => 1,
            FrontKernel::Reverse | FrontKernel::Indices => self.grid as usize * self.block as usize,
        }
    }
}

impl Operand for FrontLaunch {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { context, kernel, part, grid, block, wrong } = self;
        write!(formatter, "{kernel:?} of {context},")?;
        part.show(formatter)?;
        write!(formatter, ",grid {grid},block {block}")?;
        wrong.map_or(Ok(()), |wrong| write!(formatter, ",{wrong:?}"))
    }
}

/// A region of rows and slices of two buffers: the length of a row and the number of rows of each, the origins and the
/// extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionSpec {
    pub(crate) to_shape: [usize; 2],
    pub(crate) from_shape: [usize; 2],
    pub(crate) to_origin: [usize; 3],
    pub(crate) from_origin: [usize; 3],
    pub(crate) extent: [usize; 3],
}

impl Operand for RegionSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self { to_shape, from_shape, to_origin, from_origin, extent } = self;
        write!(formatter, "{extent:?} to {to_origin:?} of {to_shape:?} from {from_origin:?} of {from_shape:?}")
    }
}

/// The work of a node of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontWork {
    Empty,
    Kernel(FrontLaunch),
    Copy { to: PartSpec, from: PartSpec },
    Fill { to: PartSpec, value: u32 },
    FillZero { to: PartSpec },
    Host(u32),
    Child(GraphSlot),
    EventRecord(EventSlot),
    EventWait(EventSlot),
}

impl FrontWork {
    /// Whether it matters in which order it runs with other nodes.
    pub(crate) fn is_ordered(&self) -> bool {
        !matches!(self, Self::Empty | Self::Host(_) | Self::EventRecord(_) | Self::EventWait(_))
    }
}

impl Operand for FrontWork {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let parts = |formatter: &mut Formatter<'_>, name: &str, parts: &[&dyn Operand]| {
            formatter.write_str(name)?;
            parts.iter().try_for_each(|part| {
                formatter.write_str(",")?;
                part.show(formatter)
            })
        };
        match self {
            Self::Empty => parts(formatter, "empty", &[]),
            Self::Kernel(launch) => parts(formatter, "kernel", &[launch]),
            Self::Copy { to, from } => parts(formatter, "copy", &[to, from]),
            Self::Fill { to, value } => parts(formatter, "fill", &[to, value]),
            Self::FillZero { to } => parts(formatter, "fill_zero", &[to]),
            Self::Host(number) => parts(formatter, "host", &[number]),
            Self::Child(graph) => parts(formatter, "child", &[graph]),
            Self::EventRecord(event) => parts(formatter, "event_record", &[event]),
            Self::EventWait(event) => parts(formatter, "event_wait", &[event]),
        }
    }
}

/// A conditional node: its kind, its value at each launch, and the work of its bodies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConditionalSpec {
    pub(crate) kind: ConditionalKind,
    pub(crate) value: u32,
    pub(crate) bodies: Vec<Vec<FrontWork>>,
}

impl Operand for ConditionalSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} of {},", self.kind, self.value)?;
        self.bodies.show(formatter)
    }
}

impl Operand for FrontCall {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

impl FrontCall {
    /// The condition of a part of a capture.
    pub(crate) fn condition(&self) -> Option<&PartSpec> {
        match self {
            Self::CaptureIf { condition, .. }
            | Self::CaptureIfElse { condition, .. }
            | Self::CaptureWhile { condition, .. }
            | Self::CaptureSwitch { value: condition, .. } => Some(condition),
            _ => None,
        }
    }

    /// Whether nothing waits for work in the call, so that signals may hold streams up meanwhile.
    pub(crate) fn is_immediate(&self) -> bool {
        matches!(
            self,
            Self::StreamWait { .. }
                | Self::StreamWaitEvent { .. }
                | Self::EventRecord { .. }
                | Self::HostFunction { .. }
                | Self::Callback { .. }
                | Self::Fill { .. }
                | Self::FillZero { .. }
                | Self::Launch { .. }
                | Self::LaunchChecked { .. }
                | Self::OrdersInserted { .. }
                | Self::StrictOrder { .. }
                | Self::SignalWait { .. }
                | Self::SignalWrite { .. }
                | Self::SignalSet { .. }
                | Self::FutureDrop { .. }
                | Self::ExecutableLaunch { .. }
        )
    }
}

calls! {
    /// Calls of the safe API.
    FrontCall {
        ContextSynchronize "context.synchronize" { context: ContextSlot }
        StrictOrder "context.set_strict_order" { context: ContextSlot, strict: bool }
        OrdersInserted "context.orders_inserted" { context: ContextSlot }
        InMode "context.exchange_capture_mode" { context: ContextSlot, mode: CaptureMode, body: Vec<FrontCall> }
        ModuleLoad "module.load" { context: ContextSlot, kernel: &'static str }
        StreamCreate "context.create_stream" {
            stream: New<StreamSlot>, context: ContextSlot, flags: Flags, priority: i32,
        }
        StreamLegacy "context.legacy_stream" { stream: New<StreamSlot>, context: ContextSlot }
        StreamPerThread "context.per_thread_stream" { stream: New<StreamSlot>, context: ContextSlot }
        StreamDrop "stream.drop" { stream: StreamSlot }
        StreamShutdown "stream.shutdown" { stream: StreamSlot }
        StreamQuery "stream.query" { stream: StreamSlot }
        StreamSynchronize "stream.synchronize" { stream: StreamSlot }
        StreamProperties "stream.properties" { stream: StreamSlot }
        StreamWait "stream.wait_stream" { stream: StreamSlot, other: StreamSlot }
        StreamWaitEvent "stream.wait_event" { stream: StreamSlot, event: EventSlot, flags: Flags }
        HostFunction "stream.launch_host_func" { stream: StreamSlot, number: u32, repeatable: bool }
        Callback "stream.add_callback" { stream: StreamSlot, number: u32 }
        EventCreate "context.create_event" { event: New<EventSlot>, context: ContextSlot, flags: Flags }
        EventDrop "event.drop" { event: EventSlot }
        EventRecord "stream.record" { stream: StreamSlot, event: EventSlot, flags: Flags }
        EventRecordNew "stream.record_event" { stream: StreamSlot, event: New<EventSlot>, flags: Flags }
        EventQuery "event.query" { event: EventSlot }
        EventSynchronize "event.synchronize" { event: EventSlot }
        EventElapsed "event.elapsed_since" { end: EventSlot, start: EventSlot }
        Allocate "stream.allocate_zeroed" {
            memory: New<MemorySlot>, stream: StreamSlot, length: usize, pool: Option<PoolSlot>,
        }
        AllocateOn "context.allocate" {
            memory: New<MemorySlot>, kind: BufferKind, context: ContextSlot, stream: StreamSlot, length: usize,
        }
        Upload "stream.upload" { memory: New<MemorySlot>, stream: StreamSlot, length: usize, seed: u32 }
        MemoryDrop "buffer.drop" { memory: MemorySlot }
        PoolCreate "device.create_memory_pool" { pool: New<PoolSlot>, max_bytes: u64 }
        PoolDrop "memory_pool.drop" { pool: PoolSlot }
        PoolTrim "memory_pool.trim" { pool: PoolSlot, keep: usize }
        Copy "stream.copy" { stream: StreamSlot, to: PartSpec, from: PartSpec }
        CopyPeer "stream.copy_peer" { stream: StreamSlot, to: PartSpec, from: PartSpec }
        CopyWithin "stream.copy_within" { stream: StreamSlot, memory: MemorySlot, middle: u16 }
        CopyRegion "stream.copy_region" { stream: StreamSlot, to: PartSpec, from: PartSpec, region: RegionSpec }
        Fill "stream.fill" { stream: StreamSlot, to: PartSpec, value: u32 }
        FillZero "stream.fill_zero" { stream: StreamSlot, to: PartSpec }
        CopyFromHost "stream.copy_from_host" { stream: StreamSlot, to: PartSpec, length: usize, seed: u32 }
        CopyToHost "stream.copy_to_host" { stream: StreamSlot, from: PartSpec, length: usize }
        Download "stream.download" { stream: StreamSlot, from: PartSpec }
        Prefetch "stream.prefetch" { stream: StreamSlot, memory: MemorySlot, to_host: bool }
        Launch "stream.launch" { stream: StreamSlot, launch: FrontLaunch }
        LaunchChecked "stream.launch_checked" { stream: StreamSlot, launch: FrontLaunch }
        HostRead "buffer.as_slice" { memory: MemorySlot }
        HostWrite "buffer.as_mut_slice" { memory: MemorySlot, seed: u32 }
        ReadWhile "buffer.read" { memory: MemorySlot, body: Vec<FrontCall> }
        WriteWhile "buffer.write" { memory: MemorySlot, seed: u32, body: Vec<FrontCall> }
        Scope "stream.sync_scope" {
            stream: StreamSlot, other: Option<StreamSlot>, to: PartSpec, from: PartSpec, seed: u32,
            body: Vec<FrontCall>,
        }
        CaptureBegin "stream.begin_capture" { stream: StreamSlot, mode: CaptureMode }
        CaptureBeginTo "stream.begin_capture_to_graph" {
            stream: StreamSlot, graph: GraphSlot, dependencies: Vec<NodeSlot>, mode: CaptureMode,
        }
        CaptureEnd "stream.end_capture" { stream: StreamSlot, graph: New<GraphSlot> }
        Capture "stream.capture" {
            stream: StreamSlot, mode: CaptureMode, graph: New<GraphSlot>, stops: bool, body: Vec<FrontCall>,
        }
        CaptureInto "stream.capture_into" {
            stream: StreamSlot, graph: GraphSlot, dependencies: Vec<NodeSlot>, mode: CaptureMode, stops: bool,
            body: Vec<FrontCall>,
        }
        CaptureStatus "stream.capture_status" { stream: StreamSlot }
        CaptureInfo "stream.capture_info" { stream: StreamSlot }
        CaptureUpdate "stream.update_capture_dependencies" {
            stream: StreamSlot, like: StreamSlot, update: DependencyUpdate,
        }
        CaptureIf "scope.capture_if" { condition: PartSpec, body: Vec<FrontCall> }
        CaptureIfElse "scope.capture_if_else" {
            condition: PartSpec, body: Vec<FrontCall>, otherwise: Vec<FrontCall>,
        }
        CaptureWhile "scope.capture_while" { condition: PartSpec, body: Vec<FrontCall> }
        CaptureSwitch "scope.capture_switch" { value: PartSpec, bodies: Vec<Vec<FrontCall>> }
        GraphCreate "context.create_graph" { graph: New<GraphSlot>, context: ContextSlot }
        GraphDrop "graph.drop" { graph: GraphSlot }
        GraphClone "graph.try_clone" { graph: GraphSlot, clone: New<GraphSlot> }
        GraphShape "graph.nodes" { graph: GraphSlot }
        GraphAdd "graph.add" { node: New<NodeSlot>, dependencies: Vec<NodeSlot>, work: FrontWork }
        GraphAddConditional "graph.add_conditional" {
            node: New<NodeSlot>, dependencies: Vec<NodeSlot>, conditional: ConditionalSpec,
        }
        GraphSetNode "graph.set_node" { graph: GraphSlot, node: NodeSlot, work: FrontWork }
        GraphRemoveNode "graph.remove_node" { graph: GraphSlot, node: NodeSlot }
        GraphAddEdges "graph.add_edges" { graph: GraphSlot, edges: Vec<EdgeSlot> }
        GraphRemoveEdges "graph.remove_edges" { graph: GraphSlot, edges: Vec<EdgeSlot> }
        GraphNode "graph.node_kind" { graph: GraphSlot, node: NodeSlot }
        Instantiate "graph.instantiate" {
            graph: GraphSlot, executable: New<ExecutableSlot>, flags: Flags, upload: Option<StreamSlot>,
        }
        ExecutableDrop "executable.drop" { executable: ExecutableSlot }
        ExecutableLaunch "executable.launch" { executable: ExecutableSlot, stream: StreamSlot }
        ExecutableUpload "executable.upload" { executable: ExecutableSlot, stream: StreamSlot }
        ExecutableUpdate "executable.update" { executable: ExecutableSlot, graph: GraphSlot }
        ExecutableSetNode "executable.set_node" { executable: ExecutableSlot, node: NodeSlot, work: FrontWork }
        ExecutableSetEnabled "executable.set_node_enabled" {
            executable: ExecutableSlot, node: NodeSlot, enabled: bool,
        }
        ExecutableNode "executable.is_node_enabled" { executable: ExecutableSlot, node: NodeSlot }
        FutureOf "stream.completion_future" { future: New<FutureSlot>, stream: StreamSlot, checked: bool }
        FutureOfEvent "event.completed" { future: New<FutureSlot>, event: EventSlot }
        FutureOfLaunch "executable.launch_async" {
            future: New<FutureSlot>, executable: ExecutableSlot, stream: StreamSlot,
        }
        DownloadAsync "stream.download_async" { future: New<FutureSlot>, stream: StreamSlot, from: PartSpec }
        UploadAsync "stream.upload_async" {
            future: New<FutureSlot>, memory: New<MemorySlot>, stream: StreamSlot, length: usize, seed: u32,
        }
        CopyAsync "stream.copy_async" {
            future: New<FutureSlot>, stream: StreamSlot, to: MemorySlot, from: MemorySlot,
        }
        FillAsync "stream.fill_async" {
            future: New<FutureSlot>, stream: StreamSlot, memory: MemorySlot, value: u32,
        }
        LaunchAsync "stream.launch_async" { future: New<FutureSlot>, stream: StreamSlot, launch: FrontLaunch }
        EnqueueAsync "stream.enqueue_async" {
            future: New<FutureSlot>, stream: StreamSlot, body: Vec<FrontCall>,
        }
        FutureAwait "future.await" { future: FutureSlot }
        FutureDrop "future.drop" { future: FutureSlot }
        SignalCreate "context.create_signal" { signal: New<GateSlot>, context: ContextSlot }
        SignalDrop "signal.drop" { signal: GateSlot }
        SignalSet "signal.set" { signal: GateSlot }
        SignalWait "stream.wait_signal" { stream: StreamSlot, signal: GateSlot, condition: u8 }
        SignalWrite "stream.write_signal" { stream: StreamSlot, signal: GateSlot }
    }
}
