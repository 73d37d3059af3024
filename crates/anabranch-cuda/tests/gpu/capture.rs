//! Capture: work submitted to a stream becomes a graph, and runs when that is launched.

use crate::kernels::{PLAIN, PTX, add};
use crate::support::{Gpu, live};
use anabranch_hal::{
    CaptureMode, CaptureStatus, Captures, Dependency, DependencyUpdate, Detail, ExecutableGraphs, FillPattern,
    GraphNodeKind, Graphs, HostWork, InstantiateFlags, Live, Memory, Modules, NodeParameters, RepeatableWork, Status,
    StreamHandle, Streams,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

#[test]
fn what_is_captured_runs_at_every_launch() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (module, function) = gpu.kernel(PTX, "add");
        let memory = gpu.allocate(400);
        gpu.stream_begin_capture(&gpu.context.into(), gpu.stream, CaptureMode::ThreadLocal).expect("a capture");
        assert_eq!(gpu.stream_capture_status(&gpu.context.into(), gpu.stream), Ok(CaptureStatus::Active));
        gpu.fill_async(&gpu.context.into(), memory, FillPattern::U32(5), 100, gpu.stream).expect("a fill");
        add(&gpu, function, PLAIN, memory, 37, 100).expect("a launch");
        let info = gpu.stream_capture_info(&gpu.context.into(), gpu.stream, true).expect("it captures");
        assert!(info.id != 0 && info.dependencies.len() == 1, "{info:?}");
        assert_eq!(info.edge_data.map(|data| data.len()), Some(1));
        let again = gpu.stream_begin_capture(&gpu.context.into(), gpu.stream, CaptureMode::ThreadLocal).unwrap_err();
        assert_eq!(again.status, Status::ILLEGAL_STATE);
        let graph = live(gpu.stream_end_capture(&gpu.context.into(), gpu.stream).expect("nothing went wrong"));
        assert_eq!(info.graph, Some(graph.handle()));
        assert_eq!(gpu.stream_capture_status(&gpu.context.into(), gpu.stream), Ok(CaptureStatus::None));

        assert_eq!(gpu.graph_nodes(&gpu.context.into(), graph).expect("the driver can say").len(), 2);
        assert_eq!(gpu.graph_edges(&gpu.context.into(), graph).expect("the driver can say").len(), 1);
        let root = gpu.graph_root_nodes(&gpu.context.into(), graph).expect("the driver can say")[0];
        assert_eq!(gpu.graph_node_kind(&gpu.context.into(), live(root)), Ok(GraphNodeKind::FILL));

        let executable = live(
            gpu.graph_instantiate(&gpu.context.into(), graph, InstantiateFlags::empty(), None).expect("it is sound"),
        );
        gpu.graph_destroy(&gpu.context.into(), graph.handle()).expect("it is ours");
        for _ in 0..2 {
            gpu.upload(memory, &[0; 400]);
            gpu.executable_launch(&gpu.context.into(), executable, gpu.stream).expect("a launch");
            assert!(gpu.download(memory, 400).chunks(4).all(|value| value == 42_u32.to_le_bytes()));
        }
        gpu.executable_destroy(&gpu.context.into(), executable.handle()).expect("it is ours");
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn only_repeatable_host_work_is_captured_and_a_refusal_does_no_harm() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let work = RepeatableWork::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, work.clone().into()).expect("host work");
        gpu.synchronize();
        assert_eq!(count.load(Ordering::SeqCst), 1, "outside of a capture it runs");

        gpu.stream_begin_capture(&gpu.context.into(), gpu.stream, CaptureMode::ThreadLocal).expect("a capture");
        gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, work.clone().into()).expect("host work");
        let once = gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, HostWork::new(|| ())).unwrap_err();
        assert_eq!(once.status, Status::STREAM_CAPTURE_UNSUPPORTED);
        let graph = live(gpu.stream_end_capture(&gpu.context.into(), gpu.stream).expect("nothing went wrong"));

        let nodes = gpu.graph_nodes(&gpu.context.into(), graph).expect("the driver can say");
        assert_eq!(nodes.len(), 1);
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(nodes[0])).expect("it is ours");
        assert!(matches!(read, NodeParameters::Host(key) if key == work.key()));
        let executable = live(
            gpu.graph_instantiate(&gpu.context.into(), graph, InstantiateFlags::empty(), None).expect("it is sound"),
        );
        gpu.graph_destroy(&gpu.context.into(), graph.handle()).expect("it is ours");
        for launches in 1..=3 {
            gpu.executable_launch(&gpu.context.into(), executable, gpu.stream).expect("a launch");
            gpu.synchronize();
            assert_eq!(count.load(Ordering::SeqCst), 1 + launches);
        }
        gpu.executable_destroy(&gpu.context.into(), executable.handle()).expect("it is ours");
    }
}

