//! Calls that a layer refuses or does not return from. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{Driver, Failure, Forward, Layered};
use anabranch::{
    CaptureMode, Context, Instance, NodeWork, Result, Signal, Status, Stream, WaitCondition, flush_deferred_drops,
};
use common::assert_ends;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Unanswered = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

/// Does not return from calls.
struct Layer {
    inner: Arc<dyn Driver>,
    unanswered: Unanswered,
}

impl fmt::Debug for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Layer")
    }
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Layer {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        if (self.unanswered)(method) {
            resume_unwind(Box::new(method));
        }
    }
}

/// Refuses to say whether an event is reached.
struct Refusing {
    inner: Arc<dyn Driver>,
    status: Status,
    left: Arc<AtomicUsize>,
}

impl fmt::Debug for Refusing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Refusing")
    }
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Refusing {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn event_query(
        &self,
        call: &anabranch::hal::Call<'_>,
        event: anabranch::hal::Live<'_, anabranch::hal::EventHandle>,
    ) -> anabranch::hal::Result<()> {
        if take(&self.left) { Err(Failure::new(self.status)) } else { self.inner.event_query(call, event) }
    }
}

/// Whether there was one more.
fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn context(wrap: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync + 'static) -> Context {
    let instance =
        Instance::builder().cuda(false).isolated().host_workers(2).host_check_memory(true).wrap(wrap).build();
    instance.unwrap().device("host").unwrap().context().unwrap()
}

/// A context whose driver leaves so many calls of those methods unanswered.
fn leaving(methods: &'static [&'static str], left: &Arc<AtomicUsize>) -> Context {
    let left = left.clone();
    let unanswered: Unanswered = Arc::new(move |method| methods.contains(&method) && take(&left));
    context(move |inner| Arc::new(Layered(Layer { inner, unanswered: unanswered.clone() })))
}

/// Holds up a stream.
fn hold(stream: &Stream) -> Result<Signal> {
    let signal = stream.context().create_signal()?;
    stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)?;
    Ok(signal)
}

#[test]
fn safety_84_a_refused_query_of_an_event_is_no_completion() {
    for status in [Status::OUT_OF_MEMORY, Status::INVALID_VALUE, Status::UNKNOWN, Status::NOT_PERMITTED] {
        let left = Arc::new(AtomicUsize::new(0));
        let of_layer = left.clone();
        let context = context(move |inner| Arc::new(Layered(Refusing { inner, status, left: of_layer.clone() })));
        let (held, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut buffer = context.allocate_zeroed::<u32>(&held, 1000).unwrap();
        held.synchronize().unwrap();
        let signal = hold(&held).unwrap();
        held.fill(&mut buffer, 3).unwrap();
        left.store(usize::MAX, Ordering::SeqCst);
        drop(buffer);
        let others: Vec<_> = (0..3).map(|_| context.allocate_zeroed::<u32>(&other, 1000).unwrap()).collect();
        left.store(0, Ordering::SeqCst);
        other.synchronize().unwrap();
        signal.set(1);
        held.synchronize().unwrap();
        for other_buffer in &others {
            assert_eq!(other.download(other_buffer).unwrap(), [0; 1000], "{status:?}");
        }
        drop(others);
        flush_deferred_drops();
        assert_eq!(context.device().memory_report().unwrap().findings, [], "{status:?}");
    }
}

#[test]
fn safety_84_a_scope_whose_waits_are_not_answered_outlasts_its_copies() {
    for calls in [2, usize::MAX] {
        assert_ends(move || {
            let left = Arc::new(AtomicUsize::new(0));
            let context = leaving(&["event_synchronize", "stream_synchronize"], &left);
            let stream = context.create_stream().unwrap();
            let buffer = stream.upload(&[7u32; 16]).unwrap();
            stream.synchronize().unwrap();
            let signal = hold(&stream).unwrap();
            let mut host = [0u32; 16];
            left.store(calls, Ordering::SeqCst);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Long enough for a scope that does not wait to have ended.
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    signal.set(1);
                });
                let _ = stream.sync_scope(|scope| scope.copy_to_host(&mut host, &buffer));
                assert_eq!(host, [7; 16], "the borrow has ended, so the copy has");
            });
            left.store(0, Ordering::SeqCst);
        });
    }
}

