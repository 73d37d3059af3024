//! Host memory of the program, registered as pinned memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    AllocationKind, CaptureMode, Context, ContextFlags, ErrorKind, Instance, LaunchConfig, NodeWork, PinnedBuffer,
    RegisterFlags, Status, Stream, StreamFlags, flush_deferred_drops,
};
use common::{assert_ends, checked_host, hold, host, until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many ranges are registered.
fn registered(context: &Context) -> usize {
    let report = context.device().memory_report().unwrap();
    report.allocations.iter().filter(|live| live.kind == AllocationKind::Registered).count()
}

fn register(context: &Context, memory: Vec<u32>) -> PinnedBuffer<u32> {
    context.register_pinned(memory).map_err(|(error, _)| error).unwrap()
}

#[test]
fn a_vector_is_used_where_it_is_and_comes_back() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut vector = Vec::with_capacity(1000);
    vector.extend(0..500u32);
    let (address, capacity) = (vector.as_ptr(), vector.capacity());
    let mut pinned = register(&context, vector);
    assert_eq!((pinned.len(), pinned.device_pointer().0), (500, address as u64));
    assert_eq!(registered(&context), 1);
    let buffer = stream.upload(pinned.as_slice().unwrap()).unwrap();
    let signal = hold(&context, &stream);
    stream.fill(&mut pinned, 9).unwrap();
    stream.copy(pinned.slice_mut(..250).unwrap(), buffer.slice(250..).unwrap()).unwrap();
    assert!(!pinned.is_idle().unwrap());
    signal.set(1);
    let vector = pinned.into_vec().map_err(|(error, _)| error).unwrap();
    assert_eq!(registered(&context), 0);
    assert_eq!((vector.as_ptr(), vector.capacity()), (address, capacity));
    assert_eq!(vector, (250..500).chain(std::iter::repeat_n(9, 250)).collect::<Vec<_>>());
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn kernels_and_closures_of_the_host_use_it() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let function = anabranch::HostFunction::new("double", &[8, 4], |block, arguments| {
        let (memory, count) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1) as usize);
        block.phase(|thread, _| {
            let index = thread.global_x();
            if index < count {
                memory.set(index, memory.get(index) * 2);
            }
        });
    });
    let kernel = anabranch::DualModule::new().host_function(function).load(&context).unwrap().kernel("double").unwrap();
    let mut pinned = register(&context, (0..100).collect());
    stream.launch_checked(&kernel, &LaunchConfig::for_elements(100), (&mut pinned, 100u32)).unwrap();
    pinned.write(|elements| elements.iter_mut().for_each(|element| *element += 1)).unwrap();
    assert_eq!(
        pinned.into_vec().map_err(|(error, _)| error).unwrap(),
        (0..100).map(|at| at * 2 + 1).collect::<Vec<_>>()
    );
}

#[test]
fn memory_of_the_driver_is_copied_to_a_vector() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(3).unwrap();
    stream.fill(&mut pinned, 5).unwrap();
    assert_eq!(pinned.into_vec().map_err(|(error, _)| error).unwrap(), [5; 3]);
}

#[test]
fn vectors_of_nothing_are_registered_nowhere() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut pinned = register(&context, Vec::with_capacity(10));
    stream.fill(&mut pinned, 5).unwrap();
    assert_eq!(registered(&context), 0);
    assert_eq!(pinned.into_vec().map_err(|(error, _)| error).unwrap().capacity(), 10);
    context.register_scope(&mut [0u32; 0], |mut nothing| stream.fill(nothing.reborrow(), 3)).unwrap();
}

#[test]
fn what_is_registered_is_refused_with_the_vector_given_back() {
    let context = host();
    let mut memory = vec![1u32; 8];
    let address = NonNull::new(memory.as_mut_ptr()).unwrap();
    // SAFETY: the vector outlives the buffer, and nobody uses it meanwhile.
    let part = unsafe { context.register_pinned_raw_parts(address, 4, RegisterFlags::empty(), ()) }.unwrap();
    let (error, memory) = context.register_pinned(memory).unwrap_err();
    assert_eq!(error.status(), Status::HOST_MEMORY_ALREADY_REGISTERED);
    assert_eq!(memory, [1; 8]);
    assert_eq!(part.into_vec().map_err(|(error, _)| error).unwrap(), [1; 4], "a copy, because it is no vector");
    flush_deferred_drops();
    until("unregistering", || context.register_pinned(vec![0u8; 1]).is_ok());
    let (error, memory) = context.register_pinned_with_flags(memory, RegisterFlags::IO_MEMORY).map(|_| ()).unwrap_err();
    assert_eq!((error.status(), error.kind()), (Status::INVALID_VALUE, ErrorKind::Argument));
    let unknown = RegisterFlags::from_bits_retain(0x80);
    let (error, memory) = context.register_pinned_with_flags(memory, unknown).map(|_| ()).unwrap_err();
    assert_eq!((error.status(), memory.len()), (Status::INVALID_VALUE, 8));
}

