//! The primitives of the queue protocol, which loom replaces by its own to try every interleaving.
//!
//! Only what the protocol in `engine` is made of goes through here; the rest of the crate uses `parking_lot` and `std`.

#[cfg(not(loom))]
mod primitives {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{AtomicU64, fence};
}

#[cfg(loom)]
mod primitives {
    pub(crate) use loom::sync::atomic::{AtomicU64, fence};

    /// loom's mutex with the interface of `parking_lot`'s.
    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

pub(crate) use primitives::*;

/// Keeps what the enqueuing thread writes and what the running thread writes on different cache lines. 128 bytes,
/// because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
