//! Graphs: whose nodes are whose, what errors say, and what is kept.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    CaptureInfo, CaptureMode, CaptureModeGuard, CaptureScope, Conditional, ConditionalKind, DualModule, EdgeData,
    ExecutableGraph, Graph, GraphDescription, GraphEdge, GraphUpdateResult, HostFunction, Instance, LaunchConfig, Node,
    NodeWork, Status, UpdateError,
};
use common::{hold, host};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn graphs_and_executables_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Graph>();
    crosses::<ExecutableGraph>();
    crosses::<NodeWork<'static>>();
    crosses::<Node>();
    crosses::<Conditional>();
    crosses::<GraphDescription>();
    crosses::<UpdateError>();
    crosses::<CaptureInfo>();
}

/// Scopes and guards are of one thread; whether that is so is asked of the compiler, with programs that it refuses.
#[test]
fn scopes_and_guards_say_what_they_are() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let guard: CaptureModeGuard = context.exchange_capture_mode(anabranch::CaptureMode::Relaxed).unwrap();
    assert!(format!("{guard:?}").contains("Global"), "{guard:?}");
    stream
        .capture(anabranch::CaptureMode::ThreadLocal, |scope: &CaptureScope<'_>| {
            assert_eq!(scope.mode(), anabranch::CaptureMode::ThreadLocal);
            assert_eq!(scope.stream().id(), stream.id());
            Ok(())
        })
        .unwrap();
}

#[test]
fn nodes_of_other_graphs_are_refused_with_the_remedy() {
    let context = host();
    let (mut mine, mut other) = (context.create_graph().unwrap(), context.create_graph().unwrap());
    let (node, theirs) = (mine.add((), NodeWork::empty()).unwrap(), other.add((), NodeWork::empty()).unwrap());
    assert_ne!(node, theirs, "nodes of two graphs are never equal");
    let edge = GraphEdge { from: node, to: theirs, data: EdgeData::default() };
    for error in [
        mine.add(theirs, NodeWork::empty()).unwrap_err(),
        mine.add_edges(&[edge]).unwrap_err(),
        mine.remove_node(theirs).unwrap_err(),
        mine.node_kind(theirs).unwrap_err(),
        mine.set_node(theirs, NodeWork::empty()).unwrap_err(),
        mine.body(theirs, 0).map(drop).unwrap_err(),
    ] {
        let text = error.to_string();
        assert_eq!(error.status(), Status::INVALID_VALUE, "{text}");
        assert!(text.contains("another graph") && text.contains("find_in_clone"), "{text}");
    }
    mine.remove_node(node).unwrap();
    let error = mine.node_kind(node).unwrap_err();
    assert!(error.to_string().contains("was removed"), "{error}");
}

/// A driver may use the handle of a node that was removed again.
#[test]
fn a_number_is_not_used_again() {
    let context = host();
    let mut graph = context.create_graph().unwrap();
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let node = graph.add((), NodeWork::empty()).unwrap();
        assert!(seen.insert(node), "{node:?} was another node before");
        graph.remove_node(node).unwrap();
        assert_eq!(graph.node_kind(node).unwrap_err().status(), Status::INVALID_VALUE);
    }
}

#[test]
fn a_cycle_is_called_one() {
    let context = host();
    let mut graph = context.create_graph().unwrap();
    let first = graph.add((), NodeWork::empty()).unwrap();
    let second = graph.add(first, NodeWork::empty()).unwrap();
    graph.add_edges(&[GraphEdge { from: second, to: first, data: EdgeData::default() }]).unwrap();
    let error = graph.instantiate().unwrap_err();
    assert!(error.to_string().contains("cycle"), "{error}");
}

