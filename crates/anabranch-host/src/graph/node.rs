//! A node: what it does, and the edges to and from it.

use super::state::GraphState;
use crate::engine::{ContextCore, NumberCondition};
use crate::event::EventState;
use crate::memory::{GraphBlock, ValueStep, VolumeCopy};
use crate::module::KernelWork;
use anabranch_hal::{
    AllocationNode, ConditionalHandle, ConditionalKind, ConditionalNode, Copy3d, DevicePointer, EdgeData, EventHandle,
    ExternalSemaphoreOperation, FillNode, GraphNodeKind, HostWorkKey, KernelNode, NodeParameters, ValueOperation,
};
use std::sync::{Arc, Weak};

/// A node as its handle names it.
#[derive(Debug)]
pub(crate) struct NodeState {
    pub(super) graph: Weak<GraphState>,
    /// Its place in the order in which the nodes of the graph were made.
    pub(crate) number: u64,
    /// Never used again for another node of the process.
    pub(crate) id: u64,
}

/// A node as its graph keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) state: Arc<NodeState>,
    /// The id of the node that it was copied from, or 0.
    pub(crate) source: u64,
    pub(crate) action: Arc<Action>,
    /// The nodes that it depends on, by number.
    pub(crate) before: Vec<(u64, EdgeData)>,
    /// The nodes that depend on it, by number.
    pub(crate) after: Vec<u64>,
    /// When it last became a sink, a node that no other depends on, counted in its graph.
    pub(crate) sink_since: u64,
}

/// What a node does: its parameters, checked, with all that it needs to run.
#[derive(Debug)]
pub(crate) enum Action {
    Kernel(KernelAction),
    Copy(CopyAction),
    Fill(FillNode),
    Host(HostWorkKey),
    Child(Arc<GraphState>),
    Empty,
    EventWait(Arc<EventState>),
    EventRecord(Arc<EventState>),
    ExternalSignal(SemaphoresAction),
    ExternalWait(SemaphoresAction),
    Allocate(AllocateAction),
    Free(FreeAction),
    Values(ValuesAction),
    Conditional(ConditionalAction),
}

#[derive(Debug)]
pub(crate) struct KernelAction {
    pub(crate) parameters: KernelNode,
    pub(crate) core: Arc<ContextCore>,
    pub(crate) work: Arc<KernelWork>,
}

#[derive(Debug)]
pub(crate) struct CopyAction {
    pub(crate) parameters: Copy3d,
    pub(crate) work: VolumeCopy,
}

#[derive(Debug)]
pub(crate) struct AllocateAction {
    pub(crate) parameters: AllocationNode,
    pub(crate) block: Arc<GraphBlock>,
}

#[derive(Debug)]
pub(crate) struct FreeAction {
    pub(crate) address: DevicePointer,
    pub(crate) block: Arc<GraphBlock>,
}

#[derive(Debug)]
pub(crate) struct ValuesAction {
    pub(crate) parameters: Vec<ValueOperation>,
    pub(crate) steps: Vec<ValueStep>,
}

#[derive(Debug)]
pub(crate) struct SemaphoresAction {
    pub(crate) parameters: Vec<ExternalSemaphoreOperation>,
    /// The numbers, and what they are to be.
    pub(crate) numbers: Vec<NumberCondition>,
}

#[derive(Debug)]
pub(crate) struct ConditionalAction {
    pub(crate) handle: ConditionalHandle,
    pub(crate) kind: ConditionalKind,
    pub(crate) bodies: Vec<Arc<GraphState>>,
}

impl Node {
    pub(super) fn new(state: Arc<NodeState>, source: u64, action: Arc<Action>) -> Self {
        Self { state, source, action, before: Vec::new(), after: Vec::new(), sink_since: 0 }
    }
}

impl Action {
    pub(crate) fn kind(&self) -> GraphNodeKind {
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
            Self::Values(_) => GraphNodeKind::VALUE_OPERATIONS,
            Self::Conditional(_) => GraphNodeKind::CONDITIONAL,
        }
    }

    /// The parameters as they were given, with what the driver has chosen.
    pub(crate) fn parameters(&self) -> NodeParameters {
        let event = |event: &Arc<EventState>| EventHandle::from_raw(Arc::as_ptr(event) as usize);
        match self {
            Self::Kernel(kernel) => NodeParameters::Kernel(kernel.parameters.clone()),
            Self::Copy(copy) => NodeParameters::Copy(copy.parameters),
            Self::Fill(fill) => NodeParameters::Fill(*fill),
            Self::Host(work) => NodeParameters::Host(*work),
            Self::Child(child) => NodeParameters::Child(child.handle()),
            Self::Empty => NodeParameters::Empty,
            Self::EventWait(waited) => NodeParameters::EventWait(event(waited)),
            Self::EventRecord(recorded) => NodeParameters::EventRecord(event(recorded)),
            Self::ExternalSignal(signal) => NodeParameters::ExternalSignal(signal.parameters.clone()),
            Self::ExternalWait(wait) => NodeParameters::ExternalWait(wait.parameters.clone()),
            Self::Allocate(allocate) => NodeParameters::Allocate(allocate.parameters.clone()),
            Self::Free(free) => NodeParameters::Free(free.address),
            Self::Values(values) => NodeParameters::ValueOperations(values.parameters.clone()),
            Self::Conditional(conditional) => NodeParameters::Conditional(ConditionalNode {
                handle: conditional.handle,
                kind: conditional.kind,
                body_count: u32::try_from(conditional.bodies.len()).unwrap_or(u32::MAX),
                bodies: conditional.bodies.iter().map(|body| body.handle()).collect(),
            }),
        }
    }
}
