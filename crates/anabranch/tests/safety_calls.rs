//! What calls do with the code of the program that they run, with guards in another order, and with objects that they cannot
//! use. `docs/safety.md` lists the classes by the numbers in the tests' names, `docs/misuse.md` the calls.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{CompileOutput, CompileRequest, Compiler as CompilerDriver, Driver, Failure};
use anabranch::{
    Buffer, BufferSlice, BufferSliceMut, CaptureMode, CompileOptions, Compiler, ConditionalKind, Context,
    DependencyUpdate, DualModule, Event, Graph, GraphEdge, HostFunction, Instance, Kernel, LaunchConfig, ManagedBuffer,
    Node, NodeWork, PinnedBuffer, Region, Result, Signal, Status, Stream, Volume, VolumeMut, WaitCondition,
};
use common::{assert_ends, host};
use futures::executor::block_on;
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Unwinds without a message on standard error.
fn unwind() -> ! {
    resume_unwind(Box::new("on purpose"))
}

#[track_caller]
fn unwinds<R>(what: &str, call: impl FnOnce() -> R) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(call)) else { panic!("{what}: it does not unwind") };
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"), "{what}: another panic");
}

/// Where the program's own code is called in the middle of a call of the library.
struct Unwinds;

impl From<Unwinds> for BufferSlice<'_, u32> {
    fn from(_: Unwinds) -> Self {
        unwind()
    }
}

impl From<Unwinds> for BufferSliceMut<'_, u32> {
    fn from(_: Unwinds) -> Self {
        unwind()
    }
}

impl RangeBounds<usize> for Unwinds {
    fn start_bound(&self) -> Bound<&usize> {
        unwind()
    }

    fn end_bound(&self) -> Bound<&usize> {
        unwind()
    }
}

impl AsRef<[u32]> for Unwinds {
    fn as_ref(&self) -> &[u32] {
        unwind()
    }
}

impl From<Unwinds> for anabranch::Dimensions {
    fn from(_: Unwinds) -> Self {
        unwind()
    }
}

impl Iterator for Unwinds {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        unwind()
    }
}

/// The stream can be used on another thread, which a lock that is held would keep from it, and captures nothing.
#[track_caller]
fn assert_works(what: &str, stream: &Stream) {
    std::thread::scope(|scope| {
        let used = scope.spawn(|| stream.download(&stream.upload(&[1u32, 2])?)).join().unwrap();
        assert_eq!(used.unwrap_or_else(|error| panic!("{what}: {error}")), [1, 2]);
    });
}

#[test]
fn safety_40_conversions_that_unwind_come_before_anything_else() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut buffer = stream.upload(&[7u32; 4]).unwrap();
        unwinds("fill", || stream.fill(Unwinds, 1u32));
        unwinds("copy to", || stream.copy(Unwinds, &buffer));
        unwinds("copy from", || stream.copy(&mut buffer, Unwinds));
        unwinds("copy between contexts", || stream.copy_peer(&mut buffer, Unwinds));
        unwinds("download", || stream.download::<u32>(Unwinds));
        unwinds("awaited download", || stream.download_async::<u32>(Unwinds));
        unwinds("awaited upload", || stream.upload_async::<u32>(Unwinds));
        unwinds("copy from plain memory", || stream.copy_from_host(Unwinds, &[1u32]));
        unwinds("copy to plain memory", || stream.copy_to_host(&mut [1u32], Unwinds));
        unwinds("scope", || stream.sync_scope(|scope| scope.copy_from_host(Unwinds, &[1u32])));
        unwinds("slice", || buffer.slice(Unwinds).map(|slice| slice.len()));
        unwinds("mutable slice", || buffer.slice_mut(Unwinds).map(|slice| slice.len()));
        unwinds("volume", || Volume::<u32>::new(Unwinds, 1, 1));
        unwinds("mutable volume", || VolumeMut::<u32>::new(Unwinds, 1, 1));
        unwinds("node that fills", || NodeWork::fill(Unwinds, 1u32));
        unwinds("node that copies", || NodeWork::copy(&mut buffer, Unwinds));
        unwinds("configuration", || LaunchConfig::new(Unwinds, 1));
        unwinds("cluster", || LaunchConfig::new(1, 1).cluster(Unwinds));
        unwinds("pipeline", || {
            use futures::StreamExt;
            let mut chunks = stream.pipeline(1, Unwinds, |stream, _| stream.record_event());
            block_on(chunks.next()).map(drop)
        });
        let captured = catch_unwind(AssertUnwindSafe(|| {
            stream.capture(CaptureMode::Relaxed, |scope| scope.capture_if(Unwinds, |_| Ok(())))
        }));
        assert!(captured.is_err());
        assert_works("conversions", &stream);
        assert_eq!(stream.download(&buffer).unwrap(), [7; 4]);
    });
}

