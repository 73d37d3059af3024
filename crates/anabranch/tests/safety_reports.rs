//! Which call reports a panic of work: it is lost nowhere, told once, and told where the work was. `docs/safety.md` lists the
//! classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    CaptureMode, Context, ContextFlags, DualModule, Error, ErrorKind, HostFunction, Instance, LaunchConfig, NodeWork,
    Operation, Result, Status, Stream, StreamPolicy, StreamPool,
};
use common::{hold, host};
use futures::executor::block_on;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Panics without a message on standard error.
fn panic() {
    resume_unwind(Box::new("on purpose"));
}

fn error() -> Error {
    Error::argument(Status::INVALID_VALUE, "testing", "of the body")
}

/// Puts work into a stream that panics.
type Panicking = fn(&Stream) -> Result<()>;

fn host_function(stream: &Stream) -> Result<()> {
    stream.launch_host_func(panic)
}

fn kernel(stream: &Stream) -> Result<()> {
    let function = HostFunction::new("kernel", &[], |_, _| panic());
    let kernel = DualModule::new().host_function(function).load(&stream.context())?.kernel("kernel")?;
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ())
}

const KINDS: [Panicking; 2] = [host_function, kernel];

#[track_caller]
fn assert_reported<T>(result: Result<T>) {
    assert_eq!(result.map(drop).unwrap_err().kind(), ErrorKind::Panicked);
}

/// A panic is told by this call, and then nobody else is told it.
#[track_caller]
fn assert_told_once(stream: &Stream) {
    assert_reported(stream.synchronize());
    stream.synchronize().unwrap();
    stream.context().synchronize().unwrap();
}

fn parts(panics: Panicking, which: usize) -> Operation<'static, Vec<()>> {
    let part = move |number| Operation::new(move |stream| if number == which { panics(stream) } else { Ok(()) });
    Operation::all((0..3).map(part))
}

fn pools(context: &Context) -> [StreamPool; 2] {
    [StreamPolicy::RoundRobin, StreamPolicy::LeastLoaded].map(|policy| StreamPool::new(context, 3, policy).unwrap())
}

#[test]
fn safety_106_an_operation_reports_a_panic_of_any_of_its_parts() {
    let context = host();
    for pool in pools(&context) {
        for panics in KINDS {
            for which in 0..3 {
                assert_reported(parts(panics, which).run(&pool));
                pool.streams().for_each(|stream| stream.synchronize().unwrap());
                assert_reported(block_on(parts(panics, which).run_async(&pool)));
                pool.streams().for_each(|stream| stream.synchronize().unwrap());
                let inside = parts(panics, which).zip(parts(panics, 3)).zip(Operation::value(()));
                assert_reported(inside.run(&pool));
                context.synchronize().unwrap();
            }
        }
        Operation::new(|stream| stream.launch_host_func(|| ())).run(&pool).unwrap();
    }
}

#[test]
fn safety_106_what_an_operation_cannot_report_remains() {
    let context = host();
    for pool in pools(&context) {
        let all = || Operation::all((0..3).map(|_| Operation::new(host_function)));
        assert_reported(all().run(&pool));
        let told = pool.streams().map(Stream::synchronize);
        assert_eq!(told.filter(Result::is_err).count(), 2);
        assert_reported(block_on(all().run_async(&pool)));
        let told = pool.streams().map(Stream::synchronize);
        assert_eq!(told.filter(Result::is_err).count(), 2);
        let failed = all().then(|_, _| Err::<(), _>(error())).run(&pool);
        assert_eq!(failed.unwrap_err().status(), Status::INVALID_VALUE);
        let told = pool.streams().map(Stream::synchronize);
        assert_eq!(told.filter(Result::is_err).count(), 3);
    }
}

#[test]
fn safety_106_a_scope_that_fails_leaves_panics_to_be_reported() {
    let context = host();
    let [own, entered] = [(); 2].map(|()| context.create_stream().unwrap());
    for panics in KINDS {
        panics(&own).unwrap();
        panics(&entered).unwrap();
        let failed = own.sync_scope(|scope| scope.on(&entered).and(Err::<(), _>(error())));
        assert_eq!(failed.unwrap_err().status(), Status::INVALID_VALUE);
        assert_reported(own.synchronize());
        assert_told_once(&entered);

        panics(&own).unwrap();
        panics(&entered).unwrap();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            own.sync_scope(|scope| {
                scope.on(&entered)?;
                panic();
                Ok(())
            })
        }));
        assert!(unwound.is_err());
        assert_reported(own.synchronize());
        assert_told_once(&entered);
    }
    // A copy that is refused is a scope that fails.
    host_function(&own).unwrap();
    let far = context.device().create_context(ContextFlags::empty()).unwrap();
    let far = far.create_stream().unwrap().upload(&[1u32]).unwrap();
    assert_eq!(own.copy_to_host(&mut [0], &far).unwrap_err().status(), Status::INVALID_HANDLE);
    assert_told_once(&own);
}

