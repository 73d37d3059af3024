//! Runs cases, one after the other, each under a watchdog.

use crate::case::{Case, Outcome};
use crate::environment::Environment;
use crate::report::CaseReport;
use anabranch::{BackendKind, Device, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How a case that loses its context is kept from the others.
pub type Isolation = dyn Fn(&Case) -> Outcome;

/// Runs cases on one device.
pub struct Runner {
    device: Device,
    peer: Option<Device>,
    environment: Arc<Environment>,
    limit: Duration,
}

impl Runner {
    /// A runner for `device`. `peer` is a second device of the same back end, if there is one.
    ///
    /// # Errors
    /// As [`Environment::open`].
    pub fn new(device: &Device, peer: Option<&Device>) -> Result<Self> {
        let environment = Arc::new(Environment::open(device, peer)?);
        Ok(Self { device: device.clone(), peer: peer.cloned(), environment, limit: Duration::from_secs(60) })
    }

    /// Runs one case. A case that loses its context is handed to `isolation` where the device cannot recover from that
    /// in this process, which is so on real hardware.
    pub fn run(&mut self, case: &Case, isolation: &Isolation) -> CaseReport {
        let start = Instant::now();
        let outcome = match self.environment.lacks(case) {
            Some(reason) => Outcome::Skipped(reason),
            None if case.loses_context && self.device.backend() != BackendKind::Host => isolation(case),
            None => self.run_here(case),
        };
        CaseReport::new(case.name, case.rule, outcome, start.elapsed())
    }

    /// Runs one case in this process, whatever it loses.
    pub fn run_here(&mut self, case: &Case) -> Outcome {
        let (sender, receiver) = channel();
        let (environment, run) = (self.environment.clone(), case.run);
        let spawned = std::thread::Builder::new().name(case.name.to_owned()).spawn(move || {
            let verdict = catch_unwind(AssertUnwindSafe(|| run(&environment)));
            let _ = sender.send(match verdict {
                Ok(Ok(())) => Outcome::Passed,
                Ok(Err(failed)) => Outcome::Failed(failed.0),
                Err(_) => Outcome::Failed("the case panicked".to_owned()),
            });
        });
        if let Err(error) = spawned {
            return Outcome::Failed(format!("there is no thread to run it on: {error}"));
        }
        match receiver.recv_timeout(self.limit) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                // What it left behind must not hold the next case up.
                if let Ok(environment) = Environment::open(&self.device, self.peer.as_ref()) {
                    self.environment = Arc::new(environment);
                }
                Outcome::Failed(format!("it did not end within {} seconds", self.limit.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => Outcome::Failed("the case ended without a verdict".to_owned()),
        }
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Runner({})", self.device)
    }
}
