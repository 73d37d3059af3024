//! The ends of captures beside other calls with what they have captured.
//!
//! The driver (580.159) keeps the events that were recorded in a capture, and its streams, in lists that `cuStreamEndCapture` takes
//! apart. It crashes if another thread records, awaits or destroys such an event at that moment. So no capture ends during these
//! calls, as far as captures are in progress: without any, they cost one look at a variable.

use crate::ranks;
use anabranch_hal::{Live, Result, Status, StreamHandle};
use anabranch_sync::{Mutex, RwLock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long the end of a capture waits for calls that may be blocked, such as a record in a stream that has no more room. Those
/// do not change the lists at that moment.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many captures are in progress, or may be. Whoever has an event of a capture sees that it has begun.
static IN_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// Their streams.
static STREAMS: Mutex<Vec<StreamHandle>> = Mutex::new(ranks::CAPTURING_STREAMS, Vec::new());

/// Shared by calls beside which no capture may end, exclusive for the end of a capture.
static ENDS: RwLock<()> = RwLock::with_order(ranks::CAPTURE_ENDS, 0, ());

/// Calls the driver while no capture ends.
#[inline(always)]
pub(crate) fn unless_a_capture_ends<R>(call: impl FnOnce() -> R) -> R {
    if is_any_in_progress() { hold_off_ends(call) } else { call() }
}

/// Whether any capture is in progress.
#[inline(always)]
pub(crate) fn is_any_in_progress() -> bool {
    IN_PROGRESS.load(Ordering::Relaxed) > 0
}

#[cold]
#[inline(never)]
fn hold_off_ends<R>(call: impl FnOnce() -> R) -> R {
    let _shared = ENDS.read_recursive();
    call()
}

/// Begins a capture in a stream by `begin`.
pub(crate) fn begin(stream: Live<'_, StreamHandle>, begin: impl FnOnce() -> Result<()>) -> Result<()> {
    note(|streams| streams.push(stream.handle()));
    let begun = begin();
    if begun.is_err() {
        has_ended(stream);
    }
    begun
}

/// Ends a capture in a stream by `end`.
pub(crate) fn end<R>(stream: Live<'_, StreamHandle>, end: impl FnOnce() -> Result<R>) -> Result<R> {
    let exclusive = ENDS.try_write_for(PATIENCE);
    let ended = end();
    drop(exclusive);
    // A capture that ends otherwise, such as with its stream, counts for ever, which costs time and no more.
    let is_over = |status| matches!(status, Status::STREAM_CAPTURE_INVALIDATED | Status::STREAM_CAPTURE_UNJOINED);
    if ended.as_ref().map_or_else(|failure| is_over(failure.status), |_| true) {
        has_ended(stream);
    }
    ended
}

fn has_ended(stream: Live<'_, StreamHandle>) {
    note(|streams| {
        // Another library has begun those that are not there.
        if let Some(place) = streams.iter().position(|known| *known == stream.handle()) {
            streams.swap_remove(place);
        }
    });
}

fn note(change: impl FnOnce(&mut Vec<StreamHandle>)) {
    let mut streams = STREAMS.lock();
    change(&mut streams);
    IN_PROGRESS.store(streams.len(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::{begin, end, is_any_in_progress, unless_a_capture_ends};
    use anabranch_hal::{Failure, Live, Status, StreamHandle};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_capture_ends_behind_calls_that_have_begun() {
        // SAFETY: nothing is called with it.
        let stream = unsafe { Live::new(StreamHandle::from_raw(0x100)) };
        assert!(begin(stream, || Err(Failure::new(Status::ILLEGAL_STATE))).is_err());
        assert!(!is_any_in_progress());
        begin(stream, || Ok(())).unwrap();
        let (is_called, has_begun) = channel();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                unless_a_capture_ends(|| {
                    is_called.send(()).unwrap();
                    thread::sleep(Duration::from_millis(50));
                    is_over.store(true, Ordering::SeqCst);
                });
            });
            has_begun.recv().unwrap();
            assert!(end(stream, || Ok(is_over.load(Ordering::SeqCst))).unwrap(), "it ended beside the call");
        });
        assert!(!is_any_in_progress());
        // One that was not begun here.
        end(stream, || Ok(())).unwrap();
        begin(stream, || Ok(())).unwrap();
        let wrong_thread = end(stream, || Err::<(), _>(Failure::new(Status::STREAM_CAPTURE_WRONG_THREAD)));
        assert!(wrong_thread.is_err() && is_any_in_progress(), "it has not ended");
        end(stream, || Ok(())).unwrap();
    }
}
