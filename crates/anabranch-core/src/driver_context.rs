//! What all objects of one context of a driver share.
//!
//! The primary context of a device has several objects if instances have drivers with layers of their own, or if an
//! object is made while an earlier one is being closed. A call that waits for the context waits for the work of all.

use crate::helping::helping;
use crate::ranks;
use anabranch_hal::ContextHandle;
use anabranch_sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The work of a context that one object of it knows of.
pub trait ContextWork: Send + Sync {
    /// Whether all of it is complete.
    fn is_complete(&self) -> bool;
}

/// A context of a driver.
pub struct DriverContext {
    handle: ContextHandle,
    /// Shared while work is submitted that needs something else than the context to finish, exclusive while memory is freed.
    host_bound: RwLock<()>,
    /// Shared while a stream joins a capture, exclusive while an event is recorded in the legacy stream.
    legacy_records: RwLock<()>,
    /// The work of each object.
    work: Mutex<Vec<Weak<dyn ContextWork>>>,
    /// Whether there has been more than one object with work.
    is_shared: AtomicBool,
}

thread_local! {
    /// Whether the thread has a [`LegacyRecording`].
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// While it exists, no stream joins a capture.
#[must_use = "streams join captures when it is dropped"]
pub struct LegacyRecording<'a> {
    guard: Option<RwLockWriteGuard<'a, ()>>,
}

impl Drop for LegacyRecording<'_> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            IS_RECORDING.set(false);
        }
    }
}

/// How long a record in the legacy stream is waited for.
const LONGEST_RECORD: Duration = Duration::from_millis(100);

/// The contexts that have objects, or are being closed.
static CONTEXTS: Mutex<Vec<Weak<DriverContext>>> = Mutex::new(ranks::DRIVER_CONTEXTS, Vec::new());

impl DriverContext {
    /// The context with that handle. Layers may give one handle to several contexts, which then merely wait for each
    /// other.
    pub fn of(handle: ContextHandle) -> Arc<Self> {
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|context| context.strong_count() > 0);
        if let Some(known) = contexts.iter().filter_map(Weak::upgrade).find(|known| known.handle == handle) {
            return known;
        }
        let context = Arc::new(Self {
            handle,
            host_bound: RwLock::new(ranks::HOST_BOUND_WORK, ()),
            legacy_records: RwLock::new(ranks::LEGACY_RECORDS, ()),
            work: Mutex::new(ranks::CONTEXT_WORK, Vec::new()),
            is_shared: AtomicBool::new(false),
        });
        contexts.push(Arc::downgrade(&context));
        context
    }

    /// Adds the work of an object, for as long as that exists.
    pub fn add(&self, work: &Arc<dyn ContextWork>) {
        let mut all = self.work.lock();
        all.retain(|work| work.strong_count() > 0);
        all.push(Arc::downgrade(work));
        if all.len() > 1 {
            self.is_shared.store(true, Ordering::Relaxed);
        }
    }

    /// Whether another object of this context may have streams, such as the default streams that this one has, too.
    pub fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Held while the driver is called with work that needs something else than the context to make progress, and until that
    /// counts as work of the stream: the host, or the work of another context or process, which may need the host.
    pub fn submit_host_bound(&self) -> RwLockReadGuard<'_, ()> {
        self.host_bound.read_recursive()
    }

    /// A thread with locks that come later must not ask for [`submit_host_bound`](Self::submit_host_bound).
    #[track_caller]
    pub fn may_submit_host_bound(&self) {
        self.host_bound.may_be_read_recursive();
    }

    /// Held while a stream joins a capture, so that no thread of this library records in the legacy stream meanwhile, which
    /// would invalidate the capture of a blocking stream. `None`: that takes long, because the legacy stream is full.
    pub fn join_capture(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.legacy_records.try_read_for(LONGEST_RECORD)
    }

    /// Held from before it is asked whether a blocking stream captures until an event is recorded in the legacy stream, or
    /// memory is freed there. A thread that has it already, of whatever context, need not wait for it.
    pub fn record_in_legacy_stream(&self) -> LegacyRecording<'_> {
        let guard = (!IS_RECORDING.get()).then(|| self.legacy_records.write());
        IS_RECORDING.set(true);
        LegacyRecording { guard }
    }

    /// For what is recorded in any stream, of which few are the legacy stream: a thread with locks that come later must not ask
    /// for it.
    #[track_caller]
    pub fn may_record_in_legacy_stream(&self) {
        if !IS_RECORDING.get() {
            self.legacy_records.may_be_locked();
        }
    }

    /// Whether all work of all objects is complete.
    pub fn is_idle(&self) -> bool {
        let all: Vec<_> = self.work.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().all(|work| work.is_complete())
    }

    /// Held while the context is idle, so that a call may wait for all its work. `None`: the context is not idle, or
    /// work that needs the host is being submitted.
    pub fn try_keep_idle(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        // Asked with no lock held first, because a driver may run work of the program when it is asked.
        let is_idle = {
            let _helping = helping();
            self.is_idle()
        };
        if is_idle { self.host_bound.try_write().filter(|_| self.is_idle()) } else { None }
    }
}
