//! What the process is doing: it may have been forked, and the interpreter may be ending.

use pyo3::prelude::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::ThreadId;

static IS_LOADED: AtomicBool = AtomicBool::new(false);
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// The thread that ends the interpreter, once it does.
static EXITING: OnceLock<ThreadId> = OnceLock::new();

/// Whether this process was forked from one that used the library: it has none of the library's threads.
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Whether the interpreter is ending.
pub(crate) fn is_exiting() -> bool {
    EXITING.get().is_some()
}

/// Notes that a driver was loaded, so that children of forks cannot use the library.
pub(crate) fn note_loaded() {
    IS_LOADED.store(true, Ordering::Relaxed);
}

/// Notes that this process is the child of a fork.
pub(crate) fn note_fork() {
    IS_FORKED.store(IS_LOADED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Notes that this thread ends the interpreter.
pub(crate) fn note_exit() {
    let _ = EXITING.set(std::thread::current().id());
    // Whoever does not see this is counted already; see `threads::attach`.
    fence(Ordering::SeqCst);
}

/// Runs `body` without the interpreter. While the interpreter ends, other threads than the one that ends it must not come
/// back to it, and stay here: daemon threads, which Python does not wait for.
pub(crate) fn detached<R: Send>(py: Python<'_>, body: impl FnOnce() -> R + Send) -> R {
    py.detach(move || {
        let result = body();
        if EXITING.get().is_some_and(|thread| *thread != std::thread::current().id()) {
            stay();
        }
        result
    })
}

/// Never returns. Python itself does this to threads that come back too late, or ends them, which Rust does not survive.
pub(crate) fn stay() -> ! {
    loop {
        std::thread::park();
    }
}