#[test]
fn addresses_that_are_not_aligned_are_refused() {
    let context = host();
    let bytes = [0u8; 16];
    let odd = NonNull::from(&bytes).cast::<u8>().as_ptr().wrapping_add(usize::from(bytes.as_ptr().addr() % 2 == 0));
    let odd = NonNull::new(odd.cast::<u16>()).unwrap();
    // SAFETY: the call is refused.
    let refused = unsafe { context.register_pinned_raw_parts(odd, 1, RegisterFlags::READ_ONLY, ()) };
    assert_eq!(refused.unwrap_err().status(), Status::INVALID_VALUE);
}

#[test]
fn read_only_memory_is_written_by_nobody() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let pinned = context.register_pinned_with_flags(vec![7u32; 10], RegisterFlags::READ_ONLY);
    let mut pinned = pinned.map_err(|(error, _)| error).unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(10).unwrap();
    stream.copy(&mut buffer, &pinned).unwrap();
    assert_eq!(stream.fill(&mut pinned, 1).unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(stream.copy(&mut pinned, &buffer).unwrap_err().kind(), ErrorKind::Argument);
    assert_eq!(pinned.as_mut_slice().unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(pinned.write(|_| ()).unwrap_err().status(), Status::INVALID_VALUE);
    let mut graph = context.create_graph().unwrap();
    let work = NodeWork::fill(&mut pinned, 1).unwrap();
    assert_eq!(graph.add((), work).unwrap_err().status(), Status::INVALID_VALUE);
    graph.add((), NodeWork::copy(&mut buffer, &pinned).unwrap()).unwrap();
    drop(graph);
    assert_eq!(stream.download(&buffer).unwrap(), [7; 10]);
    assert_eq!(pinned.as_slice().unwrap(), [7; 10]);
}

#[test]
fn a_graph_that_retains_it_keeps_it_registered() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut pinned = register(&context, vec![0; 4]);
    let graph = stream.capture(CaptureMode::Global, |_| stream.fill(&mut pinned, 3)).unwrap();
    let executable = graph.instantiate().unwrap();
    drop(graph);
    executable.launch(&stream).unwrap();
    let (error, pinned) = pinned.into_vec().unwrap_err();
    assert_eq!(error.status(), Status::ILLEGAL_STATE);
    assert_eq!(pinned.read(<[u32]>::to_vec).unwrap(), [3; 4]);
    stream.synchronize().unwrap();
    drop(executable);
    assert_eq!(pinned.into_vec().map_err(|(error, _)| error).unwrap(), [3; 4]);
}

#[test]
fn a_keeper_is_dropped_behind_the_last_use() {
    struct Noted(Arc<AtomicBool>, #[allow(dead_code, reason = "it is kept")] Vec<u32>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (dropped, mut memory) = (Arc::new(AtomicBool::new(false)), vec![4u32; 9]);
    let address = NonNull::new(memory.as_mut_ptr()).unwrap();
    let keeper = Noted(dropped.clone(), memory);
    // SAFETY: the keeper has the elements.
    let pinned = unsafe { context.register_pinned_raw_parts(address, 9, RegisterFlags::empty(), keeper) }.unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(9).unwrap();
    let signal = hold(&context, &stream);
    stream.copy(&mut buffer, &pinned).unwrap();
    drop(pinned);
    flush_deferred_drops();
    assert!(!dropped.load(Ordering::Relaxed));
    assert_eq!(registered(&context), 1);
    signal.set(1);
    assert_eq!(stream.download(&buffer).unwrap(), [4; 9]);
    until("the drop of the keeper", || dropped.load(Ordering::Relaxed));
    assert_eq!(registered(&context), 0);
}

#[test]
fn safety_92_a_vector_that_is_dropped_is_freed_behind_its_last_use() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    for _ in 0..20 {
        let pinned = register(&context, vec![6; 5000]);
        let mut buffer = stream.allocate_zeroed::<u32>(5000).unwrap();
        let signal = hold(&context, &stream);
        stream.copy(&mut buffer, &pinned).unwrap();
        drop(pinned);
        // Where the vector was, if it was freed.
        let other = vec![1u32; 5000];
        signal.set(1);
        assert_eq!(stream.download(&buffer).unwrap(), [6; 5000]);
        drop(other);
    }
    until("unregistering", || {
        flush_deferred_drops();
        registered(&context) == 0
    });
}