#[test]
fn safety_106_a_scope_reports_one_of_several_panics_and_leaves_the_others() {
    let context = host();
    let streams = [(); 3].map(|()| context.create_stream().unwrap());
    let [own, entered, last] = &streams;
    for panics in KINDS {
        streams.iter().for_each(|stream| panics(stream).unwrap());
        assert_reported(own.sync_scope(|scope| scope.on(entered).and(scope.on(last)).map(drop)));
        own.synchronize().unwrap();
        assert_reported(entered.synchronize());
        assert_told_once(last);
        panics(entered).unwrap();
        assert_reported(own.sync_scope(|scope| scope.on(entered).map(drop)));
        context.synchronize().unwrap();
    }
}

#[test]
fn safety_107_a_function_that_an_executable_gets_later_panics_in_its_launches() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let graph = |work: fn()| {
        let mut graph = context.create_graph().unwrap();
        let node = graph.add((), NodeWork::host_func(work)).unwrap();
        (graph, node)
    };
    let (quiet, node) = graph(|| ());
    let (panicking, _) = graph(panic);
    let executable = quiet.instantiate().unwrap();
    for _ in 0..2 {
        executable.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        executable.update(&panicking).unwrap();
        executable.launch(&stream).unwrap();
        assert_told_once(&stream);
        executable.update(&quiet).unwrap();
    }
    executable.launch(&stream).unwrap();
    executable.set_node(node, NodeWork::host_func(panic)).unwrap();
    stream.synchronize().unwrap();
    executable.launch(&stream).unwrap();
    assert_told_once(&stream);

    let mut parent = context.create_graph().unwrap();
    let node = parent.add((), NodeWork::child(&quiet)).unwrap();
    let executable = parent.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    executable.set_node(node, NodeWork::child(&panicking)).unwrap();
    executable.launch(&stream).unwrap();
    assert_told_once(&stream);
}

#[test]
fn safety_107_the_software_device_knows_whose_launch_panics() {
    let device = Instance::new().unwrap().device("host").unwrap();
    let contexts = [(); 2].map(|()| device.create_context(ContextFlags::empty()).unwrap());
    for context in &contexts {
        let first = contexts[0].create_stream().unwrap();
        let others: Vec<_> = (0..20).map(|_| context.create_stream().unwrap()).collect();
        let executable = panics_first(&contexts[0]);
        let signal = hold(&contexts[0], &first);
        executable.launch(&first).unwrap();
        others.iter().for_each(|stream| executable.launch(stream).unwrap());
        signal.set(1);
        // They come behind it, and are asked before it.
        others.iter().rev().for_each(|stream| stream.synchronize().unwrap());
        contexts[1].synchronize().unwrap();
        assert_told_once(&first);
    }
}

/// An executable whose launches panic while the flag is set.
fn panics_while(context: &Context, flag: &Arc<AtomicBool>) -> anabranch::ExecutableGraph {
    let (mut graph, flag) = (context.create_graph().unwrap(), flag.clone());
    let work = move || {
        if flag.load(Ordering::SeqCst) {
            panic();
        }
    };
    graph.add((), NodeWork::host_func(work)).unwrap();
    graph.instantiate().unwrap()
}

/// An executable whose first launch panics.
fn panics_first(context: &Context) -> anabranch::ExecutableGraph {
    let (mut graph, launches) = (context.create_graph().unwrap(), AtomicUsize::new(0));
    let work = move || {
        if launches.fetch_add(1, Ordering::SeqCst) == 0 {
            panic();
        }
    };
    graph.add((), NodeWork::host_func(work)).unwrap();
    graph.instantiate().unwrap()
}

#[test]
fn safety_107_launches_that_are_pending_in_many_streams_panic_in_theirs() {
    let context = host();
    for count in [2, 17, 100] {
        let executable = panics_first(&context);
        let streams: Vec<_> = (0..count).map(|_| context.create_stream().unwrap()).collect();
        let signal = hold(&context, &streams[0]);
        streams.iter().for_each(|stream| executable.launch(stream).unwrap());
        signal.set(1);
        assert_reported(streams[0].synchronize());
        streams.iter().for_each(|stream| stream.synchronize().unwrap());
        context.synchronize().unwrap();
    }
}

