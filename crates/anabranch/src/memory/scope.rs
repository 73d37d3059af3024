//! Scopes: work that borrows host memory, and is waited for however the scope is left.

use super::plain_copy::{PlainCopy, Route};
use super::staged::{self, Written};
use super::{BufferSlice, BufferSliceMut, require_equal_lengths};
use crate::error::{Error, Result};
use crate::ranks;
use crate::stream::Stream;
use anabranch_core::host_work::{self, refuse_inside};
use anabranch_core::lost_context;
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_core::stream::SyncEvent;
use anabranch_core::submission::refuse_captured_memory;
use anabranch_core::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_core::trace;
use anabranch_hal::{Access, Failure, InsideWorkBefore, Status};
use anabranch_sync::Mutex;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

/// Queues work that borrows host memory. See [`Stream::sync_scope`].
#[derive(Debug)]
pub struct StreamScope<'scope, 'env: 'scope> {
    stream: &'scope Stream,
    entered: &'scope Entered<'env>,
    /// The thread that waits at the end of the scope.
    thread: ThreadId,
    /// Invariant in both, as in [`std::thread::scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

/// What a scope waits for.
#[derive(Debug)]
struct Entered<'env> {
    state: Mutex<EnteredState<'env>>,
    /// The staging memory of its uploads.
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct EnteredState<'env> {
    /// The streams that were entered in addition to the scope's own.
    streams: Vec<&'env Stream>,
    /// For each stream, an event behind its last work that borrows memory. A capture that is begun later, in this stream
    /// or another, does not keep the scope from waiting for it.
    borrowers: Vec<SyncEvent>,
}

impl Default for Entered<'_> {
    fn default() -> Self {
        Self {
            state: Mutex::new(ranks::ENTERED_STREAMS, EnteredState::default()),
            written: Mutex::new(ranks::WRITTEN_BLOCKS, Written::default()),
        }
    }
}

impl Entered<'_> {
    /// Queues work of a stream that must not be captured, because it borrows memory until the end of the scope.
    #[track_caller]
    fn borrow<R>(
        &self,
        stream: &Stream,
        operation: &'static str,
        memory: Option<&Allocation>,
        queue: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let core = stream.core();
        let mut behind = None;
        let queued = uncaptured(stream, operation, || {
            refuse_captured(stream, operation, memory)?;
            let queued = queue();
            match core.sync_event() {
                Ok(event) => behind = event,
                Err(_) if queued.is_ok() => wait_at_once(stream),
                Err(_) => {}
            }
            queued
        });
        if let Some(behind) = behind {
            let mut state = self.state.lock();
            // Another thread may have noted a later one of the stream.
            let is_before = |known: &SyncEvent| {
                Arc::ptr_eq(known.point().timeline(), behind.point().timeline())
                    && known.point().value() <= behind.point().value()
            };
            state.borrowers.retain(|known| !is_before(known));
            state.borrowers.push(behind);
        }
        queued
    }

    /// Copies between memory and plain memory, of which the scope borrows one.
    ///
    /// # Safety
    /// The one region is within the memory, or a variable, until the scope has waited. The other is valid until then, and nobody
    /// else uses it, except for reading the source.
    #[track_caller]
    unsafe fn copy(&self, stream: &Stream, plain: &PlainCopy<'_>) -> Result<()> {
        let borrow =
            |queue: &mut dyn FnMut() -> Result<()>| self.borrow(stream, plain.operation, plain.memory(), queue);
        if let Some(memory) = plain.memory().filter(|_| plain.is_empty()) {
            return borrow(&mut || memory.require_context(stream.core(), plain.operation));
        }
        match (Route::new(stream, plain), plain.access) {
            // SAFETY: the caller keeps both regions valid until the scope has waited.
            (Route::Driver, _) => borrow(&mut || unsafe { plain.queue(stream, &plain.copy) }),
            (Route::HostFunction, access) => borrow(&mut || {
                // SAFETY: the same. Plain memory is no pinned memory, so they do not overlap.
                unsafe { stream.core().copy_on_host(plain.operation, access.as_slice(), &plain.copy) }
            }),
            // SAFETY: the same.
            (Route::Staging, Some(MemoryAccess { access: Access::Read, .. })) => unsafe {
                staged::download(stream, plain)
            },
            // SAFETY: the same.
            (Route::Staging, _) => unsafe { staged::upload(stream, plain, &self.written) },
        }
    }

    /// Waits for all streams, and returns the first error, unless the scope has failed already: then the error would be lost
    /// and its report with it. What is not returned is for the next call that synchronizes with its stream.
    fn wait(&self, own: &Stream, has_failed: bool) -> Result<()> {
        let EnteredState { streams, borrowers } = std::mem::take(&mut *self.state.lock());
        let mut waited = Ok(());
        for stream in std::iter::once(own).chain(streams) {
            if has_failed || waited.is_err() {
                wait_without_report(stream);
            } else {
                waited = wait_beside_captures(stream);
            }
        }
        // Whatever came of that, nothing uses borrowed memory after this.
        borrowers.iter().for_each(SyncEvent::outlast);
        let written = std::mem::take(&mut *self.written.lock());
        written.give_back();
        waited
    }
}

