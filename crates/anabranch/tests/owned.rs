//! Operations that own what they use until it is no longer used.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "owned/arguments.rs"]
mod arguments;
mod common;
#[path = "owned/executors.rs"]
mod executors;
#[path = "owned/host_access.rs"]
mod host_access;
#[path = "owned/staging.rs"]
mod staging;

use anabranch::{
    Buffer, CaptureMode, Context, ContextFlags, Download, DualModule, Enqueued, ErrorKind, HostFunction, KernelFault,
    LaunchConfig, ManagedBuffer, MemoryPoolAttribute, PinnedBuffer, Reads, Status, Stream, Upload,
    flush_deferred_drops,
};
use common::{hold, host, until};
use futures::executor::block_on;
use futures::future::FusedFuture;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut std::task::Context::from_waker(Waker::noop()))
}

/// A context of its own, whose staging memory nobody else uses.
fn own_context() -> Context {
    host().device().create_context(ContextFlags::empty()).unwrap()
}

#[test]
fn safety_21_owned_operations_can_be_sent() {
    fn sendable<T: Send + Sync + Unpin + 'static>() {}
    sendable::<Upload<u32>>();
    sendable::<Download<u32>>();
    sendable::<Enqueued<(Buffer<u8>, PinnedBuffer<u8>)>>();
    sendable::<Enqueued<(Reads<Buffer<u8>>, ManagedBuffer<u8>, u32)>>();
}

#[test]
fn what_is_uploaded_comes_back() {
    let stream = host().create_stream().unwrap();
    block_on(async {
        for length in [0, 1, 3, 1023, 1024, 1025, 4096, 65_537, 1 << 20] {
            let source: Vec<u32> = (0..length).map(|index| index ^ 0x5a5a_5a5a).collect();
            let buffer = stream.upload_async(&source).await.unwrap();
            assert_eq!(buffer.len(), source.len());
            assert_eq!(stream.download_async(&buffer).await.unwrap(), source);
        }
        let buffer: Buffer<f64> = stream.upload_async([1.5, 2.5]).await.unwrap();
        assert_eq!(stream.download_async(&buffer).await.unwrap(), [1.5, 2.5]);
        let buffer: Buffer<[u8; 3]> = stream.upload_async(vec![[1, 2, 3], [4, 5, 6]]).await.unwrap();
        assert_eq!(stream.download_async(buffer.slice(1..).unwrap()).await.unwrap(), [[4, 5, 6]]);
        let buffer: Buffer<()> = stream.upload_async([(), ()]).await.unwrap();
        assert_eq!(stream.download_async(&buffer).await.unwrap().len(), 2);
    });
}

#[test]
fn every_kind_of_memory_is_downloaded_without_a_wait() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let device = stream.upload(&[1u16; 500]).unwrap();
    let mut pinned = context.allocate_pinned::<u16>(500).unwrap();
    pinned.as_mut_slice().unwrap().fill(2);
    let mut managed = context.allocate_managed::<u16>(500).unwrap();
    managed.as_mut_slice().unwrap().fill(3);
    let signal = hold(&context, &stream);
    // A wait here would never return: the stream is released only afterwards.
    let downloads = [stream.download_async(&device), stream.download_async(&pinned), stream.download_async(&managed)];
    drop((device, managed));
    signal.set(1);
    for (download, expected) in downloads.into_iter().zip(1..) {
        assert_eq!(block_on(download).unwrap(), [expected; 500]);
    }
    // The copy is a use of pinned memory like any other.
    let signal = hold(&context, &stream);
    let download = stream.download_async(&pinned);
    assert!(!pinned.is_idle().unwrap());
    signal.set(1);
    pinned.as_mut_slice().unwrap().fill(9);
    assert_eq!(block_on(download).unwrap(), [2; 500]);
}

#[test]
fn a_download_is_of_what_is_there_when_its_turn_comes_whatever_is_done_to_the_buffer_meanwhile() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[1u8; 4096]).unwrap();
    let signal = hold(&context, &stream);
    let mut first = stream.download_async(&buffer);
    other.fill(&mut buffer, 2).unwrap();
    let second = other.download_async(buffer.slice(..100).unwrap());
    drop(buffer);
    let mut reused = stream.allocate_zeroed::<u8>(4096).unwrap();
    stream.fill(&mut reused, 3).unwrap();
    assert!(poll(&mut first).is_pending() && !first.is_terminated());
    signal.set(1);
    assert_eq!(block_on(&mut first).unwrap(), [1; 4096]);
    assert!(first.is_terminated());
    assert_eq!(block_on(second).unwrap(), [2; 100]);
    assert_eq!(block_on(first).unwrap_err().status(), Status::ILLEGAL_STATE, "a result is given out once");
}

