//! Capture (Driver API, group STREAM).

use crate::capture_ends::{self, unless_a_capture_ends};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::graph::edges::{RawDependencies, edge_data};
use crate::handles::{graph_handle, node_handle, raw_graph, raw_stream};
use anabranch_hal::{
    Call, CaptureInfo, CaptureMode, CaptureStatus, Captures, Dependency, DependencyUpdate, EdgeData, Failure,
    GraphHandle, Live, RecaptureRecord, Result, Status, StreamHandle, contain,
};
use std::ffi::c_void;
use std::ptr;

const fn raw_mode(mode: CaptureMode) -> CUstreamCaptureMode {
    match mode {
        CaptureMode::Global => CU_STREAM_CAPTURE_MODE_GLOBAL,
        CaptureMode::ThreadLocal => CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CaptureMode::Relaxed => CU_STREAM_CAPTURE_MODE_RELAXED,
    }
}

fn mode(raw: CUstreamCaptureMode) -> Result<CaptureMode> {
    match raw {
        CU_STREAM_CAPTURE_MODE_GLOBAL => Ok(CaptureMode::Global),
        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => Ok(CaptureMode::ThreadLocal),
        CU_STREAM_CAPTURE_MODE_RELAXED => Ok(CaptureMode::Relaxed),
        other => Err(unknown("mode", other)),
    }
}

fn status(raw: CUstreamCaptureStatus) -> Result<CaptureStatus> {
    match raw {
        CU_STREAM_CAPTURE_STATUS_NONE => Ok(CaptureStatus::None),
        CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(CaptureStatus::Active),
        CU_STREAM_CAPTURE_STATUS_INVALIDATED => Ok(CaptureStatus::Invalidated),
        other => Err(unknown("status", other)),
    }
}

fn unknown(what: &str, number: u32) -> Failure {
    Failure::argument(Status::NOT_SUPPORTED, format!("the CUDA back end knows no {what} {number} of captures"))
}

impl CudaDriver {
    /// Whether the stream captures. A default stream is that of the current context.
    #[inline]
    fn raw_capture_status(&self, stream: Live<'_, StreamHandle>) -> Result<CaptureStatus> {
        let mut raw = CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is live, as its type says.
        check(unsafe { self.functions.cuStreamIsCapturing(raw_stream(stream), &mut raw) })?;
        status(raw)
    }

    /// Whether work that is queued now becomes a node. `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` where the capture
    /// was invalidated.
    #[inline]
    pub(crate) fn is_capturing(&self, stream: Live<'_, StreamHandle>) -> Result<bool> {
        match self.raw_capture_status(stream)? {
            CaptureStatus::None => Ok(false),
            CaptureStatus::Active => Ok(true),
            CaptureStatus::Invalidated => Err(Failure::new(Status::STREAM_CAPTURE_INVALIDATED)),
        }
    }
}

