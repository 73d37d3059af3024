//! The streams of a context, and whether their work is complete.

use super::{StreamCore, StreamShared, SyncEvent};
use crate::context::ContextCore;
use crate::driver_context::ContextWork;
use crate::error::{Result, ResultExt};
use crate::extensions::Extension;
use crate::ranks;
use crate::raw_event;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::timeline::TimelinePoint;
use crate::trace;
use anabranch_hal::{Call, ContextHandle, Driver, EventHandle, Live, StreamHandle};
use anabranch_sync::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

/// How often it is asked, a millisecond apart, whether the last reference of a stream is still being dropped.
const ASKED: usize = 100;

const ASKING: &str = "asking for the work of ended streams";

/// The streams of a context.
pub(super) struct StreamRegistry {
    /// How many there have been.
    created: AtomicU64,
    /// The context is told of the work of its streams.
    work: Once,
    streams: Arc<Streams>,
    /// What the objects of streams of other owners share, by the streams' ids.
    opened: Mutex<Vec<(u64, Weak<StreamShared>)>>,
}

/// The streams of a context, and those that have ended. It outlives the context's object, because the context cannot be
/// closed before their work is complete.
struct Streams {
    live: Mutex<Vec<Registered>>,
    /// Events after the work of streams that have ended.
    ended: EndedStreams,
}

struct Registered {
    stream: Weak<StreamCore>,
    is_gone: Arc<AtomicBool>,
}

impl Registered {
    /// Whether the stream has no references any more. Whoever sees this sees what those have done who had one, such as to wait for
    /// the stream's work. That it cannot be upgraded does not say so much.
    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }
}

/// A part of a stream that says when the stream is gone.
#[derive(Default)]
pub(super) struct Presence(Arc<AtomicBool>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The work of a context's streams.
struct StreamWork {
    streams: Arc<Streams>,
    driver: Arc<dyn Driver>,
    context: ContextHandle,
}

impl ContextWork for StreamWork {
    fn is_complete(&self) -> bool {
        // SAFETY: the context is not closed before its work, which this is, was dropped.
        let context = unsafe { Live::new(self.context) };
        let call = Call::new(context, "asking whether a lost context runs on");
        // A stream that ends meanwhile leaves its event before it goes.
        self.streams.unless_one_goes().is_some_and(|streams| streams.iter().all(|stream| stream.is_idle()))
            && self.streams.ended.are_complete(&*self.driver, context)
            && !self.driver.lost_context_is_running(&call)
    }

    fn wait(&self) {
        let streams = self.streams.until_none_goes();
        // A stream that is not among them has left its event before.
        let last_ended = self.streams.ended.last_number();
        let events: Vec<_> = streams.iter().filter_map(|stream| stream.pending_event()).collect();
        for event in &events {
            // Of what cannot be waited for, such as the work of a lost context, nothing is known.
            let _ = event.synchronize();
        }
        // SAFETY: the context is not closed before its work, which this is, was dropped.
        let context = unsafe { Live::new(self.context) };
        while !self.streams.ended.are_complete_until(last_ended, &*self.driver, context) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Events after the work of streams that have ended.
struct EndedStreams {
    /// In the order in which they were recorded, each with its number.
    events: Mutex<VecDeque<(u64, EventHandle)>>,
    /// How many there have been.
    count: AtomicU64,
    /// If there are more than this, all are checked.
    sweep_at: AtomicUsize,
    /// Whether somebody asks for the events. Nobody else removes any meanwhile.
    is_asking: AtomicBool,
}

/// The right to ask for events of ended streams, and to remove those that are reached. No lock is held: a driver may run work
/// of the program when it is asked.
struct Asking<'a>(&'a EndedStreams);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.is_asking.store(false, Ordering::Release);
    }
}

impl EndedStreams {
    /// Whether all of that work is complete. Events that are reached are destroyed, up to the first that is not
    /// reached.
    fn are_complete(&self, driver: &dyn Driver, context: Live<'_, ContextHandle>) -> bool {
        let Some(_asking) = self.ask() else { return false };
        self.are_reached(driver, context)
    }

