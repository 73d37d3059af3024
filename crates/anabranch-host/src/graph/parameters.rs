//! What nodes do, checked as hardware checks it when they are added or changed.

use super::add::Adder;
use super::node::{
    Action, AllocateAction, ConditionalAction, CopyAction, FreeAction, KernelAction, SemaphoresAction, ValuesAction,
};
use super::state::{GraphState, Place};
use crate::event::EventState;
use crate::limits::MOST_VALUES;
use crate::memory::{GraphBlock, VolumeCopy, check_fill, value_step};
use crate::module::FunctionState;
use crate::semaphore::SemaphoreState;
use anabranch_hal::{
    AllocationNode, ConditionalKind, ConditionalNode, DevicePointer, EdgeData, EventHandle, ExternalSemaphoreOperation,
    Failure, FillNode, FillPattern, GraphHandle, KernelAttributes, KernelNode, Live, NodeParameters, Result, Status,
    ValueOperation,
};
use std::sync::Arc;

fn invalid(what: &str) -> Failure {
    Failure::argument(Status::INVALID_VALUE, what)
}

impl GraphState {
    /// What a new node does. `before`: the nodes that it will depend on.
    ///
    /// # Safety
    /// As for [`make_plain`](Self::make_plain).
    pub(super) unsafe fn make_action(
        &self,
        adder: Adder,
        before: &[(u64, EdgeData)],
        parameters: NodeParameters,
    ) -> Result<Action> {
        match parameters {
            // Whether there is memory is looked at when the graph is instantiated.
            NodeParameters::Fill(fill) if adder == Adder::Capture => fill_bytes(&fill).map(|_| Action::Fill(fill)),
            NodeParameters::Child(graph) => {
                // SAFETY: the caller promises that the graph in the parameters exists.
                self.make_child(unsafe { Live::new(graph) }).map(Action::Child)
            }
            NodeParameters::Allocate(allocation) => self.make_allocation(before, allocation).map(Action::Allocate),
            NodeParameters::Free(address) => self.make_free(address).map(Action::Free),
            NodeParameters::Conditional(node) => self.make_conditional(&node).map(Action::Conditional),
            // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
            other => unsafe { self.make_plain(other) },
        }
    }

