//! Instances of libraries that do not know of each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::hal::{
    Call, Driver, EventHandle, EventRecordFlags, EventWaitFlags, Forward, Layered, Live, StreamHandle,
};
use anabranch::{CaptureMode, Context, Instance, InstanceBuilder, Status, Stream, WaitCondition};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

fn context(builder: InstanceBuilder) -> Context {
    builder.cuda(false).build().unwrap().device("host").unwrap().context().unwrap()
}

#[test]
fn two_instances_without_options_work_together() {
    let (one, two) = (context(Instance::builder()), context(Instance::builder()));
    assert_eq!(one, two);
    assert_eq!(one.id(), two.id());
    let (first, second) = (one.create_stream().unwrap(), two.create_stream().unwrap());
    let mut buffer = first.upload(&[1u32, 2]).unwrap();
    second.wait(&first).unwrap();
    second.fill(buffer.slice_mut(..1).unwrap(), 7u32).unwrap();
    first.wait(&second.record_event().unwrap()).unwrap();
    assert_eq!(first.download(&buffer).unwrap(), [7, 2]);
}

#[test]
fn an_instance_of_its_own_says_so() {
    let shared = Instance::builder().cuda(false).build().unwrap();
    let isolated = Instance::builder().cuda(false).isolated().build().unwrap();
    assert!(!shared.is_isolated() && isolated.is_isolated());
    assert!(Instance::builder().cuda(false).host_devices(2).build().unwrap().is_isolated());
    let stream = shared.device("host").unwrap().context().unwrap().create_stream().unwrap();
    let other = isolated.device("host").unwrap().context().unwrap().create_stream().unwrap();
    let error = stream.wait(&other).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_DEVICE);
    assert!(error.to_string().contains("two instances with drivers of their own"), "{error}");
}

/// Counts records of events.
#[derive(Debug)]
struct CountRecords {
    inner: Arc<dyn Driver>,
    records: Arc<AtomicU64>,
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for CountRecords {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> anabranch::hal::Result<()> {
        self.records.fetch_add(1, Ordering::Relaxed);
        assert!(!call.operation.is_empty());
        self.inner.event_record(call, event, stream, flags)
    }
}

#[test]
fn a_driver_can_be_wrapped() {
    let records = Arc::new(AtomicU64::new(0));
    let counter = records.clone();
    let wrap = move |inner| Arc::new(Layered(CountRecords { inner, records: counter.clone() })) as Arc<dyn Driver>;
    let context = context(Instance::builder().wrap(wrap));
    let (left, right) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = left.upload(&[1u32]).unwrap();
    // A signal holds the stream up, so that its work is pending.
    let signal = context.create_signal().unwrap();
    left.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
    left.fill(&mut buffer, 3u32).unwrap();
    let before = records.load(Ordering::Relaxed);
    right.fill(&mut buffer, 2u32).unwrap();
    assert_eq!(records.load(Ordering::Relaxed), before + 1, "one event orders the streams");
    signal.set(1);
    left.record_event().unwrap();
    assert_eq!(records.load(Ordering::Relaxed), before + 2);
    assert_eq!(right.download(&buffer).unwrap(), [2]);
}

#[test]
fn the_last_driver_of_a_back_end_is_the_one() {
    let [first, last] = [1, 2].map(|devices| {
        let instance = Instance::builder().cuda(false).isolated().host_devices(devices).build().unwrap();
        instance.device("host").unwrap()
    });
    let both = Instance::builder().cuda(false).host(false).driver(first.driver().clone()).driver(last.driver().clone());
    let devices: Vec<_> = both.build().unwrap().devices().to_vec();
    assert_eq!(devices.len(), 2);
    assert!(devices[0] == last && devices[0] != first);
}

/// What another thread is to do, once.
type Act = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// Has another thread do something before the first wait of a stream for an event.
struct BeforeWait {
    inner: Arc<dyn Driver>,
    act: Arc<Act>,
}

impl fmt::Debug for BeforeWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BeforeWait")
    }
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for BeforeWait {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_wait_event(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        event: Live<'_, EventHandle>,
        flags: EventWaitFlags,
    ) -> anabranch::hal::Result<()> {
        let act = self.act.lock().unwrap().take();
        if let Some(act) = act {
            std::thread::spawn(act).join().unwrap();
        }
        self.inner.stream_wait_event(call, stream, event, flags)
    }
}

/// A stream that captures a host function, another one, and what is done before the first of them waits.
fn joining() -> (Stream, Stream, Arc<Act>) {
    let act = Arc::new(Mutex::new(None));
    let for_layer = act.clone();
    let wrap = move |inner| Arc::new(Layered(BeforeWait { inner, act: for_layer.clone() })) as Arc<dyn Driver>;
    let context = context(Instance::builder().wrap(wrap));
    let (captures, joins) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    captures.begin_capture(CaptureMode::Relaxed).unwrap();
    captures.launch_repeatable_host_func(|| ()).unwrap();
    (captures, joins, act)
}

#[test]
fn a_stream_that_joins_a_capture_says_that_another_thread_has_invalidated_it() {
    let (captures, joins, act) = joining();
    let context = captures.context();
    *act.lock().unwrap() = Some(Box::new(move || drop(context.synchronize().unwrap_err())));
    for refused in [joins.wait_stream(&captures).unwrap_err(), captures.end_capture().unwrap_err()] {
        assert_eq!(refused.status(), Status::STREAM_CAPTURE_INVALIDATED, "{refused}");
        assert!(refused.to_string().contains("an earlier call has invalidated the capture"), "{refused}");
    }
}

#[test]
fn a_stream_that_is_to_join_a_capture_which_another_thread_ends_follows_the_stream() {
    let (captures, joins, act) = joining();
    let captures = Arc::new(captures);
    let (ends, graph) = (captures.clone(), Arc::new(OnceLock::new()));
    let ended = graph.clone();
    *act.lock().unwrap() = Some(Box::new(move || assert!(ended.set(ends.end_capture().unwrap()).is_ok())));
    joins.wait_stream(&captures).unwrap();
    assert!(!joins.is_capturing().unwrap());
    assert_eq!(graph.get().unwrap().nodes().unwrap().len(), 1);
    joins.synchronize().unwrap();
}
