//! Calls on captures.

use super::{HostDriver, resolve, resolve_even_if_lost};
use crate::capture::{Ended, exchange_mode};
use anabranch_hal::{
    Call, CaptureInfo, CaptureMode, CaptureStatus, Captures, Dependency, DependencyUpdate, GraphHandle, Live,
    RecaptureRecord, Result, StreamHandle,
};
use std::sync::Arc;

impl Captures for HostDriver {
    fn stream_begin_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, mode: CaptureMode) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.begin(&stream, &self.shared.memory, mode)
    }

    unsafe fn stream_begin_capture_to_graph(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        mode: CaptureMode,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        // SAFETY: the caller promises that the nodes of `dependencies` exist until the capture ends.
        unsafe { self.shared.captures.begin_in(&stream, mode, graph, dependencies) }
    }

    unsafe fn stream_begin_recapture_to_graph(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        graph: Live<'_, GraphHandle>,
        mode: CaptureMode,
        record: &RecaptureRecord,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.begin_again(&stream, mode, graph, record)
    }

    fn stream_end_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<GraphHandle> {
        // A stream that was destroyed while it captures lives as long as the capture, and the reference taken here keeps it
        // until the end of the call.
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
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

    fn stream_capture_status(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<CaptureStatus> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.status(&stream)
    }

    fn stream_capture_info(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        with_edge_data: bool,
    ) -> Result<CaptureInfo> {
        let stream = resolve(&self.shared, call.context, stream)?;
        self.shared.captures.info(&stream, with_edge_data)
    }

    unsafe fn stream_update_capture_dependencies(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        // SAFETY: the caller promises that the nodes of `dependencies` exist until the capture ends.
        unsafe { self.shared.captures.update(&stream, dependencies, update) }
    }

    fn thread_exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        // Also inside of a host function, where a guard of the thread that waits may be dropped.
        Ok(exchange_mode(mode))
    }
}
