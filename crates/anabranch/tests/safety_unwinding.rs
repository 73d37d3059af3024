//! Code of the program that unwinds inside of the library: it never leaves a lock held, a table half changed or a capture
//! half ended. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    CaptureMode, CaptureStatus, Context, DualModule, Graph, HostFunction, LaunchConfig, NodeWork, Status, Stream,
    flush_deferred_drops, reset_drop_error_hook, set_drop_error_hook,
};
use common::{hold, host};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;

/// Only a hang takes so long.
const HANGS: Duration = Duration::from_secs(60);

/// Unwinds without a message on standard error.
fn unwind() {
    resume_unwind(Box::new("on purpose"));
}

type Probe = Box<dyn FnOnce() + Send>;

/// A value that the program gives away. When it is dropped, another thread uses the library, which a lock that was held
/// would keep from it; and then the drop unwinds.
struct Trap {
    probe: Mutex<Option<Probe>>,
    sprung: Sender<thread::Result<()>>,
}

impl Trap {
    fn new(probe: impl FnOnce() + Send + 'static) -> (Self, Sprung) {
        let (sprung, receiver) = channel();
        (Self { probe: Mutex::new(Some(Box::new(probe))), sprung }, Sprung(receiver))
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        let probe = self.probe.lock().unwrap().take().unwrap();
        let (tell, told) = channel();
        thread::spawn(move || tell.send(catch_unwind(AssertUnwindSafe(probe))));
        let verdict = told.recv_timeout(HANGS).unwrap_or_else(|_| Err(Box::new("the probe hangs")));
        let _ = self.sprung.send(verdict);
        unwind();
    }
}

/// What became of a [`Trap`].
struct Sprung(Receiver<thread::Result<()>>);

impl Sprung {
    /// Waits until the trap is dropped, and fails if its probe has failed.
    #[track_caller]
    fn require(self, what: &str) {
        flush_deferred_drops();
        let verdict = self.0.recv_timeout(HANGS).unwrap_or_else(|_| panic!("{what}: it was not dropped"));
        // The trap unwinds after it has told: what the library makes of that is to be over too.
        flush_deferred_drops();
        if let Err(payload) = verdict {
            let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            panic!("{what}: {}", text.unwrap_or_default());
        }
    }
}

/// A use of a stream that excludes whatever is submitted to it, and adds nothing to it.
fn capture_nothing(stream: &Stream) {
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    stream.end_capture().unwrap();
}

/// A use of a stream for work.
#[track_caller]
fn assert_works(what: &str, stream: &Stream) {
    let _ = stream.synchronize();
    let memory = stream.upload(&[1u32, 2]).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(stream.download(&memory).unwrap(), [1, 2], "{what}");
    capture_nothing(stream);
}

/// A use of a graph.
#[track_caller]
fn assert_launches(what: &str, graph: &mut Graph, stream: &Stream, nodes: usize) {
    assert_eq!(graph.nodes().unwrap().len(), nodes, "{what}");
    let count = Arc::new(AtomicUsize::new(0));
    let inside = count.clone();
    graph.add((), NodeWork::host_func(move || _ = inside.fetch_add(1, Ordering::SeqCst))).unwrap();
    // A trap that another thread drops captures in the stream.
    flush_deferred_drops();
    graph.instantiate().unwrap().launch(stream).unwrap();
    let _ = stream.synchronize();
    assert_eq!(count.load(Ordering::SeqCst), 1, "{what}");
}

/// Calls the library where nothing may unwind out of it.
#[track_caller]
fn contained<R>(what: &str, call: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| panic!("{what}: it unwinds out of the library"))
}

/// A stream that another thread can use, and a trap that uses it.
fn trapped(context: &Context) -> (Arc<Stream>, Trap, Sprung) {
    let stream = Arc::new(context.create_stream().unwrap());
    let probed = stream.clone();
    let (trap, sprung) = Trap::new(move || capture_nothing(&probed));
    (stream, trap, sprung)
}

fn node_with(trap: Trap) -> NodeWork<'static> {
    NodeWork::host_func(move || _ = &trap)
}

