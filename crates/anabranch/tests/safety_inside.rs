//! Host functions that call the library. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::InsideWork;
use anabranch::{
    Buffer, CaptureMode, Compiler, ConditionalKind, Event, ExecutableGraph, Graph, Instance, NodeWork, Operation,
    Result, Status, Stream, StreamPolicy, StreamPool, UpdateError,
};
use futures::executor::block_on;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Only a hang takes so long.
const HANGS: Duration = Duration::from_secs(60);

/// What a host function calls.
struct Objects {
    stream: Stream,
    pool: StreamPool,
    event: Event,
    graph: Mutex<Graph>,
    executable: ExecutableGraph,
    node: anabranch::Node,
    memory: Buffer<u32>,
    conditional: anabranch::Conditional,
}

impl Objects {
    /// Calls whatever needs a lock that the library may hold while it calls the driver.
    fn call(&self) -> Vec<(&'static str, Result<()>)> {
        let update = |error: UpdateError| error.error().clone();
        let work = || NodeWork::host_func(|| ());
        let with = |call: &dyn Fn(&mut Graph) -> Result<()>| call(&mut self.graph.lock().unwrap());
        let conditional = |graph: &mut Graph| graph.add_conditional((), self.conditional, ConditionalKind::If, 1);
        vec![
            ("launch", self.executable.launch(&self.stream)),
            ("upload", self.executable.upload(&self.stream)),
            ("update", with(&|graph| self.executable.update(graph).map_err(update))),
            ("set_node", self.executable.set_node(self.node, work())),
            ("set_node_enabled", self.executable.set_node_enabled(self.node, true)),
            ("is_node_enabled", self.executable.is_node_enabled(self.node).map(drop)),
            ("flags", self.executable.flags().map(drop)),
            ("nodes", with(&|graph| graph.nodes().map(drop))),
            ("root_nodes", with(&|graph| graph.root_nodes().map(drop))),
            ("edges", with(&|graph| graph.edges().map(drop))),
            ("dependencies_of", with(&|graph| graph.dependencies_of(self.node).map(drop))),
            ("dependents_of", with(&|graph| graph.dependents_of(self.node).map(drop))),
            ("node_kind", with(&|graph| graph.node_kind(self.node).map(drop))),
            ("node_parameters", with(&|graph| graph.node_parameters(self.node).map(drop))),
            ("describe", with(&|graph| graph.describe().map(drop))),
            ("to_dot", with(&|graph| graph.to_dot().map(drop))),
            ("try_clone", with(&|graph| graph.try_clone().map(drop))),
            ("instantiate", with(&|graph| graph.instantiate().map(drop))),
            ("add", with(&|graph| graph.add((), work()).map(drop))),
            ("set_node of a graph", with(&|graph| graph.set_node(self.node, work()))),
            ("remove_node", with(&|graph| graph.remove_node(self.node))),
            ("add_edges", with(&|graph| graph.add_edges(&[]))),
            ("remove_edges", with(&|graph| graph.remove_edges(&[]))),
            ("create_conditional", with(&|graph| graph.create_conditional(None).map(drop))),
            ("add_conditional", with(&|graph| conditional(graph).map(drop))),
            ("body", with(&|graph| graph.body(self.node, 0).map(drop))),
            ("launch_async", block_on(self.executable.launch_async(&self.stream))),
            ("a future of a stream", block_on(self.stream.checked_completion_future())),
            ("a future of an event", block_on(self.event.completed())),
            ("set_conditional", NodeWork::set_conditional(self.conditional, &self.memory).map(drop)),
            ("record", self.stream.record(&self.event).map(drop)),
            ("wait", self.stream.wait_event(&self.event)),
            ("query", self.event.query().map(drop)),
            ("synchronize", self.stream.synchronize()),
            ("download", self.stream.download(&self.memory).map(drop)),
            ("begin_capture", self.stream.begin_capture(anabranch::CaptureMode::Relaxed)),
            ("capture_info", self.stream.capture_info().map(drop)),
            ("queue", Operation::value(1).queue(&self.stream).map(drop)),
            ("run", Operation::value(1).run(self.pool.stream()).map(drop)),
            ("queue in a pool", Operation::value(1).queue(&self.pool).map(drop)),
            ("run_async in a pool", block_on(Operation::value(1).run_async(&self.pool)).map(drop)),
            ("an instance", Instance::new().map(drop)),
            ("a compiler", Compiler::find().map(drop)),
        ]
    }
}

