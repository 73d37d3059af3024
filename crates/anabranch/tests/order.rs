//! The order that the library keeps between streams that use the same memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "order/by_hand.rs"]
mod by_hand;
#[path = "order/captured.rs"]
mod captured;
mod common;
#[path = "order/counted.rs"]
mod counted;
#[path = "order/host.rs"]
mod host_knowledge;
#[path = "order/strict.rs"]
mod strict;

use anabranch::{Buffer, Context, Stream};
use common::{hold, host};

/// As many streams of one context.
fn streams<const COUNT: usize>(context: &Context) -> [Stream; COUNT] {
    std::array::from_fn(|_| context.create_stream().unwrap())
}

/// A word of memory that a stream is about to set to 7, and has not yet: the stream is held up by the signal.
fn held_word(context: &Context, stream: &Stream) -> (Buffer<u32>, anabranch::Signal) {
    let mut word = stream.upload(&[1u32]).unwrap();
    let signal = hold(context, stream);
    stream.fill(&mut word, 7).unwrap();
    (word, signal)
}

/// Copies the word on a stream which that copy made wait as often as expected, and lets the copy run: it has the 7.
#[track_caller]
fn copy_waits(stream: &Stream, word: &Buffer<u32>, expected: u64, signal: &anabranch::Signal) {
    let before = stream.orders_inserted();
    let mut copy = stream.allocate_zeroed::<u32>(1).unwrap();
    stream.copy(&mut copy, word).unwrap();
    assert_eq!(stream.orders_inserted() - before, expected);
    assert!(is_held(stream));
    signal.set(1);
    assert_eq!(stream.download(&copy).unwrap(), [7]);
}

/// Whether work queued on `stream` now is held up by somebody else.
fn is_held(stream: &Stream) -> bool {
    !stream.query().unwrap()
}

#[test]
fn a_reader_waits_for_the_last_writer() {
    let context = host();
    let (writer, reader) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut source = writer.upload(&[1u32; 4]).unwrap();
    let mut copy = reader.allocate_zeroed::<u32>(4).unwrap();
    let signal = hold(&context, &writer);
    writer.fill(&mut source, 7).unwrap();
    reader.copy(&mut copy, &source).unwrap();
    assert!(is_held(&reader));
    signal.set(1);
    assert_eq!(reader.download(&copy).unwrap(), [7; 4]);
}

#[test]
fn safety_25_a_writer_waits_for_all_readers() {
    let context = host();
    let readers: Vec<Stream> = (0..3).map(|_| context.create_stream().unwrap()).collect();
    let writer = context.create_stream().unwrap();
    let mut memory = writer.upload(&[1u32; 4]).unwrap();
    let mut copies: Vec<Buffer<u32>> = readers.iter().map(|reader| reader.allocate_zeroed(4).unwrap()).collect();
    let signals: Vec<_> = readers.iter().map(|reader| hold(&context, reader)).collect();
    for (reader, copy) in readers.iter().zip(&mut copies) {
        reader.copy(copy, &memory).unwrap();
    }
    writer.fill(&mut memory, 9).unwrap();
    for signal in &signals {
        assert!(is_held(&writer));
        signal.set(1);
    }
    assert_eq!(writer.download(&memory).unwrap(), [9; 4]);
    for (reader, copy) in readers.iter().zip(&copies) {
        assert_eq!(reader.download(copy).unwrap(), [1; 4]);
    }
}

#[test]
fn readers_do_not_wait_for_each_other() {
    let context = host();
    let (first, second) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let memory = first.upload(&[5u32; 4]).unwrap();
    let mut copy = first.allocate_zeroed::<u32>(4).unwrap();
    let signal = hold(&context, &first);
    first.copy(&mut copy, memory.slice(..).unwrap()).unwrap();
    // The second reader waits for the write, which is over, and not for the first reader, which is held up. The write
    // and the first reader share a stream, so it is recorded after the gate; a third stream shows the difference.
    signal.set(1);
    first.synchronize().unwrap();
    let third = context.create_stream().unwrap();
    let mut other = third.allocate_zeroed::<u32>(4).unwrap();
    third.copy(&mut other, &memory).unwrap();
    let signal = hold(&context, &third);
    third.copy(&mut other, &memory).unwrap();
    assert_eq!(second.download(&memory).unwrap(), [5; 4]);
    assert!(is_held(&third));
    signal.set(1);
    third.synchronize().unwrap();
}

