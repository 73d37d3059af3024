//! The access history of a piece of memory: which streams use it, and the order between them.
//!
//! Each use is noted with its stream and the value of the stream's timeline when it was queued. If only one stream has
//! used the memory, and no point was added to its timeline since, a further use in that stream needs nothing and costs
//! a few loads. If several streams use the memory, a reader follows the last writer. A writer, and freeing the memory,
//! follow the last writer and all readers since. If the later stream has not followed the earlier one up to that value,
//! an event is recorded on the earlier stream at that moment, which covers at least what is needed, and the later
//! stream waits for it.

use crate::error::Result;
use crate::helping::helping;
use crate::host_work::refuse_inside;
use crate::ranks;
use crate::stream::{OpenStream, StreamCore, SyncEvent};
use anabranch_hal::Access;
use anabranch_sync::modelled::{AtomicU64, AtomicUsize, Mutex};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Set in [`AccessHistory::sole`] when no use of the sole stream is later than its last write.
const WROTE: usize = 1;

/// The uses of one piece of memory.
///
/// # Several threads
/// Conflicting uses are queued one after the other, because the memory is borrowed mutably for one of them, and the
/// later use sees what the earlier one wrote here. So only readers can run concurrently here. Without the lock they
/// only load `sole` and `value`. At the same time other readers, which hold the lock, may note a later use of the same
/// stream, or add another stream, after which `sole` is 0: readers never change it from one stream to another. `value`
/// is written before `sole`. A reader therefore finds the value of the stream that it finds in `sole`, or a later value
/// of the same stream. In every case, the list contains the stream's last use with that value or a later one, until a
/// writer follows it.
pub struct AccessHistory {
    /// The address of the only stream in `list`, with [`WROTE`], or 0. Written under the list's lock only.
    sole: AtomicUsize,
    /// The timeline value of its last use.
    value: AtomicU64,
    list: Mutex<List>,
}

/// A stream's last use.
#[derive(Clone)]
pub struct LastUse {
    /// The stream.
    pub stream: Arc<StreamCore>,
    /// The value of its timeline after the use was queued.
    pub value: u64,
}

impl LastUse {
    /// Whether the work is known to be complete, or the stream has ended and the driver says so.
    fn is_over(&self) -> bool {
        let is_recorded_as_over = || match self.stream.sync_event() {
            Ok(event) => event.is_none_or(|event| event.is_over()),
            // Of work that nobody can wait for, it is not known.
            Err(_) => false,
        };
        self.stream.shared().timeline().is_complete(self.value) || (!self.stream.is_live() && is_recorded_as_over())
    }
}

#[derive(Default)]
struct List {
    /// The last writer, or several, one for each stream, if threads write disjoint parts of the memory at the same
    /// time.
    writers: SmallVec<[LastUse; 1]>,
    /// Readers since the last write, one for each stream. One that read another part than the writer wrote may have been
    /// noted without being ordered after it.
    readers: SmallVec<[LastUse; 2]>,
    /// With so many readers, those that are over are looked for.
    sweep_at: usize,
}

/// With so many readers they are looked through for the first time.
const FIRST_SWEEP: usize = 16;

/// Notes a stream's last use among others. The stream may have been opened several times, and some of its objects may
/// have ended. The object that uses it now has not.
fn note(uses: &mut SmallVec<impl smallvec::Array<Item = LastUse>>, mut last: LastUse) {
    match uses.iter_mut().find(|other| other.stream.is_same(&last.stream)) {
        Some(other) => {
            last.value = last.value.max(other.value);
            *other = last;
        }
        None => uses.push(last),
    }
}

impl List {
    /// Readers first: they mostly follow the writer.
    fn all(&self) -> impl Iterator<Item = &LastUse> {
        self.readers.iter().chain(&self.writers)
    }

    /// The uses that a use must follow.
    fn before(&self, access: Access) -> impl Iterator<Item = &LastUse> {
        let (readers, writers) = match access {
            Access::Read => (&[][..], &self.writers[..]),
            Access::Write => (&self.readers[..], &self.writers[..]),
        };
        readers.iter().chain(writers)
    }

    /// The uses that a use must follow and does not. What was followed is known to be, even where the stream's timeline has
    /// forgotten it.
    fn missing(&self, stream: &StreamCore, access: Access, followed: &[LastUse]) -> SmallVec<[LastUse; 3]> {
        let is_followed = |earlier: &LastUse| {
            let covers =
                |followed: &LastUse| followed.stream.is_same(&earlier.stream) && followed.value >= earlier.value;
            stream.is_after(&earlier.stream, earlier.value) || followed.iter().any(covers)
        };
        self.before(access).filter(|earlier| !is_followed(earlier)).cloned().collect()
    }