#[test]
fn copies_between_all_kinds_of_memory() {
    fn buffers(context: &Context, value: u32) -> (Buffer<u32>, PinnedBuffer<u32>, ManagedBuffer<u32>) {
        let stream = context.create_stream().unwrap();
        let device = stream.upload(&[value; 100]).unwrap();
        let mut pinned = context.allocate_pinned(100).unwrap();
        pinned.as_mut_slice().unwrap().fill(value);
        let mut managed = context.allocate_managed(100).unwrap();
        managed.as_mut_slice().unwrap().fill(value);
        (device, pinned, managed)
    }
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut value = 0;
    macro_rules! copies {
        ($($to:tt $from:tt),*) => { $({
            value += 1;
            let (to, from) = (buffers(&context, 0).$to, buffers(&context, value).$from);
            let signal = hold(&context, &stream);
            let mut copy = stream.copy_async(to, from);
            assert!(poll(&mut copy).is_pending());
            signal.set(1);
            let (to, from) = block_on(copy).unwrap();
            assert_eq!(stream.download(&to).unwrap(), [value; 100]);
            assert_eq!(stream.download(&from).unwrap(), [value; 100]);
        })* };
    }
    copies!(0 0, 0 1, 0 2, 1 0, 1 1, 1 2, 2 0, 2 1, 2 2);
    let (to, from) = (context.allocate_pinned::<u32>(99).unwrap(), buffers(&context, 1).1);
    assert_eq!(block_on(stream.copy_async(to, from)).unwrap_err().status(), Status::INVALID_VALUE);
    let (to, from) = (context.allocate_pinned::<u32>(0).unwrap(), context.allocate_pinned::<u32>(0).unwrap());
    block_on(stream.copy_async(to, from)).unwrap();
}

#[test]
fn pinned_memory_copied_to_pinned_memory_is_ordered_as_any_other_use() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let source = stream.upload(&[5u8; 64]).unwrap();
    let mut from = context.allocate_pinned::<u8>(64).unwrap();
    let signal = hold(&context, &other);
    other.copy(&mut from, &source).unwrap();
    // The stream waits for the other, which is held up.
    let mut copy = stream.copy_async(context.allocate_pinned::<u8>(64).unwrap(), from);
    assert!(poll(&mut copy).is_pending());
    signal.set(1);
    let (to, from) = block_on(copy).unwrap();
    assert_eq!(to.as_slice().unwrap(), from.as_slice().unwrap());
    assert_eq!(to.as_slice().unwrap(), [5; 64]);
}

#[test]
fn safety_11_owned_operations_report_a_panic_of_earlier_work_once() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u8; 10]).unwrap();
    for operation in 0..3 {
        stream.launch_host_func(|| std::panic::resume_unwind(Box::new("earlier"))).unwrap();
        let error = match operation {
            0 => block_on(stream.upload_async([1u8, 2])).unwrap_err(),
            1 => block_on(stream.download_async(&buffer)).unwrap_err(),
            _ => block_on(stream.fill_async(stream.allocate_zeroed::<u8>(8).unwrap(), 1)).unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Panicked);
        assert!(error.to_string().contains("earlier"), "{error}");
        assert_eq!(block_on(stream.download_async(&buffer)).unwrap(), [1; 10]);
        stream.synchronize().unwrap();
    }
}

#[test]
fn safety_13_owned_operations_in_a_lost_context_end_with_its_error() {
    lose_while_operations_are_pending(false);
    lose_while_operations_are_pending(true);
}

