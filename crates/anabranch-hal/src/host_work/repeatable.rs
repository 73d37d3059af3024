//! Host functions that graphs run at every launch. Drivers identify them by a key.
//!
//! A driver copies nodes, clones graphs and keeps launches in flight without saying so. It is therefore given only a
//! key, which it may store indefinitely. Whoever created the work owns the closure. Running a key whose closure no
//! longer exists does nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

type Closure = dyn Fn() + Send + Sync;

/// All repeatable host work of the process. No code of the user runs while its lock is held.
static WORK: RwLock<Option<HashMap<u64, Weak<Inner>>>> = RwLock::new(None);

struct Inner {
    key: u64,
    closure: Box<Closure>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(work) = &mut *WORK.write().unwrap_or_else(PoisonError::into_inner) {
            work.remove(&self.key);
        }
    }
}

/// A host function that can run any number of times. It owns the closure. The rules for [`HostWork`](crate::HostWork)
/// apply to every run. Clones refer to the same closure, which is dropped with the last of them.
#[derive(Clone)]
pub struct RepeatableWork(Arc<Inner>);

/// Identifies [`RepeatableWork`] to a driver. Keys are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostWorkKey(u64);

impl RepeatableWork {
    /// Wraps a closure.
    pub fn new(closure: impl Fn() + Send + Sync + 'static) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let inner = Arc::new(Inner { key: NEXT.fetch_add(1, Ordering::Relaxed), closure: Box::new(closure) });
        let mut work = WORK.write().unwrap_or_else(PoisonError::into_inner);
        work.get_or_insert_default().insert(inner.key, Arc::downgrade(&inner));
        drop(work);
        Self(inner)
    }

    /// Calls the closure.
    #[inline]
    pub fn run(&self) {
        (self.0.closure)();
    }

    /// The key of this work. It is valid as long as a clone of the work exists.
    pub fn key(&self) -> HostWorkKey {
        HostWorkKey(self.0.key)
    }
}

impl fmt::Debug for RepeatableWork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RepeatableWork({})", self.0.key)
    }
}

impl HostWorkKey {
    /// Returns the key with this number. There may be no work with that key.
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number of the key. The key of existing work is never 0.
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// Returns the work, if it still exists.
    pub fn find(self) -> Option<RepeatableWork> {
        let work = WORK.read().unwrap_or_else(PoisonError::into_inner);
        work.as_ref()?.get(&self.0)?.upgrade().map(RepeatableWork)
    }

    /// Calls the closure, if it still exists.
    pub fn run(self) {
        // If all other clones are dropped meanwhile, the closure is dropped here, outside the lock.
        if let Some(work) = self.find() {
            work.run();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HostWorkKey, RepeatableWork};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_key_runs_its_work_until_the_owner_is_gone() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let work = RepeatableWork::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let key = HostWorkKey::from_raw(work.key().as_raw());
        (0..3).for_each(|_| key.run());
        let clone = work.clone();
        drop(work);
        key.run();
        assert_eq!(count.load(Ordering::SeqCst), 4);
        drop(clone);
        key.run();
        assert_eq!((count.load(Ordering::SeqCst), Arc::strong_count(&count)), (4, 1));
        assert!(key.find().is_none() && HostWorkKey::from_raw(0).find().is_none());
    }
}
