//! Why graphs are not instantiated, and what of it counts as a call of the stream.

use super::graph_raw::RawGraph;
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use anabranch::{CaptureMode, CaptureStatus, GraphInstantiateResult, InstantiateFlags, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.instantiation_refused_has_a_reason", "G2", refused_has_a_reason),
    Case::new("graph.instantiated_while_a_stream_captures", "G2", while_a_stream_captures),
    Case::new("graph.instantiated_and_uploaded_while_another_stream_captures", "G2", while_another_stream_captures),
    Case::new("graph.instantiated_and_uploaded_in_a_capturing_stream", "G2", in_a_capturing_stream),
    Case::new("graph.instantiated_and_uploaded_in_the_legacy_stream", "G2", in_the_legacy_stream),
];

const NO_FLAGS: InstantiateFlags = InstantiateFlags::empty();
const UPLOAD: InstantiateFlags = InstantiateFlags::UPLOAD;

/// The driver gives a reason even where it knows none better than the code.
const fn refusal(status: Status) -> Result<(), super::graph_raw::Refusal> {
    Err((status, Some(GraphInstantiateResult::ERROR), None))
}

fn refused_has_a_reason(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 1)?;
    let unknown = graph.instantiate(InstantiateFlags::from_bits_retain(16), None).map(drop);
    equal("unknown flags", unknown, refusal(Status::INVALID_VALUE))?;
    let freed = anabranch::NodeParameters::Free(anabranch::DevicePointer::NULL);
    graph.refuses("a free", &[], &freed, Status::INVALID_VALUE)?;
    let _first = graph.must_instantiate()?;
    equal("a second one", graph.instantiate(NO_FLAGS, None).map(drop), refusal(Status::NOT_SUPPORTED))
}

fn while_a_stream_captures(environment: &Environment) -> Verdict {
    let (stream, graph) = (environment.stream()?, RawGraph::row(environment, 1)?);
    let mut found = Vec::new();
    let mut status = CaptureStatus::None;
    let captured = stream.capture(CaptureMode::Global, |_| {
        found.push(graph.instantiate(InstantiateFlags::from_bits_retain(1 << 31), None).map(drop));
        status = stream.capture_status()?;
        found.push(graph.instantiate(NO_FLAGS, None).map(drop));
        Ok(())
    });
    equal("the capture after unknown flags", status, CaptureStatus::Active)?;
    equal("instantiating", found, vec![refusal(Status::INVALID_VALUE), refusal(Status::STREAM_CAPTURE_UNSUPPORTED)])?;
    crate::case::refused("the capture", captured, Status::STREAM_CAPTURE_INVALIDATED)
}

/// With an upload, only the stream of the upload matters.
fn while_another_stream_captures(environment: &Environment) -> Verdict {
    let (stream, other, graph) = (environment.stream()?, environment.stream()?, RawGraph::row(environment, 1)?);
    // Kept until the capture is over, because destroying them is potentially unsafe.
    let mut made = Vec::new();
    stream.capture(CaptureMode::Global, |_| {
        made.push(graph.instantiate(UPLOAD, Some(&other)));
        made.push(graph.instantiate(UPLOAD | InstantiateFlags::AUTO_FREE_ON_LAUNCH, None));
        Ok(())
    })?;
    let made: Vec<_> = made.into_iter().map(|made| made.map(drop)).collect();
    equal("instantiating", made, vec![Ok(()); 2])
}

fn in_a_capturing_stream(environment: &Environment) -> Verdict {
    let (stream, graph) = (environment.stream()?, RawGraph::row(environment, 1)?);
    // What owns something is asked for later.
    let freed = anabranch::NodeParameters::Free(anabranch::DevicePointer::NULL);
    graph.refuses("a free", &[], &freed, Status::INVALID_VALUE)?;
    let _first = graph.must_instantiate()?;
    let mut found = None;
    let mut status = CaptureStatus::None;
    let captured = stream.capture(CaptureMode::Relaxed, |_| {
        found = Some(graph.instantiate(UPLOAD, Some(&stream)).map(drop));
        status = stream.capture_status()?;
        Ok(())
    });
    equal("instantiating", found, Some(refusal(Status::STREAM_CAPTURE_UNSUPPORTED)))?;
    equal("the capture", status, CaptureStatus::Invalidated)?;
    crate::case::refused("the end of the capture", captured, Status::STREAM_CAPTURE_INVALIDATED)
}

fn in_the_legacy_stream(environment: &Environment) -> Verdict {
    let (stream, graph) = (environment.blocking_stream()?, RawGraph::row(environment, 1)?);
    let mut found = None;
    let captured = stream.capture(CaptureMode::Relaxed, |_| {
        found = Some(graph.instantiate(UPLOAD, None).map(drop));
        Ok(())
    });
    equal("instantiating", found, Some(refusal(Status::STREAM_CAPTURE_IMPLICIT)))?;
    crate::case::refused("the end of the capture", captured, Status::STREAM_CAPTURE_INVALIDATED)
}
