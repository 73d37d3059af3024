//! The operands of calls: places for objects, and choices among the memory of the harness.

use super::call::{BadPlace, ImageSpec, Place, Wrong};
use anabranch::hal::{
    CaptureMode, CopyKind, DependencyUpdate, FillPattern, FunctionAttribute, MemoryPoolAttribute, Value,
};
use std::fmt::{self, Display, Formatter};

/// An operand, as it is printed.
pub(crate) trait Operand {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result;
}

macro_rules! slots {
    ($($(#[$meta:meta])* $Slot:ident $letter:literal)*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $Slot(pub(crate) u16);

        impl Operand for $Slot {
            fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($letter, "{}"), self.0)
            }
        }

        impl Display for $Slot {
            fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                self.show(formatter)
            }
        }
    )* };
}

slots! {
    /// A context: 0 is the primary one of the device, 1 another one of the same device. Of programs over two devices, 1 is
    /// the primary one of the second device.
    ContextSlot "c"
    /// A stream. 0 to 2 are the null, the legacy and the per-thread stream of context 0, and 3 to 5 those of context 1.
    StreamSlot "s"
    /// An event.
    EventSlot "e"
    /// A graph, also one that is being captured.
    GraphSlot "g"
    /// An executable graph.
    ExecutableSlot "x"
    /// Memory that the program has allocated.
    MemorySlot "m"
    /// A memory pool.
    PoolSlot "p"
    /// A module that the program has loaded. 0 and 1 are those of the harness in the two contexts.
    ModuleSlot "module"
    /// A kernel.
    FunctionSlot "f"
    /// A conditional value.
    ConditionalSlot "v"
    /// A gate: a number in pinned memory that streams wait for.
    GateSlot "w"
    /// A future of the safe API.
    FutureSlot "y"
    /// A number in device memory that kernels change.
    WordSlot "word"
    /// A part of the buffers of the harness that is only ever written with one pattern.
    RegionSlot "r"
}

/// The streams that exist in every program.
pub(crate) const DEFAULT_STREAMS: u16 = 6;

impl StreamSlot {
    /// Whether this is the stream of whichever thread makes the call.
    pub(crate) fn is_per_thread(self) -> bool {
        self.0 < DEFAULT_STREAMS && self.0 % 3 == 2
    }
}

/// A node of a graph. The nodes that a capture makes get numbers when they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeSlot {
    pub(crate) graph: GraphSlot,
    pub(crate) index: u16,
}

impl Display for NodeSlot {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.graph, self.index)
    }
}

impl Operand for NodeSlot {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, formatter)
    }
}

/// The data of an edge: from which port, to which port, and the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct EdgeSpec(pub(crate) u8, pub(crate) u8, pub(crate) u8);

impl Display for EdgeSpec {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if *self == Self::default() { Ok(()) } else { write!(formatter, "[{},{},{}]", self.0, self.1, self.2) }
    }
}

/// A node that another one depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DependencySlot {
    pub(crate) node: NodeSlot,
    pub(crate) data: EdgeSpec,
}

impl From<NodeSlot> for DependencySlot {
    fn from(node: NodeSlot) -> Self {
        Self { node, data: EdgeSpec::default() }
    }
}

impl Operand for DependencySlot {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.node, self.data)
    }
}

/// An edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EdgeSlot {
    pub(crate) from: NodeSlot,
    pub(crate) to: NodeSlot,
    pub(crate) data: EdgeSpec,
}

impl Operand for EdgeSlot {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}>{}{}", self.from, self.to, self.data)
    }
}

/// The empty place that the result of a call fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct New<T>(pub(crate) T);

impl<T: Operand> Operand for New<T> {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("new ")?;
        self.0.show(formatter)
    }
}

/// Flags as a number, also those that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u32);

impl Operand for Flags {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

/// Whether a query is certain to be answered the same however long one waits: what it asks about is held up by a gate, or
/// nothing holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It may be complete or not: both answers count as the same.
    Either,
    /// It is held up.
    Held,
    /// It completes by itself.
    Completes,
}

impl Operand for Patience {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Either => "either",
            Self::Held => "held",
            Self::Completes => "completes",
        })
    }
}

impl<T: Operand> Operand for Option<T> {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Some(operand) => operand.show(formatter),
            None => formatter.write_str("none"),
        }
    }
}

impl<T: Operand> Operand for Vec<T> {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("[")?;
        for (index, operand) in self.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            operand.show(formatter)?;
        }
        formatter.write_str("]")
    }
}

macro_rules! shown_as {
    ($how:literal: $($Type:ty)*) => { $(
        impl Operand for $Type {
            fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                write!(formatter, $how, self)
            }
        }
    )* };
}

shown_as!("{}": u8 u16 u32 u64 i32 usize bool);
shown_as!("{:?}": CaptureMode DependencyUpdate CopyKind FillPattern FunctionAttribute MemoryPoolAttribute Value);
shown_as!("{:?}": BadPlace ImageSpec Place Wrong &'static str [usize; 3]);
