//! Attributes of launches: hints, overlap with other work, and events that launches record.

use super::graph_tools::raw_digit;
use super::memory_raw::Raw;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{Launch, LaunchOverlap, ProgrammaticEvent};
use anabranch::{
    AccessProperty, Buffer, Capabilities, CaptureMode, ClusterSchedulingPolicy, ContextFlags, Event, EventFlags,
    KernelAttributes, KernelNode, LaunchConfig, MemorySyncDomain, MemorySyncDomainMap, NodeParameters, NodeWork,
    Result, Status, Stream,
};

const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];

pub(super) const CASES: &[Case] = &[
    Case::new("launch_attributes.hints", "S8", hints),
    Case::new("launch_attributes.hints_out_of_range", "S8", hints_out_of_range),
    Case::new("launch_attributes.access_policy_window", "S8", access_policy_window)
        .needs(&[Need::Capability(Capabilities::ACCESS_POLICY_WINDOW)]),
    Case::new("launch_attributes.no_access_policy_window", "S8", no_access_policy_window)
        .needs(&[Need::Without(Capabilities::ACCESS_POLICY_WINDOW)]),
    Case::new("launch_attributes.preferred_cluster", "S8", preferred_cluster).needs(CLUSTERS),
    Case::new("launch_attributes.preferred_clusters_that_do_not_fit", "S8", preferred_clusters_that_do_not_fit)
        .needs(CLUSTERS),
    Case::new("launch_attributes.serialization_keeps_the_order", "S8", serialization_keeps_the_order),
    Case::new("launch_attributes.completion_event", "S8", completion_event),
    Case::new("launch_attributes.programmatic_event", "S8", programmatic_event),
    Case::new("launch_attributes.both_events", "S8", both_events),
    Case::new("launch_attributes.event_is_awaited_by_a_stream", "S8", event_is_awaited_by_a_stream),
    Case::new("launch_attributes.event_does_not_cover_the_launch", "S8", event_does_not_cover_the_launch),
    Case::new("launch_attributes.event_is_recorded_again", "S8", event_is_recorded_again),
    Case::new("launch_attributes.event_that_measures_time", "S8", event_that_measures_time),
    Case::new("launch_attributes.event_of_another_context", "S8", event_of_another_context),
    Case::new("launch_attributes.captured_hints", "S8", captured_hints),
    Case::new("launch_attributes.captured_kernel_is_replaced", "S8", captured_kernel_is_replaced),
    Case::new("launch_attributes.nodes_keep_hints", "S8", nodes_keep_hints),
    Case::new("launch_attributes.nodes_have_no_overlap", "S8", nodes_have_no_overlap),
];

pub(super) fn one() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 1)
}

/// Appends a digit to a number.
pub(super) fn append(
    environment: &Environment,
    stream: &Stream,
    to: &mut Buffer<u32>,
    digit: u32,
    config: &LaunchConfig<'_>,
) -> Result<()> {
    // SAFETY: `add` accesses only the number that its first argument points to. It triggers nothing, so that a kernel behind it
    // begins when its block is complete.
    unsafe { stream.launch(&environment.kernel("add")?, config, (to, 10u32, digit)) }
}

pub(super) fn event(environment: &Environment) -> Result<Event> {
    environment.context().create_event_with_flags(EventFlags::DISABLE_TIMING)
}

/// Whether a launch with an attribute that only newer drivers have was made.
pub(super) fn is_made(what: &str, result: Result<()>) -> Result<bool, Failed> {
    match result {
        Ok(()) => Ok(true),
        Err(error) => equal(what, error.status(), Status::NOT_SUPPORTED).map(|()| false),
    }
}

fn hints(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[0u32])?;
    for (digit, config) in (1u32..).zip([
        one().cluster_scheduling_policy(ClusterSchedulingPolicy::Default),
        one().cluster_scheduling_policy(ClusterSchedulingPolicy::Spread),
        one().cluster_scheduling_policy(ClusterSchedulingPolicy::LoadBalancing),
        one().memory_sync_domain(MemorySyncDomain::Default),
        one().memory_sync_domain(MemorySyncDomain::Remote),
        one().memory_sync_domain_map(0, 0),
        one().memory_sync_domain(MemorySyncDomain::Remote).memory_sync_domain_map(0, 0).priority(-1),
    ]) {
        append(environment, &stream, &mut word, digit, &config)?;
    }
    let mut expected = 1_234_567;
    for (digit, config) in [
        (8, one().preferred_shared_memory_carveout(0)),
        (9, one().preferred_shared_memory_carveout(100).nvlink_centric_scheduling()),
    ] {
        if is_made("newer hints", append(environment, &stream, &mut word, digit, &config))? {
            expected = expected * 10 + digit;
        }
    }
    equal("the digits", stream.download(&word)?, vec![expected])
}

