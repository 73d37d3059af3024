//! Classes of defects of captures that several threads submit work to, and of captures that fail. `docs/safety.md` lists them
//! all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, FillPattern, Forward, GraphHandle, Layered, Live};
use anabranch::hal::{AddedNode, Dependency, NodeParameters};
use anabranch::{
    BatchCopy, BatchRegion, CaptureMode, ConditionalKind, Context, ContextFlags, DevicePointer, DualModule,
    HostFunction, Instance, LaunchConfig, Node, NodeWork, PinnedBuffer, Region, Status, Stream, StreamFlags,
    StreamHandle, Volume, VolumeMut, flush_deferred_drops,
};
use common::{assert_ends, checked_host, is_a_chain, is_behind};
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

#[test]
fn safety_68_two_threads_that_submit_to_one_stream_of_a_capture_note_their_own_uses() {
    let (context, beside) = interrupted();
    let (first, second) = (Arc::new(context.create_stream().unwrap()), context.create_stream().unwrap());
    let mut shared = first.upload(&[0u32; 4]).unwrap();
    let mut other = first.upload(&[0u32; 4]).unwrap();
    first.begin_capture(CaptureMode::Relaxed).unwrap();
    second.wait_stream(&first).unwrap();
    let stream = first.clone();
    // The fill of one thread is ordered, and that of another one begins, before the first one is captured.
    let thread = Arc::new(Mutex::new(None));
    let begun = thread.clone();
    let fill_other = move || {
        *begun.lock().unwrap() = Some(std::thread::spawn(move || stream.fill(&mut other, 2u32).unwrap()));
        // Where the other thread does not wait for this call, it is ready by now.
        std::thread::sleep(Duration::from_millis(100));
    };
    *beside.fill.lock().unwrap() = Some(Box::new(fill_other));
    first.fill(&mut shared, 1u32).unwrap();
    thread.lock().unwrap().take().unwrap().join().unwrap();
    second.fill(&mut shared, 3u32).unwrap();
    first.wait_stream(&second).unwrap();
    let graph = first.end_capture().unwrap();
    let fill_with = |value| {
        let is_it = |&node: &Node| match graph.node_parameters(node).unwrap() {
            NodeParameters::Fill(fill) => fill.pattern == FillPattern::U32(value),
            _ => false,
        };
        graph.nodes().unwrap().into_iter().find(is_it).unwrap()
    };
    assert!(is_behind(&graph, fill_with(3), fill_with(1)), "{}", graph.to_mermaid().unwrap());
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

#[test]
fn safety_72_memory_whose_allocation_was_not_captured_is_not_filled_in_a_capture() {
    let (context, beside) = interrupted();
    let stream = Arc::new(context.create_stream().unwrap());
    let other = stream.clone();
    let begun = Arc::new(Mutex::new(None));
    let thread = begun.clone();
    let begin = move || {
        let begin = move || other.begin_capture(CaptureMode::Relaxed);
        *thread.lock().unwrap() = Some(std::thread::spawn(begin));
        // Where the other thread does not wait for this call, it is ready by now.
        std::thread::sleep(Duration::from_millis(100));
    };
    *beside.fill.lock().unwrap() = Some(Box::new(begin));
    let buffer = stream.allocate_zeroed::<u32>(4).unwrap();
    begun.lock().unwrap().take().unwrap().join().unwrap().unwrap();
    assert!(stream.end_capture().unwrap().nodes().unwrap().is_empty());
    assert_eq!(stream.download(&buffer).unwrap(), [0; 4]);
}

#[test]
fn safety_72_plain_memory_is_not_filled_in_a_capture() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    let refused = context.allocate_zeroed::<u32>(&stream, 4).unwrap_err();
    assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    stream.end_capture().unwrap();
    let buffer = context.allocate_zeroed::<u32>(&stream, 4).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [0; 4]);
}

#[test]
fn safety_73_a_stream_that_is_shut_down_in_a_host_function_leaves_no_capture() {
    let context = checked_host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    capturing.begin_capture(CaptureMode::Global).unwrap();
    let (done, shut_down) = std::sync::mpsc::channel();
    stream.launch_host_func(move || done.send(capturing.shutdown().map_err(|error| error.status())).unwrap()).unwrap();
    assert_eq!(shut_down.recv().unwrap(), Err(Status::NOT_PERMITTED));
    flush_deferred_drops();
    stream.synchronize().unwrap();
    context.synchronize().unwrap();
}

