//! Classes of defects where a call of the driver fails in the middle of a call of the library, or another thread comes between
//! two calls of the driver. `docs/safety.md` lists them all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "safety_faults/layer.rs"]
mod layer;

use anabranch::{
    CaptureMode, ConditionalKind, Context, DevicePointer, GraphNodeKind, NodeWork, Status, flush_deferred_drops,
};
use common::{hold, is_a_chain, until};
use layer::{Faults, RECORDED, UPDATED};
use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Whether memory is allocated.
fn is_allocated(context: &Context, address: DevicePointer) -> bool {
    let allocations = context.device().memory_report().unwrap().allocations;
    allocations.iter().any(|allocation| allocation.address == address.0)
}

fn no_findings(context: &Context) {
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

/// Work of another thread that begins in the middle of a call.
#[derive(Clone, Default)]
struct Beside(Arc<Mutex<Option<JoinHandle<()>>>>);

impl Beside {
    fn begin(&self, work: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(thread::spawn(work));
        // Where the other thread does not wait for this call, it is ready by now.
        thread::sleep(Duration::from_millis(100));
    }

    fn join(&self) {
        self.0.lock().unwrap().take().unwrap().join().unwrap();
    }
}

#[test]
fn safety_76_work_in_the_default_stream_of_a_thread_that_could_not_be_recorded_is_not_forgotten() {
    let faults = Faults::default();
    let context = faults.context();
    let home = context.create_stream().unwrap();
    let mut dropped = home.upload(&[0u32; 4]).unwrap();
    let mut used = home.upload(&[0u32; 4]).unwrap();
    let (sender, receiver) = channel();
    let (done, wait) = channel::<()>();
    let (of_thread, of_layer) = (context.clone(), faults.clone());
    let thread = thread::spawn(move || {
        let stream = of_thread.per_thread_stream().unwrap();
        stream.fill(&mut dropped, 1u32).unwrap();
        stream.fill(&mut used, 1u32).unwrap();
        of_layer.fail("event_record");
        let held = hold(&of_thread, &stream);
        stream.fill(&mut dropped, 2u32).unwrap();
        stream.fill(&mut used, 2u32).unwrap();
        of_layer.mend("event_record");
        sender.send((dropped, used, held)).unwrap();
        wait.recv().unwrap();
        stream.synchronize().unwrap();
    });
    let (dropped, mut used, held) = receiver.recv().unwrap();
    let address = dropped.device_pointer();
    drop(dropped);
    flush_deferred_drops();
    home.synchronize().unwrap();
    assert!(is_allocated(&context, address), "it is freed before the work that uses it");
    assert_eq!(home.fill(&mut used, 3u32).unwrap_err().status(), Status::OUT_OF_MEMORY);
    held.set(1);
    done.send(()).unwrap();
    thread.join().unwrap();
    home.fill(&mut used, 3u32).unwrap();
    assert_eq!(home.download(&used).unwrap(), [3; 4]);
    until("the free", || !is_allocated(&context, address));
    no_findings(&context);
}

#[test]
fn safety_77_order_in_a_capture_that_the_driver_has_refused_is_not_taken_for_made() {
    let faults = Faults::default();
    let context = faults.context();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        scope.fill(&mut buffer, 1u32)?;
        faults.fail("stream_update_capture_dependencies");
        assert_eq!(other.fill(&mut buffer, 2u32).unwrap_err().status(), Status::OUT_OF_MEMORY);
        faults.mend("stream_update_capture_dependencies");
        other.fill(&mut buffer, 2u32)?;
        scope.join(&other)
    });
    let graph = graph.unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_77_order_behind_captured_work_whose_nodes_could_not_be_asked_for_is_made_later() {
    let faults = Faults::default();
    let context = faults.context();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        faults.fail("stream_capture_info");
        scope.fill(&mut buffer, 1u32)?;
        assert_eq!(other.fill(&mut buffer, 2u32).unwrap_err().status(), Status::OUT_OF_MEMORY);
        faults.mend("stream_capture_info");
        other.fill(&mut buffer, 2u32)?;
        scope.join(&other)
    });
    let graph = graph.unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_77_work_that_is_captured_between_a_record_and_the_wait_for_it_is_followed() {
    let context = Faults::default().context();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        let event = scope.record_event()?;
        scope.fill(&mut buffer, 1u32)?;
        other.wait_event(&event)?;
        other.fill(&mut buffer, 2u32)?;
        scope.join(&other)
    });
    let graph = graph.unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_78_a_thread_does_not_rely_on_order_that_another_one_is_about_to_make() {
    let faults = Faults::default();
    let context = faults.context();
    let (stream, other) = (context.create_stream().unwrap(), Arc::new(context.create_stream().unwrap()));
    let [mut first, mut second] = [stream.upload(&[0u32; 4]).unwrap(), stream.upload(&[0u32; 4]).unwrap()];
    stream.synchronize().unwrap();
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        let (shared, beside) = (Arc::new(scope.allocate_zeroed::<u32>(4)?), Beside::default());
        let (of_thread, read, begun) = (other.clone(), shared.clone(), beside.clone());
        let copy = move || of_thread.copy(&mut second, &*read).unwrap();
        faults.beside("stream_update_capture_dependencies", move || begun.begin(copy));
        other.copy(&mut first, &*shared)?;
        beside.join();
        scope.join(&other)
    });
    let graph = graph.unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_78_a_record_in_a_capture_does_not_stand_for_what_another_thread_captures_behind_it() {
    let faults = Faults::default();
    let context = faults.context();
    let (stream, other) = (Arc::new(context.create_stream().unwrap()), context.create_stream().unwrap());
    let shared = Arc::new(Mutex::new(stream.upload(&[0u32; 4]).unwrap()));
    stream.synchronize().unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    let (of_thread, written, beside) = (stream.clone(), shared.clone(), Beside::default());
    let fill = move || of_thread.fill(&mut *written.lock().unwrap(), 1u32).unwrap();
    let begun = beside.clone();
    faults.beside(RECORDED, move || begun.begin(fill));
    let event = stream.record_event().unwrap();
    beside.join();
    other.wait_event(&event).unwrap();
    other.fill(&mut *shared.lock().unwrap(), 2u32).unwrap();
    stream.wait_stream(&other).unwrap();
    let graph = stream.end_capture().unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_79_a_body_that_was_filled_in_part_is_not_launched() {
    let faults = Faults::default();
    let context = faults.context();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let node = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
    let mut body = graph.body(node, 0).unwrap();
    faults.fail("graph_add_edges");
    let refused = stream.capture_into(&mut body, (), CaptureMode::Relaxed, |scope| {
        scope.fill(&mut buffer, 1u32)?;
        scope.fill(&mut buffer, 2u32)
    });
    assert_eq!(refused.unwrap_err().status(), Status::OUT_OF_MEMORY);
    faults.mend("graph_add_edges");
    assert_eq!(body.nodes().unwrap_err().status(), Status::ILLEGAL_STATE);
    assert_eq!(graph.instantiate().unwrap_err().status(), Status::ILLEGAL_STATE);
}

#[test]
fn safety_79_no_graph_comes_of_a_capture_whose_condition_was_captured_in_part() {
    let faults = Faults::default();
    let context = faults.context();
    let stream = context.create_stream().unwrap();
    let mut condition = stream.upload(&[1u32]).unwrap();
    let mut graph = context.create_graph().unwrap();
    let mut failed = 0;
    // A loop without its last node would never end.
    loop {
        faults.fail_after(failed, "graph_add_node");
        let mut capture_loop = |into: Option<&mut anabranch::Graph>| {
            let mut is_captured = false;
            let body = |scope: &anabranch::CaptureScope<'_>| {
                let part = scope.capture_while(&mut condition, |part, left| part.fill(left.reborrow(), 0u32));
                is_captured = part.is_ok();
                Ok(())
            };
            let ended = match into {
                Some(graph) => stream.capture_into(graph, (), CaptureMode::Relaxed, body),
                None => stream.capture(CaptureMode::Relaxed, body).map(drop),
            };
            assert_eq!(is_captured, ended.is_ok());
            ended.map_err(|error| error.status())
        };
        let ended = capture_loop(None);
        faults.fail_after(failed, "graph_add_node");
        assert_eq!(capture_loop(Some(&mut graph)), ended);
        faults.mend("graph_add_node");
        if ended.is_ok() {
            break;
        }
        assert_eq!(ended, Err(Status::STREAM_CAPTURE_INVALIDATED));
        assert_eq!(graph.nodes().unwrap(), []);
        failed += 1;
    }
    assert!(failed > 1, "{failed} nodes are added by hand");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&condition).unwrap(), [0]);
    no_findings(&context);
}

