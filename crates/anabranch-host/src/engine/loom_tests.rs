//! The queue protocol under every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p anabranch-host --release --lib loom`
//!
//! Queues, completion and barriers are the real ones. What runs them here is as small as can be: a line of tokens stands for
//! the scheduler. Threads run what they find and end; what is left is run by the main thread afterwards. If an entry is
//! then still not complete, a token or a wake-up was lost, or entries wait for each other in a cycle. One model has the real
//! scheduler, and no queues.

mod line;

use super::legacy::LegacyOrder;
use super::scheduler::{Absence, Scheduler, WorkerAction};
use crate::ranks;
use line::{Entry, Line, Tokens, wait, work};
use loom::thread;
use std::collections::VecDeque;
use std::sync::Arc;

fn check(bound: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    // Threads that wait for each other in the middle of a step take many.
    builder.max_branches = 20_000;
    builder.check(body);
}

fn tokens() -> Arc<Tokens> {
    Arc::new(Tokens::new(ranks::READY, VecDeque::new()))
}

#[test]
fn loom_no_entry_is_lost_between_enqueuing_and_going_idle() {
    check(6, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        line.put(Entry::Note(1));
        let worker = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || work(&tokens))
        };
        line.put(Entry::Note(2));
        line.put(Entry::Note(3));
        worker.join().unwrap();
        work(&tokens);
        assert!(line.is_finished());
        assert_eq!(line.notes(), [1, 2, 3]);
    });
}

#[test]
fn loom_one_thread_at_a_time_runs_a_stream() {
    check(4, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        line.put(Entry::Note(1));
        let second = line.put(Entry::Note(2));
        let worker = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || work(&tokens))
        };
        let other = {
            let (line, tokens) = (Arc::clone(&line), Arc::clone(&tokens));
            thread::spawn(move || {
                wait(&line, 1);
                // Giving the stream back after the first entry may have queued a token, which is a worker's to take.
                work(&tokens);
            })
        };
        wait(&line, second);
        worker.join().unwrap();
        other.join().unwrap();
        assert_eq!(line.notes(), [1, 2]);
    });
}

#[test]
fn loom_what_is_put_in_while_a_thread_helps_is_left_to_a_worker() {
    check(6, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        let first = line.put(Entry::Note(1));
        let other = {
            let line = Arc::clone(&line);
            thread::spawn(move || wait(&line, first))
        };
        line.put(Entry::Note(2));
        other.join().unwrap();
        work(&tokens);
        assert!(line.is_finished());
        assert_eq!(line.notes(), [1, 2]);
    });
}

#[test]
fn loom_two_threads_that_wait_run_nothing_that_comes_behind() {
    check(6, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        let first = line.put(Entry::Note(1));
        line.put(Entry::Note(2));
        let other = {
            let line = Arc::clone(&line);
            thread::spawn(move || wait(&line, first))
        };
        wait(&line, first);
        other.join().unwrap();
        // `run` asserts that neither has run the second entry.
        work(&tokens);
        assert_eq!(line.notes(), [1, 2]);
    });
}

#[test]
fn loom_a_waiting_thread_is_woken() {
    check(6, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        let sequence = line.put(Entry::Note(1));
        let worker = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || work(&tokens))
        };
        wait(&line, sequence);
        assert_eq!(line.notes(), [1]);
        worker.join().unwrap();
    });
}

#[test]
fn loom_a_parked_stream_is_woken() {
    check(4, || {
        let tokens = tokens();
        let (first, second) = (Line::new(&tokens), Line::new(&tokens));
        let awaited = first.put(Entry::Note(1));
        second.put(Entry::WaitFor((Arc::clone(&first), awaited)));
        let last = second.put(Entry::Note(2));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let tokens = Arc::clone(&tokens);
                thread::spawn(move || work(&tokens))
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        work(&tokens);
        assert!(second.completion.is_complete(last));
        assert_eq!((first.notes(), second.notes()), (vec![1], vec![2]));
    });
}

#[test]
fn loom_a_thread_that_waits_follows_the_chain() {
    check(4, || {
        let tokens = tokens();
        let (first, second) = (Line::new(&tokens), Line::new(&tokens));
        let awaited = first.put(Entry::Note(1));
        second.put(Entry::WaitFor((Arc::clone(&first), awaited)));
        let last = second.put(Entry::Note(2));
        let worker = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || work(&tokens))
        };
        wait(&second, last);
        assert_eq!((first.notes(), second.notes()), (vec![1], vec![2]));
        worker.join().unwrap();
    });
}

