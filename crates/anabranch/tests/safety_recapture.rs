//! What safe code cannot do with recaptures, on the host device. The numbers are those of docs/safety.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, FillPattern, Forward, Layered, Live};
use anabranch::{
    Capabilities, CaptureMode, DevicePointer, Instance, RecaptureChanges, Status, StreamHandle, flush_deferred_drops,
};
use common::checked_host;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MODE: CaptureMode = CaptureMode::Relaxed;

#[test]
fn safety_7_what_a_recapture_refers_to_is_kept() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (mut before, mut target) = (stream.upload(&[1u32; 256]).unwrap(), stream.upload(&[0u32; 256]).unwrap());
    let mut graph = stream
        .capture(MODE, |scope| {
            scope.fill(&mut before, 2u32)?;
            scope.copy(&mut target, &before)
        })
        .unwrap();
    let executable = graph.instantiate().unwrap();
    let mut after = stream.upload(&[1u32; 256]).unwrap();
    let changed = stream
        .recapture(&mut graph, RecaptureChanges::Any, MODE, |scope| {
            scope.fill(&mut after, 3u32)?;
            scope.copy(&mut target, &after)
        })
        .unwrap();
    assert_eq!(changed.len(), 2);
    // Neither the executable graph of before nor the graph of now has lost its memory.
    drop((before, after));
    flush_deferred_drops();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&target).unwrap(), [2; 256]);
    executable.update(&graph).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&target).unwrap(), [3; 256]);
    drop((executable, graph));
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn safety_7_a_recapture_whose_closure_unwinds_has_ended() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut word = stream.upload(&[0u32]).unwrap();
    let mut graph = stream.capture(MODE, |scope| scope.fill(&mut word, 1u32)).unwrap();
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stream.recapture(&mut graph, RecaptureChanges::Any, MODE, |scope| {
            scope.fill(&mut word, 2u32)?;
            panic!("on purpose")
        })
    }));
    assert!(unwound.is_err());
    // All nodes were captured again.
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&word).unwrap(), [2]);
}

/// Ends the recapture when a fill is captured, and refuses the fill, as a driver may do that finds a mismatch.
#[derive(Debug)]
struct EndsAtOnce {
    inner: Arc<dyn Driver>,
    armed: Arc<AtomicBool>,
}

// SAFETY: all calls are forwarded as they are, or refused.
unsafe impl Forward for EndsAtOnce {
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
        if self.armed.swap(false, Ordering::Relaxed) {
            let ended = self.inner.stream_end_capture(call, stream);
            assert!(ended.is_err(), "the recapture is not complete");
            return Err(hal::Failure::new(Status::INVALID_VALUE));
        }
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.fill_async(call, address, pattern, count, stream) }
    }
}

#[test]
fn safety_7_work_behind_a_recapture_that_the_driver_has_ended_does_not_run() {
    let armed = Arc::<AtomicBool>::default();
    let of_layer = armed.clone();
    let wrap = move |inner| Arc::new(Layered(EndsAtOnce { inner, armed: of_layer.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let mut word = stream.upload(&[7u32]).unwrap();
    let mut graph = stream.capture(MODE, |scope| scope.fill(&mut word, 1u32)).unwrap();
    armed.store(true, Ordering::Relaxed);
    let (mut first, mut later) = (Ok(()), Ok(()));
    let recaptured = stream.recapture(&mut graph, RecaptureChanges::Any, MODE, |scope| {
        first = scope.fill(&mut word, 2u32);
        later = scope.fill(&mut word, 3u32);
        Ok(())
    });
    assert_eq!(first.unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(later.unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    assert!(recaptured.is_err());
    assert_eq!(graph.nodes().unwrap(), []);
    assert_eq!(stream.download(&word).unwrap(), [7]);
}

#[test]
fn what_cannot_be_captured_again_is_refused() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    assert!(context.device().capabilities().contains(Capabilities::RECAPTURE));
    let mut word = stream.upload(&[0u32]).unwrap();
    let mut graph = stream.capture(MODE, |scope| scope.fill(&mut word, 1u32)).unwrap();
    let refused = stream.recapture(&mut graph, RecaptureChanges::Any, MODE, |scope| {
        let allocated = scope.allocate_zeroed::<u32>(4).map(drop);
        assert_eq!(allocated.unwrap_err().status(), Status::NOT_SUPPORTED);
        let other = scope.capture_if(&word, |_| Ok(()));
        assert_eq!(other.unwrap_err().status(), Status::NOT_SUPPORTED);
        // These have changed nothing.
        scope.fill(&mut word, 1u32)
    });
    assert_eq!(refused.unwrap(), []);
    let mut allocates = stream.capture(MODE, |scope| scope.allocate_zeroed::<u32>(4).map(drop)).unwrap();
    let nodes = allocates.nodes().unwrap();
    let refused = stream.recapture(&mut allocates, RecaptureChanges::Any, MODE, |_| Ok(()));
    assert_eq!(refused.unwrap_err().status(), Status::NOT_SUPPORTED);
    assert_eq!(allocates.nodes().unwrap(), nodes, "the graph stays as it was");
    // A graph of another context.
    let other = checked_host().create_stream().unwrap();
    let refused = other.recapture(&mut graph, RecaptureChanges::Any, MODE, |_| Ok(()));
    assert_eq!(refused.unwrap_err().status(), Status::INVALID_HANDLE);
}