#[test]
fn safety_80_what_belongs_to_a_graph_that_a_failed_capture_has_destroyed_is_not_used_in_its_place() {
    let context = Faults::default().context();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[0u32]).unwrap();
    let word = stream.upload(&[1u32]).unwrap();
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    // SAFETY: nothing reads the memory.
    let (_, mut memory) = unsafe { graph.add_allocation::<u32>((), 1) }.unwrap();
    let failed = stream.capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        // It never joins the capture again.
        other.fill(&mut buffer, 1u32)
    });
    assert_eq!(failed.unwrap_err().status(), Status::STREAM_CAPTURE_UNJOINED);
    let setting = graph.add((), NodeWork::set_conditional(value, &word).unwrap());
    assert_eq!(setting.unwrap_err().status(), Status::INVALID_VALUE);
    let conditional = graph.add_conditional((), value, ConditionalKind::If, 1);
    assert_eq!(conditional.unwrap_err().status(), Status::INVALID_VALUE);
    let filling = graph.add((), NodeWork::fill(&mut memory, 1u32).unwrap());
    assert_eq!(filling.unwrap_err().status(), Status::INVALID_VALUE);
    graph.add((), NodeWork::fill(&mut buffer, 2u32).unwrap()).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [2]);
    no_findings(&context);
}

