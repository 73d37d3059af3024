//! Captures that end however the closure is left.

use crate::error::Result;
use crate::graph::{ExecutableGraph, Graph};
use crate::stream::Stream;
use anabranch_core::capture_state::Whole;
use anabranch_core::conditional_part::Part;
use anabranch_core::node::Dependencies;
use anabranch_hal::{CaptureMode, InstantiateFlags};
use std::marker::PhantomData;
use std::ops::Deref;

/// A capturing stream inside [`Stream::capture`]. It can be used like the [`Stream`]. It cannot leave the closure or
/// its thread.
#[derive(Debug)]
pub struct CaptureScope<'scope> {
    stream: &'scope Stream,
    mode: CaptureMode,
    /// Invariant, and bound to one thread.
    scope: PhantomData<(&'scope mut &'scope (), *const ())>,
}

impl Deref for CaptureScope<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        self.stream
    }
}

impl<'scope> CaptureScope<'scope> {
    pub(super) fn new(stream: &'scope Stream, mode: CaptureMode) -> Self {
        Self { stream, mode, scope: PhantomData }
    }

    /// The stream.
    pub fn stream(&self) -> &'scope Stream {
        self.stream
    }

    /// The mode of the capture.
    pub fn mode(&self) -> CaptureMode {
        self.mode
    }

    /// Makes another stream join the capture: its later work depends on what this stream has captured so far. The same
    /// as `other.wait_stream(scope)`.
    ///
    /// # Errors
    /// Same as [`Stream::wait_stream`].
    pub fn fork(&self, other: &Stream) -> Result<()> {
        other.wait_stream(self.stream)
    }

    /// Makes later work of this stream depend on what `other` has captured so far. The same as
    /// `scope.wait_stream(other)`.
    ///
    /// # Errors
    /// Same as [`Stream::wait_stream`].
    pub fn join(&self, other: &Stream) -> Result<()> {
        self.stream.wait_stream(other)
    }
}

/// Ends the capture when the closure panics.
struct EndOnDrop<'a>(&'a Stream);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        // Whatever comes of it, the stream is usable again; a graph is dropped.
        let _ = self.0.end_capture();
    }
}

impl Stream {
    /// Captures the work that `body` submits to this stream, and to streams that are made to wait for it, into a graph.
    /// None of it runs. The capture ends however `body` is left, including by a panic, and the streams can be used
    /// afterwards in every case.
    ///
    /// The graph retains what was captured: buffers, modules, events and closures. Buffers that are allocated in the
    /// closure belong to the graph: a launch allocates them, and frees those that were dropped in the closure.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (stream, other) = (context.create_stream()?, context.create_stream()?);
    /// let source = stream.upload(&[1u32, 2, 3, 4])?;
    /// let (mut left, mut right) = (stream.allocate_zeroed::<u32>(2)?, stream.allocate_zeroed::<u32>(2)?);
    ///
    /// let graph = stream.capture(CaptureMode::Global, |scope| {
    ///     scope.fork(&other)?;
    ///     scope.copy(&mut left, source.slice(..2)?)?;
    ///     other.copy(&mut right, source.slice(2..)?)?;
    ///     scope.join(&other)
    /// })?;
    /// assert_eq!(graph.nodes()?.len(), 2);
    ///
    /// let executable = graph.instantiate()?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&left)?, [1, 2]);
    /// assert_eq!(stream.download(&right)?, [3, 4]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// Follows `cuStreamBeginCapture` and `cuStreamEndCapture`. Warp calls it `ScopedCapture`.
    ///
    /// # Errors
    /// The body's error; otherwise the same as [`begin_capture`](Self::begin_capture) and
    /// [`end_capture`](Self::end_capture).
    #[track_caller]
    pub fn capture<F>(&self, mode: CaptureMode, body: F) -> Result<Graph>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        self.begin_capture(mode)?;
        self.run_body(mode, body)
    }

    /// Like [`capture`](Self::capture), but captures into an existing graph. The first node depends on the given nodes.
    /// If ending the capture fails, the graph is empty afterwards, because drivers destroy it in that case. If only the
    /// body fails, the graph contains what was captured before the failure. Follows `cuStreamBeginCaptureToGraph`.
    ///
    /// # Errors
    /// Same as [`capture`](Self::capture); `CUDA_ERROR_INVALID_VALUE (1)` if a node does not belong to the graph;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver is too old.
    #[track_caller]
    pub fn capture_into<F>(
        &self,
        graph: &mut Graph,
        dependencies: impl Dependencies,
        mode: CaptureMode,
        body: F,
    ) -> Result<()>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let dependencies = dependencies.list();
        if graph.object().is_body() {
            // Hardware destroys the body if the capture fails, and then crashes over the graph around.
            self.core().begin_capture(mode, Whole::Body(graph.object().clone()))?;
            return self.run_body_as_part(mode, body)?.copy_into(graph.object(), &dependencies);
        }
        self.core().begin_capture_to(graph.object(), &dependencies, mode)?;
        self.run_body(mode, body).map(drop)
    }

    /// Runs the body of a capture that has begun, and ends it.
    fn run_body<F>(&self, mode: CaptureMode, body: F) -> Result<Graph>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        self.run_body_as_part(mode, body).map(|part| Graph::from_object(part.graph))
    }

    pub(super) fn run_body_as_part<F>(&self, mode: CaptureMode, body: F) -> Result<Part>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let end = EndOnDrop(self);
        let result = body(&CaptureScope::new(self, mode));
        std::mem::forget(end);
        let ended = self.core().end_capture();
        // The body's error says more than what the capture made of it.
        result.and(ended)
    }

    /// [Captures](Self::capture) and [instantiates](Graph::instantiate).
    ///
    /// # Errors
    /// Same as [`capture`](Self::capture) and [`Graph::instantiate`].
    #[track_caller]
    pub fn capture_executable<F>(&self, mode: CaptureMode, body: F) -> Result<ExecutableGraph>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        self.capture_executable_with_flags(mode, InstantiateFlags::empty(), body)
    }

    /// Like [`capture_executable`](Self::capture_executable), with flags. With [`InstantiateFlags::UPLOAD`], the
    /// executable graph is uploaded in the order of this stream.
    ///
    /// # Errors
    /// Same as [`capture`](Self::capture) and [`Graph::instantiate_with_flags`].
    #[track_caller]
    pub fn capture_executable_with_flags<F>(
        &self,
        mode: CaptureMode,
        flags: InstantiateFlags,
        body: F,
    ) -> Result<ExecutableGraph>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let graph = self.capture(mode, body)?;
        if flags.contains(InstantiateFlags::UPLOAD) {
            graph.instantiate_and_upload(flags, self)
        } else {
            graph.instantiate_with_flags(flags)
        }
    }
}
