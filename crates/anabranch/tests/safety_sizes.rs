//! Structures as deep, and sizes as large, as safe code asks for: they are refused, and end neither the stack nor the
//! process. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    BatchCopy, BatchRegion, BodyGraph, CaptureMode, CaptureScope, ConditionalKind, Context, Discard, DualModule, Error,
    ExecutableGraph, Graph, HostFunction, HostModule, Instance, Kernel, LaunchConfig, MemoryLocation, NodeWork,
    Operation, Prefetch, Region, Status, Stream, StreamPolicy, StreamPool, Volume, WaitCondition, flush_deferred_drops,
};
use common::{assert_ends, host};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// More levels than the stack of a thread has room for.
const TOO_DEEP: usize = 20_000;

/// How many levels the documentation allows.
const MOST_LEVELS: usize = 64;

/// A kernel that counts its runs.
fn counting(context: &Context) -> (Kernel, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let inside = count.clone();
    let function = HostFunction::new("count", &[], move |_, _| _ = inside.fetch_add(1, Ordering::SeqCst));
    (DualModule::new().host_function(function).load(context).unwrap().kernel("count").unwrap(), count)
}

/// Runs it on a stack that has room for the calls of the test itself, however deep they are.
fn on_a_large_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let large = std::thread::Builder::new().stack_size(1 << 30);
        large.spawn_scoped(scope, run).unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[track_caller]
fn assert_too_deep(error: &Error) {
    assert_eq!(error.status(), Status::NOT_SUPPORTED, "{error}");
    assert!(error.to_string().contains("64 levels"), "{error}");
}

/// Does with a graph whatever goes through its levels, on the usual stack.
fn use_graph(graph: &Graph, executable: &ExecutableGraph, stream: &Stream) {
    executable.update(graph).unwrap();
    executable.launch(stream).unwrap();
    stream.synchronize().unwrap();
    assert!(graph.to_mermaid().unwrap().len() > MOST_LEVELS);
    assert!(graph.to_json().unwrap().len() > MOST_LEVELS);
}

/// Adds a conditional node to a graph or to a body, and opens its body.
macro_rules! add_body {
    ($graph:expr) => {{
        let conditional = $graph.create_conditional(Some(1)).unwrap();
        let node = $graph.add_conditional((), conditional, ConditionalKind::If, 1);
        node.map(|node| $graph.body(node, 0).unwrap())
    }};
}

/// Puts conditional nodes into each other. Returns the first error, and how many there are by then.
fn nest(mut body: BodyGraph<'_>, levels: usize) -> (usize, Option<Error>) {
    if levels == TOO_DEEP {
        return (levels, None);
    }
    match add_body!(body) {
        Ok(inside) => nest(inside, levels + 1),
        Err(error) => (levels, Some(error)),
    }
}

#[test]
fn safety_52_bodies_inside_of_bodies_end_with_an_error() {
    let context = host();
    let mut graph = context.create_graph().unwrap();
    let mut found = (0, None);
    on_a_large_stack(|| found = nest(add_body!(graph).unwrap(), 1));
    let (levels, error) = found;
    assert_too_deep(&error.expect("it is refused"));
    assert_eq!(levels, MOST_LEVELS);
    drop(graph);
}