fn hints_out_of_range(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[7u32])?;
    let config = one().memory_sync_domain_map(0, 200);
    refused("domain 200", append(environment, &stream, &mut word, 1, &config), Status::INVALID_VALUE)?;
    let config = one().preferred_shared_memory_carveout(101);
    let result = append(environment, &stream, &mut word, 1, &config);
    holds("101 percent are refused", {
        result.is_err_and(|error| [Status::INVALID_VALUE, Status::NOT_SUPPORTED].contains(&error.status()))
    })?;
    equal("contents", stream.download(&word)?, vec![7])
}

fn access_policy_window(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (data, mut word) = (stream.upload(&[1u32; 1024])?, stream.upload(&[0u32])?);
    let (hit, miss) = (AccessProperty::Persisting, AccessProperty::Streaming);
    append(environment, &stream, &mut word, 1, &one().access_policy_window(data.slice(..)?, 0.5, hit, miss))?;
    append(environment, &stream, &mut word, 2, &one().access_policy_window(data.slice(..0)?, 0.0, hit, miss))?;
    let bad = one().access_policy_window(data.slice(..)?, 2.0, hit, miss);
    refused("a ratio of 2", append(environment, &stream, &mut word, 3, &bad), Status::INVALID_VALUE)?;
    equal("the digits", stream.download(&word)?, vec![12])
}

fn no_access_policy_window(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (data, mut word) = (stream.upload(&[1u32; 4])?, stream.upload(&[7u32])?);
    let config =
        one().access_policy_window(data.slice(..)?, 0.5, AccessProperty::Persisting, AccessProperty::Streaming);
    refused("the launch", append(environment, &stream, &mut word, 1, &config), Status::NOT_SUPPORTED)?;
    equal("contents", stream.download(&word)?, vec![7])
}

fn preferred_cluster(environment: &Environment) -> Verdict {
    let (stream, count_up) = (environment.stream()?, environment.kernel("count_up")?);
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    let mut launch = |config: &LaunchConfig<'_>| {
        // SAFETY: `count_up` updates one number atomically.
        unsafe { stream.launch(&count_up, config, (&mut count,)) }
    };
    let mut expected = 0;
    for preferred in [2, 4, 8] {
        if is_made("a preferred cluster", launch(&LaunchConfig::new(16, 32).cluster(2).preferred_cluster(preferred)))? {
            expected += 16 * 32;
        }
    }
    equal("threads that have run", stream.download(&count)?, vec![expected])
}

fn preferred_clusters_that_do_not_fit(environment: &Environment) -> Verdict {
    let (stream, count_up) = (environment.stream()?, environment.kernel("count_up")?);
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    for (grid, preferred) in [([16, 1, 1], [3, 1, 1]), ([12, 1, 1], [8, 1, 1]), ([4, 1, 2], [2, 1, 2])] {
        let config = LaunchConfig::new(grid, 32).cluster(2).preferred_cluster(preferred);
        // SAFETY: `count_up` updates one number atomically.
        let result = unsafe { stream.launch(&count_up, &config, (&mut count,)) };
        holds(&format!("{preferred:?} of {grid:?} is refused"), {
            let statuses = [Status::INVALID_CLUSTER_SIZE, Status::INVALID_VALUE, Status::NOT_SUPPORTED];
            result.is_err_and(|error| statuses.contains(&error.status()))
        })?;
    }
    equal("threads that have run", stream.download(&count)?, vec![0])
}

fn serialization_keeps_the_order(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[1u32])?;
    let config = one().programmatic_stream_serialization();
    let mut expected = 1u32;
    for step in 0..500 {
        append(environment, &stream, &mut word, step, &config)?;
        expected = expected.wrapping_mul(10).wrapping_add(step);
    }
    equal("result", stream.download(&word)?, vec![expected])
}

/// The event is pending before the launch begins, and reached at the end of the launch at the latest.
fn check_event(
    environment: &Environment,
    what: &str,
    event: &Event,
    config: &LaunchConfig<'_>,
) -> Result<bool, Failed> {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[4u32])?;
    stream.synchronize()?;
    let gate = Gate::shut(environment, &stream)?;
    if !is_made(what, append(environment, &stream, &mut word, 2, config))? {
        gate.open();
        return Ok(false);
    }
    equal(&format!("{what}: reached before the launch"), event.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    event.synchronize()?;
    equal(&format!("{what}: reached after the launch"), event.query()?, true)?;
    equal(what, stream.download(&word)?, vec![42])?;
    Ok(true)
}

fn completion_event(environment: &Environment) -> Verdict {
    let event = event(environment)?;
    for _ in 0..2 {
        check_event(environment, "an event of the begin", &event, &one().launch_completion_event(&event))?;
    }
    Ok(())
}

