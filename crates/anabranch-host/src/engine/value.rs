//! Waits for values in memory.
//!
//! The driver is not notified when a host thread, a kernel or another process writes an address, so parked waits are polled again and
//! again: by one idle worker with growing pauses, by threads that synchronize, and at once after a value written in
//! stream order.

use super::observer::{Observer, Operation, Use};
use crate::ranks;
use crate::shared_file::SharedNumber;
use anabranch_hal::{Reduction, Value};
use anabranch_sync::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// The pause after which a new wait is looked at again.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);

/// The pause that pauses grow to.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// For each time that a look takes, so many times that pass until the next one: looking after many waits leaves time for other work.
const REST: u32 = 8;

/// The longest time that passes for that: a look may have taken long because the system ran something else.
const LONGEST_REST: Duration = Duration::from_millis(10);

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    GreaterOrEqual,
    Equal,
    And,
    Nor,
}

/// A condition on a value in memory.
#[derive(Clone, Copy)]
pub(crate) struct ValueCondition {
    address: u64,
    value: Value,
    comparison: Comparison,
}

impl ValueCondition {
    /// # Safety
    /// `address` is aligned for the value, and is valid, initialised memory whenever the condition is used.
    pub(crate) unsafe fn new(address: u64, value: Value, comparison: Comparison) -> Self {
        Self { address, value, comparison }
    }

    /// The address, and how many bytes are read there.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.address, self.value.width())
    }

    /// What a wait for it uses.
    pub(crate) fn operation(&self) -> Operation {
        Operation::new("a wait for a value", [Use::device(self.address, self.value.width())])
    }

    fn is_satisfied(&self) -> bool {
        match self.value {
            Value::U32(value) => {
                // SAFETY: whoever called `new` keeps the address valid, and it is aligned; others write it in one piece.
                let current = unsafe { AtomicU32::from_ptr(self.address as usize as *mut u32) }.load(Ordering::Acquire);
                match self.comparison {
                    Comparison::GreaterOrEqual => current.wrapping_sub(value).cast_signed() >= 0,
                    Comparison::Equal => current == value,
                    Comparison::And => current & value != 0,
                    Comparison::Nor => !(current | value) != 0,
                }
            }
            Value::U64(value) => {
                // SAFETY: whoever called `new` keeps the address valid, and it is aligned; others write it in one piece.
                let current = unsafe { AtomicU64::from_ptr(self.address as usize as *mut u64) }.load(Ordering::Acquire);
                match self.comparison {
                    Comparison::GreaterOrEqual => current.wrapping_sub(value).cast_signed() >= 0,
                    Comparison::Equal => current == value,
                    Comparison::And => current & value != 0,
                    Comparison::Nor => !(current | value) != 0,
                }
            }
        }
    }
}

/// A condition on a number that this process and others share: that it is at least the value.
#[derive(Clone, Debug)]
pub(crate) struct NumberCondition {
    pub(crate) number: Arc<SharedNumber>,
    pub(crate) value: u64,
}

impl NumberCondition {
    pub(crate) fn is_satisfied(&self) -> bool {
        self.number.get() >= self.value
    }
}

/// What a wait is for.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Value(ValueCondition),
    Number(NumberCondition),
}

/// Where waits are kept: with the others for values in the same eight bytes, which a value is never beyond, or with all those for
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Value(u64),
    Numbers,
}

impl Place {
    fn at(address: u64) -> Self {
        Self::Value(address / 8)
    }

    fn of(condition: &Condition) -> Self {
        match condition {
            Condition::Value(condition) => Self::at(condition.address),
            Condition::Number(_) => Self::Numbers,
        }
    }
}

impl fmt::Debug for ValueCondition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {:?} at {:#x}", self.comparison, self.value, self.address)
    }
}

/// Writes a value in one piece.
///
/// # Safety
/// `address` is aligned for the value, and valid memory.
pub(crate) unsafe fn write_value(address: u64, value: Value) {
    match value {
        Value::U32(value) => {
            // SAFETY: the caller promises that the address is valid, and aligned to 4 bytes.
            unsafe { AtomicU32::from_ptr(address as usize as *mut u32) }.store(value, Ordering::Release);
        }
        Value::U64(value) => {
            // SAFETY: the caller promises that the address is valid, and aligned to 8 bytes.
            unsafe { AtomicU64::from_ptr(address as usize as *mut u64) }.store(value, Ordering::Release);
        }
    }
}