/// Submits host functions, which call the library, until the device runs them on this thread, in whatever call it has to
/// wait. Returns what the library has answered.
fn run(seed: Option<u64>) -> Vec<(&'static str, Result<()>)> {
    let builder = Instance::builder().cuda(false).host_queue_limit(2);
    let builder = match seed {
        Some(seed) => builder.host_seed(seed),
        None => builder.isolated(),
    };
    let context = builder.build().unwrap().device("host").unwrap().context().unwrap();
    let slot: Arc<Mutex<Weak<Objects>>> = Arc::default();
    let answers: Arc<Mutex<Vec<_>>> = Arc::default();
    let (inside, told) = (slot.clone(), answers.clone());
    let function = move || {
        let objects = inside.lock().unwrap().upgrade();
        if let Some(objects) = objects {
            let answered = objects.call();
            Stream::with_current(|_| ());
            told.lock().unwrap().extend(answered);
        }
    };
    let stream = context.create_stream().unwrap();
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::host_func(function.clone())).unwrap();
    let conditional = graph.create_conditional(Some(1)).unwrap();
    graph.add_conditional((), conditional, ConditionalKind::If, 1).unwrap();
    let executable = graph.instantiate().unwrap();
    let memory = stream.upload(&[1u32; 4]).unwrap();
    let event = stream.record_event().unwrap();
    let pool = StreamPool::new(&context, 2, StreamPolicy::LeastLoaded).unwrap();
    let objects =
        Arc::new(Objects { stream, pool, event, graph: Mutex::new(graph), executable, node, memory, conditional });
    *slot.lock().unwrap() = Arc::downgrade(&objects);
    let Objects { stream, event, executable, .. } = &*objects;
    let _current = stream.enter();
    for _ in 0..10 {
        executable.launch(stream).unwrap();
        stream.launch_repeatable_host_func(function.clone()).unwrap();
        drop(stream.completion_future());
        stream.launch_repeatable_host_func(function.clone()).unwrap();
        let buffer = stream.allocate_zeroed::<u8>(16).unwrap();
        stream.launch_repeatable_host_func(function.clone()).unwrap();
        // Frees in stream order, under the lock of the stream's end.
        drop(buffer);
        stream.launch_repeatable_host_func(function.clone()).unwrap();
        drop(event.completed());
        stream.record(event).unwrap();
        let _ = NodeWork::set_conditional(objects.conditional, &objects.memory);
        let _ = event.query();
    }
    stream.synchronize().unwrap();
    *slot.lock().unwrap() = Weak::new();
    std::mem::take(&mut answers.lock().unwrap())
}

#[test]
fn safety_12_calls_inside_of_a_host_function_are_refused_before_they_take_a_lock() {
    for seed in [None, Some(1), Some(2)] {
        let (tell, told) = channel();
        let running = thread::spawn(move || tell.send(run(seed)));
        let answers = match told.recv_timeout(HANGS) {
            Ok(answers) => answers,
            Err(_) if running.is_finished() => panic!("{seed:?}: {:?}", running.join().map(drop)),
            Err(_) => panic!("{seed:?}: a host function that calls the library hangs"),
        };
        assert!(answers.len() > 100, "{seed:?}: the host functions have run");
        for (call, answer) in answers {
            assert_eq!(answer.map_err(|error| error.status()), Err(Status::NOT_PERMITTED), "{seed:?}: {call}");
        }
    }
}

#[test]
fn safety_135_a_mark_that_a_waker_leaks_is_not_that_of_the_library_s_thread() {
    struct Leaks;

    impl Wake for Leaks {
        fn wake(self: Arc<Self>) {
            std::mem::forget(InsideWork::enter());
        }
    }

    let context = common::host();
    let stream = context.create_stream().unwrap();
    let (release, released) = channel();
    stream.launch_host_func(move || released.recv().unwrap()).unwrap();
    let mut completion = stream.completion_future();
    let waker = Waker::from(Arc::new(Leaks));
    assert!(Pin::new(&mut completion).poll(&mut Context::from_waker(&waker)).is_pending());
    release.send(()).unwrap();
    block_on(stream.completion_future()).unwrap();
    for _ in 0..10 {
        stream.launch_host_func(|| thread::sleep(Duration::from_millis(2))).unwrap();
        block_on(stream.completion_future()).unwrap();
    }
}

