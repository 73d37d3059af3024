//! Calls that capture.

use crate::table::{Call, call};
use crate::world::{Expected, LENGTH, Side, World, mode};
use anabranch::{CaptureScope, DependencyUpdate, Graph, InstantiateFlags, RecaptureChanges, Result, Stream};

/// Fills the thread's own memory in a capture of a stream of its own, launches the graph, and waits for nothing.
fn launch_captured(
    world: &World,
    side: &mut Side<'_, '_>,
    body: impl Fn(&CaptureScope<'_>, &Stream) -> Result<()>,
) -> Result<()> {
    world.captures();
    let (origin, other, mode) =
        (world.context.create_stream()?, world.stream(&mut side.random), mode(&mut side.random));
    let graph = side.write(world, |_, mut own, value| {
        origin.capture(mode, |scope| {
            scope.fill(own.reborrow(), value)?;
            body(scope, other)
        })
    })?;
    graph.instantiate()?.launch(world.stream(&mut side.random))
}

/// A condition that holds, of the thread alone.
fn captured_condition(
    world: &World,
    side: &mut Side<'_, '_>,
    body: impl Fn(&CaptureScope<'_>, &mut anabranch::Buffer<u32>) -> Result<()>,
) -> Result<()> {
    world.captures();
    let origin = world.context.create_stream()?;
    let mut condition = origin.upload(&[1u32])?;
    let graph = origin.capture(mode(&mut side.random), |scope| body(scope, &mut condition))?;
    graph.instantiate()?.launch(world.stream(&mut side.random))
}

/// Launches what was captured, by this thread and perhaps by the other.
fn launch(world: &World, side: &mut Side<'_, '_>, graph: &Graph) -> Result<()> {
    let executable = graph.instantiate()?;
    executable.launch(world.stream(&mut side.random))
}

pub(crate) const CALLS: &[Call] = &[
    call("Stream::begin_capture", |world, side| {
        world.captures();
        let mode = mode(&mut side.random);
        world.stream(&mut side.random).begin_capture(mode)
    })
    .captures(),
    call("Stream::begin_capture_to_graph", |world, side| {
        world.captures();
        let (graph, mode) = (world.context.create_graph()?, mode(&mut side.random));
        world.stream(&mut side.random).begin_capture_to_graph(graph, (), mode).map_err(|(error, _)| error)
    })
    .captures(),
    call("Stream::end_capture", |world, side| {
        let graph = world.stream(&mut side.random).end_capture()?;
        // What it allocates would have to be freed before another launch.
        if side.coin() { launch(world, side, &graph) } else { Ok(()) }
    })
    .captures(),
    call("Stream::capture_scope", |world, side| {
        let mode = mode(&mut side.random);
        world.stream(&mut side.random).capture_scope(mode).map(drop)
    })
    .captures(),
    call("Stream::update_capture_dependencies", |world, side| {
        let stream = world.stream(&mut side.random);
        stream.update_capture_dependencies(&stream.capture_info()?.dependencies)
    })
    .captures(),
    call("Stream::update_capture_dependencies_with_mode", |world, side| {
        let stream = world.stream(&mut side.random);
        let info = stream.capture_info()?;
        let update = if side.coin() { DependencyUpdate::Set } else { DependencyUpdate::Add };
        stream.update_capture_dependencies_with_mode(&info.dependencies, update)
    })
    .captures(),
    call("Stream::capture", |world, side| launch_captured(world, side, |_, _| Ok(()))).captures(),
    call("Stream::capture_into", |world, side| {
        world.captures();
        let (mut graph, mode) = (world.context.create_graph()?, mode(&mut side.random));
        side.write(world, |stream, mut own, value| {
            stream.capture_into(&mut graph, (), mode, |scope| scope.fill(own.reborrow(), value))
        })?;
        launch(world, side, &graph)
    })
    .captures(),
    call("Stream::recapture", |world, side| {
        world.captures();
        let mode = mode(&mut side.random);
        let graph = side.write(world, |stream, mut own, value| {
            let mut graph = stream.capture(mode, |scope| scope.fill(own.reborrow(), 0))?;
            stream.recapture(&mut graph, RecaptureChanges::Any, mode, |scope| scope.fill(own.reborrow(), value))?;
            Ok(graph)
        })?;
        launch(world, side, &graph)
    })
    .captures(),
    call("Stream::capture_executable", |world, side| {
        world.captures();
        let mode = mode(&mut side.random);
        let executable = side.write(world, |stream, mut own, value| {
            stream.capture_executable(mode, |scope| scope.fill(own.reborrow(), value))
        })?;
        executable.launch(world.stream(&mut side.random))
    })
    .captures(),
    call("Stream::capture_executable_with_flags", |world, side| {
        world.captures();
        let mode = mode(&mut side.random);
        let executable = side.copy(world, |stream, own| {
            stream.capture_executable_with_flags(mode, InstantiateFlags::UPLOAD, |scope| scope.copy(own, &world.shared))
        })?;
        executable.launch(world.stream(&mut side.random))
    })
    .captures(),
    call("CaptureScope::fork", |world, side| {
        launch_captured(world, side, |scope, other| {
            scope.fork(other)?;
            other.launch_repeatable_host_func(|| {})?;
            scope.join(other)
        })
    })
    .captures(),
    call("CaptureScope::join", |world, side| {
        launch_captured(world, side, |scope, other| {
            scope.record(&world.events[1])?;
            other.wait_event(&world.events[1])?;
            scope.join(other)
        })
    })
    .captures(),
    call("CaptureScope::mode", |world, side| {
        world.captures();
        let (origin, mode) = (world.context.create_stream()?, mode(&mut side.random));
        origin
            .capture(mode, |scope| {
                assert_eq!(scope.mode(), mode);
                Ok(())
            })
            .map(drop)
    })
    .captures(),
    call("CaptureScope::stream", |world, side| {
        world.captures();
        let origin = world.context.create_stream()?;
        origin
            .capture(mode(&mut side.random), |scope| {
                assert_eq!(scope.stream(), &origin);
                let memory = scope.stream().allocate_zeroed::<u32>(LENGTH)?;
                drop(memory);
                Ok(())
            })
            .map(drop)
    })
    .captures(),
    call("Stream::capture_child", |world, side| {
        world.captures();
        let (origin, mode) = (world.context.create_stream()?, mode(&mut side.random));
        let graph = side.write(world, |_, mut own, value| {
            let child = origin.capture(mode, |scope| scope.fill(own.reborrow(), value))?;
            origin.capture(mode, |scope| scope.capture_child(&child))
        })?;
        launch(world, side, &graph)
    })
    .captures(),
    call("CaptureScope::capture_if", |world, side| {
        captured_condition(world, side, |scope, condition| {
            scope.capture_if(&*condition, |part| part.record(&world.events[1]).map(drop))
        })
    })
    .captures(),
    call("CaptureScope::capture_if_else", |world, side| {
        captured_condition(world, side, |scope, condition| {
            scope.capture_if_else(&*condition, |_| Ok(()), |part| part.launch_repeatable_host_func(|| {}))
        })
    })
    .captures(),
    call("CaptureScope::capture_switch", |world, side| {
        captured_condition(world, side, |scope, condition| {
            scope.capture_switch(
                &*condition,
                &mut [&mut |_| Ok(()), &mut |part| part.launch_repeatable_host_func(|| {})],
            )
        })
    })
    .captures(),
    call("CaptureScope::capture_while", |world, side| {
        captured_condition(world, side, |scope, condition| {
            scope.capture_while(condition, |part, condition| part.fill(condition.reborrow(), 0))
        })
    })
    .captures(),
    // Memory of a capture that goes on is used by the other thread, or memory of the other thread by this capture.
    call("captured reads of shared memory", |world, side| {
        world.captures();
        let origin = world.context.create_stream()?;
        let graph = side.copy(world, |_, own| {
            origin.capture(anabranch::CaptureMode::Relaxed, |scope| scope.copy(own, &world.shared))
        })?;
        side.write_one_of(world, Expected::Anything, |_| launch_in(world, &graph))
    })
    .captures(),
];

fn launch_in(world: &World, graph: &Graph) -> Result<()> {
    graph.instantiate()?.launch(&world.streams[0])
}
