//! The right to capture work.

use super::{CaptureState, capture_of};
use crate::error::Result;
use crate::stream::StreamCore;
use anabranch_hal::Access;
use anabranch_sync::modelled::MutexGuard;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

/// The right to capture work, which one thread at a time has in a capture: from before the order of the work is looked for
/// until its uses of memory are noted. Whoever records an event in the capture, or updates what a stream's next node depends
/// on, has it too.
pub struct Capturing {
    /// Unlocked before the capture, which has the lock, is given up.
    #[allow(dead_code, reason = "held for its drop")]
    lock: MutexGuard<'static, ()>,
    capture: Arc<CaptureState>,
    /// The uses of memory by the work, by address.
    pub(super) uses: RefCell<SmallVec<[(u64, Access); 4]>>,
}

impl CaptureState {
    /// Waits until no other thread captures work.
    pub(super) fn capturing(self: Arc<Self>) -> Capturing {
        let lock = self.submission.lock();
        // SAFETY: the lock exists as long as the capture, of which the result holds a reference that is dropped after the guard.
        let lock = unsafe { std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(lock) };
        Capturing { lock, capture: self, uses: RefCell::default() }
    }
}

/// The right to capture work in a stream, if the stream is a member of a capture that was begun through this library.
#[inline(always)]
pub fn capturing(stream: &StreamCore) -> Option<Capturing> {
    capture_of(stream).map(CaptureState::capturing)
}

impl Capturing {
    /// The capture.
    pub fn capture(&self) -> &Arc<CaptureState> {
        &self.capture
    }

    /// Captures something by several calls of the driver. If that fails, or unwinds, no graph comes of the capture, whatever
    /// succeeds later.
    pub fn change<R>(&self, change: impl FnOnce() -> Result<R>) -> Result<R> {
        let was_broken = std::mem::replace(&mut self.inner.lock().is_broken, true);
        let changed = change()?;
        self.inner.lock().is_broken = was_broken;
        Ok(changed)
    }
}

impl Deref for Capturing {
    type Target = CaptureState;

    fn deref(&self) -> &CaptureState {
        &self.capture
    }
}
