//! The order of uses of memory within a capture.

use super::history::CapturedHistory;
use super::{CaptureState, CapturedClock, Capturing, MissingOrder, capturing};
use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::memory::Allocation;
use crate::raw_event::RawEvent;
use crate::stream::{OpenStream, StreamCore};
use anabranch_hal::{
    Access, CaptureStatus, Dependency, DependencyUpdate, DevicePointer, EdgeData, EventFlags, EventWaitFlags,
    GraphNodeHandle, Status,
};
use smallvec::SmallVec;
use std::sync::Arc;

impl CaptureState {
    /// The error in strict order of a use that the program has not ordered.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_order(
        &self,
        address: DevicePointer,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        if !stream.context().is_order_strict() {
            return Ok(());
        }
        match self.inner.lock().history.unordered(address.0, stream.id(), access) {
            Some(earlier) => Err(stream.refuse_order(&format!("stream {earlier}"), operation)),
            None => Ok(()),
        }
    }

    /// Like [`check_order`](Self::check_order), for all memory at once.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_order_of_all(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if !stream.context().is_order_strict() {
            return Ok(());
        }
        match self.inner.lock().history.any_unordered(stream.id()) {
            Some(earlier) => Err(stream.refuse_order(&format!("stream {earlier}"), operation)),
            None => Ok(()),
        }
    }

    /// Makes a stream that is about to use memory of the capture join the capture, unless that has ended meanwhile.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order.
    pub fn join_for_memory(
        self: &Arc<Self>,
        stream: &OpenStream,
        address: DevicePointer,
        operation: &'static str,
    ) -> Result<()> {
        let Some(last) = self.last_stream(stream, address) else { return Ok(()) };
        if stream.context().is_order_strict() {
            return Err(stream.refuse_order(&last.place(), operation));
        }
        // The error of a failure is reported by the use, which then has no capture.
        if wait_for_stream(stream, &last).is_ok() && stream.is_capturing() {
            stream.count_orders(1);
        }
        Ok(())
    }

    /// Like [`check_order`](Self::check_order), for a stream that would join.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_join(&self, stream: &StreamCore, address: DevicePointer, operation: &'static str) -> Result<()> {
        match self.last_stream(stream, address) {
            Some(last) if stream.context().is_order_strict() => Err(stream.refuse_order(&last.place(), operation)),
            _ => Ok(()),
        }
    }

    /// If the capture has not ended, and uses the memory: the stream that used it last, or else the origin. The order comes from
    /// edges of what has used the memory.
    pub(super) fn last_stream(&self, stream: &StreamCore, address: DevicePointer) -> Option<Arc<StreamCore>> {
        let last = {
            let inner = self.inner.lock();
            if inner.has_ended { None } else { inner.history.last_stream(address.0) }
        }?;
        self.find_stream(last, stream).or_else(|| self.find_stream(self.origin, stream))
    }

    /// A stream that has not ended, of the context of another one or of the origin.
    pub(super) fn find_stream(&self, id: u64, near: &StreamCore) -> Option<Arc<StreamCore>> {
        find_stream(near.context(), id).or_else(|| find_stream(&self.context, id))
    }

    /// Whether the driver has invalidated the capture, of which no graph comes then. `false` where it cannot be asked.
    pub fn is_invalidated(&self) -> bool {
        let status = find_stream(&self.context, self.origin).and_then(|origin| {
            origin.while_live(|handle| {
                let call = self.context.call("asking for a stream's capture status");
                self.context.driver().stream_capture_status(&call, handle)
            })
        });
        status == Some(Ok(CaptureStatus::Invalidated))
    }

    /// Whether the capture uses the memory. `None`: it has ended.
    pub fn uses(&self, address: DevicePointer) -> Option<bool> {
        let inner = self.inner.lock();
        let is_inside = || inner.inside.iter().any(|inside| inside.address == address.0);
        (!inner.has_ended).then(|| inner.history.last_stream(address.0).is_some() || is_inside())
    }
}

impl Capturing {
    /// Orders a use of memory within the capture, and retains the memory for the graph, unless the graph allocates it.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order, for a use that the user has not ordered.
    pub fn use_memory(
        &self,
        memory: &Arc<Allocation>,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        self.check_order(memory.address(), stream, access, operation)?;
        memory.used_in(self.capture());
        self.order(memory.address(), stream, access, Some(memory).filter(|memory| memory.graph().is_none()))
    }

