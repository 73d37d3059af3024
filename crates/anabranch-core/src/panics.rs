//! Panics of the program's closures, until they are reported.
//!
//! A panic ends where the closure was called. It is noted with the context and the streams whose work it was. The next
//! call that synchronizes with one of these streams, or with the context, reports it once. Everything that calls or
//! drops a closure of the program uses [`contain`](anabranch_hal::contain). What is dropped at a place that may hold
//! locks, or be in the middle of a change, is dropped on the reaper's thread (`host_work.rs`).

use crate::contained::contain_inside;
use crate::error::{Error, Result};
use crate::ranks;
use crate::reaper;
use anabranch_hal::{Detail, Failure, Status, Thrown};
use anabranch_sync::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The failure that represents a panic.
pub fn panic_failure(thrown: &Thrown) -> Failure {
    Failure::with_detail(Status::LAUNCH_FAILED, Detail::Panic(thrown.message()))
}

/// The panics of a context that were not reported yet.
pub struct PanicReports {
    any: AtomicBool,
    reports: Mutex<VecDeque<Report>>,
}

/// The reports of a context, and the streams of it whose work a panic may be.
pub type PanicPlace = (Arc<PanicReports>, SmallVec<[u64; 1]>);

struct Report {
    /// The streams of the context whose work it may have been.
    streams: SmallVec<[u64; 1]>,
    panic: Arc<Panic>,
}

/// A panic, which several contexts may know. The first that is asked reports it.
struct Panic {
    message: String,
    is_reported: AtomicBool,
    /// What the program wants to have kept until then.
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl Panic {
    fn new(thrown: &Thrown) -> Arc<Self> {
        Arc::new(Self { message: thrown.message(), is_reported: AtomicBool::new(false), kept: thrown.kept().cloned() })
    }
}

impl Drop for Panic {
    /// On the reaper's thread: it is dropped where work runs and where errors are made, and what is kept is the program's.
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            reaper::elsewhere(move || _ = contain_inside(|| drop(kept)));
        }
    }
}

impl Report {
    fn is_reported(&self) -> bool {
        self.panic.is_reported.load(Ordering::Acquire)
    }
}

/// Takes out those that another context has reported.
fn take_reported(reports: &mut VecDeque<Report>) -> Vec<Report> {
    let mut gone = Vec::new();
    let mut index = 0;
    while index < reports.len() {
        match reports[index].is_reported() {
            true => gone.extend(reports.remove(index)),
            false => index += 1,
        }
    }
    gone
}

/// If nobody asks for them, only this many panics are kept, the last ones: streams may have gone with theirs.
const MOST: usize = 1024;

impl Default for PanicReports {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), reports: Mutex::new(ranks::PANICS, VecDeque::new()) }
    }
}

impl PanicReports {
    /// Notes a panic of work of these streams. For each set of streams, the first panic is kept until it is reported.
    #[cold]
    pub fn note(&self, streams: &[u64], thrown: &Thrown) {
        let panic = Panic::new(thrown);
        let mut reports = self.reports.lock();
        if Self::has(&reports, streams) {
            return drop(reports);
        }
        let gone = self.add(&mut reports, streams, &panic);
        drop(reports);
        drop(gone);
    }

    /// Notes a panic of work of these streams of several contexts. It is reported once, by one of them.
    #[cold]
    pub fn note_in(places: &[PanicPlace], thrown: &Thrown) {
        if let [(reports, streams)] = places {
            return reports.note(streams, thrown);
        }
        if places.iter().all(|(reports, streams)| Self::has(&reports.reports.lock(), streams)) {
            return;
        }
        let panic = Panic::new(thrown);
        for (reports, streams) in places {
            let gone = reports.add(&mut reports.reports.lock(), streams, &panic);
            drop(gone);
        }
    }

    /// Whether a panic of the streams is to be reported.
    fn has(reports: &VecDeque<Report>, streams: &[u64]) -> bool {
        reports.iter().any(|report| report.streams[..] == *streams && !report.is_reported())
    }

