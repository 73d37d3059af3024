//! What several threads, or one in the middle of something, must not be able to bring about with safe code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{Call, CopyKind, Driver, FillPattern, Forward, Layered, Live, Result};
use anabranch::{
    CaptureMode, Context, DependencyUpdate, DevicePointer, DualModule, ExecutableGraphHandle, GraphHandle,
    HostFunction, Instance, Kernel, LaunchConfig, NodeWork, Status, Stream, StreamFlags, StreamHandle,
    flush_deferred_drops,
};
use common::{assert_ends, checked_host, hold, host, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// A kernel of one parameter for memory.
fn kernel(context: &Context) -> Kernel {
    let function = HostFunction::new("kernel", &[8], |_, _| ());
    DualModule::new().host_function(function).load(context).unwrap().kernel("kernel").unwrap()
}

/// Whether the stream has come so far after it was asked often.
fn comes_to_its_end(stream: &Stream) -> bool {
    (0..20_000).any(|_| {
        std::thread::yield_now();
        stream.query().unwrap()
    })
}

#[test]
fn safety_25_a_writer_waits_for_readers_behind_refused_work_on_another_thread_s_default_stream() {
    let context = host();
    let (reader, writer) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut memory = reader.upload(&[1u32]).unwrap();
    let mut read = reader.allocate_zeroed::<u32>(1).unwrap();
    let kernel = kernel(&context);
    let gate = hold(&context, &reader);
    reader.copy(&mut read, &memory).unwrap();
    // It comes after the reader, and would be what others wait for.
    let own = context.per_thread_stream().unwrap();
    own.launch_checked(&kernel, &LaunchConfig::new(1, 1_000_000), (&mut memory,)).unwrap_err();
    std::thread::scope(|scope| {
        scope.spawn(|| writer.fill(&mut memory, 9u32).unwrap());
    });
    assert!(!comes_to_its_end(&writer), "it writes what is yet to be read");
    gate.set(1);
    assert_eq!(reader.download(&read).unwrap(), [1]);
}

/// Holds a fill, or a launch of a graph, up in the call of the driver: the use of memory is noted, and it is not queued yet.
#[derive(Clone, Debug)]
struct HeldCall {
    /// Whether the next is held up.
    armed: Arc<AtomicBool>,
    reached: Arc<Barrier>,
    goes_on: Arc<Barrier>,
}

impl Default for HeldCall {
    fn default() -> Self {
        let barrier = || Arc::new(Barrier::new(2));
        Self { armed: Arc::default(), reached: barrier(), goes_on: barrier() }
    }
}

impl HeldCall {
    fn context(&self) -> Context {
        let held = self.clone();
        let wrap = move |inner| Arc::new(Layered(Holds { inner, held: held.clone() })) as Arc<dyn Driver>;
        let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
        instance.device("host").unwrap().context().unwrap()
    }

    fn pass(&self) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.reached.wait();
            self.goes_on.wait();
        }
    }
}

#[derive(Debug)]
struct Holds {
    inner: Arc<dyn Driver>,
    held: HeldCall,
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Holds {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.held.pass();
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.executable_launch(call, executable, stream) }
    }

    unsafe fn fill_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.held.pass();
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.fill_async(call, address, pattern, count, stream) }
    }

    unsafe fn copy_async(
        &self,
        call: &Call<'_>,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.held.pass();
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.copy_async(call, kind, destination, source, bytes, stream) }
    }
}

