//! What is refused in default streams: in those of other threads, and in the legacy stream beside a capture.

use crate::environment::LENGTH;
use crate::run::half;
use crate::streams::StreamKind;
use crate::world::World;
use anabranch::{Buffer, CaptureMode, Result, Status, Stream};
use futures::executor::block_on;
use proptest::prelude::*;
use std::thread::scope;

#[derive(Clone, Debug)]
pub(crate) enum Defaults {
    /// A thread uses the default stream of another one, by a call with this number.
    Elsewhere { stream: usize, to: usize, call: usize },
    /// A call in the legacy stream while a stream of this kind captures.
    BesideCapture { stream: usize, capturing: StreamKind, to: usize, value: u32, call: usize },
    /// The legacy stream is to capture.
    Capture { stream: usize, to: usize, into: bool },
}

pub(crate) fn defaults() -> impl Strategy<Value = Defaults> {
    use Defaults::*;
    use StreamKind::{Blocking, NonBlocking, PerThread};
    let n = || 0..4usize;
    let capturing = prop::sample::select(vec![Blocking(0), PerThread, NonBlocking(0)]);
    prop_oneof![
        2 => (n(), n(), 0..ELSEWHERE.len()).prop_map(|(stream, to, call)| Elsewhere { stream, to, call }),
        4 => (n(), capturing, n(), any::<u32>(), 0..BESIDE.len())
            .prop_map(|(stream, capturing, to, value, call)| BesideCapture { stream, capturing, to, value, call }),
        1 => (n(), n(), any::<bool>()).prop_map(|(stream, to, into)| Capture { stream, to, into }),
    ]
}

/// A call in a stream, with a buffer and a value that it may write.
type Call = fn(&Stream, &mut Buffer<u32>, u32) -> Result<()>;

/// Calls in the default stream of another thread.
const ELSEWHERE: [Call; 10] = [
    |stream, buffer, value| stream.fill(buffer, value),
    |stream, buffer, _| stream.download(&*buffer).map(drop),
    |stream, _, _| stream.upload(&[7u32]).map(drop),
    |stream, buffer, _| block_on(stream.download_async(&*buffer)).map(drop),
    |stream, _, _| stream.record_event().map(drop),
    |stream, _, _| stream.synchronize(),
    |stream, _, _| stream.query().map(drop),
    |stream, _, _| stream.launch_host_func(|| ()),
    |stream, _, _| stream.begin_capture(CaptureMode::Relaxed),
    |stream, buffer, _| stream.sync_scope(|scope| scope.copy_from_host(buffer, &[7; LENGTH])),
];

/// Calls in the legacy stream, of which the first writes half of a buffer.
const BESIDE: [Call; 9] = [
    |legacy, buffer, value| legacy.fill(buffer.slice_mut(half()..)?, value),
    |legacy, _, _| legacy.upload(&[7u32]).map(drop),
    |legacy, _, _| legacy.record_event().map(drop),
    |legacy, _, _| legacy.synchronize(),
    |legacy, _, _| legacy.query().map(drop),
    |legacy, _, _| legacy.wait_stream(&legacy.context().create_stream()?),
    // Refused before they do anything.
    |legacy, _, _| legacy.launch_host_func(|| ()),
    |legacy, _, _| legacy.is_capturing().map(drop),
    |legacy, buffer, _| legacy.download(&*buffer).map(drop),
];

/// How many of them end the capture of a blocking stream.
const ENDS_CAPTURES: usize = 6;

impl World<'_> {
    pub(crate) fn defaults(&mut self, defaults: &Defaults) {
        match *defaults {
            Defaults::Elsewhere { stream, to, call } => {
                let slot = self.new_stream(self.stream(stream).device, StreamKind::PerThread);
                let to = self.buffer(&slot, to);
                let buffer = self.places[slot.device].buffers[to].buffer.as_mut().unwrap();
                let stream = &slot.stream;
                let used = scope(|scope| scope.spawn(|| ELSEWHERE[call](stream, buffer, 7)).join().unwrap());
                let refused = used.unwrap_err();
                assert_eq!(refused.status(), Status::INVALID_HANDLE, "call {call}: {refused}");
                self.read(&slot, to);
            }
            Defaults::BesideCapture { stream, capturing, to, value, call } => {
                self.let_go();
                let device = self.stream(stream).device;
                let capturing = if self.may_capture(capturing) { capturing } else { StreamKind::NonBlocking(0) };
                let (legacy, origin) =
                    (self.new_stream(device, StreamKind::Legacy), self.new_stream(device, capturing));
                let to = self.buffer(&legacy, to);
                let mut scratch = origin.stream.allocate_zeroed::<u32>(LENGTH).unwrap();
                let slot = &mut self.places[device].buffers[to];
                let buffer = slot.buffer.as_mut().unwrap();
                let mut result = Ok(());
                let graph = origin.stream.capture(CaptureMode::Relaxed, |scope| {
                    scope.fill(&mut scratch, value)?;
                    result = BESIDE[call](&legacy.stream, buffer, value);
                    Ok(())
                });
                if let StreamKind::NonBlocking(_) = capturing {
                    legacy.unless_panicked(result);
                    graph.unwrap();
                    if call == 0 {
                        self.memories[slot.number][half()..].fill(value);
                    }
                } else {
                    let refused = result.unwrap_err();
                    assert_eq!(refused.status(), Status::STREAM_CAPTURE_IMPLICIT, "call {call}: {refused}");
                    if call >= ENDS_CAPTURES {
                        graph.unwrap();
                    } else {
                        let refused = graph.unwrap_err();
                        assert_eq!(refused.status(), Status::STREAM_CAPTURE_INVALIDATED, "call {call}: {refused}");
                    }
                }
                assert!(!origin.stream.is_capturing().unwrap());
                self.read(&legacy, to);
            }
            Defaults::Capture { stream, to, into } => {
                // It waits for calls of other threads in the stream.
                self.let_go();
                let legacy = self.new_stream(self.stream(stream).device, StreamKind::Legacy);
                let to = self.buffer(&legacy, to);
                let place = &mut self.places[legacy.device];
                let mut graph = place.context.create_graph().unwrap();
                let buffer = place.buffers[to].buffer.as_mut().unwrap();
                let refused = if into {
                    let fill = |scope: &anabranch::CaptureScope<'_>| scope.fill(buffer, 7);
                    legacy.stream.capture_into(&mut graph, (), CaptureMode::ThreadLocal, fill).unwrap_err()
                } else {
                    legacy.stream.capture(CaptureMode::ThreadLocal, |scope| scope.fill(buffer, 7)).unwrap_err()
                };
                let is_used_elsewhere = !self.is_alone && refused.status() == Status::ILLEGAL_STATE;
                assert!(is_used_elsewhere || refused.status() == Status::STREAM_CAPTURE_UNSUPPORTED, "{refused}");
                self.read(&legacy, to);
            }
        }
    }
}
