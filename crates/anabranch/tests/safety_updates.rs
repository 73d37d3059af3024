//! Classes of defects of executable graphs that are updated: which node has which work then is the driver's to say.
//! `docs/safety.md` lists them all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, ConditionalKind, Context, EdgeData, ExecutableGraph, Graph, GraphEdge, GraphNodeKind, Node,
    NodeWork, Status, Stream, flush_deferred_drops,
};
use common::checked_host;

fn no_findings(context: &Context) {
    let report = context.device().memory_report().unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn safety_140_an_update_by_which_nodes_change_places_keeps_what_each_refers_to() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let [mut first, mut second, mut third] = [(); 3].map(|()| stream.allocate_zeroed::<u32>(4).unwrap());
    let mut graph = context.create_graph().unwrap();
    let one = graph.add((), NodeWork::fill(&mut first, 1u32).unwrap()).unwrap();
    let two = graph.add(one, NodeWork::fill(&mut second, 2u32).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    // The other node comes first now, so that each node of the executable graph gets the work of the other.
    let edge = |from, to| GraphEdge { from, to, data: EdgeData::default() };
    graph.remove_edges(&[edge(one, two)]).unwrap();
    graph.add_edges(&[edge(two, one)]).unwrap();
    executable.update(&graph).unwrap();
    executable.set_node(one, NodeWork::fill(&mut third, 3u32).unwrap()).unwrap();
    // The executable graph keeps its graph, which is to keep nothing that the executable graph does not.
    graph.remove_node(one).unwrap();
    drop(first);
    stream.synchronize().unwrap();
    flush_deferred_drops();
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let report = context.device().memory_report().unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(stream.download(&second).unwrap(), [0; 4]);
    assert_eq!(stream.download(&third).unwrap(), [3; 4]);
}

/// Two fills with no order, in a graph and an executable graph of it.
struct Two {
    context: Context,
    stream: Stream,
    graph: Graph,
    first: Node,
    executable: ExecutableGraph,
    buffers: [Buffer<u32>; 3],
}

impl Two {
    fn new() -> Self {
        let context = checked_host();
        let stream = context.create_stream().unwrap();
        let mut buffers = [(); 3].map(|()| stream.allocate_zeroed::<u32>(4).unwrap());
        let mut graph = context.create_graph().unwrap();
        let first = graph.add((), NodeWork::fill(&mut buffers[0], 1u32).unwrap()).unwrap();
        graph.add((), NodeWork::fill(&mut buffers[1], 2u32).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        Self { context, stream, graph, first, executable, buffers }
    }

    /// Updates the executable graph, gives one node other work, and drops what that node had in the graph.
    fn update_and_launch(self) {
        let Self { context, stream, mut graph, first, executable, buffers: [one, two, mut other] } = self;
        executable.update(&graph).unwrap();
        executable.set_node(first, NodeWork::fill(&mut other, 3u32).unwrap()).unwrap();
        graph.set_node(first, NodeWork::fill(&mut other, 3u32).unwrap()).unwrap();
        drop(one);
        stream.synchronize().unwrap();
        flush_deferred_drops();
        executable.launch(&stream).unwrap();
        assert_eq!(stream.download(&other).unwrap(), [3; 4]);
        assert!([0, 2].contains(&stream.download(&two).unwrap()[0]));
        no_findings(&context);
    }
}

#[test]
fn safety_140_an_update_behind_a_capture_of_nothing_keeps_what_each_node_refers_to() {
    let mut two = Two::new();
    // Drivers make the ends of the graph anew, so that an update pairs them in another order.
    two.stream.capture_into(&mut two.graph, two.first, CaptureMode::Relaxed, |_| Ok(())).unwrap();
    two.update_and_launch();
}

#[test]
fn safety_140_an_update_behind_a_refused_node_keeps_what_each_node_refers_to() {
    let mut two = Two::new();
    let value = two.graph.create_conditional(None).unwrap();
    two.graph.add_conditional(two.first, value, ConditionalKind::If, 3).unwrap_err();
    two.update_and_launch();
}

#[test]
fn safety_43_the_fill_of_captured_memory_stays_where_an_update_has_moved_it() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let [mut copied, mut filled, mut again] = [(); 3].map(|()| stream.upload(&[1u32; 4]).unwrap());
    stream.synchronize().unwrap();
    let mut graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let memory = scope.allocate_zeroed::<u32>(4)?;
            scope.copy(&mut copied, &memory)?;
            // The graph does not free it, so that both branches look the same.
            std::mem::forget(memory);
            Ok(())
        })
        .unwrap();
    let only = |graph: &Graph, kind| {
        let mut nodes = graph.nodes().unwrap().into_iter();
        nodes.find(|&node| graph.node_kind(node).unwrap() == kind).unwrap()
    };
    let (allocation, copy) = (only(&graph, GraphNodeKind::ALLOCATE), only(&graph, GraphNodeKind::COPY));
    let fill = graph.add(allocation, NodeWork::fill(&mut filled, 5u32).unwrap()).unwrap();
    graph.add(fill, NodeWork::copy(&mut again, &filled).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.set_node_enabled(fill, true).unwrap();
    stream.capture_into(&mut graph, copy, CaptureMode::Relaxed, |_| Ok(())).unwrap();
    executable.update(&graph).unwrap();
    let refused = executable.set_node_enabled(fill, false).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    assert!(refused.to_string().contains("since the update"), "{refused}");
    let refused = executable.set_node(fill, NodeWork::fill(&mut filled, 6u32).unwrap()).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&copied).unwrap(), [0; 4]);
    assert_eq!(stream.download(&again).unwrap(), [5; 4]);
    no_findings(&context);
}

