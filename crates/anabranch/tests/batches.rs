//! Several copies in one call, and copies with hints.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, AttributedCopy, AttributedCopy3d, Call, Detail, Driver, Failure, Forward, Layered, Live};
use anabranch::{
    BatchCopy, BatchRegion, CaptureMode, CaptureStatus, Context, CopyHints, DeviceOrdinal, Graph, GraphNodeKind,
    Instance, MemoryLocation, NodeWork, Region, Status, Stream, StreamHandle, Volume, VolumeMut,
};
use common::{assert_ends, checked_host, hold, host};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A driver from before CUDA 12.8. It refuses a copy, counted from 1, with a status of an invalid argument.
#[derive(Debug)]
struct Old {
    inner: Arc<dyn Driver>,
    copies: AtomicUsize,
    refused: usize,
}

fn missing(symbol: &'static str) -> Failure {
    Failure::with_detail(Status::NOT_SUPPORTED, Detail::MissingSymbol { symbol, since: 12080 })
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Old {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn copy_batch_async(
        &self,
        _: &Call<'_>,
        _: &[AttributedCopy],
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        Err(missing("cuMemcpyBatchAsync"))
    }

    unsafe fn copy_3d_batch_async(
        &self,
        _: &Call<'_>,
        _: &[AttributedCopy3d],
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        Err(missing("cuMemcpy3DBatchAsync"))
    }

    unsafe fn copy_with_attributes_async(
        &self,
        _: &Call<'_>,
        _: &AttributedCopy,
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        Err(missing("cuMemcpyWithAttributesAsync"))
    }

    unsafe fn copy_3d_with_attributes_async(
        &self,
        _: &Call<'_>,
        _: &AttributedCopy3d,
        _: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        Err(missing("cuMemcpy3DWithAttributesAsync"))
    }

    unsafe fn copy_async(
        &self,
        call: &Call<'_>,
        kind: hal::CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        if self.copies.fetch_add(1, Ordering::SeqCst) + 1 == self.refused {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // SAFETY: the caller promises what this asks for.
        unsafe { self.inner.copy_async(call, kind, destination, source, bytes, stream) }
    }
}

fn old(refused: usize) -> Context {
    let wrap = move |inner| Arc::new(Layered(Old { inner, copies: AtomicUsize::new(0), refused })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// Copies between all kinds of memory, of several types, in one batch.
fn copy_all_kinds(context: &Context, stream: &Stream) {
    let source = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    let mut pinned = context.allocate_pinned::<u8>(3).unwrap();
    pinned.as_mut_slice().unwrap().copy_from_slice(&[7, 8, 9]);
    let mut managed = context.allocate_managed::<u32>(2).unwrap();
    let (mut words, mut bytes) = (stream.allocate_zeroed::<u32>(5).unwrap(), stream.allocate_zeroed::<u8>(3).unwrap());
    let mut empty = stream.allocate_zeroed::<u64>(0).unwrap();
    let (head, tail) = words.slice_mut(..).unwrap().split_at(2).unwrap();
    let (tail, last) = tail.split_at(2).unwrap();
    let hints = CopyHints {
        prefer_overlap_with_compute: true,
        source: Some(MemoryLocation::Host),
        destination: Some(MemoryLocation::Device(DeviceOrdinal(0))),
    };
    stream
        .copy_batch([
            BatchCopy::new(head, source.slice(2..).unwrap()).unwrap(),
            BatchCopy::new(tail, source.slice(..2).unwrap()).unwrap().with_hints(hints),
            BatchCopy::new(&mut bytes, &pinned).unwrap(),
            BatchCopy::new(&mut managed, source.slice(1..3).unwrap()).unwrap(),
            BatchCopy::from_host(&mut empty, &[]).unwrap(),
            BatchCopy::from_host(last, &[70]).unwrap(),
        ])
        .unwrap();
    assert_eq!(stream.download(&words).unwrap(), [3, 4, 1, 2, 70]);
    assert_eq!(stream.download(&bytes).unwrap(), [7, 8, 9]);
    assert_eq!(managed.as_slice().unwrap(), [2, 3]);
}

#[test]
fn a_batch_copies_between_all_kinds_of_memory() {
    for context in [host(), checked_host(), old(0)] {
        let stream = context.create_stream().unwrap();
        copy_all_kinds(&context, &stream);
        copy_all_kinds(&context, &context.legacy_stream().unwrap());
        copy_all_kinds(&context, &context.per_thread_stream().unwrap());
        stream.copy_batch([]).unwrap();
        stream.copy_region_batch([]).unwrap();
        assert!(context.device().memory_report().is_none_or(|report| report.findings.is_empty()));
    }
}

#[test]
fn a_batch_copies_regions() {
    for context in [host(), checked_host(), old(0)] {
        for stream in [context.create_stream().unwrap(), context.legacy_stream().unwrap()] {
            let picture = stream.upload(&(0..12).collect::<Vec<u32>>()).unwrap();
            let mut pinned = context.allocate_pinned::<u32>(3).unwrap();
            let (mut row, mut none) =
                (stream.allocate_zeroed::<u32>(3).unwrap(), stream.allocate_zeroed::<u32>(1).unwrap());
            let column = Region { source_origin: [1, 0, 0], extent: [1, 3, 1], ..Region::default() };
            let part = Region { source_origin: [2, 1, 0], destination_origin: [1, 0, 0], extent: [2, 1, 1] };
            let volume = || Volume::new(&picture, 4, 3);
            let hints = CopyHints { prefer_overlap_with_compute: true, ..CopyHints::default() };
            stream
                .copy_region_batch([
                    BatchRegion::new(VolumeMut::new(&mut pinned, 1, 3), volume(), &column).unwrap(),
                    BatchRegion::new(VolumeMut::new(&mut row, 3, 1), volume(), &part).unwrap().with_hints(hints),
                    BatchRegion::new(VolumeMut::new(&mut none, 1, 1), volume(), &Region::default()).unwrap(),
                ])
                .unwrap();
            assert_eq!(stream.download(&row).unwrap(), [0, 6, 7]);
            assert_eq!(pinned.as_slice().unwrap(), [1, 5, 9]);
            stream.copy_region_with_hints(VolumeMut::new(&mut row, 3, 1), volume(), &part, hints).unwrap();
            stream.copy_with_hints(&mut none, row.slice(2..).unwrap(), hints).unwrap();
            assert_eq!(stream.download(&none).unwrap(), [7]);
        }
    }
}

/// Regions of plain host memory, in device memory, pinned memory, and memory that a graph retains.
#[test]
fn a_batch_copies_regions_of_plain_memory() {
    for context in [host(), checked_host(), old(0)] {
        for stream in [context.create_stream().unwrap(), context.legacy_stream().unwrap()] {
            let picture: Vec<u32> = (0..24).collect();
            let mut device = stream.upload(&[0u32; 12]).unwrap();
            let mut of_graph = stream.upload(&[0u32; 12]).unwrap();
            let mut pinned = context.allocate_pinned::<u32>(12).unwrap();
            let mut graph = context.create_graph().unwrap();
            graph.add((), NodeWork::fill(&mut of_graph, 7).unwrap()).unwrap();
            let executable = graph.instantiate().unwrap();
            // Two columns of the second of two slices, into the middle.
            let region = Region { source_origin: [1, 0, 1], destination_origin: [1, 0, 0], extent: [2, 3, 1] };
            let from = |to| BatchRegion::from_host(to, &picture, 4, 3, &region).unwrap();
            stream
                .copy_region_batch([
                    from(VolumeMut::new(&mut device, 4, 3)),
                    from(VolumeMut::new(&mut of_graph, 4, 3)),
                    from(VolumeMut::new(&mut pinned, 4, 3)),
                ])
                .unwrap();
            let expected = [0, 13, 14, 0, 0, 17, 18, 0, 0, 21, 22, 0];
            assert_eq!(stream.download(&device).unwrap(), expected);
            assert_eq!(stream.download(&of_graph).unwrap(), expected);
            let back = Region { source_origin: [1, 0, 0], destination_origin: [0, 1, 0], extent: [2, 3, 1] };
            let mut results = [[9u32; 8]; 3];
            let [first, second, third] = &mut results;
            let mut row = stream.upload(&[0u32; 2]).unwrap();
            let part = Region { source_origin: [1, 2, 0], extent: [2, 1, 1], ..Region::default() };
            stream
                .copy_region_batch([
                    BatchRegion::to_host(first, 2, 4, Volume::new(&device, 4, 3), &back).unwrap(),
                    BatchRegion::to_host(second, 2, 4, Volume::new(&of_graph, 4, 3), &back).unwrap(),
                    BatchRegion::to_host(third, 2, 4, Volume::new(&pinned, 4, 3), &back).unwrap(),
                    BatchRegion::new(VolumeMut::new(&mut row, 2, 1), Volume::new(&device, 4, 3), &part).unwrap(),
                    BatchRegion::to_host(&mut [0u32; 0], 1, 1, Volume::new(&device, 4, 3), &Region::default()).unwrap(),
                ])
                .unwrap();
            assert_eq!(results, [[9, 9, 13, 14, 17, 18, 21, 22]; 3]);
            assert_eq!(stream.download(&row).unwrap(), [21, 22]);
            executable.launch(&stream).unwrap();
            stream.synchronize().unwrap();
        }
        assert!(context.device().memory_report().is_none_or(|report| report.findings.is_empty()));
    }
}

/// Sources may change, and be freed, while their copies wait.
#[test]
fn regions_of_plain_memory_are_read_during_the_call() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut device = stream.upload(&[0u32; 2000]).unwrap();
    let signal = hold(&context, &stream);
    for round in 1..4u32 {
        let mut source = vec![round; 2000];
        let region = Region { extent: [1000, 2, 1], ..Region::default() };
        let to = VolumeMut::new(&mut device, 1000, 2);
        stream.copy_region_batch([BatchRegion::from_host(to, &source, 1000, 2, &region).unwrap()]).unwrap();
        source.fill(99);
    }
    signal.set(1);
    assert_eq!(stream.download(&device).unwrap(), [3; 2000]);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

/// All memory that another stream uses is waited for once, and others wait for all of the batch.
#[test]
fn a_batch_is_ordered_as_one_use() {
    for context in [host(), old(0)] {
        let [writer, stream, reader] = std::array::from_fn(|_| context.create_stream().unwrap());
        let (mut first, mut second) = (writer.upload(&[1u32]).unwrap(), writer.upload(&[2u32]).unwrap());
        let (mut third, mut fourth) =
            (stream.allocate_zeroed::<u32>(1).unwrap(), stream.allocate_zeroed::<u32>(1).unwrap());
        let signal = hold(&context, &writer);
        writer.fill(&mut first, 7).unwrap();
        writer.fill(&mut second, 8).unwrap();
        let before = stream.orders_inserted();
        let copies = [BatchCopy::new(&mut third, &first).unwrap(), BatchCopy::new(&mut fourth, &second).unwrap()];
        stream.copy_batch(copies).unwrap();
        assert_eq!(stream.orders_inserted() - before, 1);
        let mut last = reader.allocate_zeroed::<u32>(2).unwrap();
        let (head, tail) = last.slice_mut(..).unwrap().split_at(1).unwrap();
        reader.copy(head, &third).unwrap();
        reader.copy(tail, &fourth).unwrap();
        assert!(!reader.query().unwrap(), "it waits for the batch, which waits for the writer");
        signal.set(1);
        assert_eq!(reader.download(&last).unwrap(), [7, 8]);
    }
}

#[test]
fn a_source_in_plain_memory_is_read_before_the_call_returns() {
    for context in [host(), old(0)] {
        let stream = context.create_stream().unwrap();
        for length in [1, 23, 5000, 300_000] {
            let (mut left, mut right) =
                (stream.allocate_zeroed::<u8>(length).unwrap(), stream.allocate_zeroed::<u8>(length).unwrap());
            let mut pinned = context.allocate_pinned::<u8>(length).unwrap();
            let mut source = vec![5u8; length];
            let signal = hold(&context, &stream);
            stream
                .copy_batch([
                    BatchCopy::from_host(&mut left, &source).unwrap(),
                    BatchCopy::from_host(&mut pinned, &source).unwrap(),
                ])
                .unwrap();
            stream.copy_batch([BatchCopy::from_host(&mut right, &source).unwrap()]).unwrap();
            assert!(!stream.query().unwrap());
            source.fill(6);
            drop(source);
            signal.set(1);
            assert_eq!(stream.download(&left).unwrap(), vec![5; length]);
            assert_eq!(stream.download(&right).unwrap(), vec![5; length]);
            assert_eq!(pinned.as_slice().unwrap(), vec![5; length]);
        }
    }
}

#[test]
fn a_source_may_be_left_to_the_device() {
    for context in [host(), old(0)] {
        let stream = context.create_stream().unwrap();
        let mut buffer = stream.allocate_zeroed::<u32>(1000).unwrap();
        let source = vec![3u32; 1000];
        // SAFETY: the source lives until the copy has run.
        let copy = unsafe { BatchCopy::from_host_unchecked(&mut buffer, &source) }.unwrap();
        stream.copy_batch([copy]).unwrap();
        assert_eq!(stream.download(&buffer).unwrap(), source);
    }
}

#[test]
fn each_captured_copy_is_a_node() {
    for context in [host(), old(0)] {
        let stream = context.create_stream().unwrap();
        let mut source = stream.upload(&[1u32, 2]).unwrap();
        let mut target = stream.allocate_zeroed::<u32>(4).unwrap();
        let graph = stream
            .capture(CaptureMode::Global, |scope| {
                let (head, tail) = target.slice_mut(..)?.split_at(2)?;
                scope.copy_batch([BatchCopy::new(head, &source)?, BatchCopy::new(tail, &source)?])
            })
            .unwrap();
        let kinds: Vec<_> = graph.nodes().unwrap().iter().map(|&node| graph.node_kind(node).unwrap()).collect();
        assert_eq!(kinds, [GraphNodeKind::COPY; 2]);
        let executable = graph.instantiate().unwrap();
        for value in [7, 8] {
            stream.fill(&mut source, value).unwrap();
            executable.launch(&stream).unwrap();
            assert_eq!(stream.download(&target).unwrap(), [value; 4]);
        }
    }
}

#[test]
fn plain_memory_is_not_captured() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = stream.upload(&[1u32]).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fill(&mut buffer, 2)?;
            let refused = scope.copy_batch([BatchCopy::from_host(&mut buffer, &[3])?]).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            // The memory would draw the other stream into the capture.
            let refused = other.copy_batch([BatchCopy::from_host(&mut buffer, &[3])?]).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            let mut read = [0];
            let region = Region { extent: [1; 3], ..Region::default() };
            for stream in [scope.stream(), &other] {
                let to = VolumeMut::new(&mut buffer, 1, 1);
                let refused = stream.copy_region_batch([BatchRegion::from_host(to, &[3], 1, 1, &region)?]);
                assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
                let from = Volume::new(&buffer, 1, 1);
                let refused = stream.copy_region_batch([BatchRegion::to_host(&mut read, 1, 1, from, &region)?]);
                assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            }
            assert_eq!(other.capture_status()?, CaptureStatus::None);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    assert_eq!(stream.download(&buffer).unwrap(), [1]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_copied() {
    let context = host();
    let elsewhere = context.device().create_context(anabranch::ContextFlags::empty()).unwrap();
    let (stream, there) = (context.create_stream().unwrap(), elsewhere.create_stream().unwrap());
    let source = stream.upload(&[1u32, 2]).unwrap();
    let mut target = stream.allocate_zeroed::<u32>(2).unwrap();
    let mut foreign = there.allocate_zeroed::<u32>(2).unwrap();
    let status = |result: anabranch::Result<()>| result.unwrap_err().status();
    assert_eq!(status(BatchCopy::new(&mut target, source.slice(1..).unwrap()).map(drop)), Status::INVALID_VALUE);
    assert_eq!(status(BatchCopy::from_host(&mut target, &[1]).map(drop)), Status::INVALID_VALUE);
    let copies = [BatchCopy::new(&mut target, &source).unwrap(), BatchCopy::new(&mut foreign, &source).unwrap()];
    assert_eq!(status(stream.copy_batch(copies)), Status::INVALID_HANDLE);
    let nowhere = CopyHints { destination: Some(MemoryLocation::Device(DeviceOrdinal(99))), ..CopyHints::default() };
    let copies = [BatchCopy::from_host(&mut target, &[4, 5]).unwrap().with_hints(nowhere)];
    assert_eq!(status(stream.copy_batch(copies)), Status::INVALID_DEVICE);
    assert_eq!(stream.download(&target).unwrap(), [0; 2]);
    let beyond = Region { extent: [3, 1, 1], ..Region::default() };
    let (to, from) = (VolumeMut::new(&mut target, 2, 1), Volume::new(&source, 2, 1));
    assert_eq!(status(BatchRegion::new(to, from, &beyond).map(drop)), Status::INVALID_VALUE);
}

/// Where copies are made one after the other, those before a refused one are made, and others come behind them.
#[test]
fn what_was_made_of_a_refused_batch_is_ordered() {
    let context = old(2);
    let [stream, reader] = std::array::from_fn(|_| context.create_stream().unwrap());
    let (mut source, mut target) =
        (context.allocate_pinned::<u32>(1).unwrap(), stream.allocate_zeroed::<u32>(1).unwrap());
    source.as_mut_slice().unwrap()[0] = 7;
    let mut other = stream.allocate_zeroed::<u32>(1).unwrap();
    let signal = hold(&context, &stream);
    let copies = [BatchCopy::new(&mut target, &source).unwrap(), BatchCopy::new(&mut other, &source).unwrap()];
    assert_eq!(stream.copy_batch(copies).unwrap_err().status(), Status::INVALID_VALUE);
    let mut found = reader.allocate_zeroed::<u32>(1).unwrap();
    reader.copy(&mut found, &target).unwrap();
    assert!(!reader.query().unwrap());
    signal.set(1);
    assert_eq!(reader.download(&found).unwrap(), [7]);
}

/// Memory of a graph is used by launches on other threads, which do not wait for who waits for a stream.
#[test]
fn a_batch_with_memory_of_a_graph_holds_nobody_up() {
    assert_ends(|| [host(), old(0)].iter().for_each(hold_nobody_up));
}

fn hold_nobody_up(context: &Context) {
    let [held, other] = std::array::from_fn(|_| context.create_stream().unwrap());
    let mut device = held.upload(&[1u32, 2]).unwrap();
    let [mut from, mut to, mut third, mut free] = std::array::from_fn(|_| context.allocate_pinned::<u32>(2).unwrap());
    from.as_mut_slice().unwrap().copy_from_slice(&[3, 4]);
    let mut plain = held.upload(&[0u32; 2]).unwrap();
    let mut graph: Graph = context.create_graph().unwrap();
    let elsewhere = other.upload(&[9u32; 2]).unwrap();
    graph.add((), NodeWork::copy(&mut to, &elsewhere).unwrap()).unwrap();
    graph.add((), NodeWork::copy(&mut third, &elsewhere).unwrap()).unwrap();
    graph.add((), NodeWork::copy(&mut device, &elsewhere).unwrap()).unwrap();
    let gate = hold(context, &held);
    held.copy_batch([
        BatchCopy::new(&mut to, &from).unwrap(),
        BatchCopy::from_host(&mut device, &[5; 2]).unwrap(),
        BatchCopy::from_host(&mut third, &[6; 2]).unwrap(),
    ])
    .unwrap();
    // Also with memory that no graph retains, in one batch with some that one does.
    held.copy_batch([BatchCopy::new(&mut free, &from).unwrap(), BatchCopy::new(&mut plain, &device).unwrap()]).unwrap();
    let volume = Volume::new(&from, 2, 1);
    let part = Region { extent: [1, 1, 1], ..Region::default() };
    held.copy_region_batch([
        BatchRegion::new(VolumeMut::new(&mut free, 2, 1), volume, &part).unwrap(),
        BatchRegion::new(VolumeMut::new(&mut device, 2, 1), volume, &part).unwrap(),
    ])
    .unwrap();
    assert!(!held.query().unwrap());
    gate.set(1);
    assert_eq!(held.download(&device).unwrap(), [3, 5]);
    assert_eq!(held.download(&plain).unwrap(), [5; 2]);
    held.synchronize().unwrap();
    assert_eq!(free.as_slice().unwrap(), [3, 4]);
    assert_eq!(to.read(<[u32]>::to_vec).unwrap(), [3, 4]);
    assert_eq!(third.read(<[u32]>::to_vec).unwrap(), [6; 2]);
}

/// A driver that counts the batches of copies that it gets.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Driver>,
    batches: Arc<AtomicUsize>,
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Counting {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        let is_batch = ["copy_batch_async", "copy_3d_batch_async"].contains(&method);
        self.batches.fetch_add(usize::from(is_batch), Ordering::SeqCst);
    }
}

#[test]
fn safety_132_a_stream_of_a_green_context_gets_copies_one_by_one() {
    let batches = Arc::new(AtomicUsize::new(0));
    let count = batches.clone();
    let wrap = move |inner| Arc::new(Layered(Counting { inner, batches: count.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).host_workers(2).wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let (groups, _) = context.device().multiprocessors().unwrap().split(1, 1).unwrap();
    let green = context.create_green_context(&groups).unwrap();
    for (stream, expected) in [(context.create_stream().unwrap(), 1), (green.create_stream().unwrap(), 1)] {
        let (first, second) = (stream.upload(&[1u32, 2]).unwrap(), stream.upload(&[3u32, 4]).unwrap());
        let mut targets = [stream.allocate_zeroed::<u32>(2).unwrap(), stream.allocate_zeroed::<u32>(2).unwrap()];
        let [one, other] = &mut targets;
        stream.copy_batch([BatchCopy::new(one, &first).unwrap(), BatchCopy::new(other, &second).unwrap()]).unwrap();
        assert_eq!(stream.download(&targets[0]).unwrap(), [1, 2]);
        assert_eq!(stream.download(&targets[1]).unwrap(), [3, 4]);
        assert_eq!(batches.load(Ordering::SeqCst), expected);
    }
}
