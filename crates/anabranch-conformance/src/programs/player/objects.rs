//! The objects of a program, by slot.

use super::super::HostThread;
use super::super::slots::{
    ConditionalSlot, ContextSlot, DEFAULT_STREAMS, EventSlot, ExecutableSlot, FunctionSlot, GateSlot, GraphSlot,
    MemorySlot, ModuleSlot, NodeSlot, PoolSlot, StreamSlot,
};
use super::harness::Harness;
use anabranch::hal::{
    ConditionalHandle, DeviceOrdinal, DevicePointer, EventHandle, ExecutableGraphHandle, FunctionHandle, GraphHandle,
    GraphNodeHandle, Handle, Live, MemoryPoolHandle, ModuleHandle, RepeatableWork, StreamHandle,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy)]
pub(super) struct StreamObject {
    pub(super) handle: StreamHandle,
    pub(super) context: ContextSlot,
}

pub(super) struct EventObject {
    pub(super) handle: EventHandle,
    pub(super) context: ContextSlot,
    /// Whether a node of a graph may refer to it, so that it is destroyed only at the end.
    pub(super) is_in_graph: bool,
}

/// Who destroys a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GraphOwner {
    Program,
    /// The capture that makes it.
    Capture,
    /// The conditional node that it is a body of.
    Node(NodeSlot),
}

pub(super) struct GraphObject {
    /// Null if a capture makes it and could not be asked.
    pub(super) handle: GraphHandle,
    pub(super) context: ContextSlot,
    pub(super) owner: GraphOwner,
    /// The nodes that have names.
    pub(super) nodes: BTreeMap<u16, GraphNodeHandle>,
}

pub(super) struct ExecutableObject {
    pub(super) handle: ExecutableGraphHandle,
    pub(super) context: ContextSlot,
    /// What it was made from.
    pub(super) graph: GraphSlot,
}

/// How memory was allocated, which says how it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryKind {
    /// By `allocate` or `allocate_managed`.
    Plain,
    Pinned,
    Async,
    /// By a node of a graph.
    Graph,
}

#[derive(Clone, Copy)]
pub(super) struct MemoryObject {
    pub(super) address: DevicePointer,
    pub(super) context: ContextSlot,
    pub(super) kind: MemoryKind,
    pub(super) bytes: usize,
    /// The pool that it is from, if the program has made it.
    pub(super) pool: Option<PoolSlot>,
    /// The graph that allocates it in a node, or the one around that.
    pub(super) graph: Option<GraphSlot>,
    /// The executable graph that was made from that graph since.
    pub(super) executable: Option<ExecutableSlot>,
    /// Whether both graphs are gone, so that the address may be one of other memory by now.
    pub(super) is_gone: bool,
    /// Whether its contents are known.
    pub(super) is_filled: bool,
}

/// A memory pool that the program has made.
#[derive(Clone, Copy)]
pub(super) struct PoolObject {
    pub(super) handle: MemoryPoolHandle,
    pub(super) device: DeviceOrdinal,
    /// Whether the other device can access its memory.
    pub(super) is_shared: bool,
    /// Whether memory was allocated from it.
    pub(super) is_used: bool,
}

/// A kernel that the program has looked up.
#[derive(Clone, Copy)]
pub(super) struct FunctionObject {
    pub(super) handle: FunctionHandle,
    pub(super) context: ContextSlot,
    pub(super) module: ModuleSlot,
    pub(super) name: &'static str,
}

/// A capture that began in a stream and has not ended.
#[derive(Clone, Copy)]
pub(super) struct Capture {
    pub(super) stream: StreamSlot,
    pub(super) thread: HostThread,
    pub(super) graph: GraphSlot,
    /// Whether the graph existed before.
    pub(super) is_into: bool,
}

impl Capture {
    /// Whether it began in the stream that a thread means by this slot.
    pub(super) fn began_in(&self, stream: StreamSlot, thread: HostThread) -> bool {
        self.stream == stream && (!stream.is_per_thread() || self.thread == thread)
    }
}

#[derive(Default)]
pub(super) struct Objects {
    pub(super) streams: BTreeMap<StreamSlot, StreamObject>,
    pub(super) events: BTreeMap<EventSlot, EventObject>,
    pub(super) graphs: BTreeMap<GraphSlot, GraphObject>,
    pub(super) executables: BTreeMap<ExecutableSlot, ExecutableObject>,
    pub(super) memory: BTreeMap<MemorySlot, MemoryObject>,
    pub(super) pools: BTreeMap<PoolSlot, PoolObject>,
    pub(super) conditionals: BTreeMap<ConditionalSlot, (ConditionalHandle, GraphSlot, Option<u32>)>,
    pub(super) captures: Vec<Capture>,
    /// The gates that streams wait for.
    pub(super) gates: BTreeSet<GateSlot>,
    /// The default streams that were given another policy.
    pub(super) policies: BTreeSet<StreamSlot>,
    /// Modules that could not be unloaded while a stream captured.
    pub(super) loaded: Vec<(ModuleHandle, ContextSlot)>,
    pub(super) modules: BTreeMap<ModuleSlot, (ModuleHandle, ContextSlot)>,
    pub(super) functions: BTreeMap<FunctionSlot, FunctionObject>,
    /// The host functions of captures and nodes, which exist until the program is over.
    pub(super) host_work: Vec<RepeatableWork>,
}

