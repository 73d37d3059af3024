//! Captures that began in the default stream of a thread. That stream goes when the thread ends, and with it, for the driver, the
//! capture, of which other streams may be members.

use super::CaptureState;
use crate::context::ContextCore;
use crate::process_exit;
use anabranch_hal::Live;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a thread waits before it tries again.
const PATIENCE: Duration = Duration::from_millis(100);

/// The captures that began in default streams of this thread, and have not ended. They end on this thread only.
struct OfThread(Vec<Arc<CaptureState>>);

thread_local! {
    static OF_THREAD: RefCell<OfThread> = const { RefCell::new(OfThread(Vec::new())) };
    /// Whether `OF_THREAD` has had any. The driver was asked for the stream before, so that its own destructors for the thread come
    /// after that of `OF_THREAD`, which is not used earlier.
    static HAS_CAPTURED: Cell<bool> = const { Cell::new(false) };
}

impl Drop for OfThread {
    /// Gives the captures up. Work that other threads submit to them is waited for.
    fn drop(&mut self) {
        for capture in &self.0 {
            while !capture.has_ended() && !process_exit::is_exiting() {
                if capture.give_up(&capture.context, Live::PER_THREAD, PATIENCE) {
                    break;
                }
            }
        }
    }
}

/// Gives up what this thread's default stream of a context captures, of which there is no object any more: the last one was
/// dropped on another thread, where the stream cannot be reached. `false`: there is no such capture, or it has not ended.
pub fn give_up_abandoned(context: &Arc<ContextCore>) -> bool {
    if !HAS_CAPTURED.get() {
        return false;
    }
    let captures = OF_THREAD.try_with(|of_thread| of_thread.borrow().0.clone()).unwrap_or_default();
    let mut left = captures.iter().filter(|capture| Arc::ptr_eq(&capture.context, context));
    left.next().is_some_and(|capture| capture.give_up(context, Live::PER_THREAD, PATIENCE))
}

/// Called when a capture has begun in a default stream of this thread.
pub(super) fn ends_with_thread(capture: &Arc<CaptureState>) {
    // Where a thread that is ending begins a capture, the driver has no stream for it any more.
    let _ = OF_THREAD.try_with(|of_thread| of_thread.borrow_mut().0.push(capture.clone()));
    HAS_CAPTURED.set(true);
}

/// Called when a capture has ended.
pub(super) fn was_ended(capture: &CaptureState) {
    if !HAS_CAPTURED.get() {
        return;
    }
    // While the thread ends, its captures are dropped together.
    let known = OF_THREAD.try_with(|of_thread| {
        let captures = &mut of_thread.borrow_mut().0;
        let place = captures.iter().position(|known| std::ptr::eq(&**known, capture))?;
        Some(captures.swap_remove(place))
    });
    // Outside of the borrow, because it may be the last reference to what the capture retained.
    drop(known);
}