#[test]
fn a_scope_registers_until_its_work_is_over() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut memory = [1u32, 2, 3, 4];
    let mut copy = stream.allocate_zeroed::<u32>(4).unwrap();
    let opener = context
        .register_scope(&mut memory, |pinned| {
            assert_eq!(registered(&context), 1);
            let signal = hold(&context, &stream);
            stream.copy(&mut copy, pinned.as_slice())?;
            other.fill(pinned.slice(2..)?, 9)?;
            Ok(std::thread::spawn(move || {
                std::thread::yield_now();
                signal.set(1);
            }))
        })
        .unwrap();
    assert_eq!(registered(&context), 0);
    assert_eq!(memory, [1, 2, 9, 9]);
    opener.join().unwrap();
    assert_eq!(stream.download(&copy).unwrap(), [1, 2, 3, 4]);
    let source = [5u32; 4];
    context.register_scope_for_reading(&source, |pinned| stream.copy(&mut copy, pinned)).unwrap();
    assert_eq!(stream.download(&copy).unwrap(), source);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn safety_92_a_scope_that_registers_waits_when_its_closure_panics() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut memory = vec![0u8; 1 << 20];
    let signal = hold(&context, &stream);
    let opener = std::thread::spawn(move || {
        std::thread::yield_now();
        signal.set(1);
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        context.register_scope(&mut memory, |pinned| -> anabranch::Result<()> {
            stream.fill(pinned, 9)?;
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(registered(&context), 0);
    assert!(memory.iter().all(|&byte| byte == 9), "the fill is still running after the scope");
    opener.join().unwrap();
}

#[test]
fn safety_92_memory_of_a_scope_is_not_captured() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut memory = [1u32; 4];
    let mut kept = None;
    let mut graph = context.create_graph().unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(4).unwrap();
    context
        .register_scope(&mut memory, |mut pinned| {
            let captured = stream.capture(CaptureMode::Global, |_| stream.fill(pinned.reborrow(), 3));
            assert_eq!(captured.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            let node = graph.add((), NodeWork::fill(pinned.reborrow(), 3)?);
            assert_eq!(node.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            // Work that is never added may outlive the scope.
            kept = Some(NodeWork::copy(&mut buffer, pinned.as_slice())?);
            Ok(())
        })
        .unwrap();
    assert_eq!(registered(&context), 0);
    let node = graph.add((), NodeWork::copy(&mut buffer, &stream.upload(&[7u32; 4]).unwrap()).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    let refused = graph.add((), kept.take().unwrap()).unwrap_err();
    assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    context
        .register_scope_for_reading(&memory, |pinned| {
            let changed = executable.set_node(node, NodeWork::copy(&mut buffer, pinned)?);
            assert_eq!(changed.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            Ok(())
        })
        .unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7; 4]);
    assert_eq!(memory, [1; 4]);
}

#[test]
fn a_scope_is_refused_inside_of_a_host_function() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let inside = context.clone();
    let pinned = register(&context, vec![2; 2]);
    stream
        .launch_host_func(move || {
            let scope = inside.register_scope(&mut [1u8], |_| Ok(())).unwrap_err();
            let (vector, pinned) = pinned.into_vec().unwrap_err();
            drop(pinned);
            sender.send((scope.status(), vector.status())).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), (Status::NOT_PERMITTED, Status::NOT_PERMITTED));
    stream.synchronize().unwrap();
}

#[test]
fn a_lost_context_gives_borrowed_memory_back() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let lose = anabranch::HostFunction::new("lose", &[], |_, _| anabranch::KernelFault::trap("on purpose").raise());
    let kernel = anabranch::DualModule::new().host_function(lose).load(&context).unwrap().kernel("lose").unwrap();
    let mut memory = [1u32; 4];
    let vector = register(&context, vec![8; 8]);
    let lost = context.register_scope(&mut memory, |pinned| {
        stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ())?;
        stream.fill(pinned, 2)
    });
    assert!(lost.unwrap_err().is_sticky());
    drop(vector);
    flush_deferred_drops();
    memory[0] = 5;
    assert_eq!(memory[0], 5);
}

#[test]
fn every_context_of_the_driver_uses_it() {
    let instance = Instance::builder().cuda(false).isolated().host_devices(2).build().unwrap();
    let (one, two) = (instance.device("host:0").unwrap(), instance.device("host:1").unwrap());
    let (one, two) = (one.context().unwrap(), two.context().unwrap());
    let mut pinned = register(&one, vec![3; 3]);
    let stream = two.create_stream().unwrap();
    stream.fill(&mut pinned, 4).unwrap();
    assert_eq!(pinned.into_vec().map_err(|(error, _)| error).unwrap(), [4; 3]);
}

#[test]
fn safety_96_a_scope_ends_beside_the_capture_of_a_blocking_stream() {
    let context = checked_host();
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    assert_ends(move || {
        let legacy = context.legacy_stream().unwrap();
        let mut memory = vec![1u32; 64];
        let signal = hold(&context, &legacy);
        let opening = std::thread::spawn(move || signal.set(1));
        let scope = context.register_scope(&mut memory, |mut slice| {
            legacy.fill(slice.reborrow(), 7)?;
            blocking.begin_capture(CaptureMode::Relaxed)
        });
        scope.unwrap();
        opening.join().unwrap();
        assert_eq!(memory, [7; 64]);
        blocking.end_capture().unwrap();
    });
}

#[test]
fn safety_96_refused_work_in_the_legacy_stream_holds_up_no_scope() {
    let context = checked_host();
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    assert_ends(move || {
        let legacy = context.legacy_stream().unwrap();
        let mut memory = vec![1u32; 64];
        let signal = hold(&context, &legacy);
        let opening = std::thread::spawn(move || signal.set(1));
        blocking.begin_capture(CaptureMode::Relaxed).unwrap();
        let scope = context.register_scope(&mut memory, |mut slice| legacy.fill(slice.reborrow(), 7));
        assert_eq!(scope.unwrap_err().status(), Status::STREAM_CAPTURE_IMPLICIT);
        assert_eq!(memory, [1; 64]);
        // Work in the legacy stream invalidates such captures.
        assert_eq!(blocking.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
        opening.join().unwrap();
    });
}

/// A stream of a context that has no other user, so that a capture of a blocking stream bars nobody else.
fn legacy_beside_a_capture() -> (Context, Stream, Stream, Stream) {
    let instance = Instance::builder().cuda(false).isolated().build().unwrap();
    let context = instance.device("host").unwrap().create_context(ContextFlags::empty()).unwrap();
    let (legacy, other) = (context.legacy_stream().unwrap(), context.create_stream().unwrap());
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    (context, legacy, other, blocking)
}

#[test]
fn safety_133_a_scope_ends_beside_a_capture_also_when_a_wait_was_refused() {
    assert_ends(|| {
        let (context, legacy, other, blocking) = legacy_beside_a_capture();
        let mut memory = vec![1u32; 8];
        context
            .register_scope(&mut memory, |mut memory| {
                legacy.fill(memory.reborrow(), 3)?;
                blocking.begin_capture(CaptureMode::Relaxed)?;
                assert_eq!(other.wait_stream(&legacy).unwrap_err().status(), Status::STREAM_CAPTURE_IMPLICIT);
                Ok(())
            })
            .unwrap();
        assert_eq!(memory, [3; 8]);
        assert_eq!(blocking.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    });
}

#[test]
fn safety_133_a_wait_that_is_refused_beside_a_capture_keeps_what_was_known_before() {
    let (context, legacy, other, blocking) = legacy_beside_a_capture();
    let mut memory = context.allocate_pinned::<u32>(8).unwrap();
    legacy.fill(&mut memory, 3).unwrap();
    other.wait_stream(&legacy).unwrap();
    other.synchronize().unwrap();
    blocking.begin_capture(CaptureMode::Relaxed).unwrap();
    for _ in 0..2 {
        assert_eq!(memory.as_slice().unwrap(), [3; 8]);
        assert_eq!(other.wait_stream(&legacy).unwrap_err().status(), Status::STREAM_CAPTURE_IMPLICIT);
    }
    assert_eq!(memory.as_slice().unwrap(), [3; 8]);
    assert_eq!(blocking.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
}
