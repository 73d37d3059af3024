//! Memory pools: attributes, retained memory, and memory returned to the device.

use super::memory_raw::{Raw, address};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{CopyKind, DeviceOrdinal};
use anabranch::{
    Capabilities, ContextFlags, DevicePointer, MemoryPool, MemoryPoolAttribute, MemoryPoolOptions, Status,
};

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];
const LARGE: usize = 8 << 20;
const SMALL: usize = 4 << 10;

pub(super) const CASES: &[Case] = &[
    Case::new("pool.new_is_empty", "M3", new_is_empty).needs(POOLS),
    Case::new("pool.counts_at_the_call", "M3", counts_at_the_call).needs(POOLS),
    Case::new("pool.keeps_nothing_by_default", "M3", keeps_nothing_by_default).needs(POOLS),
    Case::new("pool.keeps_below_its_threshold", "M3", keeps_below_its_threshold).needs(POOLS),
    Case::new("pool.keeps_memory_after_a_failed_allocation", "M3", keeps_memory_after_a_failed_allocation).needs(POOLS),
    Case::new("pool.gives_back_to_the_context_of_the_free", "M3", gives_back_to_the_context_of_the_free).needs(POOLS),
    Case::new("pool.trim_with_a_pending_free", "M3", trim_with_a_pending_free).needs(POOLS),
    Case::new("pool.trim_leaves_what_is_in_use", "M3", trim_leaves_what_is_in_use).needs(POOLS),
    Case::new("pool.threshold_reads_back", "M3", threshold_reads_back).needs(POOLS),
    Case::new("pool.attributes_that_cannot_be_set", "X2", attributes_that_cannot_be_set).needs(POOLS),
    Case::new("pool.high_water_marks_are_reset", "M3", high_water_marks_are_reset).needs(POOLS),
    Case::new("pool.default_pool_cannot_be_destroyed", "X2", default_pool_cannot_be_destroyed).needs(POOLS),
    Case::new("pool.dropped_with_a_buffer_in_use", "M3", dropped_with_a_buffer_in_use).needs(POOLS),
    Case::new("pool.limit_is_kept", "M3", limit_is_kept).needs(POOLS),
    Case::new("pool.limit_is_rounded_up", "M3", limit_is_rounded_up).needs(POOLS),
    Case::new("pool.limit_beyond_the_address_space", "M3", limit_beyond_the_address_space).needs(POOLS),
    Case::new("pool.allocation_of_nothing", "M3", allocation_of_nothing).needs(POOLS),
    Case::new("pool.of_a_missing_device", "X2", of_a_missing_device).needs(POOLS),
    Case::new("pool.default_pool_serves_allocations", "M3", default_pool_serves_allocations).needs(POOLS),
    Case::new("pool.counts_the_bytes_asked_for", "M3", counts_the_bytes_asked_for).needs(POOLS),
    Case::new("pool.reserves_in_units", "M3", reserves_in_units).needs(POOLS),
    Case::new("pool.trim_keeps_at_least_as_much", "M3", trim_keeps_at_least_as_much).needs(POOLS),
    Case::new("pool.access_of_its_own_device", "X2", access_of_its_own_device).needs(POOLS),
    Case::new("pool.memory_ends_after_the_bytes_asked_for", "M1", memory_ends_after_the_bytes_asked_for).needs(POOLS),
];

fn new_pool(environment: &Environment) -> Result<MemoryPool, Failed> {
    Ok(environment.device().create_memory_pool(&MemoryPoolOptions::default())?)
}

/// The bytes used, the most bytes used, the bytes reserved, and the most bytes reserved.
fn state(pool: &MemoryPool) -> Result<[u64; 4], Failed> {
    Ok([pool.used_bytes()?, pool.used_bytes_high()?, pool.reserved_bytes()?, pool.reserved_bytes_high()?])
}

fn new_is_empty(environment: &Environment) -> Verdict {
    let pool = new_pool(environment)?;
    equal("used and reserved", state(&pool)?, [0; 4])?;
    equal("threshold", pool.release_threshold()?, 0)
}

fn counts_at_the_call(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    let large = stream.allocate_zeroed_from::<u8>(&pool, LARGE)?;
    let [used, used_high, reserved, _] = state(&pool)?;
    equal("used after the first", used, LARGE as u64)?;
    equal("the most used after the first", used_high, LARGE as u64)?;
    holds("no more is used than reserved", used <= reserved)?;
    let small = stream.allocate_zeroed_from::<u8>(&pool, SMALL)?;
    let both = (LARGE + SMALL) as u64;
    equal("used after the second", pool.used_bytes()?, both)?;
    drop(large);
    equal("used after one free", pool.used_bytes()?, SMALL as u64)?;
    drop(small);
    equal("used after both", pool.used_bytes()?, 0)?;
    equal("the most used", pool.used_bytes_high()?, both)?;
    Ok(stream.synchronize()?)
}

