//! Panics of closures that the driver ran, until somebody is told.

use anabranch_hal::{ContextHandle, Detail, Failure, Result, Status};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs something of the user's. If it unwinds, the unwinding ends here, since the driver's frames may lie above, and `tell`
/// is given what was thrown. Nothing that was left half done is looked at afterwards: whoever calls this gives it away.
pub(crate) fn contain(run: impl FnOnce(), tell: impl FnOnce(&(dyn Any + Send))) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        tell(&*payload);
        // The payload may itself unwind when it is dropped. What that throws is let go without being dropped.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
    }
}

/// The panics in this process that nobody has been told of. Like the closures, they outlive the driver's object.
pub(crate) static PANICS: PanicReports = PanicReports::new();

/// At most one panic a stream, or a set of streams; until it is reported, later ones are left out.
pub(crate) struct PanicReports {
    any: AtomicBool,
    reports: Mutex<Vec<Report>>,
}

/// Where a closure ran that panicked, or may have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) context: ContextHandle,
    /// The stream's number, which unlike its handle is never used again. None where it is not known.
    pub(crate) stream: Option<u64>,
}

struct Report {
    /// Whoever waits for any of them first is told.
    places: Vec<Place>,
    message: String,
}

impl PanicReports {
    const fn new() -> Self {
        Self { any: AtomicBool::new(false), reports: Mutex::new(Vec::new()) }
    }

    #[cold]
    pub(crate) fn note(&self, context: ContextHandle, stream: u64, payload: &(dyn Any + Send)) {
        self.note_at(vec![Place { context, stream: Some(stream) }], payload);
    }

    /// As [`note`](Self::note), where there are several places in which the closure may have run.
    #[cold]
    pub(crate) fn note_at(&self, places: Vec<Place>, payload: &(dyn Any + Send)) {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "the payload is no text".to_owned());
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if !reports.iter().any(|report| report.places == places) {
            reports.push(Report { places, message });
        }
        self.any.store(true, Ordering::Release);
    }

    /// Whether there is anything to report at all.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Reports the panic of a stream, once.
    #[cold]
    pub(crate) fn report_stream(&self, stream: u64) -> Result<()> {
        self.report(|place| place.stream == Some(stream))
    }

    /// Reports the panic of any stream of a context, once.
    #[cold]
    pub(crate) fn report_context(&self, context: ContextHandle) -> Result<()> {
        self.report(|place| place.context == context)
    }

    fn report(&self, wanted: impl Fn(&Place) -> bool) -> Result<()> {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let found = reports.iter().position(|report| report.places.iter().any(&wanted));
        let Some(index) = found else { return Ok(()) };
        let report = reports.remove(index);
        self.any.store(!reports.is_empty(), Ordering::Release);
        Err(Failure::with_detail(Status::LAUNCH_FAILED, Detail::Panic(report.message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_once_and_to_its_stream() {
        let reports = PanicReports::new();
        let context = ContextHandle::from_raw(1);
        assert!(!reports.any());
        reports.note(context, 7, &"first");
        reports.note(context, 7, &"second");
        reports.note(context, 8, &String::from("other"));
        assert_eq!(reports.report_stream(9), Ok(()));
        let failure = reports.report_stream(7).unwrap_err();
        assert_eq!(failure.status, Status::LAUNCH_FAILED);
        assert_eq!(failure.detail.as_deref(), Some(&Detail::Panic("first".to_owned())));
        assert_eq!(reports.report_stream(7), Ok(()));
        assert!(reports.any());
        assert!(reports.report_context(context).unwrap_err().to_string().contains("other"));
        assert!(!reports.any());
    }
    #[test]
    fn a_panic_in_one_of_several_streams_is_reported_to_the_first_that_asks() {
        let reports = PanicReports::new();
        let context = ContextHandle::from_raw(1);
        let place = |stream| Place { context, stream };
        reports.note_at(vec![place(Some(7)), place(Some(8))], &"in a graph");
        reports.note_at(vec![place(None)], &"nowhere");
        assert_eq!(reports.report_stream(9), Ok(()));
        assert!(reports.report_stream(8).unwrap_err().to_string().contains("in a graph"));
        assert_eq!(reports.report_stream(7), Ok(()));
        assert!(reports.report_context(context).unwrap_err().to_string().contains("nowhere"));
    }

    #[test]
    fn what_is_thrown_while_dropping_what_was_thrown_is_contained_too() {
        struct UnwindsOnDrop;
        impl Drop for UnwindsOnDrop {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new(2));
            }
        }
        let mut told = 0;
        contain(|| std::panic::resume_unwind(Box::new(UnwindsOnDrop)), |_| told += 1);
        assert_eq!(told, 1);
    }
}