#[test]
fn safety_135_a_capture_whose_closure_leaks_a_mark_ends() {
    let stream = common::host().create_stream().unwrap();
    let mut kept = None;
    let graph = stream
        .capture(CaptureMode::Global, |_| {
            std::mem::forget(InsideWork::enter());
            kept = Some(InsideWork::enter());
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 0);
    drop(kept);
    assert!(stream.query().unwrap());
}

#[test]
fn safety_135_marks_that_are_dropped_in_another_order_leave_none() {
    let stream = common::host().create_stream().unwrap();
    let (first, second) = (InsideWork::enter(), InsideWork::enter());
    drop(first);
    assert_eq!(stream.query().unwrap_err().status(), Status::NOT_PERMITTED);
    drop(second);
    assert!(stream.query().unwrap());
}

#[test]
fn safety_135_a_host_function_that_leaks_a_mark_leaves_none() {
    let context =
        Instance::builder().cuda(false).host_seed(1).build().unwrap().device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    // It runs on this thread.
    stream.launch_host_func(|| std::mem::forget(InsideWork::enter())).unwrap();
    stream.synchronize().unwrap();
    assert!(stream.query().unwrap());
}

#[test]
fn safety_135_marks_of_the_program_do_not_take_that_of_a_host_function_away() {
    thread_local! {
        static MARKS: std::cell::RefCell<Vec<InsideWork>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    common::assert_ends(|| {
        let builder = Instance::builder().cuda(false).host_seed(1);
        let context = builder.build().unwrap().device("host").unwrap().context().unwrap();
        let stream = Arc::new(context.create_stream().unwrap());
        // They outlive the closure in which they were made, and count no more.
        let marks = context.register_scope(&mut [0u8; 4], |_| Ok([InsideWork::enter(), InsideWork::enter()])).unwrap();
        assert!(!InsideWork::is_entered());
        MARKS.with_borrow_mut(|kept| kept.extend(marks));
        let (inside, (tell, told)) = (stream.clone(), channel());
        // It runs on this thread.
        stream
            .launch_host_func(move || {
                MARKS.with_borrow_mut(Vec::clear);
                tell.send(inside.synchronize().map_err(|error| error.status())).unwrap();
            })
            .unwrap();
        stream.synchronize().unwrap();
        assert_eq!(told.recv().unwrap(), Err(Status::NOT_PERMITTED));
        assert!(stream.query().unwrap());
    });
}

#[test]
fn safety_149_who_waits_to_write_comes_before_later_launches() {
    common::assert_ends(|| {
        let instance = Instance::builder().cuda(false).isolated().host_queue_limit(4).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let home = context.create_stream().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        let graphs: Vec<_> = (0..6)
            .map(|_| {
                let mut target = home.allocate_zeroed::<u32>(4).unwrap();
                let mut graph = context.create_graph().unwrap();
                let slow = graph.add((), NodeWork::host_func(|| thread::sleep(Duration::from_millis(2)))).unwrap();
                graph.add(slow, NodeWork::copy(&mut target, &pinned).unwrap()).unwrap();
                (graph.instantiate().unwrap(), context.create_stream().unwrap())
            })
            .collect();
        home.synchronize().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            for (executable, stream) in &graphs {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                        if let Err(refused) = executable.launch(stream) {
                            assert_eq!(refused.status(), Status::ILLEGAL_STATE, "{refused}");
                            thread::yield_now();
                        }
                    }
                });
            }
            thread::sleep(Duration::from_millis(30));
            for value in 0..5 {
                pinned.write(|words| words.fill(value)).unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        graphs.iter().for_each(|(_, stream)| stream.synchronize().unwrap());
    });
}

#[test]
fn safety_135_a_scope_of_registered_memory_whose_closure_leaks_a_mark_ends() {
    common::assert_ends(|| {
        let context = common::host();
        let stream = context.create_stream().unwrap();
        let buffer = stream.upload(&[7u8; 64]).unwrap();
        let mut memory = vec![0u8; 64];
        for _ in 0..2 {
            context
                .register_scope(&mut memory, |memory| {
                    stream.launch_host_func(|| thread::sleep(Duration::from_millis(5)))?;
                    stream.copy(memory, &buffer)?;
                    std::mem::forget(InsideWork::enter());
                    Ok(())
                })
                .unwrap();
            assert_eq!(memory, [7; 64]);
            memory.fill(0);
        }
    });
}

