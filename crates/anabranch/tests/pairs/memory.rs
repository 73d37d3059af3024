//! Calls of buffers and slices.

use crate::table::{Call, call};
use crate::world::{Expected, LENGTH};
use anabranch::{
    BatchCopy, BatchRegion, Buffer, BufferSlice, Discard, MemoryLocation, OwnedBuffer, Prefetch, Region, Status,
    TensorLayout, TensorMap, TensorMapMut, Volume, VolumeMut, current,
};
use futures::executor::block_on;

/// The host and a launch of a graph exclude each other.
const EXCLUDED: &[Status] = &[Status::ILLEGAL_STATE];

pub(crate) const CALLS: &[Call] = &[
    call("Buffer::byte_len", |world, _| {
        assert_eq!(world.shared.byte_len(), LENGTH * 4);
        Ok(())
    }),
    call("Buffer::context", |world, _| {
        assert_eq!(world.shared.context(), world.context);
        Ok(())
    }),
    call("Buffer::device_pointer", |world, _| {
        assert_ne!(world.shared.device_pointer(), world.pinned.device_pointer());
        Ok(())
    }),
    call("Buffer::export", |world, _| world.shared.export().map(drop))
        .may(&[Status::NOT_SUPPORTED, Status::INVALID_VALUE]),
    call("Buffer::export_from_pool", |world, _| world.shared.export_from_pool().map(drop))
        .may(&[Status::INVALID_VALUE]),
    call("Buffer::id", |world, _| {
        assert_ne!(world.shared.id(), world.pinned.id());
        Ok(())
    }),
    call("Buffer::from_slice", |world, side| {
        let _entered = world.stream(&mut side.random).enter();
        let buffer = Buffer::from_slice(&[3u32; LENGTH])?;
        assert_eq!(buffer.to_vec()?, [3; LENGTH]);
        Ok(())
    }),
    call("Buffer::from_elements", |world, side| {
        let _entered = world.stream(&mut side.random).enter();
        let buffer = Buffer::from_elements([4u32; LENGTH])?;
        assert_eq!(buffer.to_vec()?, [4; LENGTH]);
        Ok(())
    }),
    call("Buffer::is_empty", |world, _| {
        assert!(!world.shared.is_empty());
        Ok(())
    }),
    call("Buffer::len", |world, _| {
        assert_eq!(world.shared.len(), LENGTH);
        Ok(())
    }),
    call("Buffer::set_name", |world, _| {
        world.shared.set_name("shared");
        assert!(!world.shared.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("Buffer::slice", |world, side| {
        let part = world.shared.slice(1..)?;
        Expected::Anything.check(&world.stream(&mut side.random).download(part)?);
        Ok(())
    }),
    call("BufferSlice::byte_len", |world, _| {
        assert_eq!(world.shared.slice(1..2)?.byte_len(), 4);
        Ok(())
    }),
    call("BufferSlice::cast", |world, _| {
        assert_eq!(world.shared.slice(..1)?.cast::<u8>()?.len(), 4);
        Ok(())
    }),
    call("BufferSlice::device_pointer", |world, _| {
        assert_eq!(world.shared.slice(1..)?.device_pointer(), world.shared.device_pointer().byte_add(4));
        Ok(())
    }),
    call("BufferSlice::is_empty", |world, _| {
        assert!(world.shared.slice(1..1)?.is_empty());
        Ok(())
    }),
    call("BufferSlice::len", |world, _| {
        assert_eq!(world.shared.slice(1..)?.len(), LENGTH - 1);
        Ok(())
    }),
    call("BufferSlice::slice", |world, side| {
        let part = world.shared.slice(1..)?.slice(..2)?;
        Expected::Anything.check(&world.stream(&mut side.random).download(part)?);
        Ok(())
    }),
    call("BufferSliceMut::as_slice", |world, side| {
        let stream = world.stream(&mut side.random);
        let own = side.own();
        let found = stream.download(own.as_slice())?;
        Expected::Anything.check(&found);
        Ok(())
    }),
    call("BufferSliceMut::byte_len", |_, side| {
        assert_eq!(side.own().byte_len(), LENGTH * 4);
        Ok(())
    }),
    call("BufferSliceMut::device_pointer", |world, side| {
        assert_ne!(side.own().device_pointer(), world.shared.device_pointer());
        Ok(())
    }),
    call("BufferSliceMut::is_empty", |_, side| {
        assert!(!side.own().is_empty());
        Ok(())
    }),
    call("BufferSliceMut::len", |_, side| {
        assert_eq!(side.own().len(), LENGTH);
        Ok(())
    }),
    call("Buffer::to_vec", |world, side| {
        let _entered = world.stream(&mut side.random).enter();
        assert_eq!(world.shared.to_vec()?.len(), LENGTH);
        Ok(())
    }),
    call("Buffer::zeroed", |world, side| {
        let _entered = world.stream(&mut side.random).enter();
        assert_eq!(Buffer::<u8>::zeroed(3)?.len(), 3);
        Ok(())
    }),
    call("current::copy", |world, side| {
        let _entered = world.stream(&mut side.random).enter();
        let mut copy = Buffer::zeroed(LENGTH)?;
        current::copy(&mut copy, &world.shared)
    }),
    call("current::fill", |world, side| {
        let _entered = world.stream(&mut side.random).enter();
        side.write(world, |_, mut own, value| current::fill(own.reborrow(), value))
    }),
    call("ManagedBuffer::as_slice", |world, _| {
        assert_eq!(world.plain_managed.as_slice()?, [0; LENGTH]);
        assert!(world.managed.as_slice().is_err(), "graphs write it");
        Ok(())
    }),
    call("ManagedBuffer::as_slice_async", |world, _| {
        assert_eq!(block_on(world.plain_managed.as_slice_async())?, [0; LENGTH]);
        Ok(())
    }),
    call("ManagedBuffer::byte_len", |world, _| {
        assert_eq!(world.managed.byte_len(), LENGTH * 4);
        Ok(())
    }),
    call("ManagedBuffer::context", |world, _| {
        assert_eq!(world.managed.context(), world.context);
        Ok(())
    }),
    call("ManagedBuffer::device_pointer", |world, _| {
        assert_ne!(world.managed.device_pointer(), world.plain_managed.device_pointer());
        Ok(())
    }),
    call("ManagedBuffer::id", |world, _| {
        assert_ne!(world.managed.id(), world.plain_managed.id());
        Ok(())
    }),
    call("ManagedBuffer::is_empty", |world, _| {
        assert!(!world.managed.is_empty());
        Ok(())
    }),
    call("ManagedBuffer::len", |world, _| {
        assert_eq!(world.managed.len(), LENGTH);
        Ok(())
    }),
    call("ManagedBuffer::read", |world, _| {
        world.managed.read(|elements| {
            Expected::Anything.check(elements);
            std::thread::yield_now();
            Expected::OneOf(vec![elements[0]]).check(elements);
        })
    })
    .may(EXCLUDED),
    call("ManagedBuffer::set_name", |world, _| {
        world.managed.set_name("managed");
        assert!(!world.managed.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("ManagedBuffer::slice", |world, side| {
        Expected::Anything.check(&world.stream(&mut side.random).download(world.managed.slice(1..)?)?);
        Ok(())
    }),
    call("PinnedBuffer::as_slice", |world, _| {
        assert_eq!(world.plain_pinned.as_slice()?, [0; LENGTH]);
        assert!(world.pinned.as_slice().is_err(), "graphs write it");
        Ok(())
    }),
    call("PinnedBuffer::as_slice_async", |world, _| {
        assert_eq!(block_on(world.plain_pinned.as_slice_async())?, [0; LENGTH]);
        Ok(())
    }),
    call("PinnedBuffer::byte_len", |world, _| {
        assert_eq!(world.pinned.byte_len(), LENGTH * 4);
        Ok(())
    }),
    call("PinnedBuffer::context", |world, _| {
        assert_eq!(world.pinned.context(), world.context);
        Ok(())
    }),
    call("PinnedBuffer::device_pointer", |world, _| {
        assert_ne!(world.pinned.device_pointer(), world.plain_pinned.device_pointer());
        Ok(())
    }),
    call("PinnedBuffer::id", |world, _| {
        assert_ne!(world.pinned.id(), world.plain_pinned.id());
        Ok(())
    }),
    call("PinnedBuffer::is_empty", |world, _| {
        assert!(!world.pinned.is_empty());
        Ok(())
    }),
    call("PinnedBuffer::is_idle", |world, _| world.pinned.is_idle().map(drop)),
    call("PinnedBuffer::len", |world, _| {
        assert_eq!(world.pinned.len(), LENGTH);
        Ok(())
    }),
    call("PinnedBuffer::read", |world, _| {
        world.pinned.read(|elements| {
            let before = elements.to_vec();
            Expected::Anything.check(elements);
            std::thread::yield_now();
            assert_eq!(elements, before, "a launch writes what the host reads");
        })
    })
    .may(EXCLUDED),
    call("PinnedBuffer::set_name", |world, _| {
        world.pinned.set_name("pinned");
        assert!(!world.pinned.set_name("another name"), "only the first is kept");
        Ok(())
    }),
    call("PinnedBuffer::slice", |world, side| {
        Expected::Anything.check(&world.stream(&mut side.random).download(world.pinned.slice(1..)?)?);
        Ok(())
    }),
    call("OwnedBuffer::whole", |world, side| {
        let whole: BufferSlice<'_, u32> = world.shared.whole();
        Expected::Anything.check(&world.stream(&mut side.random).download(whole)?);
        Ok(())
    }),
    call("BatchCopy::new", |world, side| BatchCopy::new(side.own(), &world.shared).map(drop)),
    call("BatchCopy::from_host", |_, side| {
        let from = side.from;
        BatchCopy::from_host(side.own(), from).map(drop)
    }),
    call("BatchRegion::new", |world, side| {
        let (to, from) = (VolumeMut::new(side.own(), 4, LENGTH / 4), Volume::new(&world.shared, 4, LENGTH / 4));
        BatchRegion::new(to, from, &Region { extent: [1; 3], ..Region::default() }).map(drop)
    }),
    call("BatchRegion::from_host", |_, side| {
        let (from, region) = (side.from, Region { extent: [1; 3], ..Region::default() });
        BatchRegion::from_host(VolumeMut::new(side.own(), 4, LENGTH / 4), from, 4, LENGTH / 4, &region).map(drop)
    }),
    call("BatchRegion::to_host", |world, _| {
        let (mut to, region) = ([0; LENGTH], Region { extent: [1; 3], ..Region::default() });
        BatchRegion::to_host(&mut to, 4, LENGTH / 4, Volume::new(&world.shared, 4, LENGTH / 4), &region).map(drop)
    }),
    call("TensorLayout::new", |_, _| {
        assert_eq!(TensorLayout::new([4], [4]), TensorLayout::new(vec![4], vec![4]));
        Ok(())
    }),
    call("TensorMap::new", |world, _| {
        TensorMap::new(&world.shared, &TensorLayout::new([LENGTH as u64], [4])).map(drop)
    }),
    call("TensorMapMut::new", |_, side| {
        let own = side.own();
        let length = own.len() as u64;
        TensorMapMut::new(own, &TensorLayout::new([length], [4])).map(drop)
    }),
    call("Prefetch::new", |world, _| Prefetch::new(&world.managed, MemoryLocation::Host).map(drop)),
    call("Discard::new", |_, side| {
        let refused = Discard::new(side.own()).map(drop);
        assert!(refused.is_err(), "device memory is not managed");
        Ok(())
    }),
    call("Volume::new", |world, _| {
        let shown = format!("{:?}", Volume::new(&world.shared, 4, LENGTH / 4));
        assert!(shown.starts_with("Volume"), "{shown}");
        Ok(())
    }),
    call("VolumeMut::new", |_, side| {
        let shown = format!("{:?}", VolumeMut::new(side.own(), 4, LENGTH / 4));
        assert!(shown.starts_with("VolumeMut"), "{shown}");
        Ok(())
    }),
];
