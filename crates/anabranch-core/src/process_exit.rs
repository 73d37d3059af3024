//! The end of the process, at which a driver may end before the threads of this library.
//!
//! These threads ask drivers, give things back, and read flags in memory that a driver has mapped. While a process exits,
//! drivers unmap that memory and end. So the process waits until no such thread is doing anything, and none does anything
//! afterwards.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long an exit waits for threads that do something, which may be code of the program that blocks.
const PATIENCE: Duration = Duration::from_secs(1);

static IS_EXITING: AtomicBool = AtomicBool::new(false);

/// How many threads are doing something.
static BUSY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Held by a thread of the library while it does something.
pub(crate) struct Busy(());

/// Called by a thread of the library before it does something. It does not return while the process exits.
pub(crate) fn busy() -> Busy {
    // In one order for all threads: either the exit sees that this thread is busy, or this thread that the process exits.
    BUSY.fetch_add(1, Ordering::SeqCst);
    if IS_EXITING.load(Ordering::SeqCst) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
        loop {
            std::thread::park();
        }
    }
    IS_BUSY.set(true);
    Busy(())
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = IS_BUSY.try_with(|busy| busy.set(false));
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the process exits, so that the threads of the library do nothing any more.
pub(crate) fn is_exiting() -> bool {
    IS_EXITING.load(Ordering::SeqCst)
}

/// Called before a thread of the library is started, by when drivers are loaded: what is registered last runs first.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(register);
}

fn register() {
    // Miri knows no such function.
    if cfg!(miri) {
        return;
    }
    // SAFETY: this is the function of the C standard, which every platform with a standard library has.
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
    }
    // SAFETY: the function is called at most once, while the process exits, and does not unwind. If it cannot be registered,
    // the process exits as it would without it.
    let _ = unsafe { atexit(wait_until_idle) };
}

extern "C" fn wait_until_idle() {
    IS_EXITING.store(true, Ordering::SeqCst);
    // Code of the program may end the process on a thread of the library.
    if IS_BUSY.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let begin = Instant::now();
    while BUSY.load(Ordering::SeqCst) > 0 && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(100));
    }
}
