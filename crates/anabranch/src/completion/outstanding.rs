//! What a future waited for, for whoever needs to know when that is over though the future is gone.

use super::interest::{Interest, Point};
use super::point::Awaited;
use crate::error::Result;
use std::sync::Arc;

/// Work that nobody awaits any more.
pub(crate) enum Outstanding {
    /// Of a future that was never polled.
    Unasked(Awaited),
    /// Of a future that the reactor looked after.
    Asked(Arc<Interest<Awaited>>),
}

impl Outstanding {
    /// Whether the work is complete, or will never run because the context is lost.
    pub(crate) fn is_over(&self) -> bool {
        self.look().is_some()
    }

    /// Whether the work is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.look().is_some_and(|result| result.is_ok())
    }

    fn look(&self) -> Option<Result<()>> {
        let point = match self {
            Self::Unasked(point) => point,
            Self::Asked(interest) => interest.point(),
        };
        // Not every point tells itself that the context is lost.
        point.look().or_else(|| point.check_context().err().map(Err))
    }
}