    /// Notes a use.
    fn add(&mut self, stream: &Arc<StreamCore>, access: Access, value: u64) {
        let last = LastUse { stream: stream.clone(), value };
        match access {
            Access::Write => {
                self.readers.clear();
                self.writers.clear();
                self.writers.push(last);
            }
            Access::Read => note(&mut self.readers, last),
        }
    }

    /// Gives a use that is already noted a later value. Another writer, of another part, may have been noted after it.
    fn update(&mut self, stream: &Arc<StreamCore>, access: Access, value: u64) {
        let last = LastUse { stream: stream.clone(), value };
        match access {
            Access::Write => note(&mut self.writers, last),
            Access::Read => note(&mut self.readers, last),
        }
    }

    /// The values of `sole` and `value` for this list.
    fn sole(&self) -> (usize, u64) {
        let mut uses = self.all();
        let Some(first) = uses.next() else { return (0, 0) };
        let mut value = first.value;
        for last in uses {
            if !Arc::ptr_eq(&first.stream, &last.stream) {
                return (0, 0);
            }
            value = value.max(last.value);
        }
        let wrote = self.writers.iter().any(|writer| writer.value == value);
        (Arc::as_ptr(&first.stream) as usize | if wrote { WROTE } else { 0 }, value)
    }
}

impl Default for AccessHistory {
    fn default() -> Self {
        Self {
            sole: AtomicUsize::new(0),
            value: AtomicU64::new(0),
            list: Mutex::new(ranks::ACCESS_HISTORY, List::default()),
        }
    }
}

impl AccessHistory {
    /// The history of memory that a stream has just allocated: other streams must come after that, as after a write.
    pub fn begin(stream: &Arc<StreamCore>, value: u64) -> Self {
        let writer = LastUse { stream: stream.clone(), value };
        let list = List { writers: SmallVec::from_buf([writer]), ..List::default() };
        Self {
            sole: AtomicUsize::new(Arc::as_ptr(stream) as usize | WROTE),
            value: AtomicU64::new(value),
            list: Mutex::new(ranks::ACCESS_HISTORY, list),
        }
    }

    /// Whether only that stream has used the memory. There will be no more uses.
    pub fn is_only_of(&self, stream: &Arc<StreamCore>) -> bool {
        self.sole.load(Ordering::Acquire) & !WROTE == Arc::as_ptr(stream) as usize
    }

    /// Whether a use at that timeline value is already ordered by an earlier one, and need not be noted.
    #[inline(always)]
    pub fn is_ordered(&self, stream: &Arc<StreamCore>, access: Access, value: u64) -> bool {
        let sole = self.sole.load(Ordering::Acquire);
        let address = Arc::as_ptr(stream) as usize;
        // Not to be confused with another stream at the same address: while it is in `sole` it is in the list, which holds a
        // reference.
        (sole == address | WROTE || (sole == address && access == Access::Read))
            && self.value.load(Ordering::Relaxed) == value
    }

    /// Notes a use that is about to be queued, and orders it after the earlier uses. From now on others treat it as
    /// queued. If it is refused afterwards, they only wait for more than they need.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order, for a use that the user has not ordered; otherwise any error
    /// that the driver returns.
    #[cold]
    #[inline(never)]
    pub fn order(&self, stream: &OpenStream, access: Access, operation: &'static str) -> Result<()> {
        let mut followed = SmallVec::<[LastUse; 3]>::new();
        loop {
            let missing = {
                let mut list = self.list.lock();
                let missing = list.missing(stream, access, &followed);
                if missing.is_empty() {
                    // The value is read after the stream was made to wait, so that a point that covers this use covers the
                    // wait too, even if nothing is queued in the end.
                    list.add(stream, access, stream.shared().timeline().value());
                    self.publish(&list);
                    break;
                }
                missing
            };
            // Unlocked: the stream may have no room, and wait until the program makes some. Meanwhile others may have noted
            // uses of other parts of the memory.
            for earlier in &missing {
                // Following a reader may have been enough.
                if stream.is_after(&earlier.stream, earlier.value) {
                    continue;
                }
                if stream.context().is_order_strict() {
                    return Err(stream.refuse_order(&earlier.stream.place(), operation));
                }
                if stream.follow(&earlier.stream)? {
                    stream.count_orders(1);
                }
            }
            followed.extend(missing);
        }
        if access == Access::Read {
            self.sweep();
        }
        // If what follows is refused, others who wait for this use still come after the uses before it.
        if stream.is_per_thread() {
            stream.record_sync_now();
        }
        Ok(())
    }

