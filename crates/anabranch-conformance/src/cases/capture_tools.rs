//! Helpers of the cases about capture.

use super::order_trace::Trace;
use crate::case::{Failed, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::GraphNodeKind;
use anabranch::{
    CaptureMode, CaptureStatus, DevicePointer, Error, Event, Graph, Result, Status, Stream, flush_deferred_drops,
};

pub(super) const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

pub(super) const OK: Status = Status::SUCCESS;
pub(super) const UNSUPPORTED: Status = Status::STREAM_CAPTURE_UNSUPPORTED;
pub(super) const INVALIDATED: Status = Status::STREAM_CAPTURE_INVALIDATED;

/// The status of a library call.
pub(super) fn answer<T, E: Into<Error>>(result: std::result::Result<T, E>) -> Status {
    result.map_or_else(|error| error.into().status(), |_| OK)
}

/// Runs `body` on a new thread.
pub(super) fn elsewhere<T: Send>(body: impl FnOnce() -> T + Send) -> std::result::Result<T, Failed> {
    std::thread::scope(|scope| scope.spawn(body).join()).map_err(|_| Failed("the other thread panicked".to_owned()))
}

/// A capturing stream and other objects that the cases need. They are created before the capture.
pub(super) struct Bench<'e> {
    pub(super) environment: &'e Environment,
    /// The capturing stream.
    pub(super) origin: Stream,
    /// A stream that is not capturing, unless a case makes it join the capture.
    pub(super) other: Stream,
    /// Two events with timing that were recorded in `other` and are complete.
    pub(super) recorded: [Event; 2],
    /// An event that was recorded in `origin` after the first captured kernel.
    pub(super) captured: Event,
    pub(super) trace: Trace<'e>,
}

impl<'e> Bench<'e> {
    pub(super) fn new(environment: &'e Environment) -> std::result::Result<Self, Failed> {
        Self::with_origin(environment, environment.stream()?)
    }

    pub(super) fn with_origin(environment: &'e Environment, origin: Stream) -> std::result::Result<Self, Failed> {
        let trace = Trace::new(environment)?;
        let other = environment.stream()?;
        let recorded = [other.record_event()?, other.record_event()?];
        other.synchronize()?;
        let captured = environment.context().create_event()?;
        Ok(Self { environment, origin, other, recorded, captured, trace })
    }

    /// Creates a bench and begins its capture, with one kernel in it.
    pub(super) fn capturing(environment: &'e Environment, mode: CaptureMode) -> std::result::Result<Self, Failed> {
        let bench = Self::new(environment)?;
        bench.begin(mode)?;
        Ok(bench)
    }

    /// Begins the capture, with one kernel in it.
    pub(super) fn begin(&self, mode: CaptureMode) -> Verdict {
        self.origin.begin_capture(mode)?;
        self.put(&self.origin)?;
        Ok(self.origin.record(&self.captured).map(drop)?)
    }

    /// Submits a kernel to a stream.
    pub(super) fn put(&self, stream: &Stream) -> Verdict {
        equal("launching a kernel", self.trace.ask(stream), OK)
    }

    /// Makes a stream join the capture by waiting for `captured`, and submits a kernel to it.
    pub(super) fn fork(&self, stream: &Stream) -> Verdict {
        stream.wait_event(&self.captured)?;
        self.put(stream)
    }

    /// Orders a stream after the work that is in another stream, with an event.
    pub(super) fn follow(&self, later: &Stream, earlier: &Stream) -> Verdict {
        let event = self.environment.context().create_event()?;
        earlier.record(&event)?;
        Ok(later.wait_event(&event)?)
    }

    pub(super) fn status(&self) -> Result<CaptureStatus> {
        self.origin.capture_status()
    }

    /// Checks that the capture continues, ends successfully and leaves everything usable. Returns the graph.
    pub(super) fn ends_well(&self, what: &str) -> std::result::Result<Graph, Failed> {
        equal(&format!("the capture's status after {what}"), self.status()?, CaptureStatus::Active)?;
        let graph = self.origin.end_capture().map_err(|error| Failed(format!("ending after {what}: {error:?}")))?;
        self.is_usable(what)?;
        Ok(graph)
    }

    /// Checks that the capture was invalidated, ends with `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` and leaves
    /// everything usable.
    pub(super) fn is_invalidated(&self, what: &str) -> Verdict {
        equal(&format!("the capture's status after {what}"), self.status()?, CaptureStatus::Invalidated)?;
        self.ends_with(what, INVALIDATED)
    }

