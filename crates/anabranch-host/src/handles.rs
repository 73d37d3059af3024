//! Objects that callers know by a handle, which is the object's address.

use crate::ranks;
use anabranch_sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The objects of one kind that handles were given for.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    objects: Mutex<HashMap<usize, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { objects: Mutex::new(ranks::HANDLES, HashMap::new()) }
    }
}

impl<T> Handles<T> {
    /// Keeps an object until its handle is destroyed.
    pub(crate) fn insert(&self, object: Arc<T>) -> usize {
        let handle = Arc::as_ptr(&object) as usize;
        self.objects.lock().insert(handle, object);
        handle
    }

    /// Takes an object out, when its handle is destroyed.
    pub(crate) fn remove(&self, handle: usize) -> Option<Arc<T>> {
        self.objects.lock().remove(&handle)
    }

    /// Takes the objects out that match.
    pub(crate) fn take_those(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.objects.lock().extract_if(|_, object| matches(object)).map(|(_, object)| object).collect()
    }

    /// All objects.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        self.objects.lock().values().map(Arc::clone).collect()
    }
}

/// Gives a type `of`, which looks up the object behind a handle, and answers a status where the handle is null.
macro_rules! handle {
    ($state:ty, $handle:ty, $status:ident) => {
        impl $state {
            /// The object behind a handle.
            #[inline]
            pub(crate) fn of(handle: anabranch_hal::Live<'_, $handle>) -> anabranch_hal::Result<&Self> {
                let object = handle.handle().as_raw() as *const Self;
                // SAFETY: a handle of this kind that is not null is the address of a `Self` in an `Arc`, which is held until
                // the object is destroyed: for as long as the handle is used, as `Live` says.
                unsafe { object.as_ref() }.ok_or(anabranch_hal::Failure::new(anabranch_hal::Status::$status))
            }
        }
    };
}

pub(crate) use handle;
