//! The status of each call after its context is lost.

use super::graph_tools::raw_digit;
use super::sticky::Doomed;
use crate::case::{Case, Verdict, equal, refused, status_of};
use crate::environment::Environment;
use crate::kernels;
use crate::live::Owner;
use anabranch::hal::{CopyKind, Detail, GraphInstantiateResult, KernelNode, Live};
use anabranch::{
    DevicePointer, EventFlags, InstantiateFlags, LaunchConfig, NodeParameters, NodeWork, PinnedFlags, Status,
    StreamFlags,
};

pub(super) const CASES: &[Case] = &[
    Case::new("sticky_calls.streams", "X1", streams).loses_context(),
    Case::new("sticky_calls.destroying_streams_and_events", "X1", destroying_streams_and_events).loses_context(),
    Case::new("sticky_calls.events", "X1", events).loses_context(),
    Case::new("sticky_calls.events_done_before", "X1", events_done_before).loses_context(),
    Case::new("sticky_calls.kernels_and_modules", "X1", kernels_and_modules).loses_context(),
    Case::new("sticky_calls.allocating", "X1", allocating).loses_context(),
    Case::new("sticky_calls.freeing", "X1", freeing).loses_context(),
    Case::new("sticky_calls.copying_and_filling", "X1", copying_and_filling).loses_context(),
    Case::new("sticky_calls.graphs", "X1", graphs).loses_context(),
    Case::new("sticky_calls.building_graphs", "X1", building_graphs).loses_context(),
    Case::new("sticky_calls.name_of_a_kernel", "X1", name_of_a_kernel).loses_context(),
    Case::new("sticky_calls.device_is_still_there", "X1", device_is_still_there).loses_context(),
];

const LOST: Status = Status::ILLEGAL_ADDRESS;
const OK: Status = Status::SUCCESS;

fn streams(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let idle = doomed.context.create_stream()?;
    let event = doomed.stream.record_event()?;
    doomed.lose()?;
    refused("querying", doomed.stream.query(), LOST)?;
    refused("querying an idle one", idle.query(), LOST)?;
    refused("waiting for an event", idle.wait_event(&event), LOST)?;
    refused("querying the priority", idle.priority(), LOST)?;
    refused("launching a host function", idle.launch_host_func(|| ()), LOST)?;
    refused("creating", doomed.context.create_stream(), LOST)?;
    let driver = environment.device().driver();
    let call = doomed.context.live().into();
    let unknown = driver.stream_create(&call, StreamFlags::from_bits_retain(2), 0);
    equal("creating one with unknown flags", status_of(unknown), Status::INVALID_VALUE)?;
    let context = driver.stream_context(&call, Live::PER_THREAD);
    equal("the context of a default stream", context.ok(), Some(doomed.context.as_raw()))?;
    equal("the context of a stream", status_of(driver.stream_context(&call, idle.live())), LOST)?;
    refused("creating a blocking one", doomed.context.create_stream_with_flags(StreamFlags::empty()), LOST)?;
    refused("synchronizing the context", doomed.context.synchronize(), LOST)
}

fn destroying_streams_and_events(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let context = doomed.context.clone();
    let (driver, context) = (environment.device().driver(), context.live());
    let stream = doomed.context.create_stream()?;
    let event = driver.event_create(&context.into(), EventFlags::empty());
    doomed.lose()?;
    let stream = stream.into_raw();
    // SAFETY: the handle was just released by its owner, and no other code has it.
    equal("a stream", status_of(unsafe { driver.stream_destroy(&context.into(), stream) }), LOST)?;
    // SAFETY: the event was created above, and no one else has it.
    equal("an event", status_of(event.and_then(|event| unsafe { driver.event_destroy(&context.into(), event) })), LOST)
}

