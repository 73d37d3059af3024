//! Calls in which a driver waits for all work of the context.
//!
//! Some drivers keep calls of other threads waiting meanwhile ([`ContextCore::keeps_others_waiting`]). If the work that the
//! driver waits for needs one of those threads, because it waits for a signal or a host function, they wait for ever. So the
//! library waits first, which keeps nobody waiting, and lets nobody submit such work until the call is over.
//!
//! What is freed in the background can be left alone until the context is idle
//! ([`attempt_when_idle`](crate::idle_memory::attempt_when_idle)). This is for calls that the program waits for, in a context
//! that may never be idle.

use crate::context::ContextCore;
use anabranch_sync::{Rank, require_none_held};
use std::time::{Duration, Instant};

/// How often work is waited for that other threads have submitted in the meantime.
const MOST_ROUNDS: u32 = 16;

/// How long a call waits for submissions of other threads, which may be blocked themselves.
const PATIENCE: Duration = Duration::from_millis(100);

/// Makes a call in which the driver may wait for all work of the context. If other threads go on submitting work that needs the
/// host, or are blocked in that, it makes the call beside them.
pub(crate) fn call_waiting<R>(context: &ContextCore, call: impl FnOnce() -> R) -> R {
    if !context.keeps_others_waiting() {
        return call();
    }
    require_none_held(Rank::LOWEST);
    let (mut rounds, mut blocked_since) = (0, None);
    while rounds < MOST_ROUNDS {
        let Some(submitted) = context.count_host_bound() else {
            if blocked_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        blocked_since = None;
        context.wait_for_work();
        if let Some(kept_out) = context.keep_out_host_bound(submitted) {
            let result = call();
            drop(kept_out);
            return result;
        }
        rounds += 1;
    }
    call()
}