fn programmatic_event(environment: &Environment) -> Verdict {
    let event = event(environment)?;
    check_event(environment, "a triggered event", &event, &one().programmatic_event(&event))?;
    let config = one().programmatic_event_at_block_start(&event);
    check_event(environment, "an event of the blocks", &event, &config).map(drop)
}

fn both_events(environment: &Environment) -> Verdict {
    let [first, second] = [event(environment)?, event(environment)?];
    let config = one().programmatic_event(&first).launch_completion_event(&second);
    if check_event(environment, "both events", &second, &config)? {
        equal("the other one", first.query()?, true)?;
    }
    let stream = environment.stream()?;
    let mut word = stream.upload(&[7u32])?;
    let same = one().programmatic_event(&first).launch_completion_event(&first);
    refused("one event twice", append(environment, &stream, &mut word, 1, &same), Status::INVALID_VALUE)?;
    equal("contents", stream.download(&word)?, vec![7])
}

fn event_is_awaited_by_a_stream(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let (mut word, mut own) = (stream.upload(&[4u32])?, other.upload(&[0u32])?);
    other.synchronize()?;
    let event = event(environment)?;
    let gate = Gate::shut(environment, &stream)?;
    if !is_made("the launch", append(environment, &stream, &mut word, 2, &one().launch_completion_event(&event)))? {
        gate.open();
        return Ok(());
    }
    other.wait(&event)?;
    append(environment, &other, &mut own, 3, &one())?;
    equal("complete before the launch", other.query()?, false)?;
    gate.open();
    equal("behind the event", other.download(&own)?, vec![3])?;
    equal("the launch", stream.download(&word)?, vec![42])
}

/// A stream that has waited for the event uses the memory after the launch all the same.
fn event_does_not_cover_the_launch(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let mut word = stream.upload(&[4u32])?;
    let event = event(environment)?;
    if !is_made(
        "the launch",
        append(environment, &stream, &mut word, 2, &one().programmatic_event_at_block_start(&event)),
    )? {
        return Ok(());
    }
    other.wait(&event)?;
    let before = other.orders_inserted();
    append(environment, &other, &mut word, 1, &one())?;
    equal("waits that the library has added", other.orders_inserted() - before, 1)?;
    equal("the digits", other.download(&word)?, vec![421])
}

/// A later record by a stream is known again, and replaces that of the launch.
fn event_is_recorded_again(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let mut word = stream.upload(&[4u32])?;
    let event = event(environment)?;
    append(environment, &stream, &mut word, 2, &one().programmatic_event(&event))?;
    event.record(&stream)?;
    other.wait(&event)?;
    let before = other.orders_inserted();
    append(environment, &other, &mut word, 1, &one())?;
    equal("waits that the library has added", other.orders_inserted() - before, 0)?;
    equal("the digits", other.download(&word)?, vec![421])
}

fn event_that_measures_time(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let stream = environment.stream()?;
    let mut word = stream.upload(&[7u32])?;
    let event = environment.context().create_event()?;
    for config in [
        one().programmatic_event(&event),
        one().programmatic_event_at_block_start(&event),
        one().launch_completion_event(&event),
    ] {
        refused("the library", append(environment, &stream, &mut word, 1, &config), Status::INVALID_VALUE)?;
    }
    equal("contents", stream.download(&word)?, vec![7])?;
    let kernel = environment.kernel("add")?;
    let node = raw_digit(environment, word.device_pointer(), 1)?;
    let arguments: Vec<_> = node.arguments.iter().map(|value| value.as_ptr().cast()).collect();
    let programmatic = ProgrammaticEvent { event: event.live(), at_block_start: false };
    let overlap = LaunchOverlap { programmatic_event: Some(programmatic), ..LaunchOverlap::default() };
    let launch = Launch {
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: None,
        overlap: Some(&overlap),
        arguments: &arguments,
        ranges: &node.ranges,
    };
    // SAFETY: `add` accesses only the number that its first argument points to, which stays until the stream was synchronized.
    let status =
        status_of(unsafe { raw.driver().launch(&raw.context().into(), raw.stream().live(), kernel.live(), &launch) });
    raw.synchronize()?;
    equal("the driver", status, Status::NOT_SUPPORTED)
}

fn event_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let event = other.create_event_with_flags(EventFlags::DISABLE_TIMING)?;
    let stream = environment.stream()?;
    let mut word = stream.upload(&[7u32])?;
    for config in [one().programmatic_event(&event), one().launch_completion_event(&event)] {
        refused("the launch", append(environment, &stream, &mut word, 1, &config), Status::INVALID_HANDLE)?;
    }
    equal("contents", stream.download(&word)?, vec![7])
}

