//! What programs consist of, and how they are made up.
//!
//! Numbers choose among what there is, and are taken modulo how many there are of it: streams of the program, buffers, pinned
//! buffers and events of the stream's device, graphs, futures.

use crate::batched::{Batched, batched};
use crate::composed::{Composed, composed};
use crate::defaults::{Defaults, defaults};
use crate::edited::{Edited, edited};
use crate::elements::{Elements, elements};
use crate::exchanged::{Exchanged, exchanged};
use crate::foreign::{Foreign, foreign};
use crate::forget::{Forget, Way, forget, way};
use crate::loss::{Loss, loss};
use crate::share::{Share, share};
use crate::streams::{StreamKind, stream_kind};
use crate::swap::{Swap, swap};
use crate::unwind::{Unwind, unwind};
use proptest::prelude::*;

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
    /// Gives a buffer to a host function, which drops it.
    DropInHostFunction {
        stream: usize,
        from: usize,
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
    Defaults(Defaults),
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

pub(crate) fn fate() -> impl Strategy<Value = Fate> {
    use Fate::{DroppedPolled, DroppedUnpolled, Finished, Kept, KeptPolled, Leaked, LeakedPolled};
    let ends = prop::sample::select(vec![Finished, Finished, DroppedPolled, DroppedUnpolled, Kept, KeptPolled]);
    let leaks = (way(), any::<bool>()).prop_map(|(way, polled)| if polled { LeakedPolled(way) } else { Leaked(way) });
    prop_oneof![12 => ends, 1 => leaks]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Device, Kind::Device, Kind::Pinned])
}

fn source() -> impl Strategy<Value = Source> {
    use Source::{DefaultPool, OtherPool, Plain};
    prop::sample::select(vec![DefaultPool, DefaultPool, OtherPool, Plain])
}

fn captured() -> impl Strategy<Value = Captured> {
    use Captured::{Combine, Copy, Fill, FromPinned, Temporary, ToPinned};
    let n = || 0..4usize;
    prop_oneof![
        3 => (n(), n(), n(), any::<u32>()).prop_map(|(to, left, right, value)| Combine { to, left, right, value }),
        2 => (n(), n()).prop_map(|(to, from)| Copy { to, from }),
        1 => (n(), any::<u32>()).prop_map(|(to, value)| Fill { to, value }),
        1 => (n(), n()).prop_map(|(pinned, from)| ToPinned { pinned, from }),
        1 => (n(), n()).prop_map(|(to, pinned)| FromPinned { to, pinned }),
        1 => (n(), n(), any::<u32>()).prop_map(|(to, from, value)| Temporary { to, from, value }),
    ]
}

/// Operations on buffers.
pub(crate) fn work() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..4usize;
    prop_oneof![
        8 => (n(), n(), n(), n(), any::<u32>())
            .prop_map(|(stream, to, left, right, value)| Combine { stream, to, left, right, value }),
        2 => (n(), n(), any::<u32>()).prop_map(|(stream, to, value)| CombineHalves { stream, to, value }),
        3 => (n(), n(), n()).prop_map(|(stream, to, from)| Copy { stream, to, from }),
        2 => (n(), n(), n()).prop_map(|(stream, to, from)| CopyHalf { stream, to, from }),
        2 => (n(), n(), n(), n())
            .prop_map(|(stream, to, from_device, from)| CopyPeer { stream, to, from_device, from }),
        2 => (n(), n(), any::<u32>()).prop_map(|(stream, to, value)| Fill { stream, to, value }),
        1 => (n(), n(), any::<u32>()).prop_map(|(stream, to, value)| FillHalf { stream, to, value }),
        1 => (n(), [n(), n(), n()], any::<u32>())
            .prop_map(|(stream, buffers, value)| CombineWith { stream, buffers, value }),
        1 => (n(), n(), any::<u32>()).prop_map(|(stream, to, value)| Upload { stream, to, value }),
        1 => (n(), n()).prop_map(|(stream, from)| Read { stream, from }),
        4 => (n(), n(), source()).prop_map(|(stream, to, from)| Renew { stream, to, from }),
        1 => (n(), n()).prop_map(|(stream, from)| DropInHostFunction { stream, from }),
        2 => (n(), n(), n()).prop_map(|(stream, pinned, from)| ToPinned { stream, pinned, from }),
        2 => (n(), n(), n()).prop_map(|(stream, to, pinned)| FromPinned { stream, to, pinned }),
        1 => (n(), n(), n()).prop_map(|(stream, to, from)| BetweenPinned { stream, to, from }),
        1 => (n(), n(), any::<u32>()).prop_map(|(stream, pinned, value)| HostWrite { stream, pinned, value }),
        1 => (n(), n()).prop_map(|(stream, pinned)| HostRead { stream, pinned }),
        1 => (n(), n()).prop_map(|(stream, pinned)| RenewPinned { stream, pinned }),
    ]
}

