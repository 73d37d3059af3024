//! Addresses and flags of value operations, valid and invalid.

use crate::case::{Case, Need, Verdict, equal, refused};
use crate::environment::Environment;
use crate::gate::quiesce;
use anabranch::{Capabilities, DevicePointer, Result, Status, Stream, WaitCondition, WaitValueFlags, WriteValueFlags};

pub(super) const CASES: &[Case] = &[
    Case::new("value_arguments.unaligned", "S6", unaligned),
    Case::new("value_arguments.unaligned_64", "S6", unaligned_64).needs(WIDE),
    Case::new("value_arguments.unknown_wait_flags", "S6", unknown_wait_flags),
    Case::new("value_arguments.unknown_write_flags", "S6", unknown_write_flags),
    Case::new("value_arguments.write_without_barrier", "S6", write_without_barrier),
    Case::new("value_arguments.wait_with_flush", "S6", wait_with_flush),
    Case::new("value_arguments.null_address", "S6", null_address),
    Case::new("value_arguments.garbage_address", "S6", garbage_address),
    Case::new("value_arguments.pageable_memory", "S6", pageable_memory),
    Case::new("value_arguments.past_the_end", "S6", past_the_end),
    Case::new("value_arguments.plain_device_memory", "S6", plain_device_memory),
    Case::new("value_arguments.pool_memory_is_not_written", "S6", pool_memory_is_not_written).needs(POOLS),
    Case::new("value_arguments.managed_memory_is_not_written", "S6", managed_memory_is_not_written).needs(MANAGED),
    Case::new("value_arguments.managed_memory_is_not_awaited", "S6", managed_memory_is_not_awaited).needs(MANAGED),
    Case::new("value_arguments.signal_of_another_context", "S6", signal_of_another_context),
];

const WIDE: &[Need] = &[Need::Capability(Capabilities::STREAM_VALUE_64)];
const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];
const MANAGED: &[Need] = &[Need::Capability(Capabilities::MANAGED_MEMORY)];

/// Queues a wait whose condition is true for any value in memory except one without zero bits.
fn wait(stream: &Stream, address: DevicePointer, flags: WaitValueFlags) -> Result<()> {
    // SAFETY: the callers' memory lives until they have synchronized, or the driver refuses the address.
    unsafe { stream.wait_value_32(address, 0, flags) }
}

fn write(stream: &Stream, address: DevicePointer, flags: WriteValueFlags) -> Result<()> {
    // SAFETY: the callers' memory lives until they have synchronized, or the driver refuses the address.
    unsafe { stream.write_value_32(address, 1, flags) }
}

/// Checks that both operations refuse the address, and that the stream remains usable.
fn neither(environment: &Environment, address: DevicePointer) -> Verdict {
    let stream = environment.stream()?;
    refused("waiting", wait(&stream, address, WaitValueFlags::GREATER_OR_EQUAL), Status::INVALID_VALUE)?;
    refused("writing", write(&stream, address, WriteValueFlags::empty()), Status::INVALID_VALUE)?;
    stream.synchronize()?;
    Ok(())
}

fn unaligned(environment: &Environment) -> Verdict {
    let memory = environment.context().allocate_pinned::<u32>(4)?;
    for offset in 1..=3 {
        neither(environment, memory.device_pointer().byte_add(offset))?;
    }
    Ok(())
}

fn unaligned_64(environment: &Environment) -> Verdict {
    let (stream, memory) = (environment.stream()?, environment.context().allocate_pinned::<u64>(4)?);
    let address = memory.device_pointer().byte_add(4);
    // SAFETY: the memory lives longer than the stream's work.
    let waited = unsafe { stream.wait_value_64(address, 0, WaitValueFlags::GREATER_OR_EQUAL) };
    refused("waiting", waited, Status::INVALID_VALUE)?;
    // SAFETY: the memory lives longer than the stream's work.
    let written = unsafe { stream.write_value_64(address, 1, WriteValueFlags::empty()) };
    refused("writing", written, Status::INVALID_VALUE)?;
    stream.synchronize()?;
    Ok(())
}

