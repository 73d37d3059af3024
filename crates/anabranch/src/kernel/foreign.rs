//! Work of other libraries, which uses memory of this one.

use super::KernelArguments;
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::exclusion::ForeignUse;
use anabranch_core::memory::MemoryAccess;
use anabranch_hal::StreamHandle;

const OPERATION: &str = "submitting work of another library";

impl Stream {
    /// Lets another library submit work to this stream that uses memory of this one. `arguments` is a tuple as for
    /// [`launch`](Self::launch): `&buffer` for memory that the work reads, `&mut buffer` for memory that it writes. The
    /// closure gets the handle of the stream, submits the work, and returns what it likes.
    ///
    /// The work comes after all uses of the memory until now, in whatever stream, and all later uses come after the work. If
    /// the stream captures, the work has to be captured too, and the closure does not end the capture. Graphs that use the
    /// memory cannot be launched while the closure runs, on any thread.
    ///
    /// To use memory in a stream of another library, open it with [`BorrowedStream::from_raw`](crate::BorrowedStream::from_raw).
    /// If that library says by an event when it is done, wait for the event in the closure.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for memory of another context;
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) in strict order; an error that the driver
    /// returns when streams are ordered. The closure has not been called then, except if the stream's capture has
    /// become invalid meanwhile.
    #[track_caller]
    pub fn submit_foreign<A: KernelArguments, R>(
        &self,
        arguments: A,
        submit: impl FnOnce(StreamHandle) -> R,
    ) -> Result<R> {
        // Before a lock is taken.
        self.core().require_usable(OPERATION)?;
        arguments.with(|arguments| {
            let memory = ForeignWork {
                stream: self,
                accesses: arguments.accesses,
                _uses: ForeignUse::begin(arguments.accesses),
            };
            memory.order()?;
            let submitted = submit(self.as_raw());
            memory.order().map(|()| submitted)
        })
    }
}

/// Memory that work of another library in a stream uses.
struct ForeignWork<'a> {
    stream: &'a Stream,
    accesses: &'a [MemoryAccess<'a>],
    /// Dropped after what comes behind the work was ordered.
    _uses: ForeignUse<'a>,
}

impl ForeignWork<'_> {
    /// Orders what comes behind earlier uses, and later uses behind what is in the stream.
    #[track_caller]
    fn order(&self) -> Result<()> {
        self.stream.core().use_memory(OPERATION, self.accesses)
    }
}

impl Drop for ForeignWork<'_> {
    fn drop(&mut self) {
        // A closure that unwinds may have submitted work.
        if std::thread::panicking() {
            drop(self.order());
        }
    }
}
