//! The protocol between futures and the reactor under loom: every interleaving of a few threads. A lost wake-up shows as a
//! deadlock.

use super::interest::{Interest, Point, Standing};
use super::lanes::Lanes;
use super::reactor::closed;
use super::registry::{Arrivals, Registry, Sleep};
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

/// A point of the one lane there is.
struct Place {
    reached: Arc<AtomicBool>,
    place: u64,
    /// Whether it pays to wake its task early.
    early: bool,
}

impl Point for Place {
    fn lane(&self) -> usize {
        0
    }

    fn place(&self) -> u64 {
        self.place
    }

    fn look(&self) -> Option<Result<()>> {
        self.reached.load(Ordering::Acquire).then_some(Ok(()))
    }

    fn check_context(&self) -> Result<()> {
        Ok(())
    }

    fn waited(&self, _: Duration) {}

    fn look_again_after(&self) -> Option<Duration> {
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

fn interest(reached: &Arc<AtomicBool>, place: u64, task: &Arc<Task>) -> Arc<Interest<Place>> {
    let point = Place { reached: reached.clone(), place, early: false };
    Interest::new(point, Instant::now(), Waker::from(task.clone()), true)
}

/// As `reactor::run`, without time.
fn react(registry: &Registry<Place>) {
    let mut lanes = Lanes::new();
    loop {
        // With nothing to look at it may stay awake for a while.
        let sleep = if lanes.is_empty() { Sleep::UntilSomethingComes } else { Sleep::No };
        if registry.collect(&mut lanes, sleep) == Arrivals::Closed {
            break;
        }
        let reached = lanes.look();
        lanes.wake_early();
        registry.sweep(&mut lanes);
        if !reached && !lanes.is_empty() {
            thread::yield_now();
        }
    }
    lanes.fail(&closed());
}

fn reactor(registry: &Arc<Registry<Place>>) -> thread::JoinHandle<()> {
    let registry = registry.clone();
    thread::spawn(move || react(&registry))
}

/// Sleeps until the interest is over. It was registered with the task's waker.
fn wait(interest: &Interest<Place>, task: &Arc<Task>) -> Result<()> {
    loop {
        task.sleep();
        if let (Poll::Ready(result), _) = interest.poll(&Waker::from(task.clone())) {
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
        let interest = interest(&reached, 1, &task);
        assert!(registry.register(&interest));
        wait(&interest, &task).unwrap();
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
        let interest = interest(&reached, 1, &first);
        assert!(registry.register(&interest));
        let waker = Waker::from(second.clone());
        let (result, before) = interest.poll(&waker);
        drop((before, waker));
        if result.is_pending() {
            second.sleep();
            assert!(interest.poll(Waker::noop()).0.is_ready());
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
        let (first, second) = (interest(&reached, 1, &gone), interest(&reached, 2, &stays));
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
fn loom_a_sleeping_reactor_is_woken_by_whoever_comes() {
    check(3, || {
        let (registry, reached) = (Arc::new(Registry::new()), Arc::new(AtomicBool::new(true)));
        let running = reactor(&registry);
        let other = {
            let (registry, reached) = (registry.clone(), reached.clone());
            thread::spawn(move || {
                let task = Task::new();
                let interest = interest(&reached, 2, &task);
                assert!(registry.register(&interest));
                wait(&interest, &task).unwrap();
            })
        };
        for place in [1, 3] {
            let task = Task::new();
            let interest = interest(&reached, place, &task);
            assert!(registry.register(&interest));
            wait(&interest, &task).unwrap();
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
        let interest = Interest::new(point, Instant::now(), Waker::from(task.clone()), true);
        assert!(registry.register(&interest));
        loop {
            task.sleep();
            if interest.standing() == Standing::Looking
                && let Some(result) = interest.point().look()
            {
                interest.found(result);
            }
            if let (Poll::Ready(result), _) = interest.poll(&Waker::from(task.clone())) {
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
        let interest = interest(&never, 1, &task);
        if registry.register(&interest) {
            assert!(wait(&interest, &task).is_err());
        }
        closing.join().unwrap();
        running.join().unwrap();
    });
}