    /// The number of the event that was recorded last.
    fn last_number(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The same up to the event with that number.
    fn are_complete_until(&self, last: u64, driver: &dyn Driver, context: Live<'_, ContextHandle>) -> bool {
        let is_first_later = || self.events.lock().front().is_none_or(|&(number, _)| number > last);
        is_first_later() || self.are_complete(driver, context) || is_first_later()
    }

    /// `None`: another thread asks, or a call around this one.
    fn ask(&self) -> Option<Asking<'_>> {
        (!self.is_asking.swap(true, Ordering::Acquire)).then(|| Asking(self))
    }

    fn are_reached(&self, driver: &dyn Driver, context: Live<'_, ContextHandle>) -> bool {
        let call = Call::new(context, ASKING);
        loop {
            let Some((_, event)) = self.events.lock().front().copied() else { return true };
            if is_pending(driver, &call, event) {
                return false;
            }
            self.events.lock().pop_front();
        }
    }

    /// Adds an event, and checks which are reached: at the front, and all of them if there are very many.
    fn push(&self, driver: &dyn Driver, context: Live<'_, ContextHandle>, event: EventHandle) {
        let count = {
            let mut events = self.events.lock();
            let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            events.push_back((number, event));
            events.len()
        };
        let Some(_asking) = self.ask() else { return };
        self.are_reached(driver, context);
        if count > self.sweep_at.load(Ordering::Relaxed) {
            let call = Call::new(context, ASKING);
            // They stay in the list meanwhile: others look at which numbers are there.
            let asked: Vec<_> = self.events.lock().iter().copied().collect();
            let is_reached = |&(_, event): &(u64, EventHandle)| !is_pending(driver, &call, event);
            let reached: HashSet<u64> = asked.into_iter().filter(is_reached).map(|(number, _)| number).collect();
            let mut events = self.events.lock();
            events.retain(|(number, _)| !reached.contains(number));
            self.sweep_at.store((events.len() * 2).max(64), Ordering::Relaxed);
        }
    }
}

/// Whether an event of the list is not reached. An event that is reached is destroyed and leaves the list.
fn is_pending(driver: &dyn Driver, call: &Call<'_>, event: EventHandle) -> bool {
    // SAFETY: the list owns the event, and only the caller removes events.
    let is_pending = raw_event::is_pending(driver, call, unsafe { Live::new(event) });
    if !is_pending {
        // SAFETY: the list owns the event, and the caller removes it from the list, so this is its last use. If the
        // call fails, the context is lost, and closing it destroys the event.
        let _ = with_relaxed_capture_mode(driver, || unsafe { driver.event_destroy(call, event) });
    }
    is_pending
}

impl Default for StreamRegistry {
    fn default() -> Self {
        let live = Mutex::new(ranks::STREAM_REGISTRY, Vec::new());
        let ended = EndedStreams {
            events: Mutex::new(ranks::ENDED_STREAMS, VecDeque::new()),
            count: AtomicU64::new(0),
            sweep_at: AtomicUsize::new(0),
            is_asking: AtomicBool::new(false),
        };
        let opened = Mutex::new(ranks::OPENED_STREAMS, Vec::new());
        Self { created: AtomicU64::new(0), work: Once::new(), streams: Arc::new(Streams { live, ended }), opened }
    }
}

impl Extension for StreamRegistry {}

impl Streams {
    fn all(&self) -> Vec<Arc<StreamCore>> {
        self.live.lock().iter().filter_map(|registered| registered.stream.upgrade()).collect()
    }

    /// The streams that still have references. `None`: the last reference of one is being dropped, so that nothing is known of it.
    fn unless_one_goes(&self) -> Option<Vec<Arc<StreamCore>>> {
        let find = |registered: &Registered| (registered.stream.upgrade(), registered.is_gone());
        // Dropped with no lock held: this may have the last reference of some.
        let found: Vec<_> = self.live.lock().iter().map(find).collect();
        let is_known = found.iter().all(|(stream, is_gone)| stream.is_some() || *is_gone);
        is_known.then(|| found.into_iter().filter_map(|(stream, _)| stream).collect())
    }

