//! Captures, behind calls that are short to write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive, and tests their addresses")]

use super::{Fixture, status};
use anabranch_hal::*;

impl Fixture {
    pub fn begin(&self, stream: Live<'_, StreamHandle>, mode: CaptureMode) {
        assert_eq!(self.try_begin(stream, mode), 0, "begin");
    }

    pub fn try_begin(&self, stream: Live<'_, StreamHandle>, mode: CaptureMode) -> i32 {
        status(self.driver.stream_begin_capture(&self.context.into(), stream, mode))
    }

    /// Ends a capture, and destroys its graph if there is one.
    pub fn end(&self, stream: Live<'_, StreamHandle>) -> i32 {
        match self.end_with_graph(stream) {
            Ok(graph) => {
                unsafe { self.driver.graph_destroy(&self.context.into(), graph) }.unwrap();
                0
            }
            Err(failure) => failure.status.0,
        }
    }

    pub fn end_with_graph(&self, stream: Live<'_, StreamHandle>) -> Result<GraphHandle> {
        self.driver.stream_end_capture(&self.context.into(), stream)
    }

    /// 0 none, 1 active, 2 invalidated, as the driver's numbers are.
    pub fn capture_status(&self, stream: Live<'_, StreamHandle>) -> i32 {
        match self.driver.stream_capture_status(&self.context.into(), stream) {
            Ok(CaptureStatus::None) => 0,
            Ok(CaptureStatus::Active) => 1,
            Ok(CaptureStatus::Invalidated) => 2,
            Err(failure) => failure.status.0,
        }
    }

    pub fn info(&self, stream: Live<'_, StreamHandle>, with_edge_data: bool) -> Result<CaptureInfo> {
        self.driver.stream_capture_info(&self.context.into(), stream, with_edge_data)
    }

    pub fn dependencies(&self, stream: Live<'_, StreamHandle>) -> Vec<GraphNodeHandle> {
        self.info(stream, true).unwrap().dependencies
    }

    pub fn update_dependencies(
        &self,
        stream: Live<'_, StreamHandle>,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> i32 {
        status(unsafe {
            self.driver.stream_update_capture_dependencies(&self.context.into(), stream, dependencies, update)
        })
    }

    /// Puts a node that can be captured anywhere into a stream.
    pub fn node(&self, stream: Live<'_, StreamHandle>) -> i32 {
        self.repeatable(stream, || ())
    }

    pub fn repeatable(&self, stream: Live<'_, StreamHandle>, work: impl Fn() + Send + Sync + 'static) -> i32 {
        let work = RepeatableWork::new(work);
        self.work.lock().unwrap().push(work.clone());
        let work = HostWork::from(work);
        status(self.driver.stream_launch_host_function(&self.context.into(), stream, work))
    }

    pub fn try_record(
        &self,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> i32 {
        status(self.driver.event_record(&self.context.into(), event, stream, flags))
    }

    pub fn try_wait(&self, stream: Live<'_, StreamHandle>, event: Live<'_, EventHandle>) -> i32 {
        self.try_wait_flagged(stream, event, EventWaitFlags::empty())
    }

    pub fn try_wait_flagged(
        &self,
        stream: Live<'_, StreamHandle>,
        event: Live<'_, EventHandle>,
        flags: EventWaitFlags,
    ) -> i32 {
        status(self.driver.stream_wait_event(&self.context.into(), stream, event, flags))
    }

    pub fn synchronize_event(&self, event: Live<'_, EventHandle>) -> i32 {
        status(self.driver.event_synchronize(&self.context.into(), event))
    }

    /// Makes a stream join the capture of another.
    pub fn fork(&self, from: Live<'_, StreamHandle>, to: Live<'_, StreamHandle>) {
        let event = self.event();
        self.record(event, from);
        self.wait(to, event);
        unsafe { self.driver.event_destroy(&self.context.into(), event.handle()) }.unwrap();
    }

    /// The stream works again, and can capture again.
    pub fn assert_usable(&self, stream: Live<'_, StreamHandle>) {
        assert_eq!(self.capture_status(stream), 0);
        assert_eq!(self.node(stream), 0);
        self.synchronize(stream).unwrap();
        assert_eq!(self.query(stream), 0);
        let event = self.event();
        self.record(event, stream);
        assert_eq!(self.query_event(event), 0);
        self.begin(stream, CaptureMode::Relaxed);
        assert_eq!(self.node(stream), 0);
        assert_eq!(self.end(stream), 0);
    }
}
