//! Batches of value operations.

use crate::case::{Case, Failed, Need, Verdict, equal, refused};
use crate::environment::Environment;
use crate::gate::quiesce;
use anabranch::hal::Value;
use anabranch::{
    BarrierScope, Capabilities, CaptureMode, DevicePointer, NodeParameters, PinnedBuffer, Reduction, Result,
    SignalOperation, Status, Stream, ValueOperation, WaitCondition, WaitValueFlags, WriteValueFlags,
};
use std::sync::atomic::{AtomicU32, Ordering};

const REDUCES: &[Need] = &[Need::Capability(Capabilities::ATOMIC_REDUCTION)];
const WIDE: &[Need] = &[Need::Capability(Capabilities::STREAM_VALUE_64)];

pub(super) const CASES: &[Case] = &[
    Case::new("value_batch.in_order", "S6", in_order),
    Case::new("value_batch.of_both_widths", "S6", of_both_widths).needs(WIDE),
    Case::new("value_batch.comes_after_earlier_work", "S6", comes_after_earlier_work),
    Case::new("value_batch.of_signals", "S6", of_signals).needs(WIDE),
    Case::new("value_batch.of_255", "S6", of_255),
    Case::new("value_batch.of_nothing", "S6", of_nothing),
    Case::new("value_batch.refused_as_a_whole", "S6", refused_as_a_whole),
    Case::new("value_batch.is_one_node", "S6", is_one_node),
    Case::new("value_batch.barriers", "S6", barriers),
    Case::new("value_batch.reductions", "S6", reductions).needs(REDUCES),
    Case::new("value_batch.reductions_of_several_streams", "S6", reductions_of_several_streams).needs(REDUCES),
    Case::new("value_batch.reductions_refused", "S6", reductions_refused).needs(REDUCES),
    Case::new("value_batch.reductions_and_barriers_are_one_node", "S6", reductions_are_one_node).needs(REDUCES),
    Case::new("value_batch.flushes_remote_writes_or_refuses", "S6", flushes_or_refuses),
];

/// Numbers that the host and streams access.
fn words(environment: &Environment) -> Result<PinnedBuffer<u32>> {
    quiesce(environment)?;
    let mut words = environment.context().allocate_pinned(4)?;
    words.as_mut_slice()?.fill(0);
    Ok(words)
}

fn at(words: &PinnedBuffer<u32>, index: usize) -> DevicePointer {
    words.device_pointer().byte_add(4 * index)
}

fn atomic(words: &PinnedBuffer<u32>, index: usize) -> &AtomicU32 {
    // SAFETY: the memory is pinned, so the host can access it at its address. It is aligned and lives as long as the borrow.
    // Only atomics and devices access it.
    unsafe { AtomicU32::from_ptr(at(words, index).0 as usize as *mut u32) }
}

fn wait(address: DevicePointer, value: u32) -> ValueOperation {
    ValueOperation::Wait { address, value: Value::U32(value), flags: WaitValueFlags::EQUAL }
}

fn write(address: DevicePointer, value: u32) -> ValueOperation {
    ValueOperation::Write { address, value: Value::U32(value), flags: WriteValueFlags::empty() }
}

fn submit(stream: &Stream, operations: &[ValueOperation]) -> Result<()> {
    // SAFETY: the cases synchronize with the stream before the memory is dropped, or the driver refuses the addresses.
    unsafe { stream.batch_value_operations(operations) }
}

fn in_order(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let operations =
        [write(at(&words, 1), 3), wait(at(&words, 0), 7), write(at(&words, 1), 4), write(at(&words, 2), 5)];
    submit(&stream, &operations)?;
    equal("complete before the wait is over", stream.query()?, false)?;
    equal("written behind the wait", atomic(&words, 2).load(Ordering::SeqCst), 0)?;
    atomic(&words, 0).store(7, Ordering::SeqCst);
    stream.synchronize()?;
    equal("the first word", atomic(&words, 1).load(Ordering::SeqCst), 4)?;
    equal("the second word", atomic(&words, 2).load(Ordering::SeqCst), 5)
}

