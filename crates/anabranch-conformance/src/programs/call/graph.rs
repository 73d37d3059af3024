//! Calls for graphs and executable graphs.

use super::calls;
use super::memory::Place;
use super::module::KernelSpec;
use crate::programs::slots::{
    ConditionalSlot, ContextSlot, DependencySlot, EdgeSlot, EventSlot, ExecutableSlot, Flags, GraphSlot, MemorySlot,
    New, NodeSlot, Operand, RegionSlot, StreamSlot,
};
use anabranch::hal::ConditionalKind;
use std::fmt::{self, Formatter};

/// An operation of a node of value operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSpec {
    /// A wait for a number that fulfils the condition already.
    WaitOpen,
    /// A write of the number that is always written to this place.
    Write(u8),
    /// A wait at an address that is not aligned.
    WaitOdd,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeSpec {
    Empty,
    Kernel(KernelSpec),
    Copy {
        from: Place,
        to: Place,
        region: RegionSlot,
        extent: [usize; 3],
    },
    Fill {
        region: RegionSlot,
        width: u8,
        count: u8,
        rows: u8,
        pitch: u8,
        odd: bool,
    },
    Host(u32),
    Child(GraphSlot),
    EventRecord(EventSlot),
    EventWait(EventSlot),
    Allocate {
        memory: New<MemorySlot>,
        bytes: usize,
    },
    /// Memory that the other device can access too.
    AllocateShared {
        memory: New<MemorySlot>,
        bytes: usize,
    },
    Free(Option<MemorySlot>),
    Values(Vec<ValueSpec>),
    /// Its bodies are that many graph slots from this one on.
    Conditional {
        value: ConditionalSlot,
        kind: ConditionalKind,
        bodies: u32,
        first: New<GraphSlot>,
    },
    /// The same in a context that need not be the one of the graph.
    In(ContextSlot, Box<NodeSpec>),
}

impl NodeSpec {
    /// What it does, in whichever context.
    pub(crate) fn work(&self) -> &Self {
        match self {
            Self::In(_, work) => work.work(),
            work => work,
        }
    }
}

impl Operand for ValueSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitOpen => formatter.write_str("wait open"),
            Self::Write(mark) => write!(formatter, "write {mark}"),
            Self::WaitOdd => formatter.write_str("wait odd"),
        }
    }
}

impl Operand for NodeSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("empty"),
            Self::Kernel(kernel) => kernel.show(formatter),
            Self::Copy { from, to, region, extent } => {
                write!(formatter, "copy,{from:?},{to:?},{region},{extent:?}")
            }
            Self::Fill { region, width, count, rows, pitch, odd } => {
                write!(formatter, "fill,{region},width {width},{count}x{rows},pitch {pitch}")?;
                if *odd { formatter.write_str(",odd") } else { Ok(()) }
            }
            Self::Host(number) => write!(formatter, "host,{number}"),
            Self::Child(graph) => write!(formatter, "child,{graph}"),
            Self::EventRecord(event) => write!(formatter, "event_record,{event}"),
            Self::EventWait(event) => write!(formatter, "event_wait,{event}"),
            Self::Allocate { memory, bytes } => write!(formatter, "allocate,new {},{bytes}", memory.0),
            Self::AllocateShared { memory, bytes } => write!(formatter, "allocate shared,new {},{bytes}", memory.0),
            Self::Free(Some(memory)) => write!(formatter, "free,{memory}"),
            Self::Free(None) => formatter.write_str("free,none"),
            Self::Values(operations) => {
                formatter.write_str("values,")?;
                operations.show(formatter)
            }
            Self::Conditional { value, kind, bodies, first } => {
                write!(formatter, "conditional,{value},{kind:?},{bodies},new {}", first.0)
            }
            Self::In(context, work) => {
                write!(formatter, "in {context},")?;
                work.show(formatter)
            }
        }
    }
}

calls! {
    /// Calls for graphs.
    GraphCall {
        Create "graph_create" { graph: New<GraphSlot>, context: ContextSlot }
        Destroy "graph_destroy" { graph: GraphSlot }
        Clone "graph_clone" { graph: GraphSlot, clone: New<GraphSlot> }
        FindInClone "graph_find_in_clone" { node: NodeSlot, clone: GraphSlot }
        AddNode "graph_add_node" { node: New<NodeSlot>, dependencies: Vec<DependencySlot>, work: NodeSpec }
        DestroyNode "graph_destroy_node" { node: NodeSlot }
        NodeKind "graph_node_kind" { node: NodeSlot }
        NodeParameters "graph_node_parameters" { node: NodeSlot }
        NodeSetParameters "graph_node_set_parameters" { node: NodeSlot, parameters: NodeSpec }
        Nodes "graph_nodes" { graph: GraphSlot }
        RootNodes "graph_root_nodes" { graph: GraphSlot }
        Edges "graph_edges" { graph: GraphSlot }
        AddEdges "graph_add_edges" { graph: GraphSlot, edges: Vec<EdgeSlot> }
        RemoveEdges "graph_remove_edges" { graph: GraphSlot, edges: Vec<EdgeSlot> }
        ConditionalCreate "graph_conditional_create" {
            graph: GraphSlot, value: New<ConditionalSlot>, default: Option<u32>,
        }
        MemoryAttribute "graph_memory_attribute" { attribute: u8 }
        MemoryReset "graph_memory_reset" { attribute: u8 }
        MemoryTrim "graph_memory_trim" {}
        MemoryAttributeOf "graph_memory_attribute" { device: u32, attribute: u8 }
        MemoryResetOf "graph_memory_reset" { device: u32, attribute: u8 }
        MemoryTrimOf "graph_memory_trim" { device: u32 }
    }
}

calls! {
    /// Calls for executable graphs.
    ExecutableCall {
        Instantiate "graph_instantiate" {
            graph: GraphSlot, executable: New<ExecutableSlot>, flags: Flags, upload: Option<StreamSlot>,
        }
        Destroy "executable_destroy" { executable: ExecutableSlot }
        Flags "executable_flags" { executable: ExecutableSlot }
        Upload "executable_upload" { executable: ExecutableSlot, stream: StreamSlot }
        Launch "executable_launch" { executable: ExecutableSlot, stream: StreamSlot }
        Update "executable_update" { executable: ExecutableSlot, graph: GraphSlot }
        SetParameters "executable_set_node_parameters" {
            executable: ExecutableSlot, node: NodeSlot, parameters: NodeSpec,
        }
        SetEnabled "executable_set_node_enabled" { executable: ExecutableSlot, node: NodeSlot, enabled: bool }
        Enabled "executable_node_enabled" { executable: ExecutableSlot, node: NodeSlot }
    }
}
