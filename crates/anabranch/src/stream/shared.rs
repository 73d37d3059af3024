//! What all that stand for the same stream share: its capture, and how far it has come in others' eyes and its own.
//!
//! The *position* of a stream counts the marks in it: records of events, and waits of the host for it. It is counted up
//! before the driver is asked to put the mark, and work is stamped with the position that is found after the driver was
//! asked to queue it. So a mark comes after all work with a *smaller* stamp:
//!
//! * The driver's calls on one stream come one after the other, and what a thread did before the earlier is seen by the
//!   thread that makes the later.
//! * If a mark came first and the work later, the thread that queued the work would find the position counted up already,
//!   and stamp the work with the mark's number or more.
//!
//! To stamp work with the position that was found before it was queued would be wrong: between the two another thread could
//! put a mark that does not cover it. Nearly always both are the same, so an operation looks before, and does something
//! about it after only if the position has changed ([`Operation`]).
//!
//! A stream *has followed* another up to a number if it waits for a mark of that number, or for one of a stream that had
//! done so before that mark. It follows then all work of the other with a smaller stamp. The stream is *complete* up to a
//! number if the host has waited for a mark of that number: then nobody need follow smaller stamps any more.

use crate::capture::CaptureSlot;
use crate::clock::Clock;
use crate::memory::Exclusion;
use crate::sync::AtomicU64 as ModelledU64;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The count of marks in a stream.
pub(crate) struct Position(ModelledU64);

impl Position {
    pub(crate) fn new() -> Self {
        Self(ModelledU64::new(0))
    }

    /// The stamp of work that was queued before.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The number of a mark that is put after this.
    #[inline(always)]
    pub(crate) fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }
}

/// An operation that is about to be queued.
pub struct Operation<'a> {
    pub(crate) name: &'static str,
    /// The stream's position before any memory of it was looked at.
    pub(crate) position: u64,
    /// Whether the stream took part in a capture when the operation began.
    pub(crate) was_captured: bool,
    shared: &'a StreamShared,
    /// Keeps the stream from beginning or ceasing to take part in a capture.
    queueing: Cell<Option<Queueing<'a>>>,
    /// Had by an operation that uses memory which a graph keeps.
    exclusion: OnceCell<Exclusion>,
}

impl<'a> Operation<'a> {
    #[inline(always)]
    pub(super) fn new(name: &'static str, shared: &'a StreamShared) -> Self {
        let queueing = Cell::new(Some(shared.queueing()));
        let (position, was_captured) = (shared.position(), shared.capture().is_active());
        Self { name, position, was_captured, shared, queueing, exclusion: OnceCell::new() }
    }

    /// Keeps launches of graphs, and others that use memory which graphs keep, out until this is dropped.
    #[cold]
    pub(crate) fn exclude_others(&self) {
        self.exclusion.get_or_init(Exclusion::of_all);
    }

    /// Calls `join`, which may make the stream take part in a capture. What was looked at before is looked at again when
    /// the operation is queued.
    #[cold]
    pub(crate) fn while_joining<R>(&self, join: impl FnOnce() -> R) -> R {
        drop(self.queueing.take());
        let result = join();
        self.queueing.set(Some(self.shared.queueing()));
        result
    }
}

/// Held while work is queued in a stream, which meanwhile neither begins nor ceases to take part in a capture: what is
/// captured is known to be, and what is not is ordered behind other work, and neither turns into the other.
pub(crate) type Queueing<'a> = RwLockReadGuard<'a, ()>;

/// How long a capture waits for work that is being queued in its streams by others, who may wait themselves.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct StreamShared {
    /// Unique in this process for ever.
    key: u64,
    position: Position,
    complete: AtomicU64,
    /// Whether there is anything in `clock`.
    has_followed: AtomicBool,
    /// Whether another library may capture the stream, so that the driver is asked about it.
    may_be_captured: AtomicBool,
    /// How often the library made the stream wait.
    inserted: AtomicU64,
    clock: Mutex<Clock>,
    capture: CaptureSlot,
    /// Held shared while work is queued in the stream, and alone while it begins or ceases to take part in a capture.
    taking_part: RwLock<()>,
}

