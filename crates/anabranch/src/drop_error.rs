//! Errors that a drop cannot return.

use crate::error::{Error, Result};
use crate::trace;
use anabranch_hal::Status;
use parking_lot::RwLock;
use std::sync::Arc;

type Hook = Arc<dyn Fn(&Error) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Chooses who is told of errors that happen while something is dropped. They are never reported by a later,
/// unrelated call. Without a hook they are written to standard error, in one line each, except those that only repeat
/// that a context is lost, or that the driver is going down with the process.
///
/// The hook is called on whatever thread the drop happens on, which may be one of the library's own. It must not panic.
pub fn set_drop_error_hook(hook: impl Fn(&Error) + Send + Sync + 'static) {
    *HOOK.write() = Some(Arc::new(hook));
}

/// Goes back to writing errors of drops to standard error.
pub fn reset_drop_error_hook() {
    *HOOK.write() = None;
}

/// Tells the hook, if there is anything to tell.
pub(crate) fn report(result: Result<()>) {
    let Err(error) = result else { return };
    trace::rare!(%error, "an error while something was dropped");
    let hook = HOOK.read().clone();
    match hook {
        Some(hook) => hook(&error),
        None if error.is_sticky() || error.status() == Status::DEINITIALIZED => {}
        None => eprintln!("anabranch: {error}"),
    }
}
