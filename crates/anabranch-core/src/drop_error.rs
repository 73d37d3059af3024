//! Errors that a drop cannot return.

use crate::error::{Error, Result};
use crate::panics::contain_quietly;
use crate::ranks;
use crate::trace;
use anabranch_hal::Status;
use anabranch_sync::RwLock;
use std::sync::Arc;

type Hook = Arc<dyn Fn(&Error) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(ranks::DROP_ERROR_HOOK, None);

/// Sets the hook that receives errors that happen while something is dropped. Such errors are never reported by a
/// later, unrelated call. Without a hook they are written to standard error, one line each, except those that only
/// repeat that a context is lost, or that the driver is shutting down with the process.
///
/// The hook is called on the thread of the drop, which may be a thread of the library. A panic of the hook does not
/// propagate.
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

/// Reports the result to the hook if it is an error.
pub fn report(result: Result<()>) {
    let Err(error) = result else { return };
    trace::rare!(%error, "an error while something was dropped");
    let hook = HOOK.read().clone();
    match hook {
        Some(hook) => _ = contain_quietly(|| hook(&error)),
        None if error.is_sticky() || error.status() == Status::DEINITIALIZED => {}
        None => eprintln!("anabranch: {error}"),
    }
}