/// Operations on what orders work.
fn order() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..4usize;
    prop_oneof![
        3 => (n(), n()).prop_map(|(stream, event)| Record { stream, event }),
        3 => (n(), n(), n()).prop_map(|(stream, device, event)| WaitEvent { stream, device, event }),
        1 => (n(), n()).prop_map(|(stream, event)| RenewEvent { stream, event }),
        3 => (n(), n()).prop_map(|(stream, other)| WaitStream { stream, other }),
        3 => (n(), stream_kind()).prop_map(|(stream, kind)| RenewStream { stream, kind }),
        1 => n().prop_map(|stream| GreenStream { stream }),
        1 => n().prop_map(|stream| RenewPool { stream }),
        1 => n().prop_map(|stream| Synchronize { stream }),
        2 => n().prop_map(|stream| Query { stream }),
        4 => n().prop_map(|stream| Hold { stream }),
    ]
}

/// Operations that end early, late, or never.
fn control() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..4usize;
    let sometimes = || prop::bool::weighted(0.2);
    prop_oneof![
        1 => n().prop_map(|stream| PanicInHostFunction { stream }),
        2 => (n(), n(), n(), n(), any::<u32>(), sometimes())
            .prop_map(|(stream, other, to, from, value, panics)| Scope { stream, other, to, from, value, panics }),
        2 => (n(), any::<u32>(), fate()).prop_map(|(stream, value, fate)| UploadAsync { stream, value, fate }),
        2 => (n(), n(), fate()).prop_map(|(stream, from, fate)| DownloadAsync { stream, from, fate }),
        1 => (n(), n(), any::<u32>(), fate()).prop_map(|(stream, to, value, fate)| FillAsync { stream, to, value, fate }),
        3 => (n(), kind(), n(), kind(), n(), fate()).prop_map(|(stream, to, to_number, from, from_number, fate)| CopyAsync {
            stream, to, to_number, from, from_number, fate
        }),
        3 => (n(), [n(), n(), n()], any::<u32>(), fate())
            .prop_map(|(stream, numbers, value, fate)| LaunchAsync { stream, numbers, value, fate }),
        1 => (n(), n(), any::<bool>())
            .prop_map(|(stream, pinned, finishes)| HostReadAsync { stream, pinned, finishes }),
        2 => (n(), any::<bool>(), fate()).prop_map(|(stream, checked, fate)| Await { stream, checked, fate }),
        4 => (n(), n(), any::<u32>(), sometimes(), fate())
            .prop_map(|(stream, from, value, panics, fate)| Enqueue { stream, from, value, panics, fate }),
        2 => (n(), fate()).prop_map(|(future, fate)| Resume { future, fate }),
        1 => (n(), 1..4usize, 0..5u32, 0..6usize)
            .prop_map(|(stream, depth, chunks, taken)| Pipeline { stream, depth, chunks, taken }),
        2 => (n(), n(), prop::collection::vec((any::<bool>(), captured()), 1..6))
            .prop_map(|(stream, other, work)| Capture { stream, other, work }),
        6 => (n(), n(), any::<bool>()).prop_map(|(stream, graph, awaited)| Launch { stream, graph, awaited }),
        1 => n().prop_map(|graph| DropGraph { graph }),
    ]
}

/// What programs do wrong.
fn misuse() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => forget().prop_map(Operation::Forget),
        3 => swap().prop_map(Operation::Swap),
        3 => share().prop_map(Operation::Share),
        5 => unwind().prop_map(Operation::Unwind),
        2 => foreign().prop_map(Operation::Foreign),
        2 => elements().prop_map(Operation::Elements),
        2 => defaults().prop_map(Operation::Defaults),
    ]
}

fn step(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = Step> {
    (prop::bool::weighted(0.02), operation).prop_map(|(elsewhere, operation)| Step { elsewhere, operation })
}

/// Several operations as one, and what passes between libraries.
fn interfaces() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => batched().prop_map(Operation::Batched),
        3 => exchanged().prop_map(Operation::Exchanged),
        2 => composed().prop_map(Operation::Composed),
        3 => edited().prop_map(Operation::Edited),
    ]
}

fn usual() -> impl Strategy<Value = Operation> {
    prop_oneof![24 => work(), 8 => order(), 14 => control(), 6 => misuse(), 6 => interfaces()]
}

/// Threads that run at the same time inside of a program.
fn together() -> impl Strategy<Value = Operation> {
    let operation = prop_oneof![4 => usual(), 1 => share().prop_map(Operation::Share)];
    prop::collection::vec(prop::collection::vec(step(operation), 1..10), 2..4).prop_map(Operation::Together)
}

fn thread() -> impl Strategy<Value = Thread> {
    let operation = prop_oneof![400 => usual(), 1 => together()];
    let loss = prop::option::weighted(0.03, loss());
    (prop::collection::vec(step(operation), 1..40), loss).prop_map(|(steps, loss)| Thread { steps, loss })
}

/// A program of so many threads.
pub(crate) fn program(threads: usize) -> impl Strategy<Value = Program> {
    let streams = prop::collection::vec(stream_kind(), 1..5);
    (streams, any::<u64>(), prop::collection::vec(thread(), threads)).prop_map(|(streams, seed, threads)| Program {
        streams,
        seed,
        threads,
    })
}