    /// Forgets readers that are over, if there are many: memory that nobody writes may be read in streams without number, each of
    /// which ends.
    fn sweep(&self) {
        let readers = {
            let list = self.list.lock();
            if list.readers.len() < list.sweep_at.max(FIRST_SWEEP) {
                return;
            }
            list.readers.clone()
        };
        // Unlocked: a driver may run work of the program when it is asked.
        let over: SmallVec<[LastUse; 2]> = readers.into_iter().filter(LastUse::is_over).collect();
        let is_over = |reader: &LastUse| {
            over.iter().any(|over| Arc::ptr_eq(&over.stream, &reader.stream) && over.value == reader.value)
        };
        let mut list = self.list.lock();
        let (forgotten, left): (SmallVec<[_; 2]>, SmallVec<[_; 2]>) =
            std::mem::take(&mut list.readers).into_iter().partition(is_over);
        list.readers = left;
        list.sweep_at = list.readers.len() * 2;
        self.publish(&list);
        drop(list);
        drop(forgotten);
    }

    /// Gives a use a later value after it was queued.
    #[cold]
    #[inline(never)]
    pub fn update(&self, stream: &Arc<StreamCore>, access: Access) {
        let mut list = self.list.lock();
        list.update(stream, access, stream.shared().timeline().value());
        self.publish(&list);
    }

    /// Lets all later uses follow an earlier one, of the same memory under another history.
    pub fn begin_after(&self, earlier: LastUse) {
        let mut list = self.list.lock();
        note(&mut list.writers, earlier);
        self.publish(&list);
    }

    fn publish(&self, list: &List) {
        let (sole, value) = list.sole();
        if sole != 0 {
            self.value.store(value, Ordering::Relaxed);
        }
        self.sole.store(sole, Ordering::Release);
    }

    /// The error in strict order of a use that the program has not ordered. It changes nothing.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check(&self, stream: &StreamCore, access: Access, operation: &'static str) -> Result<()> {
        let list = self.list.lock();
        match list.before(access).find(|earlier| !stream.is_after(&earlier.stream, earlier.value)) {
            Some(earlier) => Err(stream.refuse_order(&earlier.stream.place(), operation)),
            None => Ok(()),
        }
    }

    /// Blocks until the host may use the memory. To read it, the last write must be complete; to write it, all uses
    /// must be complete.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn synchronize(&self, access: Access) -> Result<()> {
        self.sync_events(access)?.iter().try_for_each(SyncEvent::synchronize)?;
        self.forget(access);
        Ok(())
    }

    /// Forgets the uses that conflict with `access`, which are complete. The caller has borrowed the memory, so none
    /// was added in the meantime.
    pub fn forget(&self, access: Access) {
        // To read, the writer stays after its work is complete: others may be ordered by it.
        if access == Access::Write {
            let mut list = self.list.lock();
            let forgotten = std::mem::take(&mut *list);
            self.publish(&list);
            drop(list);
            drop(forgotten);
        }
    }

    /// Whether the host may use the memory at this moment. Called with no lock held.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn is_over(&self, access: Access) -> Result<bool> {
        let events = self.sync_events(access)?;
        let _helping = helping();
        Ok(events.iter().all(SyncEvent::is_over))
    }

    /// Events that are reached when the uses that conflict with `access` are complete. Uses that are known to be
    /// complete have none.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function; otherwise any error that the driver returns.
    pub fn sync_events(&self, access: Access) -> Result<Vec<SyncEvent>> {
        let pending: SmallVec<[LastUse; 3]> = {
            let list = self.list.lock();
            let is_pending = |last: &&LastUse| !last.stream.shared().timeline().is_complete(last.value);
            list.before(access).filter(is_pending).cloned().collect()
        };
        // Unlocked: a stream may have no room for a record, and wait until the program makes some.
        let mut events = Vec::new();
        for last in pending {
            refuse_inside("waiting for work that uses memory")?;
            events.extend(last.stream.sync_event_behind(last.value)?);
        }
        Ok(events)
    }

    /// All uses that are not known to be complete.
    pub fn pending(&self) -> SmallVec<[LastUse; 3]> {
        let list = self.list.lock();
        list.all().filter(|last| !last.stream.shared().timeline().is_complete(last.value)).cloned().collect()
    }

    /// All uses that are not known to be complete, when no further uses are possible.
    pub fn into_pending(self) -> SmallVec<[LastUse; 3]> {
        let List { writers, readers, .. } = self.list.into_inner();
        let all = readers.into_iter().chain(writers);
        all.filter(|last| !last.stream.shared().timeline().is_complete(last.value)).collect()
    }
}
