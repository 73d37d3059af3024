//! Dropping what the driver has let go of, on a thread that may call the driver.
//!
//! The driver lets go of things on a thread of its own, inside of which it must not be called, while what graphs keep
//! alive calls it when it is dropped. So the driver's thread only puts the things into a queue. A thread of this process
//! takes them out and drops them. It is started when something is first given to the driver; where no thread can be had,
//! later calls of this crate drop what has come together.

use crate::panics::contain;
use anabranch_hal::Retained;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The queue of this process. Like the driver's library, it is there for good.
pub(crate) static DROPS: Drops = Drops::new();

pub(crate) struct Drops {
    state: Mutex<State>,
    filled: Condvar,
    /// Whether there is something in the queue, and no thread to see to it.
    unattended: AtomicBool,
}

struct State {
    waiting: VecDeque<Retained>,
    has_thread: bool,
}

impl Drops {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State { waiting: VecDeque::new(), has_thread: false }),
            filled: Condvar::new(),
            unattended: AtomicBool::new(false),
        }
    }

    /// Nothing is dropped under this lock, and nothing panics, so it is never poisoned. The driver is not called either:
    /// its own threads take it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something into the queue. Calls nothing, and does not block but for moments.
    pub(crate) fn hand_over(&self, object: Retained) {
        let mut state = self.state();
        state.waiting.push_back(object);
        if state.has_thread {
            drop(state);
            self.filled.notify_one();
        } else {
            self.unattended.store(true, Ordering::Release);
        }
    }

    /// Starts the thread, if there is none. `begin` is the first that it does. What is left over from a time without a
    /// thread goes to it, or is dropped here.
    pub(crate) fn attend(&'static self, begin: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        if !state.has_thread {
            let run = move || {
                begin();
                self.drop_all_for_ever();
            };
            state.has_thread = std::thread::Builder::new().name("anabranch-drop".to_owned()).spawn(run).is_ok();
            if state.has_thread {
                self.unattended.store(false, Ordering::Release);
            }
        }
        drop(state);
        self.drop_unattended();
    }

    /// Drops what is in the queue, if no thread will.
    #[inline]
    pub(crate) fn drop_unattended(&self) {
        if self.unattended.load(Ordering::Acquire) {
            self.drop_here();
        }
    }

    #[cold]
    fn drop_here(&self) {
        let mut state = self.state();
        let waiting = std::mem::take(&mut state.waiting);
        self.unattended.store(false, Ordering::Release);
        drop(state);
        waiting.into_iter().for_each(drop_one);
    }

    fn drop_all_for_ever(&self) {
        loop {
            let mut state = self.state();
            let object = loop {
                match state.waiting.pop_front() {
                    Some(object) => break object,
                    None => state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            drop_one(object);
        }
    }
}

/// Nobody waits for these, so nobody can be told that one panicked; the panic itself has been printed.
fn drop_one(object: Retained) {
    contain(|| drop(object), |_| ());
}

#[cfg(test)]
mod tests {
    use super::Drops;
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread::ThreadId;

    struct TellsThread(mpsc::Sender<ThreadId>);

    impl Drop for TellsThread {
        fn drop(&mut self) {
            self.0.send(std::thread::current().id()).expect("the test waits");
        }
    }

    struct UnwindsOnDrop;

    impl Drop for UnwindsOnDrop {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("while dropped"));
        }
    }

    #[test]
    fn things_are_dropped_on_the_thread_and_one_that_unwinds_does_not_end_it() {
        let drops: &'static Drops = Box::leak(Box::new(Drops::new()));
        let (sender, receiver) = mpsc::channel();
        let (began, has_begun) = mpsc::channel();
        drops.attend(move || began.send(std::thread::current().id()).expect("the test waits"));
        let thread = has_begun.recv().expect("the thread begins");
        drops.attend(|| panic!("there is a thread already"));
        drops.hand_over(Arc::new(UnwindsOnDrop));
        drops.hand_over(Arc::new(TellsThread(sender)));
        assert_eq!(receiver.recv(), Ok(thread));
        assert_ne!(thread, std::thread::current().id());
    }

    #[test]
    fn without_a_thread_a_later_call_drops() {
        let drops = Drops::new();
        let (sender, receiver) = mpsc::channel();
        drops.drop_unattended();
        drops.hand_over(Arc::new(TellsThread(sender)));
        assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Empty));
        drops.drop_unattended();
        assert_eq!(receiver.try_recv(), Ok(std::thread::current().id()));
    }
}
