//! Stamps of uses and numbers of marks under loom: every interleaving of a few threads. A mark whose number is larger than
//! a use's stamp must have come after the use in its stream's queue.

use super::{Access, Stamping, Uses};
use crate::stream::Position;
use loom::sync::Mutex;
use loom::thread;
use std::convert::Infallible;
use std::sync::Arc;

/// A stream whose queue is a number of operations, under the lock that a driver has.
struct Queue {
    position: Position,
    queued: Mutex<usize>,
}

impl Stamping for Queue {
    fn is_same_stream(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    fn stamp(&self) -> u64 {
        self.position.now()
    }
}

impl Queue {
    fn new() -> Arc<Self> {
        Arc::new(Self { position: Position::new(), queued: Mutex::new(0) })
    }

    /// An operation that uses the memory, as calls of streams do it. Returns its place in the queue.
    fn operate(self: &Arc<Self>, uses: &Uses<Self>, access: Access) -> usize {
        let position = self.position.now();
        if !uses.stands(self, access, position) {
            uses.add(self, access, |_| Ok::<(), Infallible>(())).unwrap();
        }
        let place = {
            let mut queued = self.queued.lock().unwrap();
            *queued += 1;
            *queued
        };
        if self.position.now() != position {
            uses.stamp(self, access);
        }
        place
    }

    /// A mark: its number, and how many operations are before it.
    fn mark(&self) -> (u64, usize) {
        let number = self.position.advance();
        (number, *self.queued.lock().unwrap())
    }

    /// The latest stamp of the stream in the list.
    fn stamp_in(self: &Arc<Self>, uses: &Uses<Self>) -> u64 {
        let list = uses.list.lock();
        list.all().filter(|last| Arc::ptr_eq(&last.stream, self)).map(|last| last.stamp).max().expect("remembered")
    }
}

fn require_covered((number, before): (u64, usize), stamp: u64, place: usize) {
    assert!(number <= stamp || place <= before, "mark {number} claims a use of stamp {stamp}, which came after it");
}

fn check(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(body);
}

#[test]
fn loom_a_mark_that_claims_a_use_comes_after_it() {
    for access in [Access::Read, Access::Write] {
        check(move || {
            let (stream, uses) = (Queue::new(), Arc::new(Uses::default()));
            // So that the fast path is there to be taken.
            stream.operate(&uses, Access::Write);
            let marks = {
                let stream = stream.clone();
                thread::spawn(move || [stream.mark(), stream.mark()])
            };
            let place = stream.operate(&uses, access);
            let stamp = stream.stamp_in(&uses);
            for mark in marks.join().unwrap() {
                require_covered(mark, stamp, place);
            }
        });
    }
}

#[test]
fn loom_two_readers_of_one_stream_are_covered_by_one_stamp() {
    check(|| {
        let (stream, uses) = (Queue::new(), Arc::new(Uses::default()));
        stream.operate(&uses, Access::Write);
        let reader = {
            let (stream, uses) = (stream.clone(), uses.clone());
            thread::spawn(move || stream.operate(&uses, Access::Read))
        };
        let marks = {
            let stream = stream.clone();
            thread::spawn(move || stream.mark())
        };
        let place = stream.operate(&uses, Access::Read);
        let other = reader.join().unwrap();
        let mark = marks.join().unwrap();
        require_covered(mark, stream.stamp_in(&uses), place.max(other));
    });
}

#[test]
fn loom_readers_of_two_streams_are_both_remembered() {
    check(|| {
        let (first, second, uses) = (Queue::new(), Queue::new(), Arc::new(Uses::default()));
        first.operate(&uses, Access::Write);
        let reader = {
            let (second, uses) = (second.clone(), uses.clone());
            thread::spawn(move || (second.operate(&uses, Access::Read), second.mark()))
        };
        let marks = {
            let first = first.clone();
            thread::spawn(move || first.mark())
        };
        let place = first.operate(&uses, Access::Read);
        let mark = marks.join().unwrap();
        let (other, after) = reader.join().unwrap();
        require_covered(mark, first.stamp_in(&uses), place);
        require_covered(after, second.stamp_in(&uses), other);
        assert!(after.0 > second.stamp_in(&uses), "a mark that follows in the same thread covers the use");
    });
}

#[test]
fn loom_a_use_after_readers_finds_its_own_stamp() {
    check(|| {
        let (stream, other, uses) = (Queue::new(), Queue::new(), Arc::new(Uses::default()));
        let reader = {
            let (other, uses) = (other.clone(), uses.clone());
            thread::spawn(move || other.operate(&uses, Access::Read))
        };
        let marks = {
            let stream = stream.clone();
            thread::spawn(move || stream.mark())
        };
        stream.operate(&uses, Access::Read);
        reader.join().unwrap();
        // A writer, which nobody else meets.
        let place = stream.operate(&uses, Access::Write);
        let mark = marks.join().unwrap();
        require_covered(mark, stream.stamp_in(&uses), place);
        assert_eq!(uses.list.lock().all().count(), 1);
    });
}
