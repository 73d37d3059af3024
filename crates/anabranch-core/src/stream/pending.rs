//! Work that has to be over before something that it uses is given back.

use super::{StreamCore, SyncEvent};
use crate::context::ContextCore;
use std::sync::Arc;

/// Work of some streams.
#[derive(Default)]
pub struct PendingWork {
    events: Vec<SyncEvent>,
    /// Contexts with work that no event is behind. It is over when the context has no work at all.
    contexts: Vec<Arc<ContextCore>>,
}

impl PendingWork {
    /// Adds all work that is in a stream now.
    pub fn add(&mut self, stream: &StreamCore) {
        let context = stream.context();
        let recorded = stream.sync_event_beside_captures();
        // What runs on in a lost context may be behind no event of a stream that has ended.
        let is_covered = recorded.is_ok() && !context.is_lost_and_running();
        self.events.extend(recorded.ok().flatten().filter(|event| !event.is_over()));
        if !is_covered && !self.contexts.iter().any(|known| Arc::ptr_eq(known, context)) {
            self.contexts.push(context.clone());
        }
    }

    /// Whether all of it is over.
    pub fn is_over(&mut self) -> bool {
        while self.events.first().is_some_and(SyncEvent::is_over) {
            self.events.swap_remove(0);
        }
        if self.events.is_empty() {
            self.contexts.retain(|context| !context.is_idle());
        }
        self.events.is_empty() && self.contexts.is_empty()
    }

    /// The number of the queue in which the reaper waits for it.
    pub fn queue(&self) -> u64 {
        let event = self.events.first().map(|event| event.point().timeline().key() << 1);
        event.or_else(|| Some(self.contexts.first()?.queue())).unwrap_or(0)
    }
}
