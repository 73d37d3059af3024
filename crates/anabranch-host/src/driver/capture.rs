//! Calls on captures.

use super::{HostDriver, resolve, resolve_even_if_lost};
use crate::capture::{Ended, exchange_mode};
use crate::error::permitted;
use anabranch_hal::{
    Call, CaptureInfo, CaptureMode, CaptureStatus, Captures, Dependency, DependencyUpdate, GraphHandle, Result,
    StreamHandle,
};
use std::sync::Arc;

impl Captures for HostDriver {
    unsafe fn stream_begin_capture(&self, call: &Call<'_>, stream: StreamHandle, mode: CaptureMode) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        // SAFETY: as above.
        unsafe { self.shared.captures.begin(&stream, &self.shared.memory, mode, None) }
    }

    unsafe fn stream_begin_capture_to_graph(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        graph: GraphHandle,
        dependencies: &[Dependency],
        mode: CaptureMode,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        // SAFETY: as above.
        unsafe { self.shared.captures.begin(&stream, &self.shared.memory, mode, Some((graph, dependencies))) }
    }

    unsafe fn stream_end_capture(&self, call: &Call<'_>, stream: StreamHandle) -> Result<GraphHandle> {
        // SAFETY: the handle rule. A stream that was destroyed while it captures lives as long as the capture, and the
        // reference taken here keeps it until the end of the call.
        let stream = unsafe { resolve_even_if_lost(&self.shared, call.context, stream) }?;
        let stream = Arc::clone(&stream);
        let Ended { graph, existing, outcome } = self.shared.captures.end(&stream)?;
        let handle = graph.handle();
        match (&outcome, existing) {
            (Ok(()), false) => {
                self.graphs.insert(graph);
            }
            // Hardware destroys a graph that was there before, too.
            (Err(_), true) => drop(self.graphs.remove(handle.as_raw())),
            _ => {}
        }
        outcome.map(|()| handle)
    }

    unsafe fn stream_capture_status(&self, call: &Call<'_>, stream: StreamHandle) -> Result<CaptureStatus> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        self.shared.captures.status(&stream)
    }

    unsafe fn stream_capture_info(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        with_edge_data: bool,
    ) -> Result<CaptureInfo> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        self.shared.captures.info(&stream, with_edge_data)
    }

    unsafe fn stream_update_capture_dependencies(
        &self,
        call: &Call<'_>,
        stream: StreamHandle,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        // SAFETY: as above.
        unsafe { self.shared.captures.update(&stream, dependencies, update) }
    }

    fn thread_exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        permitted()?;
        Ok(exchange_mode(mode))
    }
}
