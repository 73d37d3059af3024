//! Batches of copies that are made in several steps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::hal::{Capabilities, DeviceProperties, Driver, Forward, Layered};
use anabranch::{BatchCopy, CaptureMode, DeviceOrdinal, Instance};
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
