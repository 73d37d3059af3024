//! The thread that a default stream belongs to. A driver gives such a stream up when its thread ends, which destructors of
//! `thread_local!` variables that run later cannot use any more.

use crate::error::Error;
use anabranch_hal::Status;
use std::cell::Cell;
use std::thread::{self, ThreadId};

/// A thread that has a default stream of its own.
#[derive(Clone, Copy)]
pub(super) struct OwnThread(ThreadId);

/// Notes that the thread's default streams are given up. Destructors of one thread run in the reverse order of what they
/// destroy was made in, so that this one runs before the driver's own, if the driver was asked for the stream before.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        HAS_ENDED.set(true);
    }
}

thread_local! {
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    static END: End = const { End };
}

impl OwnThread {
    /// This thread. The driver has been asked for its stream.
    pub(super) fn current() -> Self {
        // What fails only after the value's end, which was noted.
        let _ = END.try_with(|End| ());
        Self(thread::current().id())
    }

    /// Whether this is the thread, and still has its stream.
    pub(super) fn is_here(self) -> bool {
        self.is_this_thread() && !has_ended()
    }

    /// Whether this is the thread.
    pub(super) fn is_this_thread(self) -> bool {
        self.0 == thread::current().id()
    }
}

/// Whether this thread is ending, and has given up its default streams.
pub(super) fn has_ended() -> bool {
    HAS_ENDED.get()
}

/// The error of using a default stream of this thread after its end.
#[cold]
pub(super) fn refuse_at_end(operation: &'static str) -> Error {
    Error::argument(Status::DEINITIALIZED, operation, "the thread is ending, and has given up its default streams")
        .with_hint("in destructors of `thread_local!` variables, use a stream from `Context::create_stream`")
}
