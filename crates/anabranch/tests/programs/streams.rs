//! Streams of all kinds.

use crate::environment::Environment;
use crate::world::{ON_PURPOSE, World};
use anabranch::{Context, Error, Result, Stream, StreamFlags};
use proptest::prelude::*;
use std::mem::replace;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{ThreadId, current};

/// What a stream is, and the priority of one that is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamKind {
    NonBlocking(i32),
    /// The legacy stream waits for it, and it for the legacy stream.
    Blocking(i32),
    Legacy,
    /// The default stream of the thread that uses it.
    PerThread,
}

pub(crate) fn stream_kind() -> impl Strategy<Value = StreamKind> {
    use StreamKind::{Blocking, Legacy, NonBlocking, PerThread};
    prop_oneof![
        5 => (-5..1i32).prop_map(NonBlocking),
        2 => (-5..1i32).prop_map(Blocking),
        2 => Just(Legacy),
        2 => Just(PerThread),
    ]
}

/// A stream, and how many panics of its work may still be reported.
#[derive(Clone)]
pub(crate) struct StreamSlot {
    pub(crate) stream: Arc<Stream>,
    pub(crate) device: usize,
    pub(crate) kind: StreamKind,
    panics: Arc<AtomicU32>,
    /// The only thread that may use it.
    thread: Option<ThreadId>,
}

impl StreamSlot {
    pub(crate) fn new(environment: &Environment, context: &Context, device: usize, kind: StreamKind) -> Self {
        let made = |flags, priority| context.create_stream_with_priority(flags, priority);
        let stream = match kind {
            StreamKind::NonBlocking(priority) => made(StreamFlags::NON_BLOCKING, priority),
            StreamKind::Blocking(priority) => made(StreamFlags::empty(), priority),
            StreamKind::Legacy => context.legacy_stream(),
            StreamKind::PerThread => context.per_thread_stream(),
        };
        let stream = stream.unwrap();
        let is_default = matches!(kind, StreamKind::Legacy | StreamKind::PerThread);
        Self {
            panics: if is_default { environment.panics_of(&stream) } else { Arc::default() },
            stream: Arc::new(stream),
            device,
            kind,
            thread: matches!(kind, StreamKind::PerThread).then(|| current().id()),
        }
    }

    /// One that nobody else has, of a new stream of the usual kind.
    pub(crate) fn own(stream: Stream, device: usize) -> Self {
        let kind = StreamKind::NonBlocking(0);
        Self { stream: Arc::new(stream), device, kind, panics: Arc::default(), thread: None }
    }

    /// The stream, or the default stream of this thread in the place of another thread's.
    pub(crate) fn here(&self, environment: &Environment) -> Self {
        if self.is_usable_here() {
            return self.clone();
        }
        Self::new(environment, &self.stream.context(), self.device, self.kind)
    }

    pub(crate) fn is_usable_here(&self) -> bool {
        self.thread.is_none_or(|thread| thread == current().id())
    }

    /// Work was queued that will panic.
    pub(crate) fn will_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// The value, unless a panic is reported in its place that is part of the program.
    #[track_caller]
    pub(crate) fn unless_panicked<T>(&self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                assert!(error.to_string().contains(ON_PURPOSE), "{error}");
                assert!(self.has_reported(), "reported more often than it happened: {error}");
                None
            }
        }
    }

    /// Whether an error is a panic of this stream's or the other's, and not the end of something else.
    #[track_caller]
    pub(crate) fn expect_panic(&self, other: &Self, error: &Error) {
        assert!(error.to_string().contains(ON_PURPOSE), "{error}");
        let is_own = error.to_string().contains(&format!("stream {} ", self.stream.id()));
        let (first, second) = if is_own { (self, other) } else { (other, self) };
        assert!(first.has_reported() || second.has_reported(), "reported more often than it happened: {error}");
    }

    /// Notes that a panic was reported. `false`: there was none.
    pub(crate) fn has_reported(&self) -> bool {
        let one_less = |panics: u32| panics.checked_sub(1);
        self.panics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

impl World<'_> {
    /// A stream of a device.
    pub(crate) fn new_stream(&self, device: usize, kind: StreamKind) -> StreamSlot {
        StreamSlot::new(self.environment, &self.places[device].context, device, kind)
    }

    /// A stream that the program has nowhere else.
    pub(crate) fn own_stream(&self, device: usize) -> StreamSlot {
        self.new_stream(device, StreamKind::NonBlocking(0))
    }

    pub(crate) fn stream(&self, stream: usize) -> StreamSlot {
        self.streams[stream % self.streams.len()].here(self.environment)
    }

    /// Two streams of one device, which may be the same.
    pub(crate) fn pair(&self, [stream, other]: [usize; 2]) -> (StreamSlot, StreamSlot) {
        let (stream, other) = (self.stream(stream), self.stream(other));
        if other.device == stream.device { (stream, other) } else { (stream.clone(), stream) }
    }

    pub(crate) fn renew_stream(&mut self, stream: usize, kind: StreamKind) -> StreamSlot {
        let stream = stream % self.streams.len();
        let new = self.new_stream(self.streams[stream].device, kind);
        replace(&mut self.streams[stream], new)
    }

    /// Whether a capture in a stream of this kind meets nobody else's work in the legacy stream, which would end it.
    pub(crate) fn may_capture(&self, kind: StreamKind) -> bool {
        match kind {
            StreamKind::NonBlocking(_) => true,
            StreamKind::Blocking(_) | StreamKind::PerThread => self.is_alone,
            StreamKind::Legacy => false,
        }
    }

    /// The streams, or others of their devices: where other threads use them, what these queue would be captured too, and
    /// the legacy stream captures nothing.
    pub(crate) fn to_capture(&self, stream: &StreamSlot, other: &StreamSlot) -> (StreamSlot, StreamSlot) {
        let same_or_other = |slot: &StreamSlot| {
            let is_own = self.shared.is_empty() && self.may_capture(slot.kind);
            if is_own { slot.clone() } else { self.own_stream(slot.device) }
        };
        (same_or_other(stream), same_or_other(other))
    }
}