#[test]
fn loom_legacy_and_blocking_streams_never_wait_in_a_cycle() {
    check(6, || {
        let tokens = tokens();
        let (legacy, blocking) = (Line::new(&tokens), Line::new(&tokens));
        let order = Arc::new(LegacyOrder::new());
        blocking.put_blocking(&order, &legacy, 1);
        let other = {
            let (legacy, blocking, order) = (Arc::clone(&legacy), Arc::clone(&blocking), Arc::clone(&order));
            thread::spawn(move || legacy.put_legacy(&order, &[blocking], 2))
        };
        blocking.put_blocking(&order, &legacy, 3);
        other.join().unwrap();
        work(&tokens);
        assert!(legacy.is_finished() && blocking.is_finished());
        assert_eq!((legacy.notes(), blocking.notes()), (vec![2], vec![1, 3]));
    });
}

#[test]
fn loom_two_threads_on_the_legacy_stream_wait_in_no_cycle_either() {
    check(4, || {
        let tokens = tokens();
        let (legacy, one, two) = (Line::new(&tokens), Line::new(&tokens), Line::new(&tokens));
        let order = Arc::new(LegacyOrder::new());
        let other = {
            let (legacy, one, two, order) =
                (Arc::clone(&legacy), Arc::clone(&one), Arc::clone(&two), Arc::clone(&order));
            thread::spawn(move || {
                two.put_blocking(&order, &legacy, 1);
                legacy.put_legacy(&order, &[one, two], 2);
            })
        };
        one.put_blocking(&order, &legacy, 3);
        legacy.put_legacy(&order, &[Arc::clone(&one), Arc::clone(&two)], 4);
        one.put_blocking(&order, &legacy, 5);
        other.join().unwrap();
        work(&tokens);
        assert!(legacy.is_finished() && one.is_finished() && two.is_finished());
    });
}

#[test]
fn loom_two_threads_put_in_across_blocks() {
    check(4, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        // A block has three places here.
        line.put(Entry::Note(1));
        line.put(Entry::Note(2));
        let other = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.put(Entry::Note(3)))
        };
        let own = line.put(Entry::Note(4));
        let sequences = [own, other.join().unwrap()];
        assert!(sequences == [3, 4] || sequences == [4, 3]);
        work(&tokens);
        assert!(line.is_finished());
        let expected = if own == 3 { [1, 2, 4, 3] } else { [1, 2, 3, 4] };
        assert_eq!(line.notes(), expected);
    });
}

#[test]
fn loom_entries_are_taken_out_while_a_block_is_appended_and_one_is_used_again() {
    check(2, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        (0..2).for_each(|note| {
            line.put(Entry::Note(note));
        });
        let worker = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || work(&tokens))
        };
        // The first block is full with the third entry, and may be the third block as well.
        (2..7).for_each(|note| {
            line.put(Entry::Note(note));
        });
        worker.join().unwrap();
        work(&tokens);
        assert!(line.is_finished());
        assert!(line.notes().into_iter().eq(0..7));
    });
}

#[test]
fn loom_what_an_end_does_not_count_sees_what_came_before_the_look() {
    check(6, || {
        let tokens = tokens();
        let line = Line::new(&tokens);
        let seen = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let other = {
            let (line, seen) = (Arc::clone(&line), Arc::clone(&seen));
            thread::spawn(move || {
                let sequence = line.put(Entry::Note(1));
                (sequence, seen.load(std::sync::atomic::Ordering::Relaxed))
            })
        };
        seen.store(1, std::sync::atomic::Ordering::Relaxed);
        let end = line.queue.enqueued_in_order();
        let (sequence, saw) = other.join().unwrap();
        assert!(sequence <= end || saw == 1);
        work(&tokens);
    });
}

#[test]
fn loom_a_task_finds_a_worker_in_place_of_one_that_begins_host_work() {
    check(6, || {
        let scheduler = Arc::new(Scheduler::new(1));
        // The only worker runs a task.
        let WorkerAction::Start = scheduler.push(0, 1) else { panic!("there is a worker already") };
        assert_eq!(scheduler.pop(), Some(1));
        scheduler.lock().searching = 0;
        let worker = {
            let scheduler = Arc::clone(&scheduler);
            thread::spawn(move || {
                scheduler.leave_place(Absence::Blocked)
                    && matches!(scheduler.request_worker(&mut scheduler.lock()), WorkerAction::Start)
            })
        };
        let is_started = matches!(scheduler.push(0, 2), WorkerAction::Start);
        assert!(worker.join().unwrap() != is_started, "one of the two starts a worker");
    });
}
