//! What became of requests.

use crate::protocol::{Answer, Reason};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Counts of requests, each in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) answered: u64,
    pub(crate) failed: BTreeMap<Reason, u64>,
    /// Given up, because their connection has broken.
    pub(crate) abandoned: u64,
}

impl Counts {
    /// Requests that nothing has become of.
    pub(crate) fn open(&self) -> u64 {
        self.received - self.answered - self.failed.values().sum::<u64>() - self.abandoned
    }
}

#[derive(Debug, Default)]
pub(crate) struct Statistics {
    counts: Mutex<Counts>,
}

impl Statistics {
    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A request has come.
    pub(crate) fn receive(&self) -> Received<'_> {
        self.change(|counts| counts.received += 1);
        Received { statistics: self, is_answered: false }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A request that something has to become of.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    statistics: &'a Statistics,
    is_answered: bool,
}

impl Received<'_> {
    pub(crate) fn answer(mut self, answer: &Answer) {
        self.is_answered = true;
        self.statistics.change(|counts| match answer {
            Answer::Edges(_) => counts.answered += 1,
            Answer::Failed { reason, .. } => *counts.failed.entry(*reason).or_default() += 1,
        });
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.statistics.change(|counts| counts.abandoned += 1);
        }
    }
}
