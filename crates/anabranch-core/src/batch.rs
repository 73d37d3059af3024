//! Copies with attributes, alone and in batches.
//!
//! A batch has the accesses of all its copies, and is ordered once. Its copies have no order among each other, so making them
//! one after the other means the same. That is done where the driver has no batches, and where it does not take them: in
//! the legacy default stream, and in captures, whose graphs then have nodes that every driver knows.
//!
//! Copies between host memory are made by a thread of the driver ([`on_host`](crate::on_host)) where the driver would wait and must
//! not, and behind the others. All of them are one submission, so that a capture has all copies of a batch or none.
//!
//! A source in plain memory is read during the call: the library copies it to staging memory. Drivers have an attribute for that,
//! but driver 580 on an H100 was seen to read a source of 256 KiB after the call all the same.

use crate::completion::Completion;
use crate::error::{ErrorKind, Result};
use crate::green_context::GreenStream;
use crate::memory::{Allocation, MemoryAccess};
use crate::on_host::copy_of_row;
use crate::staging::StagingBlock;
use crate::stream::OpenStream;
use crate::submission::Submission;
use crate::trace;
use crate::work::{CopyEnd, copy_kind};
use anabranch_hal::{
    self as hal, ALLOCATION_ALIGNMENT, AttributedCopy, AttributedCopy3d, Call, Copy3d, CopyAttributes, CopyKind,
    CopySourceOrder, Driver, Live, StreamHandle,
};
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// Where a copy of a batch reads.
#[derive(Clone, Copy)]
pub enum CopySource<'a> {
    /// Memory, in stream order.
    Memory(CopyEnd<'a>),
    /// Plain host memory, not in stream order.
    Host(&'a [u8]),
}

/// A copy of a batch.
#[derive(Clone, Copy)]
pub struct BatchCopy<'a> {
    /// Where it writes.
    pub to: CopyEnd<'a>,
    /// Where it reads.
    pub from: CopySource<'a>,
    /// The size in bytes. It is not 0.
    pub bytes: usize,
    /// How it is made.
    pub attributes: CopyAttributes,
}

/// A copy of a region in a batch. Its source is read in stream order.
#[derive(Clone, Copy)]
pub struct BatchRegion<'a> {
    /// The memory that it writes. `None`: staging memory, which the caller keeps.
    pub to: Option<&'a Arc<Allocation>>,
    /// The memory that it reads. `None`: staging memory, which the caller keeps.
    pub from: Option<&'a Arc<Allocation>>,
    /// The copy. No extent is 0.
    pub copy: Copy3d,
    /// How it is made.
    pub attributes: CopyAttributes,
}

impl<'a> BatchCopy<'a> {
    fn accesses(&self) -> impl Iterator<Item = MemoryAccess<'a>> {
        let read = match self.from {
            CopySource::Memory(from) => Some(MemoryAccess::read(from.memory)),
            CopySource::Host(_) => None,
        };
        read.into_iter().chain([MemoryAccess::write(self.to.memory)])
    }

    fn host_source(&self) -> Option<&'a [u8]> {
        match self.from {
            CopySource::Memory(_) => None,
            CopySource::Host(source) => Some(source),
        }
    }

    /// The copy as drivers take it, and the kinds of its ends. A source that was staged is read in stream order.
    fn describe(&self, staged: Option<u64>) -> (AttributedCopy, CopyKind) {
        let in_order = CopyAttributes { source_order: CopySourceOrder::Stream, ..self.attributes };
        let (source, kind, attributes) = match (self.from, staged) {
            (CopySource::Memory(from), _) => (from.address.0, copy_kind(self.to.memory, from.memory), in_order),
            (CopySource::Host(_), Some(staged)) if self.to.memory.is_pinned() => (staged, CopyKind::Inferred, in_order),
            (CopySource::Host(_), Some(staged)) => (staged, CopyKind::HostToDevice, in_order),
            (CopySource::Host(source), None) => {
                (source.as_ptr().expose_provenance() as u64, CopyKind::Inferred, self.attributes)
            }
        };
        (AttributedCopy { destination: self.to.address.0, source, bytes: self.bytes, attributes }, kind)
    }
}

/// The sources of a batch that are in plain memory, copied one behind the other.
struct Staged {
    block: StagingBlock,
    /// For each copy, where its source is in the block.
    sources: Vec<Option<u64>>,
}

