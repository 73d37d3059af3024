//! The end of a capture, and of memory whose allocation was captured.

use super::{ASKED, CaptureState, InsidePart, Whole, thread_exit};
use crate::conditional_part::{CapturedCondition, Part};
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::graph_object::GraphObject;
use crate::graph_traits::GraphTraits;
use crate::lost_context::is_lost;
use crate::node::NodeTable;
use crate::retained::Retained;
use crate::stream::{Capture, StreamCore};
use anabranch_hal::{Access, CaptureStatus, DevicePointer, GraphHandle, Live, Status, StreamHandle};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What remains of a capture that has ended.
pub struct FinishedCapture {
    graph: u64,
    into: Option<Arc<GraphObject>>,
    nodes: NodeTable,
    retained: Retained,
    conditions: Vec<CapturedCondition>,
    allocated: Vec<Range<u64>>,
    left: Vec<Range<u64>>,
    levels: usize,
    traits: GraphTraits,
    is_broken: bool,
    /// Whether a call of a recapture has failed.
    has_failed: bool,
}

impl CaptureState {
    /// Lets a capture know of the memory that this part of it uses.
    fn hand_over(&self, outer: &Arc<Self>) {
        let accesses = {
            let inner = self.inner.lock();
            inner.retained.memory().for_each(|(memory, _)| memory.used_in(outer));
            inner.history.accesses()
        };
        let part = self.graph;
        let inside =
            accesses.into_iter().map(|(address, access)| InsidePart { part, address, access, is_closing: false });
        outer.inner.lock().inside.extend(inside);
    }

    /// Ends the memberships of all streams, and returns what the graph has to retain.
    pub fn finish(&self) -> FinishedCapture {
        if let Whole::Capture(outer) = &self.whole {
            // Before this one has ended, so that there is no moment in which its memory is in no capture.
            self.hand_over(outer);
        }
        let (members, _history, finished) = {
            let mut inner = self.inner.lock();
            inner.has_ended = true;
            let mut traits = inner.traits;
            traits.has_early_edges |= inner.has_early_edges;
            let finished = FinishedCapture {
                graph: self.graph,
                into: self.into.clone(),
                nodes: std::mem::replace(&mut inner.nodes, NodeTable::new(self.graph)),
                retained: std::mem::take(&mut inner.retained),
                conditions: std::mem::take(&mut inner.conditions),
                allocated: std::mem::take(&mut inner.allocated),
                left: std::mem::take(&mut inner.left),
                levels: inner.levels,
                traits,
                is_broken: inner.is_broken,
                has_failed: inner.has_failed,
            };
            (std::mem::take(&mut inner.members), std::mem::take(&mut inner.history), finished)
        };
        for stream in members.iter().filter_map(Weak::upgrade) {
            stream.membership().clear(self);
        }
        thread_exit::was_ended(self);
        if let Whole::Capture(outer) = &self.whole {
            let mut outer = outer.inner.lock();
            outer.open_parts.retain(|part| !std::ptr::eq(part.as_ptr(), self));
            outer.levels = outer.levels.max(finished.levels);
            outer.traits.add(finished.traits);
        }
        finished
    }

    /// Frees memory of the graph at each launch, after all that has used it: in the stream that it was allocated in, or in the
    /// origin if that stream has ended.
    pub(super) fn free_graph_memory(self: &Arc<Self>, address: DevicePointer, home: &StreamCore) {
        let is_member = home.is_live() && home.shared().membership().is_of(&**self);
        let origin = if is_member { None } else { self.find_stream(self.origin, home) };
        let home = origin.as_deref().unwrap_or(home);
        // Another thread may be ending the capture, after which the free would run outside of it, beside launches of the graph.
        let membership = home.shared().membership();
        let _submitting = membership.submitting();
        if !membership.is_of(&**self) {
            return;
        }
        let capturing = self.clone().capturing();
        // Where an edge or the free cannot be had, the memory stays allocated after a launch, as if it were still used.
        if capturing.order(address, home, Access::Write, None).is_ok() {
            let operation = "freeing memory of a graph";
            let context = home.context();
            let freed = home.while_live(|handle| {
                // SAFETY: the memory's owner was dropped, and all captured uses of it are before this.
                unsafe { context.driver().free_async(&context.call(operation), address, handle) }
                    .during(operation, || home.place())
            });
            if matches!(freed, Some(Ok(()))) {
                self.inner.lock().left.retain(|memory| memory.start != address.0);
            }
            // An invalid capture makes no graph, and its memory goes with what it has captured.
            let is_discarded = |error: &Error| error.status() == Status::STREAM_CAPTURE_INVALIDATED;
            drop_error::report(freed.filter(|freed| !freed.as_ref().is_err_and(is_discarded)).unwrap_or(Ok(())));
        }
        self.inner.lock().history.forget(address.0);
    }
}

