//! What several threads, or one in the middle of something, must not be able to bring about with safe code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, Context, DependencyUpdate, DualModule, HostFunction, Kernel, LaunchConfig, Stream};
use common::{hold, host};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Whether the library knows that the stream captures: then it knows its nodes.
fn is_known_to_capture(stream: &Stream) -> bool {
    let Ok(info) = stream.capture_info() else { return false };
    let Some(&(node, _)) = info.dependencies.first() else { return false };
    stream.update_capture_dependencies(node, DependencyUpdate::Add).is_ok()
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
