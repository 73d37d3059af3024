//! Capture: what is put into a stream becomes nodes of a graph instead of running.

mod event;
mod graph;
mod modes;
mod recording;
mod registry;
mod session;

pub(crate) use event::CapturedRecord;
pub(crate) use recording::Recording;
pub(crate) use registry::CaptureRegistry;

use crate::driver::HostDriver;
use crate::engine::host_work::permitted;
use crate::stream::{resolve, resolve_even_if_lost};
use anabranch_hal::{
    CaptureInfo, CaptureMode, CaptureStatus, Captures, ContextHandle, Dependency, DependencyUpdate, GraphHandle,
    Result, StreamHandle,
};
use std::sync::Arc;

impl Captures for HostDriver {
    unsafe fn stream_begin_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: as above.
        unsafe { self.shared.captures.begin(&stream, mode, None) }
    }

    unsafe fn stream_begin_capture_to_graph(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        graph: GraphHandle,
        dependencies: &[Dependency],
        mode: CaptureMode,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: as above.
        unsafe { self.shared.captures.begin(&stream, mode, Some((graph, dependencies))) }
    }

    unsafe fn stream_end_capture(&self, context: ContextHandle, stream: StreamHandle) -> Result<GraphHandle> {
        // SAFETY: the handle rule. A stream that was destroyed while it captures lives as long as the capture, and the
        // share that is taken here keeps it until the call's end.
        let stream = unsafe { resolve_even_if_lost(context, stream) }?;
        self.shared.captures.end(&Arc::clone(&stream))
    }

    unsafe fn stream_capture_status(&self, context: ContextHandle, stream: StreamHandle) -> Result<CaptureStatus> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        self.shared.captures.status(&stream)
    }

    unsafe fn stream_capture_info(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        with_edge_data: bool,
    ) -> Result<CaptureInfo> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        self.shared.captures.info(&stream, with_edge_data)
    }

    unsafe fn stream_update_capture_dependencies(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: as above.
        unsafe { self.shared.captures.update(&stream, dependencies, update) }
    }

    fn thread_exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        permitted()?;
        Ok(modes::exchange_mode(mode))
    }
}