#[test]
fn safety_40_a_graph_is_whole_after_the_drop_of_a_closure_of_it_unwinds() {
    let context = host();

    let (stream, trap, sprung) = trapped(&context);
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), node_with(trap)).unwrap();
    contained("remove_node", || graph.remove_node(node)).unwrap();
    assert_eq!(graph.remove_node(node).unwrap_err().status(), Status::INVALID_VALUE);
    assert_launches("remove_node", &mut graph, &stream, 0);
    contained("drop of a graph", || drop(graph));
    sprung.require("remove_node");

    let (stream, trap, sprung) = trapped(&context);
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), node_with(trap)).unwrap();
    contained("set_node", || graph.set_node(node, NodeWork::host_func(|| ()))).unwrap();
    assert_launches("set_node", &mut graph, &stream, 1);
    contained("drop of a graph", || drop(graph));
    sprung.require("set_node");

    let (stream, trap, sprung) = trapped(&context);
    let (mut graph, mut other) = (context.create_graph().unwrap(), context.create_graph().unwrap());
    let node = graph.add((), node_with(trap)).unwrap();
    other.add((), NodeWork::host_func(|| ())).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    contained("update", || executable.update(&other)).unwrap();
    contained("set_node", || executable.set_node(node, NodeWork::host_func(|| ()))).unwrap();
    executable.launch(&stream).unwrap();
    contained("drop", || drop((executable, graph)));
    sprung.require("drop of an executable graph in use");
    assert_works("drop of an executable graph in use", &stream);

    let (stream, trap, sprung) = trapped(&context);
    let mut graph = context.create_graph().unwrap();
    let error = contained("refused node", || {
        let foreign = host().create_graph().unwrap().add((), NodeWork::empty()).unwrap();
        graph.add(foreign, node_with(trap))
    });
    assert_eq!(error.unwrap_err().status(), Status::INVALID_VALUE);
    assert_launches("refused node", &mut graph, &stream, 0);
    drop(graph);
    sprung.require("refused node");
}

#[test]
fn safety_41_a_capture_is_over_after_the_drop_of_a_closure_in_it_unwinds() {
    let context = host();

    // One that fails because a member was not joined.
    let (other, trap, sprung) = trapped(&context);
    let origin = context.create_stream().unwrap();
    origin.begin_capture(CaptureMode::Relaxed).unwrap();
    other.wait_stream(&origin).unwrap();
    other.launch_repeatable_host_func(move || _ = &trap).unwrap();
    let error = contained("end_capture", || origin.end_capture()).unwrap_err();
    assert_eq!(error.status(), Status::STREAM_CAPTURE_UNJOINED);
    sprung.require("a capture that fails");
    for stream in [&origin, &*other] {
        assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);
        assert_works("a capture that fails", stream);
    }

    // One into a graph that exists, which is empty afterwards.
    let (other, trap, sprung) = trapped(&context);
    let mut graph = context.create_graph().unwrap();
    graph.add((), node_with(trap)).unwrap();
    let failed = contained("capture_into", || {
        origin.capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| scope.fork(&other))
    });
    assert!(failed.is_err() || graph.nodes().is_ok());
    drop(graph);
    sprung.require("a capture into a graph");
    assert_works("a capture into a graph", &origin);
    assert_works("a capture into a graph", &other);

    // One whose origin is dropped.
    let (other, trap, sprung) = trapped(&context);
    let dropped = context.create_stream().unwrap();
    dropped.begin_capture(CaptureMode::Relaxed).unwrap();
    other.wait_stream(&dropped).unwrap();
    other.launch_repeatable_host_func(move || _ = &trap).unwrap();
    contained("drop of the origin", || drop(dropped));
    sprung.require("drop of the origin");
    assert_works("drop of the origin", &other);

    // One whose closure unwinds.
    let (other, trap, sprung) = trapped(&context);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        origin.capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            other.launch_repeatable_host_func(move || _ = &trap)?;
            unwind();
            Ok(())
        })
    }));
    assert!(unwound.is_err());
    sprung.require("a capture whose closure unwinds");
    assert_works("a capture whose closure unwinds", &origin);
    assert_works("a capture whose closure unwinds", &other);
}

