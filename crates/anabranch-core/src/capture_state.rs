//! The library's state of a capture: its member streams, the memory that they use, and what its graph must retain.

mod capturing;
mod condition;
mod end;
mod history;
#[cfg(all(test, loom))]
mod loom_tests;
mod order;
mod recapture;
mod thread_exit;

pub use capturing::{Capturing, capturing};
pub use condition::OpenCondition;
pub use end::{FinishedCapture, has_ended};
pub use history::CapturedClock;
pub use order::wait_for_stream;
pub use recapture::RecapturedNode;
pub use thread_exit::give_up_abandoned;

use crate::conditional_part::CapturedCondition;
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::graph_object::{GraphObject, next_graph_id};
use crate::graph_traits::GraphTraits;
use crate::memory::{Allocation, Origin};
use crate::node::{Node, NodeTable};
use crate::ranks;
use crate::retained::Retained;
use crate::stream::{StreamCore, StreamShared};
use anabranch_hal::{
    Access, CaptureStatus, DevicePointer, GraphNodeHandle, Live, RecaptureRecord, Status, StreamHandle,
};
use anabranch_sync::modelled;
use history::{CapturedHistory, MissingOrder};
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often the driver is asked whether a stream captures, a millisecond apart, if it does not answer.
const ASKED: usize = 1000;

/// A capture that was begun through this library.
pub struct CaptureState {
    /// The id of the graph that is being captured.
    graph: u64,
    /// The id of the origin.
    origin: u64,
    /// The context of the origin.
    context: Arc<ContextCore>,
    /// What this capture is a part of.
    whole: Whole,
    ends_with_closure: AtomicBool,
    /// Of how many conditional nodes the parts are being captured.
    open_conditions: AtomicUsize,
    /// The existing graph that is captured into, if any.
    into: Option<Arc<GraphObject>>,
    /// For a recapture: what it changes. The driver uses it until it has ended the capture.
    recapture: Option<RecaptureRecord>,
    /// Held by [`Capturing`].
    submission: modelled::Mutex<()>,
    inner: modelled::Mutex<Inner>,
}

/// Who ends a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureEnd {
    /// A call that ends the capture of a stream.
    Call,
    /// The closure that captures, which lends out what belongs to this very capture.
    Closure,
}

/// What a capture is a part of.
pub enum Whole {
    /// Nothing.
    Itself,
    /// Another capture. This one becomes the body of a conditional node in it.
    Capture(Arc<CaptureState>),
    /// A body of an existing conditional node.
    Body(Arc<GraphObject>),
}

struct Inner {
    has_ended: bool,
    /// Whether the driver is ending it, so that no stream becomes a member any more.
    is_ending: bool,
    members: Vec<Weak<StreamShared>>,
    history: CapturedHistory,
    retained: Retained,
    nodes: NodeTable,
    /// Placeholders of conditional nodes, if this capture is a part of another.
    conditions: Vec<CapturedCondition>,
    /// Uses of memory in conditional parts that have been captured, until the node of the part is captured.
    inside: Vec<InsidePart>,
    /// How many levels of graphs in nodes were captured, those around this one included.
    levels: usize,
    /// What is true of what was captured, without `has_early_edges`.
    traits: GraphTraits,
    /// How many conditional nodes are being captured.
    conditions_open: usize,
    /// The parts that are being captured.
    open_parts: Vec<Weak<CaptureState>>,
    /// Memory of the graph that was dropped in the meantime, with the streams that it is freed in.
    released: Vec<(DevicePointer, Arc<StreamCore>)>,
    /// Whether the nodes of uses must be known, because not all work is in one chain: others may join, or the program has
    /// replaced what a stream's next node depends on.
    has_branches: bool,
    /// Whether a stream may depend on a node whose end it does not wait for.
    has_early_edges: bool,
    /// The memory whose allocation was captured.
    allocated: Vec<Range<u64>>,
    /// The part of it that the graph does not free, so that a launch leaves it allocated.
    left: Vec<Range<u64>>,
    /// Whether something was captured in part only, so that no graph comes of the capture.
    is_broken: bool,
    /// Whether a call of a recapture has failed, and with it the recapture.
    has_failed: bool,
}

/// A use of memory in a conditional part that has been captured.
struct InsidePart {
    /// The id of the part's graph.
    part: u64,
    address: u64,
    access: Access,
    /// Whether the node of the part is being captured at this moment, by who captures.
    is_closing: bool,
}

/// The capture that a stream is a member of, if it was begun through this library.
#[inline(always)]
pub fn capture_of(stream: &StreamCore) -> Option<Arc<CaptureState>> {
    if stream.is_capturing() { membership(stream) } else { None }
}

#[cold]
fn membership(stream: &StreamCore) -> Option<Arc<CaptureState>> {
    let capture: Arc<dyn Any + Send + Sync> = stream.shared().membership().get()?;
    capture.downcast().ok()
}