#[test]
fn a_refused_update_says_why_and_where() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32]).unwrap();
    let (mut graph, mut other) = (context.create_graph().unwrap(), context.create_graph().unwrap());
    graph.add((), NodeWork::empty()).unwrap();
    let node = other.add((), NodeWork::fill(&mut buffer, 1u32).unwrap()).unwrap();
    let error = graph.instantiate().unwrap().update(&other).unwrap_err();
    assert_eq!(error.result(), GraphUpdateResult::NODE_KIND_CHANGED);
    assert_eq!(error.node(), Some(node));
    let text = error.to_string();
    assert!(text.contains("different kind") && text.contains("instantiate the new graph"), "{text}");
    assert_eq!(anabranch::Error::from(error).status(), Status::GRAPH_EXEC_UPDATE_FAILURE);
}

#[test]
fn a_stream_of_another_back_end_is_refused() {
    let (here, there) = (host(), host());
    let executable = here.create_graph().unwrap().instantiate().unwrap();
    let stream = there.create_stream().unwrap();
    for error in [executable.launch(&stream).unwrap_err(), executable.upload(&stream).unwrap_err()] {
        assert_eq!(error.status(), Status::INVALID_DEVICE, "{error}");
    }
}

#[test]
fn a_stream_of_another_device_will_do() {
    let instance = Instance::builder().cuda(false).host_devices(2).build().unwrap();
    let [here, there] = instance.devices() else { panic!("there are two devices") };
    let (here, there) = (here.context().unwrap(), there.context().unwrap());
    let count = Arc::new(AtomicU32::new(0));
    let inside = count.clone();
    let mut graph = here.create_graph().unwrap();
    let work = NodeWork::host_func(move || {
        inside.fetch_add(1, Ordering::SeqCst);
    });
    graph.add((), work).unwrap();
    let (executable, stream) = (graph.instantiate().unwrap(), there.create_stream().unwrap());
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_panic_in_a_node_is_reported_once_and_later_launches_run() {
    let context = host();
    let (stream, count) = (context.create_stream().unwrap(), Arc::new(AtomicU32::new(0)));
    let inside = count.clone();
    let mut graph = context.create_graph().unwrap();
    let work = NodeWork::host_func(move || {
        if inside.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("on purpose");
        }
    });
    graph.add((), work).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.is_asynchronous() && !error.is_sticky(), "{error}");
    assert!(error.to_string().contains("on purpose"), "{error}");
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn memory_of_a_graph_is_not_for_nodes_of_others() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut plain = stream.upload(&[0u32; 4]).unwrap();
    let (mut owner, mut other) = (context.create_graph().unwrap(), context.create_graph().unwrap());
    // SAFETY: nothing reads the memory.
    let (_, memory) = unsafe { owner.add_allocation::<u32>((), 4) }.unwrap();
    assert_eq!(memory.len(), 4);
    let node = other.add((), NodeWork::fill(&mut plain, 1u32).unwrap()).unwrap();
    let copy = || NodeWork::copy(&mut stream.upload(&[0u32; 4]).unwrap(), &memory).unwrap();
    for error in [
        other.add((), copy()).unwrap_err(),
        other.set_node(node, copy()).unwrap_err(),
        other.instantiate().unwrap().set_node(node, copy()).unwrap_err(),
    ] {
        assert_eq!(error.status(), Status::INVALID_VALUE, "{error}");
    }
    // SAFETY: it is refused.
    assert_eq!(unsafe { owner.add_allocation::<u32>((), 0) }.map(drop).unwrap_err().status(), Status::INVALID_VALUE);
    // SAFETY: it is refused.
    let huge = unsafe { owner.add_allocation::<u64>((), usize::MAX) };
    assert_eq!(huge.map(drop).unwrap_err().status(), Status::OUT_OF_MEMORY);
    drop(memory);
    assert_eq!(owner.nodes().unwrap().len(), 1, "dropping the buffer adds nothing");
}

#[test]
fn a_body_keeps_what_its_nodes_use() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut result, source) = (stream.upload(&[0u32]).unwrap(), stream.upload(&[6u32]).unwrap());
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let node = graph.add_conditional((), value, ConditionalKind::If, 2).unwrap();
    graph.body(node, 0).unwrap().add((), NodeWork::copy(&mut result, &source).unwrap()).unwrap();
    drop(source);
    stream.synchronize().unwrap();
    anabranch::flush_deferred_drops();
    let _others = [stream.upload(&[1u32]).unwrap(), stream.upload(&[2u32]).unwrap()];
    let executable = graph.instantiate().unwrap();
    drop(graph);
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&result).unwrap(), [6]);
}

