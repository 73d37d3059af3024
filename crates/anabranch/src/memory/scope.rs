//! Scopes: work that borrows host memory, and is waited for on every way out.

use super::{BufferSlice, BufferSliceMut};
use crate::error::{Error, Result};
use crate::host_work;
use crate::stream::Stream;
use anabranch_hal::{CaptureStatus, Status};
use bytemuck::Pod;
use std::marker::PhantomData;

/// Where work that borrows host memory can be queued. See [`Stream::sync_scope`].
#[derive(Debug)]
pub struct StreamScope<'scope, 'env: 'scope> {
    stream: &'scope Stream,
    /// Invariant in both, as in [`std::thread::scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    environment: PhantomData<&'env mut &'env ()>,
}

/// Waits for the stream when it is dropped, a panic of the scope's body included.
struct WaitOnDrop<'a>(&'a Stream);

impl Drop for WaitOnDrop<'_> {
    fn drop(&mut self) {
        wait_whatever_happens(self.0);
    }
}

impl Stream {
    /// Runs `body`, in which copies may borrow plain host memory, and waits for this stream on every way out, a panic
    /// included, before the borrows end.
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
    /// The body's error, else an error of the stream's work. 800 inside of a host function, where waiting is not
    /// permitted; 900 while the stream captures: captured work would use the borrowed memory later than the borrow.
    pub fn sync_scope<'env, F, R>(&self, body: F) -> Result<R>
    where
        F: for<'scope> FnOnce(&'scope StreamScope<'scope, 'env>) -> Result<R>,
    {
        let operation = "entering a scope";
        if host_work::is_inside() {
            return Err(Error::argument(Status::NOT_PERMITTED, operation, "it would wait inside of a host function")
                .with_hint("signal another thread, and wait there"));
        }
        self.refuse_while_capturing(operation)?;
        let wait = WaitOnDrop(self);
        let scope = StreamScope { stream: self, scope: PhantomData, environment: PhantomData };
        let result = body(&scope);
        let waited = self.synchronize();
        let finished = match &waited {
            Ok(()) => true,
            // A panic is reported after all work is complete; on a lost context nothing runs any more.
            Err(error) => error.is_asynchronous(),
        };
        if finished {
            std::mem::forget(wait);
        }
        let value = result?;
        waited.map(|()| value)
    }
}

/// Returns only when no work of the stream uses borrowed memory any more.
fn wait_whatever_happens(stream: &Stream) {
    let core = stream.core();
    let (driver, context) = (core.context().driver(), core.context().handle());
    loop {
        // SAFETY: the stream is live while it is borrowed. The scope was entered on this thread, so that a per-thread
        // stream is this thread's.
        let result = unsafe { driver.stream_synchronize(context, core.raw()) };
        match result {
            Ok(()) => return,
            Err(failure) if failure.status.is_sticky() => return,
            // Somebody else has made the stream wait for something, such as the end of a capture. To return would be to
            // let the device write memory that is no longer borrowed.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
}

impl Stream {
    /// Refuses an operation that waits for the stream's work, or would let captured work keep what is only borrowed. It
    /// does no harm to the capture.
    pub(crate) fn refuse_while_capturing(&self, operation: &'static str) -> Result<()> {
        let core = self.core();
        let handle = core.handle(operation)?;
        // SAFETY: the stream is live while it is borrowed. The driver is asked, because another library may capture.
        let status = unsafe { core.context().driver().stream_capture_status(core.context().handle(), handle) };
        match status {
            Ok(CaptureStatus::None) => Ok(()),
            // A lost context, or the legacy stream beside a capture: what follows says so.
            Err(_) => Ok(()),
            Ok(_) => Err(Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "the stream captures")
                .with_hint("do this before the capture; captured copies take device or pinned buffers")
                .at(core.place())),
        }
    }
}

impl<'scope, 'env> StreamScope<'scope, 'env> {
    /// The scope's stream.
    pub fn stream(&self) -> &'scope Stream {
        self.stream
    }

    /// Copies from host memory that the scope borrows, in stream order, without waiting for the copy.
    ///
    /// # Errors
    /// As [`Stream::copy_from_host`].
    pub fn copy_from_host<'d, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: &'env [T],
    ) -> Result<()> {
        // SAFETY: the source is borrowed for the environment's life, and the scope waits before that ends.
        unsafe { self.stream.copy_from_host_unchecked(destination, source) }
    }

    /// Copies to host memory that the scope borrows, in stream order, without waiting for the copy.
    ///
    /// # Errors
    /// As [`Stream::copy_to_host`].
    pub fn copy_to_host<'s, T: Pod>(
        &self,
        destination: &'env mut [T],
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        // SAFETY: the destination is borrowed exclusively for the environment's life, and the scope waits before that
        // ends.
        unsafe { self.stream.copy_to_host_unchecked(destination, source) }
    }
}