/// Combines a number in memory with a value in one piece.
///
/// # Safety
/// `address` is aligned for the value, and valid, initialised memory.
pub(crate) unsafe fn reduce_value(address: u64, value: Value, reduction: Reduction) {
    match value {
        Value::U32(value) => {
            // SAFETY: the caller promises that the address is valid, and aligned to 4 bytes.
            let number = unsafe { AtomicU32::from_ptr(address as usize as *mut u32) };
            match reduction {
                Reduction::Or => number.fetch_or(value, Ordering::AcqRel),
                Reduction::And => number.fetch_and(value, Ordering::AcqRel),
                Reduction::Add => number.fetch_add(value, Ordering::AcqRel),
            };
        }
        Value::U64(value) => {
            // SAFETY: the caller promises that the address is valid, and aligned to 8 bytes.
            let number = unsafe { AtomicU64::from_ptr(address as usize as *mut u64) };
            match reduction {
                Reduction::Or => number.fetch_or(value, Ordering::AcqRel),
                Reduction::And => number.fetch_and(value, Ordering::AcqRel),
                Reduction::Add => number.fetch_add(value, Ordering::AcqRel),
            };
        }
    }
}

/// Who waits for a value, or for a place of a stream.
pub(crate) trait Resume: fmt::Debug + Send {
    /// What it waits for is there.
    fn resume(self: Box<Self>);

    /// Whether there is no more point in waiting.
    fn is_lost(&self) -> bool;
}

#[derive(Debug)]
struct Wait {
    /// Different for each wait.
    number: u64,
    waiter: Box<dyn Resume>,
    condition: Condition,
}

#[derive(Debug)]
struct Waiting {
    waits: HashMap<Place, Vec<Wait>>,
    count: usize,
    /// How many there have been.
    added: u64,
    pause: Duration,
    due: Instant,
    /// How long the last look took.
    took: Duration,
}

impl Waiting {
    /// When the waits are looked at again after a pause that begins now.
    fn due_after(&self, pause: Duration, now: Instant) -> Instant {
        now + pause.max((self.took * REST).min(LONGEST_REST))
    }
}

/// The streams and nodes that wait for a value.
#[derive(Debug)]
pub(crate) struct ValueWaits {
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
    observer: Option<Arc<dyn Observer>>,
}

impl ValueWaits {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        let (pause, took) = (SHORTEST_PAUSE, Duration::ZERO);
        let waiting = Waiting { waits: HashMap::new(), count: 0, added: 0, pause, due: Instant::now(), took };
        Self { count: AtomicUsize::new(0), waiting: Mutex::new(ranks::VALUES, waiting), observer }
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Looks after a stream that has just been parked, or a node that waits.
    pub(crate) fn add(&self, waiter: Box<dyn Resume>, condition: Condition) {
        let place = Place::of(&condition);
        let number = {
            let mut waiting = self.waiting.lock();
            waiting.added += 1;
            waiting.count += 1;
            let number = waiting.added;
            waiting.waits.entry(place).or_default().push(Wait { number, waiter, condition });
            waiting.pause = SHORTEST_PAUSE;
            // Never later than it was to be: waits may be added all the time.
            waiting.due = waiting.due.min(waiting.due_after(SHORTEST_PAUSE, Instant::now()));
            self.count.store(waiting.count, Ordering::Relaxed);
            number
        };
        // Either this look sees what a value write of another stream wrote, or that write sees the count.
        fence(Ordering::SeqCst);
        self.resume_at(place, |waits| {
            // Mostly it is the last one.
            let index = waits.iter().rposition(|wait| wait.number == number);
            index.filter(|&index| self.is_over(&waits[index])).map(|index| waits.remove(index)).into_iter().collect()
        });
    }

