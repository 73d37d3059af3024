//! Captured conditions, on the host device.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, GraphNodeKind, HostFunction, HostModule, Kernel, LaunchConfig, Module, Status, Stream,
};
use common::{checked_host, host};

/// Adds the second number to the first.
fn add(context: &Context) -> Kernel {
    let add = HostFunction::new("add", &[8, 4], |block, arguments| {
        let (sum, value) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1));
        block.phase(|_, _| sum.set(0, sum.get(0).wrapping_add(value)));
    });
    Module::load_host(context, &HostModule::new().with_function(add)).unwrap().kernel("add").unwrap()
}

fn number(stream: &Stream, value: u32) -> Buffer<u32> {
    stream.upload(&[value]).unwrap()
}

fn read(stream: &Stream, buffer: &Buffer<u32>) -> u32 {
    stream.download(buffer).unwrap()[0]
}

#[test]
fn either_part_runs() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut wanted, mut result) = (number(&stream, 0), number(&stream, 0));
    let mut other = number(&stream, 0);
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            scope.capture_if_else(&wanted, |part| part.fill(&mut result, 1u32), |part| part.fill(&mut other, 2u32))
        })
        .unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &result), read(&stream, &other)), (0, 2));
    stream.fill(&mut wanted, 5u32).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &result), read(&stream, &other)), (1, 2));
}

#[test]
fn the_part_of_the_value_runs_or_none() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut value = number(&stream, 0);
    let mut results: Vec<_> = (0..3).map(|_| number(&stream, 0)).collect();
    let [first, second, third] = &mut results[..] else { unreachable!() };
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            scope.capture_switch(
                &value,
                &mut [
                    &mut |part| part.fill(&mut *first, 1u32),
                    &mut |part| part.fill(&mut *second, 1u32),
                    &mut |part| part.fill(&mut *third, 1u32),
                ],
            )
        })
        .unwrap();
    for (chosen, expected) in [(7, [0, 0, 0]), (1, [0, 1, 0]), (2, [0, 1, 1]), (0, [1, 1, 1])] {
        stream.fill(&mut value, chosen).unwrap();
        executable.launch(&stream).unwrap();
        let found: Vec<_> = results.iter().map(|result| read(&stream, result)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn conditions_nest() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let add = add(&context);
    let config = LaunchConfig::new(1, 1);
    let (mut left, mut rounds, mut odd, mut extra) =
        (number(&stream, 4), number(&stream, 0), number(&stream, 0), number(&stream, 0));
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            scope.capture_while(&mut left, |part, left| {
                // SAFETY: `add` uses one number of its buffer.
                unsafe { part.launch(&add, &config, (&mut rounds, 1u32)) }?;
                part.capture_if(&odd, |inner| {
                    // SAFETY: as above.
                    unsafe { inner.launch(&add, &config, (&mut extra, 10u32)) }
                })?;
                part.fill(&mut odd, 1u32)?;
                // SAFETY: as above.
                unsafe { part.launch(&add, &config, (left.reborrow(), u32::MAX)) }
            })
        })
        .unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &rounds), read(&stream, &extra), read(&stream, &left)), (4, 30, 0));
    stream.fill(&mut left, 2u32).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &rounds), read(&stream, &extra)), (6, 50));
}

#[test]
fn a_part_forks_and_joins_and_comes_after_every_stream_around_it() {
    let context = host();
    let (stream, other, inside) =
        (context.create_stream().unwrap(), context.create_stream().unwrap(), context.create_stream().unwrap());
    let wanted = number(&stream, 1);
    let (mut first, mut second, mut third) = (number(&stream, 0), number(&stream, 0), number(&stream, 0));
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            scope.fork(&other)?;
            other.fill(&mut first, 1u32)?;
            scope.capture_if(&wanted, |part| {
                part.fork(&inside)?;
                part.copy(&mut second, &first)?;
                inside.copy(&mut third, &first)?;
                part.join(&inside)
            })?;
            other.fill(&mut first, 9u32)?;
            scope.join(&other)
        })
        .unwrap();
    for _ in 0..20 {
        executable.launch(&stream).unwrap();
        assert_eq!((read(&stream, &first), read(&stream, &second), read(&stream, &third)), (9, 1, 1));
    }
}