impl Staged {
    /// All such sources, or those that are to be read during the call. `None` if there are none.
    fn new(stream: &OpenStream, copies: &[BatchCopy<'_>], all: bool) -> Result<Option<Self>> {
        let is_staged = |copy: &&BatchCopy<'_>| all || copy.attributes.source_order == CopySourceOrder::DuringCall;
        let room = |source: &[u8]| source.len().next_multiple_of(ALLOCATION_ALIGNMENT);
        let total: usize = copies.iter().filter(is_staged).filter_map(BatchCopy::host_source).map(room).sum();
        if total == 0 {
            return Ok(None);
        }
        let block = StagingBlock::take(stream.context(), total)?;
        let begin = block.pointer(total, 1, 1)?;
        let mut offset = 0;
        let sources = copies.iter().map(|copy| {
            let source = Some(copy).filter(is_staged)?.host_source()?;
            // SAFETY: the block has room for all sources, of which those before this one end at the offset.
            let place = unsafe { begin.add(offset) };
            offset += room(source);
            // SAFETY: the place has room for the source, and nobody else uses the block.
            unsafe { place.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
            Some(place.expose_provenance() as u64)
        });
        let sources = sources.collect();
        Ok(Some(Self { block, sources }))
    }
}

/// Returns staging memory for reuse when the work that is in the stream now is complete.
pub fn give_back_behind(block: StagingBlock, stream: &OpenStream) {
    let mut completion = Completion::of_stream(stream, false);
    // If it is not known when the work is over, the block is not used again.
    if completion.is_over() {
        return;
    }
    if let Some(work) = completion.abandon() {
        block.give_back_after(work);
    }
}

/// The copies of a batch as drivers take them.
trait Described {
    /// How many there are.
    fn count(&self) -> usize;

    /// Whether they may be made one after the other.
    fn is_separable(&self) -> bool;

    /// Whether they use plain memory, or a copy of it, which is not there any more when a graph is launched.
    fn uses_plain_memory(&self) -> bool;

    /// The copy of that index, if a thread of the driver makes it. `must_not_wait`: that of the caller must not wait.
    fn on_host(&self, index: usize, must_not_wait: bool) -> Option<Copy3d>;

    /// Makes those of these indices, which are in ascending order.
    ///
    /// # Safety
    /// All ranges are valid until the copies have run, or, for a source that is read during the call, until it returns. No
    /// destination overlaps another range.
    unsafe fn make_together(
        &self,
        indices: &[usize],
        driver: &dyn Driver,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()>;

    /// Makes one of them, with no attributes.
    ///
    /// # Safety
    /// Its ranges are valid until the copy has run.
    unsafe fn make_one(
        &self,
        index: usize,
        driver: &dyn Driver,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()>;
}

/// Copies with the kinds of their ends.
struct Copies<'a> {
    copies: Vec<AttributedCopy>,
    kinds: Vec<CopyKind>,
    /// What they were made of.
    requested: &'a [BatchCopy<'a>],
    separable: bool,
}

/// Those of these indices: without copying them where these are all.
fn chosen<'a, T: Copy>(all: &'a [T], indices: &[usize]) -> Cow<'a, [T]> {
    if indices.len() == all.len() { all.into() } else { indices.iter().map(|&index| all[index]).collect() }
}

impl<'a> Copies<'a> {
    fn new(copies: &'a [BatchCopy<'a>], staged: Option<&Staged>) -> Self {
        let place = |index: usize| staged.and_then(|staged| staged.sources[index]);
        let described = copies.iter().enumerate().map(|(index, copy)| copy.describe(place(index)));
        let (described, kinds) = described.unzip();
        let is_placed = |(index, copy): (usize, &BatchCopy<'_>)| copy.host_source().is_none() || place(index).is_some();
        let separable = copies.iter().enumerate().all(is_placed);
        Self { copies: described, kinds, requested: copies, separable }
    }
}