#[test]
fn safety_28_memory_is_freed_behind_its_last_use_on_every_stream() {
    let context = host();
    let (home, reader) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let memory = home.upload(&vec![3u8; 1 << 16]).unwrap();
    let mut copy = reader.allocate_zeroed::<u8>(1 << 16).unwrap();
    let signal = hold(&context, &reader);
    reader.copy(&mut copy, &memory).unwrap();
    drop(memory);
    // Memory allocated now on the home stream must not be that of the buffer, or not before the reader is done.
    let reused = home.allocate_zeroed::<u8>(1 << 16).unwrap();
    signal.set(1);
    assert!(reader.download(&copy).unwrap().iter().all(|&byte| byte == 3));
    assert!(home.download(&reused).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn memory_outlives_the_streams_that_used_it() {
    let context = host();
    let (other, home) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut memory = home.upload(&[1u32; 8]).unwrap();
    let signal = hold(&context, &other);
    other.fill(&mut memory, 4).unwrap();
    drop(other);
    drop(home);
    let third = context.create_stream().unwrap();
    third.fill(memory.slice_mut(..2).unwrap(), 6).unwrap();
    assert!(is_held(&third));
    signal.set(1);
    assert_eq!(third.download(&memory).unwrap(), [6, 6, 4, 4, 4, 4, 4, 4]);
    drop(memory);
    third.synchronize().unwrap();
}

#[test]
fn into_raw_keeps_the_order_of_what_the_stream_has_used() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut memory = stream.upload(&[1u32]).unwrap();
    let signal = hold(&context, &stream);
    stream.fill(&mut memory, 2).unwrap();
    let handle = stream.into_raw();
    let reader = context.create_stream().unwrap();
    let mut copy = reader.allocate_zeroed::<u32>(1).unwrap();
    reader.copy(&mut copy, &memory).unwrap();
    assert!(is_held(&reader));
    signal.set(1);
    assert_eq!(reader.download(&copy).unwrap(), [2]);
    // SAFETY: the handle was given up above, and nobody else has it.
    drop(unsafe { Stream::from_raw(&context, handle) }.unwrap());
}

#[test]
fn the_default_stream_of_another_thread_is_followed_and_not_used() {
    let context = host();
    let mut memory = context.create_stream().unwrap().upload(&[0u32; 4]).unwrap();
    let (to_main, from_thread) = std::sync::mpsc::channel();
    let (release, hold_thread) = std::sync::mpsc::channel::<()>();
    let other = context.clone();
    let thread = std::thread::spawn(move || {
        let stream = other.per_thread_stream().unwrap();
        stream.fill(&mut memory, 8).unwrap();
        to_main.send((stream, memory)).unwrap();
        hold_thread.recv().unwrap();
    });
    let (foreign, memory) = from_thread.recv().unwrap();
    let reader = context.create_stream().unwrap();
    assert_eq!(reader.download(&memory).unwrap(), [8; 4]);
    let error = foreign.synchronize().unwrap_err();
    assert!(error.to_string().contains("default stream of another thread"), "{error}");
    release.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn safety_23_pinned_memory_is_read_and_written_after_the_work_that_uses_it() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    pinned.as_mut_slice().unwrap().copy_from_slice(&[1, 2, 3, 4]);
    let mut memory = stream.allocate_zeroed::<u32>(4).unwrap();
    let signal = hold(&context, &stream);
    stream.copy(&mut memory, &pinned).unwrap();
    assert!(!pinned.is_idle().unwrap());
    // Reading does not wait for work that only reads.
    assert_eq!(pinned.as_slice().unwrap(), [1, 2, 3, 4]);
    let opener = std::thread::spawn(move || signal.set(1));
    pinned.as_mut_slice().unwrap().fill(0);
    assert_eq!(stream.download(&memory).unwrap(), [1, 2, 3, 4]);
    opener.join().unwrap();
}
