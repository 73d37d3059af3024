//! What all objects of one context of a driver share.
//!
//! The primary context of a device has several objects if instances have drivers with layers of their own, or if an
//! object is made while an earlier one is being closed. A call that waits for the context waits for the work of all.

use crate::device_name::DeviceName;
use crate::helping::helping;
use crate::ranks;
use anabranch_hal::ContextHandle;
use anabranch_sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The work of a context that one object of it knows of.
pub trait ContextWork: Send + Sync {
    /// Whether all of it is complete.
    fn is_complete(&self) -> bool;

    /// Returns when all that has been submitted until now is complete, as far as it can be waited for.
    fn wait(&self);
}

/// A context of a driver.
pub struct DriverContext {
    handle: ContextHandle,
    device: DeviceName,
    /// Its green contexts that have not been destroyed.
    green_contexts: AtomicUsize,
    /// Shared while work is submitted that needs something else than the context to finish, exclusive while memory is freed.
    host_bound: RwLock<()>,
    /// How often such work was submitted.
    host_bound_count: AtomicU64,
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
    /// How many [`HostBoundKeptOut`] the thread has.
    static KEPT_OUT: Cell<u32> = const { Cell::new(0) };
}

/// While it exists, no other thread submits work that needs something else than the context to finish.
#[must_use = "work is submitted when it is dropped"]
pub struct HostBoundKeptOut<'a> {
    /// None where a call that waits keeps no others waiting.
    _guard: Option<RwLockWriteGuard<'a, ()>>,
}

impl<'a> HostBoundKeptOut<'a> {
    fn new(guard: Option<RwLockWriteGuard<'a, ()>>) -> Self {
        KEPT_OUT.set(KEPT_OUT.get() + 1);
        Self { _guard: guard }
    }
}

impl Drop for HostBoundKeptOut<'_> {
    fn drop(&mut self) {
        KEPT_OUT.set(KEPT_OUT.get() - 1);
    }
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
    pub fn of(handle: ContextHandle, device: DeviceName) -> Arc<Self> {
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|context| context.strong_count() > 0);
        if let Some(known) = contexts.iter().filter_map(Weak::upgrade).find(|known| known.handle == handle) {
            return known;
        }
        let context = Arc::new(Self {
            handle,
            device,
            green_contexts: AtomicUsize::new(0),
            host_bound: RwLock::new(ranks::HOST_BOUND_WORK, ()),
            host_bound_count: AtomicU64::new(0),
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

    /// Whether the device has other contexts that have not been closed, or this one has green contexts.
    pub fn is_beside_others(&self) -> bool {
        let is_other = |other: &DriverContext| other.device == self.device && other.handle != self.handle;
        self.green_contexts.load(Ordering::Relaxed) > 0
            || CONTEXTS.lock().iter().filter_map(Weak::upgrade).any(|context| is_other(&context))
    }

    /// Counts a green context, until [`remove_green_context`](Self::remove_green_context).
    pub fn add_green_context(&self) {
        self.green_contexts.fetch_add(1, Ordering::Relaxed);
    }

    /// Called when a green context is idle and destroyed.
    pub fn remove_green_context(&self) {
        self.green_contexts.fetch_sub(1, Ordering::Relaxed);
    }

    /// Held while the driver is called with work that needs something else than the context to make progress, and until that
    /// counts as work of the stream: the host, or the work of another context or process, which may need the host. `None`: this
    /// thread keeps others from doing so.
    pub fn submit_host_bound(&self) -> Option<RwLockReadGuard<'_, ()>> {
        if KEPT_OUT.get() > 0 {
            return None;
        }
        let submitting = self.host_bound.read_recursive();
        self.host_bound_count.fetch_add(1, Ordering::Relaxed);
        Some(submitting)
    }

    /// A thread with locks that come later must not ask for [`submit_host_bound`](Self::submit_host_bound).
    #[track_caller]
    pub fn may_submit_host_bound(&self) {
        if KEPT_OUT.get() == 0 {
            self.host_bound.may_be_read_recursive();
        }
    }

    /// How often work that needs something else than the context has been submitted. `None`: a thread is submitting some.
    pub fn count_host_bound(&self) -> Option<u64> {
        self.host_bound.try_write().map(|_guard| self.host_bound_count.load(Ordering::Relaxed))
    }

    /// Held while no such work is submitted. `None`: some is, or has been since there was that much of it.
    pub fn keep_out_host_bound(&self, count: u64) -> Option<HostBoundKeptOut<'_>> {
        let guard = self.host_bound.try_write()?;
        (self.host_bound_count.load(Ordering::Relaxed) == count).then(|| HostBoundKeptOut::new(Some(guard)))
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

    fn all_work(&self) -> Vec<Arc<dyn ContextWork>> {
        self.work.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether all work of all objects is complete.
    pub fn is_idle(&self) -> bool {
        self.all_work().iter().all(|work| work.is_complete())
    }

    /// Returns when all work that has been submitted until now is complete, as far as it can be waited for.
    pub fn wait_for_work(&self) {
        self.all_work().iter().for_each(|work| work.wait());
    }

    /// Held while the context is idle, so that a call may wait for all its work. `None`: the context is not idle, or
    /// work that needs the host is being submitted. A driver whose calls keep no others waiting need not be kept idle: it does not
    /// wait for work when what no work uses is given back ([`Call::of_unused`](anabranch_hal::Call::of_unused)).
    pub fn try_keep_idle(&self, keeps_others_waiting: bool) -> Option<HostBoundKeptOut<'_>> {
        // Asked with no lock held first, because a driver may run work of the program when it is asked.
        let is_idle = {
            let _helping = helping();
            self.is_idle()
        };
        if !is_idle {
            return None;
        }
        if !keeps_others_waiting {
            return Some(HostBoundKeptOut::new(None));
        }
        let guard = self.host_bound.try_write()?;
        self.is_idle().then(|| HostBoundKeptOut::new(Some(guard)))
    }
}
