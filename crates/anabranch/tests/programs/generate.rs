//! How programs are made up.

use crate::batched::batched;
use crate::composed::composed;
use crate::defaults::defaults;
use crate::divided::divided;
use crate::edited::edited;
use crate::elements::elements;
use crate::exchanged::exchanged;
use crate::foreign::foreign;
use crate::forget::{forget, way};
use crate::forked::forked;
use crate::handed::handed;
use crate::loss::loss;
use crate::managed::managed;
use crate::operation::{Captured, Fate, HostFunctionKind, Kind, Operation, Program, Source, Step, Thread};
use crate::recaptured::recaptured;
use crate::regions::regions;
use crate::rewired::rewired;
use crate::share::share;
use crate::streams::{StreamKind, stream_kind};
use crate::strict::strict;
use crate::swap::swap;
use crate::tangled::tangled;
use crate::unwind::unwind;
use proptest::prelude::*;

pub(crate) fn fate() -> impl Strategy<Value = Fate> {
    use Fate::{DroppedPolled, DroppedUnpolled, Finished, Kept, KeptPolled, Leaked, LeakedPolled};
    let ends = prop::sample::select(vec![Finished, Finished, DroppedPolled, DroppedUnpolled, Kept, KeptPolled]);
    let leaks = (way(), any::<bool>()).prop_map(|(way, polled)| if polled { LeakedPolled(way) } else { Leaked(way) });
    prop_oneof![12 => ends, 1 => leaks]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Device, Kind::Device, Kind::Pinned])
}

fn host_function_kind() -> impl Strategy<Value = HostFunctionKind> {
    use HostFunctionKind::{Callback, Once, Repeatable};
    prop::sample::select(vec![Once, Repeatable, Callback])
}

fn source() -> impl Strategy<Value = Source> {
    use Source::{DefaultPool, External, OtherPool, Plain};
    prop::sample::select(vec![DefaultPool, DefaultPool, OtherPool, Plain, External])
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
        1 => (n(), n(), n()).prop_map(|(stream, to, from)| Clone { stream, to, from }),
        1 => (n(), n()).prop_map(|(stream, from)| Read { stream, from }),
        4 => (n(), n(), source()).prop_map(|(stream, to, from)| Renew { stream, to, from }),
        1 => (n(), n(), host_function_kind())
            .prop_map(|(stream, from, kind)| DropInHostFunction { stream, from, kind }),
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
        2 => (n(), n(), any::<Option<bool>>()).prop_map(|(device, event, wait)| MeetEvent { device, event, wait }),
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
        2 => handed().prop_map(Operation::Handed),
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
        3 => rewired().prop_map(Operation::Rewired),
        3 => recaptured().prop_map(Operation::Recaptured),
        2 => tangled().prop_map(Operation::Tangled),
        2 => forked().prop_map(Operation::Forked),
        2 => divided().prop_map(Operation::Divided),
        3 => regions().prop_map(Operation::Regions),
        2 => strict().prop_map(Operation::Strict),
        1 => managed().prop_map(Operation::Managed),
    ]
}

/// On the heap: by value, so many alternatives take more of the stack than a thread of a test has.
fn usual() -> impl Strategy<Value = Operation> {
    prop_oneof![24 => work().boxed(), 8 => order().boxed(), 14 => control().boxed(), 6 => misuse().boxed(), 10 => interfaces().boxed()]
        .boxed()
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

/// A program of nothing but one such operation.
pub(crate) fn program_of(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = Program> {
    (any::<u64>(), operation).prop_map(|(seed, operation)| {
        let steps = vec![Step { elsewhere: false, operation }];
        Program { streams: vec![StreamKind::NonBlocking(0)], seed, threads: vec![Thread { steps, loss: None }] }
    })
}
