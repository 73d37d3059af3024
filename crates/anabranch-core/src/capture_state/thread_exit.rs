//! Captures that began in the default stream of a thread. That stream goes when the thread ends, and with it, for the driver, the
//! capture, of which other streams may be members.

use super::CaptureState;
use crate::context::ContextCore;
use crate::process_exit;
use crate::stream::StreamCore;
use anabranch_hal::Live;
use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the end of a thread waits before it tries again.
const PATIENCE: Duration = Duration::from_millis(100);

/// The captures that began in default streams of this thread.
struct OfThread(Vec<(Weak<CaptureState>, Weak<ContextCore>)>);

thread_local! {
    static OF_THREAD: RefCell<OfThread> = const { RefCell::new(OfThread(Vec::new())) };
}

impl Drop for OfThread {
    /// Gives the captures up. Work that other threads submit to them is waited for.
    fn drop(&mut self) {
        for (capture, context) in &self.0 {
            let (Some(capture), Some(context)) = (capture.upgrade(), context.upgrade()) else { continue };
            while !capture.has_ended() && !process_exit::is_exiting() {
                // The driver was asked for the stream before this value was made, so its own destructors for the thread come
                // after this one.
                if capture.give_up(&context, Live::PER_THREAD, PATIENCE) {
                    break;
                }
            }
        }
    }
}

/// Called when a capture has begun in a default stream of this thread.
pub(super) fn ends_with_thread(capture: &Arc<CaptureState>, stream: &StreamCore) {
    // Where a thread that is ending begins a capture, the driver has no stream for it any more.
    let _ = OF_THREAD.try_with(|of_thread| {
        let captures = &mut of_thread.borrow_mut().0;
        captures.retain(|(capture, _)| capture.strong_count() > 0);
        captures.push((Arc::downgrade(capture), Arc::downgrade(stream.context())));
    });
}
