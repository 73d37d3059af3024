//! What drivers do badly, and programs must not notice, on the host device below a layer. The numbers are those of
//! docs/safety.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, CaptureInfo, Driver, Forward, Layered, Live};
use anabranch::{
    Buffer, CaptureMode, CaptureScope, Context, DualModule, EdgeData, EdgeKind, Event, EventFlags, Graph, GraphEdge,
    HostFunction, Instance, InstantiateFlags, Kernel, LaunchConfig, NodeWork, Result, Stream, StreamHandle,
    flush_deferred_drops,
};
use common::{assert_ends, checked_host, hold, until};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A driver that crashes when it uploads a graph of which a node waits for the start of a kernel only.
struct CrashesAtUploads {
    inner: Arc<dyn Driver>,
    uploads: Arc<AtomicUsize>,
}

impl fmt::Debug for CrashesAtUploads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CrashesAtUploads")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for CrashesAtUploads {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        if method == "executable_upload" {
            self.uploads.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn graph_instantiate(
        &self,
        call: &Call<'_>,
        graph: Live<'_, hal::GraphHandle>,
        flags: hal::InstantiateFlags,
        upload: Option<Live<'_, StreamHandle>>,
    ) -> hal::Result<hal::ExecutableGraphHandle> {
        if flags.contains(hal::InstantiateFlags::UPLOAD) || upload.is_some() {
            self.uploads.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.graph_instantiate(call, graph, flags, upload)
    }
}

/// How many uploads of a graph the driver is asked for, of two.
fn uploads(make: impl FnOnce(&Context, &Stream) -> Graph) -> usize {
    let uploads = Arc::new(AtomicUsize::new(0));
    let of_layer = uploads.clone();
    let wrap = move |inner| {
        let uploads = of_layer.clone();
        Arc::new(Layered(CrashesAtUploads { inner, uploads })) as Arc<dyn Driver>
    };
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let graph = make(&context, &stream);
    let executable = graph.instantiate_and_upload(InstantiateFlags::empty(), &stream).unwrap();
    executable.upload(&stream).unwrap();
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    uploads.load(Ordering::SeqCst)
}

/// Of the start of all blocks of a kernel.
const START: EdgeData = EdgeData { from_port: 2, to_port: 0, kind: EdgeKind::FULL };

fn kernel(context: &Context) -> NodeWork<'static> {
    let module = DualModule::new().host_function(HostFunction::new("nothing", &[], |_, _| ())).load(context).unwrap();
    // SAFETY: the kernel has no parameters, and does nothing.
    unsafe { NodeWork::kernel(&module.kernel("nothing").unwrap(), &LaunchConfig::new(1, 1), ()) }.unwrap()
}

/// Captures a kernel, and a fill in another stream that waits for its start.
struct Early {
    kernel: Kernel,
    event: Event,
    other: Stream,
    memory: Buffer<u32>,
}

impl Early {
    fn new(context: &Context, stream: &Stream) -> Self {
        let module = DualModule::new().host_function(HostFunction::new("nothing", &[], |_, _| ()));
        Self {
            kernel: module.load(context).unwrap().kernel("nothing").unwrap(),
            event: context.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap(),
            other: context.create_stream().unwrap(),
            memory: stream.upload(&[1u32]).unwrap(),
        }
    }

    fn capture(&mut self, scope: &CaptureScope<'_>) -> Result<()> {
        let config = LaunchConfig::new(1, 1).launch_completion_event(&self.event);
        // SAFETY: the kernel has no parameters, and does nothing.
        unsafe { scope.launch(&self.kernel, &config, ()) }?;
        self.other.wait_event(&self.event)?;
        self.other.fill(&mut self.memory, 2u32)?;
        scope.join(&self.other)
    }
}