#[test]
fn a_part_that_fails_leaves_the_capture_around_it_good() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (wanted, mut result) = (number(&stream, 1), number(&stream, 0));
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let failed = scope.capture_if(&wanted, |part| part.add_callback(|_, _| {}));
            assert_eq!(failed.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            scope.fill(&mut result, 3u32)
        })
        .unwrap();
    let kinds: Vec<_> = graph.nodes().unwrap().into_iter().map(|node| graph.node_kind(node).unwrap()).collect();
    assert_eq!(kinds, [GraphNodeKind::FILL]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &result), 3);
}

#[test]
fn an_empty_condition_is_refused() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let empty = stream.allocate_zeroed::<u32>(0).unwrap();
    let result = stream.capture(CaptureMode::Global, |scope| scope.capture_if(&empty, |_| Ok(())));
    assert_eq!(result.unwrap_err().status(), Status::INVALID_VALUE);
}

#[test]
fn memory_of_the_capture_that_is_dropped_in_a_part_is_freed_behind_the_part() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (wanted, mut result) = (number(&stream, 1), number(&stream, 1));
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            let memory = scope.allocate_zeroed::<u32>(1)?;
            scope.capture_if(&wanted, |part| {
                let memory = memory;
                part.copy(&mut result, &memory)
            })
        })
        .unwrap();
    for _ in 0..2 {
        stream.fill(&mut result, 1u32).unwrap();
        executable.launch(&stream).unwrap();
        assert_eq!(read(&stream, &result), 0);
    }
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn a_part_does_not_end_the_capture_around_it() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (wanted, mut result) = (number(&stream, 1), number(&stream, 1));
    let executable = stream
        .capture_executable(CaptureMode::Relaxed, |scope| {
            let memory = scope.allocate_zeroed::<u32>(1)?;
            scope.capture_if(&wanted, |part| {
                assert_eq!(stream.end_capture().map(drop).unwrap_err().status(), Status::ILLEGAL_STATE);
                assert_eq!(part.end_capture().map(drop).unwrap_err().status(), Status::ILLEGAL_STATE);
                part.copy(&mut result, &memory)
            })
        })
        .unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(read(&stream, &result), 0);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn memory_of_a_part_is_not_used_beside_it() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (wanted, mut first, mut second) = (number(&stream, 1), number(&stream, 0), number(&stream, 0));
    let executable = stream
        .capture_executable(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            scope.capture_if(&wanted, |part| {
                part.fill(&mut first, 3u32)?;
                // The node comes behind what is captured now, and this would have to come behind the node.
                assert_eq!(other.fill(&mut first, 4u32).unwrap_err().status(), Status::ILLEGAL_STATE);
                assert_eq!(other.copy(&mut second, &first).unwrap_err().status(), Status::ILLEGAL_STATE);
                part.capture_if(&wanted, |inner| {
                    inner.copy(&mut second, &first)?;
                    assert_eq!(other.fill(&mut second, 4u32).unwrap_err().status(), Status::ILLEGAL_STATE);
                    Ok(())
                })
            })?;
            other.copy(&mut second, &first)?;
            other.fill(&mut first, 5u32)?;
            scope.join(&other)
        })
        .unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &first), read(&stream, &second)), (5, 3));
}

#[test]
fn a_loop_with_a_condition_inside_is_captured_alike_each_time() {
    let context = host();
    let [stream, branch] = [(); 2].map(|()| context.create_stream().unwrap());
    let (mut left, condition) = (number(&stream, 0), number(&stream, 0));
    let mut buffers = [(); 3].map(|()| stream.allocate_zeroed::<u32>(4).unwrap());
    let mut captured = || {
        let [first, second, third] = &mut buffers;
        stream.capture(CaptureMode::Global, |scope| {
            scope.capture_while(&mut left, |part, left| {
                part.fork(&branch)?;
                part.capture_if(&condition, |part| part.fill(&mut *first, 1))?;
                part.fill(left.reborrow(), 0)?;
                branch.fill(&mut *second, 1)?;
                branch.copy(&mut *third, &*second)?;
                part.join(&branch)
            })
        })
    };
    let executable = captured().unwrap().instantiate().unwrap();
    for _ in 0..50 {
        executable.update(&captured().unwrap()).unwrap();
    }
}
