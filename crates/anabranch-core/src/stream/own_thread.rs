//! The thread that a default stream belongs to. A driver gives such a stream up when its thread ends, which destructors of
//! `thread_local!` variables that run later cannot use any more.
//!
//! NVIDIA's driver may never return from its own end of a thread, while work of the thread's default stream is pending or it has
//! not noticed that it is not. It notices when it is asked, which the thread does before.

use crate::context::ContextCore;
use crate::error::Error;
use crate::process_exit;
use crate::reaper;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::{BackendKind, Live, Status};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long the end of a thread waits for work of its default streams, which may need another thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest pause between two queries.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// A thread that has a default stream of its own.
#[derive(Clone, Copy)]
pub(super) struct OwnThread(ThreadId);

/// Notes that the thread's default streams are given up. Destructors of one thread run in the reverse order of what they
/// destroy was made in, so that this one runs before the driver's own, if the driver was asked for the stream before.
struct End {
    /// Where the thread has a default stream that it must ask before.
    contexts: RefCell<Vec<Weak<ContextCore>>>,
}

impl End {
    fn note(&self, context: &Arc<ContextCore>) {
        let mut contexts = self.contexts.borrow_mut();
        contexts.retain(|known| known.strong_count() > 0);
        if !contexts.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(context))) {
            contexts.push(Arc::downgrade(context));
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        for context in self.contexts.take() {
            if let Some(context) = context.upgrade() {
                wait_for_default_stream(&context);
                // It may be the last reference.
                reaper::later(move || drop(context));
            }
        }
        HAS_ENDED.set(true);
    }
}

thread_local! {
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    static END: End = const { End { contexts: RefCell::new(Vec::new()) } };
}

/// Asks for the thread's default stream of a context until its work is complete, or for so long that it may be blocked.
fn wait_for_default_stream(context: &ContextCore) {
    let (driver, call) = (context.driver(), context.call("ending a thread"));
    let (begin, mut pause) = (Instant::now(), Duration::from_micros(10));
    let is_pending = || {
        let asked = with_relaxed_capture_mode(driver, || driver.stream_query(&call, Live::PER_THREAD));
        asked.is_err_and(|failure| failure.status == Status::NOT_READY)
    };
    while !process_exit::is_exiting() && is_pending() && begin.elapsed() < PATIENCE {
        thread::sleep(pause);
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

impl OwnThread {
    /// This thread. The driver has been asked for its stream of the context.
    pub(super) fn current(context: &Arc<ContextCore>) -> Self {
        // What fails only after the value's end, which was noted.
        let _ = END.try_with(|end| {
            if context.driver().kind() == BackendKind::Cuda {
                end.note(context);
            }
        });
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