    /// Like [`use_memory`](Self::use_memory), for memory that is retained elsewhere.
    ///
    /// # Errors
    /// Same as [`use_memory`](Self::use_memory).
    pub fn use_unretained(
        &self,
        memory: &Allocation,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        self.check_order(memory.address(), stream, access, operation)?;
        memory.used_in(self.capture());
        self.order(memory.address(), stream, access, None)
    }

    /// Orders a use of memory, and retains the memory that is given.
    pub(super) fn order(
        &self,
        address: DevicePointer,
        stream: &StreamCore,
        access: Access,
        retained: Option<&Arc<Allocation>>,
    ) -> Result<()> {
        self.add_missing(stream, |history| history.missing(address.0, stream.id(), access))?;
        if let Some(memory) = retained {
            self.inner.lock().retained.add_memory(memory, access);
        }
        self.uses.borrow_mut().push((address.0, access));
        Ok(())
    }

    /// Orders later work of `stream` after everything that has used memory in the capture.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn order_behind_all(&self, stream: &StreamCore) -> Result<()> {
        self.add_missing(stream, |history| history.missing_of_all(stream.id()))
    }

    /// Adds the edges that a stream lacks, which count as made only then.
    fn add_missing(&self, stream: &StreamCore, find: impl Fn(&CapturedHistory) -> MissingOrder) -> Result<()> {
        let missing = loop {
            let missing = find(&self.inner.lock().history);
            let Some(unknown) = missing.unknown else { break missing };
            let unknown = self.find_stream(unknown, stream).ok_or_else(|| refuse_unknown_nodes(stream))?;
            self.resolve(&unknown)?;
        };
        let has_early_edges = self.inner.lock().has_early_edges;
        add_dependencies(stream, &missing.nodes, has_early_edges)?;
        self.inner.lock().history.follow(stream.id(), &missing);
        stream.count_orders(missing.streams);
        Ok(())
    }

    /// Called after work of `stream` was captured: the nodes that the stream has made are noted with the memory that
    /// the work used. If they are not known, they are asked for when another stream has to follow them.
    pub fn settle(&self, stream: &StreamCore) {
        let uses = self.uses.take();
        if uses.is_empty() {
            return;
        }
        let nodes = if self.inner.lock().has_branches { last_nodes(stream).ok() } else { None };
        self.inner.lock().history.settle(stream.id(), &uses, nodes.as_deref());
    }

    /// Asks for the nodes of what a stream has captured, where they are not known.
    fn resolve(&self, stream: &StreamCore) -> Result<()> {
        let nodes = last_nodes(stream)?;
        self.inner.lock().history.resolve(stream.id(), &nodes);
        Ok(())
    }

    /// The program updates the nodes that the stream's next node depends on, by `update`, a call of the driver.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn update_dependencies(
        &self,
        stream: &StreamCore,
        nodes: &[GraphNodeHandle],
        kind: DependencyUpdate,
        update: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if kind == DependencyUpdate::Set {
            // The nodes that it makes later do not represent what it has captured before.
            self.resolve(stream)?;
        }
        update()?;
        let mut inner = self.inner.lock();
        if kind == DependencyUpdate::Set {
            inner.has_branches = true;
            inner.history.restart(stream.id());
        }
        inner.history.follow_nodes(stream.id(), nodes);
        Ok(())
    }

    /// Called when something is captured that waits for the host at each launch.
    pub fn waits_for_host(&self) {
        self.inner.lock().traits.waits_for_host = true;
    }

    /// From now on, a stream may depend on a node whose end it does not wait for.
    pub fn has_early_edges(&self) {
        self.inner.lock().has_early_edges = true;
    }

    /// How far a stream has followed others. Called where another stream may join as a result.
    pub fn clock(&self, stream: &StreamCore) -> CapturedClock {
        if !std::mem::replace(&mut self.inner.lock().has_branches, true) {
            // Later the stream will have made more nodes, which need not be followed. If this fails, they are.
            let _ = self.resolve(stream);
        }
        self.inner.lock().history.clock(stream.id())
    }
}

fn find_stream(context: &ContextCore, id: u64) -> Option<Arc<StreamCore>> {
    context.streams().into_iter().find(|stream| stream.id() == id && stream.is_live())
}

/// Makes later work of a stream wait for the work that is in `earlier` now. If `earlier` is capturing, the stream joins
/// the capture.
///
/// # Errors
/// Any error that the driver returns.
pub fn wait_for_stream(stream: &OpenStream, earlier: &StreamCore) -> Result<()> {
    if earlier.is_capturing() && !stream.is_same(earlier) && wait_for_captured(stream, earlier)? {
        return Ok(());
    }
    stream.follow(earlier).map(drop)
}

