//! What the reactor looks after: points in the order in which they will be reached.

use super::interest::{Finished, Interest, Point, Standing};
use crate::error::{Error, Result};
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
    /// Whether several tasks take turns in awaiting work.
    shared: bool,
    /// Interests let go since they were last counted that had been given up.
    gone: usize,
    looks: u64,
}

const MOST_SPARE: usize = 64;

impl<P: Point> Lanes<P> {
    pub(crate) fn new() -> Self {
        Self {
            lanes: HashMap::new(),
            incoming: Vec::new(),
            spare: Vec::new(),
            len: 0,
            shared: false,
            gone: 0,
            looks: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared
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
        let Self { lanes, incoming, spare, shared, .. } = self;
        for interest in incoming.drain(..) {
            *shared = !interest.is_alone();
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
            // Whether what comes after the front is known not to be reached.
            let mut front_is_last = false;
            while let Some(front) = lane.front() {
                let result = match front.standing() {
                    Standing::Over | Standing::GivenUp => None,
                    // Nobody else waits, and two who look would only hinder each other.
                    Standing::Looking if before == 1 => return true,
                    Standing::Looking | Standing::Awaited if front_is_last => return true,
                    Standing::Looking | Standing::Awaited => {
                        *looks += 1;
                        match front.point().look() {
                            Some(result) => Some(result),
                            None => return true,
                        }
                    }
                };
                if let Some(Ok(())) = result {
                    front_is_last = !look_ahead(lane, looks);
                }
                let Some(front) = lane.pop_front() else { break };
                *len -= 1;
                let Some(result) = result else {
                    *gone += usize::from(front.standing() == Standing::GivenUp);
                    continue;
                };
                if let Err(error) = &result
                    && error.is_sticky()
                {
                    lost = Some(error.clone());
                }
                *gone += settle(&front, result);
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

    /// Wakes the task of the only interest there is early, if that pays. Where there are others, looking on would keep their
    /// tasks from running.
    pub(crate) fn wake_early(&mut self) {
        if self.len != 1 {
            return;
        }
        let Some(front) = self.lanes.values().find_map(VecDeque::front) else { return };
        if front.point().look_again_after().is_some_and(|after| front.since().elapsed() >= after)
            && let Some(waker) = front.wake_early()
        {
            wake(waker);
        }
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
            self.gone += settle(&interest, Err(error.clone()));
        }
        self.len = 0;
    }

    /// Lets go of all that nobody waits for.
    pub(super) fn sweep(&mut self) {
        self.sort_in();
        self.lanes.retain(|_, lane| {
            let all = lane.len();
            let gone = &mut self.gone;
            lane.retain(|interest| match interest.standing() {
                Standing::Awaited | Standing::Looking => true,
                Standing::Over => false,
                Standing::GivenUp => {
                    *gone += 1;
                    false
                }
            });
            self.len -= all - lane.len();
            !lane.is_empty()
        });
    }
}

/// Asks what is behind the front, which is reached, further and further ahead: a point that is reached tells so for all
/// before it. Whether the next one is.
fn look_ahead<P: Point>(lane: &VecDeque<Arc<Interest<P>>>, looks: &mut u64) -> bool {
    let mut ahead = 1;
    while let Some(interest) = lane.get(ahead) {
        *looks += 1;
        if !matches!(interest.point().look(), Some(Ok(()))) {
            return ahead > 1;
        }
        ahead *= 2;
    }
    true
}

/// Leaves a result, and wakes whoever waits for it. Counts 1 if nobody did.
fn settle<P: Point>(interest: &Interest<P>, result: Result<()>) -> usize {
    match interest.finish(result) {
        Finished::Wake(waker) => wake(waker),
        Finished::Nothing => {}
        Finished::GivenUp => return 1,
    }
    0
}

/// Wakes a task. What its executor does wrong does not end the reactor.
fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // It may unwind again when it is dropped.
        std::mem::forget(payload);
    }
}
