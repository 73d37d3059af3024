//! The results of a run.

use crate::case::Outcome;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// The name of the case.
    pub name: &'static str,
    /// The rule that the case verifies.
    pub rule: &'static str,
    /// `passed`, `failed` or `skipped`.
    pub outcome: &'static str,
    /// What is wrong, or why the case was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The duration in milliseconds.
    pub milliseconds: f64,
}

impl CaseReport {
    pub(crate) fn new(name: &'static str, rule: &'static str, outcome: Outcome, took: Duration) -> Self {
        let (outcome, reason) = match outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(reason) => ("failed", Some(reason)),
            Outcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        Self { name, rule, outcome, reason, milliseconds: took.as_secs_f64() * 1e3 }
    }
}

impl fmt::Display for CaseReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<7} {:<4} {}", self.outcome, self.rule, self.name)?;
        match &self.reason {
            Some(reason) => write!(formatter, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// The number of cases by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The number of cases that passed.
    pub passed: usize,
    /// The number of cases that failed.
    pub failed: usize,
    /// The number of cases that were skipped.
    pub skipped: usize,
}

impl Summary {
    /// Counts one case.
    pub fn count(&mut self, report: &CaseReport) {
        match report.outcome {
            "passed" => self.passed += 1,
            "failed" => self.failed += 1,
            _ => self.skipped += 1,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}
