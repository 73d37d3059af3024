//! Memory that is allocated and freed in captures.

use super::capture_tools::{Bench, MODES, capture, is_made_of, run, shape};
use crate::case::{Case, Need, Verdict, equal, refused, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::GraphNodeKind;
use anabranch::{Capabilities, CaptureMode, InstantiateFlags, LaunchConfig, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.allocation_and_free_are_nodes", "M4", allocation_and_free_are_nodes).needs(POOLS),
    Case::new("capture.allocation_is_used_at_every_launch", "M4", allocation_is_used_at_every_launch).needs(POOLS),
    Case::new("capture.allocation_of_nothing", "M4", allocation_of_nothing).needs(POOLS),
    Case::new("capture.allocation_in_a_fork", "M4", allocation_in_a_fork).needs(POOLS),
    Case::new("capture.allocation_stays", "M4", allocation_stays).needs(POOLS),
    Case::new("capture.allocation_stays_and_is_freed_at_the_launch", "M4", stays_and_is_freed_at_the_launch)
        .needs(POOLS),
    Case::new("capture.allocation_has_one_executable", "M4", allocation_has_one_executable).needs(POOLS),
    Case::new("capture.allocation_is_not_used_outside", "M4", allocation_is_not_used_outside).needs(POOLS),
    Case::new("capture.free_of_memory_of_outside", "M4", free_of_memory_of_outside).needs(POOLS),
    Case::new("capture.free_of_nothing", "M4", free_of_nothing).needs(POOLS),
];

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

fn allocation_and_free_are_nodes(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for mode in MODES {
        let graph = stream.capture(mode, |scope| {
            let buffer = scope.allocate_zeroed::<u32>(1024)?;
            drop(buffer);
            Ok(())
        })?;
        is_made_of(&graph, &[GraphNodeKind::ALLOCATE, GraphNodeKind::FILL, GraphNodeKind::FREE])?;
        equal("nodes, roots and edges", shape(&graph)?, [3, 1, 2])?;
    }
    Ok(())
}

fn allocation_is_used_at_every_launch(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let (source, mut result) = (stream.upload(&[7u32])?, stream.allocate_zeroed::<u32>(1)?);
    let graph = stream.capture(CaptureMode::Global, |scope| {
        let mut buffer = scope.allocate_zeroed::<u32>(1)?;
        scope.copy(&mut buffer, &source)?;
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { scope.launch(&add, &LaunchConfig::new(1, 1), (&mut buffer, 10u32, 5u32)) }?;
        scope.copy(&mut result, &buffer)
    })?;
    let executable = graph.instantiate()?;
    for _ in 0..3 {
        stream.fill(&mut result, 0u32)?;
        executable.launch(&stream)?;
        equal("the result", stream.download(&result)?, vec![75])?;
    }
    Ok(())
}

fn allocation_of_nothing(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    let buffer = bench.origin.allocate_zeroed::<u32>(0)?;
    drop(buffer);
    let graph = bench.ends_well("allocating zero bytes")?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])
}

/// The origin uses and drops a buffer while a fork uses it.
fn allocation_in_a_fork(environment: &Environment) -> Verdict {
    let (stream, fork) = (environment.stream()?, environment.stream()?);
    let mut result = stream.allocate_zeroed::<u32>(4)?;
    let graph = stream.capture(CaptureMode::Global, |scope| {
        scope.fork(&fork)?;
        let mut buffer = scope.allocate_zeroed::<u32>(4)?;
        fork.fill(&mut buffer, 9u32)?;
        fork.copy(&mut result, &buffer)?;
        drop(buffer);
        scope.join(&fork)
    })?;
    use GraphNodeKind as Kind;
    is_made_of(&graph, &[Kind::ALLOCATE, Kind::FILL, Kind::FILL, Kind::COPY, Kind::FREE])?;
    let executable = graph.instantiate()?;
    for _ in 0..2 {
        executable.launch(&stream)?;
    }
    equal("the result", stream.download(&result)?, vec![9; 4])
}

