//! What programs consist of.
//!
//! Numbers choose among what there is, and are taken modulo how many there are of it: streams of the program, buffers, pinned
//! buffers and events of the stream's device, graphs, futures.

use crate::batched::Batched;
use crate::composed::Composed;
use crate::defaults::Defaults;
use crate::divided::Divided;
use crate::edited::Edited;
use crate::elements::Elements;
use crate::exchanged::Exchanged;
use crate::foreign::Foreign;
use crate::forget::{Forget, Way};
use crate::forked::Forked;
use crate::handed::Handed;
use crate::loss::Loss;
use crate::managed::Managed;
use crate::recaptured::Recaptured;
use crate::regions::Regions;
use crate::rewired::Rewired;
use crate::share::Share;
use crate::streams::StreamKind;
use crate::strict::Strict;
use crate::swap::Swap;
use crate::tangled::Tangled;
use crate::unwind::Unwind;

/// A program: what it runs on, and what each of its threads does.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The streams that each thread has.
    pub(crate) streams: Vec<StreamKind>,
    /// The seed of the order in which work runs, where it runs in such an order.
    pub(crate) seed: u64,
    pub(crate) threads: Vec<Thread>,
}

/// What a thread does, and how it loses its contexts in the end if they are its own.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) steps: Vec<Step>,
    pub(crate) loss: Option<Loss>,
}

/// An operation, and whether a thread does it that does nothing else.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) elsewhere: bool,
    pub(crate) operation: Operation,
}

#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A kernel, which reads two buffers, and reads and writes one.
    Combine {
        stream: usize,
        to: usize,
        left: usize,
        right: usize,
        value: u32,
    },
    /// The same within one buffer, from its first half to its second.
    CombineHalves {
        stream: usize,
        to: usize,
        value: u32,
    },
    Copy {
        stream: usize,
        to: usize,
        from: usize,
    },
    CopyHalf {
        stream: usize,
        to: usize,
        from: usize,
    },
    /// From a buffer of any device to one of any other.
    CopyPeer {
        stream: usize,
        to: usize,
        from_device: usize,
        from: usize,
    },
    Fill {
        stream: usize,
        to: usize,
        value: u32,
    },
    FillHalf {
        stream: usize,
        to: usize,
        value: u32,
    },
    /// A new buffer with values of the host's.
    Upload {
        stream: usize,
        to: usize,
        value: u32,
    },
    /// A new buffer with the contents of another one.
    Clone {
        stream: usize,
        to: usize,
        from: usize,
    },
    /// Reads a buffer back, and compares.
    Read {
        stream: usize,
        from: usize,
    },
    /// Drops a buffer while it may be in use, and allocates it anew.
    Renew {
        stream: usize,
        to: usize,
        from: Source,
    },
    /// Gives a buffer to a host function of some kind, which drops it.
    DropInHostFunction {
        stream: usize,
        from: usize,
        kind: HostFunctionKind,
    },
    ToPinned {
        stream: usize,
        pinned: usize,
        from: usize,
    },
    FromPinned {
        stream: usize,
        to: usize,
        pinned: usize,
    },
    BetweenPinned {
        stream: usize,
        to: usize,
        from: usize,
    },
    HostWrite {
        stream: usize,
        pinned: usize,
        value: u32,
    },
    HostRead {
        stream: usize,
        pinned: usize,
    },
    RenewPinned {
        stream: usize,
        pinned: usize,
    },
    Record {
        stream: usize,
        event: usize,
    },
    WaitEvent {
        stream: usize,
        device: usize,
        event: usize,
    },
    /// Asks for an event, waits for it, or lets a task wait for it.
    MeetEvent {
        device: usize,
        event: usize,
        wait: Option<bool>,
    },
    RenewEvent {
        stream: usize,
        event: usize,
    },
    WaitStream {
        stream: usize,
        other: usize,
    },
    /// Drops a stream, its work pending, and makes it anew.
    RenewStream {
        stream: usize,
        kind: StreamKind,
    },
    RenewPool {
        stream: usize,
    },
    Synchronize {
        stream: usize,
    },
    Query {
        stream: usize,
    },
    /// Lets a stream wait until the program has to wait itself.
    Hold {
        stream: usize,
    },
    PanicInHostFunction {
        stream: usize,
    },
    /// A scope that borrows memory of the host on a stream and another one, and may panic.
    Scope {
        stream: usize,
        other: usize,
        to: usize,
        from: usize,
        value: u32,
        panics: bool,
    },
    /// A future of all work, which is given up at some point.
    Await {
        stream: usize,
        checked: bool,
        fate: Fate,
    },
    /// A future that owns a buffer that its work uses. The closure that queues it may panic.
    Enqueue {
        stream: usize,
        from: usize,
        value: u32,
        panics: bool,
        fate: Fate,
    },
    UploadAsync {
        stream: usize,
        value: u32,
        fate: Fate,
    },
    DownloadAsync {
        stream: usize,
        from: usize,
        fate: Fate,
    },
    FillAsync {
        stream: usize,
        to: usize,
        value: u32,
        fate: Fate,
    },
    CopyAsync {
        stream: usize,
        to: Kind,
        to_number: usize,
        from: Kind,
        from_number: usize,
        fate: Fate,
    },
    LaunchAsync {
        stream: usize,
        numbers: [usize; 3],
        value: u32,
        fate: Fate,
    },
    /// Waits as a task for the work that uses pinned memory, and compares.
    HostReadAsync {
        stream: usize,
        pinned: usize,
        finishes: bool,
    },
    /// Goes on with a future that was kept.
    Resume {
        future: usize,
        fate: Fate,
    },
    Pipeline {
        stream: usize,
        depth: usize,
        chunks: u32,
        taken: usize,
    },
    /// Captures a graph of a stream and another one.
    Capture {
        stream: usize,
        other: usize,
        work: Vec<(bool, Captured)>,
    },
    Launch {
        stream: usize,
        graph: usize,
        awaited: bool,
    },
    DropGraph {
        graph: usize,
    },
    Forget(Forget),
    Swap(Swap),
    Share(Share),
    Unwind(Unwind),
    Foreign(Foreign),
    Elements(Elements),
    Batched(Batched),
    Exchanged(Exchanged),
    Composed(Composed),
    Edited(Edited),
    Rewired(Rewired),
    Recaptured(Recaptured),
    Tangled(Tangled),
    Forked(Forked),
    Divided(Divided),
    Handed(Handed),
    Regions(Regions),
    Strict(Strict),
    Defaults(Defaults),
    Managed(Managed),
    /// Drops a stream, its work pending, and makes one of a green context in its place.
    GreenStream {
        stream: usize,
    },
    /// As `Combine`, by a launch with an attribute.
    CombineWith {
        stream: usize,
        buffers: [usize; 3],
        value: u32,
    },
    /// Threads that share streams, events, pools and contexts do all this at the same time.
    Together(Vec<Vec<Step>>),
}

