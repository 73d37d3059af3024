//! Errors that a drop cannot return.

use crate::error::{Error, Result};
use crate::ranks;
use crate::reaper;
use crate::trace;
use anabranch_hal::Status;
use anabranch_sync::RwLock;
use std::io::{Write, stderr};
use std::sync::Arc;

type Hook = Arc<dyn Fn(&Error) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(ranks::DROP_ERROR_HOOK, None);

/// Sets the hook that receives errors that happen while something is dropped. Such errors are never reported by a
/// later, unrelated call. Without a hook they are written to standard error, one line each, except those that only
/// repeat that a context is lost, or that the driver is shutting down with the process.
///
/// The hook is called on a thread of the library, with no lock of the library held, so that it may use the library. By
/// the time that [`flush_deferred_drops`](reaper::flush_deferred_drops) returns, it was called for all drops before.
/// While it blocks, memory that is freed in the background is not freed. A panic of the hook does not propagate.
pub fn set_drop_error_hook(hook: impl Fn(&Error) + Send + Sync + 'static) {
    let before = HOOK.write().replace(Arc::new(hook));
    // Outside of the lock: dropping the hook before may set a hook.
    drop(before);
}

/// Restores the default, which writes errors of drops to standard error.
pub fn reset_drop_error_hook() {
    let before = HOOK.write().take();
    drop(before);
}

/// Reports the result to the hook if it is an error. It may be called with locks held: the hook is called elsewhere.
pub fn report(result: Result<()>) {
    let Err(error) = result else { return };
    trace::rare_elsewhere!(error = error.clone(); %error, "an error while something was dropped");
    let hook = HOOK.read().clone();
    match hook {
        Some(hook) => reaper::elsewhere(move || hook(&error)),
        None if error.is_sticky() || error.status() == Status::DEINITIALIZED => {}
        // Where nothing can be written, nobody reads it.
        None => _ = writeln!(stderr(), "anabranch: {error}"),
    }
}
