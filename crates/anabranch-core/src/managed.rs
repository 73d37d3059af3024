//! Managed memory: moved and discarded in batches, and attached.
//!
//! To move memory is a hint, and to discard it permits any contents. Where the driver has no batches, and in the legacy default
//! stream, which takes none, ranges are moved one after the other, and what is discarded is left as it is.

use crate::error::{ErrorKind, Result};
use crate::memory::{Allocation, MemoryAccess};
use crate::stream::OpenStream;
use crate::submission::Submission;
use crate::trace;
use anabranch_hal::{ManagedRange, MemoryAttachment, MemoryLocation, Prefetch};
use std::sync::Arc;

/// A range of managed memory in a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRange<'a> {
    /// The memory.
    pub memory: &'a Arc<Allocation>,
    /// The range. It is not empty.
    pub range: ManagedRange,
    /// Where it is moved to.
    pub location: Option<MemoryLocation>,
}

impl BatchRange<'_> {
    fn prefetch(&self) -> Option<Prefetch> {
        self.location.map(|location| Prefetch { range: self.range, location })
    }
}

impl OpenStream {
    /// Moves those ranges that have a location.
    ///
    /// # Safety
    /// The ranges are within their memory.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support it; `CUDA_ERROR_INVALID_HANDLE (400)` if memory belongs to
    /// another context; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, or a capture uses the memory.
    #[track_caller]
    pub unsafe fn prefetch_batch(&self, ranges: &[BatchRange<'_>]) -> Result<()> {
        trace::queued!(stream = self.id(), ranges = ranges.len(), "prefetching a batch");
        let submission = Submission::begin(self, "prefetching a batch")?.not_capturable();
        let accesses: Vec<_> = ranges.iter().map(|range| MemoryAccess::read(range.memory)).collect();
        // SAFETY: the caller promises that the ranges are within their memory.
        self.submit_batch(&submission, &accesses, || unsafe { self.queue_prefetches(&submission, ranges) })
    }

    /// Discards the contents of the ranges, and moves those that have a location.
    ///
    /// # Safety
    /// The ranges are within their memory, and do not overlap. Nobody reads them before they are written again.
    ///
    /// # Errors
    /// Same as [`prefetch_batch`](Self::prefetch_batch).
    #[track_caller]
    pub unsafe fn discard_batch(&self, ranges: &[BatchRange<'_>]) -> Result<()> {
        trace::queued!(stream = self.id(), ranges = ranges.len(), "discarding managed memory");
        let submission = Submission::begin(self, "discarding managed memory")?.not_capturable();
        let accesses: Vec<_> = ranges.iter().map(|range| MemoryAccess::write(range.memory)).collect();
        self.submit_batch(&submission, &accesses, || {
            if self.is_legacy() {
                // SAFETY: the caller promises that the ranges are within their memory.
                return unsafe { self.queue_prefetches(&submission, ranges) };
            }
            let prefetches: Vec<_> = ranges.iter().filter_map(BatchRange::prefetch).collect();
            let stay = |range: &&BatchRange<'_>| range.location.is_none();
            let discards: Vec<_> = ranges.iter().filter(stay).map(|range| range.range).collect();
            let driver = self.context().driver();
            if !discards.is_empty() {
                let discarded = submission.queue(|call, stream| {
                    // SAFETY: the caller promises that the ranges are within their memory, which is freed behind its uses, of
                    // which these are some, that they do not overlap, and that nobody reads them.
                    unsafe { driver.discard_batch_async(call, &discards, stream) }
                });
                if !is_missing(&discarded) {
                    discarded?;
                }
            }
            if prefetches.is_empty() {
                return Ok(());
            }
            let discarded = submission.queue(|call, stream| {
                // SAFETY: the caller promises that the ranges are within their memory, which is freed behind its uses, of which
                // these are some, that they do not overlap, and that nobody reads them.
                unsafe { driver.discard_and_prefetch_batch_async(call, &prefetches, stream) }
            });
            if is_missing(&discarded) {
                // SAFETY: the caller promises that the ranges are within their memory.
                return unsafe { self.queue_prefetches(&submission, ranges) };
            }
            discarded
        })
    }

    /// Attaches managed memory to this stream, to the host, or to all streams. Other streams are refused from then on.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the memory belongs to another context;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, or a capture uses the memory.
    #[track_caller]
    pub fn attach(&self, memory: &Arc<Allocation>, attachment: MemoryAttachment) -> Result<()> {
        trace::queued!(stream = self.id(), ranges = 1, "attaching managed memory");
        let submission = Submission::begin(self, "attaching managed memory")?.attaching().not_capturable();
        self.submit_batch(&submission, &[MemoryAccess::write(memory)], || {
            // SAFETY: the memory is freed behind its uses, of which this is one. Other uses come before, or are refused.
            submission.queue(|call, stream| unsafe {
                let (address, bytes) = (memory.address(), memory.bytes());
                self.context().driver().attach_async(call, address, bytes, attachment, stream)
            })?;
            memory.attach(attachment, self.id());
            Ok(())
        })
    }

    /// Orders the accesses, and calls `queue`. Some of it may be queued where it fails.
    fn submit_batch(
        &self,
        submission: &Submission<'_>,
        accesses: &[MemoryAccess<'_>],
        queue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        submission.refuse_while_capturing()?;
        for access in accesses {
            access.memory.require_context(self, submission.operation())?;
        }
        let excluding = submission.order(accesses.iter().copied())?;
        let queued = queue();
        submission.note_even_if_refused(&queued);
        submission.finish(accesses.iter().copied());
        drop(excluding);
        queued
    }

    /// # Safety
    /// The ranges are within their memory, which was ordered.
    unsafe fn queue_prefetches(&self, submission: &Submission<'_>, ranges: &[BatchRange<'_>]) -> Result<()> {
        let prefetches: Vec<_> = ranges.iter().filter_map(BatchRange::prefetch).collect();
        let driver = self.context().driver();
        if prefetches.is_empty() {
            return Ok(());
        }
        if !self.is_legacy() {
            let moved = submission.queue(|call, stream| {
                // SAFETY: the caller promises that the ranges are within their memory, which is freed behind its uses, of which
                // these are some.
                unsafe { driver.prefetch_batch_async(call, &prefetches, stream) }
            });
            if !is_missing(&moved) {
                return moved;
            }
        }
        prefetches.iter().try_for_each(|Prefetch { range, location }| {
            let device = match location {
                MemoryLocation::Device(device) => Some(*device),
                // Older drivers know the host as a whole.
                _ => None,
            };
            submission.queue(|call, stream| {
                // SAFETY: the caller promises that the range is within its memory, which is freed behind its uses, of which this
                // is one.
                unsafe { driver.prefetch_async(call, range.address, range.bytes, device, stream) }
            })
        })
    }
}

/// Whether the driver does not have the call.
fn is_missing(result: &Result<()>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::MissingSymbol)
}