const HINTS: KernelAttributes = KernelAttributes {
    cluster_scheduling_policy: Some(ClusterSchedulingPolicy::Spread),
    memory_sync_domain: Some(MemorySyncDomain::Remote),
    ..KernelAttributes::NONE
};

fn captured_hints(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[0u32])?;
    stream.synchronize()?;
    stream.begin_capture(CaptureMode::Relaxed)?;
    let config =
        one().cluster_scheduling_policy(ClusterSchedulingPolicy::Spread).memory_sync_domain(MemorySyncDomain::Remote);
    append(environment, &stream, &mut word, 1, &config)?;
    let graph = stream.end_capture()?;
    let [node] = graph.nodes()?[..] else { return Err(Failed("there is not one node".to_owned())) };
    let NodeParameters::Kernel(kernel) = graph.node_parameters(node)? else {
        return Err(Failed("the node is no kernel".to_owned()));
    };
    equal("attributes", kernel.attributes, HINTS)?;
    graph.instantiate()?.launch(&stream)?;
    stream.synchronize()?;
    equal("the digits", stream.download(&word)?, vec![1])
}

/// By work that names no attributes, whatever the node has from its capture.
fn captured_kernel_is_replaced(environment: &Environment) -> Verdict {
    let (stream, kernel) = (environment.stream()?, environment.kernel("add")?);
    for config in [one(), one().cluster_scheduling_policy(ClusterSchedulingPolicy::Spread)] {
        let mut word = stream.upload(&[0u32])?;
        stream.synchronize()?;
        stream.begin_capture(CaptureMode::Relaxed)?;
        append(environment, &stream, &mut word, 1, &config)?;
        let graph = stream.end_capture()?;
        let [node] = graph.nodes()?[..] else { return Err(Failed("there is not one node".to_owned())) };
        let executable = graph.instantiate()?;
        // SAFETY: `add` accesses only the number that its first argument points to.
        let other = unsafe { NodeWork::kernel(&kernel, &one(), (&mut word, 10u32, 2u32)) }?;
        executable.set_node(node, other)?;
        executable.launch(&stream)?;
        equal("the digits", stream.download(&word)?, vec![2])?;
    }
    Ok(())
}

fn nodes_keep_hints(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let word = stream.upload(&[0u32])?;
    stream.synchronize()?;
    let plain = raw_digit(environment, word.device_pointer(), 1)?;
    let work = |attributes| {
        let kernel = KernelNode { attributes, ..plain.clone() };
        // SAFETY: the node accesses one number, which stays until the last launch is complete, and its kernel is loaded as long
        // as the environment.
        unsafe { NodeWork::from_parameters(NodeParameters::Kernel(kernel)) }
    };
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), work(HINTS))?;
    let attributes = |graph: &anabranch::Graph| match graph.node_parameters(node)? {
        NodeParameters::Kernel(kernel) => Ok(kernel.attributes),
        _ => Err(Failed("the node is no kernel".to_owned())),
    };
    equal("of the node", attributes(&graph)?, HINTS)?;
    let executable = graph.instantiate()?;
    let map = KernelAttributes {
        memory_sync_domain_map: Some(MemorySyncDomainMap { default: 0, remote: 200 }),
        ..KernelAttributes::NONE
    };
    refused("a map that no device has", graph.set_node(node, work(map)), Status::INVALID_VALUE)?;
    equal("after that", attributes(&graph)?, HINTS)?;
    let policy = Some(ClusterSchedulingPolicy::LoadBalancing);
    let other = KernelAttributes { cluster_scheduling_policy: policy, ..HINTS };
    refused("others at once", executable.set_node(node, work(other)), Status::GRAPH_EXEC_UPDATE_FAILURE)?;
    executable.set_node(node, work(HINTS))?;
    // Without any, it keeps its own.
    executable.set_node(node, work(KernelAttributes::NONE))?;
    executable.launch(&stream)?;
    graph.set_node(node, work(KernelAttributes::NONE))?;
    equal("removed", attributes(&graph)?, KernelAttributes::NONE)?;
    graph.instantiate()?.launch(&stream)?;
    stream.synchronize()?;
    equal("the digits", stream.download(&word)?, vec![11])
}

fn nodes_have_no_overlap(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[0u32])?;
    let (kernel, event) = (environment.kernel("add")?, event(environment)?);
    for config in [one().programmatic_stream_serialization(), one().launch_completion_event(&event)] {
        // SAFETY: `add` accesses only the number that its first argument points to.
        let node = unsafe { NodeWork::kernel(&kernel, &config, (&mut word, 1u32, 1u32)) };
        refused("the node", node.map(drop), Status::NOT_SUPPORTED)?;
    }
    Ok(())
}
