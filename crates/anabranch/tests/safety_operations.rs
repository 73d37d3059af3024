//! Operations that are composed of very many others. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, Context, Error, Operation, Result, RunTarget, Status, StreamPolicy, StreamPool};
use common::host;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More parts than the stack has room for, if each takes any of it.
const LINKS: usize = 100_000;

/// The same where each part makes calls of the driver.
const FORKS: usize = 3_000;

/// Runs it on a stack that has room for little more than the calls of the test itself.
fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(256 << 10);
        small.spawn_scoped(scope, run).unwrap().join().unwrap_or_else(|panic| resume_unwind(panic));
    });
}

fn error() -> Error {
    Error::argument(Status::INVALID_VALUE, "testing", "on purpose")
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// An operation whose value is the number of its parts, each of which makes one of it.
type Whole = Operation<'static, usize>;

fn one() -> Whole {
    Operation::new(|_| Ok(1))
}

fn sum(parts: Operation<'static, (usize, usize)>) -> Whole {
    parts.then(|_, (left, right)| Ok(left + right))
}

fn chosen_inside(count: usize) -> Whole {
    one().and_then(move |one| match count {
        1 => Operation::value(one),
        _ => chosen_inside(count - 1).then(move |_, others| Ok(one + others)),
    })
}

fn last_chosen_inside(made: usize, count: usize) -> Whole {
    Operation::value(made).and_then(move |made| match count - made {
        0 => Operation::value(made),
        _ => last_chosen_inside(made + 1, count),
    })
}

/// Composes an operation of so many parts.
type Compose = fn(usize) -> Whole;

const WAYS: [(&str, Compose); 8] = [
    ("then", |count| (1..count).fold(one(), |whole, _| whole.then(|_, others| Ok(others + 1)))),
    ("and_then", |count| {
        (1..count).fold(one(), |whole, _| whole.and_then(|others| one().then(move |_, one| Ok(others + one))))
    }),
    ("and_then, inside", chosen_inside),
    ("and_then, inside and last", |count| last_chosen_inside(0, count)),
    ("zip, on the left", |count| (1..count).fold(one(), |whole, _| sum(whole.zip(one())))),
    ("zip, on the right", |count| (1..count).fold(one(), |whole, _| sum(one().zip(whole)))),
    ("zip, in turns", |count| {
        (1..count).fold(one(), |whole, turn| sum(if turn % 2 == 0 { whole.zip(one()) } else { one().zip(whole) }))
    }),
    ("all", |count| {
        let add = |parts: Operation<'static, Vec<usize>>| parts.then(|_, parts| Ok(parts.into_iter().sum()));
        (1..count).fold(one(), |whole, turn| {
            let mut parts = vec![Operation::value(0), one(), Operation::value(0)];
            parts.insert(turn % 4, whole);
            add(Operation::all(parts))
        })
    }),
];

/// Runs operations of so many parts.
fn run_all(target: &(impl RunTarget + Sync), count: usize) {
    for (way, compose) in WAYS {
        on_a_small_stack(|| assert_eq!(compose(count).run(target).unwrap(), count, "{way}"));
    }
}

fn pool(context: &Context, count: usize) -> StreamPool {
    StreamPool::new(context, count, StreamPolicy::RoundRobin).unwrap()
}

#[test]
fn safety_100_operations_of_very_many_parts_are_run_in_a_stream() {
    run_all(&host().create_stream().unwrap(), LINKS);
}

#[test]
fn safety_100_operations_of_very_many_parts_are_run_on_a_pool() {
    run_all(&pool(&host(), 3), FORKS);
}

#[test]
fn safety_100_operations_of_very_many_parts_are_dropped() {
    for (way, compose) in WAYS {
        let dropped = Arc::new(AtomicUsize::new(0));
        let last = Counted(dropped.clone());
        on_a_small_stack(move || drop(compose(LINKS).then(move |_, value| Ok((value, last)))));
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "{way}");
    }
}