#[test]
fn safety_82_memory_is_kept_where_a_layer_unwinds_when_it_is_asked_whether_the_work_is_complete() {
    let faults = Faults::default();
    let context = faults.context();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(16).unwrap();
    let held = hold(&context, &stream);
    stream.fill(&mut pinned, 1u32).unwrap();
    let address = pinned.device_pointer();
    faults.beside("event_query", || resume_unwind(Box::new("on purpose")));
    drop(pinned);
    flush_deferred_drops();
    let other = context.allocate_pinned::<u32>(16).unwrap();
    assert_ne!(other.device_pointer(), address, "the memory is given away while work uses it");
    held.set(1);
    no_findings(&context);
}

#[test]
fn safety_82_an_update_that_unwinds_has_retained_what_the_nodes_refer_to() {
    let faults = Faults::default();
    let context = faults.context();
    let stream = context.create_stream().unwrap();
    let [mut first, mut second] = [stream.upload(&[0u32]).unwrap(), stream.upload(&[0u32]).unwrap()];
    let fill = |buffer: &mut anabranch::Buffer<u32>| {
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::fill(buffer, 1u32).unwrap()).unwrap();
        graph
    };
    let executable = fill(&mut first).instantiate().unwrap();
    faults.beside(UPDATED, || resume_unwind(Box::new("on purpose")));
    executable.update(&fill(&mut second)).unwrap_err();
    let address = second.device_pointer();
    drop(second);
    flush_deferred_drops();
    stream.synchronize().unwrap();
    assert!(is_allocated(&context, address));
    executable.launch(&stream).unwrap();
    no_findings(&context);
}

#[test]
fn safety_43_a_node_that_cannot_be_asked_for_its_work_is_neither_disabled_nor_changed() {
    let faults = Faults::default();
    let context = faults.context();
    let stream = context.create_stream().unwrap();
    let [mut copied, mut other] = [(); 2].map(|()| stream.upload(&[1u32; 4]).unwrap());
    let captured = stream.capture(CaptureMode::Relaxed, |scope| {
        let memory = scope.allocate_zeroed::<u32>(4)?;
        scope.copy(&mut copied, &memory)
    });
    let mut graph = captured.unwrap();
    let executable = graph.instantiate().unwrap();
    let mut nodes = graph.nodes().unwrap().into_iter();
    let fill = nodes.find(|&node| graph.node_kind(node).unwrap() == GraphNodeKind::FILL).unwrap();
    for call in ["graph_node_parameters", "graph_node_kind"] {
        faults.fail(call);
        assert_eq!(executable.set_node_enabled(fill, false).unwrap_err().status(), Status::OUT_OF_MEMORY);
        let work = NodeWork::fill(&mut other, 7u32).unwrap();
        assert_eq!(executable.set_node(fill, work).unwrap_err().status(), Status::OUT_OF_MEMORY);
        let work = NodeWork::fill(&mut other, 7u32).unwrap();
        assert_eq!(graph.set_node(fill, work).unwrap_err().status(), Status::OUT_OF_MEMORY);
        faults.mend(call);
    }
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&copied).unwrap(), [0; 4]);
}
