//! Wakers that unwind.

use crate::world::panic_on_purpose;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// When a waker unwinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Clone,
    Wake,
    Drop,
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        unwind_at(data, Moment::Clone);
        // SAFETY: the data is a moment that was turned into a pointer by `UnwindingWaker::new`, or here.
        unsafe { Arc::increment_strong_count(data.cast::<Moment>()) };
        RawWaker::new(data, &TABLE)
    },
    |data| {
        // SAFETY: as above; a waker that wakes gives up its reference.
        let moment = unsafe { Arc::from_raw(data.cast::<Moment>()) };
        unwind_at(Arc::as_ptr(&moment).cast(), Moment::Wake);
    },
    |data| unwind_at(data, Moment::Wake),
    |data| {
        // SAFETY: as above; each waker gives up the reference that it was made with.
        let moment = unsafe { Arc::from_raw(data.cast::<Moment>()) };
        unwind_at(Arc::as_ptr(&moment).cast(), Moment::Drop);
    },
);

fn unwind_at(data: *const (), moment: Moment) {
    // SAFETY: the caller has a reference to the moment.
    let when = unsafe { *data.cast::<Moment>() };
    if when == moment && !std::thread::panicking() {
        panic_on_purpose();
    }
}

/// A waker that wakes nobody. This reference to it is dropped without unwinding.
pub(crate) struct UnwindingWaker(std::mem::ManuallyDrop<Waker>);

impl UnwindingWaker {
    pub(crate) fn new(moment: Moment) -> Self {
        let data = Arc::into_raw(Arc::new(moment)).cast();
        // SAFETY: the table treats the data as what it is, a reference to a value that may be used on any thread.
        Self(std::mem::ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }))
    }
}

impl Deref for UnwindingWaker {
    type Target = Waker;

    fn deref(&self) -> &Waker {
        &self.0
    }
}

impl Drop for UnwindingWaker {
    fn drop(&mut self) {
        // SAFETY: the waker was made of this reference, and is not used again.
        drop(unsafe { Arc::from_raw(self.0.data().cast::<Moment>()) });
    }
}
