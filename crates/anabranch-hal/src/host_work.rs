//! Closures that run in stream order.

mod repeatable;

pub use repeatable::{HostWorkKey, RepeatableWork};

use crate::Status;
use smallbox::space::S4;
use smallbox::{SmallBox, smallbox};
use std::fmt;

/// A host function: a closure that runs in stream order. It must not call the driver, and it must not unwind. Whoever
/// creates it catches its panics.
///
/// A closure that captures up to 24 bytes is stored inline. Allocating on one thread what another thread frees costs
/// more than everything else about a short function.
#[must_use]
pub struct HostWork {
    work: SmallBox<dyn Work, S4>,
}

/// A callback (`cuStreamAddCallback`), the older kind of host function. It runs even after an error and receives the
/// status. The other rules for [`HostWork`] apply.
pub type Callback = Box<dyn FnOnce(Status) + Send + 'static>;

trait Work: Send {
    fn run(&mut self);

    fn key(&self) -> Option<HostWorkKey> {
        None
    }
}

impl Work for RepeatableWork {
    fn run(&mut self) {
        RepeatableWork::run(self);
    }

    fn key(&self) -> Option<HostWorkKey> {
        Some(RepeatableWork::key(self))
    }
}

/// A closure, until it has been called.
struct Once<F>(Option<F>);

impl<F: FnOnce() + Send> Work for Once<F> {
    #[inline]
    fn run(&mut self) {
        if let Some(closure) = self.0.take() {
            closure();
        }
    }
}

impl HostWork {
    /// Wraps a closure.
    #[inline]
    pub fn new(closure: impl FnOnce() + Send + 'static) -> Self {
        Self { work: smallbox!(Once(Some(closure))) }
    }

    /// Calls the closure.
    #[inline]
    pub fn run(mut self) {
        self.work.run();
    }

    /// Returns the key of a host function that can run any number of times. Only such a function can be captured.
    pub fn repeatable(&self) -> Option<HostWorkKey> {
        self.work.key()
    }
}

impl From<RepeatableWork> for HostWork {
    fn from(work: RepeatableWork) -> Self {
        Self { work: smallbox!(work) }
    }
}

impl fmt::Debug for HostWork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HostWork")
    }
}

#[cfg(test)]
mod tests {
    use super::HostWork;
    use std::sync::Arc;

    #[test]
    fn small_and_large_closures_run_once_and_are_dropped_once() {
        let counted = Arc::new(());
        let works = || {
            let (small, large) = (counted.clone(), (counted.clone(), [0u64; 100]));
            [HostWork::new(move || drop(small)), HostWork::new(move || drop(large))]
        };
        let both = works();
        assert_eq!(Arc::strong_count(&counted), 3);
        both.into_iter().for_each(HostWork::run);
        assert_eq!(Arc::strong_count(&counted), 1, "after they have run");
        drop(works());
        assert_eq!(Arc::strong_count(&counted), 1, "after they were dropped unrun");
    }
}