fn keeps_nothing_by_default(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    drop(stream.allocate_zeroed_from::<u8>(&pool, LARGE)?);
    stream.synchronize()?;
    let [used, _, reserved, reserved_high] = state(&pool)?;
    equal("used and reserved after synchronizing", [used, reserved], [0; 2])?;
    holds("the most reserved is remembered", reserved_high >= LARGE as u64)
}

fn keeps_below_its_threshold(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    pool.set_release_threshold(u64::MAX)?;
    let buffer = stream.allocate_zeroed_from::<u8>(&pool, LARGE)?;
    let before = pool.reserved_bytes()?;
    drop(buffer);
    stream.synchronize()?;
    holds("something was reserved", before >= LARGE as u64)?;
    equal("reserved after synchronizing", pool.reserved_bytes()?, before)?;
    pool.trim(0)?;
    equal("reserved after trimming", pool.reserved_bytes()?, 0)
}

/// An allocation that no device can serve makes no pool give memory back; and the pool that it was to come from keeps what is
/// free then until it is trimmed.
fn keeps_memory_after_a_failed_allocation(environment: &Environment) -> Verdict {
    let (stream, pool, context) = (environment.stream()?, new_pool(environment)?, environment.context());
    drop(stream.allocate_zeroed_from::<u8>(&pool, LARGE)?);
    let before = pool.reserved_bytes()?;
    let driver = environment.device().driver();
    let plain = driver.allocate(&context.live().into(), 1 << 50);
    equal("a plain allocation", status_of(plain), Status::OUT_OF_MEMORY)?;
    equal("reserved after it", pool.reserved_bytes()?, before)?;
    let queued = driver.allocate_async(&context.live().into(), 1 << 50, Some(pool.live()), stream.live());
    equal("an allocation from the pool", status_of(queued), Status::OUT_OF_MEMORY)?;
    context.synchronize()?;
    equal("reserved after synchronizing", pool.reserved_bytes()?, before)?;
    pool.trim(0)?;
    equal("reserved after trimming", pool.reserved_bytes()?, 0)
}

fn gives_back_to_the_context_of_the_free(environment: &Environment) -> Verdict {
    let (context, pool) = (environment.device().create_context(ContextFlags::empty())?, new_pool(environment)?);
    let stream = context.create_stream()?;
    let buffer = stream.allocate_zeroed_from::<u8>(&pool, LARGE)?;
    let before = pool.reserved_bytes()?;
    drop(buffer);
    environment.context().synchronize()?;
    equal("reserved after synchronizing with another context", pool.reserved_bytes()?, before)?;
    context.synchronize()?;
    equal("reserved after synchronizing", pool.reserved_bytes()?, 0)
}

fn trim_with_a_pending_free(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    pool.set_release_threshold(u64::MAX)?;
    let mut buffer = stream.allocate_zeroed_from::<u8>(&pool, LARGE)?;
    stream.synchronize()?;
    let before = pool.reserved_bytes()?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 1)?;
    drop(buffer);
    pool.trim(0)?;
    let [used, _, reserved, _] = state(&pool)?;
    gate.open();
    stream.synchronize()?;
    equal("used while the free is pending", used, 0)?;
    equal("reserved while the free is pending", reserved, before)?;
    equal("reserved after synchronizing", pool.reserved_bytes()?, before)?;
    pool.trim(0)?;
    equal("reserved after trimming", pool.reserved_bytes()?, 0)
}

fn trim_leaves_what_is_in_use(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    let mut buffer = stream.allocate_zeroed_from::<u32>(&pool, 1000)?;
    stream.fill(&mut buffer, 77)?;
    stream.synchronize()?;
    pool.trim(0)?;
    holds("what is used stays reserved", pool.reserved_bytes()? >= pool.used_bytes()?)?;
    holds("something is used", pool.used_bytes()? >= 4000)?;
    equal("contents", stream.download(&buffer)?, vec![77; 1000])
}

fn threshold_reads_back(environment: &Environment) -> Verdict {
    let pool = new_pool(environment)?;
    for bytes in [1 << 20, u64::MAX, 1, 0] {
        pool.set_release_threshold(bytes)?;
        equal("threshold", pool.release_threshold()?, bytes)?;
    }
    Ok(())
}