/// The capture that used a piece of memory last, of those that have not ended and can still end well: work of others that uses
/// the memory belongs to it.
pub fn capture_of_memory(memory: &Allocation) -> Option<Arc<CaptureState>> {
    loop {
        let (mut found, mut has_ended, mut over) = (None, false, SmallVec::<[_; 1]>::new());
        for known in memory.captured_in().into_iter().rev() {
            let Ok(capture) = known.clone().downcast::<CaptureState>() else { continue };
            match capture.uses(memory.address()) {
                Some(_) if capture.is_invalidated() => over.push(known),
                Some(false) => {}
                Some(true) => found = found.or(Some(capture)),
                None => {
                    has_ended = true;
                    over.push(known);
                }
            }
        }
        memory.captures_are_over(&over);
        if !has_ended {
            return found;
        }
        // What it was a part of has the memory now, and was perhaps not among those that were asked, or not yet.
    }
}

impl CaptureState {
    /// A capture that is about to begin on a stream.
    pub fn new(origin: &StreamCore, into: Option<&Arc<GraphObject>>, whole: Whole, end: CaptureEnd) -> Arc<Self> {
        Self::new_with(origin, into, whole, end, None)
    }

    fn new_with(
        origin: &StreamCore,
        into: Option<&Arc<GraphObject>>,
        whole: Whole,
        end: CaptureEnd,
        recapture: Option<RecaptureRecord>,
    ) -> Arc<Self> {
        let graph = into.map_or_else(next_graph_id, |into| into.id());
        let mut retained = Retained::default();
        // Nodes belong to the contexts of the streams that they are captured in.
        retained.add(origin.context());
        let inner = Inner {
            has_ended: false,
            is_ending: false,
            members: Vec::new(),
            history: CapturedHistory::default(),
            retained,
            nodes: NodeTable::new(graph),
            conditions: Vec::new(),
            inside: Vec::new(),
            levels: 0,
            traits: GraphTraits::default(),
            conditions_open: 0,
            open_parts: Vec::new(),
            released: Vec::new(),
            has_branches: false,
            has_early_edges: false,
            allocated: Vec::new(),
            left: Vec::new(),
            is_broken: false,
            has_failed: false,
        };
        let capture = Arc::new(Self {
            graph,
            origin: origin.id(),
            context: origin.context().clone(),
            whole,
            ends_with_closure: AtomicBool::new(end == CaptureEnd::Closure),
            open_conditions: AtomicUsize::new(0),
            into: into.cloned(),
            recapture,
            submission: modelled::Mutex::new(ranks::CAPTURE_SUBMISSION, ()),
            inner: modelled::Mutex::new(ranks::CAPTURE, inner),
        });
        if let Whole::Capture(outer) = &capture.whole {
            outer.inner.lock().open_parts.push(Arc::downgrade(&capture));
        }
        capture
    }

    /// The number of a node of the graph that is being captured.
    ///
    /// # Errors
    /// Same as [`GraphObject::lock`].
    pub fn enter_node(&self, node: GraphNodeHandle, operation: &'static str) -> Result<Node> {
        Ok(match &self.into {
            Some(into) => into.lock_for_capture(operation)?.enter(node),
            None => self.inner.lock().nodes.enter(node),
        })
    }

    /// The handle of a node of the graph that is being captured.
    ///
    /// # Errors
    /// Same as [`GraphObject::lock`].
    pub fn find_node(&self, node: Node, operation: &'static str) -> Result<Option<GraphNodeHandle>> {
        Ok(match &self.into {
            Some(into) => into.lock_for_capture(operation)?.find(node).map(Live::handle),
            None => self.inner.lock().nodes.find(node),
        })
    }

    /// The id of the graph that is being captured.
    pub fn graph(&self) -> u64 {
        self.graph
    }

    /// Whether nobody but the closure that captures can end the capture.
    pub fn ends_with_closure(&self) -> bool {
        self.ends_with_closure.load(Ordering::Relaxed)
    }

    /// The closure that captured is over, and has not ended the capture.
    pub fn end_by_call(&self) {
        self.ends_with_closure.store(false, Ordering::Relaxed);
    }

    /// Whether the capture has ended.
    pub fn has_ended(&self) -> bool {
        self.inner.lock().has_ended
    }

    /// Whether the capture began on the stream.
    pub fn is_origin(&self, stream: &StreamCore) -> bool {
        self.origin == stream.id()
    }

    /// Whether this is a part of another capture, or of a graph.
    pub fn is_part(&self) -> bool {
        !matches!(self.whole, Whole::Itself)
    }

    /// Whether memory that a graph allocates can be used here.
    pub fn owns(&self, memory: &Allocation) -> bool {
        let is_here = match memory.origin() {
            Origin::Graph(graph) => self.graph == *graph,
            Origin::Captured { capture, .. } => capture.as_ptr().addr() == std::ptr::from_ref(self).addr(),
            _ => return false,
        };
        is_here
            || match (&self.whole, memory.origin()) {
                (Whole::Capture(outer), _) => outer.owns(memory),
                (Whole::Body(body), Origin::Graph(graph)) => body.owns(*graph),
                _ => false,
            }
    }

