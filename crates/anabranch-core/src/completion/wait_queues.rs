//! What the reactor waits for: points in the order in which they will be reached.

use super::waiter::{Awaitable, Finished, Waiter, WaiterStatus};
use super::waking::wake;
use crate::error::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Only the front of each queue is checked: what is behind it cannot be reached earlier.
pub struct WaitQueues<P> {
    queues: HashMap<usize, VecDeque<Arc<Waiter<P>>>>,
    /// What has arrived from the inbox, whose lock is thus held only briefly.
    incoming: Vec<Arc<Waiter<P>>>,
    /// Empty queues, whose memory is reused.
    spare: Vec<VecDeque<Arc<Waiter<P>>>>,
    len: usize,
    /// Whether several tasks take turns in awaiting work.
    shared: bool,
    /// Released waiters, since the last count, that had been given up.
    released: usize,
    checks: u64,
}

const MOST_SPARE: usize = 64;

impl<P: Awaitable> WaitQueues<P> {
    pub fn new() -> Self {
        Self {
            queues: HashMap::new(),
            incoming: Vec::new(),
            spare: Vec::new(),
            len: 0,
            shared: false,
            released: 0,
            checks: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The number of checks since this was last called.
    pub fn take_checks(&mut self) -> u64 {
        std::mem::take(&mut self.checks)
    }

    pub fn take_released(&mut self) -> usize {
        std::mem::take(&mut self.released)
    }

    /// Takes all of `waiters`, and leaves an empty vector with its memory.
    pub fn take_in(&mut self, waiters: &mut Vec<Arc<Waiter<P>>>) {
        self.len += waiters.len();
        std::mem::swap(&mut self.incoming, waiters);
    }

    /// Puts what has arrived into the queues.
    fn sort_in(&mut self) {
        let Self { queues, incoming, spare, shared, .. } = self;
        for waiter in incoming.drain(..) {
            *shared = !waiter.is_alone();
            let point = waiter.point();
            let queue = queues.entry(point.queue()).or_insert_with(|| spare.pop().unwrap_or_default());
            let value = point.value();
            // They mostly come in order.
            let place = match queue.back() {
                Some(last) if last.point().value() > value => {
                    queue.partition_point(|other| other.point().value() <= value)
                }
                _ => queue.len(),
            };
            queue.insert(place, waiter);
        }
    }

    /// Checks the front of every queue, and wakes the tasks whose points are reached. Returns whether any was.
    pub fn check(&mut self) -> bool {
        self.sort_in();
        let before = self.len;
        let Self { queues, spare, len, released, checks, .. } = self;
        let mut lost = None;
        queues.retain(|_, queue| {
            // Whether what comes after the front is known not to be reached.
            let mut front_is_last = false;
            while let Some(front) = queue.front() {
                let result = match front.status() {
                    WaiterStatus::Over | WaiterStatus::GivenUp => None,
                    // Nobody else waits, and two threads that check would only contend.
                    WaiterStatus::Checking if before == 1 => return true,
                    WaiterStatus::Checking | WaiterStatus::Awaited if front_is_last => return true,
                    WaiterStatus::Checking | WaiterStatus::Awaited => {
                        *checks += 1;
                        match front.point().check() {
                            Some(result) => Some(result),
                            None => return true,
                        }
                    }
                };
                if let Some(Ok(())) = result {
                    front_is_last = !check_ahead(queue, checks);
                }
                let Some(front) = queue.pop_front() else { break };
                *len -= 1;
                let Some(result) = result else {
                    *released += usize::from(front.status() == WaiterStatus::GivenUp);
                    continue;
                };
                if let Err(error) = &result
                    && error.is_sticky()
                {
                    lost = Some(error.clone());
                }
                *released += settle(&front, result);
            }
            if spare.len() < MOST_SPARE {
                spare.push(std::mem::take(queue));
            }
            false
        });
        if let Some(error) = lost {
            self.fail(&error);
        }
        self.len < before
    }

    /// Wakes the task of the only waiter early, if that pays. If there are other waiters, checking in the task would
    /// keep their tasks from running.
    pub fn wake_early(&mut self) {
        if self.len != 1 {
            return;
        }
        let Some(front) = self.queues.values().find_map(VecDeque::front) else { return };
        if front.point().check_again_after().is_some_and(|after| front.since().elapsed() >= after)
            && let Some(waker) = front.wake_early()
        {
            wake(waker);
        }
    }

    /// Checks whether the context is lost, and if so, wakes all tasks with its error.
    pub fn check_context(&mut self) {
        let Some(waiter) = self.queues.values().find_map(VecDeque::front) else { return };
        self.checks += 1;
        if let Err(error) = waiter.point().check_context() {
            self.fail(&error);
        }
    }

    /// Wakes all tasks with an error.
    pub fn fail(&mut self, error: &Error) {
        self.sort_in();
        for waiter in std::mem::take(&mut self.queues).into_values().flatten() {
            self.released += settle(&waiter, Err(error.clone()));
        }
        self.len = 0;
    }

    /// Releases all waiters that were given up.
    pub fn sweep(&mut self) {
        self.sort_in();
        self.queues.retain(|_, queue| {
            let all = queue.len();
            let released = &mut self.released;
            queue.retain(|waiter| match waiter.status() {
                WaiterStatus::Awaited | WaiterStatus::Checking => true,
                WaiterStatus::Over => false,
                WaiterStatus::GivenUp => {
                    *released += 1;
                    false
                }
            });
            self.len -= all - queue.len();
            !queue.is_empty()
        });
    }
}

/// Checks points behind the front, which is reached, further and further ahead: a point that is reached shows that all
/// earlier ones are. Returns whether the next one is.
fn check_ahead<P: Awaitable>(queue: &VecDeque<Arc<Waiter<P>>>, checks: &mut u64) -> bool {
    let mut ahead = 1;
    while let Some(waiter) = queue.get(ahead) {
        *checks += 1;
        if !matches!(waiter.point().check(), Some(Ok(()))) {
            return ahead > 1;
        }
        ahead *= 2;
    }
    true
}

/// Stores a result, and wakes the task that waits for it. Returns 1 if no task did, to be counted.
fn settle<P: Awaitable>(waiter: &Waiter<P>, result: Result<()>) -> usize {
    match waiter.finish(result) {
        Finished::Wake(waker) => wake(waker),
        Finished::Nothing => {}
        Finished::GivenUp => return 1,
    }
    0
}