fn attributes_that_cannot_be_set(environment: &Environment) -> Verdict {
    let pool = new_pool(environment)?;
    let set = |attribute, value| pool.set_attribute(attribute, value);
    refused("used", set(MemoryPoolAttribute::UsedCurrent, 0), Status::INVALID_VALUE)?;
    refused("reserved", set(MemoryPoolAttribute::ReservedCurrent, 0), Status::INVALID_VALUE)?;
    refused("the most used, to 5", set(MemoryPoolAttribute::UsedHigh, 5), Status::INVALID_VALUE)?;
    Ok(set(MemoryPoolAttribute::UsedHigh, 0)?)
}

fn high_water_marks_are_reset(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    let first = stream.allocate_zeroed_from::<u8>(&pool, SMALL)?;
    drop(stream.allocate_zeroed_from::<u8>(&pool, LARGE)?);
    holds("the most used", pool.used_bytes_high()? >= (LARGE + SMALL) as u64)?;
    pool.reset_high_watermarks()?;
    holds("the most used, after the reset", pool.used_bytes_high()? <= SMALL as u64)?;
    holds("the most reserved, after the reset", pool.reserved_bytes_high()? <= pool.reserved_bytes()?)?;
    let second = stream.allocate_zeroed_from::<u8>(&pool, SMALL)?;
    equal("the most used since", pool.used_bytes_high()?, 2 * SMALL as u64)?;
    drop((first, second));
    Ok(stream.synchronize()?)
}

fn default_pool_cannot_be_destroyed(environment: &Environment) -> Verdict {
    let pool = environment.device().default_memory_pool()?;
    // SAFETY: the driver refuses it.
    let status = status_of(unsafe { environment.device().driver().memory_pool_destroy(pool.as_raw()) });
    equal("destroying it", status, Status::INVALID_VALUE)?;
    let stream = environment.stream()?;
    let buffer = stream.allocate_zeroed_from::<u8>(&pool, 10)?;
    equal("it still works", stream.download(&buffer)?, vec![0; 10])
}

fn dropped_with_a_buffer_in_use(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    let mut buffer = stream.allocate_zeroed_from::<u16>(&pool, 5001)?;
    drop(pool);
    stream.fill(&mut buffer, 0x1234)?;
    equal("contents", stream.download(&buffer)?, vec![0x1234; 5001])?;
    drop(buffer);
    Ok(stream.synchronize()?)
}

fn limit_is_kept(environment: &Environment) -> Verdict {
    const LIMIT: usize = 32 << 20;
    let stream = environment.stream()?;
    let pool =
        environment.device().create_memory_pool(&MemoryPoolOptions { max_bytes: LIMIT as u64, interprocess: false })?;
    refused("twice the limit", stream.allocate_zeroed_from::<u8>(&pool, 2 * LIMIT), Status::OUT_OF_MEMORY)?;
    let all = stream.allocate_zeroed_from::<u8>(&pool, LIMIT)?;
    refused("more than the rest", stream.allocate_zeroed_from::<u8>(&pool, 1 << 20), Status::OUT_OF_MEMORY)?;
    drop(all);
    stream.synchronize()?;
    let again = stream.allocate_zeroed_from::<u8>(&pool, 1 << 20)?;
    equal("afterwards", stream.download(again.slice(..4)?)?, vec![0; 4])?;
    drop(again);
    Ok(stream.synchronize()?)
}

/// What an H100 reserves at once.
const UNIT: u64 = 32 << 20;

/// Allocates from a pool.
fn allocate(raw: &Raw, pool: &MemoryPool, bytes: usize) -> Result<DevicePointer, Failed> {
    let context = raw.context().into();
    let address = raw.driver().allocate_async(&context, bytes, Some(pool.live()), raw.stream().live());
    address.map_err(|failure| Failed(format!("allocating {bytes} bytes: {failure}")))
}

fn counts_the_bytes_asked_for(environment: &Environment) -> Verdict {
    let (raw, pool) = (Raw::new(environment)?, new_pool(environment)?);
    let mut expected = 0;
    for bytes in [1, 100, 1000, 4097, LARGE + 1] {
        let address = allocate(&raw, &pool, bytes)?;
        equal(&format!("used with {bytes} bytes"), pool.used_bytes()?, bytes as u64)?;
        expected = bytes as u64;
        // SAFETY: nothing uses the memory.
        equal("the free", unsafe { raw.free_async(address) }, Status::SUCCESS)?;
    }
    equal("the most used", pool.used_bytes_high()?, expected)?;
    raw.synchronize()
}