    /// To be called after a value was written in stream order at an address.
    #[inline]
    pub(crate) fn written_at(&self, address: u64) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.resume_at(Place::at(address), |waits| waits.extract_if(.., |wait| self.is_over(wait)).collect());
        }
    }

    /// To be called after anything else that waits may be for has come true.
    #[inline]
    pub(crate) fn changed(&self) {
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.poll();
        }
    }

    /// How long it is until the waits should be looked at again. `None`: there are none.
    pub(crate) fn pause(&self) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        Some(self.waiting.lock().due.saturating_duration_since(Instant::now()))
    }

    /// Whether a condition is satisfied. `None`: the memory was freed, so the wait runs again and is reported.
    pub(crate) fn is_satisfied(&self, condition: &ValueCondition) -> Option<bool> {
        let Some(observer) = &self.observer else { return Some(condition.is_satisfied()) };
        let mut satisfied = None;
        observer.unless_freed(condition.address, &mut || satisfied = Some(condition.is_satisfied()));
        satisfied
    }

    /// Whether what a wait is for is there, its context is lost, or it runs again and is reported.
    fn is_over(&self, wait: &Wait) -> bool {
        let is_there = match &wait.condition {
            Condition::Value(condition) => self.is_satisfied(condition).unwrap_or(true),
            Condition::Number(condition) => condition.is_satisfied(),
        };
        is_there || wait.waiter.is_lost()
    }

    /// Takes some of the waits of a place out, and makes those ready that waited.
    fn resume_at(&self, place: Place, take: impl FnOnce(&mut Vec<Wait>) -> Vec<Wait>) {
        let over = {
            let mut waiting = self.waiting.lock();
            let Entry::Occupied(mut waits) = waiting.waits.entry(place) else { return };
            let over = take(waits.get_mut());
            if waits.get().is_empty() {
                waits.remove();
            }
            waiting.count -= over.len();
            self.count.store(waiting.count, Ordering::Relaxed);
            over
        };
        over.into_iter().for_each(|wait| wait.waiter.resume());
    }

    /// Takes all waits out that are over.
    fn take_over(&self) -> Vec<Wait> {
        let mut waiting = self.waiting.lock();
        let mut over = Vec::new();
        waiting.waits.retain(|_, waits| {
            over.extend(waits.extract_if(.., |wait| self.is_over(wait)));
            !waits.is_empty()
        });
        waiting.count -= over.len();
        self.count.store(waiting.count, Ordering::Relaxed);
        // The same in each run, for orders that are made from a seed.
        over.sort_unstable_by_key(|wait| wait.number);
        over
    }

    /// Makes all those ready whose wait is over, or whose context is lost. Returns whether there were any.
    pub(crate) fn poll(&self) -> bool {
        let begin = Instant::now();
        let over = self.take_over();
        let found = !over.is_empty();
        {
            let (mut waiting, now) = (self.waiting.lock(), Instant::now());
            waiting.took = now - begin;
            waiting.pause = if found { SHORTEST_PAUSE } else { (waiting.pause * 3 / 2).min(LONGEST_PAUSE) };
            waiting.due = waiting.due_after(waiting.pause, now);
        }
        over.into_iter().for_each(|wait| wait.waiter.resume());
        found
    }

    /// Drops all waits, when the driver is dropped.
    pub(crate) fn clear(&self) {
        let mut waiting = self.waiting.lock();
        let waits = std::mem::take(&mut waiting.waits);
        waiting.count = 0;
        self.count.store(0, Ordering::Relaxed);
        drop(waiting);
        drop(waits);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Resume for Nobody {
        fn resume(self: Box<Self>) {}

        fn is_lost(&self) -> bool {
            false
        }
    }

    #[test]
    fn waits_that_are_added_do_not_put_off_the_next_look() {
        let value = AtomicU32::new(0);
        // SAFETY: the number outlives the waits.
        let condition = unsafe { ValueCondition::new(value.as_ptr() as u64, Value::U32(1), Comparison::Equal) };
        let waits = ValueWaits::new(None);
        let add = || waits.add(Box::new(Nobody), Condition::Value(condition));
        add();
        waits.poll();
        {
            // As if there were very many.
            let mut waiting = waits.waiting.lock();
            waiting.took = Duration::from_secs(1);
            waiting.due = waiting.due_after(SHORTEST_PAUSE, Instant::now());
        }
        let begin = Instant::now();
        while begin.elapsed() < LONGEST_REST {
            add();
        }
        assert_eq!(waits.pause(), Some(Duration::ZERO));
        value.store(1, Ordering::Relaxed);
        assert!(waits.poll());
        assert_eq!(waits.pause(), None);
    }
}
