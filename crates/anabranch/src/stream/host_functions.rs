//! Host functions and callbacks.

use super::Stream;
use crate::error::{Result, ResultExt};
use crate::host_work;
use crate::trace;
use anabranch_hal::Status;

impl Stream {
    /// Runs `function` on a thread of the driver's after all work queued so far, and before all work queued later. Its
    /// start has the effect of having synchronised everything before it in this stream.
    ///
    /// The function must not use this library, nor wait for work that is not certain to run without it; calls it makes
    /// answer 800. Dropping objects of this library inside of it is fine. When the context is in error it is dropped
    /// without being run. If it panics, the next [`synchronize`](Self::synchronize) or [`query`](Self::query) of this
    /// stream, or the next synchronisation of its context, reports the panic once; later work runs all the same.
    ///
    /// # Errors
    /// 900 while the stream captures, because a graph runs its host functions at every launch; see
    /// [`launch_repeatable_host_func`](Self::launch_repeatable_host_func). Else only an error of earlier asynchronous
    /// work.
    pub fn launch_host_func<F>(&self, function: F) -> Result<()>
    where
        F: FnOnce() + Send + 'static,
    {
        let operation = "launching a host function";
        trace::queued!(stream = self.core.id(), "{operation}");
        let handle = self.core.handle(operation)?;
        let work = host_work::host_function(function);
        let _queueing = self.core.context().queue_host_bound();
        // SAFETY: the stream is live while it is borrowed; the driver catches the work's panics.
        unsafe { self.core.context().driver().stream_launch_host_function(self.core.context().handle(), handle, work) }
            .during(operation, || self.core.place())
            .map_err(|error| match error.status() {
                Status::STREAM_CAPTURE_UNSUPPORTED => {
                    error.with_hint("a graph runs its host functions at every launch: use launch_repeatable_host_func")
                }
                _ => error,
            })
    }

    /// As [`launch_host_func`](Self::launch_host_func), for a function that can run any number of times. While the stream
    /// captures it becomes a node, which runs it at every launch of the graph; the graph keeps it.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn launch_repeatable_host_func<F>(&self, function: F) -> Result<()>
    where
        F: Fn() + Send + Sync + 'static,
    {
        let operation = "launching a host function";
        let handle = self.core.handle(operation)?;
        let work = host_work::repeatable(function).into();
        let _queueing = self.core.context().queue_host_bound();
        // SAFETY: the stream is live while it is borrowed; the driver catches the work's panics.
        unsafe { self.core.context().driver().stream_launch_host_function(self.core.context().handle(), handle, work) }
            .during(operation, || self.core.place())
    }

    /// Runs `callback` as [`launch_host_func`](Self::launch_host_func) does, but also when the context is in error, and
    /// tells it the status. It runs exactly once. It cannot be captured into a graph. The driver's documentation calls
    /// this the older way, and recommends host functions where the status is not needed.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn add_callback<F>(&self, callback: F) -> Result<()>
    where
        F: FnOnce(Status) + Send + 'static,
    {
        let operation = "adding a callback";
        trace::queued!(stream = self.core.id(), "{operation}");
        let handle = self.core.handle(operation)?;
        let callback = host_work::callback(callback);
        let _queueing = self.core.context().queue_host_bound();
        // SAFETY: the stream is live while it is borrowed; the driver catches the callback's panics.
        unsafe { self.core.context().driver().stream_add_callback(self.core.context().handle(), handle, callback) }
            .during(operation, || self.core.place())
    }
}