/// Waits at the end of a scope, also if its body panics.
struct WaitOnDrop<'a, 'env> {
    stream: &'a Stream,
    entered: &'a Entered<'env>,
    /// The body may mark the thread, and keep the mark, with which nothing could be waited for.
    inside: Option<InsideWorkBefore>,
}

impl WaitOnDrop<'_, '_> {
    fn finish(mut self, has_failed: bool) -> Result<()> {
        drop(self.inside.take());
        let waited = self.entered.wait(self.stream, has_failed);
        std::mem::forget(self);
        waited
    }
}

impl Drop for WaitOnDrop<'_, '_> {
    fn drop(&mut self) {
        drop(self.inside.take());
        let _ = self.entered.wait(self.stream, true);
    }
}

/// Waits for the stream's work, except captured work. No capture can depend on that, so none is affected.
fn wait_beside_captures(stream: &Stream) -> Result<()> {
    let core = stream.core();
    if core.is_capturing() {
        return core.sync_event()?.as_ref().map_or(Ok(()), SyncEvent::synchronize);
    }
    with_relaxed_capture_mode(core.context().driver(), || core.synchronize())
}

/// The same, and takes no report of a panic: an event reports none.
#[cold]
fn wait_without_report(stream: &Stream) {
    let waited = stream.core().sync_event_beside_captures();
    let _ = waited.and_then(|event| event.as_ref().map_or(Ok(()), SyncEvent::synchronize));
}

/// Returns when no work that is in the stream now uses borrowed memory any more. For where no event can be recorded.
#[cold]
fn wait_at_once(stream: &Stream) {
    // This thread has just queued work in the stream, so it may wait for it.
    let wait = || stream.core().wait_anywhere("waiting for work that borrows memory");
    // For example in the legacy stream beside a capture that another thread has just begun: until that has ended. In a lost
    // context, nothing new runs.
    let is_lost = |failure: &Failure| {
        let context = stream.core().context();
        lost_context::is_lost(context.driver(), &context.call("asking whether a context is lost"), failure)
    };
    while wait().is_err_and(|failure| !is_lost(&failure)) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Stream {
    /// Runs `body`, in which copies may borrow plain host memory. Before the borrows end, the scope waits for this
    /// stream, however `body` is left, including by a panic. Other streams can be [entered](StreamScope::on). The wait
    /// affects no capture: if this stream begins to capture in `body`, the scope waits for the work before the capture.
    /// In the legacy default stream, nothing can be waited for while a blocking stream of the context captures: if such a
    /// capture begins while a copy is being queued, the copy waits until the capture has ended, and the capture is
    /// invalidated. Every copy from or to plain memory is in a scope.
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let (source, mut destination) = ([1u8, 2, 3], [0u8; 3]);
    /// let mut buffer = stream.allocate_zeroed::<u8>(3)?;
    /// stream.sync_scope(|scope| {
    ///     scope.copy_from_host(&mut buffer, &source)?;
    ///     scope.copy_to_host(&mut destination, &buffer)
    /// })?;
    /// assert_eq!(destination, source);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The body's error, otherwise the first error of the streams' work, beginning with this stream. A panic of work that is not
    /// returned, because the body has failed or panicked, or because an earlier stream has an error, remains for the next
    /// call that synchronizes with its stream.
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function, where waiting is not
    /// permitted; [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the
    /// stream is capturing, because captured work would use the borrowed memory after the borrow has ended.
    #[track_caller]
    pub fn sync_scope<'env, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope StreamScope<'scope, 'env>) -> Result<R>,
    {
        self.scope_of("entering a scope", body)
    }

    /// As [`sync_scope`](Self::sync_scope), for an operation that is made in a scope.
    #[track_caller]
    pub(crate) fn scope_of<'env, F, R>(&self, operation: &'static str, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope StreamScope<'scope, 'env>) -> Result<R>,
    {
        if host_work::is_inside() {
            return Err(Error::argument(Status::NOT_PERMITTED, operation, "it would wait inside of a host function")
                .with_hint("signal another thread, and wait there"));
        }
        self.core().refuse_while_capturing(operation)?;
        let entered = Entered::default();
        // SAFETY: it is dropped when the body has ended, in this function.
        let inside = unsafe { InsideWorkBefore::note() };
        let wait = WaitOnDrop { stream: self, entered: &entered, inside: Some(inside) };
        let scope = StreamScope {
            stream: self,
            entered: &entered,
            thread: std::thread::current().id(),
            scope: PhantomData,
            environment: PhantomData,
        };
        let result = body(&scope);
        let waited = wait.finish(result.is_err());
        let value = result?;
        waited.map(|()| value)
    }
}

