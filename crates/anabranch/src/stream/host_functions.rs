//! Host functions and callbacks.

use super::Stream;
use crate::error::Result;
use anabranch_core::host_work::RepeatableHostWork;
use anabranch_hal::Status;

impl Stream {
    /// Runs `function` on a thread of the driver's after all work queued so far, and before all work queued later. Its
    /// start has the effect of having synchronized everything before it in this stream.
    ///
    /// The function must not use this library, nor wait for work that is not certain to run without it; calls it makes
    /// answer `CUDA_ERROR_NOT_PERMITTED (800)`. Dropping objects of this library inside of it is fine. When the context is in error it is dropped
    /// without being run. If it panics, the next [`synchronize`](Self::synchronize) or [`query`](Self::query) of this
    /// stream, or the next synchronization of its context, reports the panic once; later work runs all the same.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while the stream captures, because a graph runs its host functions at every launch; see
    /// [`launch_repeatable_host_func`](Self::launch_repeatable_host_func). Else only an error of earlier asynchronous
    /// work.
    #[track_caller]
    pub fn launch_host_func<F>(&self, function: F) -> Result<()>
    where
        F: FnOnce() + Send + 'static,
    {
        self.core().launch_host_function(function)
    }

    /// As [`launch_host_func`](Self::launch_host_func), for a function that can run any number of times. While the stream
    /// captures it becomes a node, which runs it at every launch of the graph; the graph retains it.
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

    /// Runs `callback` as [`launch_host_func`](Self::launch_host_func) does, but also when the context is in error, and
    /// tells it the status. It runs exactly once. It cannot be captured into a graph. The driver's documentation calls
    /// this the older way, and recommends host functions where the status is not needed.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while the stream captures, which invalidates the capture; else only an
    /// error of earlier asynchronous work.
    #[track_caller]
    pub fn add_callback<F>(&self, callback: F) -> Result<()>
    where
        F: FnOnce(Status) + Send + 'static,
    {
        self.core().add_callback(callback)
    }
}
