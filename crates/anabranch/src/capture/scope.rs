//! Captures that end however the closure is left.

use crate::error::Result;
use crate::graph::{BodyGraph, ExecutableGraph, Graph};
use crate::stream::Stream;
use anabranch_core::capture_state::{CaptureEnd, CaptureState, Whole};
use anabranch_core::conditional_part::Part;
use anabranch_core::graph_object::GraphObject;
use anabranch_core::node::Dependencies;
use anabranch_hal::{CaptureMode, InsideWorkBefore, InstantiateFlags};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

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

/// Ends a capture when its closure returns or panics.
struct ClosureCapture<'a> {
    stream: &'a Stream,
    capture: Option<Arc<CaptureState>>,
    /// The closure may mark the thread, and keep the mark, with which the capture could not be ended.
    inside: Option<InsideWorkBefore>,
}

impl ClosureCapture<'_> {
    fn end(&mut self) -> Result<Part> {
        drop(self.inside.take());
        let capture = self.capture.take();
        let ended = self.stream.core().end_capture(capture.as_ref());
        if let (Err(_), Some(capture)) = (&ended, capture) {
            // If another thread submits work to the capture without end, the capture stays open.
            capture.end_by_call();
        }
        ended
    }
}

impl Drop for ClosureCapture<'_> {
    fn drop(&mut self) {
        if self.capture.is_some() {
            // Whatever comes of it, the stream is usable again; a graph is dropped.
            let _ = self.end();
        }
    }
}

/// What [`Stream::capture_into`] captures into: a [`Graph`] or a [`BodyGraph`].
pub trait CaptureTarget: sealed::Target {}

impl CaptureTarget for Graph {}
impl CaptureTarget for BodyGraph<'_> {}

mod sealed {
    use super::{Arc, BodyGraph, Graph, GraphObject};

    pub trait Target {
        fn object(&self) -> &Arc<GraphObject>;

        /// The graph, unless it is a body.
        fn as_graph(&mut self) -> Option<&mut Graph>;
    }

    impl Target for Graph {
        fn object(&self) -> &Arc<GraphObject> {
            self.object()
        }

        fn as_graph(&mut self) -> Option<&mut Graph> {
            Some(self)
        }
    }

    impl Target for BodyGraph<'_> {
        fn object(&self) -> &Arc<GraphObject> {
            Graph::object(self)
        }

        fn as_graph(&mut self) -> Option<&mut Graph> {
            None
        }
    }
}

/// Puts a new graph in the place of one that a failed capture into it has destroyed, or that a capture into it that could not
/// be ended still uses, because a graph has one owner.
pub(super) struct OwnGraph<'a> {
    pub(super) graph: &'a mut Graph,
    pub(super) capture: Arc<CaptureState>,
}

impl Drop for OwnGraph<'_> {
    fn drop(&mut self) {
        if !self.capture.has_ended() || self.graph.object().is_broken() {
            *self.graph = Graph::from_object(GraphObject::create_or_null(self.graph.object().context()));
        }
    }
}

impl Stream {
    /// Captures the work that `body` submits to this stream, and to streams that are made to wait for it, into a graph.
    /// None of it runs. The capture ends however `body` is left, including by a panic, and the streams can be used
    /// afterwards in every case.
    ///
    /// The graph retains what was captured: buffers, modules, events and closures. Buffers that are allocated in the
    /// closure belong to the graph: a launch allocates them, and frees those that were dropped in the closure. A free is
    /// work of the stream that the memory was allocated in, so that this stream has to be joined behind the drop.
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
        let capture = self.core().begin_capture(mode, Whole::Itself, CaptureEnd::Closure)?;
        self.run_body(capture, mode, body)
    }

    /// Like [`capture`](Self::capture), but captures into an existing graph. The first node depends on the given nodes, by which
    /// alone the program orders what is captured behind nodes that were in the graph before.
    /// If ending the capture fails, a new, empty graph is in its place afterwards, because drivers destroy it in that case. If
    /// only the body fails, the graph contains what was captured before the failure. If a body of a conditional node cannot be
    /// filled, the graph around it cannot be used any more. In a body, the first node depends on the ends of the given nodes, whatever
    /// the data of the edges. Follows `cuStreamBeginCaptureToGraph`.
    ///
    /// # Errors
    /// Same as [`capture`](Self::capture); [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the graph
    /// belongs to another context; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if a node
    /// does not belong to the graph; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver is
    /// too old.
    #[track_caller]
    pub fn capture_into<G, F>(
        &self,
        graph: &mut G,
        dependencies: impl Dependencies,
        mode: CaptureMode,
        body: F,
    ) -> Result<()>
    where
        G: CaptureTarget,
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let dependencies = dependencies.list();
        let Some(graph) = graph.as_graph() else {
            // Hardware destroys the body if the capture fails, and then crashes over the graph around.
            let object = graph.object();
            let whole = Whole::Body(object.clone());
            let capture = self.core().begin_capture(mode, whole, CaptureEnd::Closure)?;
            return self.run_body_as_part(capture, mode, body)?.copy_into(object, &dependencies);
        };
        let capture = self.core().begin_capture_to(graph.object(), &dependencies, mode, CaptureEnd::Closure)?;
        let _own = OwnGraph { graph, capture: capture.clone() };
        self.run_body(capture, mode, body).map(drop)
    }

    /// Runs the body of a capture that has begun, and ends it.
    fn run_body<F>(&self, capture: Arc<CaptureState>, mode: CaptureMode, body: F) -> Result<Graph>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        self.run_body_as_part(capture, mode, body).map(|part| Graph::from_object(part.graph))
    }

    pub(super) fn run_body_as_part<F>(&self, capture: Arc<CaptureState>, mode: CaptureMode, body: F) -> Result<Part>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        // SAFETY: it is dropped when the capture ends, at the end of this function at the latest.
        let inside = unsafe { InsideWorkBefore::note() };
        let mut capture = ClosureCapture { stream: self, capture: Some(capture), inside: Some(inside) };
        let result = body(&CaptureScope::new(self, mode));
        let ended = capture.end();
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
