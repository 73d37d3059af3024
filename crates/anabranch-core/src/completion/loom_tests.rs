//! The protocol between futures and the reactor under loom: every interleaving of a few threads. A lost wake-up shows as a
//! deadlock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use super::reactor::closed;
use super::registry::{Arrivals, Registry, Sleep};
use super::wait_queues::WaitQueues;
use super::waiter::{Awaitable, Waiter, WaiterStatus};
use crate::error::Result;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn check(bound: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(body);
}

/// A point of the one queue there is.
struct Place {
    reached: Arc<AtomicBool>,
    place: u64,
    /// Whether it pays to wake its task early.
    early: bool,
}

impl Awaitable for Place {
    fn queue(&self) -> usize {
        0
    }

    fn value(&self) -> u64 {
        self.place
    }

    fn check(&self) -> Option<Result<()>> {
        self.reached.load(Ordering::Acquire).then_some(Ok(()))
    }

    fn check_context(&self) -> Result<()> {
        Ok(())
    }

    fn waited(&self, _: Duration) {}

    fn check_again_after(&self) -> Option<Duration> {
        self.early.then_some(Duration::ZERO)
    }
}

/// A task that sleeps until it is woken.
struct Task {
    woken: loom::sync::Mutex<bool>,
    condition: loom::sync::Condvar,
}

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self { woken: loom::sync::Mutex::new(false), condition: loom::sync::Condvar::new() })
    }

    fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.condition.wait(woken).unwrap();
        }
        *woken = false;
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.condition.notify_one();
    }
}

fn waiter(reached: &Arc<AtomicBool>, place: u64, task: &Arc<Task>) -> Arc<Waiter<Place>> {
    let point = Place { reached: reached.clone(), place, early: false };
    Waiter::new(point, Instant::now(), Waker::from(task.clone()), true)
}

/// As `reactor::run`, without time.
fn react(registry: &Registry<Place>) {
    let mut queues = WaitQueues::new();
    loop {
        // With nothing to look at it may stay awake for a while.
        let sleep = if queues.is_empty() { Sleep::UntilSomethingComes } else { Sleep::No };
        if registry.collect(&mut queues, sleep) == Arrivals::Closed {
            break;
        }
        let reached = queues.check();
        queues.wake_early();
        registry.sweep(&mut queues);
        if !reached && !queues.is_empty() {
            thread::yield_now();
        }
    }
    queues.fail(&closed());
}

fn reactor(registry: &Arc<Registry<Place>>) -> thread::JoinHandle<()> {
    let registry = registry.clone();
    thread::spawn(move || react(&registry))
}

/// Sleeps until the waiter is over. It was registered with the task's waker.
fn wait(waiter: &Waiter<Place>, task: &Arc<Task>) -> Result<()> {
    loop {
        task.sleep();
        if let (Poll::Ready(result), _) = waiter.poll(&Waker::from(task.clone())) {
            return result;
        }
    }
}

#[test]
fn loom_no_wake_up_is_lost_between_registering_and_completion() {
    check(4, || {
        let (registry, reached, task) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(false)), Task::new());
        let running = reactor(&registry);
        let device = {
            let reached = reached.clone();
            thread::spawn(move || reached.store(true, Ordering::Release))
        };
        let waiter = waiter(&reached, 1, &task);
        assert!(registry.register(&waiter));
        wait(&waiter, &task).unwrap();
        device.join().unwrap();
        registry.close();
        running.join().unwrap();
        assert_eq!(Arc::strong_count(&task), 1, "no waker is left");
    });
}

#[test]
fn loom_the_latest_waker_is_woken() {
    check(4, || {
        let (registry, reached) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(true)));
        let (first, second) = (Task::new(), Task::new());
        let running = reactor(&registry);
        let waiter = waiter(&reached, 1, &first);
        assert!(registry.register(&waiter));
        let waker = Waker::from(second.clone());
        let (result, before) = waiter.poll(&waker);
        drop((before, waker));
        if result.is_pending() {
            second.sleep();
            assert!(waiter.poll(Waker::noop()).0.is_ready());
        }
        registry.close();
        running.join().unwrap();
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    });
}

#[test]
fn loom_who_gives_up_while_it_completes_leaves_nothing_behind() {
    check(4, || {
        let (registry, reached) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(false)));
        let (gone, stays) = (Task::new(), Task::new());
        let running = reactor(&registry);
        let (first, second) = (waiter(&reached, 1, &gone), waiter(&reached, 2, &stays));
        assert!(registry.register(&first) && registry.register(&second));
        let device = {
            let reached = reached.clone();
            thread::spawn(move || reached.store(true, Ordering::Release))
        };
        let (registered, waker) = first.give_up();
        if registered {
            registry.note_given_up();
        }
        drop(waker);
        drop(first);
        wait(&second, &stays).unwrap();
        device.join().unwrap();
        registry.close();
        running.join().unwrap();
        assert_eq!((Arc::strong_count(&gone), Arc::strong_count(&stays)), (1, 1));
    });
}

#[test]
fn loom_a_sleeping_reactor_is_woken_by_a_registration() {
    check(3, || {
        let (registry, reached) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(true)));
        let running = reactor(&registry);
        let other = {
            let (registry, reached) = (registry.clone(), reached.clone());
            thread::spawn(move || {
                let task = Task::new();
                let waiter = waiter(&reached, 2, &task);
                assert!(registry.register(&waiter));
                wait(&waiter, &task).unwrap();
            })
        };
        for place in [1, 3] {
            let task = Task::new();
            let waiter = waiter(&reached, place, &task);
            assert!(registry.register(&waiter));
            wait(&waiter, &task).unwrap();
        }
        other.join().unwrap();
        registry.close();
        running.join().unwrap();
    });
}

#[test]
fn loom_a_task_that_is_woken_early_looks_itself_or_is_woken_again() {
    check(4, || {
        let (registry, reached, task) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(false)), Task::new());
        let running = reactor(&registry);
        let device = {
            let reached = reached.clone();
            thread::spawn(move || reached.store(true, Ordering::Release))
        };
        let point = Place { reached: reached.clone(), place: 1, early: true };
        let waiter = Waiter::new(point, Instant::now(), Waker::from(task.clone()), true);
        assert!(registry.register(&waiter));
        loop {
            task.sleep();
            if waiter.status() == WaiterStatus::Checking
                && let Some(result) = waiter.point().check()
            {
                waiter.found(result);
            }
            if let (Poll::Ready(result), _) = waiter.poll(&Waker::from(task.clone())) {
                result.unwrap();
                break;
            }
        }
        device.join().unwrap();
        registry.close();
        running.join().unwrap();
        assert_eq!(Arc::strong_count(&task), 1, "no waker is left");
    });
}

#[test]
fn loom_nobody_waits_for_a_registry_that_is_closed() {
    check(4, || {
        let (registry, never) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(false)));
        let running = reactor(&registry);
        let closing = {
            let registry = registry.clone();
            thread::spawn(move || registry.close())
        };
        let task = Task::new();
        let waiter = waiter(&never, 1, &task);
        if registry.register(&waiter) {
            assert!(wait(&waiter, &task).is_err());
        }
        closing.join().unwrap();
        running.join().unwrap();
    });
}
