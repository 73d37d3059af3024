//! Closures that the driver runs: how they cross to its callback thread, and back when they are never run.
//!
//! A closure that was queued is owned by the [`HostWorkRegistry`] until it runs. The driver is given a key, which is a
//! number and never used again, in place of a pointer. So nothing is left behind by a call that fails or by a host
//! function that the driver skips, and nothing can be run twice or after it was dropped, whatever the driver does.

use crate::error::status;
use crate::ffi::cuda_types::{CUresult, CUstream};
use crate::panics::{PANICS, contain};
use anabranch_hal::{Callback, ContextHandle, HostWork, Status};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The closures queued in this process. There is one of these, as there is one driver library, because work that was
/// queued outlives the [`CudaDriver`](crate::CudaDriver) that queued it.
pub(crate) static QUEUED: HostWorkRegistry = HostWorkRegistry::new();

/// A closure of one kind or the other.
pub(crate) enum QueuedWork {
    /// Skipped when the context is in error.
    HostFunction(HostWork),
    /// Run in any case.
    Callback(Callback),
}

/// What the driver knows a closure by. Later closures have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkKey(usize);

impl WorkKey {
    /// The key in the guise that the driver wants. It does not point anywhere.
    pub(crate) fn as_user_data(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }

    fn from_user_data(data: *mut c_void) -> Self {
        Self(data.addr())
    }
}

/// Closures that are queued and have not run.
pub(crate) struct HostWorkRegistry {
    entries: Mutex<Entries>,
}

struct Entries {
    next: usize,
    queued: BTreeMap<usize, Entry>,
}

/// A closure, and where it is queued.
pub(crate) struct Entry {
    context: ContextHandle,
    /// The stream's number.
    stream: u64,
    work: QueuedWork,
}

impl Entry {
    /// Runs the work. If it unwinds, whoever waits for the stream is told.
    fn run(self, run: impl FnOnce(QueuedWork)) {
        let Self { context, stream, work } = self;
        contain(|| run(work), |payload| PANICS.note(context, stream, payload));
    }
}

impl HostWorkRegistry {
    const fn new() -> Self {
        Self { entries: Mutex::new(Entries { next: 1, queued: BTreeMap::new() }) }
    }

    /// Nothing of the user's runs under this lock, and nothing that panics, so it is never poisoned.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a closure for the context until it is taken.
    pub(crate) fn insert(&self, context: ContextHandle, stream: u64, work: QueuedWork) -> WorkKey {
        let mut entries = self.entries();
        let key = entries.next;
        entries.next = key.wrapping_add(1);
        entries.queued.insert(key, Entry { context, stream, work });
        WorkKey(key)
    }

    /// Gives a closure up, to be run or dropped. Nothing if it was taken before.
    pub(crate) fn take(&self, key: WorkKey) -> Option<Entry> {
        self.entries().queued.remove(&key.0)
    }

    /// The key that the next closure will have: those queued up to now have smaller ones.
    pub(crate) fn next_key(&self) -> WorkKey {
        WorkKey(self.entries().next)
    }

    /// The context is in error: its host functions will not be run, so they are dropped. Callbacks are still run.
    #[cold]
    pub(crate) fn context_in_error(&self, context: ContextHandle) {
        let end = self.next_key();
        self.take_all(context, end, |work| matches!(work, QueuedWork::HostFunction(_)))
            .into_iter()
            .for_each(|entry| entry.run(drop));
    }

    /// The context is no more: host functions queued before `end` are dropped, and callbacks, which are always run,
    /// are run with 709. The bound keeps out what was queued since to another context in the same place.
    pub(crate) fn context_is_gone(&self, context: ContextHandle, end: WorkKey) {
        for entry in self.take_all(context, end, |_| true) {
            entry.run(|work| match work {
                QueuedWork::Callback(callback) => callback(Status::CONTEXT_IS_DESTROYED),
                QueuedWork::HostFunction(function) => drop(function),
            });
        }
    }

    /// The context's closures of a kind with keys below `end`, in the order of queueing. They are dropped by the caller,
    /// without the lock: dropping what a closure captured may queue more.
    fn take_all(&self, context: ContextHandle, end: WorkKey, kind: impl Fn(&QueuedWork) -> bool) -> Vec<Entry> {
        let mut entries = self.entries();
        let wanted = |entry: &Entry| entry.context == context && kind(&entry.work);
        let before = entries.queued.range(..end.0);
        let keys: Vec<usize> = before.filter(|(_, entry)| wanted(entry)).map(|(&key, _)| key).collect();
        keys.iter().filter_map(|key| entries.queued.remove(key)).collect()
    }
}

/// What the driver calls for a host function.
pub(crate) unsafe extern "C" fn run_host_function(data: *mut c_void) {
    run(WorkKey::from_user_data(data), Status::SUCCESS);
}

/// What the driver calls for a callback.
pub(crate) unsafe extern "C" fn run_callback(_stream: CUstream, code: CUresult, data: *mut c_void) {
    run(WorkKey::from_user_data(data), status(code));
}