/// Calls `queue`, which queues work that must not be captured, unless the stream is capturing. The stream does not join
/// a capture in the meantime.
pub(crate) fn uncaptured<R>(stream: &Stream, operation: &'static str, queue: impl FnOnce() -> Result<R>) -> Result<R> {
    // Before the lock, which the thread may hold around the host function.
    refuse_inside(operation).map_err(|error| error.at(stream.core().place()))?;
    trace::queued!(stream = stream.core().id(), "{operation}");
    let _whole = trace::Whole::begin();
    outside_captures(stream, operation, queue)
}

/// The same, for a part of what is reported as one operation.
pub(super) fn outside_captures<R>(
    stream: &Stream,
    operation: &'static str,
    queue: impl FnOnce() -> Result<R>,
) -> Result<R> {
    let _submitting = stream.core().shared().membership().submitting();
    stream.core().refuse_while_capturing(operation)?;
    queue()
}

/// Refuses work behind which a scope waits where that would use memory of a capture, or where nothing can be waited for.
pub(super) fn refuse_captured(stream: &Stream, operation: &'static str, memory: Option<&Allocation>) -> Result<()> {
    let core = stream.core();
    memory.map_or(Ok(()), |memory| refuse_captured_memory(memory, core, operation))?;
    if core.is_barred_by_a_capture() {
        core.capture_status()?;
    }
    Ok(())
}

/// A stream that was entered in a scope, which also waits for it. See [`StreamScope::on`].
#[derive(Clone, Copy, Debug)]
pub struct ScopedStream<'scope, 'env: 'scope> {
    stream: &'scope Stream,
    entered: &'scope Entered<'env>,
    /// Invariant in both, as the scope is.
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> StreamScope<'scope, 'env> {
    /// Enters another stream. The scope also waits for this stream, however the scope is left, and even if another
    /// stream fails. Copies in this stream may borrow host memory as well. The stream may belong to another context,
    /// device or driver. A stream may be entered repeatedly.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (left, right) = (context.create_stream()?, context.create_stream()?);
    /// let source = [1u8, 2, 3, 4];
    /// let (mut first, mut second) = (left.allocate_zeroed::<u8>(2)?, right.allocate_zeroed::<u8>(2)?);
    /// left.sync_scope(|scope| {
    ///     scope.copy_from_host(&mut first, &source[..2])?;
    ///     scope.on(&right)?.copy_from_host(&mut second, &source[2..])
    /// })?;
    /// assert_eq!(right.download(&second)?, [3, 4]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function, and
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for the default stream of a thread other than
    /// the scope's. In these cases the stream is not entered.
    pub fn on(&self, stream: &'env Stream) -> Result<ScopedStream<'scope, 'env>> {
        let operation = "entering a stream in a scope";
        stream.core().refuse_while_capturing(operation)?;
        if stream.as_raw().is_per_thread() && std::thread::current().id() != self.thread {
            let message = "the scope ends on another thread, which cannot wait for this thread's default stream";
            return Err(Error::argument(Status::INVALID_HANDLE, operation, message)
                .with_hint("enter a scope of its own on this thread")
                .at(stream.core().place()));
        }
        let mut state = self.entered.state.lock();
        if stream != self.stream && !state.streams.contains(&stream) {
            state.streams.push(stream);
        }
        drop(state);
        Ok(ScopedStream { stream, entered: self.entered, scope: PhantomData, environment: PhantomData })
    }
}

