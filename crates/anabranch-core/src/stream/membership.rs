//! Whether a stream is a member of a capture.

#[cfg(all(test, loom))]
mod loom_tests;

use super::StreamCore;
use crate::ranks;
use anabranch_hal::{DevicePointer, Live, StreamHandle};
use anabranch_sync::modelled::{AtomicBool, AtomicU64, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A capture, as its member streams use it.
pub trait Capture: Any + Send + Sync {
    /// Called when a member stream is dropped, or its handle is returned to the caller. It is not destroyed yet. `false`: other
    /// threads have been submitting work to members for longer than `patience`, and nothing was done.
    fn stream_ends(&self, stream: &StreamCore, handle: Live<'_, StreamHandle>, patience: Duration) -> bool;

    /// Called when memory is dropped whose allocation was captured here, in `home`.
    fn release_memory(self: Arc<Self>, address: DevicePointer, home: &Arc<StreamCore>);
}

/// How many streams of the process are members of captures.
// Not one that loom models: it is a hint, and outlives a run of a model.
static MEMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Whether any stream of the process is a member of a capture.
pub fn is_any_capturing() -> bool {
    MEMBERS.load(Ordering::Relaxed) > 0
}

/// The capture that a stream is a member of.
pub struct Membership {
    active: AtomicBool,
    /// How often the stream has joined a capture, or was about to.
    joined: AtomicU64,
    capture: Mutex<Option<Arc<dyn Capture>>>,
    /// Shared while work is submitted, exclusive while the stream joins or leaves a capture. Work is therefore either
    /// captured and known to be, or not captured and ordered after other work.
    changing: RwLock<()>,
}

/// Held while work is submitted to a stream.
pub type Submitting<'a> = RwLockReadGuard<'a, ()>;

/// How long a stream that is about to join or leave a capture waits for submissions of other threads, which may be
/// blocked themselves.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

impl Membership {
    pub(super) fn new(order: u64) -> Self {
        Self {
            active: AtomicBool::new(false),
            joined: AtomicU64::new(0),
            capture: Mutex::new(ranks::MEMBER_OF, None),
            changing: RwLock::with_order(ranks::MEMBERSHIP, order, ()),
        }
    }

    /// Whether the stream is a member of a capture.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// The capture.
    #[cold]
    pub fn get(&self) -> Option<Arc<dyn Capture>> {
        self.capture.lock().clone()
    }

    /// Called before the driver lets the stream join a capture.
    pub fn joins(&self) {
        self.joined.fetch_add(1, Ordering::AcqRel);
    }

    /// What stays the same until the stream joins or leaves a capture, or tries to: how often it has joined one, and whether it
    /// is a member. `None`: it is joining or leaving one at this moment.
    #[inline(always)]
    pub fn observe(&self) -> Option<(u64, bool)> {
        let joined = self.joined.load(Ordering::Acquire);
        (!self.changing.is_locked_exclusive()).then_some((joined, self.is_active()))
    }

    /// Makes the stream a member.
    pub fn set(&self, capture: Arc<dyn Capture>) {
        let before = self.capture.lock().replace(capture);
        if before.is_none() {
            MEMBERS.fetch_add(1, Ordering::Relaxed);
        }
        self.active.store(true, Ordering::Release);
        // Outside of the lock, because it may be the last reference to what a capture retained.
        drop(before);
    }

    /// Whether the stream is a member of that capture.
    pub fn is_of(&self, capture: &dyn Capture) -> bool {
        is_same(self.capture.lock().as_ref(), capture)
    }

    /// Ends the membership, unless the stream has joined another capture in the meantime.
    pub fn clear(&self, capture: &dyn Capture) {
        let mut slot = self.capture.lock();
        if is_same(slot.as_ref(), capture) {
            self.active.store(false, Ordering::Release);
            let left = slot.take();
            MEMBERS.fetch_sub(1, Ordering::Relaxed);
            drop(slot);
            drop(left);
        }
    }

    /// Held while work is submitted. A submission may contain others, which do not wait for a capture that waits for
    /// it.
    #[inline(always)]
    #[track_caller]
    pub fn submitting(&self) -> Submitting<'_> {
        self.changing.read_recursive()
    }

    /// Held while the stream joins or leaves a capture. `None`: another thread has been submitting work for so long
    /// that it may be blocked.
    pub fn change(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.change_within(PATIENCE)
    }

    /// Like [`change`](Self::change), for a caller that waits that long.
    pub fn change_within(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, ()>> {
        self.changing.try_write_for(patience)
    }
}

fn is_same(current: Option<&Arc<dyn Capture>>, capture: &dyn Capture) -> bool {
    current.is_some_and(|current| Arc::as_ptr(current).addr() == std::ptr::from_ref(capture).addr())
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.capture.get_mut().is_some() {
            MEMBERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
