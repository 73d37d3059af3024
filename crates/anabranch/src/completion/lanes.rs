//! What the reactor looks after: points in the order in which they will be reached.

use super::interest::{Interest, Point};
use crate::error::Error;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

/// Of each lane only the front is asked for: what is behind it cannot be reached before.
pub(crate) struct Lanes<P> {
    lanes: HashMap<usize, VecDeque<Arc<Interest<P>>>>,
    /// What came in, on its way from the inbox, so that its lock is held no longer than it must.
    incoming: Vec<Arc<Interest<P>>>,
    /// Empty lanes, whose memory is used again.
    spare: Vec<VecDeque<Arc<Interest<P>>>>,
    len: usize,
    /// Interests let go since they were last counted that had been given up.
    gone: usize,
    looks: u64,
}

const MOST_SPARE: usize = 64;

impl<P: Point> Lanes<P> {
    pub(crate) fn new() -> Self {
        Self { lanes: HashMap::new(), incoming: Vec::new(), spare: Vec::new(), len: 0, gone: 0, looks: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How often points were asked since this was last called.
    pub(crate) fn take_looks(&mut self) -> u64 {
        std::mem::take(&mut self.looks)
    }

    pub(super) fn take_gone(&mut self) -> usize {
        std::mem::take(&mut self.gone)
    }

    /// Takes all of `interests`, and leaves an empty vector that has memory.
    pub(super) fn take_in(&mut self, interests: &mut Vec<Arc<Interest<P>>>) {
        self.len += interests.len();
        std::mem::swap(&mut self.incoming, interests);
    }

    /// Puts what came in where it belongs.
    fn sort_in(&mut self) {
        let Self { lanes, incoming, spare, .. } = self;
        for interest in incoming.drain(..) {
            let point = interest.point();
            let lane = lanes.entry(point.lane()).or_insert_with(|| spare.pop().unwrap_or_default());
            // They mostly come in order.
            let place = point.place();
            let later = lane.iter().rev().take_while(|other| other.point().place() > place).count();
            lane.insert(lane.len() - later, interest);
        }
    }

    /// Asks the front of every lane, and wakes who waits for what is reached. Whether anything was.
    pub(crate) fn look(&mut self) -> bool {
        self.sort_in();
        let before = self.len;
        let Self { lanes, spare, len, gone, looks, .. } = self;
        let mut lost = None;
        lanes.retain(|_, lane| {
            while let Some(front) = lane.front() {
                let result = if front.is_awaited() {
                    *looks += 1;
                    match front.point().look() {
                        Some(result) => Some(result),
                        None => return true,
                    }
                } else {
                    None
                };
                let Some(front) = lane.pop_front() else { break };
                *len -= 1;
                let Some(result) = result else {
                    *gone += 1;
                    continue;
                };
                if let Err(error) = &result
                    && error.is_sticky()
                {
                    lost = Some(error.clone());
                }
                match front.finish(result) {
                    Some(waker) => wake(waker),
                    None => *gone += 1,
                }
            }
            if spare.len() < MOST_SPARE {
                spare.push(std::mem::take(lane));
            }
            false
        });
        if let Some(error) = lost {
            self.fail(&error);
        }
        self.len < before
    }

    /// Asks whether the context can still do anything, and if not, wakes everybody with its error.
    pub(crate) fn check_context(&mut self) {
        let Some(interest) = self.lanes.values().find_map(VecDeque::front) else { return };
        self.looks += 1;
        if let Err(error) = interest.point().check_context() {
            self.fail(&error);
        }
    }

    /// Wakes everybody with an error.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.sort_in();
        for interest in std::mem::take(&mut self.lanes).into_values().flatten() {
            match interest.finish(Err(error.clone())) {
                Some(waker) => wake(waker),
                None => self.gone += 1,
            }
        }
        self.len = 0;
    }

    /// Lets go of all that nobody waits for.
    pub(super) fn sweep(&mut self) {
        self.sort_in();
        let before = self.len;
        self.lanes.retain(|_, lane| {
            let all = lane.len();
            lane.retain(|interest| interest.is_awaited());
            self.len -= all - lane.len();
            !lane.is_empty()
        });
        self.gone += before - self.len;
    }
}

/// Wakes a task. What its executor does wrong does not end the reactor.
fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // It may unwind again when it is dropped.
        std::mem::forget(payload);
    }
}