/// How many streams a stream remembers to have followed. A program that makes a stream for each task would else remember
/// them all.
const MOST_FOLLOWED: usize = 64;

impl StreamShared {
    pub(super) fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            key: NEXT.fetch_add(1, Ordering::Relaxed),
            position: Position::new(),
            complete: AtomicU64::new(0),
            has_followed: AtomicBool::new(false),
            may_be_captured: AtomicBool::new(false),
            inserted: AtomicU64::new(0),
            clock: Mutex::default(),
            capture: CaptureSlot::default(),
            taking_part: RwLock::default(),
        })
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    #[inline(always)]
    pub(crate) fn capture(&self) -> &CaptureSlot {
        &self.capture
    }

    /// Work is being queued in the stream until this is dropped.
    #[inline(always)]
    pub(crate) fn queueing(&self) -> Queueing<'_> {
        // An operation may be made of others, which are not to wait for a capture that waits for it.
        self.taking_part.read_recursive()
    }

    /// Held while the stream begins or ceases to take part in a capture. `None`: work is being queued in it for so long that
    /// whoever does it may be waiting.
    pub(crate) fn change_part(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.taking_part.try_write_for(PATIENCE)
    }

    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.position.now()
    }

    /// The number of a mark that is put after this, with what the stream has followed before it.
    #[inline(always)]
    pub(crate) fn mark(&self, clock: &mut Clock) -> u64 {
        // What is followed meanwhile is missed, which is only less than could be known.
        if self.has_followed.load(Ordering::Relaxed) {
            clock.copy_from(&self.clock.lock());
        } else {
            clock.clear();
        }
        self.advance()
    }

    /// As [`mark`](Self::mark), for who needs the number only.
    #[inline(always)]
    pub(crate) fn advance(&self) -> u64 {
        self.position.advance()
    }

    /// The stream was made to wait for a mark of another, and all that had followed before it.
    pub(crate) fn follow(&self, stream: u64, number: u64, followed: &Clock) {
        if stream == self.key {
            return;
        }
        let mut clock = self.clock.lock();
        if clock.get(stream) >= number {
            // That mark, or a later one that knew no less, was waited for before.
            return;
        }
        if clock.len() > MOST_FOLLOWED {
            clock.clear();
        }
        clock.advance(stream, number);
        clock.merge(followed);
        self.has_followed.store(true, Ordering::Relaxed);
    }

    /// Whether later work of the stream comes after work of `other` with that stamp.
    pub(crate) fn has_followed(&self, other: &Self, stamp: u64) -> bool {
        other.is_complete(stamp)
            || (self.has_followed.load(Ordering::Relaxed) && self.clock.lock().get(other.key) > stamp)
    }

    /// Whether the host knows work of that stamp to be complete.
    pub(crate) fn is_complete(&self, stamp: u64) -> bool {
        self.complete.load(Ordering::Acquire) > stamp
    }

    /// The host has waited for the mark of that number.
    #[inline]
    pub(crate) fn completed(&self, number: u64) {
        self.complete.fetch_max(number, Ordering::AcqRel);
    }

    #[inline(always)]
    pub(crate) fn may_be_captured(&self) -> bool {
        self.may_be_captured.load(Ordering::Relaxed)
    }

    /// The stream waits for what was perhaps captured by another library, and so perhaps captures now too.
    pub(crate) fn suspect_capture(&self) {
        self.may_be_captured.store(true, Ordering::Relaxed);
    }

    pub(crate) fn count_inserted(&self, count: u64) {
        self.inserted.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed)
    }
}

/// A mark in a stream.
#[derive(Clone)]
pub(crate) struct Reached {
    pub(crate) stream: Arc<StreamShared>,
    pub(crate) number: u64,
}

impl Reached {
    /// A mark that is put after this.
    pub(crate) fn now(stream: &Arc<StreamShared>) -> Self {
        Self { stream: stream.clone(), number: stream.advance() }
    }

    /// The host has waited for it.
    pub(crate) fn note(&self) {
        self.stream.completed(self.number);
    }
}

impl PartialEq for Reached {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stream, &other.stream) && self.number == other.number
    }
}
