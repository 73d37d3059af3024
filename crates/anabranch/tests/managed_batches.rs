//! Managed memory that is moved and discarded in batches.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Detail, Driver, Failure, Forward, Layered, Live, ManagedRange};
use anabranch::{
    CaptureMode, CaptureStatus, Context, DeviceOrdinal, Discard, Instance, ManagedBuffer, MemoryLocation, Prefetch,
    Status, Stream, StreamHandle,
};
use common::{checked_host, hold, host};
use std::sync::Arc;

const DEVICE: MemoryLocation = MemoryLocation::Device(DeviceOrdinal(0));

/// A driver from before CUDA 13.
#[derive(Debug)]
struct Old(Arc<dyn Driver>);

fn missing(symbol: &'static str) -> hal::Result<()> {
    Err(Failure::with_detail(Status::NOT_SUPPORTED, Detail::MissingSymbol { symbol, since: 13000 }))
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Old {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    unsafe fn prefetch_batch_async(
        &self,
        _: &Call<'_>,
        _: &[hal::Prefetch],
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        missing("cuMemPrefetchBatchAsync")
    }

    unsafe fn discard_batch_async(
        &self,
        _: &Call<'_>,
        _: &[ManagedRange],
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        missing("cuMemDiscardBatchAsync")
    }

    unsafe fn discard_and_prefetch_batch_async(
        &self,
        _: &Call<'_>,
        _: &[hal::Prefetch],
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        missing("cuMemDiscardAndPrefetchBatchAsync")
    }
}

fn old() -> Context {
    let wrap = |inner| Arc::new(Layered(Old(inner))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

fn filled(context: &Context, value: u32) -> ManagedBuffer<u32> {
    let mut memory = context.allocate_managed::<u32>(100).unwrap();
    memory.as_mut_slice().unwrap().fill(value);
    memory
}

#[test]
fn what_is_moved_stays_the_same() {
    for context in [host(), checked_host(), old()] {
        for stream in [context.create_stream().unwrap(), context.legacy_stream().unwrap()] {
            let (one, other) = (filled(&context, 1), filled(&context, 2));
            stream
                .prefetch_batch([
                    Prefetch::new(&one, DEVICE).unwrap(),
                    Prefetch::new(other.slice(..50).unwrap(), MemoryLocation::Host).unwrap(),
                    Prefetch::new(other.slice(50..50).unwrap(), MemoryLocation::HostNuma(0)).unwrap(),
                ])
                .unwrap();
            stream.prefetch_batch([]).unwrap();
            assert_eq!(one.as_slice().unwrap(), [1; 100]);
            assert_eq!(other.as_slice().unwrap(), [2; 100]);
        }
    }
}

#[test]
fn what_is_discarded_can_be_written_again() {
    for context in [host(), checked_host(), old()] {
        for stream in [context.create_stream().unwrap(), context.legacy_stream().unwrap()] {
            let (mut one, mut other) = (filled(&context, 1), filled(&context, 2));
            let ranges = [
                Discard::new(&mut one).unwrap(),
                Discard::new(other.slice_mut(50..).unwrap()).unwrap().then_prefetch(DEVICE),
            ];
            // SAFETY: the elements are written before they are read.
            unsafe { stream.discard_batch(ranges) }.unwrap();
            stream.fill(&mut one, 3).unwrap();
            stream.fill(other.slice_mut(50..).unwrap(), 4).unwrap();
            assert_eq!(one.as_slice().unwrap(), [3; 100]);
            assert_eq!(other.as_slice().unwrap(), [[2; 50], [4; 50]].concat());
        }
    }
}

/// The software device finds programs that rely on the contents.
#[test]
fn what_is_discarded_is_lost_on_the_software_device() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut one, mut other) = (filled(&context, 1), filled(&context, 2));
    let ranges =
        [Discard::new(one.slice_mut(..10).unwrap()).unwrap(), Discard::new(&mut other).unwrap().then_prefetch(DEVICE)];
    // SAFETY: on the software device, the elements have values all the same.
    unsafe { stream.discard_batch(ranges) }.unwrap();
    let found = one.as_slice().unwrap();
    assert!(found[..10].iter().all(|&element| element != 1) && found[10..] == [1; 90]);
    assert!(other.as_slice().unwrap().iter().all(|&element| element != 2));
}

#[test]
fn a_batch_is_ordered_with_the_work_of_other_streams() {
    let context = host();
    let [writer, stream, reader]: [Stream; 3] = std::array::from_fn(|_| context.create_stream().unwrap());
    let mut memory = filled(&context, 1);
    let gate = hold(&context, &writer);
    writer.fill(&mut memory, 5).unwrap();
    stream.prefetch_batch([Prefetch::new(&memory, DEVICE).unwrap()]).unwrap();
    assert!(!stream.query().unwrap(), "it comes behind the writer");
    // SAFETY: the elements are written before they are read.
    unsafe { stream.discard_batch([Discard::new(&mut memory).unwrap()]) }.unwrap();
    reader.fill(memory.slice_mut(..).unwrap(), 6).unwrap();
    assert!(!reader.query().unwrap(), "it comes behind the discarding");
    gate.set(1);
    assert_eq!(memory.as_slice().unwrap(), [6; 100]);
}

#[test]
fn captures_are_left_alone() {
    let context = host();
    let [stream, other]: [Stream; 2] = std::array::from_fn(|_| context.create_stream().unwrap());
    let mut memory = filled(&context, 1);
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fill(&mut memory, 2)?;
            for stream in [&**scope, &other] {
                let refused = stream.prefetch_batch([Prefetch::new(&memory, DEVICE)?]).unwrap_err();
                assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
                // SAFETY: it is refused.
                let refused = unsafe { stream.discard_batch([Discard::new(&mut memory)?]) }.unwrap_err();
                assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            }
            assert_eq!(other.capture_status()?, CaptureStatus::None);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    assert_eq!(memory.read(|elements| elements[0]).unwrap(), 1);
}

#[test]
fn other_memory_and_places_are_refused() {
    let context = host();
    let elsewhere = context.device().create_context(anabranch::ContextFlags::empty()).unwrap();
    let stream = context.create_stream().unwrap();
    let mut device = stream.allocate_zeroed::<u32>(4).unwrap();
    let pinned = context.allocate_pinned::<u32>(4).unwrap();
    let (memory, foreign) = (filled(&context, 1), filled(&elsewhere, 1));
    assert_eq!(Prefetch::new(&device, DEVICE).unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(Prefetch::new(&pinned, DEVICE).unwrap_err().status(), Status::INVALID_VALUE);
    assert_eq!(Discard::new(&mut device).unwrap_err().status(), Status::INVALID_VALUE);
    let nowhere = MemoryLocation::Device(DeviceOrdinal(99));
    let refused = stream.prefetch_batch([Prefetch::new(&memory, nowhere).unwrap()]).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_DEVICE);
    let refused = stream.prefetch_batch([Prefetch::new(&foreign, DEVICE).unwrap()]).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_HANDLE);
}