#[test]
fn a_launch_waits_for_buffers_that_only_a_body_uses() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (mut source, mut result) = (stream.upload(&[1u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    stream.synchronize().unwrap();
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let node = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
    graph.body(node, 0).unwrap().add((), NodeWork::copy(&mut result, &source).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    let signal = hold(&context, &other);
    other.fill(&mut source, 8u32).unwrap();
    executable.launch(&stream).unwrap();
    assert!(!stream.query().unwrap());
    signal.set(1);
    assert_eq!(stream.download(&result).unwrap(), [8]);
    other.synchronize().unwrap();
}

#[test]
fn a_childs_buffers_order_its_parents_launches() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (mut source, mut result) = (stream.upload(&[1u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    stream.synchronize().unwrap();
    let mut child = context.create_graph().unwrap();
    child.add((), NodeWork::copy(&mut result, &source).unwrap()).unwrap();
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::child(&child)).unwrap();
    let executable = graph.try_clone().unwrap().instantiate().unwrap();
    let signal = hold(&context, &other);
    other.fill(&mut source, 9u32).unwrap();
    executable.launch(&stream).unwrap();
    assert!(!stream.query().unwrap());
    signal.set(1);
    assert_eq!(stream.download(&result).unwrap(), [9]);
    other.synchronize().unwrap();
}

#[test]
fn fills_of_64_bits_are_nodes_where_their_halves_are_equal() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u64; 3]).unwrap();
    let error = NodeWork::fill(&mut buffer, 1u64).map(drop).unwrap_err();
    assert!(error.to_string().contains("32 bits"), "{error}");
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(&mut buffer, 0x0000_0002_0000_0002_u64).unwrap()).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [0x0000_0002_0000_0002; 3]);
}

#[test]
fn pictures_show_what_is_inside_of_nodes() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let mut child = context.create_graph().unwrap();
    child.add((), NodeWork::fill(&mut buffer, 1u32).unwrap()).unwrap();
    let mut graph = context.create_graph().unwrap();
    let first = graph.add((), NodeWork::child(&child)).unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let second = graph.add_conditional(first, value, ConditionalKind::While, 1).unwrap();
    graph.body(second, 0).unwrap().add((), NodeWork::empty()).unwrap();
    let (dot, mermaid, json) = (graph.to_dot().unwrap(), graph.to_mermaid().unwrap(), graph.to_json().unwrap());
    for text in [&dot, &mermaid, &json] {
        assert!(text.contains("fill 16 bytes") && text.contains("while"), "{text}");
    }
    assert!(dot.contains("subgraph cluster_"), "{dot}");
    assert!(mermaid.contains("subgraph "), "{mermaid}");
}

#[test]
fn a_name_stays_inside_of_its_label() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let graph_of = |name: &str| {
        let named = HostFunction::new(name, &[], |_, _| {});
        let kernel = DualModule::new().host_function(named).load(&context).unwrap().kernel(name).unwrap();
        stream
            .capture(CaptureMode::Relaxed, |scope| scope.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()))
            .unwrap()
    };
    let dot = graph_of("a\\\"]; other [label=\"b").to_dot().unwrap();
    assert!(dot.contains(r#"[label="a\\\"]; other [label=\"b\n(kernel)"#), "{dot}");
    let mermaid = graph_of("`a\"]\nscale<f32>&#lt;`").to_mermaid().unwrap();
    let label = "[\"#96;a#quot;]<br>scale#lt;f32#gt;#amp;#35;lt;#96;<br>(kernel)";
    assert!(mermaid.contains(label), "{mermaid}");
}

#[test]
fn executables_have_numbers_of_their_own() {
    let context = host();
    let graph = context.create_graph().unwrap();
    let (one, other) = (graph.instantiate().unwrap(), graph.instantiate().unwrap());
    assert_ne!(one.id(), other.id());
    assert_eq!(one.graph_id(), other.graph_id());
}