/// Memory that is not freed remains allocated, and the graph cannot be launched again.
fn allocation_stays(environment: &Environment) -> Verdict {
    let (stream, driver) = (environment.stream()?, environment.device().driver());
    let (context, mut address) = (environment.context().live(), None);
    let graph = capture(&stream, CaptureMode::Relaxed, || {
        let allocated = driver.allocate_async(&context.into(), 4096, None, stream.live());
        address = allocated.ok();
        Ok(())
    })?;
    is_made_of(&graph, &[GraphNodeKind::ALLOCATE])?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    refused("launching again", executable.launch(&stream), Status::INVALID_VALUE)?;
    for _ in 0..2 {
        let address = address.unwrap_or(anabranch::DevicePointer::NULL);
        // SAFETY: the graph has allocated the memory, and nothing uses it.
        let freed = unsafe { driver.free_async(&context.into(), address, stream.live()) };
        equal("freeing", status_of(freed), Status::SUCCESS)?;
        executable.launch(&stream)?;
    }
    let address = address.unwrap_or(anabranch::DevicePointer::NULL);
    // SAFETY: the graph has allocated the memory, and nothing uses it.
    let freed = unsafe { driver.free_async(&context.into(), address, stream.live()) };
    equal("freeing", status_of(freed), Status::SUCCESS)?;
    stream.synchronize()?;
    Ok(())
}

fn stays_and_is_freed_at_the_launch(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut kept = None;
    let graph = stream.capture(CaptureMode::Global, |scope| {
        kept = Some(scope.allocate_zeroed::<u32>(16)?);
        Ok(())
    })?;
    is_made_of(&graph, &[GraphNodeKind::ALLOCATE, GraphNodeKind::FILL])?;
    let executable = graph.instantiate_with_flags(InstantiateFlags::AUTO_FREE_ON_LAUNCH)?;
    for _ in 0..3 {
        executable.launch(&stream)?;
    }
    stream.synchronize()?;
    Ok(())
}

fn allocation_has_one_executable(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let graph = stream.capture(CaptureMode::Global, |scope| scope.allocate_zeroed::<u32>(16).map(drop))?;
    let executable = graph.instantiate()?;
    refused("instantiating again", graph.instantiate(), Status::NOT_SUPPORTED)?;
    refused("cloning", graph.try_clone(), Status::NOT_SUPPORTED)?;
    drop(executable);
    run(&graph, &stream)
}

fn allocation_is_not_used_outside(environment: &Environment) -> Verdict {
    let (stream, mut kept) = (environment.stream()?, None);
    let graph = stream.capture(CaptureMode::Global, |scope| {
        kept = Some(scope.allocate_zeroed::<u32>(16)?);
        Ok(())
    })?;
    let Some(mut buffer) = kept else { return Ok(()) };
    refused("filling it", stream.fill(&mut buffer, 1u32), Status::INVALID_VALUE)?;
    refused("reading it", stream.download(&buffer), Status::INVALID_VALUE)?;
    let other = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut buffer, 1u32));
    refused("filling it in another capture", other, Status::INVALID_VALUE)?;
    drop(graph);
    Ok(())
}

fn free_of_memory_of_outside(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let allocated = driver.allocate_async(&context.into(), 64, None, bench.other.live());
    let address = allocated.map_err(|failure| crate::case::Failed(format!("allocating: {failure:?}")))?;
    bench.begin(CaptureMode::Relaxed)?;
    // SAFETY: the driver refuses it.
    let freed = status_of(unsafe { driver.free_async(&context.into(), address, bench.origin.live()) });
    let ended = bench.ends_well("freeing memory from outside");
    // SAFETY: the memory is still allocated, and nothing uses it.
    let freed_outside = status_of(unsafe { driver.free_async(&context.into(), address, bench.other.live()) });
    equal("freeing in the capture", freed, Status::INVALID_VALUE)?;
    equal("freeing outside", freed_outside, Status::SUCCESS)?;
    equal("nodes, roots and edges", shape(&ended?)?, [1, 1, 0])
}

fn free_of_nothing(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        let (driver, context) = (environment.device().driver(), environment.context().live());
        // SAFETY: freeing the null address does nothing.
        let freed = unsafe { driver.free_async(&context.into(), anabranch::DevicePointer::NULL, bench.origin.live()) };
        equal("freeing", status_of(freed), Status::SUCCESS)?;
        let graph = bench.ends_well("freeing nothing")?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
        run(&graph, &bench.origin)?;
    }
    Ok(())
}
