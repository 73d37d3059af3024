//! Closures that run in stream order: the form in which drivers receive them, and the reports of their panics.

mod launches;

pub use launches::{LaunchPlace, Launching};

use crate::contained::contain_inside;
use crate::error::{Error, Result};
use crate::panics::PanicReports;
use crate::reaper;
use anabranch_hal::{Callback, HostWork, HostWorkKey, InsideWork, RepeatableWork, Status, Thrown};
use launches::Launches;
use std::fmt;
use std::sync::Arc;

/// Whether this thread runs a host function, or a kernel that is a closure. No driver may be called there.
#[inline]
pub fn is_inside() -> bool {
    InsideWork::is_entered()
}

/// Refuses a call inside of a host function, before it takes a lock. Some drivers run host functions on a thread that calls
/// them, which may hold the lock already.
///
/// # Errors
/// `CUDA_ERROR_NOT_PERMITTED (800)`.
#[inline]
pub fn refuse_inside(operation: &'static str) -> Result<()> {
    if is_inside() { Err(Error::driver(operation, Status::NOT_PERMITTED.into())) } else { Ok(()) }
}

/// Drops something of the program's as inside a host function, on the reaper's thread: whoever gives it up may hold
/// locks, or be in the middle of a change. `note` receives what is thrown if the drop unwinds.
pub fn drop_elsewhere(value: impl Send + 'static, note: impl FnOnce(&Thrown) + Send + 'static) {
    reaper::elsewhere(move || {
        if let Err(thrown) = contain_inside(|| drop(value)) {
            note(&thrown);
        }
    });
}

/// A closure that is called at most once. Its panics are noted. If it is never called, it is
/// [dropped elsewhere](drop_elsewhere).
struct Guarded<F: Send + 'static> {
    closure: Option<F>,
    stream: u64,
    panics: Arc<PanicReports>,
}

impl<F: Send + 'static> Guarded<F> {
    fn new(closure: F, stream: u64, panics: &Arc<PanicReports>) -> Self {
        Self { closure: Some(closure), stream, panics: panics.clone() }
    }

    #[inline(always)]
    fn call(&mut self, run: impl FnOnce(F)) {
        if let Some(closure) = self.closure.take()
            && let Err(thrown) = contain_inside(|| run(closure))
        {
            self.panics.note(&[self.stream], &thrown);
        }
    }

    #[cold]
    fn give_up(&self, closure: F) {
        let (stream, panics) = (self.stream, self.panics.clone());
        drop_elsewhere(closure, move |thrown| panics.note(&[stream], thrown));
    }
}

impl<F: Send + 'static> Drop for Guarded<F> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(closure) = self.closure.take() {
            self.give_up(closure);
        }
    }
}

/// A host function of a stream, in the form that a driver takes.
pub fn host_function(closure: impl FnOnce() + Send + 'static, stream: u64, panics: &Arc<PanicReports>) -> HostWork {
    let mut guarded = Guarded::new(closure, stream, panics);
    HostWork::new(move || guarded.call(|closure| closure()))
}

/// A callback of a stream, in the form that a driver takes.
pub fn callback(closure: impl FnOnce(Status) + Send + 'static, stream: u64, panics: &Arc<PanicReports>) -> Callback {
    let mut guarded = Guarded::new(closure, stream, panics);
    Box::new(move |status| guarded.call(|closure| closure(status)))
}

/// A host function that can run any number of times. Graphs retain it; drivers know it by its key.
pub struct RepeatableHostWork {
    work: RepeatableWork,
    launches: Arc<Launches>,
}

/// The closure of repeatable work, which is [dropped elsewhere](drop_elsewhere).
struct Repeatable<F: Send + 'static> {
    closure: Option<F>,
    launches: Arc<Launches>,
}

impl<F: Fn() + Send + 'static> Repeatable<F> {
    fn run(&self) {
        let Some(closure) = &self.closure else { return };
        if let Err(thrown) = contain_inside(closure) {
            self.launches.note(&thrown);
        }
    }
}

impl<F: Send + 'static> Drop for Repeatable<F> {
    fn drop(&mut self) {
        let (closure, launches) = (self.closure.take(), self.launches.clone());
        drop_elsewhere(closure, move |thrown| launches.note(thrown));
    }
}

impl RepeatableHostWork {
    /// Wraps a closure.
    pub fn new(closure: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let launches = Arc::new(Launches::new());
        let repeatable = Repeatable { closure: Some(closure), launches: launches.clone() };
        let work = RepeatableWork::new(move || repeatable.run());
        Arc::new(Self { work, launches })
    }

    /// The key by which drivers identify it.
    pub fn key(&self) -> HostWorkKey {
        self.work.key()
    }

    /// The work in the form that a driver takes to run it once or to capture it.
    pub fn as_host_work(&self) -> HostWork {
        self.work.clone().into()
    }
}

impl fmt::Debug for RepeatableHostWork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.work.fmt(formatter)
    }
}
