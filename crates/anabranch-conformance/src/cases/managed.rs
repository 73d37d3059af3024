//! Managed memory.

use super::memory_gate::opened_during;
use super::memory_raw::{Raw, address};
use crate::case::{Case, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{self, Live, ManagedRange};
use anabranch::{Capabilities, Discard, LaunchConfig, MemoryAttachment, MemoryLocation, Prefetch, Status};

const MANAGED: &[Need] = &[Need::Capability(Capabilities::MANAGED_MEMORY)];
const CONCURRENT: &[Need] = &[Need::Capability(Capabilities::CONCURRENT_MANAGED_ACCESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("managed.begins_with_zeros", "M1", begins_with_zeros).needs(MANAGED),
    Case::new("managed.host_and_kernel", "M1", host_and_kernel).needs(MANAGED),
    Case::new("managed.host_waits_for_the_kernel", "M1", host_waits_for_the_kernel).needs(CONCURRENT),
    Case::new("managed.prefetch_changes_nothing", "M1", prefetch_changes_nothing).needs(CONCURRENT),
    Case::new("managed.prefetch_batch_changes_nothing", "M1", prefetch_batch_changes_nothing).needs(CONCURRENT),
    Case::new("managed.discarded_memory_is_written_again", "M1", discarded_memory_is_written_again).needs(CONCURRENT),
    Case::new("managed.batches_wait_for_the_writer", "M3", batches_wait_for_the_writer).needs(CONCURRENT),
    Case::new("managed.batches_refused_by_the_driver", "X2", batches_refused_by_the_driver).needs(CONCURRENT),
    Case::new("managed.attached_to_a_stream", "M1", attached_to_a_stream).needs(MANAGED),
    Case::new("managed.attached_to_the_host", "M1", attached_to_the_host).needs(MANAGED),
    Case::new("managed.attached_to_the_legacy_stream", "M1", attached_to_the_legacy_stream).needs(MANAGED),
    Case::new("managed.of_no_bytes", "X2", of_no_bytes).needs(MANAGED),
    Case::new("managed.freed_in_stream_order", "X2", freed_in_stream_order).needs(MANAGED),
    Case::new("managed.none_to_be_had", "X2", none_to_be_had).needs(&[Need::Without(Capabilities::MANAGED_MEMORY)]),
];

fn begins_with_zeros(environment: &Environment) -> Verdict {
    let buffer = environment.context().allocate_managed::<u64>(5001)?;
    holds("on the host", buffer.as_slice()?.iter().all(|&word| word == 0))?;
    equal("on the device", environment.stream()?.download(&buffer)?, vec![0; 5001])
}

fn host_and_kernel(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let (mut source, mut destination) =
        (context.allocate_managed::<f32>(1000)?, context.allocate_managed::<f32>(1000)?);
    let (scale, config) = (environment.kernel("scale")?, LaunchConfig::for_elements(1000));
    for round in 1..4u16 {
        source.as_mut_slice()?.fill(f32::from(round));
        // SAFETY: `scale` reads and writes as many numbers as its last argument says.
        unsafe { stream.launch(&scale, &config, (&mut destination, &source, 0.5f32, 1000u32))? };
        equal("result", destination.as_slice()?.to_vec(), vec![f32::from(round) * 0.5; 1000])?;
    }
    Ok(stream.synchronize()?)
}

fn host_waits_for_the_kernel(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = environment.context().allocate_managed::<u32>(1)?;
    let (store, gate) = (environment.kernel("store")?, Gate::shut(environment, &stream)?);
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut buffer, 8u32))? };
    let found = opened_during(&gate, || buffer.as_slice().map(<[u32]>::to_vec))?;
    equal("what was read", found, vec![8])?;
    Ok(stream.synchronize()?)
}

fn prefetch_changes_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = environment.context().allocate_managed::<u32>(10_001)?;
    buffer.as_mut_slice()?.fill(0xdead_beef);
    for to_host in [false, true, false] {
        stream.prefetch(&buffer, to_host)?;
        equal("contents", stream.download(&buffer)?, vec![0xdead_beef; 10_001])?;
    }
    equal("on the host", buffer.as_slice()?.to_vec(), vec![0xdead_beef; 10_001])
}

/// The places that managed memory can be moved to.
fn places(environment: &Environment) -> [MemoryLocation; 2] {
    [MemoryLocation::Device(environment.context().device().ordinal()), MemoryLocation::Host]
}

fn prefetch_batch_changes_nothing(environment: &Environment) -> Verdict {
    let context = environment.context();
    let (mut one, mut other) = (context.allocate_managed::<u32>(10_001)?, context.allocate_managed::<u32>(10_001)?);
    one.as_mut_slice()?.fill(1);
    other.as_mut_slice()?.fill(2);
    for stream in [environment.stream()?, context.legacy_stream()?] {
        let [device, host] = places(environment);
        for (first, second) in [(device, device), (host, device), (host, host)] {
            let part = other.slice(1..5000)?;
            stream.prefetch_batch([Prefetch::new(&one, first)?, Prefetch::new(part, second)?])?;
            equal("the one", stream.download(&one)?, vec![1; 10_001])?;
            equal("the other", stream.download(&other)?, vec![2; 10_001])?;
        }
    }
    equal("on the host", one.as_slice()?.to_vec(), vec![1; 10_001])
}