impl Captures for CudaDriver {
    fn stream_begin_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, mode: CaptureMode) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        capture_ends::begin(stream, || {
            // SAFETY: the stream is live, as its type says.
            check(unsafe { self.functions.cuStreamBeginCapture(raw_stream(stream), raw_mode(mode)) })
        })
    }

    unsafe fn stream_begin_capture_to_graph(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        mode: CaptureMode,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let dependencies = RawDependencies::new(dependencies);
        capture_ends::begin(stream, || {
            // SAFETY: stream and graph are live, as their types say, and the caller promises that the nodes exist until the
            // capture ends; there are as many nodes as stated, and as many data or none.
            check(unsafe {
                self.functions.cuStreamBeginCaptureToGraph(
                    raw_stream(stream),
                    raw_graph(graph),
                    dependencies.nodes.as_ptr(),
                    dependencies.data(),
                    dependencies.nodes.len(),
                    raw_mode(mode),
                )
            })
        })
    }

    unsafe fn stream_begin_recapture_to_graph(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        graph: Live<'_, GraphHandle>,
        mode: CaptureMode,
        record: &RecaptureRecord,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let data = record.as_raw().cast_mut().cast();
        capture_ends::begin(stream, || {
            // SAFETY: stream and graph are live, as their types say. The caller promises that the record, which the function takes,
            // exists until the capture ends.
            check(unsafe {
                self.functions.cuStreamBeginRecaptureToGraph(
                    raw_stream(stream),
                    raw_mode(mode),
                    raw_graph(graph),
                    Some(recaptured),
                    data,
                )
            })
        })
    }

    fn stream_end_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<GraphHandle> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let mut graph = ptr::null_mut();
        capture_ends::end(stream, || {
            // SAFETY: the stream is live, as its type says.
            check(unsafe { self.functions.cuStreamEndCapture(raw_stream(stream), &mut graph) })
        })?;
        // A null graph means that the capture was invalidated, where the driver does not answer an error.
        if graph.is_null() { Err(Failure::new(Status::STREAM_CAPTURE_INVALIDATED)) } else { Ok(graph_handle(graph)) }
    }

    fn stream_capture_status(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<CaptureStatus> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        unless_a_capture_ends(|| self.raw_capture_status(stream))
    }

    fn stream_capture_info(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        with_edge_data: bool,
    ) -> Result<CaptureInfo> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let stream = raw_stream(stream);
        let (mut raw, mut id, mut graph) = (CU_STREAM_CAPTURE_STATUS_NONE, 0, ptr::null_mut());
        let (mut nodes, mut data, mut count) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the stream is live, as its type says.
        check(unsafe {
            // A driver without the newer function knows no data.
            if with_edge_data && self.functions.cuStreamGetCaptureInfo_v3.is_some() {
                let (nodes, data) = (&mut nodes, &mut data);
                self.functions.cuStreamGetCaptureInfo_v3(stream, &mut raw, &mut id, &mut graph, nodes, data, &mut count)
            } else {
                self.functions.cuStreamGetCaptureInfo(stream, &mut raw, &mut id, &mut graph, &mut nodes, &mut count)
            }
        })?;
        let status = status(raw)?;
        if status != CaptureStatus::Active {
            return Ok(CaptureInfo { status, ..CaptureInfo::default() });
        }
        // SAFETY: the stream captures, so these are the driver's arrays of that many nodes and data, which stay until
        // the next call on the stream.
        let (nodes, data) = unsafe { (array(nodes, count), array(data, count)) };
        // Without an array, all have the default.
        let data = data.iter().map(edge_data).chain(std::iter::repeat(EdgeData::default()));
        let edge_data = with_edge_data.then(|| data.take(nodes.len()).collect());
        Ok(CaptureInfo {
            status,
            id,
            graph: (!graph.is_null()).then(|| graph_handle(graph)),
            dependencies: nodes.iter().map(|&node| node_handle(node)).collect(),
            edge_data,
        })
    }

    unsafe fn stream_update_capture_dependencies(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let stream = raw_stream(stream);
        let flags = match update {
            DependencyUpdate::Add => CU_STREAM_ADD_CAPTURE_DEPENDENCIES,
            DependencyUpdate::Set => CU_STREAM_SET_CAPTURE_DEPENDENCIES,
        };
        let mut raw = RawDependencies::new(dependencies);
        let (nodes, count) = (raw.nodes.as_mut_ptr(), dependencies.len());
        // SAFETY: the stream is live, as its type says, and the caller promises that the nodes exist until the capture
        // ends; there are as many nodes and data as stated.
        check(unsafe {
            if raw.has_data() {
                self.functions.cuStreamUpdateCaptureDependencies_v2(stream, nodes, raw.data(), count, flags)
            } else {
                self.functions.cuStreamUpdateCaptureDependencies(stream, nodes, count, flags)
            }
        })
    }

    fn thread_exchange_capture_mode(&self, new: CaptureMode) -> Result<CaptureMode> {
        let mut raw = raw_mode(new);
        // SAFETY: the mode is read from, and the one before written to, a variable that outlives the call. The mode is
        // the thread's, and belongs to no context.
        check(unsafe { self.functions.cuThreadExchangeStreamCaptureMode(&mut raw) })?;
        mode(raw)
    }
}

/// Notes a node whose parameters a recapture changes. The driver calls it in the calls that capture.
unsafe extern "C" fn recaptured(
    data: *mut c_void,
    node: CUgraphNode,
    _original: *const CUgraphNodeParams,
    _recaptured: *const CUgraphNodeParams,
    status: CUgraphRecaptureStatus,
) -> CUresult {
    // With any other status the driver ends the recapture, whatever is returned.
    let is_updatable = status == CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE;
    let noted = contain(|| {
        // SAFETY: the address was given to the driver with this function, and whoever began the recapture keeps the record until
        // it ends.
        unsafe { RecaptureRecord::note_raw(data.cast(), node_handle(node), is_updatable) }
    });
    if matches!(noted, Ok(Ok(()))) { CUDA_SUCCESS } else { CUDA_ERROR_INVALID_VALUE }
}

/// An array that the driver returned.
///
/// # Safety
///
/// Where the count is not 0, there are that many, and they stay as long as the result is used.
unsafe fn array<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: the caller promises that there are so many from this address on, which is not null.
    unsafe { std::slice::from_raw_parts(first, count) }
}

#[cfg(test)]
mod tests {
    use super::{mode, raw_mode, status};
    use anabranch_hal::{CaptureMode, CaptureStatus, Status};

    #[test]
    fn modes_come_back_as_they_were() {
        for each in [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed] {
            assert_eq!(mode(raw_mode(each)), Ok(each));
        }
        assert_eq!(mode(77).unwrap_err().status, Status::NOT_SUPPORTED);
    }

    #[test]
    fn a_status_that_is_not_known_is_an_error() {
        assert_eq!(status(0), Ok(CaptureStatus::None));
        assert_eq!(status(2), Ok(CaptureStatus::Invalidated));
        assert_eq!(status(3).unwrap_err().status, Status::NOT_SUPPORTED);
    }
}
