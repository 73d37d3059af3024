//! What keeps something of somebody else valid while this library uses it.

use crate::reaper;
use std::any::Any;

/// What keeps a context, an event or memory of somebody else valid. It is dropped when the library uses that no more, and
/// nothing else is done with it.
pub struct Keeper {
    kept: Option<Box<dyn Any + Send>>,
}

// SAFETY: a shared reference to it gives access to nothing.
unsafe impl Sync for Keeper {}

impl Keeper {
    /// The value is dropped with the result, on the reaper's thread.
    pub fn new(keeper: impl Send + 'static) -> Self {
        Self { kept: Some(Box::new(keeper)) }
    }

    /// Whether the value is of that type.
    pub fn is<K: 'static>(&self) -> bool {
        self.kept.as_deref().is_some_and(|kept| kept.is::<K>())
    }

    /// The value, which is not dropped with this any more.
    pub fn into_kept(mut self) -> Option<Box<dyn Any + Send>> {
        self.kept.take()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            reaper::elsewhere(move || drop(kept));
        }
    }
}