    /// The streams that still have references, when the last reference of none is being dropped. If that takes long, perhaps because
    /// this thread drops it, they are taken as they are.
    fn until_none_goes(&self) -> Vec<Arc<StreamCore>> {
        for _ in 0..ASKED {
            if let Some(streams) = self.unless_one_goes() {
                return streams;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.all()
    }
}

impl StreamRegistry {
    /// The number of a new stream among those of its context, from 0. Called before there can be work in the stream: the context
    /// knows of it from here on, whichever of several threads makes the first stream.
    pub(super) fn next_sequence(&self, context: &ContextCore) -> u64 {
        self.work.call_once(|| context.add_stream_work());
        self.created.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add(&self, stream: &Arc<StreamCore>) {
        let mut streams = self.streams.live.lock();
        if streams.len() == streams.capacity() {
            streams.retain(|registered| !registered.is_gone());
        }
        streams.push(Registered { stream: Arc::downgrade(stream), is_gone: stream.presence.0.clone() });
    }

    /// The stream that a handle identifies on this thread.
    pub(super) fn find(&self, handle: StreamHandle) -> Option<Arc<StreamCore>> {
        self.streams.all().into_iter().find(|stream| stream.is_known_by(handle))
    }

    /// The stream of that id, also one that has ended.
    pub(super) fn find_id(&self, id: u64) -> Option<Arc<StreamCore>> {
        let streams = self.streams.all();
        let live = streams.iter().find(|stream| stream.id() == id && stream.is_live());
        live.or_else(|| streams.iter().find(|stream| stream.id() == id)).cloned()
    }

    /// What all objects of the stream of that id share: `new`, unless another thread has just opened the stream, too.
    pub(super) fn shared_by_all(&self, id: u64, new: Arc<StreamShared>) -> Arc<StreamShared> {
        let mut opened = self.opened.lock();
        let earlier = opened.iter().find(|(other, _)| *other == id).and_then(|(_, shared)| shared.upgrade());
        if let Some(earlier) = earlier {
            return earlier;
        }
        opened.retain(|(_, shared)| shared.strong_count() > 0);
        opened.push((id, Arc::downgrade(&new)));
        new
    }

    /// A stream has ended. Its work is complete when the event is reached, which is then destroyed.
    pub(super) fn stream_ended(&self, context: &ContextCore, event: EventHandle) {
        self.streams.ended.push(context.driver(), context.live(), event);
    }
}

impl ContextCore {
    /// The streams that still have references.
    pub fn streams(&self) -> Vec<Arc<StreamCore>> {
        self.extension::<StreamRegistry>().streams.all()
    }

    /// Events that are reached when all work that is in the streams now is complete.
    pub fn sync_events(&self) -> Vec<SyncEvent> {
        let events = self.streams().into_iter().filter_map(|stream| stream.sync_event().ok().flatten());
        events.collect()
    }

    /// Waits for all work of all streams of the context.
    ///
    /// # Errors
    /// An error of any of that work. During a capture in a stream of the context:
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`, which invalidates the capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let operation = "synchronizing a context";
        self.synchronize_unreported(operation)?;
        self.panics().report_any(operation, || self.place())
    }

    /// As [`synchronize`](Self::synchronize), and leaves panics of closures to be reported by whoever synchronizes next.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize), except for panics.
    #[track_caller]
    pub fn synchronize_unreported(&self, operation: &'static str) -> Result<()> {
        trace::span!("synchronizing a context", device = %self.device());
        let points: Vec<_> =
            self.streams().iter().map(|stream| TimelinePoint::advance(stream.shared().timeline())).collect();
        self.driver().context_synchronize(&self.call(operation)).during(operation, || self.place())?;
        points.iter().for_each(TimelinePoint::reached);
        Ok(())
    }

    /// Lets the context know of the work of its streams.
    fn add_stream_work(&self) {
        let streams = self.extension::<StreamRegistry>().streams.clone();
        let (driver, context) = (self.shared_driver().clone(), self.handle());
        self.add_work(Arc::new(StreamWork { streams, driver, context }));
    }
}
