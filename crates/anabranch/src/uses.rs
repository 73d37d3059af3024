//! Which streams use a piece of memory, and the order between them.
//!
//! A use on the stream that alone has used the memory needs nothing, and costs one load. Where streams meet, an event is
//! recorded on the earlier stream at that moment, which covers at least what is needed, and the later one waits for it:
//! a reader waits for the last writer; a writer, and whoever frees the memory, waits for the last writer and all readers
//! since.

use crate::error::Result;
use crate::event::RawEvent;
use crate::stream::StreamCore;
use anabranch_hal::Access;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set in [`Uses::sole`] when the sole stream's uses include a write.
const WROTE: usize = 1;

/// The uses of one piece of memory.
#[derive(Default)]
pub(crate) struct Uses {
    /// The address of the only stream in `list`, with [`WROTE`], or 0. Written under the list's lock only.
    sole: AtomicUsize,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    writer: Option<Arc<StreamCore>>,
    /// Readers since the last write. Each has been made to wait for it.
    readers: SmallVec<[Arc<StreamCore>; 2]>,
}

impl List {
    fn all(&self) -> impl Iterator<Item = &Arc<StreamCore>> {
        self.writer.iter().chain(&self.readers)
    }

    /// What `sole` has to say of this list.
    fn sole(&self) -> usize {
        let mut streams = self.all();
        let Some(first) = streams.next() else { return 0 };
        if streams.any(|other| !Arc::ptr_eq(first, other)) {
            return 0;
        }
        Arc::as_ptr(first) as usize | if self.writer.is_some() { WROTE } else { 0 }
    }
}

impl Uses {
    /// Orders a use on `stream` behind the uses before it.
    #[inline(always)]
    pub(crate) fn order(&self, stream: &Arc<StreamCore>, access: Access) -> Result<()> {
        let sole = self.sole.load(Ordering::Acquire);
        let address = Arc::as_ptr(stream) as usize;
        // Not to be confused with another stream at the same address: while it stands in `sole` it is in the list, and
        // the list keeps it.
        if sole == address | WROTE || (sole == address && access == Access::Read) {
            return Ok(());
        }
        self.order_slowly(stream, access)
    }

    #[cold]
    #[inline(never)]
    fn order_slowly(&self, stream: &Arc<StreamCore>, access: Access) -> Result<()> {
        let mut list = self.list.lock();
        match access {
            Access::Read => {
                if !list.readers.iter().any(|reader| Arc::ptr_eq(reader, stream)) {
                    if let Some(writer) = &list.writer {
                        stream.follow(writer)?;
                    }
                    list.readers.push(stream.clone());
                }
            }
            Access::Write => {
                list.all().try_for_each(|earlier| stream.follow(earlier))?;
                *list = List { writer: Some(stream.clone()), readers: SmallVec::new() };
            }
        }
        self.sole.store(list.sole(), Ordering::Release);
        Ok(())
    }

    /// Blocks until the host may use the memory: to read it, the last write must be complete; to write it, all uses.
    pub(crate) fn synchronize(&self, access: Access) -> Result<()> {
        for event in self.checkpoints(access)? {
            event.synchronize()?;
        }
        self.forget(access);
        Ok(())
    }

    /// Forgets the uses that conflict with `access`, which are complete. Whoever may call this has borrowed the memory so that
    /// none was added meanwhile.
    pub(crate) fn forget(&self, access: Access) {
        let mut list = self.list.lock();
        list.writer = None;
        if access == Access::Write {
            list.readers.clear();
        }
        self.sole.store(list.sole(), Ordering::Release);
    }

    /// Whether the host may use the memory at this moment.
    pub(crate) fn is_over(&self, access: Access) -> Result<bool> {
        Ok(self.checkpoints(access)?.iter().all(|event| event.is_over()))
    }

    /// Events that are complete when the uses that conflict with `access` are.
    pub(crate) fn checkpoints(&self, access: Access) -> Result<Vec<Arc<RawEvent>>> {
        let list = self.list.lock();
        let mut events = Vec::new();
        let relevant = match access {
            Access::Read => &[][..],
            Access::Write => &list.readers[..],
        };
        for stream in list.writer.iter().chain(relevant) {
            events.extend(stream.checkpoint()?);
        }
        Ok(events)
    }

    /// The streams of all uses, when there will be no more.
    pub(crate) fn into_streams(self) -> Vec<Arc<StreamCore>> {
        self.list.into_inner().all().cloned().collect()
    }
}
