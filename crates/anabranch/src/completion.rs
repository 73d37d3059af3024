//! Completion as futures.

mod enqueued;
mod pipeline;

pub use enqueued::Enqueued;
pub use pipeline::Pipeline;

use crate::error::Result;
use crate::graph::ExecutableGraph;
use crate::kernel::{KernelArguments, KernelCall, LaunchConfig};
use crate::stream::Stream;
use anabranch_core::completion::Completion;

const OPERATION: &str = "awaiting completion";

impl Stream {
    /// A future that is ready when all work queued so far is complete. It reports a lost context. It does not report
    /// panics of host functions and kernels; a later call such as
    /// [`checked_completion_future`](Self::checked_completion_future) does.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (left, right) = (context.create_stream()?, context.create_stream()?);
    /// let buffer = left.upload(&[1u32, 2, 3])?;
    /// right.launch_host_func(|| println!("meanwhile"))?;
    /// # futures::executor::block_on(async {
    /// let (first, second) = futures::join!(left.completion_future(), right.completion_future());
    /// first.and(second)
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future returns an error if the context is lost. It returns
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) at once if the stream
    /// is capturing, which does not invalidate the capture.
    pub fn completion_future(&self) -> Completion {
        Completion::of_stream(self.core(), false)
    }

    /// Like [`completion_future`](Self::completion_future), but also reports a panic of a host function or kernel of
    /// the stream, as [`synchronize`](Self::synchronize) does: once, to the first call that asks. The panic is not
    /// reported here if the stream was dropped in the meantime, or if the stream is another thread's default stream.
    ///
    /// # Errors
    /// The future returns the errors of [`completion_future`](Self::completion_future), and a panic.
    pub fn checked_completion_future(&self) -> Completion {
        Completion::of_stream(self.core(), true)
    }

    /// [`synchronize`](Self::synchronize) for tasks: returns a
    /// [`checked_completion_future`](Self::checked_completion_future).
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// # futures::executor::block_on(async {
    /// stream.launch_host_func(|| panic!("on purpose"))?;
    /// let error = stream.synchronize_async().await.unwrap_err();
    /// assert!(error.to_string().contains("on purpose"));
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`checked_completion_future`](Self::checked_completion_future).
    pub fn synchronize_async(&self) -> Completion {
        self.checked_completion_future()
    }

    /// Runs `body`, which queues work, immediately, and returns a future of its value that is ready when that work is
    /// complete. The future holds the value until then, and so everything that the value owns. Work that the body queues
    /// while another thread lets the stream join a capture is captured, does not run, and is not waited for.
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let buffer = stream.enqueue_async(|stream| stream.allocate_zeroed::<u8>(3)).await?;
    /// assert_eq!(buffer.len(), 3);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future returns the error of the body; otherwise the same as
    /// [`checked_completion_future`](Self::checked_completion_future). If the stream is capturing, the body is not run.
    pub fn enqueue_async<T, F>(&self, body: F) -> Enqueued<T>
    where
        F: FnOnce(&Stream) -> Result<T>,
    {
        match self.core().refuse_while_capturing(OPERATION).and_then(|()| body(self)) {
            Ok(value) => {
                let completion = Completion::of_stream(self.core(), true);
                let value = (!completion.is_over()).then_some(value);
                Enqueued::new(completion, value)
            }
            Err(error) => Enqueued::new(Completion::failed(error), None),
        }
    }

    /// Returns the results of work on chunks of input, in order, with at most `depth` chunks (and at least one) in
    /// flight. `enqueue` queues the work for one input and returns the value that is its result. The pipeline returns
    /// the value when the work is complete.
    ///
    /// ```
    /// use futures::TryStreamExt;
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let chunks = stream.pipeline(2, 0..5u8, |stream, value| {
    ///     let mut buffer = stream.allocate_zeroed::<u8>(100)?;
    ///     stream.fill(&mut buffer, value)?;
    ///     Ok(buffer)
    /// });
    /// let buffers: Vec<_> = chunks.try_collect().await?;
    /// assert_eq!(stream.download(&buffers[4])?, [4; 100]);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    pub fn pipeline<I, F, T>(&self, depth: usize, inputs: I, enqueue: F) -> Pipeline<&Stream, I::IntoIter, F, T>
    where
        I: IntoIterator,
        F: FnMut(&Stream, I::Item) -> Result<T>,
    {
        Pipeline::new(self, depth, inputs, enqueue)
    }
}

impl ExecutableGraph {
    /// [Launches](Self::launch) the graph in the order of `stream`, and returns a
    /// [`checked_completion_future`](Stream::checked_completion_future) of the stream.
    ///
    /// # Errors
    /// The future returns the errors of [`launch`](Self::launch) and
    /// [`checked_completion_future`](Stream::checked_completion_future). If the stream is capturing, nothing is
    /// launched.
    pub fn launch_async(&self, stream: &Stream) -> Completion {
        launched(stream, || self.launch(stream))
    }
}

impl<A: KernelArguments> KernelCall<'_, A> {
    /// [Launches](Self::launch) the kernel in the order of `stream`, and returns a
    /// [`checked_completion_future`](Stream::checked_completion_future) of the stream. The future borrows none of the
    /// arguments.
    ///
    /// # Safety
    /// Same as for [`launch`](Self::launch). Dropping the future does not change that.
    ///
    /// # Errors
    /// The future returns the errors of [`launch`](Self::launch) and
    /// [`checked_completion_future`](Stream::checked_completion_future). If the stream is capturing, nothing is
    /// launched.
    pub unsafe fn launch_async(self, stream: &Stream, config: &LaunchConfig<'_>) -> Completion {
        // SAFETY: the caller promises that the declaration is that of the code, and that the launch is sound.
        launched(stream, || unsafe { self.launch(stream, config) })
    }
}

/// A future of what `launch` queues. `launch` is not called if the stream is capturing.
fn launched(stream: &Stream, launch: impl FnOnce() -> Result<()>) -> Completion {
    match stream.core().refuse_while_capturing(OPERATION).and_then(|()| launch()) {
        Ok(()) => Completion::of_stream(stream.core(), true),
        Err(error) => Completion::failed(error),
    }
}