fn of_both_widths(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let wide = Value::U64(9 << 32 | 8);
    let operations = [
        ValueOperation::Write { address: at(&words, 2), value: wide, flags: WriteValueFlags::empty() },
        ValueOperation::Wait { address: at(&words, 2), value: wide, flags: WaitValueFlags::EQUAL },
        wait(at(&words, 3), 9),
        write(at(&words, 0), 1),
    ];
    submit(&stream, &operations)?;
    stream.synchronize()?;
    let found: Vec<_> = (0..4).map(|index| atomic(&words, index).load(Ordering::SeqCst)).collect();
    equal("the words", found, vec![1, 0, 8, 9])
}

fn comes_after_earlier_work(environment: &Environment) -> Verdict {
    let (words, stream, other) = (words(environment)?, environment.stream()?, environment.stream()?);
    submit(&stream, &[wait(at(&words, 0), 1)])?;
    submit(&stream, &[write(at(&words, 1), 2)])?;
    submit(&other, &[wait(at(&words, 1), 2), write(at(&words, 2), 3)])?;
    equal("complete before the first wait is over", other.query()?, false)?;
    atomic(&words, 0).store(1, Ordering::SeqCst);
    other.synchronize()?;
    stream.synchronize()?;
    equal("the last word", atomic(&words, 2).load(Ordering::SeqCst), 3)
}

fn of_signals(environment: &Environment) -> Verdict {
    quiesce(environment)?;
    let stream = environment.stream()?;
    let [first, second] = [environment.context().create_signal()?, environment.context().create_signal()?];
    stream.batch_signal_operations(&[
        SignalOperation::Wait { signal: &first, condition: WaitCondition::GreaterOrEqual, value: 5 },
        SignalOperation::Write { signal: &second, value: 1 << 40 },
        SignalOperation::Wait { signal: &second, condition: WaitCondition::And, value: 1 << 40 },
        SignalOperation::Write { signal: &first, value: 77 },
    ])?;
    equal("complete before the signal is set", stream.query()?, false)?;
    first.set(6);
    stream.synchronize()?;
    equal("the signals", (first.get(), second.get()), (77, 1 << 40))
}

fn of_255(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let operations: Vec<_> = (1..=256).map(|value| write(at(&words, 0), value)).collect();
    submit(&stream, operations.get(..255).unwrap_or_default())?;
    stream.synchronize()?;
    equal("the last value", atomic(&words, 0).load(Ordering::SeqCst), 255)?;
    refused("256 operations", submit(&stream, &operations), Status::INVALID_VALUE)?;
    stream.synchronize()?;
    equal("after that", atomic(&words, 0).load(Ordering::SeqCst), 255)
}

fn of_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    submit(&stream, &[])?;
    stream.begin_capture(CaptureMode::Relaxed)?;
    submit(&stream, &[])?;
    equal("nodes", stream.end_capture()?.nodes()?.len(), 0)
}

/// One operation that is wrong, after others that are not.
fn refused_as_a_whole(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let unaligned = write(at(&words, 1).byte_add(1), 1);
    let unknown = ValueOperation::Write {
        address: at(&words, 1),
        value: Value::U32(1),
        flags: WriteValueFlags::from_bits_retain(4),
    };
    for (what, wrong) in [("unaligned", unaligned), ("unknown flags", unknown), ("null", write(DevicePointer(0), 1))] {
        let operations = [write(at(&words, 0), 9), wrong];
        refused(what, submit(&stream, &operations), Status::INVALID_VALUE)?;
    }
    stream.synchronize()?;
    equal("the first word", atomic(&words, 0).load(Ordering::SeqCst), 0)
}

fn is_one_node(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let operations = [write(at(&words, 0), 1), wait(at(&words, 0), 1), write(at(&words, 1), 2)];
    stream.begin_capture(CaptureMode::Relaxed)?;
    submit(&stream, &operations)?;
    let graph = stream.end_capture()?;
    let [node] = graph.nodes()?[..] else { return Err(Failed("there is not one node".to_owned())) };
    match graph.node_parameters(node)? {
        NodeParameters::ValueOperations(found) => equal("operations", found, operations.to_vec())?,
        other => return Err(Failed(format!("the node is of kind {}", other.kind()))),
    }
    graph.instantiate()?.launch(&stream)?;
    stream.synchronize()?;
    equal("the second word", atomic(&words, 1).load(Ordering::SeqCst), 2)
}

fn reduce(address: DevicePointer, reduction: Reduction, value: u32) -> ValueOperation {
    ValueOperation::Reduce { address, value: Value::U32(value), reduction }
}

