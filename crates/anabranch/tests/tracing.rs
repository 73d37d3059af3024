//! What the library reports to subscribers of the `tracing` crate.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use common::{assert_ends, host};
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

/// The subscriber of every thread that has no other. It is told of nothing.
struct Bystander;

impl Subscriber for Bystander {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Keeps the tests of this file, each with a subscriber of its own, from switching off each other's events.
///
/// While a process has one subscriber, the first thread that reaches an event decides for all threads whether
/// somebody is interested in it. A thread without a subscriber would decide that nobody is.
fn begin() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Bystander).unwrap());
}

#[test]
fn waiting_is_a_span_and_queueing_an_event() {
    begin();
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
    // What is reported while locks are held comes from the thread that releases things later.
    anabranch::flush_deferred_drops();
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
    begin();
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        let _ = anabranch::Instance::builder().cuda(false).build().unwrap();
    });
    assert_eq!(listener.count(&["event DEBUG", "a back end is absent", "left out", "cuda"]), 1);
}

/// Unwinds in every call but the first ones, which `tracing` makes under a lock of its own.
struct Unwinds;

impl Subscriber for Unwinds {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        // Some can be entered.
        if span.metadata().name().len() % 2 == 0 {
            panic!("in a new span");
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("in an event");
    }

    fn enter(&self, _: &Id) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }

    fn exit(&self, _: &Id) {
        panic!("at the end of a span");
    }

    fn try_close(&self, _: Id) -> bool {
        panic!("at the end of the last reference to a span");
    }
}

#[test]
fn safety_89_a_subscriber_that_unwinds_changes_nothing() {
    begin();
    tracing::subscriber::with_default(Unwinds, || {
        let context = host();
        let (left, right) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut pinned = context.allocate_pinned::<u8>(64).unwrap();
        pinned.as_mut_slice().unwrap().fill(7);
        let mut other = left.allocate_zeroed::<u8>(64).unwrap();
        // A graph retains the pinned memory, so that a copy of it to plain memory returns before it has run.
        let graph = left.capture(anabranch::CaptureMode::Relaxed, |scope| scope.copy(&mut other, &pinned)).unwrap();
        let signal = context.create_signal().unwrap();
        right.wait_signal(&signal, anabranch::WaitCondition::Equal, 1).unwrap();
        let mut plain = [0u8; 64];
        std::thread::scope(|threads| {
            threads.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                signal.set(1);
            });
            left.sync_scope(|scope| scope.on(&right)?.copy_to_host(&mut plain, &pinned)).unwrap();
        });
        assert_eq!(plain, [7; 64], "the scope has waited for its copy");
        graph.instantiate().unwrap().launch(&left).unwrap();
        assert_eq!(left.download(&other).unwrap(), [7; 64]);
        context.synchronize().unwrap();
        left.shutdown().unwrap();
    });
}

/// Calls the library in every call, as one would to write down the name of a stream, and worse.
struct Calls {
    context: anabranch::Context,
    stream: anabranch::Stream,
    refused: Arc<AtomicU64>,
}

impl Calls {
    fn call(&self) {
        anabranch::Stream::with_current(|stream| assert!(stream.is_none()));
        let other = self.context.create_stream();
        let refused = [
            other.as_ref().map(drop).unwrap_err().status(),
            self.stream.upload(&[1u8]).unwrap_err().status(),
            self.stream.record_event().map(drop).unwrap_err().status(),
            self.stream.wait_stream(&self.stream).map(drop).unwrap_err().status(),
        ];
        assert_eq!(refused, [anabranch::Status::NOT_PERMITTED; 4]);
        self.refused.fetch_add(1, Ordering::SeqCst);
    }
}

impl Subscriber for Calls {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("anabranch")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.call();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.call();
    }

    fn enter(&self, _: &Id) {
        self.call();
    }

    fn exit(&self, _: &Id) {
        self.call();
    }
}

#[test]
fn safety_89_what_a_subscriber_calls_is_refused_before_it_takes_a_lock() {
    begin();
    let context = host();
    let refused = Arc::new(AtomicU64::new(0));
    let calls = Calls { context: context.clone(), stream: context.create_stream().unwrap(), refused: refused.clone() };
    let before = tracing::subscriber::with_default(calls, || {
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let _current = stream.enter();
        let buffer = stream.upload(&[1u32, 2]).unwrap();
        let mut copy = other.allocate_zeroed::<u32>(2).unwrap();
        other.copy(&mut copy, &buffer).unwrap();
        drop(buffer);
        let mut pinned = context.allocate_pinned::<u32>(2).unwrap();
        other.copy(&mut pinned, &copy).unwrap();
        assert_eq!(pinned.as_slice().unwrap(), [1, 2]);
        let mut plain = [0; 2];
        other.sync_scope(|scope| scope.copy_to_host(&mut plain, &copy)).unwrap();
        other.shutdown().unwrap();
        context.synchronize().unwrap();
        refused.load(Ordering::SeqCst)
    });
    assert!(before > 10, "the subscriber was called {before} times");
}

/// Writes everything to a log, which threads of the program lock.
struct Log(Arc<Mutex<u64>>);

impl Log {
    fn write(&self) {
        *self.0.lock().unwrap() += 1;
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("anabranch")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.write();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.write();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn safety_128_a_subscriber_waits_for_a_thread_that_calls_the_library() {
    begin();
    assert_ends(|| {
        let log = Arc::new(Mutex::new(0));
        let context = host();
        let stream = context.create_stream().unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                tracing::subscriber::with_default(Log(log.clone()), || {
                    for round in 0..5000u32 {
                        drop(stream.upload(&[round; 4]).unwrap());
                    }
                });
            });
            threads.spawn(|| {
                for round in 0..5000u32 {
                    let mut written = log.lock().unwrap();
                    *written += u64::from(stream.download(&stream.upload(&[round; 4]).unwrap()).unwrap()[0]);
                }
            });
        });
        assert!(*log.lock().unwrap() > 5000);
    });
}
