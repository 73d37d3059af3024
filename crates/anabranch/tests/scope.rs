//! Scopes: what borrows host memory is waited for on every way out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, ErrorKind, Region, Status, StreamFlags, Volume, VolumeMut, WaitCondition};
use common::{assert_ends, hold, host};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

#[test]
fn safety_4_a_scope_waits_when_its_closure_panics() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let memory = stream.upload(&vec![9u8; 1 << 20]).unwrap();
    let mut destination = vec![0u8; 1 << 20];
    let signal = hold(&context, &stream);
    let opener = std::thread::spawn(move || {
        std::thread::yield_now();
        signal.set(1);
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.sync_scope(|scope| -> anabranch::Result<()> {
            scope.stream().launch_host_func(std::thread::yield_now)?;
            scope.copy_to_host(&mut destination, &memory)?;
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert!(stream.query().unwrap(), "the stream is still running after the scope");
    assert!(destination.iter().all(|&byte| byte == 9));
    opener.join().unwrap();
}

#[test]
fn a_scope_returns_the_error_of_its_closure_after_waiting() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut memory = stream.allocate_zeroed::<u8>(4).unwrap();
    let error = stream
        .sync_scope(|scope| {
            scope.copy_from_host(&mut memory, &[1, 2, 3, 4])?;
            scope.copy_from_host(memory.slice_mut(..2)?, &[1, 2, 3])
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    assert_eq!(error.status(), Status::INVALID_VALUE);
    assert_eq!(stream.download(&memory).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn a_scope_is_refused_inside_of_a_host_function() {
    let context = host();
    let stream = std::sync::Arc::new(context.create_stream().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let inside = stream.clone();
    stream
        .launch_host_func(move || {
            sender.send(inside.sync_scope(|_| Ok(())).unwrap_err().status()).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), Status::NOT_PERMITTED);
    stream.synchronize().unwrap();
}

#[test]
fn a_scope_waits_for_all_streams_that_were_entered() {
    let context = host();
    let streams: Vec<_> = (0..4).map(|_| context.create_stream().unwrap()).collect();
    let buffers: Vec<_> = (0..4u8).map(|value| streams[0].upload(&[value; 1000]).unwrap()).collect();
    let source = [9u8; 1000];
    let mut written = streams[3].allocate_zeroed::<u8>(1000).unwrap();
    let mut destinations = vec![[0u8; 1000]; 4];
    let signals: Vec<_> = streams.iter().map(|stream| hold(&context, stream)).collect();
    let opener = std::thread::spawn(move || {
        signals.iter().rev().for_each(|signal| {
            std::thread::yield_now();
            signal.set(1);
        });
    });
    streams[0]
        .sync_scope(|scope| {
            for ((stream, destination), buffer) in streams.iter().zip(&mut destinations).zip(&buffers) {
                let entered = scope.on(stream)?;
                assert_eq!(entered.stream(), stream);
                entered.copy_to_host(destination, buffer)?;
            }
            // Device memory from outside of the scope is used as ever, and a stream may be entered again.
            streams[1].fill(&mut written, 1)?;
            scope.on(&streams[3])?.copy_from_host(written.slice_mut(1..999)?, &source[1..999])
        })
        .unwrap();
    for ((value, destination), stream) in (0..).zip(&destinations).zip(&streams) {
        assert!(stream.query().unwrap(), "a stream is still running after the scope");
        assert_eq!(*destination, [value; 1000]);
    }
    let written = streams[2].download(&written).unwrap();
    assert!(written[0] == 1 && written[999] == 1 && written[1..999].iter().all(|&byte| byte == 9));
    opener.join().unwrap();
}

#[test]
fn safety_4_a_scope_waits_for_every_stream_when_its_closure_panics() {
    let context = host();
    let streams: Arc<Vec<_>> = Arc::new((0..3).map(|_| context.create_stream().unwrap()).collect());
    let memory = context.create_stream().unwrap().upload(&vec![9u8; 1 << 18]).unwrap();
    let mut destinations = vec![vec![0u8; 1 << 18]; 3];
    let signals = [(); 3].map(|()| context.create_signal().unwrap());
    let signals = Arc::new(signals);
    let (others, gates) = (streams.clone(), signals.clone());
    let (queued, opening) = std::sync::mpsc::channel();
    let opener = std::thread::spawn(move || {
        opening.recv().unwrap();
        signals[1].set(1);
        // The others are let go only when the scope's own stream is waited for no more.
        while !others[1].query().unwrap() {
            std::thread::yield_now();
        }
        (0..100_000).for_each(|_| std::thread::yield_now());
        signals.iter().for_each(|signal| signal.set(1));
    });
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        streams[1].sync_scope(|scope| -> anabranch::Result<()> {
            for ((stream, destination), gate) in streams.iter().zip(&mut destinations).zip(gates.iter()) {
                // The copy itself may wait, so the streams are held up behind it.
                scope.on(stream)?.copy_to_host(destination, &memory)?;
                stream.wait_signal(gate, WaitCondition::GreaterOrEqual, 1)?;
            }
            queued.send(()).unwrap();
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert!(streams.iter().all(|stream| stream.query().unwrap()), "a stream is still running after the scope");
    assert!(destinations.iter().flatten().all(|&byte| byte == 9));
    opener.join().unwrap();
}

#[test]
fn safety_4_a_scope_waits_for_every_stream_when_one_of_them_fails() {
    let context = host();
    let streams: Vec<_> = (0..3).map(|_| context.create_stream().unwrap()).collect();
    let memory = streams[0].upload(&vec![9u8; 1 << 18]).unwrap();
    let (mut first, mut last) = (vec![0u8; 1 << 18], vec![0u8; 1 << 18]);
    streams[0].synchronize().unwrap();
    let signal = hold(&context, &streams[2]);
    let opener = std::thread::spawn(move || {
        std::thread::yield_now();
        signal.set(1);
    });
    let error = streams[0]
        .sync_scope(|scope| {
            scope.copy_to_host(&mut first, &memory)?;
            let (failing, late) = (scope.on(&streams[1])?, scope.on(&streams[2])?);
            failing.stream().launch_host_func(|| std::panic::resume_unwind(Box::new("the first")))?;
            late.stream().launch_host_func(|| std::panic::resume_unwind(Box::new("the second")))?;
            late.copy_to_host(&mut last, &memory)
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(error.to_string().contains("the first"), "{error}");
    let error = streams[2].query().expect_err("the last stream is still running after the scope, or its panic is lost");
    assert!(error.to_string().contains("the second"), "{error}");
    assert!(first.iter().chain(&last).all(|&byte| byte == 9));
    opener.join().unwrap();
    // The error of the closure comes before those of the streams.
    let error = streams[0]
        .sync_scope(|scope| {
            let failing = scope.on(&streams[1])?;
            failing.stream().launch_host_func(|| std::panic::resume_unwind(Box::new("later")))?;
            scope.stream().download(memory.slice(..1)?)?;
            memory.slice(..usize::MAX).map(|_| ())
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    let error = streams[1].synchronize().unwrap_err();
    assert!(error.to_string().contains("later"), "{error}");
}

#[test]
fn streams_of_several_contexts_and_devices_in_one_scope() {
    let (context, foreign) = (host(), host());
    let (stream, other) = (context.create_stream().unwrap(), foreign.create_stream().unwrap());
    let (own, theirs) = (stream.upload(&[1u8; 100]).unwrap(), other.upload(&[2u8; 100]).unwrap());
    let (mut left, mut right) = ([0u8; 100], [0u8; 100]);
    stream
        .sync_scope(|scope| {
            let entered = scope.on(&other)?;
            entered.copy_to_host(&mut right, &theirs)?;
            assert_eq!(entered.copy_to_host(&mut left[..50], &own).unwrap_err().status(), Status::INVALID_VALUE);
            Ok(())
        })
        .unwrap();
    let error = stream.sync_scope(|scope| scope.on(&other)?.copy_to_host(&mut left, &own)).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_HANDLE);
    assert_eq!((left, right), ([0; 100], [2; 100]));
}

#[test]
fn safety_5_a_stream_that_captures_is_not_entered_and_its_capture_goes_on() {
    let context = host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.allocate_zeroed::<u8>(4).unwrap();
    let source = [1u8; 4];
    let graph = capturing
        .capture(CaptureMode::Relaxed, |captured| {
            captured.launch_repeatable_host_func(|| {})?;
            let refused = stream.sync_scope(|scope| scope.on(&capturing)?.copy_from_host(&mut buffer, &source));
            assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
}

#[test]
fn safety_5_a_capture_begun_inside_of_a_scope_does_not_keep_what_the_scope_borrows() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.allocate_zeroed::<u8>(4).unwrap();
    stream.synchronize().unwrap();
    let (source, mut destination) = ([1u8; 4], [0u8; 4]);
    let nodes = stream
        .sync_scope(|scope| {
            let entered = scope.on(&other)?;
            scope.stream().begin_capture(CaptureMode::Relaxed)?;
            let refused = scope.copy_from_host(&mut buffer, &source).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            other.wait_stream(scope.stream())?;
            let refused = entered.copy_to_host(&mut destination, &buffer).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            scope.stream().wait_stream(&other)?;
            scope.stream().end_capture()?.nodes()
        })
        .unwrap();
    assert!(nodes.is_empty());
}

#[test]
fn safety_5_memory_of_a_capture_draws_no_scope_into_it() {
    let context = host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[1u8; 4]).unwrap();
    let (source, mut destination) = ([2u8; 4], [0u8; 4]);
    let graph = capturing
        .capture(CaptureMode::Relaxed, |captured| {
            captured.fill(&mut buffer, 3)?;
            let refused = Status::STREAM_CAPTURE_UNSUPPORTED;
            assert_eq!(stream.copy_from_host(&mut buffer, &source).unwrap_err().status(), refused);
            assert_eq!(stream.copy_to_host(&mut destination, &buffer).unwrap_err().status(), refused);
            stream.sync_scope(|scope| {
                assert_eq!(scope.copy_from_host(&mut buffer, &source).unwrap_err().status(), refused);
                Ok(())
            })
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    // Afterwards the memory is used as ever.
    stream.copy_to_host(&mut destination, &buffer).unwrap();
    assert_eq!(destination, [1; 4]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3; 4]);
}

#[test]
fn safety_50_a_copy_of_a_region_that_is_refused_draws_its_stream_into_no_capture() {
    let context = host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut memory = stream.upload(&[1u8; 4]).unwrap();
    let region = Region { extent: [2, 2, 1], ..Region::default() };
    let graph = capturing
        .capture(CaptureMode::Relaxed, |captured| {
            captured.fill(&mut memory, 3)?;
            let to_host = stream.copy_region_to_host(&mut [0; 4], 2, 2, Volume::new(&memory, 2, 2), &region);
            let from_host = stream.copy_region_from_host(VolumeMut::new(&mut memory, 2, 2), &[2; 4], 2, 2, &region);
            for refused in [to_host, from_host] {
                assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            }
            assert!(!stream.is_capturing()?);
            stream.synchronize()
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    assert_eq!(stream.download(&memory).unwrap(), [1; 4]);
}

const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

#[test]
fn safety_51_a_scope_ends_beside_a_capture_that_was_begun_inside() {
    assert_ends(|| {
        let context = host();
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let memory = stream.upload(&vec![9u8; 1 << 20]).unwrap();
        for (mode, origin) in MODES.iter().flat_map(|mode| [(mode, &stream), (mode, &other)]) {
            let mut destination = vec![0u8; 1 << 20];
            stream
                .sync_scope(|scope| {
                    scope.copy_to_host(&mut destination, &memory)?;
                    origin.begin_capture(*mode)
                })
                .unwrap();
            assert!(destination.iter().all(|&byte| byte == 9));
            origin.launch_repeatable_host_func(|| {}).unwrap();
            assert_eq!(origin.end_capture().unwrap().nodes().unwrap().len(), 1);
        }
    });
}

#[test]
fn safety_51_a_scope_waits_for_what_borrows_memory_whatever_is_captured_afterwards() {
    assert_ends(|| {
        let context = host();
        let (legacy, held) = (context.legacy_stream().unwrap(), context.create_stream().unwrap());
        let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
        let mut memory = held.upload(&vec![1u8; 1 << 20]).unwrap();
        let source = vec![9u8; 1 << 20];
        for stream in [&legacy, &blocking] {
            held.synchronize().unwrap();
            let gate = hold(&context, &held);
            held.fill(&mut memory, 2).unwrap();
            let opener = std::thread::spawn(move || {
                (0..10_000).for_each(|_| std::thread::yield_now());
                gate.set(1);
            });
            let ended = stream.sync_scope(|scope| {
                // It comes after the fill.
                scope.copy_from_host(&mut memory, &source)?;
                blocking.begin_capture(CaptureMode::Relaxed)?;
                assert!(scope.copy_from_host(&mut memory, &source).is_err());
                Ok(())
            });
            // Who waits for the legacy stream invalidates the capture of a blocking one.
            let expected = if stream == &legacy { Some(Status::STREAM_CAPTURE_IMPLICIT) } else { None };
            assert_eq!(ended.err().map(|error| error.status()), expected);
            assert_eq!(blocking.end_capture().is_err(), expected.is_some());
            assert!(stream.query().unwrap(), "the copy is still running after the scope");
            assert_eq!(stream.download(&memory).unwrap(), source);
            opener.join().unwrap();
        }
    });
}

#[test]
fn safety_51_copies_from_and_to_plain_memory_end_while_another_stream_captures() {
    assert_ends(|| {
        let context = host();
        let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut memory = stream.upload(&[0u8; 4]).unwrap();
        for (mode, value) in MODES.into_iter().zip(1..) {
            let graph = capturing
                .capture(mode, |_| {
                    stream.copy_from_host(&mut memory, &[value; 4])?;
                    assert_eq!(stream.download(&memory)?, [value; 4]);
                    let mut part = [0u8; 2];
                    stream.sync_scope(|scope| scope.copy_to_host(&mut part, memory.slice(..2)?))?;
                    let region = Region { extent: [2, 1, 1], ..Region::default() };
                    stream.copy_region_to_host(&mut part, 2, 1, Volume::new(&memory, 2, 2), &region)?;
                    assert_eq!(part, [value; 2]);
                    Ok(())
                })
                .unwrap();
            assert!(graph.nodes().unwrap().is_empty());
        }
    });
}

#[test]
fn the_default_stream_of_another_thread_is_not_entered() {
    let context = host();
    let (stream, own) = (context.create_stream().unwrap(), context.per_thread_stream().unwrap());
    let memory = stream.upload(&[3u8; 4]).unwrap();
    let mut destination = [0u8; 4];
    stream.sync_scope(|scope| scope.on(&own)?.copy_to_host(&mut destination, &memory)).unwrap();
    assert_eq!(destination, [3; 4]);
    let (sender, receiver) = std::sync::mpsc::channel();
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn({
        let context = context.clone();
        move || {
            sender.send(context.per_thread_stream().unwrap()).unwrap();
            // The thread outlives the use of its stream.
            wait.recv().unwrap();
        }
    });
    let foreign = receiver.recv().unwrap();
    let refused = stream.sync_scope(|scope| scope.on(&foreign).map(|_| ()));
    assert_eq!(refused.unwrap_err().status(), Status::INVALID_HANDLE);
    // Nor is the default stream of a thread entered by that thread in a scope of another.
    stream
        .sync_scope(|scope| {
            std::thread::scope(|threads| {
                let entering = threads.spawn(|| {
                    // It is leaked, so that it outlives the scope.
                    let own: &'static _ = Box::leak(Box::new(context.per_thread_stream().unwrap()));
                    scope.on(own).map(|_| ()).unwrap_err().status()
                });
                assert_eq!(entering.join().unwrap(), Status::INVALID_HANDLE);
            });
            Ok(())
        })
        .unwrap();
    done.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn safety_51_a_copy_of_a_region_between_pinned_memory_disturbs_no_capture() {
    let context = host();
    let capturing = context.create_stream().unwrap();
    let other = context.create_stream_with_flags(StreamFlags::NON_BLOCKING).unwrap();
    let [mut from, mut to] = [(); 2].map(|()| context.allocate_pinned::<u32>(4).unwrap());
    from.as_mut_slice().unwrap().fill(3);
    let mut buffer = capturing.allocate_zeroed::<u32>(4).unwrap();
    let whole = Region { extent: [2, 2, 1], ..Region::default() };
    // A report of earlier work is for a call that waits.
    other.launch_host_func(|| panic!("reported by a wait")).unwrap();
    let graph = capturing.capture(CaptureMode::Global, |scope| {
        scope.fill(&mut buffer, 1u32)?;
        other.copy_region(VolumeMut::new(&mut to, 2, 2), Volume::new(&from, 2, 2), &whole)
    });
    graph.unwrap();
    assert_eq!(to.as_slice().unwrap(), [3; 4]);
    assert!(other.synchronize().unwrap_err().to_string().contains("reported by a wait"));
}
