//! Several copies in one call, and copies with hints.

use super::memory_raw::{Raw, address, numbers};
use crate::case::{Case, Failed, Need, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{AttributedCopy, Copy3d, CopyAttributes, CopyPlace, Live, StreamHandle};
use anabranch::{
    BatchCopy, BatchRegion, Capabilities, CaptureMode, CopyHints, DeviceOrdinal, GraphNodeKind, MemoryLocation, Region,
    Status, Volume, VolumeMut,
};

pub(super) const CASES: &[Case] = &[
    Case::new("batch.between_all_kinds_of_memory", "M1", between_all_kinds_of_memory)
        .needs(&[Need::Capability(Capabilities::MANAGED_MEMORY)]),
    Case::new("batch.of_many_sizes", "S1", of_many_sizes),
    Case::new("batch.of_regions", "S1", of_regions),
    Case::new("batch.of_regions_of_plain_memory", "S1", of_regions_of_plain_memory),
    Case::new("batch.between_the_work_of_its_stream", "S1", between_the_work_of_its_stream),
    Case::new("batch.in_default_streams", "S1", in_default_streams),
    Case::new("batch.source_may_change", "M2", source_may_change),
    Case::new("batch.hints_change_nothing", "M1", hints_change_nothing),
    Case::new("batch.waits_for_the_writers", "M3", waits_for_the_writers),
    Case::new("batch.is_captured_as_copies", "C1", is_captured_as_copies),
    Case::new("batch.refused_by_the_driver", "X2", refused_by_the_driver),
];

const OVERLAP: CopyHints = CopyHints { prefer_overlap_with_compute: true, source: None, destination: None };

fn between_all_kinds_of_memory(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let data = numbers(5001);
    let source = stream.upload(&data)?;
    let mut pinned = context.allocate_pinned::<u8>(5001)?;
    pinned.as_mut_slice()?.copy_from_slice(&data);
    let (mut device, mut back) = (stream.allocate_zeroed::<u8>(5001)?, context.allocate_pinned::<u8>(5001)?);
    let (mut managed, mut host) = (context.allocate_managed::<u8>(5001)?, stream.allocate_zeroed::<u8>(5001)?);
    stream.copy_batch([
        BatchCopy::new(&mut device, &pinned)?,
        BatchCopy::new(&mut back, &source)?,
        BatchCopy::new(&mut managed, &source)?,
        BatchCopy::from_host(&mut host, &data)?,
    ])?;
    equal("from pinned memory", stream.download(&device)?, data.clone())?;
    equal("from plain memory", stream.download(&host)?, data.clone())?;
    equal("to pinned memory", back.as_slice()?.to_vec(), data.clone())?;
    equal("to managed memory", managed.as_slice()?.to_vec(), data)
}

fn of_many_sizes(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let sizes = [1, 3, 0, 255, 4096, 65_537, 2, 262_145];
    let total = sizes.iter().sum();
    let data = numbers(total);
    let source = stream.upload(&data)?;
    let mut destination = stream.allocate_zeroed::<u8>(total)?;
    let (mut rest, mut begin, mut copies) = (destination.slice_mut(..)?, 0, Vec::new());
    for size in sizes {
        let (part, tail) = rest.split_at(size)?;
        // The parts in reverse: what is first in the one is last in the other.
        copies.push(BatchCopy::new(part, source.slice(total - begin - size..total - begin)?)?);
        (rest, begin) = (tail, begin + size);
    }
    stream.copy_batch(copies)?;
    let mut expected = Vec::with_capacity(total);
    for size in sizes {
        let end = total - expected.len();
        expected.extend_from_slice(&data[end - size..end]);
    }
    equal("contents", stream.download(&destination)? == expected, true)
}

fn of_regions(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let picture = stream.upload(&(0..60u16).collect::<Vec<_>>())?;
    let (mut column, mut block) = (stream.allocate_zeroed::<u16>(3)?, stream.allocate_zeroed::<u16>(12)?);
    // 5 slices of 3 rows of 4 elements.
    let volume = Volume::new(&picture, 4, 3);
    let down = Region { source_origin: [2, 0, 1], extent: [1, 3, 1], ..Region::default() };
    let inner = Region { source_origin: [1, 1, 2], destination_origin: [1, 0, 0], extent: [2, 2, 2] };
    stream.copy_region_batch([
        BatchRegion::new(VolumeMut::new(&mut column, 1, 3), volume, &down)?,
        BatchRegion::new(VolumeMut::new(&mut block, 3, 2), volume, &inner)?.with_hints(OVERLAP),
    ])?;
    equal("a column", stream.download(&column)?, vec![14, 18, 22])?;
    equal("a block", stream.download(&block)?, vec![0, 29, 30, 0, 33, 34, 0, 41, 42, 0, 45, 46])
}

fn of_regions_of_plain_memory(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    // 700 rows of 1000 bytes, of which the last 600 are copied to 600 bytes each and back to the beginning of rows.
    let data = numbers(700_000);
    let (mut device, mut back) = (stream.allocate_zeroed::<u8>(420_000)?, vec![0; 700_000]);
    let to = Region { source_origin: [400, 0, 0], extent: [600, 700, 1], ..Region::default() };
    let from = Region { extent: [600, 700, 1], ..Region::default() };
    let gate = Gate::shut(environment, &stream)?;
    let mut source = data.clone();
    stream.copy_region_batch([BatchRegion::from_host(
        VolumeMut::new(&mut device, 600, 700),
        &source,
        1000,
        700,
        &to,
    )?])?;
    source.fill(0);
    gate.open();
    let volume = Volume::new(&device, 600, 700);
    stream.copy_region_batch([BatchRegion::to_host(&mut back, 1000, 700, volume, &from)?])?;
    let mut expected = vec![0; 700_000];
    for (to, from) in expected.chunks_mut(1000).zip(data.chunks(1000)) {
        to[..600].copy_from_slice(&from[400..]);
    }
    equal("contents", back == expected, true)
}

fn between_the_work_of_its_stream(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut first, mut second) = (stream.upload(&[1u32; 1000])?, stream.upload(&[2u32; 1000])?);
    let (mut third, mut fourth) = (stream.upload(&[3u32; 1000])?, stream.upload(&[4u32; 1000])?);
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut first, 7)?;
    stream.fill(&mut second, 8)?;
    stream.copy_batch([BatchCopy::new(&mut third, &first)?, BatchCopy::new(&mut fourth, &second)?])?;
    stream.fill(&mut first, 9)?;
    stream.fill(&mut second, 9)?;
    gate.open();
    equal("the first copy", stream.download(&third)?, vec![7; 1000])?;
    equal("the second copy", stream.download(&fourth)?, vec![8; 1000])
}