#[test]
fn safety_112_a_graph_of_which_a_node_waits_for_a_start_is_never_uploaded() {
    let by_hand = |context: &Context, data: EdgeData| {
        let mut graph = context.create_graph().unwrap();
        let first = graph.add((), kernel(context)).unwrap();
        graph.add(&[(first, data)][..], NodeWork::empty()).unwrap();
        graph
    };
    assert_eq!(uploads(|context, _| by_hand(context, EdgeData::default())), 2);
    assert_eq!(uploads(|context, _| by_hand(context, START)), 0);
    let by_edges = |context: &Context, _: &Stream| {
        let mut graph = context.create_graph().unwrap();
        let (from, to) = (graph.add((), kernel(context)).unwrap(), graph.add((), NodeWork::empty()).unwrap());
        graph.add_edges(&[GraphEdge { from, to, data: START }]).unwrap();
        graph
    };
    assert_eq!(uploads(by_edges), 0);
    let cloned = |context: &Context, _: &Stream| by_hand(context, START).try_clone().unwrap();
    assert_eq!(uploads(cloned), 0);
    let child = |context: &Context, _: &Stream| {
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::child(&by_hand(context, START))).unwrap();
        graph
    };
    assert_eq!(uploads(child), 0);
    let captured_child = |context: &Context, stream: &Stream| {
        let child = by_hand(context, START);
        stream.capture(CaptureMode::Relaxed, |scope| scope.capture_child(&child)).unwrap()
    };
    assert_eq!(uploads(captured_child), 0);
    let by_an_event = |context: &Context, stream: &Stream| {
        let mut early = Early::new(context, stream);
        stream.capture(CaptureMode::Relaxed, |scope| early.capture(scope)).unwrap()
    };
    assert_eq!(uploads(by_an_event), 0);
    let in_a_part = |context: &Context, stream: &Stream| {
        let (mut early, one) = (Early::new(context, stream), stream.upload(&[1u32]).unwrap());
        stream.capture(CaptureMode::Relaxed, |scope| scope.capture_if(&one, |part| early.capture(part))).unwrap()
    };
    assert_eq!(uploads(in_a_part), 0);
    let in_a_part_of_a_part = |context: &Context, stream: &Stream| {
        let (mut early, one) = (Early::new(context, stream), stream.upload(&[1u32]).unwrap());
        let part = |scope: &CaptureScope<'_>| scope.capture_if(&one, |part| early.capture(part));
        stream.capture(CaptureMode::Relaxed, |scope| scope.capture_if(&one, part)).unwrap()
    };
    assert_eq!(uploads(in_a_part_of_a_part), 0);
}

#[test]
fn safety_113_the_error_of_an_update_names_no_node_of_a_child() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut memory = stream.upload(&[1u32]).unwrap();
    let around = |work| {
        let (mut child, mut graph) = (context.create_graph().unwrap(), context.create_graph().unwrap());
        let inner = child.add((), work).unwrap();
        let outer = graph.add((), NodeWork::child(&child)).unwrap();
        (graph, outer, inner)
    };
    let (before, ..) = around(NodeWork::empty());
    let executable = before.instantiate().unwrap();
    let (mut after, outer, _) = around(NodeWork::fill(&mut memory, 2u32).unwrap());
    let refused = executable.update(&after).unwrap_err();
    // That of the child would be gone with the node around it.
    assert_eq!(refused.node().filter(|&node| node != outer), None);
    after.remove_node(outer).unwrap();
    let (other, ..) = around(NodeWork::empty());
    let mut two = context.create_graph().unwrap();
    two.add((), NodeWork::fill(&mut memory, 3u32).unwrap()).unwrap();
    let named = two.nodes().unwrap();
    assert_eq!(other.instantiate().unwrap().update(&two).unwrap_err().node(), Some(named[0]));
}

/// A driver whose list of what a stream captures is asked for, and read until `resume`.
struct Reads {
    inner: Arc<dyn Driver>,
    reading: Arc<Reading>,
}

#[derive(Default)]
struct Reading {
    /// Whether a thread reads a list, and whether another has captured or ended the capture meanwhile.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
    /// Only then.
    is_on: AtomicBool,
}

impl Reading {
    fn set(&self, change: impl FnOnce(&mut (bool, bool))) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits, but not for ever: what must not happen has not.
    fn wait(&self, until: impl Fn(&(bool, bool)) -> bool) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, Duration::from_millis(300), |state| !until(state));
        until(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reads")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Reads {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_capture_info(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        with_edge_data: bool,
    ) -> hal::Result<CaptureInfo> {
        let info = self.inner.stream_capture_info(call, stream, with_edge_data);
        if self.reading.is_on.load(Ordering::SeqCst) {
            self.reading.set(|state| state.0 = true);
            let is_changed = self.reading.wait(|state| state.1);
            assert!(!is_changed, "the list was changed while it was read");
        }
        info
    }
}

