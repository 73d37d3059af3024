//! Captures: beginning, ending and querying them.

mod child;

use crate::capture_state::{
    CaptureEnd, CaptureState, OpenCondition, Whole, capture_of, capturing, has_ended, refuse_busy,
};
use crate::conditional_part::{CapturedCondition, Condition, Part};
use crate::conditional_setter::{self, setting_kernel};
use crate::context::other_context;
use crate::error::{Error, Result, ResultExt};
use crate::graph_object::{GraphObject, MOST_BODIES, next_graph_id, too_many_bodies};
use crate::graph_traits::GraphTraits;
use crate::host_work::refuse_inside;
use crate::memory::MemoryAccess;
use crate::node::{Node, NodeTable};
use crate::retained::Retained;
use crate::stream::{OpenStream, StreamShared};
use crate::submission::Submission;
use anabranch_hal::{
    AddedNode, Capabilities, CaptureMode, CaptureStatus, ConditionalHandle, ConditionalKind, ConditionalNode,
    Dependency, DependencyUpdate, EdgeData, GraphHandle, GraphNodeHandle, Launch, Live, NodeParameters,
    RecaptureChanges, RecaptureRecord, Status,
};
use anabranch_sync::modelled::RwLockWriteGuard;
use std::ffi::c_void;
use std::sync::Arc;

const CONDITION: &str = "capturing a condition";

/// Information about a capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureInfo {
    /// Whether the stream is capturing. The other fields are empty unless it is [`CaptureStatus::Active`].
    pub status: CaptureStatus,
    /// An id that is unique in this process and never reused.
    pub id: u64,
    /// The driver's handle of the graph that is being captured. It belongs to the capture, and is destroyed if the
    /// capture fails.
    pub graph: Option<GraphHandle>,
    /// The nodes that the stream's next node will depend on, with the data of the edges. They remain nodes of the graph
    /// that ending the capture returns.
    pub dependencies: Vec<(Node, EdgeData)>,
}

/// A capture that no stream can join, leave or submit work to.
struct Stopped<'a> {
    capture: Option<Arc<CaptureState>>,
    /// Held until the capture has ended.
    members: Vec<RwLockWriteGuard<'a, ()>>,
}

impl OpenStream {
    /// Makes the stream the origin of a capture.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for a part of a body of another context;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` for the legacy default stream; `CUDA_ERROR_ILLEGAL_STATE (401)` if
    /// the stream is already capturing, or if another thread has been submitting work to it for more than a second.
    #[track_caller]
    pub fn begin_capture(&self, mode: CaptureMode, whole: Whole, end: CaptureEnd) -> Result<Arc<CaptureState>> {
        let operation = "beginning a capture";
        let handle = self.handle(operation)?;
        if let Whole::Body(body) = &whole
            && !body.context().is_same(self.context())
        {
            return Err(other_context(operation, "body", self.place()));
        }
        let (driver, call) = (self.context().driver(), self.context().call(operation));
        self.begin(CaptureState::new(self, None, whole, end), || {
            driver.stream_begin_capture(&call, handle, mode).during(operation, || self.place())
        })
    }

    /// Like [`begin_capture`](Self::begin_capture), but captures into an existing graph. The first node depends on the
    /// given nodes. Nobody else uses the graph until the capture has ended.
    ///
    /// # Errors
    /// Same as [`begin_capture`](Self::begin_capture); `CUDA_ERROR_INVALID_VALUE (1)` if a node does not belong to the
    /// graph; `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver is too old.
    #[track_caller]
    pub fn begin_capture_to(
        &self,
        object: &Arc<GraphObject>,
        dependencies: &[(Node, EdgeData)],
        mode: CaptureMode,
        end: CaptureEnd,
    ) -> Result<Arc<CaptureState>> {
        let operation = "beginning a capture to a graph";
        let handle = self.handle(operation)?;
        if !object.context().is_same(self.context()) {
            return Err(other_context(operation, "graph", self.place()));
        }
        let (driver, call) = (self.context().driver(), self.context().call(operation));
        let mut guard = object.lock(operation)?;
        let edges = GraphTraits::of_edges(dependencies.iter().map(|&(_, data)| data));
        let dependencies = guard.dependencies(dependencies, operation)?;
        guard.note(edges);
        let begun = self.begin(CaptureState::new(self, Some(object), Whole::Itself, end), || {
            // SAFETY: the capture retains the graph, which nobody else can lock until it has ended, and the nodes are its own.
            unsafe { driver.stream_begin_capture_to_graph(&call, handle, guard.live(), &dependencies, mode) }
                .during(operation, || self.place())
        });
        guard.set_captured(begun.is_ok());
        begun
    }