    /// Adds a report, and returns those that are not needed any more, which are dropped without the lock: they may keep something of
    /// the program.
    #[must_use]
    fn add(&self, reports: &mut VecDeque<Report>, streams: &[u64], panic: &Arc<Panic>) -> Vec<Report> {
        let mut gone = take_reported(reports);
        if reports.len() == MOST {
            gone.extend(reports.pop_front());
        }
        reports.push_back(Report { streams: SmallVec::from_slice(streams), panic: panic.clone() });
        self.any.store(true, Ordering::Release);
        gone
    }

    /// Reports a panic of work of a stream, once.
    #[inline(always)]
    pub fn report_stream(&self, stream: u64, operation: &'static str, place: impl FnOnce() -> String) -> Result<()> {
        if self.any.load(Ordering::Acquire) {
            self.report(|report| report.streams.contains(&stream), operation, place)
        } else {
            Ok(())
        }
    }

    /// Reports any panic, once.
    #[inline(always)]
    pub fn report_any(&self, operation: &'static str, place: impl FnOnce() -> String) -> Result<()> {
        if self.any.load(Ordering::Acquire) { self.report(|_| true, operation, place) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn report(
        &self,
        wanted: impl Fn(&Report) -> bool,
        operation: &'static str,
        place: impl FnOnce() -> String,
    ) -> Result<()> {
        let (found, gone) = {
            let mut reports = self.reports.lock();
            let mut gone = take_reported(&mut reports);
            let mut found = None;
            while found.is_none()
                && let Some(taken) = reports.iter().position(&wanted).and_then(|index| reports.remove(index))
            {
                // Another context may report it meanwhile.
                match taken.panic.is_reported.swap(true, Ordering::AcqRel) {
                    false => found = Some(taken),
                    true => gone.push(taken),
                }
            }
            self.any.store(!reports.is_empty(), Ordering::Release);
            (found, gone)
        };
        drop(gone);
        match found {
            Some(report) => {
                let failure = Failure::with_detail(Status::LAUNCH_FAILED, Detail::Panic(report.panic.message.clone()));
                Err(Error::driver(operation, failure).at(place()))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, PanicReports};
    use anabranch_hal::contain;
    use std::panic::resume_unwind;

    fn note(reports: &PanicReports, streams: &[u64], text: &'static str) {
        reports.note(streams, &contain(|| resume_unwind(Box::new(text))).unwrap_err());
    }

    #[test]
    fn a_panic_is_reported_once_to_the_first_query_of_one_of_its_streams() {
        let reports = PanicReports::default();
        assert!(reports.report_any("testing", String::new).is_ok());
        note(&reports, &[1, 2], "first");
        note(&reports, &[1, 2], "left out");
        note(&reports, &[3], "second");
        assert!(reports.report_stream(4, "testing", String::new).is_ok());
        let error = reports.report_stream(2, "testing", String::new).unwrap_err();
        assert!(error.to_string().contains("panicked: first"), "{error}");
        assert!(reports.report_stream(1, "testing", String::new).is_ok());
        assert!(reports.report_any("testing", String::new).unwrap_err().to_string().contains("second"));
        assert!(reports.report_any("testing", String::new).is_ok());
    }

    #[test]
    fn panics_that_nobody_asks_for_do_not_hide_later_ones() {
        let reports = PanicReports::default();
        for stream in 0..2 * MOST as u64 {
            note(&reports, &[stream], "of a stream that is gone");
        }
        note(&reports, &[u64::MAX], "the last");
        assert!(reports.report_stream(u64::MAX, "testing", String::new).unwrap_err().to_string().contains("the last"));
        assert!(reports.report_stream(0, "testing", String::new).is_ok());
        assert!(reports.report_stream(2 * MOST as u64 - 1, "testing", String::new).is_err());
    }
}
