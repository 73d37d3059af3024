//! The locks of this crate, in the order in which a thread may take them.

use anabranch_sync::ranks;

ranks! { from 100;
    /// An executable graph, while the driver is called with it.
    EXECUTABLE_GRAPH,
    /// An event's last record, while the driver records the event or makes a stream wait for it. Those of several events are locked
    /// in ascending order of their ids.
    EVENT_RECORD,
    /// The futures of an event's last record.
    AWAITED_RECORDS,
    /// The source that shows whether an awaited record is complete.
    AWAITED_RECORD_SOURCE,
    /// A stream's capture membership: shared while work is submitted, exclusive while the stream joins or leaves a
    /// capture. To end a capture, a thread takes those of all its streams, by trying.
    MEMBERSHIP,
    /// The right to capture work in a capture.
    CAPTURE_SUBMISSION,
    /// A graph with the bodies of its conditional nodes, while the driver is called with them. Two graphs are locked in
    /// ascending order of their ids.
    GRAPH,
    /// Submissions that use memory which graphs retain: shared for those that only read it.
    RETAINED_MEMORY,
    /// The readers and the writer of one piece of memory.
    ACCESS_HISTORY,
    /// A context's submissions of work that waits for something else than the context: shared while the driver is called with one,
    /// exclusive while memory is freed by a call that waits for the device.
    HOST_BOUND_WORK,
    /// A context's captures of blocking streams: shared while a stream joins one, exclusive while the library records an event in
    /// the legacy stream or frees memory there, which it may not beside such a capture.
    LEGACY_RECORDS,
    /// The streams in which memory of a pool was freed.
    MEMORY_POOL,
    /// The streams in which memory of a graph was freed.
    GRAPH_FREES,
    /// A stream's sync event, and whether the stream has ended.
    SYNC_EVENT,
    /// The writes of a stream's flag, in the order of their values.
    FLAG_WRITES,
    /// What a capture knows of its streams, their memory and its nodes.
    CAPTURE,
    /// The capture that a stream is a member of.
    MEMBER_OF,
    /// The captures that have used a piece of memory.
    CAPTURED_IN,
    /// The capture that an event was last recorded in.
    EVENT_CAPTURED_IN,
    /// The host's access to memory that graphs retain.
    HOST_ACCESS,
    /// The kernel that sets the values of conditional nodes, while it is loaded.
    CONDITIONAL_SETTER,
    /// Pinned flags of a context.
    FLAG_POOL,
    /// Idle events of a context.
    EVENT_POOL,
    /// Idle staging memory of a context.
    STAGING_MEMORY,
    /// Memory that is freed when its context is idle.
    IDLE_MEMORY,
    /// Host memory that is to be unregistered when its context is idle.
    UNREGISTERED_LATER,
    /// The memory pools of a device that nobody uses.
    IDLE_MEMORY_POOLS,
    /// The memory of other processes that is open, while the driver opens or closes some.
    OPENED_MEMORY,
    /// The reactor of a context, while it is started.
    REACTOR,
    /// What was registered with a reactor.
    REACTOR_INBOX,
    /// A waiter's state.
    WAITER,
    /// What a timeline has followed. A thread never takes two at once.
    TIMELINE_CLOCK,
    /// Where a host function of a graph was launched.
    HOST_WORK_STREAMS,
    /// Panics of closures that were not reported yet.
    PANICS,
    /// Work of ended streams that is not complete.
    ENDED_STREAMS,
    /// The streams of a context.
    STREAM_REGISTRY,
    /// What the objects of streams of other owners share.
    OPENED_STREAMS,
    /// The contexts that are in use.
    CONTEXTS,
    /// The contexts of drivers that have objects.
    DRIVER_CONTEXTS,
    /// The work of the objects of a context.
    CONTEXT_WORK,
    /// The channel to the reaper, while its thread is started.
    REAPER,
    /// The hook for errors of drops.
    DROP_ERROR_HOOK,
}