    /// Makes a stream the origin of the capture by `begin`, a call of the driver.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if another thread submits work to the stream for too long; otherwise any error
    /// that the driver returns.
    pub fn begin(self: &Arc<Self>, stream: &StreamCore, begin: impl FnOnce() -> Result<()>) -> Result<()> {
        let operation = "beginning a capture";
        let _exclusive = stream.shared().membership().change().ok_or_else(|| refuse_busy(stream, operation))?;
        stream.join_with(begin, |_| {
            self.admit(stream);
        })?;
        if stream.is_per_thread() {
            thread_exit::ends_with_thread(self);
        }
        Ok(())
    }

    /// Makes a stream wait by `wait`, a call of the driver, and with that join the capture, if what it waits for was captured
    /// there. Whether it was is the driver's to say: the capture may have ended, and an event may have been recorded again, by
    /// the launch of a graph for instance. `clock`: what the stream follows if it joins.
    ///
    /// # Errors
    /// Same as [`begin`](Self::begin).
    #[cold]
    pub fn join(
        self: &Arc<Self>,
        stream: &StreamCore,
        clock: &CapturedClock,
        wait: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // Before the lock of the sync event, which submissions to other streams may need.
        let _exclusive =
            stream.shared().membership().change().ok_or_else(|| refuse_busy(stream, "joining a capture"))?;
        let was_capturing = stream.is_capturing();
        let mut is_decided = true;
        stream.join_with(wait, |handle| {
            is_decided = was_capturing || !self.may_have_joined(stream, handle) || self.admit(stream);
        })?;
        while !is_decided {
            // Until the driver has ended the capture, which is soon, it may be capturing the stream.
            std::thread::yield_now();
            is_decided = self.admit(stream);
        }
        if stream.shared().membership().is_of(&**self) {
            self.inner.lock().history.merge(stream.id(), clock);
        }
        Ok(())
    }

    /// Whether the driver captures a stream that has just waited for something. If a layer keeps it from answering for long,
    /// no graph comes of the capture.
    fn may_have_joined(&self, stream: &StreamCore, handle: Live<'_, StreamHandle>) -> bool {
        let call = stream.context().call("joining a capture");
        for _ in 0..ASKED {
            match stream.context().driver().stream_capture_status(&call, handle) {
                Ok(status) => return status != CaptureStatus::None,
                Err(failure) if failure.status.is_sticky() => return true,
                // The legacy stream, which captures nothing.
                Err(failure) if failure.status == Status::STREAM_CAPTURE_IMPLICIT => return false,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        self.inner.lock().is_broken = true;
        true
    }

    /// Makes a stream a member, unless the capture has ended. `false`: that is not known yet, because it is being ended.
    fn admit(self: &Arc<Self>, stream: &StreamCore) -> bool {
        let mut inner = self.inner.lock();
        if inner.has_ended || inner.is_ending {
            return inner.has_ended;
        }
        if !Arc::ptr_eq(stream.context(), &self.context) {
            inner.retained.add(stream.context());
        }
        let shared = stream.shared();
        if !inner.members.iter().any(|known| known.as_ptr() == Arc::as_ptr(shared)) {
            inner.members.push(Arc::downgrade(shared));
        }
        shared.membership().set(self.clone());
        true
    }

    /// Called before the driver ends the capture, whose members are stopped. From now on no stream becomes a member. `false`:
    /// there are others than those many.
    pub fn begins_to_end(&self, members: usize) -> bool {
        let mut inner = self.inner.lock();
        let is_complete = inner.members.iter().filter(|member| member.strong_count() > 0).count() == members;
        inner.is_ending |= is_complete;
        is_complete
    }

    /// Called if the driver has not ended the capture.
    pub fn goes_on(&self) {
        self.inner.lock().is_ending = false;
    }

    /// Retains an object for as long as the graph can run.
    pub fn retain<T: Any + Send + Sync>(&self, object: &Arc<T>) {
        self.inner.lock().retained.add(object);
    }

    /// Changes what the graph will retain.
    pub fn retain_with(&self, retain: impl FnOnce(&mut Retained)) {
        retain(&mut self.inner.lock().retained);
    }

    /// The streams that are members, in an order that is the same for all captures.
    pub fn members(&self) -> Vec<Arc<StreamShared>> {
        let mut members: Vec<_> = self.inner.lock().members.iter().filter_map(Weak::upgrade).collect();
        members.sort_by_key(|stream| stream.timeline().key());
        members
    }

    /// Notes memory whose allocation was captured.
    pub fn has_allocated(&self, address: DevicePointer, bytes: usize) {
        let memory = address.0..address.0 + bytes as u64;
        let mut inner = self.inner.lock();
        inner.allocated.push(memory.clone());
        if bytes > 0 {
            inner.left.push(memory);
        }
    }
}

/// The error of a capture for which a submission has taken too long.
#[cold]
pub fn refuse_busy(stream: &StreamCore, operation: &'static str) -> Error {
    let message = "another thread is submitting work to a stream of the capture, and does not come to an end";
    Error::argument(Status::ILLEGAL_STATE, operation, message)
        .with_hint("use the streams of a capture on one thread at a time, and copy from or to plain memory before")
        .at(stream.place())
}