#[test]
fn safety_84_a_stream_joins_a_capture_only_if_the_driver_says_so() {
    assert_ends(|| {
        let left = Arc::new(AtomicUsize::new(0));
        let context = leaving(&["stream_capture_status"], &left);
        let [origin, joining, other] = [(); 3].map(|()| context.create_stream().unwrap());
        let event = context.create_event().unwrap();
        let mut records = context.create_graph().unwrap();
        records.add((), NodeWork::event_record(&event)).unwrap();
        let records = records.instantiate().unwrap();
        let mut buffer = other.upload(&[5u32; 1000]).unwrap();
        other.synchronize().unwrap();
        origin.begin_capture(CaptureMode::Relaxed).unwrap();
        origin.record(&event).unwrap();
        // The event is recorded again, and not in the capture.
        records.launch(&other).unwrap();
        let signal = hold(&joining).unwrap();
        left.store(1, Ordering::SeqCst);
        joining.wait_event(&event).unwrap();
        joining.fill(&mut buffer, 7u32).unwrap();
        drop(origin.end_capture());
        signal.set(1);
        assert_eq!(other.download(&buffer).unwrap(), [7; 1000]);
        drop(buffer);
        joining.synchronize().unwrap();
        assert_eq!(context.device().memory_report().unwrap().findings, []);
    });
}

#[test]
fn safety_84_a_condition_that_failed_leaves_no_graph_whatever_succeeds_later() {
    let context = context(|inner| inner);
    let stream = context.create_stream().unwrap();
    let (mut flag, other) = (stream.upload(&[1u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        let failed = scope.capture_while(&mut flag, |part, flag| {
            // Refused when the part is put into the node.
            part.allocate_zeroed::<u32>(10)?;
            part.fill(flag.reborrow(), 0u32)
        });
        assert!(failed.is_err());
        scope.capture_if(&other, |_| Ok(()))
    });
    assert!(graph.is_err(), "the loop has no body that ends it");
}

#[test]
fn safety_84_streams_are_entered_while_a_thread_ends() {
    struct OnDrop(Option<Box<dyn FnOnce()>>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|last| last());
        }
    }
    thread_local!(static LAST: std::cell::RefCell<Option<OnDrop>> = const { std::cell::RefCell::new(None) });
    let context = context(|inner| inner);
    for enters_first in [false, true] {
        let (done, dropped) = std::sync::mpsc::channel();
        let context = context.clone();
        let thread = std::thread::spawn(move || {
            let stream = context.create_stream().unwrap();
            if enters_first {
                drop(stream.enter());
            }
            let last = move || {
                Stream::with_current(|current| assert!(current.is_none()));
                drop(stream.enter());
                done.send(()).unwrap();
            };
            LAST.with(|slot| *slot.borrow_mut() = Some(OnDrop(Some(Box::new(last)))));
            if !enters_first {
                Stream::with_current(|current| assert!(current.is_none()));
            }
        });
        thread.join().unwrap();
        dropped.recv().unwrap();
    }
}

#[test]
fn safety_84_a_scope_outlasts_its_copies_whatever_its_closure_forbids_the_thread() {
    assert_ends(|| {
        let context = context(|inner| inner);
        let stream = context.create_stream().unwrap();
        let buffer = stream.upload(&[7u32; 16]).unwrap();
        stream.synchronize().unwrap();
        let signal = hold(&stream).unwrap();
        let mut host = [0u32; 16];
        let mut inside = None;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                signal.set(1);
            });
            let waited = stream.sync_scope(|scope| {
                scope.copy_to_host(&mut host, &buffer)?;
                inside = Some(anabranch::hal::InsideWork::enter());
                Ok(())
            });
            // The mark ends with the closure, and so does what it forbids.
            waited.unwrap();
            assert!(!anabranch::hal::InsideWork::is_entered());
            assert_eq!(host, [7; 16], "the borrow has ended, so the copy has");
            drop(inside.take());
        });
    });
}
