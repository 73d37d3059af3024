//! The calls of a program, with slots as operands.

mod arena;
mod front;
mod graph;
mod memory;
mod module;
mod stream;

pub(crate) use arena::{AddressSpec, ArenaCall, Base, PlaceSpec};
pub(crate) use front::{
    BufferKind, ConditionalSpec, FrontCall, FrontKernel, FrontLaunch, FrontWork, PartSpec, RegionSpec, WrongLaunch,
};
pub(crate) use graph::{ExecutableCall, GraphCall, NodeSpec, ValueSpec};
pub(crate) use memory::{BadPlace, MemoryCall, Place};
pub(crate) use module::{ImageSpec, KernelSpec, LaunchSpec, ModuleCall, Wrong};
pub(crate) use stream::{CaptureCall, EventCall, StreamCall, WaitSpec};

use super::slots::{ContextSlot, GateSlot, Operand};
use std::fmt::{self, Display, Formatter};

/// Declares the calls of one group, each with the name that it is printed and grouped by.
macro_rules! calls {
    ($(#[$meta:meta])* $Calls:ident { $($Variant:ident $name:literal { $($field:ident: $Type:ty),* $(,)? })* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum $Calls {
            $($Variant { $($field: $Type),* },)*
        }

        impl $Calls {
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$Variant { .. } => $name,)*
                }
            }
        }

        impl std::fmt::Display for $Calls {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$Variant { $($field),* } => {
                        $crate::programs::call::show(formatter, $name, &[$($field),*])
                    })*
                }
            }
        }
    };
}
use calls;

fn show(formatter: &mut Formatter<'_>, name: &str, operands: &[&dyn Operand]) -> fmt::Result {
    write!(formatter, "{name}(")?;
    for (index, operand) in operands.iter().enumerate() {
        if index > 0 {
            formatter.write_str(",")?;
        }
        operand.show(formatter)?;
    }
    formatter.write_str(")")
}

calls! {
    /// What the harness does itself.
    HarnessCall {
        OpenGate "open_gate" { gate: GateSlot }
        ReadContents "read_contents" {}
        // From here on, calls for objects that say themselves which context they are of are made in this one.
        Enter "enter_context" { context: Option<ContextSlot> }
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Harness(HarnessCall),
    Stream(StreamCall),
    Event(EventCall),
    Capture(CaptureCall),
    Memory(MemoryCall),
    Arena(ArenaCall),
    Module(ModuleCall),
    Graph(GraphCall),
    Executable(ExecutableCall),
    Front(FrontCall),
}

macro_rules! groups {
    ($($Variant:ident $Calls:ident)*) => {
        impl Call {
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$Variant(call) => call.name(),)*
                }
            }
        }

        impl Display for Call {
            fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$Variant(call) => call.fmt(formatter),)*
                }
            }
        }

        $(
            impl From<$Calls> for Call {
                fn from(call: $Calls) -> Self {
                    Self::$Variant(call)
                }
            }
        )*
    };
}

groups! {
    Harness HarnessCall
    Stream StreamCall
    Event EventCall
    Capture CaptureCall
    Memory MemoryCall
    Arena ArenaCall
    Module ModuleCall
    Graph GraphCall
    Executable ExecutableCall
    Front FrontCall
}

impl Call {
    /// Whether the host may wait for work. All gates are opened first: what waits for a closed gate never ends.
    pub(crate) fn may_wait(&self) -> bool {
        match self {
            Self::Harness(call) => matches!(call, HarnessCall::ReadContents {}),
            Self::Stream(call) => {
                matches!(call, StreamCall::Synchronize { .. } | StreamCall::ContextSynchronize { .. })
            }
            Self::Event(call) => matches!(call, EventCall::Synchronize { .. }),
            Self::Memory(call) => call.may_wait(),
            Self::Arena(_) => true,
            Self::Module(call) => {
                use ModuleCall::{Load, LoadAndUnload, Unload};
                matches!(call, LoadAndUnload { .. } | Load { .. } | Unload { .. })
            }
            Self::Graph(call) => matches!(call, GraphCall::MemoryTrim {} | GraphCall::MemoryTrimOf { .. }),
            // What waits in the safe API opens its gates itself.
            Self::Capture(_) | Self::Executable(_) | Self::Front(_) => false,
        }
    }
}
