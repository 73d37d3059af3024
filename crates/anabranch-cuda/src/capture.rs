//! Capture.

use crate::driver::CudaDriver;
use anabranch_hal::{
    CaptureInfo, CaptureMode, CaptureStatus, Captures, ContextHandle, Dependency, DependencyUpdate, Failure,
    GraphHandle, Result, Status, StreamHandle,
};

impl Captures for CudaDriver {
    unsafe fn stream_begin_capture(&self, _: ContextHandle, _: StreamHandle, _: CaptureMode) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn stream_begin_capture_to_graph(
        &self,
        _: ContextHandle,
        _: StreamHandle,
        _: GraphHandle,
        _: &[Dependency],
        _: CaptureMode,
    ) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn stream_end_capture(&self, _: ContextHandle, _: StreamHandle) -> Result<GraphHandle> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn stream_capture_status(&self, _: ContextHandle, _: StreamHandle) -> Result<CaptureStatus> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn stream_capture_info(&self, _: ContextHandle, _: StreamHandle, _: bool) -> Result<CaptureInfo> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn stream_update_capture_dependencies(
        &self,
        _: ContextHandle,
        _: StreamHandle,
        _: &[Dependency],
        _: DependencyUpdate,
    ) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    fn thread_exchange_capture_mode(&self, _: CaptureMode) -> Result<CaptureMode> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }
}
