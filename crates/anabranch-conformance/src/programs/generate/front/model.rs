//! What a program of the safe API probably has made so far.

use super::Front;
use crate::programs::call::PartSpec;
use crate::programs::slots::{
    ContextSlot, EventSlot, ExecutableSlot, FutureSlot, GateSlot, GraphSlot, MemorySlot, New, NodeSlot, PoolSlot,
    StreamSlot,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In device memory that is allocated in stream order.
    Device,
    /// In other device memory.
    Plain,
    Pinned,
    Managed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ModelMemory {
    pub(super) slot: MemorySlot,
    pub(super) context: ContextSlot,
    pub(super) kind: Kind,
    pub(super) length: u16,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FrontModel {
    pub(super) streams: Vec<(StreamSlot, ContextSlot)>,
    pub(super) events: Vec<(EventSlot, ContextSlot)>,
    pub(super) memory: Vec<ModelMemory>,
    pub(super) pools: Vec<PoolSlot>,
    pub(super) graphs: Vec<ModelGraph>,
    pub(super) executables: Vec<(ExecutableSlot, GraphSlot)>,
    /// The futures, with the memory that they give back.
    pub(super) futures: Vec<(FutureSlot, Vec<ModelMemory>)>,
    pub(super) signals: Vec<(GateSlot, ContextSlot)>,
    /// Whether the program asks how many orders the library has added. Then it has no second context and no default streams,
    /// and drops neither futures, executable graphs nor memory that is freed in the background: what the library knows of
    /// those depends on the time, or on earlier programs.
    pub(super) counts_orders: bool,
    /// The streams in which captures have begun.
    pub(super) capturing: Vec<StreamSlot>,
    /// The streams that calls inside of another one are about, mostly.
    pub(super) focus: Vec<StreamSlot>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ModelGraph {
    pub(super) slot: GraphSlot,
    pub(super) context: ContextSlot,
    /// How many numbers of nodes are taken.
    pub(super) nodes: u16,
    /// Whether it was made by hand: captures often fail.
    pub(super) is_built: bool,
}

impl Front<'_> {
    pub(super) fn context(&mut self) -> ContextSlot {
        ContextSlot(u16::from(self.chance(1, 4) && !self.model.counts_orders))
    }

    /// A stream, and its context.
    pub(super) fn any_stream(&mut self) -> (StreamSlot, ContextSlot) {
        let focus = self.generator.numbers.pick(&self.model.focus).filter(|_| self.generator.numbers.chance(7, 8));
        let known = match focus {
            Some(focus) => self.model.streams.iter().copied().find(|(stream, _)| *stream == focus),
            None => self.generator.numbers.pick(&self.model.streams),
        };
        known.unwrap_or((StreamSlot(u16::MAX), ContextSlot(0)))
    }

    pub(super) fn new_graph(&mut self, context: ContextSlot, nodes: u16, is_built: bool) -> New<GraphSlot> {
        let slot = self.generator.model.new_graph();
        self.model.graphs.push(ModelGraph { slot, context, nodes, is_built });
        New(slot)
    }

    /// A graph, mostly one that was built by hand or made lately.
    pub(super) fn any_graph(&mut self) -> ModelGraph {
        let built: Vec<_> = self.model.graphs.iter().copied().filter(|graph| graph.is_built).collect();
        let from = self.model.graphs.len().saturating_sub(2);
        let picked = match self.below(8) {
            0..=3 => self.generator.numbers.pick(&built),
            4..=6 => self.generator.numbers.pick(&self.model.graphs[from..]),
            _ => self.generator.numbers.pick(&self.model.graphs),
        };
        let none = ModelGraph { slot: GraphSlot(u16::MAX), context: ContextSlot(0), nodes: 0, is_built: false };
        picked.or_else(|| self.generator.numbers.pick(&self.model.graphs)).unwrap_or(none)
    }

    /// Memory that is not there for a while.
    pub(super) fn lend(&mut self, slot: MemorySlot) -> Option<ModelMemory> {
        let at = self.model.memory.iter().position(|memory| memory.slot == slot)?;
        Some(self.model.memory.swap_remove(at))
    }

    /// A node of a graph, and rarely one of another.
    pub(super) fn node_of(&mut self, graph: ModelGraph) -> NodeSlot {
        let graph = if self.chance(1, 32) { self.any_graph() } else { graph };
        NodeSlot { graph: graph.slot, index: self.below(usize::from(graph.nodes.max(1))) as u16 }
    }

    /// Few nodes of a graph.
    pub(super) fn nodes_of(&mut self, graph: ModelGraph) -> Vec<NodeSlot> {
        let count = if graph.nodes == 0 { 0 } else { self.below(3) };
        let mut nodes: Vec<NodeSlot> = (0..count).map(|_| self.node_of(graph)).collect();
        if !self.chance(1, 32) {
            nodes.dedup();
        }
        nodes
    }

    pub(super) fn executable(&mut self) -> (ExecutableSlot, ModelGraph) {
        let from = if self.chance(3, 4) { self.model.executables.len().saturating_sub(2) } else { 0 };
        let picked = self.generator.numbers.pick(&self.model.executables[from..]);
        let (executable, graph) = picked.unwrap_or((ExecutableSlot(u16::MAX), GraphSlot(u16::MAX)));
        let known = self.model.graphs.iter().copied().find(|known| known.slot == graph);
        (executable, known.unwrap_or_else(|| self.any_graph()))
    }

    pub(super) fn stream(&mut self) -> StreamSlot {
        self.any_stream().0
    }

    /// An event, mostly of a context.
    pub(super) fn event_of(&mut self, context: ContextSlot) -> EventSlot {
        let fitting: Vec<_> = self.model.events.iter().copied().filter(|(_, of)| *of == context).collect();
        match self.generator.numbers.pick(&fitting) {
            Some((event, _)) if !self.chance(1, 16) => event,
            _ => self.event(),
        }
    }

    pub(super) fn event(&mut self) -> EventSlot {
        self.generator.numbers.pick(&self.model.events).map_or(EventSlot(u16::MAX), |(event, _)| event)
    }

    pub(super) fn new_event(&mut self, context: ContextSlot) -> New<EventSlot> {
        let slot = self.generator.model.new_event();
        self.model.events.push((slot, context));
        New(slot)
    }

    pub(super) fn new_memory(&mut self, context: ContextSlot, kind: Kind, length: usize) -> New<MemorySlot> {
        let slot = self.generator.model.new_memory();
        if let Ok(length) = u16::try_from(length) {
            self.model.memory.push(ModelMemory { slot, context, kind, length });
        }
        New(slot)
    }

    /// Memory, mostly of a context.
    pub(super) fn memory_of(&mut self, context: ContextSlot) -> ModelMemory {
        let fitting: Vec<_> = self.model.memory.iter().copied().filter(|memory| memory.context == context).collect();
        let any = if self.chance(1, 32) { None } else { self.generator.numbers.pick(&fitting) };
        any.unwrap_or_else(|| self.memory())
    }

    /// Two buffers, mostly different ones of a context.
    pub(super) fn two_of(&mut self, context: ContextSlot) -> (ModelMemory, ModelMemory) {
        let (one, mut other) = (self.memory_of(context), self.memory_of(context));
        for _ in 0..4 {
            if other.slot == one.slot {
                other = self.memory_of(context);
            }
        }
        (one, other)
    }

    pub(super) fn memory(&mut self) -> ModelMemory {
        let none = ModelMemory { slot: MemorySlot(u16::MAX), context: ContextSlot(0), kind: Kind::Device, length: 0 };
        self.generator.numbers.pick(&self.model.memory).unwrap_or(none)
    }

    /// Memory that the host can access.
    pub(super) fn host_memory(&mut self) -> MemorySlot {
        let fitting: Vec<_> = self
            .model
            .memory
            .iter()
            .copied()
            .filter(|memory| matches!(memory.kind, Kind::Pinned | Kind::Managed))
            .collect();
        self.generator.numbers.pick(&fitting).unwrap_or_else(|| self.memory()).slot
    }

    pub(super) fn managed_memory(&mut self) -> MemorySlot {
        let fitting: Vec<_> = self.model.memory.iter().copied().filter(|memory| memory.kind == Kind::Managed).collect();
        self.generator.numbers.pick(&fitting).map_or_else(|| self.host_memory(), |memory| memory.slot)
    }

    /// A part of a buffer: often all of it, and sometimes more.
    pub(super) fn part(&mut self, memory: ModelMemory) -> PartSpec {
        let length = usize::from(memory.length);
        let (start, end) = match self.below(24) {
            0..=11 => (0, length),
            12 => (self.below(length + 1), length + 1 + self.below(3)),
            13 => (self.below(length + 1), self.below(length + 1)),
            _ => {
                let start = self.below(length + 1);
                (start, start + self.below(length - start + 1))
            }
        };
        PartSpec { memory: memory.slot, start: start as u16, end: end as u16 }
    }

    /// Parts of two buffers that are equally long, mostly.
    pub(super) fn parts(&mut self, to: ModelMemory, from: ModelMemory) -> (PartSpec, PartSpec) {
        if self.chance(1, 16) {
            return (self.part(to), self.part(from));
        }
        let shortest = usize::from(to.length.min(from.length));
        let length = if self.chance(1, 2) { shortest } else { self.below(shortest + 1) };
        let mut part = |memory: ModelMemory| {
            let start = self.below(usize::from(memory.length) - length + 1);
            PartSpec { memory: memory.slot, start: start as u16, end: (start + length) as u16 }
        };
        (part(to), part(from))
    }
}
