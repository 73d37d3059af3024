//! Copies between all kinds of memory, of odd sizes, and in order.

use super::memory_gate::opened_during;
use super::memory_raw::{Raw, address, numbers};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::hal::CopyKind;
use anabranch::{Buffer, Capabilities, Status, Stream};

const SIZES: [usize; 8] = [1, 3, 255, 4096, 65_537, 262_144, 262_145, 5_000_001];

pub(super) const CASES: &[Case] = &[
    Case::new("copy.pageable_round_trip", "M2", pageable_round_trip),
    Case::new("copy.pinned_round_trip", "M1", pinned_round_trip),
    Case::new("copy.device_to_device", "S1", device_to_device),
    Case::new("copy.managed_round_trip", "M1", managed_round_trip)
        .needs(&[Need::Capability(Capabilities::MANAGED_MEMORY)]),
    Case::new("copy.pinned_to_pinned", "M1", pinned_to_pinned),
    Case::new("copy.parts_at_odd_offsets", "S1", parts_at_odd_offsets),
    Case::new("copy.within_one_buffer", "S1", within_one_buffer),
    Case::new("copy.in_order", "S1", in_order),
    Case::new("copy.pinned_upload_returns_at_once", "M1", pinned_upload_returns_at_once),
    Case::new("copy.pinned_download_returns_at_once", "M1", pinned_download_returns_at_once),
    Case::new("copy.device_to_device_returns_at_once", "M1", device_to_device_returns_at_once),
    Case::new("copy.pageable_download_waits", "M2", pageable_download_waits),
    Case::new("copy.pageable_source_may_change", "M2", pageable_source_may_change),
    Case::new("copy.synchronous_calls", "M2", synchronous_calls),
    Case::new("copy.scope_waits_at_its_end", "M1", scope_waits_at_its_end),
    Case::new("copy.unequal_lengths", "X2", unequal_lengths),
];

/// Checks the contents of a buffer. The message remains short if they are wrong.
fn contains(stream: &Stream, what: &str, buffer: &Buffer<u8>, expected: &[u8]) -> Verdict {
    same(what, &stream.download(buffer)?, expected)
}

fn same(what: &str, found: &[u8], expected: &[u8]) -> Verdict {
    equal(&format!("{what}: length"), found.len(), expected.len())?;
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(index) => equal(&format!("{what}: byte {index} of {}", expected.len()), found[index], expected[index]),
    }
}

fn pageable_round_trip(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    SIZES.iter().try_for_each(|&size| contains(&stream, "pageable", &stream.upload(&numbers(size))?, &numbers(size)))
}

fn pinned_round_trip(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    for size in SIZES {
        let mut there = context.allocate_pinned::<u8>(size)?;
        there.as_mut_slice()?.copy_from_slice(&numbers(size));
        let mut device = stream.allocate_zeroed::<u8>(size)?;
        let mut back = context.allocate_pinned::<u8>(size)?;
        stream.copy(&mut device, &there)?;
        stream.copy(&mut back, &device)?;
        same("pinned", back.as_slice()?, &numbers(size))?;
    }
    Ok(stream.synchronize()?)
}

fn device_to_device(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for size in SIZES {
        let source = stream.upload(&numbers(size))?;
        let mut destination = stream.allocate_zeroed::<u8>(size)?;
        stream.copy(&mut destination, &source)?;
        contains(&stream, "device", &destination, &numbers(size))?;
    }
    Ok(())
}

fn managed_round_trip(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for size in [1, 4097, 1_000_003] {
        let mut there = environment.context().allocate_managed::<u8>(size)?;
        there.as_mut_slice()?.copy_from_slice(&numbers(size));
        let mut device = stream.allocate_zeroed::<u8>(size)?;
        stream.copy(&mut device, &there)?;
        let mut back = environment.context().allocate_managed::<u8>(size)?;
        stream.copy(&mut back, &device)?;
        same("managed", back.as_slice()?, &numbers(size))?;
        contains(&stream, "device", &device, &numbers(size))?;
    }
    Ok(())
}

fn pinned_to_pinned(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    for size in [1, 4097, 1_000_003] {
        let (mut from, mut to) = (context.allocate_pinned::<u8>(size)?, context.allocate_pinned::<u8>(size)?);
        from.as_mut_slice()?.copy_from_slice(&numbers(size));
        stream.copy(&mut to, &from)?;
        same("pinned", to.as_slice()?, &numbers(size))?;
    }
    Ok(stream.synchronize()?)
}

fn parts_at_odd_offsets(environment: &Environment) -> Verdict {
    const LENGTH: usize = 10_007;
    let stream = environment.stream()?;
    let data = numbers(LENGTH);
    let source = stream.upload(&data)?;
    for (from, to, count) in [(0, 1, 1), (1, 0, 3), (7, 13, 4096), (LENGTH - 5, 3, 5), (3, LENGTH - 5, 5), (9, 9, 0)] {
        let mut destination = stream.allocate_zeroed::<u8>(LENGTH)?;
        stream.copy(destination.slice_mut(to..to + count)?, source.slice(from..from + count)?)?;
        let mut expected = vec![0; LENGTH];
        expected[to..to + count].copy_from_slice(&data[from..from + count]);
        contains(&stream, &format!("{count} from {from} to {to}"), &destination, &expected)?;
        let mut part = vec![0; count];
        stream.copy_to_host(&mut part, source.slice(from..from + count)?)?;
        same("a part downloaded", &part, &data[from..from + count])?;
        stream.copy_from_host(destination.slice_mut(from..from + count)?, &data[to..to + count])?;
        expected[from..from + count].copy_from_slice(&data[to..to + count]);
        contains(&stream, "a part uploaded", &destination, &expected)?;
    }
    Ok(())
}

