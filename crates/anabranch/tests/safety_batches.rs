//! Batches of copies that are made in several steps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::hal::{Capabilities, DeviceProperties, Driver, Forward, Layered};
use anabranch::{
    BatchCopy, BatchRegion, CaptureMode, DeviceOrdinal, Instance, NodeWork, PinnedBuffer, Region, Stream, Volume,
    VolumeMut,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

/// A driver whose calls that wait keep others waiting, so that a thread of it copies between pinned memory.
#[derive(Debug)]
struct KeepsOthersWaiting(Arc<dyn Driver>);

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for KeepsOthersWaiting {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn device_properties(&self, device: DeviceOrdinal) -> anabranch::hal::Result<DeviceProperties> {
        let mut properties = self.0.device_properties(device)?;
        properties.capabilities.remove(Capabilities::CONCURRENT_BLOCKING_CALLS);
        Ok(properties)
    }
}

/// Batches of copies of one element each, beside a thread that begins captures. `copy`: copies from the first to the second.
fn beside_captures(copy: fn(&Stream, &mut PinnedBuffer<u32>, &PinnedBuffer<u32>) -> anabranch::Result<()>) {
    let context = Instance::new().unwrap().device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let [mut from, mut to] = [(); 2].map(|()| context.allocate_pinned::<u32>(64).unwrap());
    // A graph retains the memory, so that a thread of the driver makes the copies.
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(to.slice_mut(..1).unwrap(), 0u32).unwrap()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                stream.begin_capture(CaptureMode::Relaxed).unwrap();
                std::thread::yield_now();
                stream.end_capture().unwrap();
                std::thread::yield_now();
            }
        });
        for round in 1..=1500u32 {
            from.write(|from| from.fill(round)).unwrap();
            let copied = copy(&stream, &mut to, &from);
            let found = to.read(|to| to.iter().filter(|&&value| value == round).count()).unwrap();
            assert!([0, 64].contains(&found), "round {round}: {found} of 64, {copied:?}");
            copied.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn safety_143_a_capture_has_all_of_a_batch_between_pinned_memory_or_nothing() {
    beside_captures(|stream, to, from| {
        let (from, mut rest, mut copies) = (from.slice(..)?, to.slice_mut(..)?, Vec::new());
        for index in 0..64 {
            let (to, others) = rest.split_at(1)?;
            copies.push(BatchCopy::new(to, from.slice(index..=index)?)?);
            rest = others;
        }
        stream.copy_batch(copies)
    });
}

#[test]
fn safety_143_a_capture_has_all_of_a_batch_of_regions_between_pinned_memory_or_nothing() {
    beside_captures(|stream, to, from| {
        let (from, mut rest, mut copies) = (from.slice(..)?, to.slice_mut(..)?, Vec::new());
        let one = Region { extent: [1, 1, 1], ..Region::default() };
        for index in 0..64 {
            let (to, others) = rest.split_at(1)?;
            let from = Volume::new(from.slice(index..=index)?, 1, 1);
            copies.push(BatchRegion::new(VolumeMut::new(to, 1, 1), from, &one)?);
            rest = others;
        }
        stream.copy_region_batch(copies)
    });
}

#[test]
fn safety_143_a_capture_that_another_thread_begins_has_all_of_a_batch_or_nothing() {
    let wrap = |inner| Arc::new(Layered(KeepsOthersWaiting(inner))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut to = context.allocate_pinned::<u32>(8).unwrap();
    let (mut device, mut pinned) =
        (other.allocate_zeroed::<u32>(4).unwrap(), context.allocate_pinned::<u32>(4).unwrap());
    let (mut whole, mut none) = (0, 0);
    for round in 1..=2000u32 {
        other.fill(&mut device, round).unwrap();
        other.synchronize().unwrap();
        pinned.as_mut_slice().unwrap().fill(round);
        to.as_mut_slice().unwrap().fill(0);
        let barrier = Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                barrier.wait();
                for _ in 0..round % 64 * 16 {
                    std::hint::spin_loop();
                }
                stream.begin_capture(CaptureMode::Relaxed).unwrap();
            });
            barrier.wait();
            let (head, tail) = to.slice_mut(..).unwrap().split_at(4).unwrap();
            let copies = [BatchCopy::new(head, &device).unwrap(), BatchCopy::new(tail, &pinned).unwrap()];
            stream.copy_batch(copies).unwrap();
        });
        drop(stream.end_capture());
        stream.synchronize().unwrap();
        match to.as_slice().unwrap() {
            found if found == [round; 8] => whole += 1,
            found if found == [0; 8] => none += 1,
            found => panic!("in part: {found:?}, after {whole} that ran, and {none} that were captured"),
        }
    }
}
