//! What is looked at when a capture adds a node, and what only afterwards.

use super::capture_raw::{Place, RawStream};
use super::capture_tools::{MODES, OK, usable};
use super::memory_raw::GARBAGE;
use crate::case::{Case, Failed, Verdict, equal, status_of};
use crate::environment::Environment;
use anabranch::hal::{DependencyUpdate, GraphHandle, Live, NodeParameters};
use anabranch::{
    CaptureStatus, DevicePointer, EventFlags, EventRecordFlags, FillPattern, GraphNodeKind, InstantiateFlags, Status,
};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.fill_where_nothing_is", "C1", fill_where_nothing_is),
    Case::new("capture.fill_that_is_not_aligned", "C1", fill_that_is_not_aligned),
    Case::new("capture.fork_joined_by_an_added_node", "C4", fork_joined_by_an_added_node),
    Case::new("capture.fork_whose_dependencies_are_set", "C4", fork_whose_dependencies_are_set),
    Case::new("capture.fork_goes_on_after_an_added_node", "C4", fork_goes_on_after_an_added_node),
];

fn fill(stream: &RawStream<'_>, place: Place<'_>, address: DevicePointer, count: usize) -> Status {
    let (driver, context) = (place.driver(), place.context());
    // SAFETY: no graph with this fill can be instantiated, and the driver refuses it outside of captures.
    status_of(unsafe { driver.fill_async(&context.into(), address, FillPattern::U32(0), count, stream.live()) })
}

/// Only the instantiation looks whether there is memory.
fn fill_where_nothing_is(environment: &Environment) -> Verdict {
    let place = Place::primary(environment);
    let (driver, context) = (place.driver(), place.context());
    let memory = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 16)?;
    let fills = [(DevicePointer::NULL, 4), (GARBAGE, 4), (memory.device_pointer().byte_add(32), 16)];
    for mode in MODES {
        for (address, count) in fills {
            let stream = place.free_stream()?;
            stream.begin(mode)?;
            equal("filling", fill(&stream, place, address, count), OK)?;
            let [filled] = stream.dependencies()?[..] else {
                return Err(Failed("the capture of a fill has not made one node".to_owned()));
            };
            // SAFETY: the capture has made the node.
            let kind = driver.graph_node_kind(&context.into(), unsafe { Live::new(filled.node) });
            equal("the node", kind.ok(), Some(GraphNodeKind::FILL))?;
            let graph = driver.stream_end_capture(&context.into(), stream.live());
            let graph = graph.map_err(|failure| Failed(format!("ending: {failure:?}")))?;
            // SAFETY: the capture has made the graph, which is destroyed below.
            let live = unsafe { Live::<GraphHandle>::new(graph) };
            let made = driver.graph_instantiate(&context.into(), live, InstantiateFlags::empty(), None);
            equal("instantiating", status_of(made), Status::INVALID_VALUE)?;
            // SAFETY: nobody else has the graph.
            equal("destroying", status_of(unsafe { driver.graph_destroy(&context.into(), graph) }), OK)?;
            equal("filling outside of captures", fill(&stream, place, address, count), Status::INVALID_VALUE)?;
        }
    }
    Ok(())
}

fn fill_that_is_not_aligned(environment: &Environment) -> Verdict {
    let place = Place::primary(environment);
    let memory = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 16)?;
    for mode in MODES {
        for address in [1, 2].map(|bytes| memory.device_pointer().byte_add(bytes)) {
            let stream = place.free_stream()?;
            stream.begin(mode)?;
            equal("filling", fill(&stream, place, address, 4), Status::INVALID_VALUE)?;
            equal("what the next node depends on", stream.dependencies()?.len(), 0)?;
            stream.ends("a fill that is not aligned", CaptureStatus::Active, OK)?;
        }
    }
    Ok(())
}

/// Captures a fill in a fork, which nothing joins to the origin.
fn with_fork(environment: &Environment, body: impl Fn(&RawStream<'_>, &RawStream<'_>) -> Verdict) -> Verdict {
    let place = Place::primary(environment);
    let word = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 1)?;
    for mode in MODES {
        let (origin, fork) = (place.free_stream()?, place.free_stream()?);
        let event = place.event(EventFlags::DISABLE_TIMING)?;
        origin.begin(mode)?;
        equal("recording", origin.record(&event, EventRecordFlags::empty()), OK)?;
        equal("waiting", fork.wait(&event), OK)?;
        equal("filling", fork.fill(&word), OK)?;
        body(&origin, &fork)?;
    }
    usable(environment, &[])
}

/// Adds a node that depends on what a stream has captured.
fn add_behind(place: Place<'_>, stream: &RawStream<'_>) -> Verdict {
    let (driver, context) = (place.driver(), place.context());
    let info = driver.stream_capture_info(&context.into(), stream.live(), true);
    let Some(graph) = info.ok().and_then(|info| info.graph) else {
        return Err(Failed("the capture has no graph".to_owned()));
    };
    let before = stream.dependencies()?;
    // SAFETY: the capture goes on, so its graph and its nodes exist.
    let added = unsafe { driver.graph_add_node(&context.into(), Live::new(graph), &before, &NodeParameters::Empty) };
    equal("adding a node", status_of(added), OK)
}

fn fork_joined_by_an_added_node(environment: &Environment) -> Verdict {
    with_fork(environment, |origin, fork| {
        add_behind(Place::primary(environment), fork)?;
        origin.ends("a node after the fork", CaptureStatus::Active, OK)
    })
}

fn fork_goes_on_after_an_added_node(environment: &Environment) -> Verdict {
    let word = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 1)?;
    with_fork(environment, |origin, fork| {
        add_behind(Place::primary(environment), fork)?;
        equal("filling", fork.fill(&word), OK)?;
        origin.ends("a fork that continued", CaptureStatus::Active, Status::STREAM_CAPTURE_UNJOINED)
    })
}

/// Also if nothing changes.
fn fork_whose_dependencies_are_set(environment: &Environment) -> Verdict {
    with_fork(environment, |origin, fork| {
        let before = fork.dependencies()?;
        equal("setting", fork.update(&before, DependencyUpdate::Set), OK)?;
        equal("what was set", fork.dependencies()?, before)?;
        origin.ends("dependencies that were set", CaptureStatus::Active, OK)
    })
}