fn unknown_wait_flags(environment: &Environment) -> Verdict {
    let (stream, memory) = (environment.stream()?, environment.context().allocate_pinned::<u32>(1)?);
    for bits in [0x4, 0x40] {
        let waited = wait(&stream, memory.device_pointer(), WaitValueFlags::from_bits_retain(bits));
        refused(&format!("flags {bits:#x}"), waited, Status::INVALID_VALUE)?;
    }
    stream.synchronize()?;
    Ok(())
}

fn unknown_write_flags(environment: &Environment) -> Verdict {
    let (stream, memory) = (environment.stream()?, environment.context().allocate_pinned::<u32>(1)?);
    let written = write(&stream, memory.device_pointer(), WriteValueFlags::from_bits_retain(4));
    refused("writing", written, Status::INVALID_VALUE)?;
    stream.synchronize()?;
    Ok(())
}

fn write_without_barrier(environment: &Environment) -> Verdict {
    let (stream, memory) = (environment.stream()?, environment.context().allocate_pinned::<u32>(1)?);
    let written = write(&stream, memory.device_pointer(), WriteValueFlags::NO_MEMORY_BARRIER);
    refused("writing", written, Status::INVALID_VALUE)?;
    stream.synchronize()?;
    Ok(())
}

fn wait_with_flush(environment: &Environment) -> Verdict {
    let (stream, memory) = (environment.stream()?, environment.context().allocate_pinned::<u32>(1)?);
    let flags = WaitValueFlags::GREATER_OR_EQUAL | WaitValueFlags::FLUSH;
    refused("waiting", wait(&stream, memory.device_pointer(), flags), Status::NOT_SUPPORTED)?;
    stream.synchronize()?;
    Ok(())
}

fn null_address(environment: &Environment) -> Verdict {
    neither(environment, DevicePointer::NULL)
}

fn garbage_address(environment: &Environment) -> Verdict {
    neither(environment, DevicePointer(0x1234_5678_9000))
}

fn pageable_memory(environment: &Environment) -> Verdict {
    let memory = vec![0u32; 1024];
    neither(environment, DevicePointer(memory.as_ptr() as usize as u64))
}

fn past_the_end(environment: &Environment) -> Verdict {
    // So large that the driver does not place it in a mapping that contains other allocations.
    const BYTES: usize = 64 << 20;
    let stream = environment.stream()?;
    let memory = environment.context().allocate_zeroed::<u8>(&stream, BYTES)?;
    stream.synchronize()?;
    let written = write(&stream, memory.device_pointer().byte_add(BYTES), WriteValueFlags::empty());
    refused("writing", written, Status::INVALID_VALUE)
}

fn plain_device_memory(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let memory = environment.context().allocate_zeroed::<u32>(&stream, 1)?;
    wait(&stream, memory.device_pointer(), WaitValueFlags::EQUAL)?;
    write(&stream, memory.device_pointer(), WriteValueFlags::empty())?;
    equal("what was written", stream.download(&memory)?, vec![1])
}

fn pool_memory_is_not_written(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let memory = stream.allocate_zeroed::<u32>(1)?;
    let written = write(&stream, memory.device_pointer(), WriteValueFlags::empty());
    refused("writing", written, Status::INVALID_VALUE)?;
    equal("the memory", stream.download(&memory)?, vec![0])
}

fn managed_memory_is_not_written(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let memory = environment.context().allocate_managed::<u32>(1)?;
    let written = write(&stream, memory.device_pointer(), WriteValueFlags::empty());
    refused("writing", written, Status::INVALID_VALUE)?;
    stream.synchronize()?;
    Ok(())
}

fn managed_memory_is_not_awaited(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let memory = environment.context().allocate_managed::<u32>(1)?;
    for flags in [WaitValueFlags::GREATER_OR_EQUAL, WaitValueFlags::EQUAL, WaitValueFlags::NOR] {
        refused("waiting", wait(&stream, memory.device_pointer(), flags), Status::INVALID_VALUE)?;
    }
    stream.synchronize()?;
    Ok(())
}

/// Signals are in pinned memory that every context can access.
fn signal_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(anabranch::ContextFlags::empty())?;
    let (stream, signal) = (other.create_stream()?, environment.context().create_signal()?);
    quiesce(environment)?;
    stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)?;
    stream.write_signal(&signal, 5)?;
    let complete = stream.query();
    signal.set(1);
    stream.synchronize()?;
    equal("query during the wait", complete?, false)?;
    equal("the signal", signal.get(), 5)
}
