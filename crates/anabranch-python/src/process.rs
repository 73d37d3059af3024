//! What the process is doing: it may have been forked, and the interpreter may be ending.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Refuses to be imported by another interpreter than the main one: what is kept for the process is of one interpreter.
pub(crate) fn require_main_interpreter() -> PyResult<()> {
    // SAFETY: a module is initialised by a thread that is attached to an interpreter, which is there meanwhile.
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match id {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "anabranch can be imported by the main interpreter only, and not by another one",
        )),
    }
}

static IS_LOADED: AtomicBool = AtomicBool::new(false);
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// The thread that ends the interpreter, once it does.
static EXITING: OnceLock<ThreadId> = OnceLock::new();
/// Since when it does.
static EXITING_SINCE: OnceLock<Instant> = OnceLock::new();

/// Whether this process was forked from one that used the library: it has none of the library's threads.
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

/// Whether the interpreter is ending.
pub(crate) fn is_exiting() -> bool {
    EXITING.get().is_some()
}

/// Whether the interpreter has been ending for so long.
pub(crate) fn is_exiting_for(time: Duration) -> bool {
    is_exiting() && EXITING_SINCE.get().is_some_and(|since| since.elapsed() >= time)
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
    let _ = EXITING_SINCE.set(Instant::now());
    let _ = EXITING.set(std::thread::current().id());
    // Whoever does not see this is counted already; see `threads::attach`.
    fence(Ordering::SeqCst);
}

/// Says whether a thread is in a call, from before it leaves the interpreter until it has come back.
type Flag = AtomicBool;

/// The flags of all threads that have made calls, and those of them whose threads have ended.
struct Flags {
    all: Vec<&'static Flag>,
    idle: Vec<&'static Flag>,
}

static FLAGS: Mutex<Flags> = Mutex::new(Flags { all: Vec::new(), idle: Vec::new() });

fn flags() -> MutexGuard<'static, Flags> {
    FLAGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a flag back when its thread ends.
struct Keeper(&'static Flag);

impl Drop for Keeper {
    fn drop(&mut self) {
        // In the child of a fork, a thread may have had the lock that is not there.
        if !is_forked() {
            flags().idle.push(self.0);
        }
    }
}

thread_local! {
    static FLAG: Cell<Option<&'static Flag>> = const { Cell::new(None) };
    static KEEPER: Cell<Option<Keeper>> = const { Cell::new(None) };
}

/// The flag of this thread.
#[inline(always)]
fn flag() -> &'static Flag {
    FLAG.get().unwrap_or_else(register)
}

#[cold]
fn register() -> &'static Flag {
    let mut flags = flags();
    let flag = flags.idle.pop().unwrap_or_else(|| {
        let flag: &'static Flag = Box::leak(Box::default());
        flags.all.push(flag);
        flag
    });
    drop(flags);
    FLAG.set(Some(flag));
    // A thread that ends already keeps it for ever.
    let _ = KEEPER.try_with(|keeper| keeper.set(Some(Keeper(flag))));
    flag
}

/// How a thread says that it is in a call, so that either the one that ends the interpreter sees it, or it that the interpreter
/// ends. With one lock for all threads, that lock orders them.
const SAYING: Ordering = if cfg!(Py_GIL_DISABLED) { Ordering::SeqCst } else { Ordering::Relaxed };

/// Whether this thread may have the interpreter. If not, it certainly has not: it is none of Python's threads, or in a call.
pub(crate) fn may_have_interpreter() -> bool {
    // SAFETY: any thread may ask at any time.
    let is_of_python = unsafe { !ffi::PyGILState_GetThisThreadState().is_null() };
    is_of_python && !FLAG.try_with(Cell::get).ok().flatten().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Whether another thread than this one is in a call.
pub(crate) fn are_others_in_calls() -> bool {
    let own = flag();
    flags().all.iter().any(|flag| !std::ptr::eq(*flag, own) && flag.load(Ordering::SeqCst))
}

/// While a thread is in a call, with whether it was in one before: code of Python that a call runs may make others.
struct InCall(&'static Flag, bool);

impl Drop for InCall {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Release);
    }
}

/// Runs `body` without the interpreter. While the interpreter ends, other threads than the one that ends it must not come
/// back to it, and stay here: daemon threads, which Python does not wait for. Nor do they call a driver any more, which may end
/// before them. The one that ends it waits for those that are about to come back.
pub(crate) fn detached<R: Send>(py: Python<'_>, body: impl FnOnce() -> R + Send) -> R {
    let flag = flag();
    let in_call = InCall(flag, flag.load(Ordering::Relaxed));
    flag.store(true, SAYING);
    if is_ended_by_another() {
        drop(in_call);
        py.detach(|| stay());
    }
    let result = py.detach(move || {
        let result = body();
        if is_ended_by_another() {
            flag.store(false, Ordering::Release);
            stay();
        }
        result
    });
    drop(in_call);
    result
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