/// The operations that can be queued in any stream of a scope. The scope waits for them before the borrows end.
macro_rules! scoped_work {
    ($scoped:ident) => {
        impl<'scope, 'env> $scoped<'scope, 'env> {
            /// The stream.
            pub fn stream(&self) -> &'scope Stream {
                self.stream
            }

            /// Copies from host memory in stream order. The scope borrows the memory. The call may wait until the copy is
            /// complete, so that nothing may hold up the stream that the thread does only after it.
            ///
            /// # Errors
            /// Same as [`Stream::copy_from_host`];
            /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream
            /// has begun to capture, or a capture uses the buffer.
            #[track_caller]
            pub fn copy_from_host<'d, T: Pod>(
                &self,
                destination: impl Into<BufferSliceMut<'d, T>>,
                source: &'env [T],
            ) -> Result<()> {
                let destination = destination.into();
                let lengths = (destination.len(), source.len());
                if lengths.0 != lengths.1 {
                    let refuse = || require_equal_lengths(lengths.0, lengths.1);
                    return self.entered.borrow(self.stream, "copying", Some(destination.allocation()), refuse);
                }
                let access = MemoryAccess::write(destination.allocation());
                let (to, from) = (destination.device_pointer().0, source.as_ptr().expose_provenance() as u64);
                let plain = PlainCopy::row(Some(access), "copying", to, from, destination.byte_len());
                // SAFETY: the destination is within its memory, and as long as the source, which is borrowed for the
                // environment's life; the scope waits before that ends.
                unsafe { self.entered.copy(self.stream, &plain) }
            }

            /// Copies to host memory in stream order. The scope borrows the memory. The call may wait until the copy is
            /// complete, so that nothing may hold up the stream that the thread does only after it.
            ///
            /// # Errors
            /// Same as [`Stream::copy_to_host`];
            /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream
            /// has begun to capture, or a capture uses the buffer.
            #[track_caller]
            pub fn copy_to_host<'s, T: Pod>(
                &self,
                destination: &'env mut [T],
                source: impl Into<BufferSlice<'s, T>>,
            ) -> Result<()> {
                let source = source.into();
                let lengths = (destination.len(), source.len());
                if lengths.0 != lengths.1 {
                    let refuse = || require_equal_lengths(lengths.0, lengths.1);
                    return self.entered.borrow(self.stream, "copying", Some(source.allocation()), refuse);
                }
                let access = MemoryAccess::read(source.allocation());
                let (to, from) = (destination.as_mut_ptr().expose_provenance() as u64, source.device_pointer().0);
                let plain = PlainCopy::row(Some(access), "copying", to, from, source.byte_len());
                // SAFETY: the source is within its memory, and as long as the destination, which is borrowed exclusively for the
                // environment's life; the scope waits before that ends.
                unsafe { self.entered.copy(self.stream, &plain) }
            }
        }
    };
}

impl StreamScope<'_, '_> {
    /// Copies between memory, or a variable, and plain memory.
    ///
    /// # Safety
    /// Both regions are valid until the scope has waited, and until then nobody else uses the one in plain memory, except for
    /// reading the source.
    #[track_caller]
    pub(crate) unsafe fn copy(&self, plain: &PlainCopy<'_>) -> Result<()> {
        // SAFETY: the caller promises what this asks for.
        unsafe { self.entered.copy(self.stream, plain) }
    }
}

scoped_work!(StreamScope);
scoped_work!(ScopedStream);