fn events(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let (idle, event) = (doomed.context.create_stream()?, doomed.context.create_event()?);
    doomed.lose()?;
    refused("creating", doomed.context.create_event(), LOST)?;
    refused("recording", idle.record(&event), LOST)?;
    refused("recording a new one", idle.record_event(), LOST)?;
    refused("waiting for a stream", idle.wait_stream(&doomed.stream), LOST)
}

fn events_done_before(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let event = doomed.stream.record_event()?;
    event.synchronize()?;
    doomed.lose()?;
    refused("querying", event.query(), LOST)?;
    refused("synchronizing", event.synchronize(), LOST)?;
    refused("measuring", event.elapsed_since(&event), LOST)
}

fn kernels_and_modules(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let (idle, spin) = (doomed.context.create_stream()?, doomed.module.kernel("spin")?);
    doomed.lose()?;
    // SAFETY: `spin` takes a number and uses no memory.
    let launched = unsafe { idle.launch(&spin, &LaunchConfig::new(1, 1), (1u64,)) };
    refused("launching", launched, LOST)?;
    refused("looking for a kernel", doomed.module.kernel("add"), LOST)?;
    refused("querying the attributes of a kernel", spin.info(), LOST)?;
    refused("loading a module", kernels::program().load(&doomed.context), LOST)
}

fn allocating(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let idle = doomed.context.create_stream()?;
    doomed.lose()?;
    refused("from the device", doomed.context.allocate_zeroed::<u8>(&idle, 64), LOST)?;
    refused("in stream order", idle.allocate_zeroed::<u8>(64), LOST)?;
    refused("pinned memory", doomed.context.allocate_pinned::<u8>(64), LOST)?;
    refused("a signal", doomed.context.create_signal(), LOST)?;
    refused("querying free memory", doomed.context.memory_info(), LOST)
}

fn freeing(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let context = doomed.context.clone();
    let (driver, context) = (environment.device().driver(), context.live());
    let plain = driver.allocate(&context.into(), 64);
    let pooled = driver.allocate_async(&context.into(), 64, None, doomed.stream.live());
    let pinned = driver.allocate_pinned(&context.into(), 64, PinnedFlags::empty());
    doomed.lose()?;
    // SAFETY: the memory was allocated above, and nothing uses it.
    let freed = plain.and_then(|address| unsafe { driver.free(&context.into(), address) });
    equal("of the device", status_of(freed), LOST)?;
    // SAFETY: the memory was allocated above, and nothing uses it.
    let freed = pooled.and_then(|address| unsafe { driver.free_async(&context.into(), address, doomed.stream.live()) });
    equal("in stream order", status_of(freed), LOST)?;
    // SAFETY: the memory was allocated above, and nothing uses it.
    let freed = pinned.and_then(|pointer| unsafe { driver.free_pinned(&context.into(), pointer) });
    equal("pinned memory", status_of(freed), LOST)
}

fn copying_and_filling(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let idle = doomed.context.create_stream()?;
    let (mut buffer, mut pinned) = (idle.upload(&[1u32; 4])?, doomed.context.allocate_pinned::<u32>(4)?);
    idle.synchronize()?;
    doomed.lose()?;
    refused("filling", idle.fill(&mut buffer, 2), LOST)?;
    refused("copying to pinned memory", idle.copy(&mut pinned, &buffer), LOST)?;
    refused("downloading", idle.download(&buffer), LOST)?;
    let (driver, context) = (environment.device().driver(), doomed.context.live());
    let (to, from) = (buffer.device_pointer().0, pinned.device_pointer().0);
    // SAFETY: both ranges are live.
    let copied = unsafe { driver.copy_async(&context.into(), CopyKind::HostToDevice, to, from, 16, idle.live()) };
    equal("copying from pinned memory", status_of(copied), LOST)
}

