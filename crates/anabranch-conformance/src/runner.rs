//! Runs cases, one after the other, each under a watchdog.

use crate::case::{Case, Outcome};
use crate::environment::Environment;
use crate::report::CaseReport;
use anabranch::{Capabilities, Device, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Runs a case that loses its context in isolation, usually in another process.
pub type Isolation = dyn Fn(&Case) -> Outcome;

/// Runs cases on one device.
pub struct Runner {
    device: Device,
    peer: Option<Device>,
    environment: Arc<Environment>,
    limit: Duration,
}

impl Runner {
    /// Creates a runner for `device`. `peer` is a second device of the same back end, if there is one.
    ///
    /// # Errors
    ///
    /// The errors of [`Environment::open`].
    pub fn new(device: &Device, peer: Option<&Device>) -> Result<Self> {
        let environment = Arc::new(Environment::open(device, peer)?);
        Ok(Self { device: device.clone(), peer: peer.cloned(), environment, limit: Duration::from_secs(60) })
    }

    /// Runs one case. If the case loses its context and the device cannot recover from that in this process, the case
    /// is passed to `isolation`. This is so on all real hardware.
    pub fn run(&mut self, case: &Case, isolation: &Isolation) -> CaseReport {
        let start = Instant::now();
        let outcome = match self.environment.lacks(case) {
            Some(reason) => Outcome::Skipped(reason),
            None if case.loses_context && !self.device.capabilities().contains(Capabilities::CONTEXT_RECOVERY) => {
                isolation(case)
            }
            None => self.run_here(case),
        };
        CaseReport::new(case.name, case.rule, outcome, start.elapsed())
    }

    /// Runs one case in this process, even if it loses its context.
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
            return Outcome::Failed(format!("no thread could be started: {error}"));
        }
        match receiver.recv_timeout(self.limit) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => {
                // Whatever the case left behind must not delay the next case.
                if let Ok(environment) = Environment::open(&self.device, self.peer.as_ref()) {
                    self.environment = Arc::new(environment);
                }
                Outcome::Failed(format!("the case did not end within {} seconds", self.limit.as_secs()))
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