    /// Checks that ending the capture returns this status and leaves everything usable.
    pub(super) fn ends_with(&self, what: &str, status: Status) -> Verdict {
        equal(&format!("ending after {what}"), answer(self.origin.end_capture()), status)?;
        self.is_usable(what)
    }

    pub(super) fn is_usable(&self, what: &str) -> Verdict {
        usable(self.environment, &[&self.origin, &self.other])
            .map_err(|failed| Failed(format!("the state after {what}: {}", failed.0)))
    }
}

/// Returns the status of a plain allocation on this thread. The memory is freed immediately.
pub(super) fn unsafe_call(environment: &Environment) -> Status {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    match driver.allocate(&context.into(), 64) {
        // SAFETY: the memory was just allocated, and nothing uses it.
        Ok(address) => status_of(unsafe { driver.free(&context.into(), address) }),
        Err(failure) => failure.status,
    }
}

/// Checks that no capture has left anything behind: the streams run work and can capture again, and no thread is
/// restricted.
pub(super) fn usable(environment: &Environment, streams: &[&Stream]) -> Verdict {
    equal("an unsafe call of this thread", unsafe_call(environment), OK)?;
    equal("an unsafe call of another thread", elsewhere(|| unsafe_call(environment))?, OK)?;
    equal("synchronizing the context", answer(environment.context().synchronize()), OK)?;
    // Memory that a dropped graph has retained is freed in stream order in the background: work that streams get later.
    flush_deferred_drops();
    equal("synchronizing the context again", answer(environment.context().synchronize()), OK)?;
    for stream in streams {
        equal("the status of a stream", stream.capture_status()?, CaptureStatus::None)?;
        equal("whether a stream is complete", stream.query()?, true)?;
        let trace = Trace::new(environment)?;
        trace.append(stream, 1)?;
        let graph = capture(stream, CaptureMode::Global, || trace.append(stream, 2))?;
        stream.synchronize()?;
        equal("the number before the launch of a new capture", trace.read()?, 1)?;
        let executable = graph.instantiate()?;
        executable.launch(stream)?;
        stream.synchronize()?;
        equal("the number after its launch", trace.read()?, 12)?;
    }
    Ok(())
}

/// Captures what `body` does. The capture has ended afterwards in any case.
pub(super) fn capture(
    stream: &Stream,
    mode: CaptureMode,
    body: impl FnOnce() -> Verdict,
) -> std::result::Result<Graph, Failed> {
    stream.begin_capture(mode)?;
    let verdict = body();
    let ended = stream.end_capture();
    verdict?;
    Ok(ended?)
}

/// The kinds of the nodes of a graph, sorted.
pub(super) fn kinds(graph: &Graph) -> Result<Vec<u32>> {
    let mut kinds = graph.nodes()?.into_iter().map(|node| graph.node_kind(node)).collect::<Result<Vec<_>>>()?;
    kinds.sort_by_key(|kind| kind.0);
    Ok(kinds.into_iter().map(|kind| kind.0).collect())
}

/// The number of nodes, roots and edges of a graph.
pub(super) fn shape(graph: &Graph) -> Result<[usize; 3]> {
    Ok([graph.nodes()?.len(), graph.root_nodes()?.len(), graph.edges()?.len()])
}

/// Checks that the nodes of a graph have these kinds.
pub(super) fn is_made_of(graph: &Graph, kinds_expected: &[GraphNodeKind]) -> Verdict {
    let mut expected: Vec<u32> = kinds_expected.iter().map(|kind| kind.0).collect();
    expected.sort_unstable();
    equal("the kinds of the nodes", kinds(graph)?, expected)
}

/// Launches a graph once and waits for it.
pub(super) fn run(graph: &Graph, stream: &Stream) -> Verdict {
    let executable = graph.instantiate()?;
    executable.launch(stream)?;
    Ok(stream.synchronize()?)
}

/// Frees plain memory that a call has left allocated.
pub(super) fn free_plain(environment: &Environment, addresses: impl IntoIterator<Item = DevicePointer>) {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for address in addresses {
        // SAFETY: the caller's addresses were allocated and not freed, and nothing uses them.
        let _ = unsafe { driver.free(&context.into(), address) };
    }
}
