//! Panics of closures that the driver ran, until somebody is told.

use anabranch_hal::{ContextHandle, Detail, Failure, Result, Status};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The panics in this process that nobody has been told of. Like the closures, they outlive the driver's object.
pub(crate) static PANICS: PanicReports = PanicReports::new();

/// At most one panic a stream; until it is reported, later ones are left out.
pub(crate) struct PanicReports {
    any: AtomicBool,
    reports: Mutex<Vec<Report>>,
}

struct Report {
    context: ContextHandle,
    /// The stream's number, which unlike its handle is never used again.
    stream: u64,
    message: String,
}

impl PanicReports {
    const fn new() -> Self {
        Self { any: AtomicBool::new(false), reports: Mutex::new(Vec::new()) }
    }

    #[cold]
    pub(crate) fn note(&self, context: ContextHandle, stream: u64, payload: &(dyn Any + Send)) {
        let message = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "the payload is no text".to_owned());
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if !reports.iter().any(|report| report.stream == stream) {
            reports.push(Report { context, stream, message });
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
        self.report(|report| report.stream == stream)
    }

    /// Reports the panic of any stream of a context, once.
    #[cold]
    pub(crate) fn report_context(&self, context: ContextHandle) -> Result<()> {
        self.report(|report| report.context == context)
    }

    fn report(&self, wanted: impl Fn(&Report) -> bool) -> Result<()> {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = reports.iter().position(wanted) else { return Ok(()) };
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
}
