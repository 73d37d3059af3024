//! What the library reports to subscribers of the `tracing` crate.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use common::host;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down what is reported, one line each, and which spans are open at the time.
#[derive(Clone, Default)]
struct Listener {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Listener {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn begin(what: &str, metadata: &Metadata<'_>) -> Line {
        assert_eq!(metadata.target(), "anabranch");
        Line(format!("{what} {}", metadata.level()))
    }

    /// The lines with all of these words.
    fn count(&self, words: &[&str]) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("anabranch")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Self::begin("span", span.metadata());
        write!(line.0, " {}", span.metadata().name()).unwrap();
        span.record(&mut line);
        self.add(line.0);
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Self::begin("event", event.metadata());
        event.record(&mut line);
        self.add(line.0);
    }

    fn enter(&self, _: &Id) {
        self.add("enter".to_owned());
    }

    fn exit(&self, _: &Id) {
        self.add("exit".to_owned());
    }
}

#[test]
fn waiting_is_a_span_and_queueing_an_event() {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        let context = host();
        let stream = context.create_stream().unwrap();
        let event = stream.record_event().unwrap();
        let buffer = stream.upload(&[1u8, 2, 3]).unwrap();
        context.allocate_pinned::<u8>(16).unwrap();
        event.synchronize().unwrap();
        context.synchronize().unwrap();
        drop(buffer);
        stream.shutdown().unwrap();
    });
    for (level, what, count) in [
        ("span DEBUG", "opening the primary context", 1),
        ("event DEBUG", "found a device", 1),
        ("event TRACE", "recording an event", 1),
        ("event TRACE", "allocating in stream order", 1),
        ("event TRACE", "copying", 1),
        ("event TRACE", "freeing in stream order", 1),
        ("span DEBUG", "allocating pinned memory", 1),
        ("span DEBUG", "synchronizing an event", 1),
        ("span DEBUG", "synchronizing a context", 1),
        // Of the upload and of the shutdown.
        ("span DEBUG", "synchronizing a stream", 2),
        ("span DEBUG", "shutting a stream down", 1),
        ("event DEBUG", "destroying a stream", 1),
    ] {
        assert_eq!(listener.count(&[level, what]), count, "{what}: {:#?}", listener.lines.lock().unwrap());
    }
    assert_eq!(listener.count(&["synchronizing a context", "device=host:0"]), 1);
    assert_eq!(listener.count(&["enter"]), listener.count(&["span "]), "every span is entered");
    assert_eq!(listener.count(&["enter"]), listener.count(&["exit"]), "and left");
}

#[test]
fn an_absent_back_end_is_reported() {
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        let _ = anabranch::Instance::builder().cuda(false).build().unwrap();
    });
    assert_eq!(listener.count(&["event DEBUG", "a back end is absent", "left out", "cuda"]), 1);
}
