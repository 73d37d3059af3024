//! What all objects of the same stream of a driver share.

use super::membership::Membership;
use crate::panics::PanicReports;
use crate::timeline::Timeline;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The host has waited for all work.
const IDLE: u64 = 0;
/// Work was submitted since the host last began to wait for the stream.
const BUSY: u64 = 1;
const FIRST_WAIT: u64 = 2;

/// What belongs to a stream of a driver, and is shared by all objects of that stream.
pub struct StreamShared {
    timeline: Arc<Timeline>,
    membership: Membership,
    panics: Arc<PanicReports>,
    /// Whether another library may capture the stream, so that the driver has to be queried.
    may_be_captured: AtomicBool,
    /// Whether the stream's handle was given out.
    exposed: AtomicBool,
    /// [`IDLE`], [`BUSY`], or the number of the wait that began last, if nothing was submitted since.
    work: AtomicU64,
    /// The number of the next wait.
    waits: AtomicU64,
    /// How often the library has made the stream wait.
    orders_inserted: AtomicU64,
}

impl StreamShared {
    pub(super) fn new(sequence: u64, panics: &Arc<PanicReports>) -> Arc<Self> {
        let timeline = Timeline::new(sequence);
        Arc::new(Self {
            membership: Membership::new(timeline.key()),
            timeline,
            panics: panics.clone(),
            may_be_captured: AtomicBool::new(false),
            exposed: AtomicBool::new(false),
            work: AtomicU64::new(IDLE),
            waits: AtomicU64::new(FIRST_WAIT),
            orders_inserted: AtomicU64::new(0),
        })
    }

    /// How far the stream has come.
    #[inline(always)]
    pub fn timeline(&self) -> &Arc<Timeline> {
        &self.timeline
    }

    /// The capture that it is a member of.
    #[inline(always)]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Where panics of its closures are reported.
    pub fn panics(&self) -> &Arc<PanicReports> {
        &self.panics
    }

    /// Whether another library may capture the stream.
    #[inline(always)]
    pub fn may_be_captured(&self) -> bool {
        self.may_be_captured.load(Ordering::Relaxed)
    }

    /// Called when the stream waits for work that another library may have captured. The stream may then be capturing
    /// too.
    pub fn suspect_capture(&self) {
        self.may_be_captured.store(true, Ordering::Relaxed);
    }

    /// Notes that the stream's handle is known to other libraries.
    pub fn expose(&self) {
        self.exposed.store(true, Ordering::Relaxed);
    }

    /// Whether another library may capture the stream, or may do so at any time.
    #[inline(always)]
    pub fn may_be_captured_by_others(&self) -> bool {
        self.may_be_captured() || self.exposed.load(Ordering::Relaxed)
    }

    /// Notes that work was submitted. It is called after the driver was, so that a thread that waits for the stream at
    /// the same time either waits for that work too, or finds this noted afterwards.
    #[inline(always)]
    pub fn note_work(&self) {
        if self.work.load(Ordering::Relaxed) != BUSY {
            self.work.store(BUSY, Ordering::Relaxed);
        }
    }

    /// Called before the host waits for all work. `None`: there is none. Otherwise, what to call
    /// [`has_waited`](Self::has_waited) with.
    pub fn begins_to_wait(&self) -> Option<u64> {
        self.has_work().then(|| {
            let wait = self.waits.fetch_add(1, Ordering::Relaxed);
            self.work.store(wait, Ordering::Relaxed);
            wait
        })
    }

    /// The host has waited, and what was submitted before is complete. There may still be work that was submitted since, and
    /// others may wait for that.
    pub fn has_waited(&self, wait: u64) {
        let _ = self.work.compare_exchange(wait, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether there may be work that is not complete.
    #[inline(always)]
    pub fn has_work(&self) -> bool {
        self.work.load(Ordering::Relaxed) != IDLE
    }

    /// How often the library has made the stream wait for others.
    pub fn orders_inserted(&self) -> u64 {
        self.orders_inserted.load(Ordering::Relaxed)
    }

    pub(super) fn count_orders(&self, count: u64) {
        self.orders_inserted.fetch_add(count, Ordering::Relaxed);
    }
}