/// Barriers change nothing that can be seen here, wherever they are.
fn barriers(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let [system, device] = [BarrierScope::System, BarrierScope::Device].map(|scope| ValueOperation::Barrier { scope });
    submit(
        &stream,
        &[system, write(at(&words, 0), 1), device, wait(at(&words, 0), 1), system, write(at(&words, 1), 2)],
    )?;
    submit(&stream, &[device])?;
    stream.synchronize()?;
    equal("the second word", atomic(&words, 1).load(Ordering::SeqCst), 2)
}

fn reductions(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    atomic(&words, 0).store(0b1100, Ordering::SeqCst);
    atomic(&words, 1).store(0b1100, Ordering::SeqCst);
    let wide =
        ValueOperation::Reduce { address: at(&words, 2), value: Value::U64(5 << 32 | 3), reduction: Reduction::Add };
    submit(
        &stream,
        &[reduce(at(&words, 0), Reduction::Or, 0b1010), reduce(at(&words, 1), Reduction::And, 0b1010), wide, wide],
    )?;
    stream.synchronize()?;
    let found: Vec<_> = (0..4).map(|index| atomic(&words, index).load(Ordering::SeqCst)).collect();
    equal("the words", found, vec![0b1110, 0b1000, 6, 10])?;
    submit(&stream, &[reduce(at(&words, 0), Reduction::Add, u32::MAX)])?;
    stream.synchronize()?;
    equal("a sum wraps around", atomic(&words, 0).load(Ordering::SeqCst), 0b1101)
}

fn reductions_of_several_streams(environment: &Environment) -> Verdict {
    let words = words(environment)?;
    let streams = [environment.stream()?, environment.stream()?, environment.stream()?];
    let gate = wait(at(&words, 1), 1);
    for stream in &streams {
        submit(stream, &[gate])?;
        submit(stream, &[reduce(at(&words, 0), Reduction::Add, 1); 100])?;
    }
    atomic(&words, 1).store(1, Ordering::SeqCst);
    for stream in &streams {
        stream.synchronize()?;
    }
    equal("the sum", atomic(&words, 0).load(Ordering::SeqCst), 300)
}

fn reductions_refused(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    for (what, address) in [("unaligned", at(&words, 0).byte_add(2)), ("null", DevicePointer(0))] {
        let operations = [write(at(&words, 1), 1), reduce(address, Reduction::Add, 1)];
        refused(what, submit(&stream, &operations), Status::INVALID_VALUE)?;
    }
    stream.synchronize()?;
    equal("the second word", atomic(&words, 1).load(Ordering::SeqCst), 0)
}

fn reductions_are_one_node(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let operations = [
        reduce(at(&words, 0), Reduction::Add, 2),
        ValueOperation::Barrier { scope: BarrierScope::System },
        reduce(at(&words, 0), Reduction::Or, 8),
    ];
    stream.begin_capture(CaptureMode::Relaxed)?;
    submit(&stream, &operations)?;
    let graph = stream.end_capture()?;
    let [node] = graph.nodes()?[..] else { return Err(Failed("there is not one node".to_owned())) };
    match graph.node_parameters(node)? {
        NodeParameters::ValueOperations(found) => equal("operations", found, operations.to_vec())?,
        other => return Err(Failed(format!("the node is of kind {}", other.kind()))),
    }
    let executable = graph.instantiate()?;
    for _ in 0..2 {
        executable.launch(&stream)?;
    }
    stream.synchronize()?;
    // Of 0, 2 and 10; of 10, 12 and 12.
    equal("the word", atomic(&words, 0).load(Ordering::SeqCst), 12)
}

fn flushes_or_refuses(environment: &Environment) -> Verdict {
    let (words, stream) = (words(environment)?, environment.stream()?);
    let submitted = submit(&stream, &[write(at(&words, 0), 1), ValueOperation::FlushRemoteWrites]);
    let can = environment.device().capabilities().contains(Capabilities::FLUSH_REMOTE_WRITES);
    if !can {
        refused("a flush", submitted, Status::NOT_SUPPORTED)?;
    } else {
        submitted?;
    }
    stream.synchronize()?;
    equal("the word", atomic(&words, 0).load(Ordering::SeqCst), u32::from(can))
}