    /// Like [`begin_capture_to`](Self::begin_capture_to), but what is captured replaces what the nodes of the graph do. The
    /// graph retains what its nodes used before, too.
    ///
    /// # Errors
    /// Same as [`begin_capture`](Self::begin_capture); `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver is older than CUDA
    /// 13.3, or if the graph allocates memory or has conditional nodes.
    #[track_caller]
    pub fn begin_recapture(
        &self,
        object: &Arc<GraphObject>,
        changes: RecaptureChanges,
        mode: CaptureMode,
        end: CaptureEnd,
    ) -> Result<Arc<CaptureState>> {
        let operation = "capturing a graph again";
        let handle = self.handle(operation)?;
        if !object.context().is_same(self.context()) {
            return Err(other_context(operation, "graph", self.place()));
        }
        if !self.context().device().can(Capabilities::RECAPTURE) {
            let message = "the driver cannot capture a graph again";
            return Err(Error::argument(Status::NOT_SUPPORTED, operation, message)
                .with_hint("install a driver for CUDA 13.3 or newer, or capture a new graph and update with it")
                .at(self.place()));
        }
        let (driver, call) = (self.context().driver(), self.context().call(operation));
        let mut guard = object.lock(operation)?;
        guard.require_recapturable(operation)?;
        let record = RecaptureRecord::new(changes);
        let begun = self.begin(CaptureState::again(self, object, end, record.clone()), || {
            // SAFETY: the capture retains the graph, which nobody else can lock until it has ended, and the record.
            unsafe { driver.stream_begin_recapture_to_graph(&call, handle, guard.live(), mode, &record) }
                .during(operation, || self.place())
        });
        guard.set_captured(begun.is_ok());
        begun
    }

    fn begin(&self, capture: Arc<CaptureState>, begin: impl FnOnce() -> Result<()>) -> Result<Arc<CaptureState>> {
        let begun = capture.begin(self, || {
            // A capture that another thread is ending may have ended for the driver already, which would let a new one begin here
            // while the stream is still a member of the old one.
            if self.is_capturing() {
                return Err(Error::driver("beginning a capture", Status::ILLEGAL_STATE.into()).at(self.place()));
            }
            begin()
        });
        begun.map(|()| capture)
    }