fn lose_while_operations_are_pending(by_flags: bool) {
    let context = own_context();
    context.set_completion_by_flags(Some(by_flags));
    let diagnostics = context.completion_diagnostics();
    let (stream, losing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let buffer = stream.upload(&[1u8; 100]).unwrap();
    let function = HostFunction::new("trap", &[], |_, _| KernelFault::trap("on purpose").raise());
    let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("trap").unwrap();
    let signal = hold(&context, &stream);
    let (upload, download) = (stream.upload_async([1u8; 100]), stream.download_async(&buffer));
    let (mut asked, unasked) = (stream.download_async(&buffer), stream.upload_async([2u8; 100]));
    assert!(poll(&mut asked).is_pending());
    drop((asked, unasked));
    let waiting = std::thread::spawn(move || block_on(async { (upload.await.err(), download.await.err()) }));
    // SAFETY: the kernel uses no memory.
    unsafe { losing.launch(&kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
    let (upload, download) = waiting.join().unwrap();
    assert!(upload.unwrap().is_sticky() && download.unwrap().is_sticky());
    assert!(block_on(stream.upload_async([1u8])).unwrap_err().is_sticky());
    assert_eq!(context.idle_staging(), 0, "memory that something may still use is not used again");
    signal.set(1);
    drop((context, stream, losing, buffer, kernel, signal));
    until("the context's end", || !diagnostics.is_running());
}

#[test]
fn owned_operations_are_refused_while_the_stream_captures_and_the_capture_goes_on() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u8; 8]).unwrap();
    let (left, right) = (stream.upload(&[1u8; 8]).unwrap(), stream.upload(&[1u8; 8]).unwrap());
    let filled = stream.upload(&[1u8; 8]).unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            scope.launch_repeatable_host_func(|| {})?;
            let refused = Status::STREAM_CAPTURE_UNSUPPORTED;
            assert_eq!(block_on(scope.upload_async([1u8])).unwrap_err().status(), refused);
            assert_eq!(block_on(scope.download_async(&buffer)).unwrap_err().status(), refused);
            assert_eq!(block_on(scope.copy_async(left, right)).unwrap_err().status(), refused);
            assert_eq!(block_on(scope.fill_async(filled, 1)).unwrap_err().status(), refused);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    block_on(graph.instantiate().unwrap().launch_async(&stream)).unwrap();
    // In other streams they continue, and do not invalidate a capture although they pin memory.
    let other = context.create_stream().unwrap();
    let buffer = other.upload(&[7u8; 300_000]).unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            scope.launch_repeatable_host_func(|| {})?;
            assert_eq!(block_on(other.download_async(&buffer))?, [7; 300_000]);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
}

#[test]
fn safety_5_memory_of_a_capture_draws_no_owned_operation_into_it() {
    let context = host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[1u8; 4]).unwrap();
    let mut pinned = context.allocate_pinned::<u8>(4).unwrap();
    let graph = capturing
        .capture(CaptureMode::Relaxed, |captured| {
            captured.fill(&mut buffer, 3)?;
            captured.fill(&mut pinned, 3)?;
            let refused = Status::STREAM_CAPTURE_UNSUPPORTED;
            assert_eq!(block_on(stream.download_async(&buffer)).unwrap_err().status(), refused);
            assert_eq!(block_on(stream.download_async(&pinned)).unwrap_err().status(), refused);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 2);
    assert_eq!(block_on(stream.download_async(&buffer)).unwrap(), [1; 4]);
}

#[test]
fn owned_operations_are_refused_where_they_cannot_be() {
    let (context, foreign) = (host(), host());
    let stream = Arc::new(context.create_stream().unwrap());
    let other = foreign.create_stream().unwrap().upload(&[1u8; 4]).unwrap();
    assert_eq!(block_on(stream.download_async(&other)).unwrap_err().status(), Status::INVALID_HANDLE);
    let own = stream.upload(&[1u8; 4]).unwrap();
    assert_eq!(block_on(stream.copy_async(own, other)).unwrap_err().status(), Status::INVALID_HANDLE);
    let (sender, receiver) = mpsc::channel();
    let (inside, buffer) = (stream.clone(), stream.upload(&[1u8; 4]).unwrap());
    let function = move || {
        sender.send(block_on(inside.upload_async([1u8])).unwrap_err().status()).unwrap();
        sender.send(block_on(inside.download_async(&buffer)).unwrap_err().status()).unwrap();
    };
    stream.launch_host_func(function).unwrap();
    assert_eq!(receiver.recv().unwrap(), Status::NOT_PERMITTED);
    assert_eq!(receiver.recv().unwrap(), Status::NOT_PERMITTED);
    stream.synchronize().unwrap();
}
