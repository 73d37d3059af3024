//! Classes of defects of conditional parts that end while other threads use their memory. `docs/safety.md` lists them all by
//! the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Buffer, CaptureMode, Stream};
use common::checked_host;
use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Gives a buffer to another thread in the middle of a part, as often as it is sent, and takes back what `uses` has done with it.
fn with_user<R>(
    uses: impl Fn(&mut Buffer<u32>) -> bool + Send,
    body: impl FnOnce(&dyn Fn(Buffer<u32>), &dyn Fn() -> (Buffer<u32>, bool)) -> R,
) -> R {
    let (to, given) = sync_channel::<Buffer<u32>>(0);
    let (back, used) = sync_channel(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Ok(mut buffer) = given.recv() {
                let is_used = uses(&mut buffer);
                back.send((buffer, is_used)).unwrap();
            }
        });
        let result = body(&|buffer| to.send(buffer).unwrap(), &|| used.recv().unwrap());
        drop(to);
        result
    })
}

/// Sets a flag, also after a failure.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn safety_180_what_another_thread_does_behind_a_part_is_behind_its_node() {
    const ROUNDS: usize = 3000;
    let context = checked_host();
    let [stream, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let condition = stream.upload(&[1u32]).unwrap();
    let mut result = stream.upload(&[0u32; 4]).unwrap();
    let mut buffer = Some(stream.upload(&[5u32; 4]).unwrap());
    // Refused until the part is over.
    let fill = |buffer: &mut Buffer<u32>| (0..200).any(|_| other.fill(&mut *buffer, 77).is_ok());
    let filled = with_user(fill, |give, take| {
        let mut filled = 0;
        for round in 0..ROUNDS {
            let mut taken = None;
            let executable = stream.capture_executable(CaptureMode::Relaxed, |scope| {
                scope.fill(buffer.as_mut().unwrap(), 5)?;
                scope.fork(&other)?;
                let moved = Cell::new(buffer.take());
                scope.capture_if(&condition, |part| {
                    let buffer = moved.take().unwrap();
                    part.copy(&mut result, &buffer)?;
                    give(buffer);
                    (0..round * 7 % 400).for_each(|_| spin_loop());
                    Ok(())
                })?;
                taken = Some(take());
                scope.join(&other)
            });
            executable.unwrap().launch(&stream).unwrap();
            let (taken, is_filled) = taken.unwrap();
            assert_eq!(stream.download(&result).unwrap(), [5; 4], "the fill comes behind");
            let content = if is_filled { 77 } else { 5 };
            assert_eq!(stream.download(&taken).unwrap(), [content; 4]);
            buffer = Some(taken);
            filled += usize::from(is_filled);
        }
        filled
    });
    assert!(filled > 0, "none was behind a part");
}

#[test]
fn safety_181_memory_of_an_ended_part_is_not_used_outside_of_its_capture() {
    const ROUNDS: usize = 2000;
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let condition = stream.upload(&[1u32]).unwrap();
    let mut result = stream.upload(&[0u32; 4]).unwrap();
    let mut buffer = Some(stream.upload(&[5u32; 4]).unwrap());
    let others: Vec<_> = (0..16).map(|_| stream.upload(&[1u32; 4]).unwrap()).collect();
    let is_over = AtomicBool::new(false);
    // In a stream of no capture, which joins or is refused.
    let fill = |buffer: &mut Buffer<u32>| {
        let outside: Stream = context.create_stream().unwrap();
        (0..50).any(|_| outside.fill(&mut *buffer, 77).is_ok())
    };
    thread::scope(|scope| {
        // So that threads stop at any place.
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let _over = SetOnDrop(&is_over);
        with_user(fill, |give, take| {
            for round in 0..ROUNDS {
                stream.fill(buffer.as_mut().unwrap(), 5).unwrap();
                stream.synchronize().unwrap();
                let mut taken = None;
                let graph = stream.capture(CaptureMode::Relaxed, |scope| {
                    let moved = Cell::new(buffer.take());
                    let captured = scope.capture_if(&condition, |part| {
                        let buffer = moved.take().unwrap();
                        others.iter().try_for_each(|other| part.copy(&mut result, other))?;
                        part.copy(&mut result, &buffer)?;
                        give(buffer);
                        (0..round * 13 % 4000).for_each(|_| spin_loop());
                        Ok(())
                    });
                    taken = Some(take().0);
                    captured
                });
                let taken = taken.unwrap();
                if graph.is_ok() {
                    assert_eq!(stream.download(&taken).unwrap(), [5; 4], "nothing was launched");
                }
                buffer = Some(taken);
            }
        });
    });
}