#[test]
fn safety_40_a_closure_that_reads_or_writes_memory_and_unwinds_lets_launches_go_on() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let (mut pinned, mut managed) =
            (context.allocate_pinned::<u32>(4).unwrap(), context.allocate_managed::<u32>(4).unwrap());
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::fill(&mut pinned, 3u32).unwrap()).unwrap();
        graph.add((), NodeWork::fill(&mut managed, 3u32).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        let is_refused = || executable.launch(&stream).is_err_and(|error| error.status() == Status::ILLEGAL_STATE);
        unwinds("reading pinned memory", || {
            pinned.read(|_| {
                assert!(is_refused());
                unwind()
            })
        });
        unwinds("writing pinned memory", || {
            pinned.write(|_| {
                assert!(is_refused());
                unwind()
            })
        });
        unwinds("reading managed memory", || managed.read(|_| unwind()));
        unwinds("writing managed memory", || managed.write(|_| unwind()));
        executable.launch(&stream).unwrap();
        assert_eq!(pinned.read(|elements| elements.to_vec()).unwrap(), [3; 4]);
        managed.write(|elements| elements[0] = 4).unwrap();
    });
}

#[test]
fn safety_40_closures_that_run_in_a_call_unwind_to_its_caller() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        unwinds("enqueue_async", || {
            stream.enqueue_async(|stream| -> Result<()> {
                stream.launch_host_func(|| {})?;
                unwind()
            })
        });
        let _guard = stream.enter();
        unwinds("with_current", || Stream::with_current(|_| unwind()));
        assert_eq!(Stream::with_current(|current| current.map(Stream::id)), Some(stream.id()));
        assert_works("closures", &stream);
    });
}

/// A compiler that unwinds unless it must not.
#[derive(Debug)]
struct Unwinding(AtomicBool);

// SAFETY: nobody loads what it returns.
unsafe impl CompilerDriver for Unwinding {
    fn identity(&self) -> String {
        "unwinding".to_owned()
    }

    fn version(&self) -> (u32, u32) {
        (1, 0)
    }

    fn architectures(&self) -> Result<Vec<u32>, Failure> {
        Ok(Vec::new())
    }

    fn compile(&self, request: &CompileRequest<'_>) -> Result<CompileOutput, Failure> {
        if self.0.load(Ordering::SeqCst) {
            unwind();
        }
        Ok(CompileOutput { image: request.source.into(), log: String::new(), lowered_names: Vec::new() })
    }
}

#[test]
fn safety_40_a_layer_or_a_compiler_that_unwinds_leaves_nothing_half_made() {
    assert_ends(|| {
        let unwinds_now = Arc::new(AtomicBool::new(true));
        let asked = unwinds_now.clone();
        let wrap = move |inner: Arc<dyn Driver>| if asked.load(Ordering::SeqCst) { unwind() } else { inner };
        let builder = Instance::builder().cuda(false).wrap(wrap);
        unwinds("a layer", || builder.clone().build());
        unwinds_now.store(false, Ordering::SeqCst);
        let context = builder.build().unwrap().device("host").unwrap().context().unwrap();
        assert_works("a layer", &context.create_stream().unwrap());

        let directory = tempfile::tempdir().unwrap();
        let options = CompileOptions::new().cache_directory(directory.path().join("cache"));
        let driver = Arc::new(Unwinding(AtomicBool::new(true)));
        let compiler = Compiler::from_driver(driver.clone());
        unwinds("a compiler", || compiler.compile("source", &options));
        driver.0.store(false, Ordering::SeqCst);
        for is_cached in [false, true] {
            let compiled = compiler.compile("source", &options).unwrap();
            assert_eq!((compiled.ptx(), compiled.from_cache()), (Some("source"), is_cached));
        }
    });
}

#[test]
fn safety_20_bodies_of_captures_that_unwind_end_them() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut condition = stream.upload(&[1u32]).unwrap();
        let mode = CaptureMode::Relaxed;
        let mut graph = context.create_graph().unwrap();
        unwinds("capture_executable", || stream.capture_executable(mode, |_| unwind()));
        assert_works("capture_executable", &stream);
        unwinds("capture_into", || stream.capture_into(&mut graph, (), mode, |_| unwind()));
        assert_works("capture_into", &stream);
        unwinds("capture_into a body", || {
            let mut around = context.create_graph()?;
            let value = around.create_conditional(Some(1))?;
            let node = around.add_conditional((), value, ConditionalKind::If, 1)?;
            stream.capture_into(&mut around.body(node, 0)?, (), mode, |_| unwind())
        });
        assert_works("capture_into a body", &stream);
        unwinds("capture_if", || stream.capture(mode, |scope| scope.capture_if(&condition, |_| unwind())));
        assert_works("capture_if", &stream);
        unwinds("capture_if_else", || {
            stream.capture(mode, |scope| scope.capture_if_else(&condition, |_| Ok(()), |_| unwind()))
        });
        assert_works("capture_if_else", &stream);
        unwinds("capture_switch", || {
            stream.capture(mode, |scope| scope.capture_switch(&condition, &mut [&mut |_| Ok(()), &mut |_| unwind()]))
        });
        assert_works("capture_switch", &stream);
        unwinds("capture_while", || stream.capture(mode, |scope| scope.capture_while(&mut condition, |_, _| unwind())));
        assert_works("capture_while", &stream);
        // The graph is empty, or what it was.
        graph.add((), NodeWork::empty()).unwrap();
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(stream.download(&condition).unwrap(), [1]);
    });
}

