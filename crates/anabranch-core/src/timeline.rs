//! The timeline of a stream: how far the stream has come, as a number that only grows.
//!
//! A *point* is added to a timeline when something is enqueued that others can wait for: the record of an event, the
//! write of a flag, or a wait of the host. Its value is one more than that of the previous point. The model is a Vulkan
//! timeline semaphore: waiting for a value waits for all work before the point with that value.
//!
//! The value is incremented *before* the driver is called to enqueue the point. Work gets the value that is found
//! *after* the driver was called to queue it. So a point covers all work with a smaller value:
//!
//! * The driver's calls on one stream come one after the other, and what a thread did before the earlier call is seen by the
//!   thread that makes the later one.
//! * If the point came first and the work later, the thread that queued the work finds the value already incremented,
//!   and the work gets the point's value or a greater one.
//!
//! Work must not get the value that was found before it was queued: another thread could add a point between the two
//! that does not cover it. Nearly always both are the same, so a submission reads the value before, and does something
//! about it afterwards only if the value has changed.
//!
//! A timeline *follows* another up to a value if its stream waits for a point of that value, or for a point of a third timeline
//! that had followed it. The host knows a timeline to be *complete* up to a value if it has waited for a point of that value.

use crate::clock::{Clock, Followed};
use crate::ranks;
use anabranch_sync::Raise;
use anabranch_sync::modelled::{AtomicBool, AtomicU64, SpinMutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The timeline of one stream of a driver.
pub struct Timeline {
    key: u64,
    value: AtomicU64,
    complete: AtomicU64,
    /// Whether the clock contains anything.
    has_followed: AtomicBool,
    clock: SpinMutex<Clock>,
}

impl Timeline {
    /// A timeline. `sequence`: the stream's number within its context, which distinguishes the streams of a context in
    /// clocks.
    pub fn new(sequence: u64) -> Arc<Self> {
        // Not one that loom models: it is no part of any protocol, and outlives a model's run.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        Arc::new(Self {
            key: NEXT.fetch_add(1, Ordering::Relaxed) << 6 | (sequence & 63),
            value: AtomicU64::new(0),
            complete: AtomicU64::new(0),
            has_followed: AtomicBool::new(false),
            clock: SpinMutex::new(ranks::TIMELINE_CLOCK, Clock::default()),
        })
    }

    /// An id that is unique in the process and never reused.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The value of work that was queued before this.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// The value of a point that is added after this call.
    #[inline(always)]
    pub fn advance(&self) -> u64 {
        self.value.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Like [`advance`](Self::advance), and writes what the timeline has followed before the point.
    #[inline(always)]
    pub fn advance_with(&self, followed: &mut Followed) -> u64 {
        // What is followed meanwhile is missed, which is only less than could be known.
        if self.has_followed.load(Ordering::Relaxed) {
            self.clock.lock().copy_to(followed);
        } else {
            followed.clear();
        }
        self.advance()
    }

    /// The stream was made to wait for a point.
    pub fn follow(&self, point: &TimelinePoint) {
        let (key, value) = (point.timeline.key, point.value);
        if key == self.key || value == 0 {
            return;
        }
        let mut clock = self.clock.lock();
        if clock.get(key) >= value {
            // That point, or a later one that knew no less, was waited for before.
            return;
        }
        clock.follow(self.key, key, value, &point.followed);
        self.has_followed.store(true, Ordering::Relaxed);
    }

    /// Whether later work of the stream follows work of another stream with that value, or that work is known to be
    /// complete.
    pub fn is_after(&self, other: &Self, value: u64) -> bool {
        other.is_complete(value)
            || (self.has_followed.load(Ordering::Relaxed) && self.clock.lock().get(other.key) > value)
    }

    /// Whether the host knows work of that value to be complete.
    #[inline(always)]
    pub fn is_complete(&self, value: u64) -> bool {
        self.complete.load(Ordering::Acquire) > value
    }

    /// Whether the host knows the point of that value to be reached.
    #[inline(always)]
    pub fn is_reached(&self, value: u64) -> bool {
        self.complete.load(Ordering::Acquire) >= value
    }

    /// The host has waited for the point of that value.
    #[inline]
    pub fn completed(&self, value: u64) {
        self.complete.raise(value);
    }

    /// The greatest value that the host knows to be reached.
    #[inline(always)]
    pub fn reached(&self) -> u64 {
        self.complete.load(Ordering::Relaxed)
    }
}

/// A point on a timeline, with what the timeline had followed before.
#[derive(Clone)]
pub struct TimelinePoint {
    timeline: Arc<Timeline>,
    /// 0: nothing is known of it, and waiting for it shows nothing.
    value: u64,
    followed: Followed,
}

impl TimelinePoint {
    /// A point that is added after this call, for the host to wait for.
    pub fn advance(timeline: &Arc<Timeline>) -> Self {
        Self { timeline: timeline.clone(), value: timeline.advance(), followed: Followed::default() }
    }

    /// A point of which nothing is known yet.
    pub fn unknown(timeline: &Arc<Timeline>) -> Self {
        Self { timeline: timeline.clone(), value: 0, followed: Followed::default() }
    }

    /// Makes this a point of a timeline that is about to be added. Nothing is known of it until [`put`](Self::put).
    #[inline(always)]
    pub fn begin(&mut self, timeline: &Arc<Timeline>) -> u64 {
        if !Arc::ptr_eq(&self.timeline, timeline) {
            self.timeline = timeline.clone();
        }
        self.value = 0;
        timeline.advance_with(&mut self.followed)
    }

    /// The point was added, with the value that [`begin`](Self::begin) returned.
    #[inline(always)]
    pub fn put(&mut self, value: u64) {
        self.value = value;
    }

    /// The timeline.
    #[inline(always)]
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The value, or 0 if nothing is known of it.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Whether work of a timeline with that value is complete when the point is reached.
    pub fn covers(&self, timeline: &Timeline, value: u64) -> bool {
        let followed = if timeline.key == self.timeline.key { self.value } else { self.followed.get(timeline.key) };
        self.value != 0 && followed > value
    }

    /// The host has waited for it.
    #[inline]
    pub fn reached(&self) {
        self.timeline.completed(self.value);
    }

    /// Whether both are the same point.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.timeline, &other.timeline) && self.value == other.value
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Timeline, TimelinePoint};

    #[test]
    fn a_point_covers_work_of_smaller_values_and_what_was_followed_before() {
        let [first, second, third] = [0, 1, 2].map(Timeline::new);
        let work = first.value();
        let point = TimelinePoint::advance(&first);
        assert!(point.covers(&first, work) && !point.covers(&first, first.value()));
        second.follow(&point);
        assert!(second.is_after(&first, work) && !third.is_after(&first, work));
        let mut carried = TimelinePoint::unknown(&second);
        let value = carried.begin(&second);
        third.follow(&carried);
        assert!(!third.is_after(&first, work), "nothing is known of it yet");
        carried.put(value);
        third.follow(&carried);
        assert!(third.is_after(&first, work) && carried.covers(&first, work));
    }

    #[test]
    fn complete_work_is_before_everything() {
        let [first, second] = [0, 1].map(Timeline::new);
        let work = first.value();
        assert!(!second.is_after(&first, work));
        TimelinePoint::advance(&first).reached();
        assert!(second.is_after(&first, work) && first.is_reached(1) && !first.is_complete(1));
    }
}