fn in_default_streams(environment: &Environment) -> Verdict {
    let context = environment.context();
    for stream in [context.legacy_stream()?, context.per_thread_stream()?] {
        let source = stream.upload(&[5u32, 6])?;
        let (mut left, mut right) = (stream.allocate_zeroed::<u32>(2)?, stream.allocate_zeroed::<u32>(1)?);
        let mut from_host = stream.allocate_zeroed::<u32>(1)?;
        stream.copy_batch([
            BatchCopy::new(&mut left, &source)?.with_hints(OVERLAP),
            BatchCopy::new(&mut right, source.slice(1..)?)?,
            BatchCopy::from_host(&mut from_host, &[7])?,
        ])?;
        equal("the first copy", stream.download(&left)?, vec![5, 6])?;
        equal("the second copy", stream.download(&right)?, vec![6])?;
        equal("the copy from plain memory", stream.download(&from_host)?, vec![7])?;
    }
    Ok(())
}

fn source_may_change(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for size in [1, 4096, 262_145, 5_000_001] {
        let data = numbers(size);
        let mut source = data.clone();
        let (mut left, mut right) = (stream.allocate_zeroed::<u8>(size)?, stream.allocate_zeroed::<u8>(size)?);
        stream.copy_batch([BatchCopy::from_host(&mut left, &source)?, BatchCopy::from_host(&mut right, &source)?])?;
        source.fill(0xff);
        drop(source);
        equal(&format!("{size} bytes"), stream.download(&left)? == data, true)?;
        equal(&format!("{size} bytes again"), stream.download(&right)? == data, true)?;
    }
    Ok(())
}

fn hints_change_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&numbers(70_001))?;
    let device = MemoryLocation::Device(environment.context().device().ordinal());
    for place in [None, Some(device), Some(MemoryLocation::Host)] {
        let mut destination = stream.allocate_zeroed::<u8>(70_001)?;
        let hints = CopyHints { source: place, destination: place, ..OVERLAP };
        stream.copy_with_hints(&mut destination, &source, hints)?;
        equal("contents", stream.download(&destination)? == numbers(70_001), true)?;
        let mut part = stream.allocate_zeroed::<u8>(4)?;
        let region = Region { source_origin: [3, 1, 0], extent: [2, 2, 1], ..Region::default() };
        let (to, from) = (VolumeMut::new(&mut part, 2, 2), Volume::new(&source, 100, 7));
        stream.copy_region_with_hints(to, from, &region, hints)?;
        let data = numbers(300);
        equal("a region", stream.download(&part)?, vec![data[103], data[104], data[203], data[204]])?;
    }
    Ok(())
}