#[test]
fn safety_74_copies_of_nothing_wait_for_no_capture() {
    assert_ends(|| {
        let context = checked_host();
        let legacy = context.legacy_stream().unwrap();
        let capturing = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
        let empty = legacy.allocate_zeroed::<u32>(0).unwrap();
        capturing.begin_capture(CaptureMode::Relaxed).unwrap();
        let refused = legacy.download(&empty).unwrap_err();
        assert_eq!(refused.status(), Status::STREAM_CAPTURE_IMPLICIT);
        // A scope that fails does not ask the legacy stream, which would invalidate the capture.
        capturing.end_capture().unwrap();
        assert_eq!(legacy.download(&empty).unwrap(), [0; 0]);
    });
}

#[test]
fn safety_75_extents_beyond_all_numbers_are_refused() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (mut to, from) = (stream.upload(&[0u32; 4]).unwrap(), stream.upload(&[1u32; 4]).unwrap());
    let region = Region { extent: [1, 1, 1], ..Region::default() };
    let rows = usize::MAX / 2;
    let refused = stream.copy_region(VolumeMut::new(&mut to, rows, 1), Volume::new(&from, rows, 1), &region);
    assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
    let nothing = HostFunction::new("nothing", &[], |_, _| {});
    let kernel = DualModule::new().host_function(nothing).load(&context).unwrap().kernel("nothing").unwrap();
    for config in [LaunchConfig::new(1, 1).cluster([u32::MAX; 3]), LaunchConfig::new(1, [u32::MAX; 3])] {
        assert!(stream.launch_checked(&kernel, &config, ()).is_err());
    }
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
    stream.synchronize().unwrap();
}

/// What the driver does not capture.
#[test]
fn safety_50_refused_work_does_not_draw_its_stream_into_the_capture_of_its_memory() {
    let context = checked_host();
    let elsewhere = context.device().create_context(ContextFlags::empty()).unwrap();
    let (capturing, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = capturing.upload(&[1u32; 4]).unwrap();
    let mut managed = context.allocate_managed::<u32>(4).unwrap();
    let mut far = elsewhere.create_stream().unwrap().upload(&[2u32; 4]).unwrap();
    elsewhere.synchronize().unwrap();
    let launched = capturing.capture_executable(CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 5u32)).unwrap();
    capturing.synchronize().unwrap();
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.fill(&mut buffer, 6u32)?;
        scope.fill(&mut managed, 6u32)?;
        let whole = Region { extent: [4, 1, 1], ..Region::default() };
        let region = other.copy_region_peer(VolumeMut::new(&mut far, 4, 1), Volume::new(&buffer, 4, 1), &whole);
        for (what, refused) in [
            ("a launch of a graph", launched.launch(&other)),
            ("a prefetch", other.prefetch(&managed, true)),
            ("a copy between contexts", other.copy_peer(&mut far, &buffer)),
            ("a region between contexts", region),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{what}: {refused}");
            assert!(!other.is_capturing().unwrap(), "{what}");
        }
        scope.fill(&mut buffer, 7u32)
    });
    captured.unwrap().instantiate().unwrap().launch(&other).unwrap();
    assert_eq!(other.download(&buffer).unwrap(), [7; 4]);
}

/// A thread of the driver copies between pinned memory that graphs retain, which no driver captures.
#[test]
fn safety_50_a_copy_between_pinned_memory_is_captured_where_its_memory_is() {
    let context = checked_host();
    let (capturing, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let [mut from, mut to] = [(); 2].map(|()| context.allocate_pinned::<u32>(4).unwrap());
    from.as_mut_slice().unwrap().fill(3);
    let mut buffer = capturing.allocate_zeroed::<u32>(4).unwrap();
    let whole = Region { extent: [2, 2, 1], ..Region::default() };
    type Copying = fn(&Stream, &mut PinnedBuffer<u32>, &PinnedBuffer<u32>, &Region) -> anabranch::Result<()>;
    let copies: [Copying; 4] = [
        |stream, to, from, _| stream.copy(to, from),
        |stream, to, from, _| stream.copy_batch([BatchCopy::new(to, from)?]),
        |stream, to, from, whole| stream.copy_region(VolumeMut::new(to, 2, 2), Volume::new(from, 2, 2), whole),
        |stream, to, from, whole| {
            let copy = BatchRegion::new(VolumeMut::new(to, 2, 2), Volume::new(from, 2, 2), whole)?;
            stream.copy_region_batch([copy])
        },
    ];
    for (index, copy) in copies.into_iter().enumerate() {
        to.write(|to| to.fill(0)).unwrap();
        let graph = capturing.capture(CaptureMode::Relaxed, |scope| {
            scope.copy(&mut buffer, &from)?;
            copy(&other, &mut to, &from, &whole)?;
            assert!(other.is_capturing()?, "{index}");
            scope.join(&other)
        });
        let graph = graph.unwrap();
        assert_eq!(graph.nodes().unwrap().len(), 2, "{index}");
        assert_eq!(to.read(<[u32]>::to_vec).unwrap(), [0; 4], "{index}");
        graph.instantiate().unwrap().launch(&capturing).unwrap();
        assert_eq!(to.read(<[u32]>::to_vec).unwrap(), [3; 4], "{index}");
        assert!(!other.is_capturing().unwrap(), "{index}");
    }
    // Between contexts there is no such node.
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.copy(&mut buffer, &from)?;
        let refused = other.copy_region_peer(VolumeMut::new(&mut to, 2, 2), Volume::new(&from, 2, 2), &whole);
        assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        assert!(!other.is_capturing()?);
        Ok(())
    });
    captured.unwrap();
}

