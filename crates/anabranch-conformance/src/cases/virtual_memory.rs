//! Virtual memory: reserved addresses, and memory that is mapped there.

use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{Buffer, Capabilities, Region, Status, Volume, VolumeMut, flush_deferred_drops};

const VIRTUAL: &[Need] = &[Need::Capability(Capabilities::VIRTUAL_MEMORY)];
const WITHOUT: &[Need] = &[Need::Without(Capabilities::VIRTUAL_MEMORY)];

pub(super) const CASES: &[Case] = &[
    Case::new("virtual_memory.pieces_are_one_buffer", "M9", pieces_are_one_buffer).needs(VIRTUAL),
    Case::new("virtual_memory.one_memory_at_two_addresses", "M9", one_memory_at_two_addresses).needs(VIRTUAL),
    Case::new("virtual_memory.refused", "M9", refused_sizes).needs(VIRTUAL),
    Case::new("virtual_memory.without", "M9", without).needs(WITHOUT),
];

fn pieces_are_one_buffer(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let bytes = context.physical_memory_granularity()?;
    let mut range = context.reserve_addresses(3 * bytes)?;
    // In another order than that of the addresses.
    for offset in [bytes, 0] {
        range.map(offset, &context.create_physical_memory(bytes)?)?;
    }
    // SAFETY: no other buffer has any of it, and it is filled before it is read.
    let mut buffer: Buffer<u8> = unsafe { range.buffer(0, 2 * bytes)? };
    drop(range);
    stream.fill(&mut buffer, 9)?;
    holds("filled", stream.download(&buffer)?.iter().all(|&value| value == 9))?;
    // Other copies across both pieces: from the host, within the device, of a region, into a pinned buffer.
    let numbers: Vec<u8> = (0..2 * bytes).map(|index| (index % 251) as u8).collect();
    stream.copy_from_host(&mut buffer, &numbers)?;
    let mut other = stream.allocate_zeroed::<u8>(2 * bytes)?;
    stream.copy(&mut other, &buffer)?;
    holds("copied", stream.download(&other)? == numbers)?;
    stream.fill(&mut buffer, 1)?;
    stream.copy(&mut buffer, &other)?;
    let mut pinned = environment.context().allocate_pinned::<u8>(2 * bytes)?;
    stream.copy(&mut pinned, &buffer)?;
    stream.synchronize()?;
    holds("copied back", pinned.read(|found| found == numbers)?)?;
    let (rows, width) = (2 * bytes / 1024, 1024);
    let half = Region { source_origin: [0; 3], destination_origin: [512, 0, 0], extent: [512, rows, 1] };
    let mut target = stream.allocate_zeroed::<u8>(2 * bytes)?;
    stream.copy_region(VolumeMut::new(&mut target, width, rows), Volume::new(&buffer, width, rows), &half)?;
    let moved = |(to, from): (&[u8], &[u8])| to[..512].iter().all(|&byte| byte == 0) && to[512..] == from[..512];
    let found = stream.download(&target)?;
    holds("a region", found.chunks(width).zip(numbers.chunks(width)).all(moved))
}

fn one_memory_at_two_addresses(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let bytes = context.physical_memory_granularity()?;
    let (physical, mut range) = (context.create_physical_memory(bytes)?, context.reserve_addresses(2 * bytes)?);
    range.map(0, &physical)?;
    range.map(bytes, &physical)?;
    // SAFETY: the buffers are not used at the same time, and the first is filled before the second is read.
    let (mut one, other) = unsafe { (range.buffer::<u8>(0, bytes)?, range.buffer::<u8>(bytes, 4)?) };
    stream.fill(&mut one, 6)?;
    stream.synchronize()?;
    equal("the other", stream.download(&other)?, vec![6; 4])
}

fn refused_sizes(environment: &Environment) -> Verdict {
    let context = environment.context();
    let bytes = context.physical_memory_granularity()?;
    refused("a size", context.create_physical_memory(bytes + 1), Status::INVALID_VALUE)?;
    refused("no addresses", context.reserve_addresses(0), Status::INVALID_VALUE)?;
    let (physical, mut range) = (context.create_physical_memory(bytes)?, context.reserve_addresses(bytes)?);
    refused("past the end", range.map(bytes, &physical), Status::INVALID_VALUE)?;
    // SAFETY: it is refused.
    refused("not mapped", unsafe { range.buffer::<u8>(0, 1) }, Status::INVALID_VALUE)?;
    range.map(0, &physical)?;
    holds("mapped already", range.map(0, &physical).is_err())?;
    holds("unmapped", range.unmap(0))?;
    flush_deferred_drops();
    range.map(0, &physical)?;
    Ok(())
}

fn without(environment: &Environment) -> Verdict {
    let context = environment.context();
    refused("the granularity", context.physical_memory_granularity(), Status::NOT_SUPPORTED)?;
    refused("memory", context.create_physical_memory(1 << 21), Status::NOT_SUPPORTED)?;
    refused("addresses", context.reserve_addresses(1 << 21), Status::NOT_SUPPORTED)
}
