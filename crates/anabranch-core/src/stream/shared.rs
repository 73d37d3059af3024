//! What all objects of the same stream of a driver share.

use super::membership::Membership;
use super::submitted_work::SubmittedWork;
use crate::panics::PanicReports;
use crate::timeline::Timeline;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What belongs to a stream of a driver, and is shared by all objects of that stream.
pub struct StreamShared {
    timeline: Arc<Timeline>,
    membership: Membership,
    panics: Arc<PanicReports>,
    /// Whether another library may capture the stream, so that the driver has to be queried.
    may_be_captured: AtomicBool,
    /// Whether the stream's handle was given out.
    exposed: AtomicBool,
    work: SubmittedWork,
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
            work: SubmittedWork::default(),
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

    /// Whether the host has waited for all that was submitted.
    #[inline(always)]
    pub fn work(&self) -> &SubmittedWork {
        &self.work
    }

    /// How often the library has made the stream wait for others.
    pub fn orders_inserted(&self) -> u64 {
        self.orders_inserted.load(Ordering::Relaxed)
    }

    pub(super) fn count_orders(&self, count: u64) {
        self.orders_inserted.fetch_add(count, Ordering::Relaxed);
    }
}