#[test]
fn safety_38_guards_that_are_swapped_or_dropped_in_another_order_end_as_guards() {
    let context = host();
    let (one, two) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let current = || Stream::with_current(|current| current.map(Stream::id));
    let (mut first, mut second) = (one.enter(), two.enter());
    std::mem::swap(&mut first, &mut second);
    drop(first);
    assert_eq!(current(), Some(one.id()));
    drop(second);
    assert_eq!(current(), None);

    let mode = || context.exchange_capture_mode(CaptureMode::Global).unwrap().before();
    let before = mode();
    let mut outer = context.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
    let mut inner = context.exchange_capture_mode(CaptureMode::ThreadLocal).unwrap();
    std::mem::swap(&mut outer, &mut inner);
    drop(inner);
    // Each guard ends its own mode, and no other thread is concerned.
    assert_eq!(mode(), CaptureMode::ThreadLocal);
    std::thread::scope(|scope| assert_eq!(scope.spawn(mode).join().unwrap(), CaptureMode::Global));
    drop(outer);
    assert_eq!(mode(), before);
}

#[test]
fn safety_31_bodies_that_are_swapped_stay_those_of_their_graphs() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut target = [stream.upload(&[0u32]).unwrap(), stream.upload(&[0u32]).unwrap()];
    let conditional = || {
        let mut graph = context.create_graph().unwrap();
        let value = graph.create_conditional(Some(1)).unwrap();
        let node = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
        (graph, node)
    };
    let ((mut one, in_one), (mut two, in_two)) = (conditional(), conditional());
    let (mut body_of_one, mut body_of_two) = (one.body(in_one, 0).unwrap(), two.body(in_two, 0).unwrap());
    std::mem::swap(&mut body_of_one, &mut body_of_two);
    body_of_two.add((), NodeWork::fill(&mut target[0], 1u32).unwrap()).unwrap();
    body_of_one.add((), NodeWork::fill(&mut target[1], 2u32).unwrap()).unwrap();
    drop(two);
    one.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&target[0]).unwrap(), [1]);
    assert_eq!(stream.download(&target[1]).unwrap(), [0], "its graph is gone");
}

/// One object of each kind that the calls below take.
struct Objects {
    context: Context,
    stream: Stream,
    buffer: Buffer<u32>,
    pinned: PinnedBuffer<u32>,
    managed: ManagedBuffer<u32>,
    event: Event,
    signal: Signal,
    graph: Graph,
    node: Node,
    kernel: Kernel,
}

impl Objects {
    fn new() -> Self {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut graph = context.create_graph().unwrap();
        let function = HostFunction::new("kernel", &[8], |_, _| ());
        let module = DualModule::new().host_function(function).load(&context).unwrap();
        Self {
            buffer: stream.upload(&[1u32; 4]).unwrap(),
            pinned: context.allocate_pinned(4).unwrap(),
            managed: context.allocate_managed(4).unwrap(),
            event: context.create_event().unwrap(),
            signal: context.create_signal().unwrap(),
            node: graph.add((), NodeWork::empty()).unwrap(),
            kernel: module.kernel("kernel").unwrap(),
            graph,
            stream,
            context,
        }
    }
}

#[track_caller]
fn refused<T>(what: &str, result: Result<T>) {
    let Err(error) = result else { panic!("{what} is accepted") };
    let wanted = [Status::INVALID_DEVICE, Status::INVALID_HANDLE, Status::INVALID_VALUE, Status::NOT_FOUND];
    assert!(wanted.contains(&error.status()), "{what}: {error}");
}

