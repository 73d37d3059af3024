//! What the process is doing: it may have been forked, and the interpreter may be ending.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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

/// Whether a thread is in a call without the interpreter, for each thread that has been so.
static OUTSIDE: Mutex<Vec<Arc<AtomicBool>>> = Mutex::new(Vec::new());

thread_local! {
    static IS_OUTSIDE: Arc<AtomicBool> = {
        let flag = Arc::new(AtomicBool::new(false));
        let mut all = OUTSIDE.lock().unwrap_or_else(PoisonError::into_inner);
        // The flags of threads that have ended.
        all.retain(|known| Arc::strong_count(known) > 1);
        all.push(flag.clone());
        flag
    };
}

/// How a thread says that it is outside, so that the one that ends the interpreter sees it, or it that the interpreter ends. With
/// one lock for all threads, that lock orders them.
const SAYING: Ordering = if cfg!(Py_GIL_DISABLED) { Ordering::SeqCst } else { Ordering::Relaxed };

/// Whether another thread than this one is in a call.
pub(crate) fn are_others_outside() -> bool {
    let own = IS_OUTSIDE.try_with(Arc::clone).ok();
    let all = OUTSIDE.lock().unwrap_or_else(PoisonError::into_inner);
    let others = all.iter().filter(|flag| !own.as_ref().is_some_and(|own| Arc::ptr_eq(own, flag)));
    others.into_iter().any(|flag| flag.load(Ordering::SeqCst))
}

/// Runs `body` without the interpreter. While the interpreter ends, other threads than the one that ends it must not come
/// back to it, and stay here: daemon threads, which Python does not wait for. Nor do they call a driver any more, which may end
/// before them.
pub(crate) fn detached<R: Send>(py: Python<'_>, body: impl FnOnce() -> R + Send) -> R {
    let say = |is_outside| _ = IS_OUTSIDE.try_with(|flag| flag.store(is_outside, SAYING));
    say(true);
    if is_ended_by_another() {
        say(false);
        py.detach(|| stay());
    }
    py.detach(move || {
        let result = body();
        say(false);
        if is_ended_by_another() {
            stay();
        }
        result
    })
}

/// Whether another thread ends the interpreter.
fn is_ended_by_another() -> bool {
    EXITING.get().is_some_and(|thread| *thread != std::thread::current().id())
}

/// Never returns. Python itself does this to threads that come back too late, or ends them, which Rust does not survive.
pub(crate) fn stay() -> ! {
    loop {
        std::thread::park();
    }
}