#[test]
fn safety_135_a_scope_whose_closure_leaks_a_mark_ends() {
    common::assert_ends(|| {
        let context = common::host();
        let stream = context.create_stream().unwrap();
        let buffer = stream.upload(&[7u8; 64]).unwrap();
        let mut memory = vec![0u8; 64];
        for leave in [false, true] {
            let scope = AssertUnwindSafe(|| {
                stream.sync_scope(|scope| {
                    stream.launch_host_func(|| thread::sleep(Duration::from_millis(5)))?;
                    scope.copy_to_host(&mut memory, &buffer)?;
                    std::mem::forget(InsideWork::enter());
                    if leave {
                        std::panic::resume_unwind(Box::new("leaves the scope"));
                    }
                    Ok(())
                })
            });
            match std::panic::catch_unwind(scope) {
                Ok(left) => left.unwrap(),
                Err(_) => assert!(leave),
            }
            assert_eq!(memory, [7; 64]);
            assert!(!InsideWork::is_entered());
            memory.fill(0);
        }
    });
}

#[test]
fn safety_149_a_host_function_reads_what_the_launch_that_runs_it_only_reads() {
    common::assert_ends(|| {
        let instance = Instance::builder().cuda(false).isolated().host_queue_limit(2).host_seed(1).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let stream = context.create_stream().unwrap();
        let pinned = Arc::new(context.allocate_pinned::<u32>(4).unwrap());
        let mut target = stream.allocate_zeroed::<u32>(4).unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::copy(&mut target, &*pinned).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        stream.synchronize().unwrap();
        let (tell, told) = channel();
        for _ in 0..6 {
            let (pinned, tell) = (pinned.clone(), tell.clone());
            stream.launch_host_func(move || tell.send(pinned.read(|words| words[0]).is_ok()).unwrap()).unwrap();
            executable.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [true; 6]);
    });
}

#[test]
fn safety_149_a_host_function_does_not_wait_for_the_launch_that_runs_it() {
    common::assert_ends(|| {
        let instance = Instance::builder().cuda(false).isolated().host_queue_limit(2).host_seed(1).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let stream = context.create_stream().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        let source = stream.allocate_zeroed::<u32>(4).unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::copy(&mut pinned, &source).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        stream.synchronize().unwrap();
        let (pinned, (tell, told)) = (Arc::new(pinned), channel());
        for _ in 0..6 {
            let (pinned, tell) = (pinned.clone(), tell.clone());
            let read = move || pinned.read(|words| words[0]).map_err(|error| error.status());
            stream.launch_host_func(move || tell.send(read()).unwrap()).unwrap();
            executable.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
        let answers: Vec<_> = told.try_iter().collect();
        assert_eq!(answers.len(), 6);
        assert!(answers.contains(&Err(Status::NOT_PERMITTED)), "{answers:?}");
    });
}

#[test]
fn safety_12_allocations_inside_of_a_host_function_are_refused_whatever_was_freed_before() {
    let context = common::host();
    let stream = context.create_stream().unwrap();
    drop(context.allocate_pinned::<u8>(4096).unwrap());
    drop(context.allocate_managed::<u8>(4096).unwrap());
    stream.synchronize().unwrap();
    let (inside, (tell, told)) = (context.clone(), channel());
    stream
        .launch_host_func(move || {
            let pinned = inside.allocate_pinned::<u8>(4096).map(drop);
            tell.send([pinned, inside.allocate_managed::<u8>(4096).map(drop)]).unwrap();
        })
        .unwrap();
    for answer in told.recv().unwrap() {
        assert_eq!(answer.unwrap_err().status(), Status::NOT_PERMITTED);
    }
}

#[test]
fn safety_164_a_host_function_leaves_the_current_streams_of_the_thread_that_runs_it() {
    // With a seed, threads that wait run the host functions.
    let instance = Instance::builder().cuda(false).host_seed(3).isolated().build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let [own, entered, other] = [(); 3].map(|()| Arc::new(context.create_stream().unwrap()));
    let current = || Stream::with_current_of(&context, |stream| stream.map(Stream::id));
    own.make_current();
    let (told, thread) = channel();
    let make = {
        let (other, context) = (other.clone(), context.clone());
        move || {
            other.make_current();
            let guard = other.enter();
            told.send((thread::current().id(), Stream::with_current_of(&context, |stream| stream.is_none()))).unwrap();
            std::mem::forget(guard);
        }
    };
    entered.launch_host_func(make).unwrap();
    entered.synchronize().unwrap();
    assert_eq!(thread.recv().unwrap(), (thread::current().id(), true), "this thread runs it, without a stream");
    assert_eq!(current(), Some(own.id()));
    drop(other.enter());
    assert_eq!(current(), Some(own.id()));
}