fn waits_for_the_writers(environment: &Environment) -> Verdict {
    let (left, right, stream) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let (mut first, mut second) = (left.upload(&[1u32; 100])?, right.upload(&[2u32; 100])?);
    let mut both = stream.allocate_zeroed::<u32>(200)?;
    let (one, other) = (Gate::shut(environment, &left)?, Gate::shut(environment, &right)?);
    left.fill(&mut first, 7)?;
    right.fill(&mut second, 8)?;
    let (head, tail) = both.slice_mut(..)?.split_at(100)?;
    stream.copy_batch([BatchCopy::new(head, &first)?, BatchCopy::new(tail, &second)?])?;
    one.open();
    equal("the batch is over before the second writer", stream.query()?, false)?;
    other.open();
    equal("contents", stream.download(&both)?, [vec![7; 100], vec![8; 100]].concat())
}

fn is_captured_as_copies(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut source = stream.upload(&[1u32, 2])?;
    let (mut left, mut right) = (stream.allocate_zeroed::<u32>(2)?, stream.allocate_zeroed::<u32>(1)?);
    let graph = stream.capture(CaptureMode::ThreadLocal, |scope| {
        scope.copy_batch([BatchCopy::new(&mut left, &source)?, BatchCopy::new(&mut right, source.slice(1..)?)?])
    })?;
    let kinds = graph.nodes()?.iter().map(|&node| graph.node_kind(node)).collect::<Result<Vec<_>, _>>()?;
    equal("the nodes", kinds, vec![GraphNodeKind::COPY; 2])?;
    let executable = graph.instantiate()?;
    for value in [7, 8] {
        stream.fill(&mut source, value)?;
        executable.launch(&stream)?;
        equal("the first copy", stream.download(&left)?, vec![value; 2])?;
        equal("the second copy", stream.download(&right)?, vec![value])?;
    }
    Ok(())
}

/// What the library never asks for: batches in the legacy stream, and invalid copies, of which none is made.
fn refused_by_the_driver(environment: &Environment) -> Verdict {
    const BYTES: usize = 2 << 20;
    let raw = Raw::new(environment)?;
    let memory = [(); 3].map(|()| raw.allocate(BYTES));
    let [first, second, third] = memory.map(|memory| address("allocating", memory));
    let (first, second, third) = (first?.0, second?.0, third?.0);
    let copy = |destination, source, bytes| AttributedCopy {
        destination,
        source,
        bytes,
        attributes: CopyAttributes::default(),
    };
    let batch = |copies: &[AttributedCopy], stream: Live<'_, StreamHandle>| {
        // SAFETY: the ranges are allocated, or the driver refuses them. They do not overlap.
        unsafe { raw.driver().copy_batch_async(&raw.context().into(), copies, stream) }
    };
    let stream = raw.stream().live();
    let made = batch(&[copy(second, first, 16), copy(third, first, 16)], stream);
    if made.as_ref().is_err_and(|failure| failure.is_missing_symbol()) {
        return Ok(());
    }
    equal("a batch", status_of(made), Status::SUCCESS)?;
    raw.synchronize()?;
    let beyond = copy(third, first, 1 << 40);
    let nowhere = DeviceOrdinal(1000);
    let hinted = CopyAttributes { source_hint: Some(MemoryLocation::Device(nowhere)), ..CopyAttributes::default() };
    let place = |address| CopyPlace { address, host: false, pitch: 64, height: 4, origin: [0; 3] };
    let regions = [anabranch::hal::AttributedCopy3d {
        copy: Copy3d { source: place(first), destination: place(second), extent: [8, 2, 1] },
        attributes: CopyAttributes::default(),
    }];
    // SAFETY: the driver refuses the call.
    let regions = unsafe { raw.driver().copy_3d_batch_async(&raw.context().into(), &regions, Live::LEGACY) };
    let statuses = [
        status_of(batch(&[copy(second, first, 16)], Live::LEGACY)),
        status_of(regions),
        status_of(batch(&[copy(second, first, 16), beyond], stream)),
        status_of(batch(&[copy(second, 0, 16)], stream)),
        status_of(batch(&[AttributedCopy { attributes: hinted, ..copy(second, first, 16) }], stream)),
    ];
    raw.synchronize()?;
    // SAFETY: nothing uses the memory any more.
    let freed = unsafe { [first, second, third].map(|memory| raw.free(anabranch::DevicePointer(memory))) };
    let invalid = Status::INVALID_VALUE;
    equal("refused", statuses, [invalid, invalid, invalid, invalid, Status::INVALID_DEVICE])?;
    match freed {
        [Status::SUCCESS, Status::SUCCESS, Status::SUCCESS] => Ok(()),
        other => Err(Failed(format!("freeing: {other:?}"))),
    }
}