/// A thread begins captures in a stream in which another one uploads.
#[test]
fn safety_50_an_upload_that_is_refused_leaves_nothing_in_a_capture() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    std::thread::scope(|threads| {
        let uploading = threads.spawn(|| {
            for _ in 0..1500 {
                match stream.upload(&[1u32; 4]) {
                    Ok(buffer) => drop(buffer),
                    Err(error) => assert_eq!(error.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{error}"),
                }
            }
        });
        while !uploading.is_finished() {
            stream.begin_capture(CaptureMode::Relaxed).unwrap();
            std::thread::yield_now();
            let graph = stream.end_capture().unwrap();
            assert!(graph.nodes().unwrap().is_empty(), "{}", graph.to_mermaid().unwrap());
            std::thread::yield_now();
        }
    });
}

/// Its nodes belong to the contexts of the streams that they were captured in.
#[test]
fn safety_146_a_graph_keeps_the_contexts_of_the_streams_that_it_was_captured_in() {
    let instance = Instance::builder().isolated().host_check_memory(true).host_devices(2).build().unwrap();
    let device = instance.device("host:0").unwrap();
    for other in [device.create_context(ContextFlags::empty()), instance.device("host:1").unwrap().context()] {
        let (context, other) = (device.context().unwrap(), other.unwrap());
        let (stream, joining) = (context.create_stream().unwrap(), other.create_stream().unwrap());
        let [mut condition, mut filled] = [(); 2].map(|()| context.allocate_pinned::<u32>(1).unwrap());
        condition.as_mut_slice().unwrap()[0] = 1;
        stream.begin_capture(CaptureMode::Relaxed).unwrap();
        joining.wait_stream(&stream).unwrap();
        // The kernel that sets the condition is one of the other context.
        let scope = joining.capture_scope(CaptureMode::Relaxed).unwrap();
        scope.capture_if(&condition, |part| part.fill(&mut filled, 7u32)).unwrap();
        stream.wait_stream(&joining).unwrap();
        let executable = stream.end_capture().unwrap().instantiate().unwrap();
        drop((joining, other));
        flush_deferred_drops();
        executable.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(filled.read(<[u32]>::to_vec).unwrap(), [7]);
    }
}

/// Whoever uses memory of a capture joins it, whatever has become of those that used the memory last.
#[test]
fn safety_108_memory_of_a_capture_draws_in_streams_until_that_capture_ends() {
    let context = checked_host();
    let [capturing, fork, other] = [(); 3].map(|()| context.create_stream().unwrap());
    let mut buffer = capturing.upload(&[1u32; 4]).unwrap();
    let mut copy = capturing.upload(&[2u32; 4]).unwrap();
    let mut copy_elsewhere = capturing.upload(&[2u32; 4]).unwrap();
    capturing.synchronize().unwrap();
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&fork)?;
        fork.fill(&mut buffer, 7u32)?;
        scope.join(&fork)?;
        // The stream that used the memory last is gone.
        drop(fork);
        other.fill(&mut buffer, 9u32)?;
        assert!(other.is_capturing()?);
        scope.join(&other)
    });
    let graph = captured.unwrap();
    assert!(is_a_chain(&graph));
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.copy(&mut copy, &buffer)?;
        // Another capture reads the memory too, and ends.
        let fourth = context.create_stream()?;
        fourth.capture(CaptureMode::Relaxed, |scope| scope.copy(&mut copy_elsewhere, &buffer))?;
        other.fill(&mut buffer, 3u32)?;
        assert!(other.is_capturing()?);
        scope.join(&other)
    });
    assert!(is_a_chain(&captured.unwrap()));
    assert_eq!(other.download(&buffer).unwrap(), [1; 4]);
}

