//! Where futures pass their waiters to the reactor, and where the reactor sleeps while there are none.

use super::wait_queues::WaitQueues;
use super::waiter::{Awaitable, Waiter};
use crate::ranks;
use anabranch_sync::modelled::{AtomicBool, AtomicIsize, Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub struct Registry<P> {
    inbox: Mutex<Inbox<P>>,
    /// Whether the inbox contains anything new, so that a reactor that is awake can check this without the lock.
    /// Changed under the lock.
    news: AtomicBool,
    arrived: Condvar,
    /// Waiters that were given up while they were registered, and that the reactor has not released yet. Briefly
    /// negative if the reactor was quicker.
    given_up: AtomicIsize,
}

struct Inbox<P> {
    waiters: Vec<Arc<Waiter<P>>>,
    /// Whether the reactor sleeps, and wants to be woken for what comes.
    sleeping: bool,
    closed: bool,
}

/// How long the reactor may sleep if nothing has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Not at all.
    No,
    For(Duration),
    UntilSomethingComes,
}

/// What the reactor found in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    Some,
    None,
    /// The registry is closed, and there will be none.
    Closed,
}

impl<P: Awaitable> Registry<P> {
    pub fn new() -> Self {
        let inbox = Inbox { waiters: Vec::new(), sleeping: false, closed: false };
        let news = AtomicBool::new(false);
        Self {
            inbox: Mutex::new(ranks::REACTOR_INBOX, inbox),
            news,
            arrived: Condvar::new(),
            given_up: AtomicIsize::new(0),
        }
    }

    /// Registers a waiter with the reactor. `false`: the registry is closed.
    pub fn register(&self, waiter: &Arc<Waiter<P>>) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return false;
        }
        inbox.waiters.push(waiter.clone());
        self.news.store(true, Ordering::Release);
        let wake = std::mem::take(&mut inbox.sleeping);
        drop(inbox);
        if wake {
            self.arrived.notify_one();
        }
        true
    }

    /// Notes that a registered waiter was given up.
    pub fn note_given_up(&self) {
        // The reactor, which looks after the waiter, is awake or will be by itself.
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the reactor end.
    pub fn close(&self) {
        let mut inbox = self.inbox.lock();
        inbox.closed = true;
        inbox.sleeping = false;
        self.news.store(true, Ordering::Release);
        drop(inbox);
        self.arrived.notify_one();
    }

    /// Takes what has arrived, after a sleep if nothing has.
    pub fn collect(&self, queues: &mut WaitQueues<P>, sleep: Sleep) -> Arrivals {
        if sleep == Sleep::No && !self.news.load(Ordering::Acquire) {
            return Arrivals::None;
        }
        let mut inbox = self.inbox.lock();
        match sleep {
            Sleep::No => {}
            Sleep::For(pause) => {
                if inbox.waiters.is_empty() && !inbox.closed {
                    inbox.sleeping = true;
                    inbox = self.arrived.wait_for(inbox, pause);
                    inbox.sleeping = false;
                }
            }
            Sleep::UntilSomethingComes => {
                while inbox.waiters.is_empty() && !inbox.closed {
                    inbox.sleeping = true;
                    inbox = self.arrived.wait(inbox);
                }
            }
        }
        if inbox.waiters.is_empty() {
            return if inbox.closed { Arrivals::Closed } else { Arrivals::None };
        }
        // Closing stays news.
        self.news.store(inbox.closed, Ordering::Relaxed);
        queues.take_in(&mut inbox.waiters);
        Arrivals::Some
    }

    /// Releases waiters that were given up, if there are enough of them to be worth the search.
    pub fn sweep(&self, queues: &mut WaitQueues<P>) {
        let given_up = self.given_up.load(Ordering::Relaxed);
        if given_up > 0 && given_up.saturating_mul(2) >= queues.len() as isize {
            queues.sweep();
        }
        let released = queues.take_released();
        if released > 0 {
            self.given_up.fetch_sub(released as isize, Ordering::Relaxed);
        }
    }
}