impl CaptureState {
    /// Ends the capture that began in that stream, and discards what was captured. `false`: other threads have been submitting
    /// work to members for longer than `patience`, or the driver has not ended it.
    pub(super) fn give_up(
        &self,
        context: &Arc<ContextCore>,
        origin: Live<'_, StreamHandle>,
        patience: Duration,
    ) -> bool {
        let mut members = self.members();
        let stopped = loop {
            match members.iter().map(|stream| stream.membership().change_within(patience)).collect::<Option<Vec<_>>>() {
                None => return false,
                Some(stopped) if self.begins_to_end(members.len()) => break stopped,
                Some(stopped) => drop(stopped),
            }
            members = self.members();
        };
        let operation = "giving a capture up";
        let call = context.call(operation);
        let ended = context.driver().stream_end_capture(&call, origin);
        if let Err(failure) = &ended {
            self.end_has_failed(context, failure);
        }
        if !has_ended(&ended, context, origin) {
            self.goes_on();
            return false;
        }
        let finished = self.finish();
        drop(stopped);
        match ended {
            // Destroyed at once, unless it was there before.
            Ok(graph) => drop(finished.into_part(context, graph, operation)),
            // On another thread it fails, and has ended all the same.
            Err(_) => finished.failed(),
        }
        true
    }
}

/// Whether a capture in that stream has ended, after the driver was asked to end it: most failures end it too.
pub fn has_ended<T>(ended: &anabranch_hal::Result<T>, context: &ContextCore, stream: Live<'_, StreamHandle>) -> bool {
    match ended {
        Err(failure) => {
            let call = context.call("asking whether a capture has ended");
            // A layer may keep the driver from answering.
            for _ in 0..ASKED {
                match context.driver().stream_capture_status(&call, stream) {
                    Ok(status) => return status == CaptureStatus::None,
                    // The thread ends, and its default stream has gone with what it captured.
                    Err(failure) if failure.status == Status::DEINITIALIZED => return true,
                    // The legacy stream, which captures nothing.
                    Err(failure) if failure.status == Status::STREAM_CAPTURE_IMPLICIT => return true,
                    Err(_) if is_lost(context.driver(), &call, failure) => return true,
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
            false
        }
        _ => true,
    }
}

impl Capture for CaptureState {
    /// If the capture began in this stream, it is abandoned: otherwise its streams could not be used again, because
    /// nobody could end it any more.
    fn stream_ends(&self, stream: &StreamCore, handle: Live<'_, StreamHandle>, patience: Duration) -> bool {
        !self.is_origin(stream) || !stream.is_last_to_end_captures() || self.give_up(stream.context(), handle, patience)
    }

    /// Before the end of the capture, the memory is freed at each launch. Afterwards it remains the graph's.
    fn release_memory(self: Arc<Self>, address: DevicePointer, home: &Arc<StreamCore>) {
        {
            let mut inner = self.inner.lock();
            if inner.has_ended {
                return;
            }
            if inner.conditions_open > 0 {
                inner.released.push((address, home.clone()));
                return;
            }
        }
        self.free_graph_memory(address, home);
    }
}

impl FinishedCapture {
    /// Called if the capture has failed, and with it an existing graph that it was captured into.
    pub fn failed(self) {
        if let Some(object) = self.into {
            object.was_destroyed();
        }
    }

    /// The graph, with everything that it must retain.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` if something was captured in part only.
    pub(crate) fn into_part(
        self,
        context: &Arc<ContextCore>,
        handle: GraphHandle,
        operation: &'static str,
    ) -> Result<Part> {
        let (graph, retained) = match self.into {
            Some(object) => (object, self.retained),
            None => {
                // SAFETY: the driver has just made the graph of the capture, which has retained what its nodes refer to.
                let graph = unsafe { GraphObject::new(context, handle, self.graph, self.nodes, self.retained) };
                (graph, Retained::default())
            }
        };
        let mut guard = graph.lock_at_end_of_capture();
        guard.retained_mut().merge(&retained);
        guard.set_captured(false);
        if self.is_broken || self.has_failed {
            guard.break_off();
            let message = if self.has_failed {
                "a call of the recapture has failed"
            } else {
                "a conditional node was captured in part only, because a call of the driver has failed"
            };
            return Err(Error::argument(Status::STREAM_CAPTURE_INVALIDATED, operation, message)
                .with_hint("capture the work again")
                .at(context.place()));
        }
        guard.has_captured(self.allocated, self.left);
        // Of a part, these are counted from the graph around it, which has them too.
        guard.note_levels(self.levels);
        guard.note(self.traits);
        drop(guard);
        Ok(Part { graph, conditions: self.conditions, levels: self.levels })
    }
}