    /// Excludes all submissions to members of the capture that this stream is a member of, and to this stream, which otherwise
    /// could begin another.
    fn stop_members<'a>(
        &self,
        operation: &'static str,
        members: &'a mut Vec<Arc<StreamShared>>,
    ) -> Result<Stopped<'a>> {
        // Streams may have joined, or the capture ended and another begun, before all are stopped.
        let capture = loop {
            let capture = capture_of(self);
            let found = match &capture {
                Some(capture) => capture.members(),
                None => vec![self.shared().clone()],
            };
            let is_same = found.len() == members.len() && found.iter().zip(&*members).all(|(a, b)| Arc::ptr_eq(a, b));
            if is_same {
                break capture;
            }
            *members = found;
        };
        let stopped: Option<Vec<_>> = members.iter().map(|stream| stream.membership().change()).collect();
        let stopped = stopped.ok_or_else(|| refuse_busy(self, operation))?;
        Ok(Stopped { capture, members: stopped })
    }

    /// Ends the capture, and returns the graph with placeholders for conditional nodes. `of`: the capture that a closure is to
    /// end, which nobody else can.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)` if a member was not joined to the origin;
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` if the capture is invalidated, or a condition was captured in part only;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903)` if it began in another stream, where it must then be ended;
    /// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD (908)` if it began on another thread; `CUDA_ERROR_ILLEGAL_STATE (401)`
    /// if the stream is not capturing, if the capture ends with a closure, or if another thread has been submitting work
    /// to a stream of the capture for more than a second.
    #[track_caller]
    pub fn end_capture(&self, of: Option<&Arc<CaptureState>>) -> Result<Part> {
        let operation = "ending a capture";
        let handle = self.handle(operation)?;
        let context = self.context();
        loop {
            let mut members = Vec::new();
            let stopped = self.stop_members(operation, &mut members)?;
            // What was found before everybody was stopped may not be so any more.
            let now = capture_of(self);
            let is_same = match (&stopped.capture, &now) {
                (Some(before), Some(now)) => {
                    Arc::ptr_eq(before, now) && before.members().len() == stopped.members.len()
                }
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                continue;
            }
            match (of, &now) {
                (None, Some(now)) if now.ends_with_closure() => return Err(self.ends_with_closure(operation)),
                // The stream has ended, which abandons its capture.
                (Some(of), now) if !now.as_ref().is_some_and(|now| Arc::ptr_eq(of, now)) => {
                    return Err(self.not_capturing(operation));
                }
                _ => {}
            }
            if now.as_ref().is_some_and(|now| !now.begins_to_end(stopped.members.len())) {
                continue;
            }
            let call = context.call(operation);
            let ended = context.driver().stream_end_capture(&call, handle);
            let has_ended = has_ended(&ended, context, handle);
            if let (Some(capture), Err(failure)) = (&now, &ended) {
                capture.end_has_failed(context, failure);
            }
            let ended = ended.during(operation, || self.place());
            if let (Some(capture), false) = (&now, has_ended) {
                capture.goes_on();
            }
            let Some(capture) = now.filter(|_| has_ended) else {
                let id = next_graph_id();
                return ended.map(|graph| Part {
                    // SAFETY: the driver has just given the graph to this call. The capture was begun through another library: what
                    // the nodes refer to is the responsibility of the code that began it through the raw handle, which is unsafe to
                    // use.
                    graph: unsafe { GraphObject::new(context, graph, id, NodeTable::new(id), Retained::default()) },
                    conditions: Vec::new(),
                    levels: 0,
                });
            };
            let finished = capture.finish();
            // What the capture leaves behind may be memory that its streams would free, if they still could.
            drop(stopped);
            return match ended {
                Ok(graph) => finished.into_part(context, graph, operation),
                Err(error) => {
                    finished.failed();
                    Err(error)
                }
            };
        }
    }

    /// Queries the capture. If edge data is not queried, edges that have data are an error.
    ///
    /// # Errors
    /// `CUDA_ERROR_LOSSY_QUERY (402)` if edge data would be lost; `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` for the
    /// legacy default stream while a blocking stream captures.
    #[track_caller]
    pub fn capture_info(&self, with_edge_data: bool) -> Result<CaptureInfo> {
        let operation = "asking for what a stream captures";
        refuse_inside(operation).map_err(|error| error.at(self.place()))?;
        // The driver's list lasts as long as nobody captures in the stream or ends its capture, whose nodes these are.
        let membership = self.shared().membership();
        let _submitting = membership.submitting();
        let capture = capturing(self);
        let info = self.raw_capture_info(operation, with_edge_data)?;
        let mut foreign = NodeTable::new(0);
        let enter = |node: GraphNodeHandle| match &capture {
            Some(capture) => capture.enter_node(node, operation),
            None => Ok(foreign.enter(node)),
        };
        let nodes = info.dependencies.into_iter().map(enter).collect::<Result<Vec<_>>>()?;
        let data = info.edge_data.unwrap_or_default();
        let data = data.into_iter().chain(std::iter::repeat(EdgeData::default()));
        let dependencies = nodes.into_iter().zip(data).collect();
        Ok(CaptureInfo { status: info.status, id: info.id, graph: info.graph, dependencies })
    }

    fn raw_capture_info(&self, operation: &'static str, with_edge_data: bool) -> Result<anabranch_hal::CaptureInfo> {
        let handle = self.handle(operation)?;
        let context = self.context();
        context
            .driver()
            .stream_capture_info(&context.call(operation), handle, with_edge_data)
            .during(operation, || self.place())
    }

    /// Adds to, or replaces, the nodes that the next node of this stream will depend on.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if the stream is not capturing; `CUDA_ERROR_INVALID_VALUE (1)` if a node does
    /// not belong to this capture.
    #[track_caller]
    pub fn update_capture_dependencies(
        &self,
        dependencies: &[(Node, EdgeData)],
        update: DependencyUpdate,
    ) -> Result<()> {
        let operation = "updating what a stream captures";
        let handle = self.handle(operation)?;
        // The stream neither joins nor leaves a capture meanwhile, and no other thread captures work.
        let _submitting = self.shared().membership().submitting();
        let capture = capturing(self);
        let find = |&(node, data): &(Node, EdgeData)| {
            let found = capture.as_ref().map(|capture| capture.find_node(node, operation)).transpose()?;
            found.flatten().map(|node| Dependency { node, data }).ok_or_else(|| {
                Error::argument(Status::INVALID_VALUE, operation, "a node does not belong to this capture")
                    .with_hint("pass nodes that capture_info returned for a stream of the same capture")
                    .at(self.place())
            })
        };
        let dependencies = dependencies.iter().map(find).collect::<Result<Vec<_>>>()?;
        let (driver, call) = (self.context().driver(), self.context().call(operation));
        let replace = || {
            // SAFETY: the nodes are of the graph being captured, from which none can be removed before the capture ends.
            unsafe { driver.stream_update_capture_dependencies(&call, handle, &dependencies, update) }
                .during(operation, || self.place())
        };
        let Some(capture) = &capture else { return replace() };
        // With other data, an edge may let a node begin before the one that it depends on has ended.
        let full = dependencies.iter().filter(|dependency| dependency.data == EdgeData::default());
        let nodes: Vec<_> = full.map(|dependency| dependency.node).collect();
        if nodes.len() < dependencies.len() {
            capture.has_early_edges();
        }
        capture.update_dependencies(self, &nodes, update, replace)
    }

    /// Opens a condition in the capture that the stream is a member of.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if the stream is not capturing, or in strict order;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` for more than [`MOST_LEVELS`](crate::graph_object::MOST_LEVELS) levels of graphs.
    pub fn begin_condition(&self, condition: &Condition) -> Result<OpenCondition> {
        let capture = capture_of(self).ok_or_else(|| self.not_capturing(CONDITION))?;
        capture.refuse_in_recapture(self, CONDITION)?;
        condition.memory.require_context(self, CONDITION)?;
        // Now, while nothing is locked.
        conditional_setter::prepare(self.context())?;
        capture.check_order_of_all(self, CONDITION)?;
        capture.open_condition(CONDITION).map_err(|error| error.at(self.place()))
    }

    /// Captures a conditional node that runs the parts depending on a number, after the parts were captured. If that fails
    /// midway, no graph comes of the capture.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if the capture was abandoned while the parts were captured, or they use memory of parts of
    /// another condition that are being captured;
    /// `CUDA_ERROR_INVALID_VALUE (1)` for more than [`MOST_BODIES`] parts;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no conditional nodes; `CUDA_ERROR_FILE_NOT_FOUND (301)` if
    /// the device runtime is not found.
    #[track_caller]
    pub fn capture_condition(
        &self,
        open: &OpenCondition,
        condition: &Condition,
        kind: ConditionalKind,
        parts: Vec<Part>,
    ) -> Result<()> {
        if parts.len() > MOST_BODIES {
            return Err(too_many_bodies(CONDITION).at(self.place()));
        }
        // Nobody captures work between the parts and the node, or between the node and what the stream captures next.
        let submission = Submission::begin(self, CONDITION)?;
        open.close_parts();
        let capturing = submission.capturing().filter(|now| Arc::ptr_eq(now.capture(), open.capture()));
        let capture = capturing.ok_or_else(|| self.not_capturing(CONDITION))?;
        open.check_others(CONDITION, self)?;
        // What runs inside cannot wait for single streams of the capture: it comes after all of them.
        capture.order_behind_all(self)?;
        let accesses = [MemoryAccess::read(&condition.memory)];
        let _excluding = submission.order(accesses.iter().copied())?;
        if capture.is_part() {
            return capture.change(|| {
                // A graph with conditional nodes cannot be a child. So they are added when the part is put into a body.
                let placeholder = self.add_captured_node(CONDITION, &NodeParameters::Empty)?.node;
                submission.finish(accesses.iter().copied());
                for part in &parts {
                    capture.adopt(&part.graph, self)?;
                }
                capture.add_condition(CapturedCondition { placeholder, kind, condition: condition.clone(), parts });
                Ok(())
            });
        }
        let context = self.context();
        let (graph, _) = self.captured_graph(CONDITION)?;
        // SAFETY: the graph is the one being captured, by this thread.
        let graph = unsafe { Live::new(graph) };
        let handle = context
            .driver()
            .graph_conditional_create(&context.call(CONDITION), graph, None)
            .during(CONDITION, || self.place())?;
        self.capture_setting(&submission, handle, condition)?;
        submission.finish(accesses.iter().copied());
        let node = NodeParameters::Conditional(ConditionalNode {
            handle,
            kind,
            body_count: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            bodies: Vec::new(),
        });
        capture.change(|| {
            let bodies = self.add_captured_node(CONDITION, &node)?.bodies;
            for (body, part) in bodies.into_iter().zip(&parts) {
                capture.adopt(&part.graph, self)?;
                let again = (kind == ConditionalKind::While).then_some((handle, condition));
                // SAFETY: the body is one of the node that was just added to the graph that this thread captures.
                let body = unsafe { Live::new(body) };
                part.put_into(context, body, again).map_err(|error| error.at(self.place()))?;
            }
            Ok(())
        })
    }

    /// Adds a node after everything that the stream has captured. What it captures next depends on the node.
    fn add_captured_node(&self, operation: &'static str, parameters: &NodeParameters) -> Result<AddedNode> {
        let (driver, call) = (self.context().driver(), self.context().call(operation));
        let stream = self.handle(operation)?;
        let (graph, dependencies) = self.captured_graph(operation)?;
        // SAFETY: the graph is the one being captured, by this thread.
        let graph = unsafe { Live::new(graph) };
        // SAFETY: the dependencies are nodes of the graph, and the parameters name a value of it, a graph that is locked, or
        // nothing.
        let added = unsafe { driver.graph_add_node(&call, graph, &dependencies, parameters) }
            .during(operation, || self.place())?;
        let after = [Dependency::from(added.node)];
        // SAFETY: the node was just added to the graph that the stream captures, from which none can be removed.
        unsafe { driver.stream_update_capture_dependencies(&call, stream, &after, DependencyUpdate::Set) }
            .during(operation, || self.place())?;
        Ok(added)
    }

    /// Captures a launch that sets a conditional value. The memory is already ordered.
    fn capture_setting(
        &self,
        submission: &Submission<'_>,
        handle: ConditionalHandle,
        condition: &Condition,
    ) -> Result<()> {
        let kernel = setting_kernel(self.context(), handle, condition.address)?;
        let arguments: Vec<*const c_void> = kernel.arguments.iter().map(|bytes| bytes.as_ptr().cast()).collect();
        let launch = Launch {
            grid: kernel.grid,
            block: kernel.block,
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            attributes: None,
            overlap: None,
            arguments: &arguments,
            ranges: &kernel.ranges,
        };
        submission
            // SAFETY: the kernel is loaded as long as the context is, and takes a handle and an address, of which the capture
            // retains the memory.
            .queue(|call, stream| unsafe {
                self.context().driver().launch(call, stream, Live::new(kernel.function), &launch)
            })
    }

    /// The graph that the stream captures, and what it captures next depends on.
    fn captured_graph(&self, operation: &'static str) -> Result<(GraphHandle, Vec<Dependency>)> {
        let info = self.raw_capture_info(operation, true)?;
        match (info.status, info.graph) {
            (CaptureStatus::Active, Some(graph)) => {
                let data = info.edge_data.unwrap_or_default().into_iter().chain(std::iter::repeat(EdgeData::default()));
                let dependencies = info.dependencies.into_iter().zip(data);
                Ok((graph, dependencies.map(|(node, data)| Dependency { node, data }).collect()))
            }
            (CaptureStatus::Invalidated, _) => {
                let message = "the capture is invalidated";
                Err(Error::argument(Status::STREAM_CAPTURE_INVALIDATED, operation, message).at(self.place()))
            }
            _ => Err(self.not_capturing(operation)),
        }
    }

    #[cold]
    fn not_capturing(&self, operation: &'static str) -> Error {
        Error::argument(Status::ILLEGAL_STATE, operation, "the stream does not capture any more")
            .with_hint("end the capture after the last call that it is to have")
            .at(self.place())
    }

    #[cold]
    fn ends_with_closure(&self, operation: &'static str) -> Error {
        Error::argument(Status::ILLEGAL_STATE, operation, "the capture ends with the closure that captures")
            .with_hint("return from the closure, or begin the capture with begin_capture")
            .at(self.place())
    }
}
