//! A cell that loom watches, and the pause in loops that look again.

#[cfg(not(loom))]
mod primitives {
    /// `UnsafeCell` with the interface of loom's.
    #[derive(Debug)]
    pub(crate) struct Cell<T>(std::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, body: impl FnOnce(*mut T) -> R) -> R {
            body(self.0.get())
        }
    }

    /// Lets another thread go on that is in the middle of a step of a few instructions.
    pub(crate) fn pause() {
        std::thread::yield_now();
    }
}

#[cfg(loom)]
mod primitives {
    pub(crate) use loom::cell::UnsafeCell as Cell;

    pub(crate) fn pause() {
        loom::thread::yield_now();
    }
}

pub(crate) use primitives::*;
