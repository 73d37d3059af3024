//! A stream that joins a capture while other threads submit work to it, under loom: what a thread takes for captured is what
//! the driver captures. The membership is the real one; of the driver there is only whether it captures the stream.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use super::{Capture, Membership};
use crate::stream::StreamCore;
use anabranch_hal::{DevicePointer, Live, StreamHandle};
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct NoCapture;

impl Capture for NoCapture {
    fn stream_ends(&self, _: &StreamCore, _: Live<'_, StreamHandle>, _: Duration) -> bool {
        true
    }

    fn release_memory(self: Arc<Self>, _: DevicePointer, _: &Arc<StreamCore>) {}
}

struct World {
    membership: Membership,
    /// Whether the driver captures the stream. Its calls on one stream come one after the other.
    captures: Mutex<bool>,
}

impl World {
    /// What the driver does with work that is queued now.
    fn is_work_captured(&self) -> bool {
        *self.captures.lock().unwrap()
    }

    /// Joins a capture, as a stream does that waits for an event of it.
    fn join(&self, capture: &Arc<dyn Capture>) {
        let change = self.membership.change().unwrap();
        self.membership.joins();
        *self.captures.lock().unwrap() = true;
        self.membership.set(capture.clone());
        drop(change);
    }

    /// Leaves it, as a stream does when the capture ends.
    fn leave(&self, capture: &dyn Capture) {
        let change = self.membership.change().unwrap();
        *self.captures.lock().unwrap() = false;
        self.membership.clear(capture);
        drop(change);
    }
}

/// Tries all interleavings of a stream that joins a capture, and leaves it again if `leaves` says so, with `body`, which returns
/// what it has found out. Some of them must find it out, and some must not.
fn check(leaves: bool, body: impl Fn(&World) -> bool + Send + Sync + 'static) {
    let outcomes = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = outcomes.clone();
    loom::model(move || {
        let world = Arc::new(World { membership: Membership::new(0), captures: Mutex::new(false) });
        let capture: Arc<dyn Capture> = Arc::new(NoCapture);
        let (joining, joined) = (world.clone(), capture.clone());
        let joiner = thread::spawn(move || {
            joining.join(&joined);
            if leaves {
                joining.leave(&*joined);
            }
        });
        counted[usize::from(body(&world))].fetch_add(1, Ordering::Relaxed);
        joiner.join().unwrap();
        assert_eq!(world.membership.is_active(), !leaves);
        world.membership.clear(&*capture);
    });
    let [not, found] = outcomes.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{found} interleavings of {}", not + found);
    assert!(not > 0 && found > 0, "{found} interleavings of {}", not + found);
}

#[test]
fn loom_what_is_submitted_is_captured_if_the_stream_is_a_member_and_only_then() {
    for leaves in [false, true] {
        check(leaves, |world| {
            let _submitting = world.membership.submitting();
            let is_member = world.membership.is_active();
            assert_eq!(world.is_work_captured(), is_member);
            assert_eq!(world.membership.get().is_some(), is_member);
            is_member
        });
    }
}

/// A record may change the membership, and so does not keep it from changing.
#[test]
fn loom_a_record_between_two_equal_observations_is_captured_if_they_say_so_and_only_then() {
    for leaves in [false, true] {
        check(leaves, |world| {
            let before = world.membership.observe();
            let is_captured = world.is_work_captured();
            let observed = before.filter(|_| world.membership.observe() == before);
            if let Some((_, is_member)) = observed {
                assert_eq!(is_captured, is_member);
            }
            observed.is_some()
        });
    }
}