/// As the layer above, for the end of a capture: the driver has ended it, and the library does not know it yet.
#[derive(Debug)]
struct HoldsEnds {
    inner: Arc<dyn Driver>,
    reached: Arc<Barrier>,
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for HoldsEnds {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_end_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<GraphHandle> {
        let ended = self.inner.stream_end_capture(call, stream);
        self.reached.wait();
        // Who joins in the meantime may wait for the end.
        std::thread::sleep(Duration::from_millis(50));
        ended
    }
}

#[test]
fn safety_61_a_stream_that_joins_a_capture_while_it_ends_uses_none_of_its_memory() {
    assert_ends(|| {
        let reached = Arc::new(Barrier::new(2));
        let ends = reached.clone();
        let wrap = move |inner| Arc::new(Layered(HoldsEnds { inner, reached: ends.clone() })) as Arc<dyn Driver>;
        let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut copied = other.upload(&[1u32; 4]).unwrap();
        stream.begin_capture(CaptureMode::Relaxed).unwrap();
        let memory = stream.allocate_zeroed::<u32>(4).unwrap();
        std::thread::scope(|scope| {
            let copying = scope.spawn(|| {
                reached.wait();
                other.copy(&mut copied, &memory)
            });
            let _graph = stream.end_capture().unwrap();
            let error = copying.join().unwrap().expect_err("no launch has allocated the memory");
            assert_eq!(error.status(), Status::INVALID_VALUE);
        });
        assert!(!other.is_capturing().unwrap());
        assert_eq!(other.download(&copied).unwrap(), [1; 4]);
    });
}

#[test]
fn safety_34_parts_that_threads_write_at_the_same_time_are_both_followed() {
    assert_ends(|| {
        let held = HeldCall::default();
        let context = held.context();
        let [first, second, reader] = [(); 3].map(|()| context.create_stream().unwrap());
        let mut buffer = first.upload(&[1u32; 8]).unwrap();
        let mut read = reader.allocate_zeroed::<u32>(8).unwrap();
        reader.synchronize().unwrap();
        let (mut head, mut tail) = buffer.slice_mut(..).unwrap().split_at(4).unwrap();
        held.armed.store(true, Ordering::SeqCst);
        let gate = std::thread::scope(|scope| {
            scope.spawn(|| first.fill(head.reborrow(), 7u32).unwrap());
            held.reached.wait();
            second.fill(tail.reborrow(), 8u32).unwrap();
            let gate = hold(&context, &first);
            held.goes_on.wait();
            gate
        });
        reader.copy(&mut read, &buffer).unwrap();
        assert!(!comes_to_its_end(&reader), "it reads what is yet to be written");
        gate.set(1);
        assert_eq!(reader.download(&read).unwrap(), [7, 7, 7, 7, 8, 8, 8, 8]);
    });
}

#[test]
fn safety_34_a_reader_of_one_part_follows_who_wrote_another_part_meanwhile() {
    for reads_first in [true, false] {
        assert_ends(move || {
            let held = HeldCall::default();
            let context = held.context();
            let [reader, writer] = [(); 2].map(|()| context.create_stream().unwrap());
            let mut buffer = reader.upload(&[1u32; 8]).unwrap();
            let mut read = reader.allocate_zeroed::<u32>(8).unwrap();
            reader.synchronize().unwrap();
            let (head, mut tail) = buffer.slice_mut(..).unwrap().split_at(4).unwrap();
            let head_read = read.slice_mut(..4).unwrap();
            held.armed.store(true, Ordering::SeqCst);
            // One is noted, and its call of the driver comes after the other's.
            let gate = std::thread::scope(|scope| {
                let gate = if reads_first {
                    scope.spawn(|| reader.copy(head_read, head.as_slice()).unwrap());
                    held.reached.wait();
                    let gate = hold(&context, &writer);
                    writer.fill(tail.reborrow(), 8u32).unwrap();
                    gate
                } else {
                    scope.spawn(|| writer.fill(tail.reborrow(), 8u32).unwrap());
                    held.reached.wait();
                    reader.copy(head_read, head.as_slice()).unwrap();
                    hold(&context, &writer)
                };
                held.goes_on.wait();
                gate
            });
            reader.copy(&mut read, &buffer).unwrap();
            assert!(!comes_to_its_end(&reader), "it reads what is yet to be written");
            gate.set(1);
            assert_eq!(reader.download(&read).unwrap(), [1, 1, 1, 1, 8, 8, 8, 8]);
        });
    }
}

#[test]
fn safety_35_the_host_comes_before_a_launch_of_another_thread_or_after_it() {
    assert_ends(|| {
        let held = HeldCall::default();
        let context = held.context();
        let stream = context.create_stream().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(8).unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::fill(&mut pinned, 7u32).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        executable.launch(&stream).unwrap();
        for round in 1..3 {
            // The first has its memory to order, and the second nothing.
            held.armed.store(true, Ordering::SeqCst);
            let is_written = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| executable.launch(&stream).unwrap());
                held.reached.wait();
                let gate = hold(&context, &stream);
                scope.spawn(|| {
                    pinned.write(|slice| slice.iter_mut().for_each(|element| *element += round)).unwrap();
                    is_written.store(true, Ordering::SeqCst);
                });
                let is_excluded = || {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    !is_written.load(Ordering::SeqCst)
                };
                assert!(is_excluded(), "the host writes while the launch is being queued");
                held.goes_on.wait();
                assert!(is_excluded(), "the host writes what the launch is yet to write");
                gate.set(1);
            });
            assert_eq!(pinned.read(|slice| slice.to_vec()).unwrap(), [7 + round; 8]);
            executable.launch(&stream).unwrap();
        }
    });
}

