//! Waits for, and writes of, values.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive, and the tests its memory")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use support::{Fixture, status, until};

fn wait(
    fixture: &Fixture,
    stream: Live<'_, StreamHandle>,
    address: DevicePointer,
    value: Value,
    flags: WaitValueFlags,
) -> i32 {
    status(unsafe { fixture.driver.stream_wait_value(&fixture.context.into(), stream, address, value, flags) })
}

fn write(fixture: &Fixture, stream: Live<'_, StreamHandle>, address: DevicePointer, value: Value) {
    let flags = WriteValueFlags::empty();
    unsafe { fixture.driver.stream_write_value(&fixture.context.into(), stream, address, value, flags) }.unwrap();
}

fn host_store(address: DevicePointer, value: u32) {
    unsafe { AtomicU32::from_ptr(address.0 as *mut u32) }.store(value, Ordering::SeqCst);
}

#[test]
fn a_wait_blocks_until_the_host_writes() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(16));
    assert_eq!(wait(&fixture, stream, memory, Value::U32(5), WaitValueFlags::GREATER_OR_EQUAL), 0);
    write(&fixture, stream, memory.byte_add(4), Value::U32(9));
    assert_eq!(fixture.query(stream), 600);
    host_store(memory, 5);
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(memory, 2), [5, 9]);
    // Without a thread that synchronizes, and on the legacy stream.
    let legacy = Live::LEGACY;
    assert_eq!(wait(&fixture, legacy, memory, Value::U32(6), WaitValueFlags::EQUAL), 0);
    assert_eq!(fixture.query(legacy), 600);
    host_store(memory, 6);
    until("the wait", || fixture.query(legacy) == 0);
}

#[test]
fn a_wait_ends_with_the_write_of_another_stream() {
    let fixture = Fixture::new();
    let (one, two, memory) = (fixture.stream(), fixture.stream(), fixture.allocate(16));
    for round in 1..500u64 {
        assert_eq!(wait(&fixture, one, memory, Value::U64(round), WaitValueFlags::GREATER_OR_EQUAL), 0);
        write(&fixture, two, memory, Value::U64(round));
        fixture.synchronize(if round % 2 == 0 { one } else { two }).unwrap();
    }
    fixture.synchronize_all().unwrap();
}

#[test]
fn conditions() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(16));
    // Every writer writes in one piece of the operation's own width, so that each width has its place.
    let place = |value| match value {
        Value::U32(_) => memory,
        Value::U64(_) => memory.byte_add(8),
    };
    let store = |current, value| match value {
        Value::U32(_) => host_store(place(value), current as u32),
        Value::U64(_) => {
            unsafe { AtomicU64::from_ptr(place(value).0 as *mut u64) }.store(current, Ordering::SeqCst);
        }
    };
    let passes = |current, value, flags| {
        store(current, value);
        assert_eq!(wait(&fixture, stream, place(value), value, flags), 0);
        until("a condition that is true", || fixture.query(stream) == 0);
    };
    let blocks_until = |current, value, flags, release| {
        store(current, value);
        assert_eq!(wait(&fixture, stream, place(value), value, flags), 0);
        // Longer than the longest pause between two looks.
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(fixture.query(stream), 600);
        store(release, value);
        fixture.synchronize(stream).unwrap();
    };
    use WaitValueFlags as Flags;
    passes(5, Value::U32(5), Flags::GREATER_OR_EQUAL);
    blocks_until(4, Value::U32(5), Flags::GREATER_OR_EQUAL, 6);
    // Cyclic: the counter has wrapped around.
    passes(3, Value::U32(0xffff_fff0), Flags::GREATER_OR_EQUAL);
    blocks_until(0xffff_fff0, Value::U32(3), Flags::GREATER_OR_EQUAL, 3);
    passes(0, Value::U64(u64::MAX), Flags::GREATER_OR_EQUAL);
    blocks_until(u64::MAX, Value::U64(0), Flags::GREATER_OR_EQUAL, 0);
    blocks_until(1, Value::U64(1 | 1 << 32), Flags::EQUAL, 1 | 1 << 32);
    passes(5, Value::U32(4), Flags::AND);
    assert_eq!(wait(&fixture, stream, memory, Value::U32(4), Flags::AND | Flags::FLUSH), 801);
    blocks_until(5, Value::U32(2), Flags::AND, 2);
    passes(5, Value::U32(1), Flags::NOR);
    blocks_until(0xffff_ffff, Value::U32(0), Flags::NOR, 1);
}

#[test]
fn arguments() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(16));
    let at = |bytes| memory.byte_add(bytes);
    let equal = WaitValueFlags::EQUAL;
    assert_eq!(wait(&fixture, stream, at(2), Value::U32(0), equal), 1);
    assert_eq!(wait(&fixture, stream, at(4), Value::U64(0), equal), 1);
    assert_eq!(wait(&fixture, stream, at(16), Value::U32(0), equal), 1);
    assert_eq!(wait(&fixture, stream, DevicePointer::NULL, Value::U32(0), equal), 1);
    assert_eq!(wait(&fixture, stream, memory, Value::U32(0), WaitValueFlags::from_bits_retain(0x10)), 1);
    let managed = fixture.driver.allocate_managed(&fixture.context.into(), 16).unwrap();
    assert_eq!(wait(&fixture, stream, managed, Value::U32(0), equal), 1);
    assert_eq!(wait(&fixture, stream, memory, Value::U64(0), equal), 0);
    fixture.synchronize(stream).unwrap();
    fixture.free(managed);
}

#[test]
fn many_waits_are_all_seen() {
    let fixture = Fixture::new();
    let memory = fixture.allocate(4);
    let streams: Vec<_> = (0..32).map(|_| fixture.stream()).collect();
    for (number, &stream) in streams.iter().enumerate() {
        let value = Value::U32(number as u32 + 1);
        assert_eq!(wait(&fixture, stream, memory, value, WaitValueFlags::GREATER_OR_EQUAL), 0);
    }
    for number in 0..32 {
        host_store(memory, number as u32 + 1);
        until("the next wait", || fixture.query(streams[number]) == 0);
        assert!(streams[number + 1..].iter().all(|&stream| fixture.query(stream) == 600));
    }
}
