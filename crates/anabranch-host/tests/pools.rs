//! Memory allocated and freed in stream order.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use support::{Fixture, live, status};
fn allocate(fixture: &Fixture, bytes: usize, pool: Option<MemoryPoolHandle>, stream: Live<'_, StreamHandle>) -> u64 {
    fixture.driver.allocate_async(&fixture.context.into(), bytes, pool.map(live), stream).unwrap().0
}

fn free(fixture: &Fixture, address: u64, stream: Live<'_, StreamHandle>) -> i32 {
    status(unsafe { fixture.driver.free_async(&fixture.context.into(), DevicePointer(address), stream) })
}

fn attribute(fixture: &Fixture, pool: Live<'_, MemoryPoolHandle>, attribute: MemoryPoolAttribute) -> u64 {
    fixture.driver.memory_pool_attribute(pool, attribute).unwrap()
}

#[test]
fn blocks_are_used_again_in_stream_order() {
    let fixture = Fixture::new();
    let (stream, other) = (fixture.stream(), fixture.stream());
    let gate = fixture.gate(stream);
    let first = allocate(&fixture, 4096, None, stream);
    assert_eq!(free(&fixture, first, stream), 0);
    // On another stream not before the free has been reached; on the same one at once.
    assert_ne!(allocate(&fixture, 4096, None, other), first);
    assert_eq!(allocate(&fixture, 4096, None, stream), first);
    assert_eq!(free(&fixture, first, stream), 0);
    gate.open();
    while fixture.query(stream) == 600 {}
    assert_eq!(allocate(&fixture, 4096, None, other), first);
}

#[test]
fn the_smallest_block_that_is_large_enough_and_free_is_used_again() {
    let fixture = Fixture::new();
    let (held, other) = (fixture.stream(), fixture.stream());
    let gate = fixture.gate(held);
    let [small, middle, large] = [4096, 6144, 8192].map(|bytes| allocate(&fixture, bytes, None, held));
    let statuses = [(middle, held), (small, held), (large, other)].map(|(block, stream)| free(&fixture, block, stream));
    assert_eq!(statuses, [0; 3]);
    let again = |bytes, stream| allocate(&fixture, bytes, None, stream);
    // The smaller ones are free for the other stream later.
    assert_eq!(again(4096, other), large);
    assert_eq!(free(&fixture, large, other), 0);
    while fixture.query(other) == 600 {}
    assert_eq!((again(4096, held), again(5000, held), again(5000, held)), (small, middle, large));
    let statuses = [(large, other), (small, held), (middle, held)].map(|(block, stream)| free(&fixture, block, stream));
    assert_eq!(statuses, [0; 3]);
    gate.open();
    while fixture.query(held) == 600 {}
    assert_eq!((again(4096, other), again(4096, other), again(4096, other)), (small, middle, large));
}

#[test]
fn arguments() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let allocate = |bytes| status(fixture.driver.allocate_async(&fixture.context.into(), bytes, None, stream));
    assert_eq!((allocate(0), allocate(usize::MAX), allocate(2 << 30)), (0, 2, 2));
    let plain = fixture.allocate(64);
    assert_eq!(free(&fixture, 0, stream), 0);
    assert_eq!(free(&fixture, plain.0, stream), 0);
    let managed = fixture.driver.allocate_managed(&fixture.context.into(), 64).unwrap();
    assert_eq!(free(&fixture, managed.0, stream), 801);
    assert_eq!(free(&fixture, 0x1234, stream), 1);
}

#[test]
fn memory_ends_after_the_bytes_that_were_asked_for() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (to, from) = (allocate(&fixture, 100, None, stream), allocate(&fixture, 101, None, stream));
    let pool = live(fixture.driver.default_memory_pool(DeviceOrdinal(0)).unwrap());
    let used = || attribute(&fixture, pool, MemoryPoolAttribute::UsedCurrent);
    let copy = |to: u64, bytes| {
        let kind = CopyKind::DeviceToDevice;
        status(unsafe { fixture.driver.copy_async(&fixture.context.into(), kind, to, from, bytes, stream) })
    };
    assert_eq!((copy(to, 100), copy(to, 101), copy(to + 100, 1), used()), (0, 1, 1, 201));
    // A block that is used again ends where the new owner's bytes do.
    assert_eq!(free(&fixture, to, stream), 0);
    assert_eq!((allocate(&fixture, 101, None, stream), copy(to, 101), copy(to + 101, 1), used()), (to, 0, 1, 202));
}

