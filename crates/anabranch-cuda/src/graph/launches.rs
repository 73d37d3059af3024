//! In which streams graphs were launched, so that a panic inside of one can be reported to who waits for it.
//!
//! A node is not told in which stream its graph runs. So the streams are noted at each launch, while there is a host node
//! at all, and a panic is reported to the first of them that is waited for.

use crate::panics::Place;
use anabranch_hal::ContextHandle;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) static LAUNCHES: Launches = Launches::new();

pub(crate) struct Launches {
    any: AtomicBool,
    places: Mutex<BTreeSet<(ContextHandle, u64)>>,
}

impl Launches {
    const fn new() -> Self {
        Self { any: AtomicBool::new(false), places: Mutex::new(BTreeSet::new()) }
    }

    /// Nothing panics under this lock, so it is never poisoned.
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(ContextHandle, u64)>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any stream is noted.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn note(&self, context: ContextHandle, stream: u64) {
        let mut places = self.lock();
        places.insert((context, stream));
        self.any.store(true, Ordering::Release);
    }

    /// The stream is no more, and nobody will wait for it.
    pub(crate) fn forget(&self, stream: u64) {
        let mut places = self.lock();
        places.retain(|&(_, noted)| noted != stream);
        self.any.store(!places.is_empty(), Ordering::Release);
    }

    /// There is no host node any more.
    pub(crate) fn forget_all(&self) {
        let mut places = self.lock();
        places.clear();
        self.any.store(false, Ordering::Release);
    }

    /// Where a host node may be running that was made for the context. Another library may have launched it, in a stream
    /// that nothing is known of.
    pub(crate) fn places(&self, context: ContextHandle) -> Vec<Place> {
        let mut places: Vec<Place> =
            self.lock().iter().map(|&(context, stream)| Place { context, stream: Some(stream) }).collect();
        if !places.iter().any(|place| place.context == context) {
            places.push(Place { context, stream: None });
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::{Launches, Place};
    use anabranch_hal::ContextHandle;

    #[test]
    fn streams_are_noted_once_and_forgotten() {
        let (context, launches) = (ContextHandle::from_raw(1), Launches::new());
        assert!(!launches.any());
        assert_eq!(launches.places(context), [Place { context, stream: None }]);
        for stream in [7, 8, 7] {
            launches.note(context, stream);
        }
        assert_eq!(launches.places(context), [7, 8].map(|stream| Place { context, stream: Some(stream) }));
        launches.forget(7);
        assert_eq!(launches.places(context), [Place { context, stream: Some(8) }]);
        launches.forget_all();
        assert!(!launches.any());
    }
}