#[test]
fn captures_go_into_a_graph_that_exists_and_depend_on_what_they_are_told() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let memory = gpu.allocate(64);
        let graph = live(gpu.graph_create(&gpu.context.into()).expect("a graph"));
        let node = |dependencies: &[Dependency]| {
            let added = gpu.graph_add_node(&gpu.context.into(), graph, dependencies, &NodeParameters::Empty);
            added.expect("a node").node
        };
        let (first, second) = (node(&[]), node(&[]));
        let mode = CaptureMode::Relaxed;
        let begun = gpu.stream_begin_capture_to_graph(&gpu.context.into(), gpu.stream, graph, &[first.into()], mode);
        if let Err(failure) = begun {
            assert!(matches!(failure.detail.as_deref(), Some(Detail::MissingSymbol { .. })), "{failure}");
            return eprintln!("skipped: {failure}");
        }
        let update = |dependencies: &[Dependency], update| {
            gpu.stream_update_capture_dependencies(&gpu.context.into(), gpu.stream, dependencies, update)
                .expect("it captures");
        };
        update(&[second.into()], DependencyUpdate::Add);
        let info = gpu.stream_capture_info(&gpu.context.into(), gpu.stream, false).expect("it captures");
        assert_eq!((info.graph, info.dependencies.len(), info.edge_data), (Some(graph.handle()), 2, None));
        update(&[second.into()], DependencyUpdate::Set);
        gpu.fill_async(&gpu.context.into(), memory, FillPattern::U8(1), 64, gpu.stream).expect("a fill");
        assert_eq!(gpu.stream_end_capture(&gpu.context.into(), gpu.stream), Ok(graph.handle()));
        let edges = gpu.graph_edges(&gpu.context.into(), graph).expect("the driver can say");
        assert_eq!(edges.iter().map(|edge| edge.from).collect::<Vec<_>>(), [second]);
        gpu.graph_destroy(&gpu.context.into(), graph.handle()).expect("it is ours");
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn a_forbidden_call_invalidates_the_capture_and_the_stream_works_on() {
    let Some(gpu) = Gpu::find() else { return };
    let legacy =
        gpu.stream_begin_capture(&gpu.context.into(), Live::<StreamHandle>::NULL, CaptureMode::Global).unwrap_err();
    assert_eq!(legacy.status, Status::STREAM_CAPTURE_UNSUPPORTED);
    gpu.stream_begin_capture(&gpu.context.into(), gpu.stream, CaptureMode::ThreadLocal).expect("a capture");
    let synchronized = gpu.stream_synchronize(&gpu.context.into(), gpu.stream).unwrap_err();
    assert_eq!(synchronized.status, Status::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(gpu.stream_capture_status(&gpu.context.into(), gpu.stream), Ok(CaptureStatus::Invalidated));
    let work = gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, HostWork::new(|| ())).unwrap_err();
    assert_eq!(work.status, Status::STREAM_CAPTURE_INVALIDATED);
    let ended = gpu.stream_end_capture(&gpu.context.into(), gpu.stream).unwrap_err();
    assert_eq!(ended.status, Status::STREAM_CAPTURE_INVALIDATED);
    let (sender, receiver) = mpsc::channel();
    let work = HostWork::new(move || sender.send(()).unwrap_or(()));
    gpu.stream_launch_host_function(&gpu.context.into(), gpu.stream, work).expect("host work");
    assert_eq!(receiver.recv_timeout(SOON), Ok(()));
    gpu.synchronize();
}

#[test]
fn a_thread_exchanges_its_own_mode() {
    let Some(gpu) = Gpu::find() else { return };
    assert_eq!(gpu.thread_exchange_capture_mode(CaptureMode::Relaxed), Ok(CaptureMode::Global));
    assert_eq!(gpu.thread_exchange_capture_mode(CaptureMode::Global), Ok(CaptureMode::Relaxed));
}
