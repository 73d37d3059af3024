//! What a program probably has made so far.

use super::super::HostThread;
use super::super::call::{EventCall, NodeSpec, StreamCall};
use super::super::slots::{
    ContextSlot, DEFAULT_STREAMS, EventSlot, ExecutableSlot, Flags, FunctionSlot, GraphSlot, MemorySlot, ModuleSlot,
    New, NodeSlot, PoolSlot, StreamSlot,
};
use super::Generator;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub(super) struct ModelEvent {
    pub(super) slot: EventSlot,
    pub(super) context: ContextSlot,
    /// The capture in which it was last recorded, by number.
    pub(super) captured: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct ModelCapture {
    pub(super) origin: StreamSlot,
    pub(super) thread: HostThread,
    pub(super) graph: GraphSlot,
    /// All streams that belong to it.
    pub(super) members: Vec<StreamSlot>,
    pub(super) is_active: bool,
    /// Whether something was done that may have invalidated it.
    pub(super) is_suspect: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ModelGraph {
    pub(super) slot: GraphSlot,
    /// The nodes that probably exist, and what they do.
    pub(super) nodes: Vec<(u16, NodeSpec)>,
    /// The edges that probably exist.
    pub(super) edges: Vec<(u16, u16)>,
    /// How many numbers of nodes are taken.
    pub(super) numbers: u16,
    /// Whether it exists, and no capture adds to it.
    pub(super) is_usable: bool,
}

impl ModelGraph {
    /// What a node does.
    pub(super) fn work(&self, index: u16) -> Option<NodeSpec> {
        self.nodes.iter().find(|(known, _)| *known == index).map(|(_, work)| work.clone())
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// The streams that the program has created.
    pub(super) streams: Vec<(StreamSlot, ContextSlot)>,
    pub(super) events: Vec<ModelEvent>,
    pub(super) captures: Vec<ModelCapture>,
    pub(super) graphs: Vec<ModelGraph>,
    pub(super) executables: Vec<(ExecutableSlot, GraphSlot)>,
    /// How many numbers of nodes were taken when the last executable graphs were made.
    pub(super) instantiated: BTreeMap<ExecutableSlot, u16>,
    pub(super) memory: Vec<MemorySlot>,
    pub(super) pools: Vec<PoolSlot>,
    pub(super) modules: Vec<ModuleSlot>,
    pub(super) functions: Vec<FunctionSlot>,
    made: [u16; 9],
}

impl Model {
    fn next(&mut self, kind: usize) -> u16 {
        self.made[kind] += 1;
        self.made[kind] - 1
    }

    pub(super) fn new_stream(&mut self) -> StreamSlot {
        StreamSlot(DEFAULT_STREAMS + self.next(0))
    }

    pub(super) fn new_event(&mut self) -> EventSlot {
        EventSlot(self.next(1))
    }

    pub(super) fn new_graph(&mut self) -> GraphSlot {
        GraphSlot(self.next(2))
    }

    pub(super) fn new_executable(&mut self) -> ExecutableSlot {
        ExecutableSlot(self.next(3))
    }

    pub(super) fn new_memory(&mut self) -> MemorySlot {
        MemorySlot(self.next(4))
    }

    pub(super) fn new_pool(&mut self) -> PoolSlot {
        PoolSlot(self.next(5))
    }

    pub(super) fn new_value(&mut self) -> u16 {
        self.next(6)
    }

    pub(super) fn new_module(&mut self) -> ModuleSlot {
        // The first two are those of the harness.
        ModuleSlot(2 + self.next(7))
    }

    pub(super) fn new_function(&mut self) -> FunctionSlot {
        FunctionSlot(self.next(8))
    }

    /// The number of the capture that a stream belongs to.
    pub(super) fn capture_of(&self, stream: StreamSlot) -> Option<usize> {
        self.captures.iter().position(|capture| capture.is_active && capture.members.contains(&stream))
    }

    pub(super) fn graph(&mut self, slot: GraphSlot) -> Option<&mut ModelGraph> {
        self.graphs.iter_mut().find(|graph| graph.slot == slot)
    }
}

impl Generator {
    /// Creates streams and events to begin with.
    pub(super) fn set_up(&mut self, streams: usize, events: usize) {
        for number in 0..streams {
            let context = self.context_in_turn(number, streams);
            let flags = self.numbers.one_of([0, 1]);
            self.create_stream(context, flags, 0);
        }
        for number in 0..events {
            let context = self.context_in_turn(number, events);
            let flags = self.numbers.one_of([0, 2]);
            self.create_event(context, flags);
        }
    }

    /// The context of one of so many objects: the last one is of the second context, or, over two devices, every other one.
    pub(super) fn context_in_turn(&self, number: usize, count: usize) -> ContextSlot {
        let second = if self.has_two_devices { number % 2 == 1 } else { number + 1 == count };
        ContextSlot(u16::from(second && !self.has_one_context))
    }

    pub(super) fn create_stream(&mut self, context: ContextSlot, flags: u32, priority: i32) {
        let slot = self.model.new_stream();
        self.push(StreamCall::Create { stream: New(slot), context, flags: Flags(flags), priority });
        if flags <= 1 {
            self.model.streams.push((slot, context));
        }
    }

    pub(super) fn create_event(&mut self, context: ContextSlot, flags: u32) {
        let slot = self.model.new_event();
        self.push(EventCall::Create { event: New(slot), context, flags: Flags(flags) });
        if flags <= 3 {
            self.model.events.push(ModelEvent { slot, context, captured: None });
        }
    }

    /// A stream: mostly one that the program has created, otherwise a default stream.
    pub(super) fn stream(&mut self) -> StreamSlot {
        let created = self.created_stream();
        if self.numbers.chance(3, 4) { created } else { self.default_stream() }
    }

    fn default_stream(&mut self) -> StreamSlot {
        let count = if self.has_one_context { DEFAULT_STREAMS / 2 } else { DEFAULT_STREAMS };
        StreamSlot(self.numbers.below(count.into()) as u16)
    }

    /// A stream that the program has created.
    pub(super) fn created_stream(&mut self) -> StreamSlot {
        self.numbers.pick(&self.model.streams).map_or(StreamSlot(0), |(slot, _)| slot)
    }

    pub(super) fn context_of(&self, stream: StreamSlot) -> ContextSlot {
        let created = self.model.streams.iter().find(|(slot, _)| *slot == stream);
        created.map_or(ContextSlot(stream.0 / 3 % 2), |(_, context)| *context)
    }

    pub(super) fn context(&mut self) -> ContextSlot {
        let second = self.numbers.chance(1, if self.has_two_devices { 2 } else { 4 });
        ContextSlot(u16::from(second && !self.has_one_context))
    }

    pub(super) fn event(&mut self) -> EventSlot {
        self.numbers.pick(&self.model.events).map_or(EventSlot(0), |event| event.slot)
    }

    /// An event that can be recorded in a stream, mostly.
    pub(super) fn event_for(&mut self, stream: StreamSlot) -> EventSlot {
        let context = self.context_of(stream);
        let fitting: Vec<EventSlot> =
            self.model.events.iter().filter(|event| event.context == context).map(|event| event.slot).collect();
        match self.numbers.pick(&fitting) {
            Some(event) if self.numbers.chance(15, 16) => event,
            _ => self.event(),
        }
    }

    /// A node of a graph that is probably there.
    pub(super) fn node_of(&mut self, graph: GraphSlot) -> Option<NodeSlot> {
        let nodes = self.model.graph(graph)?.nodes.len();
        let position = if nodes == 0 { return None } else { self.numbers.below(nodes) };
        let index = self.model.graph(graph)?.nodes.get(position)?.0;
        Some(NodeSlot { graph, index })
    }

    /// A number for a new node of a graph. `work` is what it does if it is probably made.
    pub(super) fn new_node(&mut self, graph: GraphSlot, work: Option<NodeSpec>) -> NodeSlot {
        let Some(known) = self.model.graph(graph) else { return NodeSlot { graph, index: 0 } };
        let index = known.numbers;
        known.numbers += 1;
        known.nodes.extend(work.map(|work| (index, work)));
        NodeSlot { graph, index }
    }

    /// A graph that is made now.
    pub(super) fn note_graph(&mut self, slot: GraphSlot, is_usable: bool) {
        self.model.graphs.push(ModelGraph { slot, nodes: Vec::new(), edges: Vec::new(), numbers: 0, is_usable });
    }

    /// An executable graph, mostly one that was made lately.
    pub(super) fn executable(&mut self) -> Option<(ExecutableSlot, GraphSlot)> {
        let from = match self.numbers.chance(3, 4) {
            true => self.model.executables.len().saturating_sub(2),
            false => 0,
        };
        self.numbers.pick(&self.model.executables[from..])
    }
}
