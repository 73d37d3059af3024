//! Classes of defects of captures that several threads submit work to, and of captures that fail. `docs/safety.md` lists them
//! all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, FillPattern, Forward, GraphHandle, Layered, Live};
use anabranch::hal::{AddedNode, Dependency, NodeParameters};
use anabranch::{
    CaptureMode, ConditionalKind, Context, DevicePointer, Graph, Instance, NodeWork, Status, StreamHandle,
};
use common::{assert_ends, checked_host};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Action = Box<dyn FnOnce() + Send>;

/// What happens beside the next call of the driver that captures a fill, or adds a node to a graph.
#[derive(Clone, Default)]
struct Beside {
    fill: Arc<Mutex<Option<Action>>>,
    node: Arc<Mutex<Option<Action>>>,
}

struct Interrupted {
    inner: Arc<dyn Driver>,
    beside: Beside,
}

impl fmt::Debug for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Interrupted")
    }
}

fn happen(action: &Mutex<Option<Action>>) {
    let action = action.lock().unwrap().take();
    if let Some(action) = action {
        action();
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Interrupted {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn fill_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        happen(&self.beside.fill);
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.fill_async(call, address, pattern, count, stream) }
    }

    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> hal::Result<AddedNode> {
        happen(&self.beside.node);
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.graph_add_node(call, graph, dependencies, parameters) }
    }
}

fn interrupted() -> (Context, Beside) {
    let beside = Beside::default();
    let of_layer = beside.clone();
    let wrap = move |inner| Arc::new(Layered(Interrupted { inner, beside: of_layer.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    (instance.device("host").unwrap().context().unwrap(), beside)
}

/// Whether all nodes are in one order.
fn is_a_chain(graph: &Graph) -> bool {
    let (nodes, edges) = (graph.nodes().unwrap(), graph.edges().unwrap());
    let is_behind = |later, earlier| {
        let (mut reached, mut next) = (vec![earlier], 0);
        while let Some(&node) = reached.get(next) {
            next += 1;
            reached.extend(edges.iter().filter(|edge| edge.from == node).map(|edge| edge.to));
        }
        reached.contains(&later)
    };
    nodes.iter().all(|&one| nodes.iter().all(|&other| is_behind(one, other) || is_behind(other, one)))
}

#[test]
fn safety_68_two_threads_that_submit_to_one_stream_of_a_capture_note_their_own_uses() {
    let (context, beside) = interrupted();
    let (first, second) = (Arc::new(context.create_stream().unwrap()), context.create_stream().unwrap());
    let mut shared = first.upload(&[0u32; 4]).unwrap();
    let mut other = first.upload(&[0u32; 4]).unwrap();
    first.begin_capture(CaptureMode::Relaxed).unwrap();
    second.wait_stream(&first).unwrap();
    let stream = first.clone();
    // The fill of one thread is ordered, and that of another one captured, before the first one is captured.
    let fill_other = move || std::thread::spawn(move || stream.fill(&mut other, 2u32).unwrap()).join().unwrap();
    *beside.fill.lock().unwrap() = Some(Box::new(fill_other));
    first.fill(&mut shared, 1u32).unwrap();
    second.fill(&mut shared, 3u32).unwrap();
    first.wait_stream(&second).unwrap();
    let graph = first.end_capture().unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_69_nobody_submits_work_between_the_parts_of_a_condition_and_its_node() {
    let (context, beside) = interrupted();
    let stream = Arc::new(context.create_stream().unwrap());
    let condition = stream.upload(&[1u32]).unwrap();
    let mut inside = stream.upload(&[0u32; 4]).unwrap();
    let mut beside_it = stream.upload(&[0u32; 4]).unwrap();
    stream.synchronize().unwrap();
    let (other, filled) = (stream.clone(), Arc::new(Mutex::new(None)));
    let thread = filled.clone();
    let fill = move || {
        *thread.lock().unwrap() =
            Some(std::thread::spawn(move || other.fill(&mut beside_it, 2u32).map(|()| beside_it)));
        // Where the other thread does not wait for this call, it is ready by now.
        std::thread::sleep(Duration::from_millis(100));
    };
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        *beside.node.lock().unwrap() = Some(Box::new(fill));
        scope.capture_if(&condition, |part| part.fill(&mut inside, 1u32))?;
        let mut beside_it = filled.lock().unwrap().take().unwrap().join().unwrap()?;
        scope.fill(&mut beside_it, 3u32)
    });
    let graph = graph.unwrap();
    assert!(is_a_chain(&graph), "{}", graph.to_mermaid().unwrap());
}

#[test]
fn safety_70_a_conditional_part_that_fails_drops_its_memory_when_its_streams_are_free() {
    assert_ends(|| {
        let context = checked_host();
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let condition = stream.upload(&[1u32]).unwrap();
        let mut words = stream.upload(&[0u32; 4]).unwrap();
        let mut more = stream.upload(&[0u32; 4]).unwrap();
        let failed = stream.capture(CaptureMode::Relaxed, |scope| {
            scope.capture_if(&condition, |part| {
                let inner = part.allocate_zeroed::<u32>(1)?;
                part.capture_if(&inner, |part| part.fill(&mut words, 1u32))?;
                drop(inner);
                // It never joins the part again, which therefore fails.
                part.fork(&other)?;
                other.fill(&mut more, 1u32)
            })
        });
        assert!(failed.is_err());
        assert_eq!(stream.download(&words).unwrap(), [0; 4]);
    });
}

#[test]
fn safety_71_an_executable_graph_sets_no_conditional_value_of_another_graph() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let word = stream.upload(&[1u32]).unwrap();
    let (mut graph, mut other) = (context.create_graph().unwrap(), context.create_graph().unwrap());
    let (own, foreign) = (graph.create_conditional(Some(1)).unwrap(), other.create_conditional(Some(1)).unwrap());
    let node = graph.add((), NodeWork::set_conditional(own, &word).unwrap()).unwrap();
    graph.add_conditional(node, own, ConditionalKind::If, 1).unwrap();
    let executable = graph.instantiate().unwrap();
    let refused = executable.set_node(node, NodeWork::set_conditional(foreign, &word).unwrap()).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    executable.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}
