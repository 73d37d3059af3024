//! The work of a node, with everything that it refers to.

use crate::context::ContextCore;
use crate::event::EventCore;
use crate::graph_object::GraphObject;
use crate::host_work::RepeatableHostWork;
use crate::memory::Allocation;
use crate::retained::{Object, References, Retained, RetainedMemory};
use anabranch_hal::{Access, ConditionalHandle, NodeParameters};
use smallvec::SmallVec;
use std::sync::Arc;

/// The work of a node. It is made once and then added to a graph, or replaces the work of a node.
pub struct NodeWork {
    /// The parameters that the driver receives.
    pub(crate) parameters: NodeParameters,
    pub(crate) memory: SmallVec<[RetainedMemory; 3]>,
    pub(crate) objects: SmallVec<[Object; 1]>,
    pub(crate) host_work: Option<Arc<RepeatableHostWork>>,
    /// The graph that becomes a child.
    pub(crate) child: Option<Arc<GraphObject>>,
    /// The context that the work must be used in, unless any context of the driver is possible.
    pub(crate) context: Option<Arc<ContextCore>>,
    /// The id of the graph whose conditional value the work sets.
    pub(crate) conditional: Option<(u64, ConditionalHandle)>,
}

impl NodeWork {
    /// No work.
    pub fn empty() -> Self {
        Self::of(NodeParameters::Empty)
    }

    /// Work of these parameters.
    ///
    /// # Safety
    /// The work is sound at every launch. Everything that the parameters refer to is given to the result, to be retained, or
    /// lives as long as the graph and everything made from it can run.
    pub unsafe fn new(parameters: NodeParameters) -> Self {
        Self::of(parameters)
    }

    fn of(parameters: NodeParameters) -> Self {
        Self {
            parameters,
            memory: SmallVec::new(),
            objects: SmallVec::new(),
            host_work: None,
            child: None,
            context: None,
            conditional: None,
        }
    }

    /// Uses memory.
    #[must_use]
    pub fn with_memory(mut self, memory: &Arc<Allocation>, access: Access) -> Self {
        self.memory.push(RetainedMemory::new(memory, access));
        self
    }

    /// Refers to an object.
    #[must_use]
    pub fn with_object(mut self, object: Object) -> Self {
        self.objects.push(object);
        self
    }

    /// Runs a host function.
    pub fn host_function(work: Arc<RepeatableHostWork>) -> Self {
        let parameters = NodeParameters::Host(work.key());
        Self { host_work: Some(work), ..Self::of(parameters) }
    }

    /// Records an event.
    pub fn event_record(event: &EventCore) -> Self {
        event.share();
        Self::event(NodeParameters::EventRecord(event.raw().handle()), event)
    }

    /// Waits for what an event has captured by the time of the launch.
    pub fn event_wait(event: &EventCore) -> Self {
        Self::event(NodeParameters::EventWait(event.raw().handle()), event).with_object(event.record_state().clone())
    }

    fn event(parameters: NodeParameters, event: &EventCore) -> Self {
        Self::of(parameters).with_object(event.raw().clone()).in_context(event.context())
    }

    /// Runs another graph, which is copied.
    pub fn child(graph: &Arc<GraphObject>) -> Self {
        let parameters = NodeParameters::Child(graph.handle());
        Self { child: Some(graph.clone()), ..Self::of(parameters) }.in_context(graph.context())
    }

    /// Must be used in this context.
    #[must_use]
    pub fn in_context(mut self, context: &Arc<ContextCore>) -> Self {
        self.context = Some(context.clone());
        self
    }

    /// Sets a conditional value of the graph of that id.
    #[must_use]
    pub fn setting_conditional_of(mut self, graph: u64, value: ConditionalHandle) -> Self {
        self.conditional = Some((graph, value));
        self
    }

    /// What it refers to. Memory of a graph is the graph's own. `child`: what the graph retains that becomes a child.
    pub(crate) fn references(&self, child: Option<&Retained>) -> References {
        let mut references = References::default();
        for memory in self.memory.iter().filter(|memory| memory.memory().graph().is_none()) {
            references.add_memory(memory.memory(), memory.access());
        }
        self.objects.iter().for_each(|object| references.add_object(object));
        self.host_work.iter().for_each(|work| references.add_host_work(work));
        if let Some(child) = child {
            references.add_all(child);
        }
        references
    }

    /// The parameters that the driver receives.
    pub fn parameters(&self) -> &NodeParameters {
        &self.parameters
    }
}