#[test]
fn safety_100_operations_of_very_many_parts_are_given_up_when_one_fails_or_unwinds() {
    fn give_up(target: &(impl RunTarget + Sync), count: usize, end: fn() -> Result<usize>) {
        let dropped = Arc::new(AtomicUsize::new(0));
        // The first, so that all that is composed with it is still to do, and the last, so that all of it is done.
        let first = |dropped: Arc<AtomicUsize>| {
            let counted = Counted(dropped.clone());
            let fails = Operation::new(move |_| {
                drop(counted);
                end()
            });
            (1..count).fold(fails, |whole, turn| {
                let counted = Counted(dropped.clone());
                match turn % 4 {
                    0 => whole.then(move |_, value| Ok((value, counted).0)),
                    1 => whole.and_then(move |value| Operation::value((value, counted).0)),
                    2 => sum(whole.zip(Operation::new(move |_| Ok((1, counted).0)))),
                    _ => Operation::all([whole, Operation::value(1)]).then(move |_, mut values| {
                        drop(counted);
                        Ok(values.remove(0))
                    }),
                }
            })
        };
        on_a_small_stack(|| {
            let result = catch_unwind(AssertUnwindSafe(|| first(dropped.clone()).run(target)));
            assert!(!matches!(result, Ok(Ok(_))));
        });
        assert_eq!(dropped.load(Ordering::SeqCst), count);
        // In the middle of as many parts that wait for it.
        on_a_small_stack(|| {
            let last = (1..count).fold(Operation::new(move |_| end()), |whole, _| sum(one().zip(whole)));
            let result = catch_unwind(AssertUnwindSafe(|| last.run(target)));
            assert!(!matches!(result, Ok(Ok(_))));
        });
    }
    let context = host();
    for end in [|| Err(error()), || resume_unwind(Box::new("on purpose"))] {
        give_up(&context.create_stream().unwrap(), LINKS, end);
        give_up(&pool(&context, 3), FORKS, end);
    }
}

/// Counts its drops, and unwinds in each.
struct Unwinds {
    _counted: Counted,
}

impl Drop for Unwinds {
    fn drop(&mut self) {
        resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn safety_100_parts_that_unwind_when_they_are_dropped_keep_no_other_from_being_dropped() {
    let context = host();
    let pool = pool(&context, 2);
    let composed = |dropped: &Arc<AtomicUsize>, end: fn() -> Result<usize>| {
        let unwinds = || Unwinds { _counted: Counted(dropped.clone()) };
        let values = (0..3).map(|_| Operation::value(Some(unwinds())));
        let whole = Operation::all(values.chain([Operation::new(move |_| end().map(|_| None))]));
        let next = unwinds();
        let whole = whole.then(move |_, values| {
            drop(next);
            Ok(values.len())
        });
        (0..3).fold(whole, |whole, _| {
            let next = unwinds();
            sum(whole.zip(Operation::new(move |_| Ok((1, next).0))))
        })
    };
    let ends: [fn(Operation<'_, usize>, &StreamPool); 2] =
        [|whole, _| drop(whole), |whole, pool| drop(whole.queue(pool))];
    let fails: [fn() -> Result<usize>; 2] = [|| Err(error()), || resume_unwind(Box::new("on purpose"))];
    for end in ends {
        for fails in fails {
            let dropped = Arc::new(AtomicUsize::new(0));
            let whole = composed(&dropped, fails);
            assert!(catch_unwind(AssertUnwindSafe(|| end(whole, &pool))).is_err());
            assert_eq!(dropped.load(Ordering::SeqCst), 7);
        }
    }
    assert_eq!(sum(one().zip(one())).run(&pool).unwrap(), 2);
}

#[test]
fn safety_100_values_that_unwind_are_dropped_beside_closures_that_do_when_streams_cannot_join() {
    /// One stream cannot wait for another where both capture, each for itself.
    fn part<'a>(dropped: &Arc<AtomicUsize>) -> Operation<'a, Unwinds> {
        let value = Unwinds { _counted: Counted(dropped.clone()) };
        Operation::new(move |stream| {
            stream.begin_capture(CaptureMode::Relaxed)?;
            Ok(value)
        })
    }
    type Values = (Unwinds, Unwinds);
    /// Composes more, with one more value, and queues it.
    type Follow = fn(Operation<'_, Values>, Unwinds, &StreamPool) -> Result<()>;
    let follow: [Follow; 4] = [
        |parts, next, pool| Operation::value(next).zip(parts).queue(pool).map(drop),
        |parts, next, pool| {
            let left = parts.then(|_, (left, _right)| Ok(left));
            Operation::all([left, Operation::value(next)]).queue(pool).map(drop)
        },
        |parts, next, pool| parts.then(move |_, values| Ok((values, next))).queue(pool).map(drop),
        |parts, next, pool| parts.and_then(move |values| Operation::value((values, next))).queue(pool).map(drop),
    ];
    for follow in follow {
        let dropped = Arc::new(AtomicUsize::new(0));
        let next = Unwinds { _counted: Counted(dropped.clone()) };
        let pool = pool(&host(), 2);
        let parts = part(&dropped).zip(part(&dropped));
        assert!(catch_unwind(AssertUnwindSafe(|| follow(parts, next, &pool))).is_err());
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
    }
}