/// Whether the library knows that the stream captures: then it knows its nodes.
fn is_known_to_capture(stream: &Stream) -> bool {
    let Ok(info) = stream.capture_info() else { return false };
    let Some(&(node, _)) = info.dependencies.first() else { return false };
    stream.update_capture_dependencies_with_mode(node, DependencyUpdate::Add).is_ok()
}

#[test]
fn safety_7_a_stream_drawn_in_by_an_event_that_another_thread_records_is_known_to_capture() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                let captured = stream.capture(CaptureMode::Relaxed, |scope| {
                    scope.launch_repeatable_host_func(|| {})?;
                    scope.record(&event)?;
                    (0..3).for_each(|_| std::thread::yield_now());
                    Ok(())
                });
                drop(captured);
            }
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            if other.wait_event(&event).is_ok() && other.is_capturing().unwrap() {
                // The capture may have ended meanwhile.
                assert!(is_known_to_capture(&other) || !other.is_capturing().unwrap());
                while other.is_capturing().unwrap() {
                    std::thread::yield_now();
                }
            }
        }
    });
}

#[test]
fn safety_23_work_for_a_graph_keeps_plain_references_out() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(1).unwrap();
    let work = NodeWork::fill(&mut pinned, 7u32).unwrap();
    assert_eq!(pinned.as_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    assert_eq!(pinned.as_mut_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    drop(work);
    assert_eq!(pinned.as_slice().unwrap(), [0]);
    let work = NodeWork::fill(&mut pinned, 7u32).unwrap();
    let mut graph = context.create_graph().unwrap();
    graph.add((), work).unwrap();
    assert_eq!(pinned.as_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(pinned.read(|slice| slice[0]).unwrap(), 7);
}

#[test]
fn two_pinned_buffers_that_a_graph_keeps_are_copied_by_a_task() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut one = context.allocate_pinned::<u32>(1).unwrap();
        let mut two = context.allocate_pinned::<u32>(1).unwrap();
        two.as_mut_slice().unwrap()[0] = 3;
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::copy(&mut one, &two).unwrap()).unwrap();
        let (one, _two) = futures::executor::block_on(stream.copy_async(one, two)).unwrap();
        assert_eq!(one.read(|slice| slice[0]).unwrap(), 3);
    });
}

#[test]
fn launches_and_captures_that_use_the_same_pinned_memory_do_not_wait_for_each_other() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(1).unwrap();
        let source = stream.upload(&[5u32]).unwrap();
        let executables: Vec<_> = (0..2u32)
            .map(|value| {
                let mut graph = context.create_graph().unwrap();
                graph.add((), NodeWork::fill(&mut pinned, value).unwrap()).unwrap();
                graph.instantiate().unwrap()
            })
            .collect();
        std::thread::scope(|scope| {
            for executable in &executables {
                scope.spawn(|| {
                    let stream = context.create_stream().unwrap();
                    for round in 0..10_000 {
                        // Refused where a capture uses the memory at the moment.
                        let _ = executable.launch(&stream);
                        if round % 512 == 0 {
                            let _ = stream.synchronize();
                        }
                    }
                });
            }
            for _ in 0..100 {
                // Invalidated if a launch joins the capture.
                drop(stream.capture(CaptureMode::Relaxed, |scope| scope.copy(&mut pinned, &source)));
            }
        });
    });
}

#[test]
fn a_graph_with_pinned_memory_is_refused_while_the_stream_captures() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(1).unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::fill(&mut pinned, 1u32).unwrap()).unwrap();
        let executable = graph.instantiate().unwrap();
        let captured = stream.capture(CaptureMode::Relaxed, |scope| executable.launch(scope));
        assert_eq!(captured.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        executable.launch(&stream).unwrap();
        assert_eq!(pinned.read(|slice| slice[0]).unwrap(), 1);
    });
}

#[test]
fn two_executables_are_given_each_other_s_graphs_as_children() {
    assert_ends(|| {
        let context = host();
        let graphs = [0, 1].map(|_| {
            let child = context.create_graph().unwrap();
            let mut graph = context.create_graph().unwrap();
            let node = graph.add((), NodeWork::child(&child)).unwrap();
            (graph, node)
        });
        let executables = [0, 1].map(|own: usize| graphs[own].0.instantiate().unwrap());
        std::thread::scope(|scope| {
            for own in 0..2 {
                let (graphs, executables) = (&graphs, &executables);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        // Refused or not: the structure differs.
                        let _ = executables[own].set_node(graphs[own].1, NodeWork::child(&graphs[1 - own].0));
                    }
                });
            }
        });
    });
}