#[test]
fn memory_above_the_threshold_is_released_by_synchronizing() {
    let fixture = Fixture::new();
    let (driver, stream) = (&fixture.driver, fixture.stream());
    let pool = driver.default_memory_pool(DeviceOrdinal(0)).unwrap();
    use MemoryPoolAttribute::{ReleaseThreshold, ReservedCurrent, ReservedHigh, UsedCurrent, UsedHigh};
    let numbers =
        || [ReservedCurrent, ReservedHigh, UsedCurrent, UsedHigh].map(|which| attribute(&fixture, live(pool), which));
    let memory = allocate(&fixture, 4096, None, stream);
    // Memory is reserved in units.
    let unit = 32 << 20;
    assert_eq!(numbers(), [unit, unit, 4096, 4096]);
    assert_eq!(free(&fixture, memory, stream), 0);
    assert_eq!(numbers(), [unit, unit, 0, 4096]);
    fixture.synchronize(stream).unwrap();
    assert_eq!(numbers(), [0, unit, 0, 4096]);
    assert_eq!(driver.memory_info(&fixture.context.into()).unwrap().free, 1 << 30);

    let set = |which, value| status(driver.memory_pool_set_attribute(live(pool), which, value));
    assert_eq!((set(UsedCurrent, 0), set(ReservedCurrent, 0), set(UsedHigh, 5)), (1, 1, 1));
    assert_eq!((set(UsedHigh, 0), set(ReservedHigh, 0), set(ReleaseThreshold, u64::MAX)), (0, 0, 0));
    assert_eq!(numbers(), [0; 4]);
    let memory = allocate(&fixture, 4096, None, stream);
    assert_eq!(free(&fixture, memory, stream), 0);
    fixture.synchronize_all().unwrap();
    assert_eq!(numbers(), [unit, unit, 0, 4096]);
    driver.memory_pool_trim(live(pool), 4096).unwrap();
    assert_eq!(
        attribute(&fixture, live(pool), ReservedCurrent),
        unit,
        "a trim leaves no less than it was told to keep"
    );
    driver.memory_pool_trim(live(pool), 0).unwrap();
    assert_eq!(attribute(&fixture, live(pool), ReservedCurrent), 0);
    assert_eq!(status(unsafe { driver.memory_pool_destroy(pool) }), 1);
}

#[test]
fn a_destroyed_pool_releases_memory_where_it_was_freed() {
    let fixture = Fixture::new();
    let (driver, stream) = (&fixture.driver, fixture.stream());
    let options = MemoryPoolOptions { max_bytes: 1, interprocess: false };
    let pool = live(driver.memory_pool_create(DeviceOrdinal(0), &options).unwrap());
    let free_bytes = || driver.memory_info(&fixture.context.into()).unwrap().free;
    let [one, two] = [16 << 20; 2].map(|bytes| allocate(&fixture, bytes, Some(pool.handle()), stream));
    let more = driver.allocate_async(&fixture.context.into(), 1, Some(pool), stream);
    assert_eq!(status(more), 2);
    driver.memory_pool_set_access(pool, DeviceOrdinal(1), true).unwrap();
    assert_eq!(status(driver.memory_pool_set_access(pool, DeviceOrdinal(0), false)), 101);
    let gate = fixture.gate(stream);
    fixture.fill(stream, DevicePointer(one), 1, 1024);
    fixture.fill(stream, DevicePointer(two), 2, 1024);
    assert_eq!(free(&fixture, one, stream), 0);
    unsafe { driver.memory_pool_destroy(pool.handle()) }.unwrap();
    assert_eq!(free(&fixture, two, stream), 0);
    assert_eq!(free_bytes(), (1 << 30) - (32 << 20));
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!(free_bytes(), 1 << 30);
}

#[test]
fn idle_memory_serves_plain_allocations() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let memory = allocate(&fixture, 800 << 20, None, stream);
    assert_eq!(free(&fixture, memory, stream), 0);
    fixture.free(fixture.allocate(800 << 20));
}
