//! Submitting work that needs something else than its context to make progress.

use super::StreamCore;
use anabranch_sync::RwLockReadGuard;

/// Held while the driver is called with work that needs the host, or the work of another context or process, to make progress,
/// and until that counts as work of the stream. Meanwhile, no other thread begins to wait for the whole context in a call that
/// makes others wait.
#[must_use = "the work counts when it is dropped"]
pub struct SubmittingHostBound<'a> {
    stream: &'a StreamCore,
    _guard: RwLockReadGuard<'a, ()>,
}

impl Drop for SubmittingHostBound<'_> {
    fn drop(&mut self) {
        // Others know of work in this thread's default stream by what was recorded there.
        if self.stream.is_per_thread() {
            self.stream.record_sync_now();
        }
    }
}

impl StreamCore {
    /// Begins to submit such work to the stream, if `is_host_bound`. `None`: it is not, or this driver has no call that makes
    /// others wait, or this thread keeps them out of such calls. Whether it could be held is found out each time.
    #[inline(always)]
    #[track_caller]
    pub fn submit_host_bound_if(&self, is_host_bound: bool) -> Option<SubmittingHostBound<'_>> {
        let guard = self.context.submit_host_bound_if(is_host_bound)?;
        Some(SubmittingHostBound { stream: self, _guard: guard })
    }
}