fn discarded_memory_is_written_again(environment: &Environment) -> Verdict {
    const LENGTH: usize = 1 << 20;
    let (context, stream) = (environment.context(), environment.stream()?);
    let (mut one, mut other) = (context.allocate_managed::<u32>(LENGTH)?, context.allocate_managed::<u32>(LENGTH)?);
    for (round, place) in places(environment).into_iter().enumerate() {
        one.as_mut_slice()?.fill(1);
        other.as_mut_slice()?.fill(2);
        let tail = other.slice_mut(LENGTH / 2..)?;
        // SAFETY: the elements are written before they are read.
        unsafe { stream.discard_batch([Discard::new(&mut one)?, Discard::new(tail)?.then_prefetch(place)]) }?;
        stream.fill(&mut one, 3)?;
        if round == 0 {
            stream.fill(other.slice_mut(LENGTH / 2..)?, 4)?;
        } else {
            // The slice of the host waits for what was discarded.
            other.write(|elements| elements[LENGTH / 2..].fill(4))?;
        }
        holds("on the device", stream.download(&one)?.iter().all(|&element| element == 3))?;
        let found = other.as_slice()?;
        holds("what was kept", found[..LENGTH / 2].iter().all(|&element| element == 2))?;
        holds("what was discarded", found[LENGTH / 2..].iter().all(|&element| element == 4))?;
    }
    Ok(stream.synchronize()?)
}

fn batches_wait_for_the_writer(environment: &Environment) -> Verdict {
    let (writer, stream) = (environment.stream()?, environment.stream()?);
    let mut buffer = environment.context().allocate_managed::<u32>(1000)?;
    let [device, _] = places(environment);
    let gate = Gate::shut(environment, &writer)?;
    writer.fill(&mut buffer, 5)?;
    stream.prefetch_batch([Prefetch::new(&buffer, device)?])?;
    // SAFETY: the elements are written before they are read.
    unsafe { stream.discard_batch([Discard::new(&mut buffer)?]) }?;
    equal("over before the writer", stream.query()?, false)?;
    writer.fill(&mut buffer, 6)?;
    gate.open();
    equal("contents", writer.download(&buffer)?, vec![6; 1000])
}

/// What the library never asks for: batches in the legacy stream, and memory that is not managed.
fn batches_refused_by_the_driver(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let (managed, device) =
        (address("allocating", raw.allocate_managed(4096))?, address("allocating", raw.allocate(4096))?);
    let batch = |address, legacy: bool| {
        let prefetch = hal::Prefetch { range: ManagedRange { address, bytes: 4096 }, location: MemoryLocation::Host };
        let stream = if legacy { Live::LEGACY } else { raw.stream().live() };
        // SAFETY: the range is allocated, or the driver refuses the call.
        unsafe { raw.driver().prefetch_batch_async(&raw.context().into(), &[prefetch], stream) }
    };
    let made = batch(managed, false);
    let is_missing = made.as_ref().is_err_and(|failure| failure.is_missing_symbol());
    let statuses = [status_of(made), status_of(batch(managed, true)), status_of(batch(device, false))];
    raw.synchronize()?;
    // SAFETY: nothing uses the memory any more.
    let freed = unsafe { [raw.free(managed), raw.free(device)] };
    if !is_missing {
        equal("batches", statuses, [Status::SUCCESS, Status::INVALID_VALUE, Status::INVALID_VALUE])?;
    }
    equal("frees", freed, [Status::SUCCESS; 2])
}

fn attached_to_a_stream(environment: &Environment) -> Verdict {
    let (own, other) = (environment.stream()?, environment.stream()?);
    let mut buffer = environment.context().allocate_managed::<u32>(1000)?;
    own.attach(&mut buffer, MemoryAttachment::Single)?;
    own.fill(&mut buffer, 5)?;
    equal("on the host", buffer.as_slice()?.to_vec(), vec![5; 1000])?;
    buffer.as_mut_slice()?.fill(6);
    equal("in the stream", own.download(&buffer)?, vec![6; 1000])?;
    refused("another stream", other.fill(&mut buffer, 7), Status::ILLEGAL_STATE)?;
    other.attach(&mut buffer, MemoryAttachment::Global)?;
    other.fill(&mut buffer, 8)?;
    equal("in the stream again", own.download(&buffer)?, vec![8; 1000])
}

fn attached_to_the_host(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = environment.context().allocate_managed::<u32>(1000)?;
    stream.attach(&mut buffer, MemoryAttachment::Host)?;
    buffer.as_mut_slice()?.fill(6);
    refused("a stream", stream.fill(&mut buffer, 7), Status::ILLEGAL_STATE)?;
    equal("on the host", buffer.as_slice()?.to_vec(), vec![6; 1000])?;
    stream.attach(&mut buffer, MemoryAttachment::Single)?;
    equal("in the stream", stream.download(&buffer)?, vec![6; 1000])
}

/// The manual says that this is an error, and not which.
fn attached_to_the_legacy_stream(environment: &Environment) -> Verdict {
    let stream = environment.context().legacy_stream()?;
    let mut buffer = environment.context().allocate_managed::<u32>(1000)?;
    stream.attach(&mut buffer, MemoryAttachment::Single)?;
    stream.fill(&mut buffer, 7)?;
    equal("contents", stream.download(&buffer)?, vec![7; 1000])
}

fn of_no_bytes(environment: &Environment) -> Verdict {
    equal("allocating 0 bytes", Raw::new(environment)?.allocate_managed(0), Err(Status::INVALID_VALUE))
}

fn freed_in_stream_order(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let memory = address("allocating", raw.allocate_managed(4096))?;
    // SAFETY: nothing uses the memory; the first call is refused.
    let (ordered, plain) = unsafe { (raw.free_async(memory), raw.free(memory)) };
    equal("in stream order", ordered, Status::NOT_SUPPORTED)?;
    equal("then a plain free", plain, Status::SUCCESS)
}

fn none_to_be_had(environment: &Environment) -> Verdict {
    refused("allocating", environment.context().allocate_managed::<u8>(64), Status::NOT_SUPPORTED)
}
