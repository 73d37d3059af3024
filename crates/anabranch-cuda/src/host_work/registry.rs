//! The owner of queued closures.
//!
//! A closure is stored by the thread that queues it and taken by the driver's thread. To keep that cheap, nothing is
//! allocated once there have been as many closures at the same time: each part of the registry is a list of slots that
//! are used again. The part is chosen by the stream, so that threads meet there only if they queue in the same one.

use crate::ranks::QUEUED_HOST_WORK;
use anabranch_hal::{Callback, ContextHandle, Failure, HostWork, Status, StreamHandle, contain};
use anabranch_sync::Mutex;
use std::ffi::c_void;
use std::{mem, ptr};

const PART_BITS: u32 = 4;
const SLOT_BITS: u32 = 24;
const PARTS: usize = 1 << PART_BITS;
/// Closures that one part can have at the same time, 16 million.
const MOST_SLOTS: u32 = 1 << SLOT_BITS;

/// A closure of one kind or the other.
pub(crate) enum QueuedWork {
    /// Skipped when the context is in error.
    HostFunction(HostWork),
    /// Run in any case.
    Callback(Callback),
}

/// What the driver knows a closure by: the part of the registry, the slot, and the closure's number in that part. The same
/// key comes again only when a part has had 2^36 closures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkKey(u64);

impl WorkKey {
    fn new(part: usize, slot: u32, number: u64) -> Self {
        Self(number << (PART_BITS + SLOT_BITS) | u64::from(slot) << PART_BITS | part as u64)
    }

    fn part(self) -> usize {
        self.0 as usize % PARTS
    }

    fn slot(self) -> u32 {
        (self.0 >> PART_BITS) as u32 % MOST_SLOTS
    }

    /// The key as an address, which is what the driver takes. It points nowhere.
    pub(crate) fn as_user_data(self) -> *mut c_void {
        // The driver serves 64-bit systems only, on which nothing is lost.
        ptr::without_provenance_mut(self.0 as usize)
    }

    pub(crate) fn from_user_data(data: *mut c_void) -> Self {
        Self(data.addr() as u64)
    }
}

/// Closures that are queued and have not run.
pub(crate) struct QueuedHostWork {
    parts: [Part; PARTS],
}

/// How many closures had been queued in each part at some time.
pub(crate) struct QueuedSoFar([u64; PARTS]);

/// Apart from its neighbours in memory, so that locking one does not slow down the others.
#[repr(align(128))]
struct Part {
    slots: Mutex<Slots>,
}

struct Slots {
    slots: Vec<Slot>,
    /// The first free slot.
    free: Option<u32>,
    /// How many closures have been queued here.
    count: u64,
}

enum Slot {
    Free { next: Option<u32> },
    Taken { number: u64, context: ContextHandle, work: QueuedWork },
}

impl Slots {
    /// Puts a closure into a slot, and says which slot and what number the closure has. The closure comes back if there is
    /// no room.
    #[inline]
    fn insert(&mut self, context: ContextHandle, work: QueuedWork) -> Result<(u32, u64), QueuedWork> {
        let number = self.count + 1;
        let index = match self.free.and_then(|index| Some((index, self.slots.get_mut(index as usize)?))) {
            Some((index, slot)) => {
                if let Slot::Free { next } = *slot {
                    self.free = next;
                }
                *slot = Slot::Taken { number, context, work };
                index
            }
            None => match u32::try_from(self.slots.len()) {
                Ok(index) if index < MOST_SLOTS => {
                    self.slots.push(Slot::Taken { number, context, work });
                    index
                }
                _ => return Err(work),
            },
        };
        self.count = number;
        Ok((index, number))
    }

    /// Empties a slot, unless `wanted` does not want its closure.
    #[inline]
    fn take(&mut self, index: u32, wanted: impl FnOnce(u64, ContextHandle, &QueuedWork) -> bool) -> Option<Taken> {
        let slot = self.slots.get_mut(index as usize)?;
        match slot {
            Slot::Taken { number, context, work } if wanted(*number, *context, work) => {}
            _ => return None,
        }
        match mem::replace(slot, Slot::Free { next: self.free }) {
            Slot::Taken { number, work, .. } => {
                self.free = Some(index);
                Some(Taken { number, work })
            }
            Slot::Free { .. } => None,
        }
    }
}

/// A closure that was taken out, with its number.
struct Taken {
    number: u64,
    work: QueuedWork,
}

impl QueuedHostWork {
    pub(super) const fn new() -> Self {
        Self {
            parts: [const { Part { slots: Mutex::new(QUEUED_HOST_WORK, Slots { slots: Vec::new(), free: None, count: 0 }) } };
                PARTS],
        }
    }

    /// Keeps a closure until it is taken. `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is no room for another; then the
    /// closure is dropped.
    #[inline]
    pub(crate) fn insert(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        work: QueuedWork,
    ) -> anabranch_hal::Result<WorkKey> {
        let part = part_of(stream);
        // The lock is free again when a closure that comes back is dropped.
        let inserted = self.parts[part].slots.lock().insert(context, work);
        match inserted {
            Ok((slot, number)) => Ok(WorkKey::new(part, slot, number)),
            Err(_) => Err(Failure::new(Status::OUT_OF_MEMORY)),
        }
    }

