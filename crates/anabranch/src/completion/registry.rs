//! Where futures hand their interest to the reactor, and where the reactor sleeps while there is none.

use super::interest::{Interest, Point};
use super::lanes::Lanes;
use crate::sync::{AtomicBool, AtomicIsize, Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) struct Registry<P> {
    inbox: Mutex<Inbox<P>>,
    /// Whether there is something new in the inbox, so that a reactor that is awake need not lock it to see that there is
    /// not. Changed under the lock.
    news: AtomicBool,
    arrived: Condvar,
    /// Interests that were given up while they were registered, and that the reactor has not let go yet. Below 0 for a
    /// moment when the reactor was the quicker one.
    given_up: AtomicIsize,
}

struct Inbox<P> {
    interests: Vec<Arc<Interest<P>>>,
    /// Whether the reactor sleeps, and wants to be woken for what comes.
    sleeping: bool,
    closed: bool,
}

/// How long the reactor is willing to sleep when nothing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Not at all.
    No,
    For(Duration),
    UntilSomethingComes,
}

/// What the reactor found in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrivals {
    Some,
    None,
    /// The registry is closed, and there will be none.
    Closed,
}

impl<P: Point> Registry<P> {
    pub(crate) fn new() -> Self {
        let inbox = Inbox { interests: Vec::new(), sleeping: false, closed: false };
        let news = AtomicBool::new(false);
        Self { inbox: Mutex::new(inbox), news, arrived: Condvar::new(), given_up: AtomicIsize::new(0) }
    }

    /// Lets the reactor look after an interest. `false`: the registry is closed.
    pub(crate) fn register(&self, interest: &Arc<Interest<P>>) -> bool {
        let mut inbox = self.inbox.lock();
        if inbox.closed {
            return false;
        }
        inbox.interests.push(interest.clone());
        self.news.store(true, Ordering::Release);
        let wake = std::mem::take(&mut inbox.sleeping);
        drop(inbox);
        if wake {
            self.arrived.notify_one();
        }
        true
    }

    /// Notes that a registered interest was given up.
    pub(crate) fn note_given_up(&self) {
        // The reactor, which looks after the interest, is awake or will be by itself.
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the reactor end.
    pub(crate) fn close(&self) {
        let mut inbox = self.inbox.lock();
        inbox.closed = true;
        inbox.sleeping = false;
        self.news.store(true, Ordering::Release);
        drop(inbox);
        self.arrived.notify_one();
    }

    /// Takes what has come, after a sleep if nothing has.
    pub(crate) fn collect(&self, lanes: &mut Lanes<P>, sleep: Sleep) -> Arrivals {
        if sleep == Sleep::No && !self.news.load(Ordering::Acquire) {
            return Arrivals::None;
        }
        let mut inbox = self.inbox.lock();
        match sleep {
            Sleep::No => {}
            Sleep::For(pause) => {
                if inbox.interests.is_empty() && !inbox.closed {
                    inbox.sleeping = true;
                    inbox = self.arrived.wait_for(inbox, pause);
                    inbox.sleeping = false;
                }
            }
            Sleep::UntilSomethingComes => {
                while inbox.interests.is_empty() && !inbox.closed {
                    inbox.sleeping = true;
                    inbox = self.arrived.wait(inbox);
                }
            }
        }
        if inbox.interests.is_empty() {
            return if inbox.closed { Arrivals::Closed } else { Arrivals::None };
        }
        // Closing stays news.
        self.news.store(inbox.closed, Ordering::Relaxed);
        lanes.take_in(&mut inbox.interests);
        Arrivals::Some
    }

    /// Lets go of interests that were given up, when they are so many that it is worth looking for them.
    pub(crate) fn sweep(&self, lanes: &mut Lanes<P>) {
        let given_up = self.given_up.load(Ordering::Relaxed);
        if given_up > 0 && given_up.saturating_mul(2) >= lanes.len() as isize {
            lanes.sweep();
        }
        let gone = lanes.take_gone();
        if gone > 0 {
            self.given_up.fetch_sub(gone as isize, Ordering::Relaxed);
        }
    }
}
