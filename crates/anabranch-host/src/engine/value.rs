//! Waits for values in memory.
//!
//! Nobody tells the driver when a host thread or a kernel writes an address, so parked waits are looked at again and
//! again: by one idle worker with growing pauses, by threads that synchronise, and at once after a value written in
//! stream order.

use super::stream::StreamState;
use crate::checker::Checker;
use crate::executable::NodeWait;
use anabranch_hal::Value;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// The pause after which a new wait is looked at again.
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);

/// The pause that pauses grow to.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

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
    /// `address` is aligned for the value, and stays valid, initialised memory until the condition is used no more.
    pub(crate) unsafe fn new(address: u64, value: Value, comparison: Comparison) -> Self {
        Self { address, value, comparison }
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The width of the value in bytes.
    pub(crate) fn width(&self) -> u64 {
        self.value.width()
    }

    fn is_satisfied(&self) -> bool {
        match self.value {
            Value::U32(value) => {
                // SAFETY: `new`'s caller vouched for the address; other writers are kernels, which write in one piece.
                let current = unsafe { AtomicU32::from_ptr(self.address as usize as *mut u32) }.load(Ordering::Acquire);
                match self.comparison {
                    Comparison::GreaterOrEqual => current.wrapping_sub(value).cast_signed() >= 0,
                    Comparison::Equal => current == value,
                    Comparison::And => current & value != 0,
                    Comparison::Nor => !(current | value) != 0,
                }
            }
            Value::U64(value) => {
                // SAFETY: as above.
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
            // SAFETY: the caller vouches for the address.
            unsafe { AtomicU32::from_ptr(address as usize as *mut u32) }.store(value, Ordering::Release);
        }
        Value::U64(value) => {
            // SAFETY: as above.
            unsafe { AtomicU64::from_ptr(address as usize as *mut u64) }.store(value, Ordering::Release);
        }
    }
}

/// Who waits for a value.
#[derive(Debug)]
pub(crate) enum ValueWaiter {
    /// A parked stream.
    Stream(Arc<StreamState>),
    /// A node of a graph.
    Node(NodeWait),
}

impl ValueWaiter {
    fn is_lost(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.core.is_lost(),
            Self::Node(wait) => wait.is_lost(),
        }
    }

    fn resume(self) {
        match self {
            Self::Stream(stream) => stream.unpark(true),
            Self::Node(wait) => wait.resume(),
        }
    }
}

#[derive(Debug)]
struct Waiting {
    waits: Vec<(ValueWaiter, ValueCondition)>,
    pause: Duration,
    due: Instant,
}

/// The streams and nodes that wait for a value.
#[derive(Debug)]
pub(crate) struct ValueWaits {
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
    checker: Option<Arc<Checker>>,
}

impl ValueWaits {
    pub(crate) fn new(checker: Option<Arc<Checker>>) -> Self {
        let waiting = Waiting { waits: Vec::new(), pause: SHORTEST_PAUSE, due: Instant::now() };
        Self { count: AtomicUsize::new(0), waiting: Mutex::new(waiting), checker }
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Looks after a stream that has just been parked, or a node that waits.
    pub(crate) fn add(&self, waiter: ValueWaiter, condition: ValueCondition) {
        {
            let mut waiting = self.waiting.lock();
            waiting.waits.push((waiter, condition));
            waiting.pause = SHORTEST_PAUSE;
            waiting.due = Instant::now() + SHORTEST_PAUSE;
            self.count.store(waiting.waits.len(), Ordering::Relaxed);
        }
        // Either this look sees what a value write of another stream wrote, or that write sees the count.
        fence(Ordering::SeqCst);
        self.poll();
    }

    /// To be called after a value was written in stream order.
    #[inline]
    pub(crate) fn written(&self) {
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

    /// Whether a condition is satisfied. `None`: the memory was freed, and whoever waits for it is to look again, and be told.
    pub(crate) fn is_satisfied(&self, condition: &ValueCondition) -> Option<bool> {
        match &self.checker {
            None => Some(condition.is_satisfied()),
            Some(checker) => checker.unless_freed(condition.address, || condition.is_satisfied()),
        }
    }

    /// Makes those ready whose wait is over, or whose context is lost. Returns whether there were any.
    pub(crate) fn poll(&self) -> bool {
        let over: Vec<_> = {
            let mut waiting = self.waiting.lock();
            let over: Vec<_> = waiting
                .waits
                .extract_if(.., |(waiter, condition)| self.is_satisfied(condition).unwrap_or(true) || waiter.is_lost())
                .collect();
            waiting.pause = if over.is_empty() { (waiting.pause * 3 / 2).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
            waiting.due = Instant::now() + waiting.pause;
            self.count.store(waiting.waits.len(), Ordering::Relaxed);
            over
        };
        let found = !over.is_empty();
        for (waiter, _) in over {
            waiter.resume();
        }
        found
    }

    /// Forgets all waits, when the driver goes.
    pub(crate) fn clear(&self) {
        let mut waiting = self.waiting.lock();
        let waits = std::mem::take(&mut waiting.waits);
        self.count.store(0, Ordering::Relaxed);
        drop(waiting);
        drop(waits);
    }
}
