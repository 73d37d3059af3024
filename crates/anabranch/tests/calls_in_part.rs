//! Calls that a driver refuses after it has done a part of them, or all.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{
    self, AddedNode, Call, Dependency, DevicePointer, Driver, ExecutableGraphHandle, Failure, FillPattern, Forward,
    GraphHandle, GraphNodeHandle, Layered, Live, NodeParameters, StreamHandle, Value, WaitValueFlags,
};
use anabranch::{
    Buffer, Context, Graph, HostFunction, HostModule, Instance, Kernel, LaunchConfig, Module, Node, NodeWork, Status,
    flush_deferred_drops,
};
use common::{assert_ends, until};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What the layer does.
#[derive(Default)]
struct Mode {
    /// Calls are made, and then refused.
    refuses: AtomicBool,
    /// Where a fill waits for the number 1 before it is made. 0: nowhere.
    waits_at: AtomicU64,
}

struct Layer {
    inner: Arc<dyn Driver>,
    mode: Arc<Mode>,
}

impl Layer {
    /// The status of a driver that has made a part of a call.
    fn answer_unknown<T>(&self, done: hal::Result<T>) -> hal::Result<T> {
        self.answer(done).map_err(|failure| Failure { status: Status::UNKNOWN, ..failure })
    }

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

// SAFETY: all calls are forwarded as they are, some behind a wait for a number of the test's.
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
        self.answer_unknown(unsafe { self.inner.graph_add_node(call, graph, dependencies, parameters) })
    }

    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> hal::Result<()> {
        // SAFETY: the caller keeps what the method asks for.
        self.answer_unknown(unsafe { self.inner.graph_node_set_parameters(call, node, parameters) })
    }

    unsafe fn executable_set_node_parameters(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> hal::Result<()> {
        // SAFETY: the caller keeps what the method asks for.
        self.answer_unknown(unsafe { self.inner.executable_set_node_parameters(call, executable, node, parameters) })
    }

    unsafe fn fill_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        let at = self.mode.waits_at.load(Ordering::SeqCst);
        if at != 0 {
            let flags = WaitValueFlags::empty();
            // SAFETY: the test keeps its number until the stream has waited.
            unsafe { self.inner.stream_wait_value(call, stream, DevicePointer(at), Value::U32(1), flags) }?;
        }
        // SAFETY: the caller keeps what the method asks for.
        self.answer(unsafe { self.inner.fill_async(call, address, pattern, count, stream) })
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
    assert_eq!(give(work).unwrap_err().status(), Status::UNKNOWN);
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
fn safety_119_a_graph_keeps_what_a_node_uses_that_was_changed_and_refused() {
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
    // It goes with the graph.
    until("the end of what it uses", || exists.upgrade().is_none());
}

#[test]
fn safety_119_a_graph_keeps_what_a_node_uses_that_was_added_and_refused() {
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
fn safety_119_an_executable_graph_keeps_what_a_node_uses_that_was_changed_and_refused() {
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

#[test]
fn safety_120_memory_outlasts_a_refused_fill_of_which_a_part_was_queued() {
    assert_ends(|| {
        let mode = Arc::<Mode>::default();
        let context = context(&mode);
        let other = context.create_stream().unwrap();
        let mut go = context.allocate_pinned::<u32>(1).unwrap();
        let go_at = std::ptr::from_mut(&mut go.as_mut_slice().unwrap()[0]);
        // SAFETY: the number is aligned, is accessed atomically only from here on, and lives longer.
        let number = unsafe { AtomicU32::from_ptr(go_at) };
        let mut buffer = other.upload(&[1u64; 1000]).unwrap();
        other.synchronize().unwrap();
        mode.waits_at.store(go_at.expose_provenance() as u64, Ordering::SeqCst);
        // Nobody but this thread could record an event in this stream later.
        let stream = context.per_thread_stream().unwrap();
        mode.refuses.store(true, Ordering::SeqCst);
        let refused = stream.fill(&mut buffer, 2u64);
        assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
        mode.refuses.store(false, Ordering::SeqCst);
        mode.waits_at.store(0, Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Long enough for memory that is not kept to have been used again.
                std::thread::sleep(std::time::Duration::from_millis(50));
                number.store(1, Ordering::SeqCst);
            });
            scope.spawn(|| {
                drop(buffer);
                let again = other.upload(&[3u64; 1000]).unwrap();
                assert_eq!(other.download(&again).unwrap(), [3; 1000]);
            });
        });
        stream.synchronize().unwrap();
        drop((stream, go));
        assert_sound(&context);
    });
}
