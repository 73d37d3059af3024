//! Counters of the reactor, for tests and measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a reactor does, counted.
#[derive(Default)]
pub struct Counters {
    checks: AtomicU64,
    running: AtomicBool,
}

impl Counters {
    pub fn add_checks(&self, checks: u64) {
        if checks > 0 {
            self.checks.fetch_add(checks, Ordering::Relaxed);
        }
    }

    pub fn set_running(&self, running: bool) {
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
    pub fn new(counters: &Arc<Counters>) -> Self {
        Self { counters: counters.clone() }
    }

    /// How often the reactor has queried the driver.
    pub fn checks(&self) -> u64 {
        self.counters.checks.load(Ordering::Relaxed)
    }

    /// Whether its thread runs.
    pub fn is_running(&self) -> bool {
        self.counters.running.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for CompletionDiagnostics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CompletionDiagnostics({} checks, running: {})", self.checks(), self.is_running())
    }
}