/// Makes later work of a stream wait, within a capture, for the work that `earlier` has captured so far. `false`: `earlier` does
/// not capture any more.
#[cold]
fn wait_for_captured(stream: &OpenStream, earlier: &StreamCore) -> Result<bool> {
    let operation = "ordering a stream behind another";
    let context = stream.context();
    let event = RawEvent::create(earlier.context(), EventFlags::DISABLE_TIMING)?;
    let (capture, clock) = {
        // The capture does not end meanwhile, so that the record is one in this capture.
        let _submitting = earlier.shared().membership().submitting();
        let Some(capturing) = capturing(earlier) else { return Ok(false) };
        let clock = capturing.clock(earlier);
        if !earlier.record_other(&event)? {
            return Ok(true);
        }
        (capturing.capture().clone(), clock)
    };
    let handle = stream.handle(operation)?;
    let joined = capture.join(stream, &clock, || {
        let call = context.call(operation);
        context
            .driver()
            .stream_wait_event(&call, handle, event.live(), EventWaitFlags::empty())
            .during(operation, || stream.place())
    });
    match joined {
        Ok(()) => Ok(true),
        // The event was recorded in the capture, and nowhere else: another thread has ended or invalidated the capture since.
        Err(error) if error.status() == Status::INVALID_VALUE && capture.has_ended() => Ok(false),
        Err(error) if error.status() == Status::INVALID_VALUE => {
            Err(Error::driver(operation, Status::STREAM_CAPTURE_INVALIDATED.into()).at(stream.place()))
        }
        Err(error) => Err(error),
    }
}

/// The nodes that the stream's next node will depend on, which represent what it has captured so far. In a capture that is
/// invalidated there is nothing to be followed any more.
///
/// # Errors
/// `CUDA_ERROR_ILLEGAL_STATE (401)` for a stream that has ended, and for the default stream of another thread; otherwise any
/// error that the driver returns.
fn last_nodes(stream: &StreamCore) -> Result<Vec<GraphNodeHandle>> {
    let (operation, context) = ("asking for what a stream captures", stream.context());
    let info = stream.while_live(|handle| {
        let call = context.call(operation);
        context.driver().stream_capture_info(&call, handle, true).during(operation, || stream.place())
    });
    match info.transpose()? {
        Some(info) if info.status != CaptureStatus::None => Ok(info.dependencies),
        _ => Err(refuse_unknown_nodes(stream)),
    }
}

#[cold]
fn refuse_unknown_nodes(stream: &StreamCore) -> Error {
    let message = "the driver could not be asked for the nodes of a stream that has used the memory in this capture";
    Error::argument(Status::ILLEGAL_STATE, "ordering a stream behind another", message)
        .with_hint("wait for that stream before using the memory, and keep it until the capture has ended")
        .at(stream.place())
}

/// Makes the next node that the stream captures depend on the end of these too. `replaces`: it may depend on less of some of them
/// already, in which case drivers may keep that.
fn add_dependencies(stream: &StreamCore, nodes: &[GraphNodeHandle], replaces: bool) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let operation = "ordering a stream behind another";
    let mut added: SmallVec<[Dependency; 4]> = nodes.iter().copied().map(Dependency::from).collect();
    let context = stream.context();
    let update = stream.while_live(|handle| {
        let (driver, call) = (context.driver(), context.call(operation));
        let mut update = DependencyUpdate::Add;
        if replaces {
            let info = driver.stream_capture_info(&call, handle, true).during(operation, || stream.place())?;
            let data = info.edge_data.unwrap_or_default().into_iter().chain(std::iter::repeat(EdgeData::default()));
            let before = info.dependencies.into_iter().zip(data).map(|(node, data)| Dependency { node, data });
            let (weaker, others): (Vec<_>, Vec<_>) = before.partition(|before| nodes.contains(&before.node));
            if weaker.iter().any(|before| before.data != EdgeData::default()) {
                added.extend(others);
                update = DependencyUpdate::Set;
            }
        }
        // SAFETY: the nodes are of the graph that the stream captures, from which none can be removed before the capture ends.
        unsafe { driver.stream_update_capture_dependencies(&call, handle, &added, update) }
            .during(operation, || stream.place())
    });
    update.unwrap_or(Ok(()))
}