fn run(key: WorkKey, status: Status) {
    let Some(entry) = QUEUED.take(key) else { return };
    entry.run(|work| match work {
        QueuedWork::HostFunction(function) => function.run(),
        QueuedWork::Callback(callback) => callback(status),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const FIRST: ContextHandle = ContextHandle::from_raw(0x10);
    const SECOND: ContextHandle = ContextHandle::from_raw(0x20);
    const STREAM: u64 = u64::MAX;

    /// Counts how often closures were run and dropped.
    #[derive(Clone, Default)]
    struct Counts {
        run: Arc<AtomicUsize>,
        dropped: Arc<AtomicUsize>,
    }

    struct CountsDrop(Arc<AtomicUsize>);

    impl Drop for CountsDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Counts {
        fn host_function(&self) -> QueuedWork {
            let (run, captured) = (Arc::clone(&self.run), CountsDrop(Arc::clone(&self.dropped)));
            QueuedWork::HostFunction(HostWork::new(move || {
                let _captured = &captured;
                run.fetch_add(1, Ordering::SeqCst);
            }))
        }

        fn callback(&self, expected: Status) -> QueuedWork {
            let (run, captured) = (Arc::clone(&self.run), CountsDrop(Arc::clone(&self.dropped)));
            QueuedWork::Callback(Box::new(move |status| {
                let _captured = &captured;
                assert_eq!(status, expected);
                run.fetch_add(1, Ordering::SeqCst);
            }))
        }

        fn get(&self) -> (usize, usize) {
            (self.run.load(Ordering::SeqCst), self.dropped.load(Ordering::SeqCst))
        }
    }

    fn call_host_function(key: WorkKey) {
        // SAFETY: the function takes any key.
        unsafe { run_host_function(key.as_user_data()) };
    }

    #[test]
    fn a_host_function_runs_once_and_is_dropped_once_however_often_it_is_called() {
        let counts = Counts::default();
        let key = QUEUED.insert(FIRST, STREAM, counts.host_function());
        assert_eq!(counts.get(), (0, 0));
        call_host_function(key);
        call_host_function(key);
        assert_eq!(counts.get(), (1, 1));
    }

    #[test]
    fn a_callback_is_told_the_status() {
        let counts = Counts::default();
        let key = QUEUED.insert(FIRST, STREAM, counts.callback(Status::ILLEGAL_ADDRESS));
        // SAFETY: the function takes any key, and does not look at the stream.
        unsafe { run_callback(ptr::null_mut(), 700, key.as_user_data()) };
        assert_eq!(counts.get(), (1, 1));
    }

    #[test]
    fn what_is_taken_back_is_dropped_and_never_run() {
        let (counts, registry) = (Counts::default(), HostWorkRegistry::new());
        let key = registry.insert(FIRST, STREAM, counts.host_function());
        drop(registry.take(key));
        assert_eq!(counts.get(), (0, 1));
        assert!(registry.take(key).is_none());
    }

    #[test]
    fn a_context_in_error_loses_its_host_functions_and_nothing_else() {
        let (lost, kept, registry) = (Counts::default(), Counts::default(), HostWorkRegistry::new());
        registry.insert(FIRST, STREAM, lost.host_function());
        registry.insert(FIRST, STREAM, lost.host_function());
        let callback = registry.insert(FIRST, STREAM, kept.callback(Status::SUCCESS));
        let other = registry.insert(SECOND, STREAM, kept.host_function());
        registry.context_in_error(FIRST);
        assert_eq!((lost.get(), kept.get()), ((0, 2), (0, 0)));
        assert!(registry.take(callback).is_some() && registry.take(other).is_some());
    }

    #[test]
    fn a_context_that_is_gone_runs_its_callbacks_and_drops_its_host_functions() {
        let (functions, callbacks, registry) = (Counts::default(), Counts::default(), HostWorkRegistry::new());
        registry.insert(FIRST, STREAM, functions.host_function());
        registry.insert(FIRST, STREAM, callbacks.callback(Status::CONTEXT_IS_DESTROYED));
        let end = registry.next_key();
        let later = registry.insert(FIRST, STREAM, functions.host_function());
        registry.context_is_gone(FIRST, end);
        assert_eq!((functions.get(), callbacks.get()), ((0, 1), (1, 1)));
        assert!(registry.take(later).is_some(), "queued since, to a context in the same place");
    }

    #[test]
    fn dropping_a_closure_may_queue_another() {
        struct QueuesOnDrop(Arc<HostWorkRegistry>);
        impl Drop for QueuesOnDrop {
            fn drop(&mut self) {
                self.0.insert(SECOND, STREAM, QueuedWork::HostFunction(HostWork::new(|| ())));
            }
        }
        let registry = Arc::new(HostWorkRegistry::new());
        let captured = QueuesOnDrop(Arc::clone(&registry));
        registry.insert(FIRST, STREAM, QueuedWork::HostFunction(HostWork::new(move || drop(captured))));
        registry.context_in_error(FIRST);
        assert_eq!(registry.entries().queued.len(), 1);
        registry.context_in_error(SECOND);
    }

    #[test]
    fn unwinding_ends_before_the_driver() {
        let key = QUEUED.insert(
            FIRST,
            STREAM,
            QueuedWork::HostFunction(HostWork::new(|| std::panic::resume_unwind(Box::new(1)))),
        );
        call_host_function(key);

        struct UnwindsOnDrop;
        impl Drop for UnwindsOnDrop {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new(2));
            }
        }
        let work = || std::panic::resume_unwind(Box::new(UnwindsOnDrop));
        let key = QUEUED.insert(FIRST, STREAM, QueuedWork::HostFunction(HostWork::new(work)));
        call_host_function(key);
    }

    #[test]
    fn an_unknown_key_is_ignored() {
        call_host_function(WorkKey(usize::MAX));
        call_host_function(WorkKey(0));
    }
}