/// A handle of an object of the program.
pub(super) fn live<H: Handle>(handle: H) -> Live<'static, H> {
    // SAFETY: handles come from the slots. A slot is emptied before its object is destroyed, and when the driver has
    // destroyed it. Each player has one driver, and makes one call at a time. No `Live` is kept for longer than a call.
    unsafe { Live::new(handle) }
}

impl Objects {
    pub(super) fn new(_: &Harness) -> Self {
        let handles = [StreamHandle::NULL, StreamHandle::LEGACY, StreamHandle::PER_THREAD];
        let streams = (0..DEFAULT_STREAMS).map(|number| {
            let (handle, context) = (handles[usize::from(number % 3)], ContextSlot(number / 3));
            (StreamSlot(number), StreamObject { handle, context })
        });
        Self { streams: streams.collect(), ..Self::default() }
    }

    /// Whether a graph may have allocated memory.
    pub(super) fn uses_graph_memory(&self) -> bool {
        self.memory.values().any(|memory| memory.kind == MemoryKind::Graph)
    }

    pub(super) fn add_stream(&mut self, slot: StreamSlot, handle: StreamHandle, context: ContextSlot) {
        self.streams.insert(slot, StreamObject { handle, context });
    }

    pub(super) fn stream(&self, slot: StreamSlot) -> Option<(Live<'static, StreamHandle>, ContextSlot)> {
        self.streams.get(&slot).map(|stream| (live(stream.handle), stream.context))
    }

    /// Takes a stream that the program has created, to destroy it.
    pub(super) fn take_stream(&mut self, slot: StreamSlot) -> Option<(StreamHandle, ContextSlot)> {
        if slot.0 < DEFAULT_STREAMS {
            return None;
        }
        self.streams.remove(&slot).map(|stream| (stream.handle, stream.context))
    }

    pub(super) fn add_event(&mut self, slot: EventSlot, handle: EventHandle, context: ContextSlot) {
        self.events.insert(slot, EventObject { handle, context, is_in_graph: false });
    }

    /// An event, or the null event for no slot.
    pub(super) fn event(&self, slot: Option<EventSlot>) -> Option<(Live<'static, EventHandle>, ContextSlot)> {
        match slot {
            Some(slot) => self.events.get(&slot).map(|event| (live(event.handle), event.context)),
            None => Some((Live::<EventHandle>::NULL, ContextSlot(0))),
        }
    }

    pub(super) fn take_event(&mut self, slot: EventSlot) -> Option<(EventHandle, ContextSlot)> {
        self.events.remove(&slot).map(|event| (event.handle, event.context))
    }

    pub(super) fn add_executable(&mut self, slot: ExecutableSlot, executable: ExecutableObject) {
        let inside: Vec<GraphSlot> =
            self.graphs.keys().copied().filter(|&inner| self.is_inside(inner, executable.graph)).collect();
        for memory in self.memory.values_mut() {
            if memory.graph.is_some_and(|graph| inside.contains(&graph)) {
                memory.executable = Some(slot);
            }
        }
        self.executables.insert(slot, executable);
    }

    pub(super) fn executable(
        &self,
        slot: ExecutableSlot,
    ) -> Option<(Live<'static, ExecutableGraphHandle>, ContextSlot)> {
        self.executables.get(&slot).map(|executable| (live(executable.handle), executable.context))
    }

    pub(super) fn take_executable(&mut self, slot: ExecutableSlot) -> Option<(ExecutableGraphHandle, ContextSlot)> {
        let executable = self.executables.remove(&slot)?;
        self.forget_memory(executable.graph);
        Some((executable.handle, executable.context))
    }

    /// Notes which memory is gone if a graph is.
    fn forget_memory(&mut self, graph: GraphSlot) {
        if self.graphs.contains_key(&graph) {
            return;
        }
        for memory in self.memory.values_mut().filter(|memory| memory.graph == Some(graph)) {
            memory.is_gone = memory.executable.is_none_or(|executable| !self.executables.contains_key(&executable));
        }
    }

    pub(super) fn add_graph(&mut self, slot: GraphSlot, handle: GraphHandle, context: ContextSlot, owner: GraphOwner) {
        self.graphs.insert(slot, GraphObject { handle, context, owner, nodes: BTreeMap::new() });
    }

