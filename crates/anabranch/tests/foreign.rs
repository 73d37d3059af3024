//! Memory and work of other libraries, where code of the program unwinds.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{FillPattern, Live};
use anabranch::{
    Buffer, CaptureMode, Context, DevicePointer, Error, ExecutableGraph, Status, Stream, StreamHandle,
    flush_deferred_drops,
};
use common::{hold, host};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Unwinds when it is dropped.
struct Unwinds(Arc<AtomicUsize>);

impl Drop for Unwinds {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("a keeper"));
    }
}

#[test]
fn a_keeper_that_unwinds_harms_nothing() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let owner = stream.upload(&[1u32, 2]).unwrap();
    stream.synchronize().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    // One with no elements has a keeper too, and one that is dropped in a host function.
    for (length, inside) in [(2, false), (0, false), (1, true)] {
        let keeper = Unwinds(dropped.clone());
        // SAFETY: `owner` has two numbers there, and uses them no more.
        let buffer =
            unsafe { Buffer::<u32>::from_raw_parts(&context, owner.device_pointer(), length, keeper) }.unwrap();
        assert_eq!(stream.download(&buffer).unwrap(), [1, 2][..length]);
        match inside {
            true => stream.launch_host_func(move || drop(buffer)).unwrap(),
            false => drop(buffer),
        }
        stream.synchronize().unwrap();
    }
    flush_deferred_drops();
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    assert_eq!(stream.download(&owner).unwrap(), [1, 2]);
}

/// Fills a word as another library does: by the driver, with a raw handle.
fn fill_raw(context: &Context, stream: StreamHandle, address: DevicePointer, value: u32) {
    let device = context.device();
    // SAFETY: context and stream outlive the call, and the address is that of a number whose uses are ordered.
    unsafe {
        let context = Live::new(context.as_raw());
        device.driver().fill_async(&context.into(), address, FillPattern::U32(value), 1, Live::new(stream)).unwrap();
    }
}

#[test]
fn work_of_another_library_is_ordered_if_its_submission_unwinds() {
    let context = host();
    let [theirs, later]: [Stream; 2] = [(); 2].map(|()| context.create_stream().unwrap());
    let mut buffer = theirs.upload(&[1u32]).unwrap();
    let mut copy = later.allocate_zeroed::<u32>(1).unwrap();
    context.synchronize().unwrap();
    let (address, mut mark, mut signal) = (buffer.device_pointer(), None, None);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        theirs.submit_foreign((&mut buffer,), |stream| {
            // Whoever waits for this has not waited for the work behind it.
            mark = Some(theirs.record_event().unwrap());
            signal = Some(hold(&context, &theirs));
            fill_raw(&context, stream, address, 2);
            resume_unwind(Box::new("a submission"))
        })
    }));
    assert!(unwound.is_err());
    later.wait_event(&mark.unwrap()).unwrap();
    later.copy(&mut copy, &buffer).unwrap();
    assert!(!later.is_complete().unwrap());
    signal.unwrap().set(1);
    assert_eq!(later.download(&copy).unwrap(), [2]);
}

#[test]
fn safety_93_a_graph_is_not_launched_while_others_submit_work_that_uses_its_memory() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let [mut written, mut read] = [stream.upload(&[0u32; 4]).unwrap(), stream.upload(&[0u32; 4]).unwrap()];
    let mut copy = stream.upload(&[0u32; 4]).unwrap();
    let writes = stream.capture_executable(CaptureMode::Global, |_| stream.fill(&mut written, 7u32)).unwrap();
    let reads = stream.capture_executable(CaptureMode::Global, |_| stream.copy(&mut copy, &read)).unwrap();
    let refused = |graph: &ExecutableGraph, is_refused: bool| {
        let on_another_thread = || graph.launch(&other);
        let launched = thread::scope(|scope| scope.spawn(on_another_thread).join().unwrap());
        assert_eq!(
            launched.as_ref().err().map(Error::status),
            is_refused.then_some(Status::ILLEGAL_STATE),
            "{launched:?}"
        );
        assert_eq!(graph.launch(&stream).is_err(), is_refused, "on this thread, which holds no lock");
    };
    // Whatever is written, and what is read where it is written.
    stream.submit_foreign((&written,), |_| refused(&writes, true)).unwrap();
    stream.submit_foreign((&mut written,), |_| refused(&writes, true)).unwrap();
    stream.submit_foreign((&read,), |_| refused(&reads, false)).unwrap();
    stream.submit_foreign((&mut read,), |_| refused(&reads, true)).unwrap();
    // Also after a closure that has unwound.
    let unwound = || stream.submit_foreign((&mut read,), |_| resume_unwind(Box::new("on purpose")));
    catch_unwind(AssertUnwindSafe(unwound)).unwrap_err();
    refused(&writes, false);
    refused(&reads, false);
    assert_eq!(stream.download(&written).unwrap(), [7; 4]);
}