    /// Gives a closure up, to be run or dropped. None if it was taken before.
    #[inline]
    pub(crate) fn take(&self, key: WorkKey) -> Option<QueuedWork> {
        let mut slots = self.parts[key.part()].slots.lock();
        let taken = slots.take(key.slot(), |number, _, _| WorkKey::new(key.part(), key.slot(), number) == key);
        taken.map(|taken| taken.work)
    }

    /// What has been queued up to now.
    pub(crate) fn so_far(&self) -> QueuedSoFar {
        QueuedSoFar(std::array::from_fn(|part| self.parts[part].slots.lock().count))
    }

    /// The context is in error: its host functions will not be run, so they are dropped. Callbacks are still run.
    #[cold]
    pub(crate) fn context_in_error(&self, context: ContextHandle) {
        for work in self.take_all(|_, _, of, work| of == context && matches!(work, QueuedWork::HostFunction(_))) {
            let _ = contain(|| drop(work));
        }
    }

    /// The context is no more: its host functions are dropped, and its callbacks, which are always run, are run with
    /// `CUDA_ERROR_CONTEXT_IS_DESTROYED (709)`, those of a stream in the order in which they were queued. What was
    /// queued after `before` is for another context, to which the driver has given the same handle.
    #[cold]
    pub(crate) fn context_is_gone(&self, context: ContextHandle, before: &QueuedSoFar) {
        for work in self.take_all(|part, number, of, _| of == context && number <= before.0[part]) {
            let _ = contain(|| match work {
                QueuedWork::Callback(callback) => callback(Status::CONTEXT_IS_DESTROYED),
                QueuedWork::HostFunction(function) => drop(function),
            });
        }
    }

    /// The closures that are wanted by their part, number, context and kind. They are for the caller to run or drop,
    /// without the lock: that may queue more.
    fn take_all(&self, wanted: impl Fn(usize, u64, ContextHandle, &QueuedWork) -> bool) -> Vec<QueuedWork> {
        let mut all = Vec::new();
        for (part, Part { slots }) in self.parts.iter().enumerate() {
            let mut slots = slots.lock();
            let mut taken: Vec<Taken> = (0..slots.slots.len() as u32)
                .filter_map(|index| slots.take(index, |number, context, work| wanted(part, number, context, work)))
                .collect();
            drop(slots);
            taken.sort_by_key(|taken| taken.number);
            all.extend(taken.into_iter().map(|taken| taken.work));
        }
        all
    }
}

