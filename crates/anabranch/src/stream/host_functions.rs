//! Host functions and callbacks.

use super::Stream;
use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use anabranch_core::host_work::RepeatableHostWork;
use anabranch_core::stream::StreamCore;
use anabranch_hal::Status;
use std::fmt;
use std::sync::Arc;

/// The stream of a [callback](Stream::add_callback): which stream it is. Calls of streams are not permitted in a callback.
/// It compares with a [`Stream`], and does not keep the stream open.
#[derive(Clone)]
pub struct CallbackStream {
    core: Arc<StreamCore>,
}

impl CallbackStream {
    /// The driver's id of the stream, as [`Stream::id`].
    pub fn id(&self) -> u64 {
        self.core.id()
    }

    /// The name, as [`Stream::name`].
    pub fn name(&self) -> Option<&str> {
        self.core.label().name()
    }

    /// The stream's context.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        Device::from_core(self.core.context().device().clone())
    }
}

impl PartialEq<Stream> for CallbackStream {
    fn eq(&self, stream: &Stream) -> bool {
        self.core.is_same(stream.core())
    }
}

impl fmt::Debug for CallbackStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CallbackStream({})", self.core.place())
    }
}

impl Stream {
    /// Runs `function` on a thread of the driver after all work queued so far, and before all work queued later. When
    /// it starts, all earlier work in this stream is complete, and its results can be read. On the software device, a thread that
    /// waits for it, or for what comes behind it, may run it instead, with the stack and the thread variables of that thread.
    ///
    /// The function must not call this library: calls in it return
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED). It must not wait for work that may be unable
    /// to run until the function has returned. Dropping objects of this library in it is allowed. If the context is in
    /// error, or the driver refuses the function, it is dropped without being run, on a thread of the library. If it
    /// panics, the next [`synchronize`](Self::synchronize) or [`query`](Self::query) of this stream, or the next
    /// synchronization of its context, reports the panic once. Later work still runs. A context keeps the panics of 1,024 streams
    /// that nobody has asked for, the last ones.
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, because a graph runs its host functions at every launch. This does not invalidate the capture. Use
    /// [`launch_repeatable_host_func`](Self::launch_repeatable_host_func) instead. Otherwise only an error of earlier
    /// asynchronous work.
    #[track_caller]
    pub fn launch_host_func<F>(&self, function: F) -> Result<()>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core().launch_host_function(function)
    }

    /// Like [`launch_host_func`](Self::launch_host_func), for a function that can run any number of times. If the
    /// stream is capturing, the function becomes a node, which runs it at every launch of the graph. A panic is then
    /// reported by the stream of the launch, not by this one. The graph retains the function. It is dropped on a thread of the
    /// library, at a time that [`flush_deferred_drops`](crate::flush_deferred_drops) waits for, and a panic meanwhile is reported as
    /// one in the function.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn launch_repeatable_host_func<F>(&self, function: F) -> Result<()>
    where
        F: Fn() + Send + Sync + 'static,
    {
        let work = RepeatableHostWork::new(function);
        self.core().launch_repeatable_host_function(&work)
    }

    /// Runs `callback` as [`launch_host_func`](Self::launch_host_func) does, but also if the context is in error, and
    /// passes the stream and the status to it. It runs exactly once. It cannot be captured. The CUDA documentation
    /// recommends host functions where the status is not needed.
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// stream.add_callback(move |stream, status| sender.send((stream.clone(), status)).unwrap())?;
    /// let (called_by, status) = receiver.recv().unwrap();
    /// assert!(called_by == stream && status.is_success());
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, which invalidates the capture; otherwise only an error of earlier asynchronous work.
    #[track_caller]
    pub fn add_callback<F>(&self, callback: F) -> Result<()>
    where
        F: FnOnce(&CallbackStream, Status) + Send + 'static,
    {
        let stream = CallbackStream { core: self.core().core().clone() };
        self.core().add_callback(move |status| callback(&stream, status))
    }
}
