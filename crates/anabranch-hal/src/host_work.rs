//! Closures that run in stream order.

use crate::{RepeatableWork, Status};
use smallbox::space::S4;
use smallbox::{SmallBox, smallbox};
use std::fmt;

/// Host work that runs in stream order. It must not call the driver.
///
/// If it panics, or what it holds panics when it is dropped, the driver carries the panic to whoever waits: the next
/// call that synchronises or queries the stream, or synchronises the context, answers 719 with
/// [`Detail::Panic`](crate::Detail::Panic), once. Later work runs all the same.
///
/// A closure that captures up to 24 bytes is kept in place, because allocating on one thread what another frees costs
/// more than all else about a short function.
#[must_use]
pub struct HostWork {
    work: SmallBox<dyn Work, S4>,
}

/// A callback of the older kind: runs even after an error, and is told the status. For the rest it is like
/// [`HostWork`].
pub type Callback = Box<dyn FnOnce(Status) + Send + 'static>;

trait Work: Send {
    fn run(&mut self);

    fn repeatable(&self) -> Option<&RepeatableWork> {
        None
    }
}

impl Work for RepeatableWork {
    fn run(&mut self) {
        RepeatableWork::run(self);
    }

    fn repeatable(&self) -> Option<&RepeatableWork> {
        Some(self)
    }
}

/// A closure until it has been called.
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

    /// The closure as one that can run any number of times, if it was made from one. No other can be captured.
    pub fn repeatable(&self) -> Option<&RepeatableWork> {
        self.work.repeatable()
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
