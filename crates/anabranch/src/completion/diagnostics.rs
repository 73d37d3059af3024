//! What tests and measurements ask of the reactor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a reactor does, counted.
#[derive(Default)]
pub(crate) struct Counters {
    looks: AtomicU64,
    running: AtomicBool,
}

impl Counters {
    pub(super) fn add_looks(&self, looks: u64) {
        if looks > 0 {
            self.looks.fetch_add(looks, Ordering::Relaxed);
        }
    }

    pub(super) fn set_running(&self, running: bool) {
        self.running.store(running, Ordering::Release);
    }
}

/// What the reactor of a context does. It outlives the context.
#[doc(hidden)]
#[derive(Clone)]
pub struct CompletionDiagnostics {
    counters: Arc<Counters>,
}

impl CompletionDiagnostics {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        Self { counters: counters.clone() }
    }

    /// How often the reactor has asked the driver.
    pub fn looks(&self) -> u64 {
        self.counters.looks.load(Ordering::Relaxed)
    }

    /// Whether its thread runs.
    pub fn is_running(&self) -> bool {
        self.counters.running.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for CompletionDiagnostics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CompletionDiagnostics({} looks, running: {})", self.looks(), self.is_running())
    }
}
