//! Scopes: work that borrows host memory, and is waited for however the scope is left.

use super::{BufferSlice, BufferSliceMut, staged};
use crate::error::{Error, Result};
use crate::ranks;
use crate::stream::Stream;
use anabranch_core::host_work;
use anabranch_core::submission::refuse_captured_memory;
use anabranch_hal::Status;
use anabranch_sync::Mutex;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::thread::ThreadId;

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

/// Waits for the stream when it is dropped, also if the body of the scope panics.
struct WaitOnDrop<'a>(&'a Stream);

impl WaitOnDrop<'_> {
    /// Waits for the stream, and returns an error of its work.
    fn finish(self) -> Result<()> {
        let waited = self.0.synchronize();
        let finished = match &waited {
            Ok(()) => true,
            // A panic is reported after all work is complete; on a lost context nothing runs any more.
            Err(error) => error.is_asynchronous(),
        };
        if finished {
            std::mem::forget(self);
        }
        waited
    }
}

/// The streams that were entered in a scope in addition to its own. Dropping this waits for them.
#[derive(Debug)]
struct Entered<'env> {
    streams: Mutex<Vec<&'env Stream>>,
}

impl Default for Entered<'_> {
    fn default() -> Self {
        Self { streams: Mutex::new(ranks::ENTERED_STREAMS, Vec::new()) }
    }
}

impl Entered<'_> {
    /// Waits for all streams, and returns the first error.
    fn finish(&self) -> Result<()> {
        let streams = std::mem::take(&mut *self.streams.lock());
        // All are to be waited for on the way out, whatever comes of one of them.
        let waits: Vec<_> = streams.into_iter().map(WaitOnDrop).collect();
        waits.into_iter().map(WaitOnDrop::finish).fold(Ok(()), Result::and)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Drop for WaitOnDrop<'_> {
    fn drop(&mut self) {
        wait_whatever_happens(self.0);
    }
}

impl Stream {
    /// Runs `body`, in which copies may borrow plain host memory. Before the borrows end, the scope waits for this
    /// stream, however `body` is left, including by a panic. Other streams can be [entered](StreamScope::on).
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
    /// The body's error, otherwise an error of the stream's work. `CUDA_ERROR_NOT_PERMITTED (800)` inside a host
    /// function, where waiting is not permitted; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is
    /// capturing, because captured work would use the borrowed memory after the borrow has ended.
    #[track_caller]
    pub fn sync_scope<'env, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope StreamScope<'scope, 'env>) -> Result<R>,
    {
        let operation = "entering a scope";
        if host_work::is_inside() {
            return Err(Error::argument(Status::NOT_PERMITTED, operation, "it would wait inside of a host function")
                .with_hint("signal another thread, and wait there"));
        }
        self.core().refuse_while_capturing(operation)?;
        let entered = Entered::default();
        let wait = WaitOnDrop(self);
        let scope = StreamScope {
            stream: self,
            entered: &entered,
            thread: std::thread::current().id(),
            scope: PhantomData,
            environment: PhantomData,
        };
        let result = body(&scope);
        let waited = wait.finish();
        let others = entered.finish();
        let value = result?;
        waited.and(others).map(|()| value)
    }
}

/// Returns only when no work of the stream uses borrowed memory any more.
fn wait_whatever_happens(stream: &Stream) {
    let core = stream.core();
    let (driver, call) = (core.context().driver(), core.context().call("waiting at the end of a scope"));
    loop {
        // SAFETY: the stream is open while it is borrowed. The scope was entered on this thread, so that a per-thread
        // stream is this thread's.
        let result = unsafe { driver.stream_synchronize(&call, core.raw()) };
        match result {
            Ok(()) => return,
            Err(failure) if failure.status.is_sticky() => return,
            // Somebody else has made the stream wait for something, such as the end of a capture. To return would be to
            // let the device write memory that is no longer borrowed.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
}

/// Calls `queue`, which queues work that must not be captured, unless the stream is capturing. The stream does not join
/// a capture in the meantime.
pub(crate) fn uncaptured<R>(stream: &Stream, operation: &'static str, queue: impl FnOnce() -> Result<R>) -> Result<R> {
    let _submitting = stream.core().shared().membership().submitting();
    stream.core().refuse_while_capturing(operation)?;
    queue()
}

/// A stream that was entered in a scope, which also waits for it. See [`StreamScope::on`].
#[derive(Clone, Copy, Debug)]
pub struct ScopedStream<'scope, 'env: 'scope> {
    stream: &'scope Stream,
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
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, `CUDA_ERROR_NOT_PERMITTED (800)`
    /// inside a host function, and `CUDA_ERROR_INVALID_HANDLE (400)` for the default stream of a thread other than the
    /// scope's. In these cases the stream is not entered.
    pub fn on(&self, stream: &'env Stream) -> Result<ScopedStream<'scope, 'env>> {
        let operation = "entering a stream in a scope";
        stream.core().refuse_while_capturing(operation)?;
        if stream.as_raw().is_per_thread() && std::thread::current().id() != self.thread {
            let message = "the scope ends on another thread, which cannot wait for this thread's default stream";
            return Err(Error::argument(Status::INVALID_HANDLE, operation, message)
                .with_hint("enter a scope of its own on this thread")
                .at(stream.core().place()));
        }
        let mut streams = self.entered.streams.lock();
        if stream != self.stream && !streams.contains(&stream) {
            streams.push(stream);
        }
        Ok(ScopedStream { stream, scope: PhantomData, environment: PhantomData })
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

            /// Copies from host memory in stream order, without waiting for the copy. The scope borrows the memory.
            ///
            /// # Errors
            /// Same as [`Stream::copy_from_host`]; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream has
            /// begun to capture, or a capture uses the buffer.
            #[track_caller]
            pub fn copy_from_host<'d, T: Pod>(
                &self,
                destination: impl Into<BufferSliceMut<'d, T>>,
                source: &'env [T],
            ) -> Result<()> {
                let destination = destination.into();
                uncaptured(self.stream, "copying", || {
                    refuse_captured_memory(destination.allocation(), self.stream.core(), "copying")?;
                    if destination.allocation().is_retained() {
                        return staged::copy_from_host(self.stream, destination, source);
                    }
                    // SAFETY: the source is borrowed for the environment's life, and the scope waits before that ends.
                    unsafe { self.stream.copy_from_host_unchecked(destination, source) }
                })
            }

            /// Copies to host memory in stream order, without waiting for the copy. The scope borrows the memory.
            ///
            /// # Errors
            /// Same as [`Stream::copy_to_host`]; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream has begun
            /// to capture, or a capture uses the buffer.
            #[track_caller]
            pub fn copy_to_host<'s, T: Pod>(
                &self,
                destination: &'env mut [T],
                source: impl Into<BufferSlice<'s, T>>,
            ) -> Result<()> {
                let source = source.into();
                uncaptured(self.stream, "copying", || {
                    refuse_captured_memory(source.allocation(), self.stream.core(), "copying")?;
                    if source.allocation().is_retained() {
                        return staged::copy_to_host(self.stream, destination, source);
                    }
                    // SAFETY: the destination is borrowed exclusively for the environment's life, and the scope waits
                    // before that ends.
                    unsafe { self.stream.copy_to_host_unchecked(destination, source) }
                })
            }
        }
    };
}

scoped_work!(StreamScope);
scoped_work!(ScopedStream);