/// Graphs are made and destroyed without the device.
fn graphs(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let context = doomed.context.clone();
    let (driver, context) = (environment.device().driver(), context.live());
    let graph = doomed.context.create_graph()?;
    let executable = driver.graph_instantiate(&context.into(), graph.live(), InstantiateFlags::empty(), None);
    let before = driver.graph_create(&context.into());
    doomed.lose()?;
    let after = driver.graph_create(&context.into());
    for (what, made) in [("a graph that was made before", before), ("a new graph", after)] {
        // SAFETY: the graph was created above, and no one else has it.
        equal(what, status_of(made.and_then(|made| unsafe { driver.graph_destroy(&context.into(), made) })), OK)?;
    }
    let flags = executable.clone().and_then(|made| {
        // SAFETY: the executable graph was created above, and is not destroyed yet.
        driver.executable_flags(&context.into(), unsafe { Live::new(made) })
    });
    equal("the flags of an executable graph", status_of(flags), OK)?;
    // SAFETY: the executable graph was created above, and no one else has it.
    let destroyed = executable.and_then(|made| unsafe { driver.executable_destroy(&context.into(), made) });
    equal("an executable graph", status_of(destroyed), OK)
}

fn building_graphs(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let context = doomed.context.clone();
    let (driver, context) = (environment.device().driver(), context.live());
    let mut graph = doomed.context.create_graph()?;
    graph.add((), NodeWork::empty())?;
    let kernel = doomed.module.kernel("add")?;
    let launch = KernelNode { function: kernel.as_raw(), ..raw_digit(environment, DevicePointer(0), 1)? };
    let launch = NodeParameters::Kernel(launch);
    // SAFETY: the node is never launched, and the module outlives its graph.
    let node = unsafe { driver.graph_add_node(&context.into(), graph.live(), &[], &launch) };
    doomed.lose()?;
    // SAFETY: the node was just added, and the rest is as above.
    let set = node
        .and_then(|node| unsafe { driver.graph_node_set_parameters(&context.into(), Live::new(node.node), &launch) });
    equal("setting a kernel node", status_of(set), LOST)?;
    equal("listing nodes", status_of(driver.graph_nodes(&context.into(), graph.live())), OK)?;
    equal("listing edges", status_of(driver.graph_edges(&context.into(), graph.live())), OK)?;
    // SAFETY: an empty node refers to nothing.
    let added = unsafe { driver.graph_add_node(&context.into(), graph.live(), &[], &NodeParameters::Empty) };
    equal("adding an empty node", status_of(added.as_ref().map(|_| ()).map_err(Clone::clone)), OK)?;
    // SAFETY: the node was just added, and the rest is as above.
    let set = added
        .and_then(|node| unsafe { driver.graph_node_set_parameters(&context.into(), Live::new(node.node), &launch) });
    equal("setting an empty node to a kernel", status_of(set), Status::INVALID_VALUE)?;
    let cloned = driver.graph_clone(&context.into(), graph.live());
    // SAFETY: the clone was just made, and no one else has it.
    equal("cloning", status_of(cloned.and_then(|clone| unsafe { driver.graph_destroy(&context.into(), clone) })), OK)?;
    let executable = driver.graph_instantiate(&context.into(), graph.live(), InstantiateFlags::empty(), None);
    let reason = executable.as_ref().err().and_then(|failure| match failure.detail.as_deref() {
        Some(&Detail::Instantiate { result, node }) => Some((result, node)),
        _ => None,
    });
    equal("the reason", reason, Some((GraphInstantiateResult::ERROR, None)))?;
    equal("instantiating", status_of(executable), LOST)
}

fn name_of_a_kernel(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let kernel = doomed.module.kernel("spin")?;
    doomed.lose()?;
    let (driver, context) = (environment.device().driver(), doomed.context.live());
    equal("asking for the name", status_of(driver.function_name(&context.into(), kernel.live())), LOST)
}

fn device_is_still_there(environment: &Environment) -> Verdict {
    let mut doomed = Doomed::new(environment)?;
    let (device, driver) = (environment.device(), environment.device().driver());
    doomed.lose()?;
    equal("counting the devices", status_of(driver.device_count()), Status::SUCCESS)?;
    equal("the device of the context", doomed.context.device(), device)
}