/// Puts so many conditional nodes into each other, and a kernel into the innermost.
fn fill(mut body: BodyGraph<'_>, kernel: &Kernel, levels: usize) {
    if levels == 1 {
        // SAFETY: the kernel uses no memory.
        unsafe { body.add_kernel((), kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
        return;
    }
    fill(add_body!(body).unwrap(), kernel, levels - 1);
}

#[test]
fn safety_52_as_many_bodies_as_are_allowed_can_be_used() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (kernel, count) = counting(&context);
    let mut graph = context.create_graph().unwrap();
    fill(add_body!(graph).unwrap(), &kernel, MOST_LEVELS);
    let executable = graph.instantiate().unwrap();
    use_graph(&graph, &executable, &stream);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    drop((executable, graph));
}

/// Captures conditions inside of each other, and a kernel in the innermost. Returns how many are captured, and the error of
/// the one that is not.
fn capture(
    scope: &CaptureScope<'_>,
    stream: &Stream,
    kernel: &Kernel,
    levels: usize,
    most: usize,
) -> (usize, Result<(), Error>) {
    if levels == most {
        // SAFETY: the kernel uses no memory.
        return (levels, unsafe { scope.launch(kernel, &LaunchConfig::new(1, 1), ()) });
    }
    let condition = stream.context().allocate_pinned::<u32>(1).unwrap();
    let mut deepest = levels;
    let captured = scope.capture_if(&condition, |part| {
        let (inside, result) = capture(part, stream, kernel, levels + 1, most);
        deepest = inside;
        result
    });
    (deepest, captured)
}

#[test]
fn safety_52_conditions_captured_inside_of_conditions_end_with_an_error() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (kernel, _) = counting(&context);
    let mut deepest = 0;
    on_a_large_stack(|| {
        let captured = stream.capture(CaptureMode::Relaxed, |scope| {
            let (levels, result) = capture(scope, &other, &kernel, 0, TOO_DEEP);
            deepest = levels;
            result
        });
        assert_too_deep(&captured.expect_err("it is refused"));
    });
    assert_eq!(deepest, MOST_LEVELS);
    assert!(!stream.is_capturing().unwrap());
    let captured = stream.capture(CaptureMode::Relaxed, |scope| capture(scope, &other, &kernel, 0, MOST_LEVELS).1);
    let graph = captured.unwrap();
    let executable = graph.instantiate().unwrap();
    use_graph(&graph, &executable, &stream);
    // Into a body, which is on a level itself.
    let mut graph = context.create_graph().unwrap();
    let conditional = graph.create_conditional(Some(1)).unwrap();
    let node = graph.add_conditional((), conditional, ConditionalKind::If, 1).unwrap();
    let mut body = graph.body(node, 0).unwrap();
    let mut into = |most| {
        stream.capture_into(&mut body, (), CaptureMode::Relaxed, |scope| capture(scope, &other, &kernel, 0, most).1)
    };
    assert_too_deep(&into(MOST_LEVELS).expect_err("it is refused"));
    into(MOST_LEVELS - 1).unwrap();
}

#[test]
fn safety_52_very_many_bodies_are_refused() {
    let context = host();
    let mut graph = context.create_graph().unwrap();
    let conditional = graph.create_conditional(None).unwrap();
    let error = graph.add_conditional((), conditional, ConditionalKind::Switch, u32::MAX).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_VALUE, "{error}");
    assert!(error.to_string().contains("4096 bodies"), "{error}");
    graph.add_conditional((), conditional, ConditionalKind::Switch, 4096).unwrap();
}