    /// What a node of a kind does that owns nothing of the graph.
    ///
    /// # Safety
    /// The objects of the handles in the parameters exist, kernels as long as the node and its copies do; what the node does
    /// at each launch is sound.
    pub(crate) unsafe fn make_plain(&self, parameters: NodeParameters) -> Result<Action> {
        match parameters {
            // SAFETY: the caller promises that the kernel remains loaded as long as the node and its copies are there.
            NodeParameters::Kernel(kernel) => unsafe { make_kernel(kernel) }.map(Action::Kernel),
            NodeParameters::Copy(copy) => {
                if copy.extent.contains(&0) {
                    return Err(invalid("an extent of the copy is 0"));
                }
                let work = VolumeCopy::new(&self.memory.table, &copy)?;
                Ok(Action::Copy(CopyAction { parameters: copy, work }))
            }
            NodeParameters::Fill(fill) => self.check_fill(&fill).map(|()| Action::Fill(fill)),
            NodeParameters::Host(work) => Ok(Action::Host(work)),
            NodeParameters::Empty => Ok(Action::Empty),
            NodeParameters::EventWait(event) => {
                // SAFETY: the caller promises that the event in the parameters exists.
                share_event(unsafe { Live::new(event) }).map(Action::EventWait)
            }
            NodeParameters::EventRecord(event) => {
                // SAFETY: the caller promises that the event in the parameters exists.
                share_event(unsafe { Live::new(event) }).map(Action::EventRecord)
            }
            NodeParameters::ExternalSignal(operations) => {
                // SAFETY: the caller promises that the semaphores exist.
                unsafe { make_semaphores(operations) }.map(Action::ExternalSignal)
            }
            NodeParameters::ExternalWait(operations) => {
                // SAFETY: the caller promises that the semaphores exist.
                unsafe { make_semaphores(operations) }.map(Action::ExternalWait)
            }
            NodeParameters::ValueOperations(operations) => make_values(operations).map(Action::Values),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    fn make_child(&self, graph: Live<'_, GraphHandle>) -> Result<Arc<GraphState>> {
        Ok(child_of(graph)?.copy_noted(self.place.of_child()))
    }

    /// Checks what is said of an allocation, but not whether there is memory for it.
    pub(super) fn check_allocation(&self, parameters: &AllocationNode) -> Result<()> {
        for device in std::iter::once(&parameters.device).chain(&parameters.access) {
            self.memory.device(device.0).map_err(|_| invalid("there is no such device"))?;
        }
        if parameters.bytes == 0 { Err(invalid("none can be allocated of no size")) } else { Ok(()) }
    }

    fn make_allocation(&self, before: &[(u64, EdgeData)], parameters: AllocationNode) -> Result<AllocateAction> {
        let reused = self.lock().reusable_block(before, parameters.device.0, parameters.bytes);
        let block = match reused {
            Some(block) => block,
            None => GraphBlock::reserve(&self.memory, self.core.id, parameters.device.0, parameters.bytes)?,
        };
        let mut parameters = AllocationNode { address: DevicePointer(block.address()), ..parameters };
        // The device has access anyway.
        parameters.access.retain(|&peer| peer != parameters.device);
        Ok(AllocateAction { parameters, block })
    }

    fn make_free(&self, address: DevicePointer) -> Result<FreeAction> {
        let block = self.memory.graphs.block(address.0);
        let block = block.ok_or_else(|| invalid("the address is not one that a graph has allocated"))?;
        let contents = self.lock();
        if contents.blocks.is_freed(&block) {
            return Err(invalid("the graph frees the memory already"));
        }
        if !block.can_be_freed(contents.blocks.allocates(&block)) {
            return Err(invalid("another graph frees the memory, or an executable graph leaves it allocated"));
        }
        drop(contents);
        Ok(FreeAction { address, block })
    }

    fn make_conditional(&self, node: &ConditionalNode) -> Result<ConditionalAction> {
        let fits = match node.kind {
            ConditionalKind::If => (1..=2).contains(&node.body_count),
            ConditionalKind::While => node.body_count == 1,
            ConditionalKind::Switch => node.body_count > 0,
        };
        if !fits {
            return Err(invalid("a conditional node of this kind cannot have as many graphs"));
        }
        if !self.root()?.lock().is_unused(node.handle) {
            return Err(invalid("the value is not of this graph, or another node uses it"));
        }
        let bodies = (0..node.body_count).map(|_| self.new_body()).collect();
        Ok(ConditionalAction { handle: node.handle, kind: node.kind, bodies })
    }

    /// Checks that a fill has extents that a node can have, and lies in memory.
    pub(crate) fn check_fill(&self, fill: &FillNode) -> Result<()> {
        check_fill(&self.memory.table, fill.address.0, fill.pattern, fill_bytes(fill)?)
    }

    /// Replaces what a node does by something of the same kind.
    ///
    /// # Safety
    /// As for [`make_plain`](Self::make_plain).
    pub(crate) unsafe fn set_parameters(&self, number: u64, parameters: NodeParameters) -> Result<()> {
        let kind = parameters.kind();
        let check_kind = || match self.lock().node(number)?.kind() == kind {
            true => Ok(()),
            false => Err(invalid("the parameters are those of another kind of node")),
        };
        // As on hardware, what cannot be replaced, and a kernel with attributes, are looked at before the node.
        let comes_first = match &parameters {
            NodeParameters::Kernel(kernel) => {
                let attributes = kernel.attributes != KernelAttributes::NONE;
                kernel.cooperative || kernel.cluster.is_some() || kernel.priority.is_some() || attributes
            }
            NodeParameters::Child(_)
            | NodeParameters::Allocate(_)
            | NodeParameters::Free(_)
            | NodeParameters::Conditional(_) => true,
            _ => false,
        };
        if !comes_first {
            check_kind()?;
        }
        // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
        let action = Arc::new(unsafe { self.make_plain(parameters) }?);
        check_kind()?;
        let before = std::mem::replace(&mut self.lock().node_mut(number)?.action, action);
        // Dropped without the lock.
        drop(before);
        Ok(())
    }
}

/// A graph that can be that of a node.
pub(super) fn child_of(graph: Live<'_, GraphHandle>) -> Result<&GraphState> {
    let graph = GraphState::of(graph)?;
    if graph.place == Place::Body || graph.lock().marks.own_something() {
        return Err(Failure::argument(
            Status::NOT_SUPPORTED,
            "a graph in a node can neither allocate nor have conditional nodes, nor belong to another one",
        ));
    }
    Ok(graph)
}

/// From the first byte of a fill to the last.
fn fill_bytes(fill: &FillNode) -> Result<usize> {
    if matches!(fill.pattern, FillPattern::U64(_)) {
        return Err(invalid("a node fills with patterns of 1, 2 or 4 bytes"));
    }
    if fill.width == 0 || fill.height == 0 {
        return Err(invalid("an extent of the fill is 0"));
    }
    let overflow = || invalid("the fill ends outside of all memory");
    let row = fill.width.checked_mul(fill.pattern.width()).ok_or_else(overflow)?;
    if fill.height > 1 && (fill.pitch < row || !fill.pitch.is_multiple_of(fill.pattern.width())) {
        return Err(invalid("the rows of the fill overlap, or are not aligned"));
    }
    let last = (fill.height - 1).checked_mul(fill.pitch).filter(|_| fill.height > 1).unwrap_or(0);
    last.checked_add(row).ok_or_else(overflow)
}

/// # Safety
/// The kernel remains loaded as long as the node and its copies are there; what it does at each launch is sound.
unsafe fn make_kernel(parameters: KernelNode) -> Result<KernelAction> {
    // SAFETY: the caller promises that the kernel is loaded.
    let function = FunctionState::of(unsafe { Live::new(parameters.function) })?;
    // SAFETY: the caller promises that the kernel remains loaded as long as something can launch it.
    let work = unsafe { function.prepare(&parameters) }?;
    Ok(KernelAction { core: Arc::clone(&function.core), work: Arc::new(work), parameters })
}

/// Whether a kernel that has parameters is given no arguments at all.
///
/// # Safety
/// The kernel is loaded.
pub(super) unsafe fn lacks_arguments(parameters: &KernelNode) -> bool {
    // SAFETY: the caller promises that the kernel is loaded.
    let function = FunctionState::of(unsafe { Live::new(parameters.function) });
    parameters.arguments.is_empty() && function.is_ok_and(|function| function.check_count(0).is_err())
}

fn share_event(event: Live<'_, EventHandle>) -> Result<Arc<EventState>> {
    if event.handle().is_null() {
        return Err(invalid("there is no event"));
    }
    EventState::of(event)?.share().ok_or(Failure::new(Status::INVALID_HANDLE))
}

/// # Safety
/// The semaphores exist.
unsafe fn make_semaphores(parameters: Vec<ExternalSemaphoreOperation>) -> Result<SemaphoresAction> {
    // SAFETY: the caller promises that the semaphores exist.
    let numbers = unsafe { SemaphoreState::resolve(&parameters) }?;
    Ok(SemaphoresAction { parameters, numbers })
}

fn make_values(parameters: Vec<ValueOperation>) -> Result<ValuesAction> {
    if parameters.len() > MOST_VALUES {
        return Err(invalid("a node has at most 255 value operations"));
    }
    // Unlike streams, nodes take any address, and it is looked at when they run.
    // SAFETY: that the address is one of memory is checked each time before the operation runs.
    let steps = parameters.iter().filter_map(|operation| unsafe { value_step(None, operation) }.transpose());
    let steps = steps.collect::<Result<_>>()?;
    Ok(ValuesAction { parameters, steps })
}
