//! Closures that run in stream order, and what may be dropped inside of them.

use anabranch_hal::{Callback, HostWork, InsideWork, RepeatableWork, Status};

/// Whether this thread is inside of a host function, or of a kernel that is a closure, where no driver may be called.
#[inline]
pub(crate) fn is_inside() -> bool {
    InsideWork::is_entered()
}

/// A closure that is run at most once, and dropped, run or not, as inside of a host function. Its panics are the
/// driver's to catch and to carry to whoever waits.
struct Guarded<F> {
    closure: Option<F>,
}

impl<F> Guarded<F> {
    fn new(closure: F) -> Self {
        Self { closure: Some(closure) }
    }

    #[inline(always)]
    fn call(mut self, run: impl FnOnce(F)) {
        let _inside = InsideWork::enter();
        if let Some(closure) = self.closure.take() {
            run(closure);
        }
    }
}

impl<F> Drop for Guarded<F> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(closure) = self.closure.take() {
            let _inside = InsideWork::enter();
            drop(closure);
        }
    }
}

/// A host function as a driver takes it.
pub(crate) fn host_function(closure: impl FnOnce() + Send + 'static) -> HostWork {
    let guarded = Guarded::new(closure);
    HostWork::new(move || guarded.call(|closure| closure()))
}

/// A host function that can run any number of times, as a driver takes it.
pub(crate) fn repeatable(closure: impl Fn() + Send + Sync + 'static) -> RepeatableWork {
    let guarded = Guarded::new(closure);
    RepeatableWork::new(move || {
        let _inside = InsideWork::enter();
        if let Some(closure) = &guarded.closure {
            closure();
        }
    })
}

/// A callback as a driver takes it.
pub(crate) fn callback(closure: impl FnOnce(Status) + Send + 'static) -> Callback {
    let guarded = Guarded::new(closure);
    Box::new(move |status| guarded.call(|closure| closure(status)))
}
