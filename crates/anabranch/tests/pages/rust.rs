//! Other Rust crates.

use crate::common::{hold, host};
use anabranch::{
    CaptureMode, CaptureStatus, DependencyUpdate, DualModule, EdgeData, EdgeKind, HostFunction, InstantiateFlags,
    LaunchConfig, NodeWork, Status,
};
use futures::executor::block_on;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Waker};

#[test]
fn the_value_of_queued_work_comes_when_the_work_is_complete() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let gate = context.create_signal().unwrap();
    let mut value = stream.enqueue_async(|stream| {
        stream.wait_signal(&gate, anabranch::WaitCondition::GreaterOrEqual, 1)?;
        Ok(7)
    });
    assert!(Pin::new(&mut value).poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    gate.set(1);
    assert_eq!(block_on(value).unwrap(), 7);
}

#[test]
fn captures_into_graphs_take_nodes_with_data() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut graph = context.create_graph().unwrap();
    let first = graph.add((), NodeWork::empty()).unwrap();
    let second = graph.add((), NodeWork::empty()).unwrap();
    let below = [(first, EdgeData::default()), (second, EdgeData::default())];
    let captured =
        stream.capture_into(&mut graph, below, CaptureMode::Global, |scope| scope.launch_repeatable_host_func(|| {}));
    captured.unwrap();
    let nodes = graph.nodes().unwrap();
    let last = nodes.into_iter().find(|node| ![first, second].contains(node)).unwrap();
    let edges: Vec<_> = graph.edges().unwrap().into_iter().map(|edge| (edge.from, edge.to, edge.data)).collect();
    assert_eq!(edges.len(), 2);
    for (node, data) in below {
        assert!(edges.contains(&(node, last, data)));
    }
}

#[test]
fn a_capture_becomes_an_executable_with_flags() {
    let stream = host().create_stream().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let flags = InstantiateFlags::AUTO_FREE_ON_LAUNCH;
    let executable = stream.capture_executable_with_flags(CaptureMode::Global, flags, |scope| {
        let runs = runs.clone();
        scope.launch_repeatable_host_func(move || _ = runs.fetch_add(1, Ordering::SeqCst))
    });
    let executable = executable.unwrap();
    assert_eq!(executable.flags().unwrap(), flags);
    for _ in 0..3 {
        executable.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn a_capture_has_a_status() {
    let context = host();
    let stream = context.create_stream().unwrap();
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);
    stream.begin_capture(CaptureMode::Global).unwrap();
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::Active);
    assert_eq!(stream.synchronize().unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::Invalidated);
    assert_eq!(stream.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);
    hold(&context, &stream).set(1);
    stream.synchronize().unwrap();
}

#[test]
fn what_would_be_lost_is_an_error() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernel = HostFunction::new("nothing", &[], |_, _| {});
    let kernel = DualModule::new().host_function(kernel).load(&context).unwrap().kernel("nothing").unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.launch_checked(&kernel, &LaunchConfig::new(1, 1), ())?;
        let info = scope.capture_info()?;
        assert_eq!(scope.capture_info_with(false)?.dependencies, info.dependencies);
        let data = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
        let with_data = info.dependencies.iter().map(|&(node, _)| (node, data)).collect::<Vec<_>>();
        scope.update_capture_dependencies_with_mode(&with_data, DependencyUpdate::Set)?;
        assert_eq!(scope.capture_info()?.dependencies, with_data);
        assert_eq!(scope.capture_info_with(false).unwrap_err().status(), Status::LOSSY_QUERY);
        scope.launch_checked(&kernel, &LaunchConfig::new(1, 1), ())
    });
    assert_eq!(graph.unwrap().edges().unwrap().len(), 1);
}