impl Described for Copies<'_> {
    fn count(&self) -> usize {
        self.copies.len()
    }

    fn is_separable(&self) -> bool {
        self.separable
    }

    fn uses_plain_memory(&self) -> bool {
        self.requested.iter().any(|copy| copy.host_source().is_some())
    }

    fn on_host(&self, index: usize, must_not_wait: bool) -> Option<Copy3d> {
        let BatchCopy { to, from, bytes, .. } = self.requested[index];
        let would_wait = match from {
            CopySource::Memory(from) => from.memory.is_pinned() && must_not_wait,
            CopySource::Host(_) => true,
        };
        let AttributedCopy { destination, source, .. } = self.copies[index];
        (would_wait && to.memory.is_pinned()).then(|| copy_of_row(destination, source, bytes))
    }

    unsafe fn make_together(
        &self,
        indices: &[usize],
        driver: &dyn Driver,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        let copies = chosen(&self.copies, indices);
        if let [one] = &*copies {
            // SAFETY: the caller promises what this asks for.
            match unsafe { driver.copy_with_attributes_async(call, one, stream) } {
                Err(failure) if failure.is_missing_symbol() => {}
                answer => return answer,
            }
        }
        // SAFETY: the caller promises what this asks for.
        unsafe { driver.copy_batch_async(call, &copies, stream) }
    }

    unsafe fn make_one(
        &self,
        index: usize,
        driver: &dyn Driver,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        let AttributedCopy { destination, source, bytes, .. } = self.copies[index];
        // SAFETY: the caller promises what this asks for.
        unsafe { driver.copy_async(call, self.kinds[index], destination, source, bytes, stream) }
    }
}

/// Copies of regions.
struct Regions<'a> {
    copies: Vec<AttributedCopy3d>,
    /// What they were made of.
    requested: &'a [BatchRegion<'a>],
}

impl Described for Regions<'_> {
    fn count(&self) -> usize {
        self.copies.len()
    }

    fn is_separable(&self) -> bool {
        true
    }

    fn uses_plain_memory(&self) -> bool {
        self.requested.iter().any(|copy| copy.from.is_none() || copy.to.is_none())
    }

    fn on_host(&self, index: usize, must_not_wait: bool) -> Option<Copy3d> {
        let BatchRegion { to, from, copy, .. } = self.requested[index];
        // Staging memory is pinned memory.
        let is_between_pinned = [to, from].into_iter().flatten().all(|memory| memory.is_pinned());
        let uses_staging_memory = to.is_none() || from.is_none();
        (is_between_pinned && (must_not_wait || uses_staging_memory)).then_some(copy)
    }

    unsafe fn make_together(
        &self,
        indices: &[usize],
        driver: &dyn Driver,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        let copies = chosen(&self.copies, indices);
        if let [one] = &*copies {
            // SAFETY: the caller promises what this asks for.
            match unsafe { driver.copy_3d_with_attributes_async(call, one, stream) } {
                Err(failure) if failure.is_missing_symbol() => {}
                answer => return answer,
            }
        }
        // SAFETY: the caller promises what this asks for.
        unsafe { driver.copy_3d_batch_async(call, &copies, stream) }
    }

    unsafe fn make_one(
        &self,
        index: usize,
        driver: &dyn Driver,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { driver.copy_3d_async(call, &self.copies[index].copy, stream) }
    }
}

