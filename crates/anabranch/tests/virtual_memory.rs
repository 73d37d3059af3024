//! Virtual memory. Without a GPU, the tests that need one say so and end.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Buffer, Capabilities, Context, Instance, Result, Status, flush_deferred_drops};
use common::{hold, host};

fn gpu() -> Option<Context> {
    let device = match Instance::new().unwrap().device("cuda:0") {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    if !device.properties().capabilities.contains(Capabilities::VIRTUAL_MEMORY) {
        eprintln!("skipped: the device has no virtual memory");
        return None;
    }
    Some(device.context().unwrap())
}

fn status<T>(result: Result<T>) -> Status {
    result.err().unwrap().status()
}

#[test]
fn the_software_device_has_no_virtual_memory() {
    let context = host();
    assert!(!context.device().properties().capabilities.contains(Capabilities::VIRTUAL_MEMORY));
    assert_eq!(status(context.physical_memory_granularity()), Status::NOT_SUPPORTED);
    assert_eq!(status(context.create_physical_memory(1 << 21)), Status::NOT_SUPPORTED);
    assert_eq!(status(context.reserve_addresses(1 << 21)), Status::NOT_SUPPORTED);
    let stream = context.create_stream().unwrap();
    let inside = context.clone();
    let (report, reported) = std::sync::mpsc::channel();
    stream
        .launch_host_func(move || {
            report.send([status(inside.create_physical_memory(1)), status(inside.reserve_addresses(1))]).unwrap();
        })
        .unwrap();
    stream.synchronize().unwrap();
    assert_eq!(reported.recv().unwrap(), [Status::NOT_PERMITTED; 2]);
}

#[test]
fn a_buffer_grows_where_it_is() {
    let Some(context) = gpu() else { return };
    let stream = context.create_stream().unwrap();
    let bytes = context.physical_memory_granularity().unwrap();
    let count = bytes / 4;
    let mut range = context.reserve_addresses(8 * bytes).unwrap();
    range.map(0, &context.create_physical_memory(bytes).unwrap()).unwrap();
    // SAFETY: one buffer at a time has the memory, and it is filled before it is read.
    let mut small: Buffer<u32> = unsafe { range.buffer(0, count) }.unwrap();
    stream.fill(&mut small, 3).unwrap();
    let address = small.device_pointer();
    drop(small);
    range.map(bytes, &context.create_physical_memory(bytes).unwrap()).unwrap();
    stream.synchronize().unwrap();
    // SAFETY: as above.
    let mut large: Buffer<u32> = unsafe { range.buffer(0, 2 * count) }.unwrap();
    assert_eq!(large.device_pointer(), address);
    stream.fill(large.slice_mut(count..).unwrap(), 4).unwrap();
    let numbers = stream.download(&large).unwrap();
    assert!(numbers[..count].iter().all(|&number| number == 3) && numbers[count..].iter().all(|&number| number == 4));
}

#[test]
fn nothing_is_unmapped_that_is_in_use() {
    let Some(context) = gpu() else { return };
    let stream = context.create_stream().unwrap();
    let bytes = context.physical_memory_granularity().unwrap();
    let (physical, mut range) =
        (context.create_physical_memory(bytes).unwrap(), context.reserve_addresses(2 * bytes).unwrap());
    range.map(bytes, &physical).unwrap();
    // SAFETY: one buffer at a time has the memory, and it is filled before it is read.
    let mut buffer: Buffer<u8> = unsafe { range.buffer(bytes, bytes) }.unwrap();
    let signal = hold(&context, &stream);
    stream.fill(&mut buffer, 5).unwrap();
    drop(buffer);
    assert!(range.unmap(bytes) && !range.unmap(bytes));
    assert!(range.map(bytes, &physical).is_err(), "it is still mapped");
    signal.set(1);
    stream.synchronize().unwrap();
    flush_deferred_drops();
    // The same memory at another address.
    range.map(0, &physical).unwrap();
    // SAFETY: as above; all of it was filled.
    let again: Buffer<u8> = unsafe { range.buffer(0, bytes) }.unwrap();
    drop((range, physical));
    assert!(stream.download(&again).unwrap().iter().all(|&number| number == 5));
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(context) = gpu() else { return };
    let bytes = context.physical_memory_granularity().unwrap();
    assert_eq!(status(context.create_physical_memory(bytes + 1)), Status::INVALID_VALUE);
    let (physical, mut range) =
        (context.create_physical_memory(bytes).unwrap(), context.reserve_addresses(2 * bytes).unwrap());
    assert_eq!(status(range.map(2 * bytes, &physical)), Status::INVALID_VALUE);
    assert_eq!(status(range.map(usize::MAX, &physical)), Status::INVALID_VALUE);
    range.map(bytes, &physical).unwrap();
    // SAFETY: they are refused.
    unsafe {
        assert_eq!(status(range.buffer::<u8>(0, 1)), Status::INVALID_VALUE);
        assert_eq!(status(range.buffer::<u8>(bytes, bytes + 1)), Status::INVALID_VALUE);
        assert_eq!(status(range.buffer::<u32>(bytes + 1, 1)), Status::INVALID_VALUE);
        assert_eq!(status(range.buffer::<u64>(bytes, usize::MAX)), Status::OUT_OF_MEMORY);
    }
}