#[test]
fn safety_45_calls_refuse_nodes_streams_and_kernels_of_others() {
    let (mut here, mut there) = (Objects::new(), Objects::new());
    let (one, mode) = (LaunchConfig::new(1, 1), CaptureMode::Relaxed);
    let region = Region { extent: [2, 1, 1], ..Region::default() };
    refused("plain memory", here.context.allocate_zeroed::<u32>(&there.stream, 4));
    refused("a kernel", here.stream.launch_checked(&there.kernel, &one, (&mut here.buffer,)));
    refused("a kernel's memory", here.stream.launch_checked(&here.kernel, &one, (&mut there.buffer,)));
    let table = DualModule::new().host_function(HostFunction::new("f", &[], |_, _| ())).host_global("table", 16);
    let table = table.load(&here.context).unwrap();
    refused("a global variable", table.set_global(&there.stream, "table", &[1u32; 4]));
    refused("prefetching", here.stream.prefetch(&there.managed, true));
    refused("filling zeros", here.stream.fill_zero(&mut there.buffer));
    refused("filling managed memory", here.stream.fill(&mut there.managed, 1u32));
    refused("a borrowed stream", here.stream.wait(&there.stream.to_borrowed()));
    refused("an event", there.event.record(&here.stream));
    refused("a region to plain memory", {
        let from = Volume::new(&there.buffer, 2, 2);
        here.stream.copy_region_to_host(&mut [0; 4], 2, 2, from, &region)
    });
    refused("a region from plain memory", {
        let to = VolumeMut::new(&mut there.buffer, 2, 2);
        here.stream.copy_region_from_host(to, &[0; 4], 2, 2, &region)
    });
    let mut plain = [0u32; 4];
    refused("a scope's copy", here.stream.sync_scope(|scope| scope.copy_to_host(&mut plain, &there.buffer)));
    refused(
        "another stream of a scope",
        here.stream.sync_scope(|scope| scope.on(&here.stream)?.copy_from_host(&mut there.pinned, &[1; 4])),
    );
    let theirs = there.stream.upload(&[1u32; 4]).unwrap();
    let own = here.stream.upload(&[1u32; 4]).unwrap();
    refused("an awaited copy", block_on(here.stream.copy_async(own, theirs)));
    let theirs = there.stream.upload(&[1u32; 4]).unwrap();
    refused("an awaited fill", block_on(here.stream.fill_async(theirs, 1)));
    refused("a node that waits for a signal", {
        here.graph.add((), NodeWork::wait_signal(&there.signal, WaitCondition::Equal, 0))
    });
    refused("edges", here.graph.add_edges(&[GraphEdge { from: here.node, to: there.node, data: Default::default() }]));
    refused("removing edges", {
        here.graph.remove_edges(&[GraphEdge { from: there.node, to: here.node, data: Default::default() }])
    });
    refused("removing a node", here.graph.remove_node(there.node));
    refused("a body", here.graph.body(there.node, 0));
    refused("dependencies", here.graph.dependencies_of(there.node));
    refused("dependents", here.graph.dependents_of(there.node));
    refused("a kind", here.graph.node_kind(there.node));
    refused("parameters", here.graph.node_parameters(there.node));
    let executable = here.graph.instantiate().unwrap();
    refused("enabling a node", executable.set_node_enabled(there.node, true));
    refused("whether a node is enabled", executable.is_node_enabled(there.node));
    refused("an awaited launch", block_on(executable.launch_async(&there.stream)));
    let value = there.graph.create_conditional(Some(1)).unwrap();
    refused("setting a value", {
        NodeWork::set_conditional(value, &here.buffer).and_then(|work| here.graph.add((), work))
    });
    refused("a capture behind nodes", here.stream.capture_into(&mut here.graph, there.node, mode, |_| Ok(())));
    let begun = here.stream.begin_capture_to_graph(here.context.create_graph().unwrap(), there.node, mode);
    refused("beginning a capture behind nodes", begun.map_err(|(error, _)| error));
    let captured = |body: &mut dyn FnMut(&anabranch::CaptureScope<'_>) -> Result<()>| {
        here.stream.capture(mode, |scope| body(scope)).map(drop)
    };
    refused("a fork", captured(&mut |scope| scope.fork(&there.stream)));
    refused("a join", captured(&mut |scope| scope.join(&there.stream)));
    refused(
        "dependencies of a capture",
        captured(&mut |scope| scope.update_capture_dependencies_with_mode(there.node, DependencyUpdate::Add)),
    );
    refused("one of two", captured(&mut |scope| scope.capture_if_else(&there.buffer, |_| Ok(()), |_| Ok(()))));
    refused("one of several", captured(&mut |scope| scope.capture_switch(&there.buffer, &mut [&mut |_| Ok(())])));
    refused("repeating", captured(&mut |scope| scope.capture_while(&mut there.buffer, |_, _| Ok(()))));
    // A question has an answer.
    assert!(!here.context.device().can_access_peer(there.context.device()).unwrap_or(false));
    for objects in [&mut here, &mut there] {
        objects.stream.fill(&mut objects.buffer, 5u32).unwrap();
        assert_eq!(objects.stream.download(&objects.buffer).unwrap(), [5; 4]);
        objects.stream.copy(&mut objects.pinned, &objects.buffer).unwrap();
        assert_eq!(objects.pinned.as_slice().unwrap(), [5; 4]);
    }
}
