//! A subscriber of the whole process that calls the library.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Context, Event, Stream};
use common::host;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::Subscriber;
use tracing::span::{Attributes, Id, Record};

/// Calls the library in each of its methods.
struct Calls;

static OBJECTS: OnceLock<(Context, Stream, Event)> = OnceLock::new();
static REPORTS: AtomicUsize = AtomicUsize::new(0);

impl Calls {
    fn call() {
        REPORTS.fetch_add(1, Ordering::Relaxed);
        let Some((context, stream, event)) = OBJECTS.get() else { return };
        stream.synchronize().unwrap_err();
        stream.launch_host_func(|| ()).unwrap_err();
        stream.record(event).unwrap_err();
        stream.wait_event(event).unwrap_err();
        context.synchronize().unwrap_err();
        event.synchronize().unwrap_err();
        assert!(context.allocate_pinned::<u32>(1).is_err());
        let _ = anabranch::Instance::new();
    }
}

impl Subscriber for Calls {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "anabranch"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Self::call();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        Self::call();
    }

    fn enter(&self, _: &Id) {
        Self::call();
    }

    fn exit(&self, _: &Id) {
        Self::call();
    }
}

#[test]
fn safety_134_a_subscriber_is_not_told_of_its_own_calls() {
    let context = host();
    let (stream, event) = (context.create_stream().unwrap(), context.create_event().unwrap());
    assert!(OBJECTS.set((context.clone(), stream, event)).is_ok());
    tracing::subscriber::set_global_default(Calls).unwrap();
    let stream = context.create_stream().unwrap();
    stream.launch_host_func(|| ()).unwrap();
    stream.synchronize().unwrap();
    assert!(REPORTS.load(Ordering::Relaxed) > 3);
}
