//! Graphs of which a node has been disabled, beside other contexts of their device.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::*;
use anabranch::{
    Buffer, ConditionalKind, Context, ContextFlags, ExecutableGraph, Instance, Node, NodeWork, Status, Stream,
    flush_deferred_drops,
};
use common::{hold, host, until};
use std::sync::Arc;
use std::time::Duration;

/// A driver that may run a graph of which a node has been disabled before work of other contexts, as NVIDIA's does.
#[derive(Debug)]
struct Early(Arc<dyn Driver>);

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Early {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties> {
        let mut properties = self.0.device_properties(device)?;
        properties.capabilities.remove(Capabilities::DISABLED_NODES_BESIDE_CONTEXTS);
        Ok(properties)
    }
}

/// The primary context of a device that may run such graphs early. Each test of this file has a device of its own, which has no
/// other contexts: those of a test that has ended may still be closing.
fn early(device: &str) -> Context {
    let wrap = |inner| Arc::new(Layered(Early(inner))) as Arc<dyn Driver>;
    let instance =
        Instance::builder().cuda(false).isolated().host_devices(4).host_check_memory(true).wrap(wrap).build().unwrap();
    instance.device(device).unwrap().context().unwrap()
}

/// Copies twos to a buffer and fills another one with them; the copy is disabled.
struct Disabled {
    buffers: [Buffer<u32>; 2],
    executable: ExecutableGraph,
    disabled: Node,
}

impl Disabled {
    fn new(stream: &Stream) -> Self {
        let mut buffers = [(); 2].map(|()| stream.upload(&[1u32; 4]).unwrap());
        let mut graph = stream.context().create_graph().unwrap();
        let [first, second] = &mut buffers;
        let twos = stream.upload(&[2u32; 4]).unwrap();
        let disabled = graph.add((), NodeWork::copy(first, &twos).unwrap()).unwrap();
        graph.add(disabled, NodeWork::fill(second, 2u32).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        executable.set_node_enabled(disabled, false).unwrap();
        Self { buffers, executable, disabled }
    }

    fn read(&self, stream: &Stream) -> [u32; 2] {
        self.buffers.each_ref().map(|buffer| stream.download(buffer).unwrap()[3])
    }
}

fn is_launched(graph: &Disabled, stream: &Stream) -> bool {
    flush_deferred_drops();
    graph.executable.launch(stream).is_ok()
}

#[test]
fn safety_139_a_graph_with_a_disabled_node_is_not_launched_beside_other_contexts() {
    let context = early("host:1");
    let stream = context.create_stream().unwrap();
    let graph = Disabled::new(&stream);
    graph.executable.launch(&stream).unwrap();
    assert_eq!(graph.read(&stream), [1, 2]);

    let another = context.device().create_context(ContextFlags::empty()).unwrap();
    let other = another.create_stream().unwrap();
    for stream in [&stream, &other] {
        let refused = graph.executable.launch(stream).unwrap_err();
        assert_eq!(refused.status(), Status::NOT_SUPPORTED, "{refused}");
        graph.executable.set_node_enabled(graph.disabled, true).unwrap();
        assert_eq!(
            graph.executable.launch(stream).unwrap_err().status(),
            Status::NOT_SUPPORTED,
            "it may run early again"
        );
        graph.executable.set_node_enabled(graph.disabled, false).unwrap();
    }
    // One whose nodes were never disabled runs everywhere.
    let mut buffer = stream.upload(&[1u32; 4]).unwrap();
    let whole = stream.capture(anabranch::CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 3)).unwrap();
    whole.instantiate().unwrap().launch(&other).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3; 4]);

    // The event is what keeps work of the other context in order, and is not complete.
    let signal = hold(&another, &other);
    stream.wait_event(&other.record_event().unwrap()).unwrap();
    drop((other, another));
    assert_eq!(graph.executable.launch(&stream).unwrap_err().status(), Status::NOT_SUPPORTED);
    signal.set(1);
    drop(signal);
    stream.synchronize().unwrap();
    // What has been used in a context keeps it.
    drop((whole, buffer));
    until("the context is closed", || is_launched(&graph, &stream));

    let (groups, _) = context.device().multiprocessors().unwrap().split(1, 1).unwrap();
    let green = context.create_green_context(&groups).unwrap();
    let part = green.create_stream().unwrap();
    for stream in [&stream, &part] {
        assert_eq!(graph.executable.launch(stream).unwrap_err().status(), Status::NOT_SUPPORTED);
    }
    drop((part, green));
    until("the green context is destroyed", || is_launched(&graph, &stream));
    assert_eq!(graph.read(&stream), [1, 2]);
}

#[test]
fn safety_139_a_fill_node_is_not_disabled() {
    let context = early("host:2");
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[1u32; 4]).unwrap();
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::fill(&mut buffer, 2u32).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    let refused = executable.set_node_enabled(node, false).unwrap_err();
    assert_eq!(refused.status(), Status::NOT_SUPPORTED, "{refused}");
    executable.set_node_enabled(node, true).unwrap();
    assert!(executable.is_node_enabled(node).unwrap());
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [2; 4]);
}

#[test]
fn safety_189_no_node_beside_a_conditional_one_is_disabled() {
    let context = early("host:3");
    let stream = context.create_stream().unwrap();
    let (mut buffer, zeros) = (stream.upload(&[1u32; 4]).unwrap(), stream.upload(&[0u32; 4]).unwrap());
    let mut graph = context.create_graph().unwrap();
    let copy = graph.add((), NodeWork::copy(&mut buffer, &zeros).unwrap()).unwrap();
    let value = graph.create_conditional(Some(0)).unwrap();
    let conditional = graph.add_conditional(copy, value, ConditionalKind::If, 1).unwrap();
    let executable = graph.instantiate().unwrap();
    let refused = executable.set_node_enabled(copy, false).unwrap_err();
    assert_eq!(refused.status(), Status::NOT_SUPPORTED, "{refused}");
    // The driver's answer for a node that can never be disabled stays what it is.
    assert_eq!(executable.set_node_enabled(conditional, false).unwrap_err().status(), Status::INVALID_VALUE);
    executable.set_node_enabled(copy, true).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [0; 4]);
}

#[test]
fn a_graph_with_a_disabled_node_comes_in_its_turn_in_a_stream_of_another_context() {
    let context = host();
    let elsewhere = context.device().create_context(ContextFlags::empty()).unwrap();
    let (stream, other) = (context.create_stream().unwrap(), elsewhere.create_stream().unwrap());
    let mut graph = Disabled::new(&stream);
    let nines = other.upload(&[9u32; 4]).unwrap();
    let signal = hold(&elsewhere, &other);
    // The graph overwrites this.
    other.copy_peer(&mut graph.buffers[1], &nines).unwrap();
    graph.executable.launch(&other).unwrap();
    let event = other.record_event().unwrap();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| graph.read(&stream));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!event.query().unwrap() && !read.is_finished());
        signal.set(1);
        assert_eq!(read.join().unwrap(), [1, 2]);
    });
    other.synchronize().unwrap();
    graph.executable.set_node_enabled(graph.disabled, true).unwrap();
    graph.executable.launch(&other).unwrap();
    assert_eq!(graph.read(&stream), [2, 2]);
}