impl Operation {
    /// Whether it needs kernels that are closures, other devices, or host functions that run beside one that waits.
    pub(crate) fn is_for_host_devices(&self) -> bool {
        match self {
            Self::Foreign(_)
            | Self::Hold { .. }
            | Self::Forget(Forget::Kernel { .. })
            | Self::Share(Share::Views { .. }) => true,
            Self::Exchanged(exchanged) => exchanged.is_for_host_devices(),
            Self::Unwind(unwind) => matches!(
                unwind,
                Unwind::Kernel { .. }
                    | Unwind::DropOfKernel { .. }
                    | Unwind::DropOfRefused { .. }
                    | Unwind::KernelNode { .. }
            ),
            _ => false,
        }
    }
}

/// Work that can be captured.
#[derive(Clone, Debug)]
pub(crate) enum Captured {
    Combine {
        to: usize,
        left: usize,
        right: usize,
        value: u32,
    },
    Copy {
        to: usize,
        from: usize,
    },
    Fill {
        to: usize,
        value: u32,
    },
    ToPinned {
        pinned: usize,
        from: usize,
    },
    FromPinned {
        to: usize,
        pinned: usize,
    },
    /// By way of memory that the graph allocates and frees.
    Temporary {
        to: usize,
        from: usize,
        value: u32,
    },
}

/// Where memory comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    DefaultPool,
    OtherPool,
    Plain,
    /// A file that is imported as memory of another API.
    External,
}

/// How a function of the host is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostFunctionKind {
    Once,
    Repeatable,
    Callback,
}

/// What a buffer is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Device,
    Pinned,
}

/// What becomes of a future.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    DroppedUnpolled,
    DroppedPolled,
    Finished,
    Kept,
    KeptPolled,
    Leaked(Way),
    LeakedPolled(Way),
}