/// That nobody does something to the capture of a stream while it is asked what it captures.
fn is_excluded(what: &str, act: impl FnOnce(&Stream, &mut Buffer<u32>)) {
    let reading = Arc::new(Reading::default());
    let of_layer = reading.clone();
    let wrap = move |inner| Arc::new(Layered(Reads { inner, reading: of_layer.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let mut memory = stream.upload(&[1u32]).unwrap();
    stream.synchronize().unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    reading.is_on.store(true, Ordering::SeqCst);
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| stream.capture_info().map(drop));
        assert!(reading.wait(|state| state.0), "{what}: nobody reads");
        act(&stream, &mut memory);
        reading.set(|state| state.1 = true);
        reader.join().unwrap_or_else(|_| panic!("{what} happens meanwhile")).unwrap();
    });
    reading.is_on.store(false, Ordering::SeqCst);
    let _ = stream.end_capture();
}

#[test]
fn safety_114_nobody_captures_while_a_stream_is_asked_what_it_captures() {
    is_excluded("a fill", |stream, memory| stream.fill(memory, 2u32).unwrap());
    is_excluded("a host function", |stream, _| stream.launch_repeatable_host_func(|| ()).unwrap());
    is_excluded("an external wait", |stream, _| {
        let event = stream.context().create_event().unwrap();
        stream.wait_event_external(&event).unwrap();
    });
    is_excluded("the end", |stream, _| drop(stream.end_capture().unwrap()));
}

/// A driver that tells nothing of conditional nodes, as those of GPUs do.
struct TellsNothing(Arc<dyn Driver>);

impl fmt::Debug for TellsNothing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TellsNothing")
    }
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for TellsNothing {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn graph_node_parameters(
        &self,
        _: &Call<'_>,
        _: Live<'_, hal::GraphNodeHandle>,
    ) -> hal::Result<hal::NodeParameters> {
        Err(hal::Failure::new(hal::Status::NOT_SUPPORTED))
    }
}

#[test]
fn a_graph_knows_the_conditional_nodes_of_which_drivers_tell_nothing() {
    let wrap = |inner| Arc::new(Layered(TellsNothing(inner))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let node = graph.add_conditional((), value, hal::ConditionalKind::If, 2).unwrap();
    let hal::NodeParameters::Conditional(told) = graph.node_parameters(node).unwrap() else { panic!("another kind") };
    assert_eq!((told.kind, told.body_count, told.bodies.len()), (hal::ConditionalKind::If, 2, 2));
    let empty = graph.add((), NodeWork::empty()).unwrap();
    assert_eq!(graph.node_parameters(empty).unwrap_err().status(), hal::Status::NOT_SUPPORTED);
    graph.remove_node(node).unwrap();
    assert_eq!(graph.node_parameters(node).unwrap_err().status(), hal::Status::INVALID_VALUE);
}

/// A driver that refuses one call of a method, or all.
struct Refuses {
    inner: Arc<dyn Driver>,
    refusal: Arc<Refusal>,
}

#[derive(Default)]
struct Refusal {
    methods: Mutex<Vec<&'static str>>,
    /// How many calls are refused.
    left: AtomicUsize,
    /// With what, if not for want of memory.
    status: Mutex<Option<hal::Status>>,
}

impl Refusal {
    fn refuse(&self, method: &'static str, calls: usize) {
        *self.methods.lock().unwrap() = vec![method];
        self.left.store(calls, Ordering::SeqCst);
    }

    fn of(&self, method: &str) -> hal::Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        let is_refused = self.methods.lock().unwrap().contains(&method)
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        let status = self.status.lock().unwrap().unwrap_or(hal::Status::OUT_OF_MEMORY);
        if is_refused { Err(hal::Failure::new(status)) } else { Ok(()) }
    }
}