#[test]
fn safety_53_children_inside_of_children_end_with_an_error() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (kernel, count) = counting(&context);
    let mut graph = context.create_graph().unwrap();
    // SAFETY: the kernel uses no memory.
    unsafe { graph.add_kernel((), &kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
    let mut levels = 0;
    let error = loop {
        let mut around = context.create_graph().unwrap();
        match around.add((), NodeWork::child(&graph)) {
            Ok(_) if levels == 4000 => panic!("it is not refused"),
            Ok(_) => graph = around,
            Err(error) => break error,
        }
        levels += 1;
    };
    assert_too_deep(&error);
    assert_eq!(levels, MOST_LEVELS);
    // A clone is as deep, and a child is as deep where it replaces another.
    let mut around = context.create_graph().unwrap();
    let node = around.add((), NodeWork::child(&context.create_graph().unwrap())).unwrap();
    assert_too_deep(&around.set_node(node, NodeWork::child(&graph.try_clone().unwrap())).unwrap_err());
    let executable = graph.instantiate().unwrap();
    use_graph(&graph, &executable, &stream);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn safety_53_kernels_larger_than_any_device_are_refused() {
    let context = host();
    let load = |function| DualModule::new().host_function(function).load(&context);
    for function in [
        HostFunction::new("shared", &[], |_, _| ()).with_static_shared_bytes(u32::MAX),
        HostFunction::new("shared", &[], |_, _| ()).with_static_shared_bytes((48 << 10) + 1),
        HostFunction::new("parameters", &[usize::MAX, usize::MAX], |_, _| ()),
        HostFunction::new("parameters", &[1 << 20], |_, _| ()),
    ] {
        let name = function.name().to_owned();
        let error = load(function).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_IMAGE, "{error}");
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
    let module = HostModule::new().with_global("large", usize::MAX);
    assert!(anabranch::Module::load_host(&context, &module).is_err());
    let largest = HostFunction::new("shared", &[], |block, _| assert_eq!(block.shared().len(), 48 << 10));
    let kernel = load(largest.with_static_shared_bytes(48 << 10)).unwrap().kernel("shared").unwrap();
    let stream = context.create_stream().unwrap();
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn safety_53_settings_of_any_size_are_refused_or_work() {
    let instance = || Instance::builder().cuda(false);
    for refused in [instance().host_devices(u32::MAX), instance().host_workers(usize::MAX)] {
        assert_eq!(refused.build().unwrap_err().status(), Status::INVALID_VALUE);
    }
    for accepted in [instance().host_queue_limit(usize::MAX), instance().host_worker_spin(Duration::MAX)] {
        assert_ends(move || {
            let context = accepted.build().unwrap().device("host").unwrap().context().unwrap();
            let stream = context.create_stream().unwrap();
            let memory = stream.upload(&[7u8; 3]).unwrap();
            assert_eq!(stream.download(&memory).unwrap(), [7; 3]);
            drop((memory, stream, context));
            flush_deferred_drops();
        });
    }
}

/// Nodes in a row, streams behind each other, and events.
#[test]
fn safety_53_long_rows_are_no_deep_structures() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (kernel, count) = counting(&context);
    let mut graph = context.create_graph().unwrap();
    let mut last = graph.add((), NodeWork::empty()).unwrap();
    for _ in 0..20_000 {
        // SAFETY: the kernel uses no memory.
        last = unsafe { graph.add_kernel(last, &kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
    }
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 20_000);
    drop((executable, graph));
    // Each stream waits for the one before, and all of them are dropped while they wait.
    let signal = context.create_signal().unwrap();
    let first = context.create_stream().unwrap();
    first.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
    let mut streams = vec![first];
    for _ in 0..10_000 {
        let next = context.create_stream().unwrap();
        next.wait_stream(streams.last().unwrap()).unwrap();
        streams.push(next);
    }
    let end = streams.last().unwrap().record_event().unwrap();
    drop(streams);
    signal.set(1);
    end.synchronize().unwrap();
}

#[test]
fn safety_53_a_pool_of_more_streams_than_memory_holds_is_refused() {
    let context = host();
    for count in [usize::MAX, usize::MAX / 2, (1 << 16) + 1] {
        let error = StreamPool::new(&context, count, StreamPolicy::RoundRobin).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_VALUE, "{count}");
    }
}

#[test]
fn safety_101_iterators_that_say_a_wrong_length_are_taken_as_they_are() {
    /// What another iterator returns, but not as many as it says.
    struct Says<I>(I, usize);
    impl<I: Iterator> Iterator for Says<I> {
        type Item = I::Item;

        fn next(&mut self) -> Option<I::Item> {
            self.0.next()
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.1, Some(self.1))
        }
    }
    // More than any vector has room for, more than there is memory for, and fewer than there are.
    for length in [usize::MAX, isize::MAX as usize / 1024, 0] {
        let context = host();
        let stream = context.create_stream().unwrap();
        let ones = stream.upload(&[1u32; 4]).unwrap();
        let mut copies = [(); 2].map(|()| stream.allocate_zeroed::<u32>(4).unwrap());
        let batch = copies.iter_mut().map(|copy| BatchCopy::new(copy, &ones).unwrap());
        stream.copy_batch(Says(batch, length)).unwrap();
        assert!(copies.iter().all(|copy| stream.download(copy).unwrap() == [1; 4]));
        let mut rows = [[0; 2]; 2];
        let region = Region { extent: [2, 1, 1], ..Region::default() };
        let batch = rows.iter_mut();
        let batch = batch.map(|row| BatchRegion::to_host(row, 2, 1, Volume::new(&ones, 4, 1), &region).unwrap());
        stream.copy_region_batch(Says(batch, length)).unwrap();
        assert_eq!(rows, [[1; 2]; 2]);
        let mut managed = [(); 2].map(|()| context.allocate_managed::<u32>(4).unwrap());
        let batch = managed.iter().map(|memory| Prefetch::new(memory, MemoryLocation::Host).unwrap());
        stream.prefetch_batch(Says(batch, length)).unwrap();
        let batch = managed.iter_mut().map(|memory| Discard::new(memory).unwrap());
        // SAFETY: nobody reads the memory.
        unsafe { stream.discard_batch(Says(batch, length)) }.unwrap();
        let operations = (0..3).map(Operation::value);
        assert_eq!(Operation::all(Says(operations, length)).run(&stream).unwrap(), [0, 1, 2]);
        let all = context.device().multiprocessors().unwrap();
        let green = context.create_green_context(Says([&all].into_iter(), length)).unwrap();
        assert_eq!(green.multiprocessors().unwrap().count(), all.count());
        // Memory is reserved for as many elements as there are to be, if there is so much.
        match stream.upload_elements(Says(0..3u32, length)) {
            Ok(buffer) => assert_eq!(stream.download(&buffer).unwrap(), [0, 1, 2]),
            Err(error) => assert!(length > 0 && error.status() == Status::OUT_OF_MEMORY, "{error}"),
        }
        stream.synchronize().unwrap();
    }
}