impl OpenStream {
    /// Makes copies that have no order among each other, in one call where stream and driver take that.
    ///
    /// # Safety
    /// All ranges are within their memory, and no destination overlaps another range of the batch. A source in plain memory
    /// that may be read at any time is neither freed nor changed until the copies have run.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if memory belongs to another context;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing and a source is in plain memory. If the driver
    /// refuses a copy, others may have been made.
    #[track_caller]
    pub unsafe fn copy_batch(&self, operation: &'static str, copies: &[BatchCopy<'_>]) -> Result<()> {
        let location = Location::caller();
        let accesses: Vec<_> = copies.iter().flat_map(BatchCopy::accesses).collect();
        // Who reads plain memory may wait for the stream, which nobody may do who excludes others.
        let all = self.takes_no_batches() || accesses.iter().any(|access| access.memory.is_retained());
        let mut staged = Staged::new(self, copies, all)?;
        // SAFETY: the caller promises that the ranges are within their memory, which is freed behind its uses, of which these are
        // some, and that they do not overlap. Staging memory is used again when the copies have run.
        let submit = |staged: Option<&Staged>| unsafe {
            self.submit_copies(operation, location, &accesses, &Copies::new(copies, staged))
        };
        let mut submitted = submit(staged.as_ref());
        if !all && submitted.as_ref().is_err_and(|error| error.kind() == ErrorKind::MissingSymbol) {
            let before = std::mem::replace(&mut staged, Staged::new(self, copies, true)?);
            submitted = submit(staged.as_ref());
            drop(before);
        }
        if let Some(staged) = staged {
            give_back_behind(staged.block, self);
        }
        submitted
    }

    /// Makes copies of regions that have no order among each other, as [`copy_batch`](Self::copy_batch) does.
    ///
    /// # Safety
    /// All regions are within their memory, and no destination overlaps another region of the batch. Staging memory is neither
    /// freed nor used by others until the copies have run.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if memory belongs to another context;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing and a copy uses staging memory. If the driver
    /// refuses a copy, others may have been made.
    #[track_caller]
    pub unsafe fn copy_region_batch(&self, operation: &'static str, copies: &[BatchRegion<'_>]) -> Result<()> {
        let accesses: Vec<_> = copies
            .iter()
            .flat_map(|copy| [copy.from.map(MemoryAccess::read), copy.to.map(MemoryAccess::write)])
            .flatten()
            .collect();
        let described = Regions {
            copies: copies.iter().map(|one| AttributedCopy3d { copy: one.copy, attributes: one.attributes }).collect(),
            requested: copies,
        };
        // SAFETY: the caller promises that the regions are within their memory, which is freed behind its uses, of which these
        // are some, and that they do not overlap.
        unsafe { self.submit_copies(operation, Location::caller(), &accesses, &described) }
    }

    /// Whether copies with attributes are refused in this stream, now or always, or crash the driver: those in streams of green
    /// contexts do if the source was allocated there in stream order (CUDA 13.0).
    fn takes_no_batches(&self) -> bool {
        self.is_capturing() || self.is_legacy() || self.extension::<GreenStream>().get().is_some()
    }

    /// # Safety
    /// As for [`Described::make_all`]. Ranges that are within the accesses are valid.
    unsafe fn submit_copies(
        &self,
        operation: &'static str,
        location: &'static Location<'static>,
        accesses: &[MemoryAccess<'_>],
        copies: &impl Described,
    ) -> Result<()> {
        trace::queued!(stream = self.id(), copies = copies.count(), "{operation}");
        let mut submission = Submission::begin_at(self, operation, location)?;
        if copies.uses_plain_memory() {
            submission = submission.not_capturable();
            submission.refuse_while_capturing()?;
        }
        for access in accesses {
            access.memory.require_context(self, operation)?;
        }
        let excluding = submission.order(accesses.iter().copied())?;
        // From here on, it is known whether the stream captures: its memory may have drawn it into a capture.
        let must_not_wait = self.must_not_wait(accesses);
        let on_host = |index: &usize| !self.is_capturing() && copies.on_host(*index, must_not_wait).is_some();
        let (on_host, by_driver): (Vec<usize>, Vec<usize>) = (0..copies.count()).partition(on_host);
        let driver = self.context().driver();
        let mut apart = self.takes_no_batches();
        let mut queued = Ok(());
        if !apart && !by_driver.is_empty() {
            // SAFETY: the caller promises what this asks for.
            queued = submission.queue(|call, stream| unsafe { copies.make_together(&by_driver, driver, call, stream) });
            apart =
                copies.is_separable() && queued.as_ref().is_err_and(|error| error.kind() == ErrorKind::MissingSymbol);
        }
        if apart {
            queued = by_driver.iter().try_for_each(|&index| {
                // SAFETY: the caller promises what this asks for.
                submission.queue(|call, stream| unsafe { copies.make_one(index, driver, call, stream) })
            });
        }
        let mut on_host = on_host.into_iter().filter_map(|index| copies.on_host(index, must_not_wait));
        queued = queued.and_then(|()| {
            on_host.try_for_each(|copy| {
                // SAFETY: the caller promises what this asks for. Pinned memory is freed, and staging memory used again, when the
                // copies have run.
                submission.queue(|call, stream| unsafe { submission.put_on_host(&copy, call, stream) })
            })
        });
        // Some may have been made where a later one was refused.
        submission.note_even_if_refused(&queued);
        submission.finish(accesses.iter().copied());
        drop(excluding);
        queued
    }
}
