//! Which streams use a piece of memory, and the order between them.
//!
//! Each use is remembered with its stream and a stamp, the stream's position when it was queued (`stream/shared.rs`). A use
//! on the stream that alone has used the memory, with nothing marked in the stream since, needs nothing, and costs a few
//! loads. Where streams meet, a reader comes after the last writer; a writer, and whoever frees the memory, comes after the
//! last writer and all readers since. If the later stream has not followed the earlier one up to that stamp, an event is
//! recorded on the earlier stream at that moment, which covers at least what is needed, and the later one waits for it.

#[cfg(all(test, loom))]
mod loom_tests;

use crate::error::Result;
use crate::stream::{Checkpoint, Operation, StreamCore};
use crate::sync::{AtomicU64, AtomicUsize, Mutex};
use anabranch_hal::Access;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Set in [`Uses::sole`] when no use of the sole stream is stamped later than its last write.
const WROTE: usize = 1;

/// What a use is stamped by: a stream.
pub(crate) trait Stamping {
    /// Whether both stand for the same stream.
    fn is_same_stream(&self, other: &Self) -> bool;

    /// The stamp of work that was queued before.
    fn stamp(&self) -> u64;
}

impl Stamping for StreamCore {
    fn is_same_stream(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.shared(), other.shared())
    }

    fn stamp(&self) -> u64 {
        self.shared().position()
    }
}

/// The uses of one piece of memory.
///
/// # Several threads
/// Uses that conflict are queued one after the other, since the memory is borrowed mutably for one of them, and what the
/// earlier wrote here is seen by the later. So only readers meet here, and without the lock they only look at `sole` and
/// `position`. Meanwhile other readers, with the lock, may stamp the same stream later, or add another stream, after which
/// `sole` is 0: readers never change it from one stream to another. `position` is written before `sole`, and so is that of
/// the stream that is found in `sole`, or a later one of the same. Whatever is found, the list keeps the stream's last use
/// with that stamp or a later one, until a writer has come after it.
pub(crate) struct Uses<S = StreamCore> {
    /// The address of the only stream in `list`, with [`WROTE`], or 0. Written under the list's lock only.
    sole: AtomicUsize,
    /// The stamp of its last use.
    position: AtomicU64,
    list: Mutex<List<S>>,
}

/// A stream's last use.
pub(crate) struct LastUse<S = StreamCore> {
    pub(crate) stream: Arc<S>,
    pub(crate) stamp: u64,
}

struct List<S> {
    writer: Option<LastUse<S>>,
    /// Readers since the last write, one for each stream. Each has been made to come after it.
    readers: SmallVec<[LastUse<S>; 2]>,
}

impl<S: Stamping> List<S> {
    /// Readers first: they come after the writer.
    fn all(&self) -> impl Iterator<Item = &LastUse<S>> {
        self.readers.iter().chain(&self.writer)
    }

    fn reader(&self, stream: &S) -> Option<usize> {
        self.readers.iter().position(|reader| reader.stream.is_same_stream(stream))
    }

    /// The uses that a use must come after.
    fn before(&self, stream: &S, access: Access) -> impl Iterator<Item = &LastUse<S>> {
        let (readers, writer) = match access {
            Access::Read if self.reader(stream).is_some() => (&[][..], None),
            Access::Read => (&[][..], self.writer.as_ref()),
            Access::Write => (&self.readers[..], self.writer.as_ref()),
        };
        readers.iter().chain(writer)
    }

    /// Remembers a use.
    fn add(&mut self, stream: &Arc<S>, access: Access, stamp: u64) {
        let last = LastUse { stream: stream.clone(), stamp };
        match access {
            Access::Write => {
                self.readers.clear();
                self.writer = Some(last);
            }
            Access::Read => self.add_reader(last),
        }
    }

    /// Stamps a use that is remembered already, and others perhaps after it, with a later position.
    fn stamp(&mut self, stream: &Arc<S>, access: Access, stamp: u64) {
        match &mut self.writer {
            Some(writer) if access == Access::Write && writer.stream.is_same_stream(stream) => {
                writer.stamp = writer.stamp.max(stamp);
            }
            _ => self.add_reader(LastUse { stream: stream.clone(), stamp }),
        }
    }

    /// The stream may have several handles, of which some have ended. Whoever uses it now has not.
    fn add_reader(&mut self, mut last: LastUse<S>) {
        match self.reader(&last.stream).and_then(|place| self.readers.get_mut(place)) {
            Some(reader) => {
                last.stamp = last.stamp.max(reader.stamp);
                *reader = last;
            }
            None => self.readers.push(last),
        }
    }

    /// What `sole` and `position` have to say of this list.
    fn sole(&self) -> (usize, u64) {
        let mut uses = self.all();
        let Some(first) = uses.next() else { return (0, 0) };
        let mut stamp = first.stamp;
        for last in uses {
            if !Arc::ptr_eq(&first.stream, &last.stream) {
                return (0, 0);
            }
            stamp = stamp.max(last.stamp);
        }
        let wrote = self.writer.as_ref().is_some_and(|writer| writer.stamp == stamp);
        (Arc::as_ptr(&first.stream) as usize | if wrote { WROTE } else { 0 }, stamp)
    }
}