/// The part for a stream. Handles are addresses, whose lowest bits are all alike, so the highest bits of a product are used.
#[inline]
fn part_of(stream: StreamHandle) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((stream.as_raw() as u64).wrapping_mul(GOLDEN) >> (u64::BITS - PART_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::{PARTS, QueuedHostWork, QueuedWork, WorkKey, part_of};
    use crate::host_work::QUEUED;
    use anabranch_hal::{ContextHandle, HostWork, Status, StreamHandle};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    const FIRST: ContextHandle = ContextHandle::from_raw(0x10);
    const SECOND: ContextHandle = ContextHandle::from_raw(0x20);
    const STREAM: StreamHandle = StreamHandle::from_raw(0x1000);

    /// Counts how often closures were run, and how many there are.
    #[derive(Clone, Default)]
    struct Counts {
        run: Arc<AtomicUsize>,
    }

    impl Counts {
        fn host_function(&self) -> QueuedWork {
            let run = Arc::clone(&self.run);
            QueuedWork::HostFunction(HostWork::new(move || {
                run.fetch_add(1, Ordering::SeqCst);
            }))
        }

        fn callback(&self, expected: Status) -> QueuedWork {
            let run = Arc::clone(&self.run);
            QueuedWork::Callback(Box::new(move |status| {
                assert_eq!(status, expected);
                run.fetch_add(1, Ordering::SeqCst);
            }))
        }

        /// How often they ran, and how many are left.
        fn get(&self) -> (usize, usize) {
            (self.run.load(Ordering::SeqCst), Arc::strong_count(&self.run) - 1)
        }
    }

    fn insert(registry: &QueuedHostWork, context: ContextHandle, work: QueuedWork) -> WorkKey {
        registry.insert(context, STREAM, work).expect("there is room")
    }

    #[test]
    fn what_is_taken_back_is_dropped_and_never_run() {
        let (counts, registry) = (Counts::default(), QueuedHostWork::new());
        let key = insert(&registry, FIRST, counts.host_function());
        assert_eq!(counts.get(), (0, 1));
        drop(registry.take(key));
        assert_eq!(counts.get(), (0, 0));
        assert!(registry.take(key).is_none());
    }

    #[test]
    fn slots_are_used_again_under_other_keys() {
        let (counts, registry) = (Counts::default(), QueuedHostWork::new());
        let keys: Vec<WorkKey> = (0..3).map(|_| insert(&registry, FIRST, counts.host_function())).collect();
        drop(registry.take(keys[1]));
        drop(registry.take(keys[0]));
        let again: Vec<WorkKey> = (0..3).map(|_| insert(&registry, FIRST, counts.host_function())).collect();
        let part = &registry.parts[part_of(STREAM)];
        assert_eq!(part.slots.lock().slots.len(), 4, "two of the three went into slots that were free");
        assert!(registry.take(keys[0]).is_none() && registry.take(keys[1]).is_none());
        assert_eq!(counts.get(), (0, 4));
        for key in again.into_iter().chain([keys[2]]) {
            assert!(registry.take(key).is_some());
        }
        assert_eq!(counts.get(), (0, 0));
    }

    #[test]
    fn a_context_in_error_loses_its_host_functions_and_nothing_else() {
        let (lost, kept, registry) = (Counts::default(), Counts::default(), QueuedHostWork::new());
        for stream in (0..64).map(|stream| StreamHandle::from_raw(stream << 12)) {
            registry.insert(FIRST, stream, lost.host_function()).expect("there is room");
        }
        let callback = insert(&registry, FIRST, kept.callback(Status::SUCCESS));
        let other = insert(&registry, SECOND, kept.host_function());
        registry.context_in_error(FIRST);
        assert_eq!((lost.get(), kept.get()), ((0, 0), (0, 2)));
        assert!(registry.take(callback).is_some() && registry.take(other).is_some());
    }

    #[test]
    fn a_context_that_is_gone_runs_its_callbacks_and_drops_its_host_functions() {
        let (functions, callbacks, registry) = (Counts::default(), Counts::default(), QueuedHostWork::new());
        insert(&registry, FIRST, functions.host_function());
        insert(&registry, FIRST, callbacks.callback(Status::CONTEXT_IS_DESTROYED));
        let before = registry.so_far();
        let later = insert(&registry, FIRST, functions.host_function());
        registry.context_is_gone(FIRST, &before);
        assert_eq!((functions.get(), callbacks.get()), ((0, 1), (1, 0)));
        assert!(registry.take(later).is_some(), "queued since, to a context with the same handle");
    }

    #[test]
    fn callbacks_of_a_context_that_is_gone_run_in_the_order_of_queueing() {
        let registry = QueuedHostWork::new();
        let (sender, receiver) = mpsc::channel();
        let callback = |number: usize| {
            let sender = sender.clone();
            QueuedWork::Callback(Box::new(move |_| sender.send(number).expect("the test listens")))
        };
        let first = insert(&registry, FIRST, callback(0));
        for number in 1..4 {
            insert(&registry, FIRST, callback(number));
        }
        drop(registry.take(first));
        // Into the slot of the first, before all others.
        insert(&registry, FIRST, callback(4));
        registry.context_is_gone(FIRST, &registry.so_far());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn dropping_a_closure_may_queue_another() {
        struct QueuesOnDrop;
        impl Drop for QueuesOnDrop {
            fn drop(&mut self) {
                insert(&QUEUED, SECOND, QueuedWork::HostFunction(HostWork::new(|| ())));
            }
        }
        let context = ContextHandle::from_raw(0x30);
        let captured = QueuesOnDrop;
        insert(&QUEUED, context, QueuedWork::HostFunction(HostWork::new(move || drop(captured))));
        QUEUED.context_in_error(context);
        assert_eq!(QUEUED.take_all(|_, _, of, _| of == SECOND).len(), 1);
    }

    #[test]
    fn threads_that_meet_run_or_drop_each_closure_once() {
        let (counts, registry) = (Counts::default(), QueuedHostWork::new());
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..500 {
                        let key = insert(&registry, FIRST, counts.host_function());
                        if number % 16 == 0 {
                            registry.context_in_error(FIRST);
                        }
                        if let Some(QueuedWork::HostFunction(function)) = registry.take(key) {
                            taken.fetch_add(1, Ordering::SeqCst);
                            function.run();
                        }
                    }
                });
            }
        });
        assert_eq!(counts.get(), (taken.into_inner(), 0));
    }

    #[test]
    fn keys_come_back_as_they_were_and_others_find_nothing() {
        let registry = QueuedHostWork::new();
        let key = WorkKey::new(3, 0xab_cdef, 0x1_2345_6789);
        assert_eq!(WorkKey::from_user_data(key.as_user_data()), key);
        assert_eq!((key.part(), key.slot()), (3, 0xab_cdef));
        for unknown in [WorkKey(0), WorkKey(u64::MAX), key] {
            assert!(registry.take(unknown).is_none());
        }
    }

    #[test]
    fn streams_are_spread_over_the_parts() {
        let mut used = [0; PARTS];
        (1..=256).for_each(|stream| used[part_of(StreamHandle::from_raw(stream * 0x340))] += 1);
        assert!(used.iter().all(|&count| count > 0), "{used:?}");
    }
}