impl fmt::Debug for Refuses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Refuses")
    }
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Refuses {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_create(&self, call: &Call<'_>, flags: hal::StreamFlags, priority: i32) -> hal::Result<StreamHandle> {
        self.refusal.of("stream_create")?;
        self.inner.stream_create(call, flags, priority)
    }

    fn stream_capture_status(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<hal::CaptureStatus> {
        self.refusal.of("stream_capture_status")?;
        self.inner.stream_capture_status(call, stream)
    }

    fn event_create(&self, call: &Call<'_>, flags: hal::EventFlags) -> hal::Result<hal::EventHandle> {
        self.refusal.of("event_create")?;
        self.inner.event_create(call, flags)
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, hal::EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: hal::EventRecordFlags,
    ) -> hal::Result<()> {
        self.refusal.of("event_record")?;
        self.inner.event_record(call, event, stream, flags)
    }
}

/// A context with memory checks over such a driver.
fn refusing() -> (Context, Arc<Refusal>) {
    let refusal = Arc::<Refusal>::default();
    let of_layer = refusal.clone();
    let wrap = move |inner| Arc::new(Layered(Refuses { inner, refusal: of_layer.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    (instance.device("host").unwrap().context().unwrap(), refusal)
}

#[test]
fn safety_117_memory_that_is_freed_late_keeps_the_graph_from_being_launched() {
    let (context, refusal) = refusing();
    let [first, second, held] = [(); 3].map(|()| context.create_stream().unwrap());
    let mut memory = None;
    let graph = first.capture(CaptureMode::Relaxed, |scope| {
        let mut allocated = scope.allocate_zeroed::<u32>(40)?;
        scope.fill(&mut allocated, 7u32)?;
        memory = Some(allocated);
        Ok(())
    });
    let graph = graph.unwrap();
    let signal = hold(&context, &held);
    first.wait_stream(&held).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.launch(&first).unwrap();
    drop(first);
    refusal.refuse("stream_create", 1);
    drop(executable);
    let flags = InstantiateFlags::AUTO_FREE_ON_LAUNCH;
    let executable = graph.instantiate_with_flags(flags).unwrap();
    assert_eq!(executable.launch(&second).unwrap_err().status(), hal::Status::INVALID_VALUE);
    signal.set(1);
    held.synchronize().unwrap();
    until("the free", || {
        flush_deferred_drops();
        executable.launch(&second).is_ok()
    });
    second.synchronize().unwrap();
    drop((executable, graph, memory));
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn safety_118_a_capture_that_has_ended_is_not_taken_to_go_on() {
    let (context, refusal) = refusing();
    let [stream, other, third] = [(); 3].map(|()| context.create_stream().unwrap());
    let mut buffer = other.upload(&[1u32; 16]).unwrap();
    let captured = stream.capture(CaptureMode::Relaxed, |scope| {
        // It is never joined.
        scope.fork(&other)?;
        other.fill(&mut buffer, 2u32)?;
        refusal.refuse("stream_capture_status", 1);
        Ok(())
    });
    assert_eq!(captured.unwrap_err().status(), hal::Status::STREAM_CAPTURE_UNJOINED);
    let signal = hold(&context, &third);
    let mut fresh = third.allocate_zeroed::<u32>(16).unwrap();
    stream.fill(&mut fresh, 5u32).unwrap();
    // Behind the allocation.
    assert!(!stream.query().unwrap());
    signal.set(1);
    assert_eq!(third.download(&fresh).unwrap(), [5; 16]);
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn safety_121_a_scope_that_registers_memory_ends_where_no_event_is_to_be_had() {
    let (context, refusal) = refusing();
    let [stream, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let buffer = other.upload(&[3u32; 16]).unwrap();
    other.synchronize().unwrap();
    assert_ends(move || {
        let mut words = vec![0u32; 16];
        let given = context.register_scope(&mut words, |registered| {
            refusal.refuse("event_create", usize::MAX);
            stream.copy(registered, &buffer)
        });
        let _ = (given, stream);
        refusal.refuse("", 0);
        assert_eq!(words, [3; 16]);
    });
}

#[test]
fn safety_202_a_context_in_which_no_event_is_to_be_had_is_not_lost() {
    for status in [hal::Status::OPERATING_SYSTEM, hal::Status::UNKNOWN] {
        let (context, refusal) = refusing();
        let stream = context.create_stream().unwrap();
        let mut buffer = stream.allocate_zeroed::<u8>(1 << 16).unwrap();
        // Copies between plain memory and a buffer that a graph retains go through memory of the library.
        let graph = stream.capture(CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 1u8)).unwrap();
        let signal = hold(&context, &stream);
        *refusal.status.lock().unwrap() = Some(status);
        *refusal.methods.lock().unwrap() = vec!["event_create", "event_record"];
        refusal.left.store(usize::MAX, Ordering::SeqCst);
        let end = thread::spawn({
            let refusal = refusal.clone();
            move || {
                thread::sleep(Duration::from_millis(100));
                signal.set(1);
                // Some calls of the library ask again and again.
                thread::sleep(Duration::from_millis(100));
                refusal.refuse("", 0);
            }
        });
        let source = vec![7u8; 1 << 16];
        let copied = stream.sync_scope(|scope| scope.copy_from_host(&mut buffer, &source));
        end.join().unwrap();
        flush_deferred_drops();
        drop(graph);
        if copied.is_ok() {
            assert_eq!(stream.download(&buffer).unwrap(), source);
        }
        stream.synchronize().unwrap();
        assert_eq!(context.device().memory_report().unwrap().findings, []);
    }
}
