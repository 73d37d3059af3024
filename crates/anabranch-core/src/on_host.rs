//! Copies between two pieces of host memory in stream order, by a thread of the driver.
//!
//! The driver's own copy between them blocks the caller, which a task must not do, and neither must a submission that
//! excludes others. Some drivers keep other threads waiting meanwhile.
//!
//! Such a copy is a host function that runs once, which no driver captures. Whether a stream captures is known for certain only
//! when the memory of a submission has been ordered, because the memory may draw the stream into a capture. So who
//! makes a copy is decided behind that.

use crate::error::Result;
use crate::host_work;
use crate::memory::MemoryAccess;
use crate::stream::OpenStream;
use crate::submission::Submission;
use crate::trace;
use anabranch_hal::{Call, Copy3d, CopyPlace, Live, StreamHandle};

/// Memory as a single row.
pub fn row(address: u64, bytes: usize) -> CopyPlace {
    CopyPlace { address, host: true, pitch: bytes, height: 1, origin: [0; 3] }
}

/// A copy of a single row.
pub fn copy_of_row(to: u64, from: u64, bytes: usize) -> Copy3d {
    Copy3d { source: row(from, bytes), destination: row(to, bytes), extent: [bytes, 1, 1] }
}

/// Copies a region of host memory now.
///
/// # Safety
/// Both regions are valid and do not overlap, and nobody else uses them, except for reading the source.
pub unsafe fn copy_rows(copy: &Copy3d) {
    let [width, rows, slices] = copy.extent;
    let begin = |place: &CopyPlace, y: usize, z: usize| {
        let [x, first_row, first_slice] = place.origin;
        let offset = ((first_slice + z) * place.height + first_row + y) * place.pitch + x;
        std::ptr::with_exposed_provenance_mut::<u8>(place.address as usize + offset)
    };
    for (z, y) in (0..slices).flat_map(|z| (0..rows).map(move |y| (z, y))) {
        let (from, to) = (begin(&copy.source, y, z), begin(&copy.destination, y, z));
        // SAFETY: the row is within both regions, which the caller promises are valid and do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, width) };
    }
}

/// Whether the accesses are those of a copy between pinned memory.
pub(crate) fn is_between_pinned(accesses: &[MemoryAccess<'_>]) -> bool {
    matches!(accesses, [from, to] if from.memory.is_pinned() && to.memory.is_pinned())
}

impl OpenStream {
    /// Whether a submission with these accesses must not make a call that waits for work.
    pub(crate) fn must_not_wait(&self, accesses: &[MemoryAccess<'_>]) -> bool {
        self.context().keeps_others_waiting() || accesses.iter().any(|access| access.memory.is_retained())
    }

    /// Copies a region of host memory, for a call that does what `operation` says. The copy is not captured.
    ///
    /// # Safety
    /// From now until the copy has run, both regions are valid. They do not overlap, nobody writes the source, and nobody else
    /// uses the destination, except for work that is ordered before or after the copy. This holds for pinned memory that is
    /// among the accesses.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, or a capture uses the memory;
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for memory of another context.
    #[track_caller]
    pub unsafe fn copy_on_host(
        &self,
        operation: &'static str,
        accesses: &[MemoryAccess<'_>],
        copy: &Copy3d,
    ) -> Result<()> {
        trace::queued!(stream = self.id(), extent = ?copy.extent, "{operation}");
        let submission = Submission::begin(self, operation)?.not_capturable();
        submission.refuse_while_capturing()?;
        // SAFETY: the caller promises what this asks for.
        submission.submit(accesses, |call, stream| unsafe { submission.put_on_host(copy, call, stream) })
    }
}

impl Submission<'_> {
    /// Submits a copy between the two pieces of memory of the accesses, from the first to the second. Between pinned memory it is
    /// made here if the driver must not wait, and not captured; by `queue` else.
    ///
    /// # Safety
    /// Both regions are within their memory. They do not overlap, and nobody else uses the destination, or writes the source,
    /// except for work that is ordered before or after the copy.
    ///
    /// # Errors
    /// Same as [`submit`](Self::submit).
    #[inline(always)]
    pub(crate) unsafe fn submit_copy(
        &self,
        accesses: &[MemoryAccess<'_>],
        copy: impl FnOnce() -> Copy3d,
        queue: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<()>,
    ) -> Result<()> {
        let is_between_pinned = is_between_pinned(accesses);
        self.submit(accesses, |call, stream| {
            if is_between_pinned && !self.stream().is_capturing() && self.stream().must_not_wait(accesses) {
                // SAFETY: the caller promises what this asks for. Pinned memory is freed behind its uses, of which this is one.
                return unsafe { self.put_on_host(&copy(), call, stream) };
            }
            queue(call, stream)
        })
    }

    /// Lets the driver copy a region of host memory on a thread of its own, in a submission of a stream that is not capturing.
    ///
    /// # Safety
    /// As for [`copy_on_host`](OpenStream::copy_on_host).
    #[cold]
    pub(crate) unsafe fn put_on_host(
        &self,
        copy: &Copy3d,
        call: &Call<'_>,
        handle: Live<'_, StreamHandle>,
    ) -> anabranch_hal::Result<()> {
        let (stream, copy) = (self.stream(), *copy);
        // SAFETY: the caller keeps both regions valid until the copy has run, and nobody else uses the destination.
        let work = host_work::host_function(move || unsafe { copy_rows(&copy) }, stream.id(), stream.shared().panics());
        let _host_bound = stream.submit_host_bound_if(true);
        stream.context().driver().stream_launch_host_function(call, handle, work)
    }
}