impl<S> Default for Uses<S> {
    fn default() -> Self {
        Self {
            sole: AtomicUsize::new(0),
            position: AtomicU64::new(0),
            list: Mutex::new(List { writer: None, readers: SmallVec::new() }),
        }
    }
}

impl<S: Stamping> Uses<S> {
    /// Whether a use at that position is remembered by one before.
    #[inline(always)]
    pub(crate) fn stands(&self, stream: &Arc<S>, access: Access, position: u64) -> bool {
        let sole = self.sole.load(Ordering::Acquire);
        let address = Arc::as_ptr(stream) as usize;
        // Not to be confused with another stream at the same address: while it stands in `sole` it is in the list, and
        // the list keeps it.
        (sole == address | WROTE || (sole == address && access == Access::Read))
            && self.position.load(Ordering::Relaxed) == position
    }

    /// Remembers a use that is about to be queued, after `follow` was called with each use that it must come after.
    pub(crate) fn add<E>(
        &self,
        stream: &Arc<S>,
        access: Access,
        mut follow: impl FnMut(&mut dyn Iterator<Item = &LastUse<S>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut list = self.list.lock();
        follow(&mut list.before(stream, access))?;
        // Found after the stream was made to wait, so that a mark that covers this use covers the wait too, even if nothing
        // is queued in the end.
        list.add(stream, access, stream.stamp());
        self.publish(&list);
        Ok(())
    }

    /// Stamps a use anew after it was queued.
    #[cold]
    #[inline(never)]
    pub(crate) fn stamp(&self, stream: &Arc<S>, access: Access) {
        let mut list = self.list.lock();
        list.stamp(stream, access, stream.stamp());
        self.publish(&list);
    }

    fn publish(&self, list: &List<S>) {
        let (sole, position) = list.sole();
        if sole != 0 {
            self.position.store(position, Ordering::Relaxed);
        }
        self.sole.store(sole, Ordering::Release);
    }
}

impl Uses {
    /// Orders a use on `stream` behind the uses before it.
    #[inline(always)]
    pub(crate) fn order(&self, stream: &Arc<StreamCore>, access: Access, operation: &Operation<'_>) -> Result<()> {
        if self.stands(stream, access, operation.position) {
            return Ok(());
        }
        self.order_slowly(stream, access, operation.name)
    }

    #[cold]
    #[inline(never)]
    fn order_slowly(&self, stream: &Arc<StreamCore>, access: Access, operation: &'static str) -> Result<()> {
        let strict = stream.context().is_order_strict();
        self.add(stream, access, |before| {
            before.filter(|earlier| !stream.comes_after(&earlier.stream, earlier.stamp)).try_for_each(|earlier| {
                if strict {
                    return Err(stream.refuse_order(&earlier.stream.place(), operation));
                }
                if stream.follow(&earlier.stream)? {
                    stream.count_inserted(1);
                }
                Ok(())
            })
        })?;
        stream.ordered()
    }

    /// The error of a use that does not come after the uses before it, where the user has to see to that.
    pub(crate) fn check(&self, stream: &StreamCore, access: Access, operation: &'static str) -> Result<()> {
        let list = self.list.lock();
        match list.before(stream, access).find(|earlier| !stream.comes_after(&earlier.stream, earlier.stamp)) {
            Some(earlier) => Err(stream.refuse_order(&earlier.stream.place(), operation)),
            None => Ok(()),
        }
    }

    /// Blocks until the host may use the memory: to read it, the last write must be complete; to write it, all uses.
    pub(crate) fn synchronize(&self, access: Access) -> Result<()> {
        for Checkpoint { event, reached, .. } in self.checkpoints(access)? {
            event.synchronize()?;
            reached.note();
        }
        self.forget(access);
        Ok(())
    }

    /// Forgets the uses that conflict with `access`, which are complete. Whoever may call this has borrowed the memory so that
    /// none was added meanwhile.
    pub(crate) fn forget(&self, access: Access) {
        // To read, the writer stays after its work is complete: it may stand for readers that are queued meanwhile.
        if access == Access::Write {
            let mut list = self.list.lock();
            list.writer = None;
            list.readers.clear();
            self.publish(&list);
        }
    }

    /// Whether the host may use the memory at this moment.
    pub(crate) fn is_over(&self, access: Access) -> Result<bool> {
        let is_over = |Checkpoint { event, .. }: &Checkpoint| event.is_over();
        Ok(self.checkpoints(access)?.iter().all(is_over))
    }

    /// Events that are complete when the uses that conflict with `access` are. There is none of a use that is known to be.
    pub(crate) fn checkpoints(&self, access: Access) -> Result<Vec<Checkpoint>> {
        let list = self.list.lock();
        let mut checkpoints = Vec::new();
        let relevant = match access {
            Access::Read => &[][..],
            Access::Write => &list.readers[..],
        };
        for last in list.writer.iter().chain(relevant) {
            if !last.stream.shared().is_complete(last.stamp) {
                checkpoints.extend(last.stream.checkpoint()?);
            }
        }
        Ok(checkpoints)
    }

    /// All uses that are not known to be complete, when there will be no more.
    pub(crate) fn into_pending(self) -> Vec<LastUse> {
        let List { writer, readers } = self.list.into_inner();
        let all = readers.into_iter().chain(writer);
        all.filter(|last| !last.stream.shared().is_complete(last.stamp)).collect()
    }
}
