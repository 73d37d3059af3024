//! Calls that a driver refuses after it has done a part of them, or all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::hal::{
    self, AddedNode, Call, Dependency, Driver, ExecutableGraphHandle, Failure, Forward, GraphHandle, GraphNodeHandle,
    Layered, Live, NodeParameters,
};
use anabranch::{
    Buffer, Context, Graph, HostFunction, HostModule, Instance, Kernel, LaunchConfig, Module, Node, NodeWork, Status,
    flush_deferred_drops,
};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// What the layer does.
#[derive(Default)]
struct Mode {
    /// Calls are made, and then refused.
    refuses: AtomicBool,
}

struct Layer {
    inner: Arc<dyn Driver>,
    mode: Arc<Mode>,
}

impl Layer {
    fn answer<T>(&self, done: hal::Result<T>) -> hal::Result<T> {
        let refuses = self.mode.refuses.load(Ordering::SeqCst);
        done.and_then(|value| if refuses { Err(Failure::new(Status::INVALID_VALUE)) } else { Ok(value) })
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Layer")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Layer {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> hal::Result<AddedNode> {
        // SAFETY: the caller keeps what the method asks for.
        self.answer(unsafe { self.inner.graph_add_node(call, graph, dependencies, parameters) })
    }

    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> hal::Result<()> {
        // SAFETY: the caller keeps what the method asks for.
        self.answer(unsafe { self.inner.graph_node_set_parameters(call, node, parameters) })
    }

    unsafe fn executable_set_node_parameters(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> hal::Result<()> {
        // SAFETY: the caller keeps what the method asks for.
        self.answer(unsafe { self.inner.executable_set_node_parameters(call, executable, node, parameters) })
    }
}

fn context(mode: &Arc<Mode>) -> Context {
    let mode = mode.clone();
    let wrap = move |inner| Arc::new(Layered(Layer { inner, mode: mode.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// A kernel that writes a number, and what says whether its code still exists.
fn kernel(context: &Context) -> (Kernel, Weak<()>) {
    let code = Arc::new(());
    let exists = Arc::downgrade(&code);
    let function = HostFunction::new("write", &[8, 4], move |block, arguments| {
        let _code = &code;
        let (to, value) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1));
        block.phase(|_, _| to.set(0, value));
    });
    let module = Module::load_host(context, &HostModule::new().with_function(function)).unwrap();
    (module.kernel("write").unwrap(), exists)
}

fn work<'a>(kernel: &Kernel, to: &'a mut Buffer<u32>, value: u32) -> NodeWork<'a> {
    // SAFETY: the kernel is a closure, and gets its arguments.
    unsafe { NodeWork::kernel(kernel, &LaunchConfig::new(1, 1), (to, value)) }.unwrap()
}

/// Gives a node other work, whose memory and code nothing else keeps. The layer refuses what it has done.
fn give(context: &Context, mode: &Mode, give: impl FnOnce(NodeWork<'_>) -> anabranch::Result<()>) -> Weak<()> {
    let stream = context.create_stream().unwrap();
    let ((kernel, exists), mut buffer) = (kernel(context), stream.upload(&[0u32]).unwrap());
    stream.synchronize().unwrap();
    let work = work(&kernel, &mut buffer, 2);
    mode.refuses.store(true, Ordering::SeqCst);
    assert_eq!(give(work).unwrap_err().status(), Status::INVALID_VALUE);
    mode.refuses.store(false, Ordering::SeqCst);
    drop((kernel, buffer));
    stream.synchronize().unwrap();
    flush_deferred_drops();
    exists
}

fn graph_with_a_node(context: &Context) -> (Graph, Node, Buffer<u32>) {
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32]).unwrap();
    stream.synchronize().unwrap();
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), work(&kernel(context).0, &mut buffer, 1)).unwrap();
    (graph, node, buffer)
}

fn assert_sound(context: &Context) {
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn a_graph_keeps_what_a_node_uses_that_was_changed_and_refused() {
    let mode = Arc::<Mode>::default();
    let context = context(&mode);
    let stream = context.create_stream().unwrap();
    let (mut graph, node, buffer) = graph_with_a_node(&context);
    let exists = give(&context, &mode, |work| graph.set_node(node, work));
    assert!(exists.upgrade().is_some(), "the node may use it");
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    assert_sound(&context);
    drop((executable, graph, buffer));
    flush_deferred_drops();
    assert!(exists.upgrade().is_none(), "it goes with the graph");
}

#[test]
fn a_graph_keeps_what_a_node_uses_that_was_added_and_refused() {
    let mode = Arc::<Mode>::default();
    let context = context(&mode);
    let stream = context.create_stream().unwrap();
    let mut graph = context.create_graph().unwrap();
    let exists = give(&context, &mode, |work| graph.add((), work).map(drop));
    assert!(exists.upgrade().is_some(), "the node may be there");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_sound(&context);
}

#[test]
fn an_executable_graph_keeps_what_a_node_uses_that_was_changed_and_refused() {
    let mode = Arc::<Mode>::default();
    let context = context(&mode);
    let stream = context.create_stream().unwrap();
    let (graph, node, _buffer) = graph_with_a_node(&context);
    let executable = graph.instantiate().unwrap();
    let exists = give(&context, &mode, |work| executable.set_node(node, work));
    assert!(exists.upgrade().is_some(), "the node may use it");
    executable.launch(&stream).unwrap();
    assert_sound(&context);
}