#[test]
fn safety_108_streams_of_other_contexts_join_a_capture() {
    let context = checked_host();
    let elsewhere = context.device().create_context(ContextFlags::empty()).unwrap();
    let [capturing, third] = [(); 2].map(|()| context.create_stream().unwrap());
    let other = elsewhere.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.fill(&mut pinned, 1u32)?;
        other.fill(&mut pinned, 2u32)?;
        assert!(other.is_capturing()?);
        third.fill(&mut pinned, 3u32)?;
        assert!(third.is_capturing()?);
        scope.join(&other)?;
        scope.join(&third)
    });
    let graph = captured.unwrap();
    assert!(is_a_chain(&graph));
    assert_eq!(pinned.read(|elements| elements.to_vec()).unwrap(), [0; 4]);
    graph.instantiate().unwrap().launch(&capturing).unwrap();
    capturing.synchronize().unwrap();
    assert_eq!(pinned.read(|elements| elements.to_vec()).unwrap(), [3; 4]);
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.fork(&other)?;
        other.launch_repeatable_host_func(|| ())?;
        scope.join(&other)
    });
    assert_eq!(captured.unwrap().nodes().unwrap().len(), 1);
}

#[test]
fn safety_108_memory_of_a_capture_that_is_invalidated_belongs_to_the_others_that_use_it() {
    let context = checked_host();
    let [capturing, failing, other] = [(); 3].map(|()| context.create_stream().unwrap());
    let mut buffer = capturing.upload(&[1u32; 4]).unwrap();
    let [mut copy, mut failing_copy] = [(); 2].map(|()| capturing.upload(&[2u32; 4]).unwrap());
    capturing.synchronize().unwrap();
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.copy(&mut copy, &buffer)?;
        failing.begin_capture(CaptureMode::Relaxed)?;
        failing.copy(&mut failing_copy, &buffer)?;
        // Invalidates the capture.
        failing.query().unwrap_err();
        other.fill(&mut buffer, 3u32)?;
        assert!(other.is_capturing()?);
        scope.join(&other)
    });
    assert!(is_a_chain(&captured.unwrap()));
    // No graph comes of what the other one has captured.
    let mut read = [0; 4];
    other.copy_to_host(&mut read, &failing_copy).unwrap();
    other.fill(&mut failing_copy, 5u32).unwrap();
    assert!(!other.is_capturing().unwrap());
    assert_eq!(other.download(&failing_copy).unwrap(), [5; 4]);
    failing.end_capture().unwrap_err();
    assert_eq!(read, [2; 4]);
}

/// What a conditional part uses is used by the capture around it.
#[test]
fn safety_108_memory_of_a_conditional_part_belongs_to_the_capture_around_it() {
    let context = checked_host();
    let [capturing, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let mut buffer = capturing.upload(&[1u32; 4]).unwrap();
    let mut copy = capturing.upload(&[2u32; 4]).unwrap();
    let condition = capturing.upload(&[1u32]).unwrap();
    capturing.synchronize().unwrap();
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.capture_if(&condition, |part| part.fill(&mut buffer, 7u32))?;
        other.copy(&mut copy, &buffer)?;
        assert!(other.is_capturing()?);
        scope.join(&other)
    });
    captured.unwrap().instantiate().unwrap().launch(&capturing).unwrap();
    assert_eq!(capturing.download(&copy).unwrap(), [7; 4]);
}

/// Nobody else can record in the default stream of a thread, which a stream would have to wait for.
#[test]
fn safety_108_a_stream_that_cannot_join_a_capture_is_refused_its_memory() {
    let context = checked_host();
    let [home, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let mut buffer = home.upload(&[1u32; 4]).unwrap();
    home.synchronize().unwrap();
    let of_thread = context.per_thread_stream().unwrap();
    of_thread.begin_capture(CaptureMode::Relaxed).unwrap();
    of_thread.fill(&mut buffer, 7u32).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let refused = other.fill(&mut buffer, 8u32).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{refused}");
        });
    });
    let graph = of_thread.end_capture().unwrap();
    assert_eq!(other.download(&buffer).unwrap(), [1; 4]);
    graph.instantiate().unwrap().launch(&other).unwrap();
    assert_eq!(other.download(&buffer).unwrap(), [7; 4]);
}
