//! Batches of value operations.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::hal::Value;
use anabranch::{
    CaptureMode, Context, ContextFlags, Instance, Signal, SignalOperation, Status, ValueOperation, WaitCondition,
    WriteValueFlags,
};

fn context() -> Context {
    Instance::new().unwrap().device("host").unwrap().create_context(ContextFlags::empty()).unwrap()
}

fn wait(signal: &Signal, value: u64) -> SignalOperation<'_> {
    SignalOperation::Wait { signal, condition: WaitCondition::GreaterOrEqual, value }
}

fn write(signal: &Signal, value: u64) -> SignalOperation<'_> {
    SignalOperation::Write { signal, value }
}

#[test]
fn a_batch_runs_in_its_order_and_before_later_work() {
    let context = context();
    let (stream, first, second) =
        (context.create_stream().unwrap(), context.create_signal().unwrap(), context.create_signal().unwrap());
    stream.batch_signal_operations(&[wait(&first, 1), write(&second, 2), wait(&second, 2), write(&first, 3)]).unwrap();
    stream.write_signal(&second, 4).unwrap();
    assert!(!stream.query().unwrap());
    assert_eq!(second.get(), 0);
    first.set(1);
    stream.synchronize().unwrap();
    assert_eq!((first.get(), second.get()), (3, 4));
}

#[test]
fn a_batch_is_refused_as_a_whole() {
    let here = context();
    let (stream, signal) = (here.create_stream().unwrap(), here.create_signal().unwrap());
    let refused = stream.batch_signal_operations(&[write(&signal, 1); 256]).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    assert!(refused.to_string().contains("255"), "{refused}");
    let unaligned = here.allocate_pinned::<u64>(2).unwrap();
    let write = |offset: usize| ValueOperation::Write {
        address: unaligned.device_pointer().byte_add(offset),
        value: Value::U32(1),
        flags: WriteValueFlags::empty(),
    };
    // SAFETY: the memory stays until the stream was synchronized.
    let refused = unsafe { stream.batch_value_operations(&[write(0), write(2)]) }.unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    stream.synchronize().unwrap();
    assert_eq!((signal.get(), unaligned.as_slice().unwrap()), (0, &[0, 0][..]));
}

#[test]
fn the_most_operations_and_none() {
    let context = context();
    let (stream, signal) = (context.create_stream().unwrap(), context.create_signal().unwrap());
    let operations: Vec<_> = (1..=255).map(|value| write(&signal, value)).collect();
    stream.batch_signal_operations(&operations).unwrap();
    stream.batch_signal_operations(&[]).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(signal.get(), 255);
}

#[test]
fn a_graph_keeps_the_signals_of_a_captured_batch() {
    let context = context();
    let (stream, kept) = (context.create_stream().unwrap(), context.create_signal().unwrap());
    let dropped = context.create_signal().unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.batch_signal_operations(&[write(&dropped, 5), wait(&dropped, 5), write(&kept, 6), wait(&kept, 6)])
        })
        .unwrap();
    drop(dropped);
    assert_eq!(graph.nodes().unwrap().len(), 1);
    let executable = graph.instantiate().unwrap();
    drop(graph);
    for _ in 0..2 {
        kept.set(0);
        executable.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(kept.get(), 6);
    }
}

#[test]
fn memory_of_a_pending_batch_outlives_its_signals() {
    let context = context();
    let (stream, gate) = (context.create_stream().unwrap(), context.create_signal().unwrap());
    let dropped = context.create_signal().unwrap();
    stream.batch_signal_operations(&[wait(&gate, 1), write(&dropped, 1), wait(&dropped, 1)]).unwrap();
    drop(dropped);
    // Would be at the same address if the memory had been freed.
    let fresh: Vec<_> = (0..8).map(|_| context.create_signal().unwrap()).collect();
    gate.set(1);
    stream.synchronize().unwrap();
    assert!(fresh.iter().all(|signal| signal.get() == 0));
}