    /// A graph that may be changed and launched: no capture adds to it, to a graph that it is inside of, or to one inside
    /// of it.
    pub(super) fn graph(&self, slot: GraphSlot) -> Option<(Live<'static, GraphHandle>, ContextSlot)> {
        let graph = self.graphs.get(&slot)?;
        if graph.owner == GraphOwner::Capture || self.is_captured_to(slot) {
            return None;
        }
        Some((live(graph.handle), graph.context))
    }

    /// A graph that may be looked at, and that nodes may be added to. A capture that makes a new graph allows that.
    pub(super) fn open_graph(&self, slot: GraphSlot) -> Option<(Live<'static, GraphHandle>, ContextSlot)> {
        let graph = self.graphs.get(&slot)?;
        if graph.handle.is_null() || self.is_captured_to(slot) {
            return None;
        }
        Some((live(graph.handle), graph.context))
    }

    fn is_captured_to(&self, slot: GraphSlot) -> bool {
        self.captures.iter().any(|capture| {
            capture.is_into && (self.is_inside(capture.graph, slot) || self.is_inside(slot, capture.graph))
        })
    }

    /// Whether a graph is another one, or is inside of it.
    pub(super) fn is_inside(&self, mut inner: GraphSlot, outer: GraphSlot) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            match self.graphs.get(&inner).map(|graph| graph.owner) {
                Some(GraphOwner::Node(node)) => inner = node.graph,
                _ => return false,
            }
        }
    }

    /// The outermost graph around a graph.
    pub(super) fn outermost(&self, mut slot: GraphSlot) -> GraphSlot {
        while let Some(GraphOwner::Node(node)) = self.graphs.get(&slot).map(|graph| graph.owner) {
            slot = node.graph;
        }
        slot
    }

    /// Empties the slot of a graph and those of all graphs inside of it.
    pub(super) fn forget_graph(&mut self, slot: GraphSlot) {
        let inside: Vec<GraphSlot> = self.graphs.keys().copied().filter(|&inner| self.is_inside(inner, slot)).collect();
        let outermost = self.outermost(slot);
        for slot in inside {
            self.graphs.remove(&slot);
            for memory in self.memory.values_mut().filter(|memory| memory.graph == Some(slot)) {
                memory.graph = Some(outermost);
            }
            self.conditionals.retain(|_, (_, graph, _)| *graph != slot);
        }
        self.forget_memory(outermost);
    }

    /// A node of a graph that may be changed, with the context of the graph.
    pub(super) fn node(&self, slot: NodeSlot) -> Option<(Live<'static, GraphNodeHandle>, ContextSlot)> {
        let (_, context) = self.graph(slot.graph)?;
        self.open_node(slot).map(|(node, _)| (node, context))
    }

    /// A node of a graph that may be looked at.
    pub(super) fn open_node(&self, slot: NodeSlot) -> Option<(Live<'static, GraphNodeHandle>, ContextSlot)> {
        let graph = self.graphs.get(&slot.graph)?;
        graph.nodes.get(&slot.index).map(|&node| (live(node), graph.context))
    }

    /// Names a node that has no name: with that number, or the next one that is free.
    pub(super) fn find_node(&mut self, slot: NodeSlot, node: GraphNodeHandle) {
        if let Some(graph) = self.graphs.get_mut(&slot.graph) {
            let free = (slot.index..).find(|index| !graph.nodes.contains_key(index));
            if let (Some(index), false) = (free, graph.nodes.values().any(|&found| found == node)) {
                graph.nodes.insert(index, node);
            }
        }
    }

    /// The slot of a node of a graph.
    pub(super) fn node_slot(&self, graph: GraphSlot, node: GraphNodeHandle) -> Option<NodeSlot> {
        let found = self.graphs.get(&graph)?.nodes.iter().find(|(_, found)| **found == node);
        found.map(|(&index, _)| NodeSlot { graph, index })
    }

    /// The name of a node of a graph.
    pub(super) fn node_name(&self, graph: GraphSlot, node: GraphNodeHandle) -> String {
        match self.node_slot(graph, node) {
            Some(slot) => slot.to_string(),
            None => format!("{graph}.?"),
        }
    }

    /// Empties the slot of a node that was destroyed, and those of the graphs inside of it.
    pub(super) fn forget_node(&mut self, slot: NodeSlot) {
        if let Some(graph) = self.graphs.get_mut(&slot.graph) {
            graph.nodes.remove(&slot.index);
        }
        let bodies: Vec<GraphSlot> = self
            .graphs
            .iter()
            .filter(|(_, graph)| graph.owner == GraphOwner::Node(slot))
            .map(|(&body, _)| body)
            .collect();
        bodies.into_iter().for_each(|body| self.forget_graph(body));
    }
}
