//! What a dropped future waited for, for code that must know when the work is complete.

use super::awaited::Awaited;
use super::waiter::{Awaitable, Waiter};
use crate::error::Result;
use std::sync::Arc;

/// Work that no future awaits any more.
pub enum Outstanding {
    /// Of a future that was never polled.
    Unasked(Awaited),
    /// Of a future that was registered with the reactor.
    Asked(Arc<Waiter<Awaited>>),
}

impl Outstanding {
    /// Whether the work is complete, or will never run because the context is lost.
    pub fn is_over(&self) -> bool {
        self.check().is_some()
    }

    /// Whether the work is complete.
    pub fn is_complete(&self) -> bool {
        self.check().is_some_and(|result| result.is_ok())
    }

    /// The number of the queue in which the reaper waits for it.
    pub fn queue(&self) -> u64 {
        (self.point().queue() as u64) << 1
    }

    fn point(&self) -> &Awaited {
        match self {
            Self::Unasked(point) => point,
            Self::Asked(waiter) => waiter.point(),
        }
    }

    /// The result, if it is known.
    pub fn check(&self) -> Option<Result<()>> {
        let point = self.point();
        // Not every point shows that the context is lost.
        point.check().or_else(|| point.check_context().err().map(Err))
    }
}