/// One thread captures on a stream again and again, while another uses it. Whatever falls into a capture is kept by its graph,
/// and what does not is ordered.
#[test]
fn safety_7_what_another_thread_queues_in_a_stream_that_captures_is_kept_or_not_captured() {
    let context = checked_host();
    let (stream, run) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Ok(mut buffer) = stream.allocate_zeroed::<u32>(64) {
                    for _ in 0..4 {
                        let _ = stream.fill(&mut buffer, 7u32);
                    }
                }
            }
        });
        let capture = || -> anabranch::Result<()> {
            let graph = stream.capture(CaptureMode::Relaxed, |_| {
                std::thread::yield_now();
                Ok(())
            })?;
            graph.instantiate()?.launch(&run)
        };
        for _ in 0..500 {
            // The stream may capture already, or memory of the graph be allocated still.
            let _ = capture();
            let synchronized = run.synchronize();
            over.store(synchronized.is_err(), Ordering::Relaxed);
            synchronized.unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    stream.synchronize().unwrap();
}

/// The destination draws the stream in, after the source was looked at.
#[test]
fn safety_7_all_memory_of_work_that_is_drawn_into_a_capture_is_kept() {
    let context = checked_host();
    let (origin, side) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let source = context.allocate_pinned::<u32>(4).unwrap();
    let mut source_on_device = side.upload(&[1u32, 2, 3, 4]).unwrap();
    side.copy(&mut source_on_device, &source).unwrap();
    let mut destination = origin.upload(&[9u32; 4]).unwrap();
    origin.synchronize().unwrap();
    side.synchronize().unwrap();
    let graph = origin
        .capture(CaptureMode::Global, |scope| {
            scope.fill(&mut destination, 8u32)?;
            side.copy(&mut destination, &source_on_device)?;
            scope.wait(&side)
        })
        .unwrap();
    drop((source, source_on_device));
    flush_deferred_drops();
    // What is freed would be had by somebody else.
    let _others = [side.upload(&[5u32; 4]).unwrap(), side.upload(&[6u32; 4]).unwrap()];
    graph.instantiate().unwrap().launch(&origin).unwrap();
    assert_eq!(origin.download(&destination).unwrap(), [0; 4]);
}

#[test]
fn safety_81_a_launch_that_waits_for_room_holds_up_no_work_with_other_memory_of_graphs() {
    assert_ends(|| {
        let instance = Instance::builder().cuda(false).isolated().host_queue_limit(4).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let (full, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let [mut first, mut second] = [full.upload(&[0u32]).unwrap(), other.upload(&[0u32]).unwrap()];
        let mode = CaptureMode::Relaxed;
        let launched = full.capture_executable(mode, |scope| scope.fill(&mut first, 1u32)).unwrap();
        let kept = other.capture_executable(mode, |scope| scope.fill(&mut second, 1u32)).unwrap();
        let held = hold(&context, &full);
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..10 {
                    count.fetch_add(1, Ordering::SeqCst);
                    launched.launch(&full).unwrap();
                }
            });
            until("the first launch", || count.load(Ordering::SeqCst) > 0);
            // Later, one finds no room.
            std::thread::sleep(Duration::from_millis(100));
            other.fill(&mut second, 2u32).unwrap();
            kept.launch(&other).unwrap();
            held.set(1);
        });
        assert_eq!(other.download(&second).unwrap(), [1]);
        assert_eq!(full.download(&first).unwrap(), [1]);
    });
}

/// Lets two threads ask for the id of a stream at the same time.
#[derive(Debug)]
struct Together {
    inner: Arc<dyn Driver>,
    barrier: Barrier,
}

// SAFETY: all calls go to the one driver.
unsafe impl Forward for Together {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_id(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<u64> {
        let id = self.inner.stream_id(call, stream);
        if stream.handle().is_legacy() {
            self.barrier.wait();
        }
        id
    }
}

#[test]
fn safety_179_two_threads_that_open_a_default_stream_at_once_open_one() {
    let wrap = |inner| Arc::new(Layered(Together { inner, barrier: Barrier::new(2) })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let other = context.create_stream_with_flags(StreamFlags::NON_BLOCKING).unwrap();
    for _ in 0..50 {
        // Nobody has it.
        flush_deferred_drops();
        let open = || context.legacy_stream().unwrap();
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(open);
            (open(), first.join().unwrap())
        });
        let mut buffer = context.allocate_zeroed::<u32>(&other, 4).unwrap();
        first.fill(&mut buffer, 7u32).unwrap();
        assert!(first.orders_inserted() > 0);
        assert_eq!(first.orders_inserted(), second.orders_inserted(), "what one knows the other does not");
        context.synchronize().unwrap();
    }
}
