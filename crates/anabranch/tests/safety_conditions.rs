//! Conditional nodes: their values, their bodies, and what their parts use.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, CaptureScope, Conditional, ConditionalKind, Context, ContextFlags, Graph, GraphNodeKind, Node,
    NodeWork, Status,
};
use common::{checked_host, host};

/// A graph with a conditional node, a node that sets its value to what memory has, and the body, which is empty.
fn with_condition(context: &Context, value: &Buffer<u32>) -> (Graph, Node, Conditional, Node) {
    let mut graph = context.create_graph().unwrap();
    let conditional = graph.create_conditional(None).unwrap();
    let setter = graph.add((), NodeWork::set_conditional(conditional, value).unwrap()).unwrap();
    let node = graph.add_conditional(setter, conditional, ConditionalKind::If, 1).unwrap();
    (graph, setter, conditional, node)
}

#[test]
fn safety_71_an_executable_graph_sets_only_conditional_values_that_it_has() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let one = stream.upload(&[1u32]).unwrap();
    let (graph, setter, own, _) = with_condition(&context, &one);
    let executable = graph.instantiate().unwrap();
    let set = |value| executable.set_node(setter, NodeWork::set_conditional(value, &one).unwrap());
    set(own).unwrap();
    executable.launch(&stream).unwrap();
    let (other, ..) = with_condition(&context, &one);
    executable.update(&other).unwrap();
    assert_eq!(set(own).unwrap_err().status(), Status::INVALID_VALUE);
    executable.launch(&stream).unwrap();
    executable.update(&graph).unwrap();
    set(own).unwrap();
    executable.launch(&stream).unwrap();

    let (mut graph, setter, ..) = with_condition(&context, &one);
    let executable = graph.instantiate().unwrap();
    let later = graph.create_conditional(None).unwrap();
    let refused = executable.set_node(setter, NodeWork::set_conditional(later, &one).unwrap()).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE, "{refused}");
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn safety_142_a_body_is_captured_into_by_streams_of_its_own_context_only() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let one = stream.upload(&[1u32]).unwrap();
    let (mut graph, _, _, node) = with_condition(&context, &one);
    let elsewhere = context.device().create_context(ContextFlags::empty()).unwrap();
    for other in [elsewhere.create_stream().unwrap(), host().create_stream().unwrap()] {
        let mut body = graph.body(node, 0).unwrap();
        let refused = other.capture_into(&mut body, (), CaptureMode::Relaxed, |_| Ok(())).unwrap_err();
        assert_eq!(refused.status(), Status::INVALID_HANDLE, "{refused}");
        assert!(!other.is_capturing().unwrap());
    }
    let mut memory = stream.upload(&[1u32]).unwrap();
    let mut body = graph.body(node, 0).unwrap();
    stream.capture_into(&mut body, (), CaptureMode::Relaxed, |scope| scope.fill(&mut memory, 2u32)).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&memory).unwrap(), [2]);
}

#[test]
fn safety_108_memory_of_a_part_belongs_to_the_capture_between_the_parts() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let memory = std::cell::RefCell::new(stream.upload(&[1u32]).unwrap());
    let one = stream.upload(&[1u32]).unwrap();
    stream.synchronize().unwrap();
    let captured = stream.capture(CaptureMode::Relaxed, |scope| {
        let first = |part: &CaptureScope<'_>| part.fill(&mut *memory.borrow_mut(), 7u32);
        scope.capture_if_else(&one, first, |_| {
            let read = other.download(&*memory.borrow()).unwrap_err();
            assert_eq!(read.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{read}");
            let written = other.fill(&mut *memory.borrow_mut(), 8u32).unwrap_err();
            assert_eq!(written.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{written}");
            Ok(())
        })
    });
    captured.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&*memory.borrow()).unwrap(), [7]);
}

/// Whether a path of edges leads from one node to another.
fn leads(graph: &Graph, from: Node, to: Node) -> bool {
    let edges = graph.edges().unwrap();
    let (mut reached, mut next) = (vec![from], 0);
    while let Some(&node) = reached.get(next) {
        let further = edges.iter().filter(|edge| edge.from == node && !reached.contains(&edge.to)).map(|edge| edge.to);
        let further: Vec<Node> = further.collect();
        reached.extend(further);
        next += 1;
    }
    reached.contains(&to)
}

#[test]
fn safety_108_what_a_part_uses_is_ordered_by_its_own_node() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let [mut first, mut second, mut copy] = [(); 3].map(|()| stream.upload(&[1u32]).unwrap());
    let one = stream.upload(&[1u32]).unwrap();
    stream.synchronize().unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        // A condition of another stream begins and ends while the parts of this one are captured.
        let between = |_: &CaptureScope<'_>| {
            other.capture_scope(CaptureMode::Relaxed)?.capture_if(&one, |part| part.fill(&mut second, 5u32))
        };
        scope.capture_if_else(&one, |part| part.fill(&mut first, 7u32), between)?;
        other.copy(&mut copy, &first)?;
        scope.join(&other)
    });
    let graph = graph.unwrap();
    let of_kind = |kind| {
        let nodes = graph.nodes().unwrap().into_iter();
        nodes.filter(|&node| graph.node_kind(node).unwrap() == kind).collect::<Vec<_>>()
    };
    let copied = of_kind(GraphNodeKind::COPY)[0];
    for condition in of_kind(GraphNodeKind::CONDITIONAL) {
        assert!(leads(&graph, condition, copied), "{}", graph.to_mermaid().unwrap());
    }
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&copy).unwrap(), [7]);
    assert_eq!(stream.download(&second).unwrap(), [5]);
}

#[test]
fn safety_108_a_condition_within_another_one_uses_no_memory_of_its_parts() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let memory = std::cell::RefCell::new(stream.upload(&[1u32]).unwrap());
    let one = stream.upload(&[1u32]).unwrap();
    stream.synchronize().unwrap();
    let fill = |scope: &CaptureScope<'_>, value: u32| scope.fill(&mut *memory.borrow_mut(), value);
    // Its node would come before that of the condition around it, although it is captured behind the part that uses the memory.
    let within = |value| {
        let condition = other.capture_scope(CaptureMode::Relaxed)?.capture_if(&one, |part| fill(part, value));
        assert_eq!(condition.unwrap_err().status(), Status::ILLEGAL_STATE);
        Ok(())
    };
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        let second = |part: &CaptureScope<'_>| {
            within(5)?;
            fill(part, 9)?;
            within(6)
        };
        scope.capture_if_else(&one, |part| fill(part, 7), second)?;
        other.capture_scope(CaptureMode::Relaxed)?.capture_if(&one, |part| fill(part, 8))?;
        scope.join(&other)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&*memory.borrow()).unwrap(), [8]);
}

#[test]
fn safety_108_a_condition_captured_within_another_one_may_use_what_its_own_part_uses() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let one = stream.upload(&[1u32]).unwrap();
    let (mut again, mut filled) = (stream.upload(&[1u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    stream.synchronize().unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        // Captured in the outer graph, before the node of the outer condition.
        scope.capture_if(&one, |_| {
            scope.capture_while(&mut again, |part, again| {
                part.fill(&mut filled, 5u32)?;
                part.fill(again.reborrow(), 0u32)
            })
        })
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((stream.download(&filled).unwrap(), stream.download(&again).unwrap()), (vec![5], vec![0]));
}