fn reserves_in_units(environment: &Environment) -> Verdict {
    let (raw, pool) = (Raw::new(environment)?, new_pool(environment)?);
    let small = allocate(&raw, &pool, 1)?;
    equal("reserved for a byte", [pool.reserved_bytes()?, pool.reserved_bytes_high()?], [UNIT; 2])?;
    let large = allocate(&raw, &pool, UNIT as usize)?;
    equal("reserved for a unit more", [pool.reserved_bytes()?, pool.reserved_bytes_high()?], [2 * UNIT; 2])?;
    for address in [small, large] {
        // SAFETY: nothing uses the memory.
        equal("the free", unsafe { raw.free_async(address) }, Status::SUCCESS)?;
    }
    raw.synchronize()?;
    equal("reserved afterwards", [pool.reserved_bytes()?, pool.reserved_bytes_high()?], [0, 2 * UNIT])
}

fn trim_keeps_at_least_as_much(environment: &Environment) -> Verdict {
    let (raw, pool) = (Raw::new(environment)?, new_pool(environment)?);
    pool.set_release_threshold(u64::MAX)?;
    let address = allocate(&raw, &pool, SMALL)?;
    // SAFETY: nothing uses the memory.
    equal("the free", unsafe { raw.free_async(address) }, Status::SUCCESS)?;
    raw.synchronize()?;
    for (keep, left) in [(UNIT as usize, UNIT), (1, UNIT), (0, 0)] {
        pool.trim(keep)?;
        equal(&format!("reserved after a trim to {keep}"), pool.reserved_bytes()?, left)?;
    }
    Ok(())
}

fn access_of_its_own_device(environment: &Environment) -> Verdict {
    let pool = new_pool(environment)?;
    let device = environment.device().ordinal();
    let set = |allowed| status_of(environment.device().driver().memory_pool_set_access(pool.live(), device, allowed));
    equal("given", set(true), Status::SUCCESS)?;
    equal("taken away", set(false), Status::INVALID_DEVICE)
}

fn memory_ends_after_the_bytes_asked_for(environment: &Environment) -> Verdict {
    let (raw, pool) = (Raw::new(environment)?, new_pool(environment)?);
    let other = address("allocating", raw.allocate_async(8192))?;
    for bytes in [1, 100, 1000, 1023, 4097] {
        let memory = allocate(&raw, &pool, bytes)?;
        let copy = |to: DevicePointer, count: usize| {
            // SAFETY: both ranges lie in the allocations, or the driver refuses the call.
            unsafe { raw.copy(CopyKind::DeviceToDevice, to.0, other.0, count) }
        };
        let found = [copy(memory, bytes), copy(memory, bytes + 1), copy(memory.byte_add(bytes), 1)];
        equal(&format!("{bytes} bytes"), found, [Status::SUCCESS, Status::INVALID_VALUE, Status::INVALID_VALUE])?;
        // SAFETY: what uses the memory is in the stream already.
        equal("the free", unsafe { raw.free_async(memory) }, Status::SUCCESS)?;
    }
    // SAFETY: what uses the memory is in the stream already.
    equal("the free of the other", unsafe { raw.free_async(other) }, Status::SUCCESS)?;
    raw.synchronize()
}

fn limit_beyond_the_address_space(environment: &Environment) -> Verdict {
    let pool = environment.device().create_memory_pool(&MemoryPoolOptions { max_bytes: u64::MAX, interprocess: false });
    refused("a pool of all addresses", pool, Status::OUT_OF_MEMORY)
}

/// Hardware reserves memory in large units and rounds the maximum size up to a unit.
fn limit_is_rounded_up(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let pool = environment.device().create_memory_pool(&MemoryPoolOptions { max_bytes: 1, interprocess: false })?;
    let buffer = stream.allocate_zeroed_from::<u8>(&pool, 512)?;
    equal("contents", stream.download(&buffer)?, vec![0; 512])
}

fn allocation_of_nothing(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, new_pool(environment)?);
    let context = environment.context();
    let driver = context.device().driver();
    let nothing = driver.allocate_async(&context.live().into(), 0, Some(pool.live()), stream.live());
    let address = nothing.map_err(|failure| Failed(format!("allocating 0 bytes: {failure}")))?;
    equal("address", address.0, 0)?;
    equal("used", pool.used_bytes()?, 0)
}

fn of_a_missing_device(environment: &Environment) -> Verdict {
    let result = environment.device().driver().memory_pool_create(DeviceOrdinal(9999), &MemoryPoolOptions::default());
    equal("making it", status_of(result), Status::INVALID_DEVICE)
}

fn default_pool_serves_allocations(environment: &Environment) -> Verdict {
    let (stream, pool) = (environment.stream()?, environment.device().default_memory_pool()?);
    let before = pool.used_bytes()?;
    let buffer = stream.allocate_zeroed::<u8>(LARGE)?;
    holds("more is used", pool.used_bytes()? >= before + LARGE as u64)?;
    drop(buffer);
    Ok(stream.synchronize()?)
}