#[test]
fn safety_41_work_that_is_refused_is_dropped_with_no_lock_held() {
    let context = host();
    // The driver refuses it while the library submits it. Nobody ends a capture meanwhile.
    for what in ["a host function", "a callback"] {
        let stream = Arc::new(context.create_stream().unwrap());
        stream.begin_capture(CaptureMode::Relaxed).unwrap();
        let probed = stream.clone();
        let (trap, sprung) = Trap::new(move || {
            let ended = probed.end_capture().map_err(|error| error.status());
            assert!(matches!(ended, Ok(_) | Err(Status::STREAM_CAPTURE_INVALIDATED)), "{ended:?}");
        });
        let refused = contained(what, || match what {
            "a callback" => stream.add_callback(move |_, _| _ = &trap),
            _ => stream.launch_host_func(move || _ = &trap),
        });
        assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        sprung.require(what);
        assert_works(what, &stream);
    }
}

#[test]
fn safety_40_kernels_that_unwind_when_they_are_dropped_harm_nothing() {
    let context = host();
    let (stream, trap, sprung) = trapped(&context);
    let function = HostFunction::new("kernel", &[], move |_, _| _ = &trap);
    let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("kernel").unwrap();
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
    contained("drop of a kernel", || drop(kernel));
    // The trap captures in the stream when the kernel has run.
    sprung.require("drop of a kernel");
    stream.synchronize().unwrap();
    assert_works("drop of a kernel", &stream);
    context.synchronize().unwrap();
}

/// A waker that unwinds when it is dropped, and counts how often that was.
fn waker_that_unwinds(dropped: &Arc<AtomicUsize>) -> Waker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the data is a counter that was turned into a pointer by the function around, or here.
            unsafe { Arc::increment_strong_count(data.cast::<AtomicUsize>()) };
            RawWaker::new(data, &TABLE)
        },
        |_| unwind(),
        |_| unwind(),
        |data| {
            // SAFETY: as above; each waker gives up the reference that it was made with.
            let counter = unsafe { Arc::from_raw(data.cast::<AtomicUsize>()) };
            counter.fetch_add(1, Ordering::SeqCst);
            unwind();
        },
    );
    let data = Arc::into_raw(dropped.clone()).cast();
    // SAFETY: the table treats the data as what it is, a reference to a counter that may be used on any thread.
    unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
}

#[test]
fn safety_40_wakers_that_unwind_when_they_are_dropped_harm_nothing() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let memory = stream.upload(&[7u8; 4096]).unwrap();
    stream.synchronize().unwrap();
    let signal = hold(&context, &stream);
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut download = stream.download_async(&memory);
    let waker = std::mem::ManuallyDrop::new(waker_that_unwinds(&dropped));
    let mut task = std::task::Context::from_waker(&waker);
    assert!(Pin::new(&mut download).poll(&mut task).is_pending());
    // Another waker in its place, and then nobody.
    let poll = contained("a poll with another waker", || {
        Pin::new(&mut download).poll(&mut std::task::Context::from_waker(Waker::noop()))
    });
    assert!(poll.is_pending());
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let mut other = stream.download_async(&memory);
    assert!(Pin::new(&mut other).poll(&mut task).is_pending());
    contained("drop of a future", || drop((download, other)));
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    signal.set(1);
    stream.synchronize().unwrap();
    // The staging memory of both was given back behind the copies.
    flush_deferred_drops();
    assert!(context.idle_staging() >= 2 * 4096, "{}", context.idle_staging());
    assert_works("wakers", &stream);
}

#[test]
fn safety_40_the_hook_for_errors_of_drops_is_called_with_no_lock_held() {
    let context = host();
    let stream = Arc::new(context.create_stream().unwrap());
    let (tell, told) = channel();
    let (probed, tell) = (stream.clone(), Mutex::new(tell));
    set_drop_error_hook(move |error| {
        if !error.to_string().contains("on purpose") {
            return;
        }
        // On this thread, which therefore holds none of the stream's locks, and is not inside of a host function.
        let used = catch_unwind(AssertUnwindSafe(|| assert_works("the hook", &probed)));
        let _ = tell.lock().unwrap().send(used.is_ok());
        unwind();
    });
    for _ in 0..2 {
        let (_, trap, sprung) = trapped(&context);
        let mut graph = context.create_graph().unwrap();
        graph.add((), node_with(trap)).unwrap();
        contained("drop of a graph that was never launched", || drop(graph));
        sprung.require("drop of a graph that was never launched");
        assert!(told.recv_timeout(HANGS).expect("the hook is called"), "the hook can use the library");
    }
    reset_drop_error_hook();
    assert_works("the hook", &stream);
}