fn within_one_buffer(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.upload(&numbers(2000))?;
    let (first, second) = buffer.slice_mut(..)?.split_at(1000)?;
    stream.copy(second, first.as_slice())?;
    contains(&stream, "both halves", &buffer, &[numbers(1000), numbers(1000)].concat())
}

/// Each copy moves the result of the previous copy by one position.
fn in_order(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut expected = vec![0u32; 200];
    expected[0] = 0xfeed;
    let mut buffer = stream.upload(&expected)?;
    for offset in 1..200 {
        let (head, tail) = buffer.slice_mut(..)?.split_at(offset)?;
        stream.copy(tail.slice(..1)?, head.as_slice().slice(offset - 1..)?)?;
    }
    equal("contents", stream.download(&buffer)?, vec![0xfeed; 200])
}

fn pinned_upload_returns_at_once(environment: &Environment) -> Verdict {
    const LENGTH: usize = 4 << 20;
    let stream = environment.stream()?;
    let mut pinned = environment.context().allocate_pinned::<u8>(LENGTH)?;
    pinned.as_mut_slice()?.copy_from_slice(&numbers(LENGTH));
    let mut device = stream.allocate_zeroed::<u8>(LENGTH)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut device, &pinned)?;
    equal("complete while blocked", stream.query()?, false)?;
    equal("idle while blocked", pinned.is_idle()?, false)?;
    gate.open();
    stream.synchronize()?;
    holds("idle afterwards", pinned.is_idle()?)?;
    contains(&stream, "device", &device, &numbers(LENGTH))
}

fn pinned_download_returns_at_once(environment: &Environment) -> Verdict {
    const LENGTH: usize = 4 << 20;
    let stream = environment.stream()?;
    let device = stream.upload(&numbers(LENGTH))?;
    let mut pinned = environment.context().allocate_pinned::<u8>(LENGTH)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut pinned, &device)?;
    equal("complete while blocked", stream.query()?, false)?;
    equal("idle while blocked", pinned.is_idle()?, false)?;
    gate.open();
    same("pinned", pinned.as_slice()?, &numbers(LENGTH))?;
    Ok(stream.synchronize()?)
}

fn device_to_device_returns_at_once(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&numbers(1 << 20))?;
    let mut destination = stream.allocate_zeroed::<u8>(1 << 20)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut destination, &source)?;
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    contains(&stream, "device", &destination, &numbers(1 << 20))
}

fn pageable_download_waits(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.upload(&[1u8; 100])?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 2)?;
    let found = opened_during(&gate, || stream.download(&buffer))?;
    equal("contents", found, vec![2; 100])
}

fn pageable_source_may_change(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    for size in [16usize, 100_000, 3_000_000] {
        let (mut source, mut back) = (numbers(size), vec![0; size]);
        let memory = address("allocating", raw.allocate(size))?;
        let from = source.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the memory has that many bytes, and the call returns when the source may change.
        let there = unsafe { raw.copy_now(CopyKind::HostToDevice, memory.0, from, size) };
        source.fill(0xff);
        let to = back.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: both have that many bytes, and the call returns when the copy is complete.
        let back_again = unsafe { raw.copy_now(CopyKind::DeviceToHost, to, memory.0, size) };
        // SAFETY: the copies are complete, and nothing else has used the memory.
        let freed = unsafe { raw.free(memory) };
        equal("there, back and freed", [there, back_again, freed], [Status::SUCCESS; 3])?;
        same("what was copied", &back, &numbers(size))?;
    }
    Ok(())
}

fn synchronous_calls(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    const SIZE: usize = 50_001;
    let (first, second) = (address("allocating", raw.allocate(SIZE))?, address("allocating", raw.allocate(SIZE))?);
    let (source, mut back) = (numbers(SIZE), vec![0u8; SIZE]);
    let (from, to) = (source.as_ptr().expose_provenance() as u64, back.as_mut_ptr().expose_provenance() as u64);
    // SAFETY: all have that many bytes, the copies follow each other on one stream, and the last is complete on return.
    let statuses = unsafe {
        [
            raw.copy_now(CopyKind::Inferred, first.0, from, SIZE),
            raw.copy_now(CopyKind::DeviceToDevice, second.0, first.0, SIZE),
            raw.copy_now(CopyKind::Inferred, to, second.0, SIZE),
            raw.free(first),
            raw.free(second),
        ]
    };
    equal("statuses", statuses, [Status::SUCCESS; 5])?;
    same("what came back", &back, &source)
}

fn scope_waits_at_its_end(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (source, mut destination) = (numbers(300_000), vec![0u8; 300_000]);
    let mut buffer = stream.allocate_zeroed::<u8>(300_000)?;
    stream.sync_scope(|scope| {
        scope.copy_from_host(&mut buffer, &source)?;
        scope.copy_to_host(&mut destination, &buffer)
    })?;
    same("round trip", &destination, &source)
}

fn unequal_lengths(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.allocate_zeroed::<u32>(10)?;
    let other = stream.allocate_zeroed::<u32>(11)?;
    let message = match stream.copy(&mut buffer, &other) {
        Ok(()) => return Err(Failed("the copy succeeded".to_owned())),
        Err(error) => error.to_string(),
    };
    holds("the message names both lengths", message.contains("10") && message.contains("11"))?;
    refused("copy", stream.copy(&mut buffer, &other), Status::INVALID_VALUE)?;
    refused("upload", stream.copy_from_host(&mut buffer, &[1, 2]), Status::INVALID_VALUE)?;
    refused("download", stream.copy_to_host(&mut [0; 12], &buffer), Status::INVALID_VALUE)
}
