//! Calls for streams, events and captures.

use super::calls;
use crate::programs::slots::{
    ContextSlot, DependencySlot, EventSlot, Flags, GateSlot, GraphSlot, New, Operand, Patience, StreamSlot,
};
use anabranch::hal::{CaptureMode, DependencyUpdate};
use std::fmt::{self, Formatter};

/// What a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitSpec {
    /// A gate, which the program opens later.
    Gate(GateSlot),
    /// A number that fulfils the condition already.
    Open,
    /// An address that is not aligned.
    Odd,
}

impl Operand for WaitSpec {
    fn show(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate(gate) => gate.show(formatter),
            Self::Open => formatter.write_str("open"),
            Self::Odd => formatter.write_str("odd"),
        }
    }
}

calls! {
    /// Calls for streams and contexts.
    StreamCall {
        Create "stream_create" { stream: New<StreamSlot>, context: ContextSlot, flags: Flags, priority: i32 }
        Destroy "stream_destroy" { stream: StreamSlot }
        Query "stream_query" { stream: StreamSlot, patience: Patience }
        Synchronize "stream_synchronize" { stream: StreamSlot }
        WaitEvent "stream_wait_event" { stream: StreamSlot, event: Option<EventSlot>, flags: Flags }
        Flags "stream_flags" { stream: StreamSlot }
        Priority "stream_priority" { stream: StreamSlot }
        Id "stream_id" { stream: StreamSlot }
        Context "stream_context" { stream: StreamSlot }
        Attribute "stream_attribute" { stream: StreamSlot }
        SetPolicy "stream_set_attribute" { stream: StreamSlot, policy: u8 }
        HostFunction "stream_launch_host_function" { stream: StreamSlot, number: u32, repeatable: bool }
        Callback "stream_add_callback" { stream: StreamSlot, number: u32 }
        TakeFailure "stream_take_failure" { stream: StreamSlot }
        WaitValue "stream_wait_value" { stream: StreamSlot, what: WaitSpec }
        WriteValue "stream_write_value" { stream: StreamSlot, mark: u8 }
        WriteGate "stream_write_value" { stream: StreamSlot, gate: GateSlot }
        ContextSynchronize "context_synchronize" { context: ContextSlot }
    }
}

calls! {
    /// Calls for events.
    EventCall {
        Create "event_create" { event: New<EventSlot>, context: ContextSlot, flags: Flags }
        Destroy "event_destroy" { event: EventSlot }
        Record "event_record" { event: Option<EventSlot>, stream: StreamSlot, flags: Flags }
        Query "event_query" { event: Option<EventSlot>, patience: Patience }
        Synchronize "event_synchronize" { event: Option<EventSlot> }
        Elapsed "event_elapsed" { start: EventSlot, end: EventSlot }
    }
}

calls! {
    /// Calls for captures.
    CaptureCall {
        Begin "stream_begin_capture" { stream: StreamSlot, mode: CaptureMode, graph: New<GraphSlot> }
        BeginToGraph "stream_begin_capture_to_graph" {
            stream: StreamSlot, graph: GraphSlot, dependencies: Vec<DependencySlot>, mode: CaptureMode,
        }
        End "stream_end_capture" { stream: StreamSlot }
        Status "stream_capture_status" { stream: StreamSlot }
        // Nodes that have no names yet get numbers from `first` on.
        Info "stream_capture_info" { stream: StreamSlot, edge_data: bool, first: u16 }
        Update "stream_update_capture_dependencies" {
            stream: StreamSlot, dependencies: Vec<DependencySlot>, update: DependencyUpdate,
        }
        ExchangeMode "thread_exchange_capture_mode" { mode: CaptureMode }
    }
}