#[test]
fn safety_43_no_disabled_node_is_moved_by_an_update() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let [mut copied, mut filled] = [(); 2].map(|()| stream.upload(&[1u32; 4]).unwrap());
    stream.synchronize().unwrap();
    let mut graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let memory = scope.allocate_zeroed::<u32>(4)?;
            scope.copy(&mut copied, &memory)
        })
        .unwrap();
    let fill = graph.add((), NodeWork::fill(&mut filled, 5u32).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.set_node_enabled(fill, false).unwrap();
    let refused = executable.update(&graph).unwrap_err();
    assert_eq!(refused.error().status(), Status::INVALID_VALUE);
    assert!(refused.to_string().contains("a node is disabled"), "{refused}");
    // A node that is refused is not disabled.
    executable.set_node_enabled(fill, true).unwrap();
    executable.set_node_enabled(graph.nodes().unwrap()[0], false).unwrap_err();
    executable.update(&graph).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((stream.download(&copied).unwrap(), stream.download(&filled).unwrap()), (vec![0; 4], vec![5; 4]));
    no_findings(&context);
}

#[test]
fn safety_152_an_update_that_is_refused_retains_nothing() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(4).unwrap();
    let captured = stream.capture(CaptureMode::ThreadLocal, |scope| scope.fill(&mut buffer, 1)).unwrap();
    let executable = captured.instantiate().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let other = stream
        .capture(CaptureMode::ThreadLocal, |scope| {
            scope.fill(&mut pinned, 1)?;
            scope.fill(&mut pinned, 2)
        })
        .unwrap();
    let refused = executable.update(&other).unwrap_err();
    assert_eq!(refused.error().status(), Status::GRAPH_EXEC_UPDATE_FAILURE);
    // The other graph still retains it.
    assert_eq!(pinned.as_mut_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    drop(other);
    flush_deferred_drops();
    pinned.as_mut_slice().unwrap();
    // The launch does not use it either, and comes behind none of its uses.
    pinned.write(|_| executable.launch(&stream)).unwrap().unwrap();
    let (busy, (opener, opened)) = (context.create_stream().unwrap(), std::sync::mpsc::channel::<()>());
    busy.launch_host_func(move || assert!(opened.recv().is_err())).unwrap();
    busy.fill(&mut pinned, 3).unwrap();
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    drop(opener);
    busy.synchronize().unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [1; 4]);
    no_findings(&context);
}