#[test]
fn safety_107_launches_that_are_complete_are_not_those_that_panic() {
    let context = host();
    let flag = Arc::new(AtomicBool::new(false));
    let executable = panics_while(&context, &flag);
    let streams: Vec<_> = (0..40).map(|_| context.create_stream().unwrap()).collect();
    let [stream, follower] = [(); 2].map(|()| context.create_stream().unwrap());
    executable.launch(&stream).unwrap();
    streams.iter().for_each(|other| executable.launch(other).unwrap());
    executable.launch(&follower).unwrap();
    // The launches of an executable run one after the other.
    follower.synchronize().unwrap();
    flag.store(true, Ordering::SeqCst);
    executable.launch(&stream).unwrap();
    stream.record_event().unwrap().synchronize().unwrap();
    streams.iter().chain([&follower]).for_each(|other| other.synchronize().unwrap());
    assert_told_once(&stream);
}

#[test]
fn safety_107_launches_in_several_contexts_panic_in_those() {
    let device = Instance::new().unwrap().device("host").unwrap();
    let contexts = [(); 2].map(|()| device.create_context(ContextFlags::empty()).unwrap());
    let [first, second] = contexts.each_ref().map(|context| context.create_stream().unwrap());
    for asks_contexts in [false, true] {
        let executable = panics_first(&contexts[0]);
        let signal = hold(&contexts[0], &first);
        executable.launch(&first).unwrap();
        executable.launch(&second).unwrap();
        signal.set(1);
        if asks_contexts {
            assert_reported(contexts[0].synchronize());
        } else {
            assert_reported(first.synchronize());
        }
        [&first, &second].iter().for_each(|stream| stream.synchronize().unwrap());
        contexts.iter().for_each(|context| context.synchronize().unwrap());
    }
}

#[test]
fn safety_107_a_launch_of_one_executable_is_not_hidden_by_those_of_another() {
    let context = host();
    let (mut graph, flag) = (context.create_graph().unwrap(), Arc::new(AtomicBool::new(false)));
    let inside = flag.clone();
    let work = move || {
        if inside.load(Ordering::SeqCst) {
            panic();
        }
    };
    graph.add((), NodeWork::host_func(work)).unwrap();
    let [one, another] = [(); 2].map(|()| graph.instantiate().unwrap());
    let stream = context.create_stream().unwrap();
    one.launch(&stream).unwrap();
    let others: Vec<_> = (0..16).map(|_| context.create_stream().unwrap()).collect();
    others.iter().for_each(|other| another.launch(other).unwrap());
    context.synchronize().unwrap();
    flag.store(true, Ordering::SeqCst);
    one.launch(&stream).unwrap();
    assert_told_once(&stream);
    others.iter().for_each(|other| other.synchronize().unwrap());
}

#[test]
fn safety_107_a_stream_that_has_only_captured_a_function_is_not_told_its_panics() {
    let context = host();
    let [captures, launches] = [(); 2].map(|()| context.create_stream().unwrap());
    let captured = |scope: &anabranch::CaptureScope<'_>| scope.launch_repeatable_host_func(panic);
    let executable = captures.capture_executable(CaptureMode::Relaxed, captured).unwrap();
    executable.launch(&launches).unwrap();
    launches.record_event().unwrap().synchronize().unwrap();
    captures.synchronize().unwrap();
    assert_told_once(&launches);
}

#[test]
fn safety_107_panics_of_launches_in_streams_that_are_gone_are_told_by_the_context() {
    let context = host();
    let flag = Arc::new(AtomicBool::new(false));
    let executable = panics_while(&context, &flag);
    for _ in 0..100 {
        executable.launch(&context.create_stream().unwrap()).unwrap();
    }
    context.synchronize().unwrap();
    flag.store(true, Ordering::SeqCst);
    for _ in 0..100 {
        executable.launch(&context.create_stream().unwrap()).unwrap();
    }
    let last = context.create_stream().unwrap();
    executable.launch(&last).unwrap();
    while let Err(error) = context.synchronize() {
        assert_eq!(error.kind(), ErrorKind::Panicked);
    }
    last.synchronize().unwrap();
    flag.store(false, Ordering::SeqCst);
    executable.launch(&last).unwrap();
    last.synchronize().unwrap();
}
