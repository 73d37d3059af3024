//! Calls of streams that copy, fill, allocate and launch.

use crate::table::{Call, call};
use crate::world::{Expected, LENGTH};
use anabranch::{
    BatchCopy, BatchRegion, Buffer, CopyHints, LaunchConfig, MemoryAttachment, MemoryLocation, PinnedBuffer, Prefetch,
    Region, Result, Status, Volume, VolumeMut,
};
use futures::executor::block_on;

const REGION: Region = Region { source_origin: [0; 3], destination_origin: [0; 3], extent: [4, LENGTH / 4, 1] };

/// Waits for a future, or gives it up.
fn finish<T>(future: impl Future<Output = Result<T>>, waits: bool) -> Result<Option<T>> {
    if waits { block_on(future).map(Some) } else { Ok(None) }
}

pub(crate) const CALLS: &[Call] = &[
    call("Stream::allocate_zeroed", |world, side| {
        let memory = world.stream(&mut side.random).allocate_zeroed::<u32>(LENGTH)?;
        // Freed behind a use on another stream.
        if side.coin() { side.copy(world, |stream, own| stream.copy(own, &memory)) } else { Ok(()) }
    }),
    call("Stream::allocate_zeroed_from", |world, side| {
        world.stream(&mut side.random).allocate_zeroed_from::<u32>(&world.pool, LENGTH).map(drop)
    }),
    call("Stream::copy", |world, side| {
        let chosen = side.random.usize(..3);
        side.copy(world, |stream, own| match chosen {
            0 => stream.copy(own, &world.shared),
            1 => stream.copy(own, &world.pinned),
            _ => stream.copy(own, &world.managed),
        })
    }),
    call("Stream::copy_async", |world, side| {
        let stream = world.stream(&mut side.random);
        let (to, from) = (world.context.allocate_pinned::<u32>(LENGTH)?, stream.allocate_zeroed::<u32>(LENGTH)?);
        let copied: Option<(PinnedBuffer<u32>, Buffer<u32>)> = finish(stream.copy_async(to, from), side.coin())?;
        if let Some((to, _)) = copied {
            assert_eq!(to.as_slice()?, [0; LENGTH]);
        }
        Ok(())
    }),
    call("Stream::copy_from_host", |world, side| {
        let from = side.from;
        side.write_one_of(world, Expected::OneOf(vec![from[0]]), |own| world.streams[0].copy_from_host(own, from))
    }),
    call("Stream::copy_peer", |world, side| {
        let stream = world.other.create_stream()?;
        let there = stream.upload(&[7u32; LENGTH])?;
        side.write_one_of(world, Expected::OneOf(vec![7]), |own| stream.copy_peer(own, &there))
    }),
    call("Stream::attach", |world, side| {
        let mut memory = world.context.allocate_managed::<u32>(LENGTH)?;
        let stream = world.stream(&mut side.random);
        stream.attach(&mut memory, MemoryAttachment::Host)?;
        // It is refused, unless the other call has made the stream capture.
        let _ = stream.fill(&mut memory, 1);
        stream.attach(&mut memory, MemoryAttachment::Global)?;
        stream.fill(&mut memory, 1)
    }),
    call("Stream::copy_batch", |world, side| {
        // Its halves have different values, and where a capture begins, nothing may come behind them: nobody looks at it.
        let mut mixed = world.context.allocate_pinned::<u32>(LENGTH)?;
        let from = side.from;
        side.copy(world, |stream, own| {
            let (head, tail) = mixed.slice_mut(..)?.split_at(LENGTH / 2)?;
            let copies = [
                BatchCopy::new(head, world.shared.slice(LENGTH / 2..)?)?,
                BatchCopy::new(tail, world.pinned.slice(..LENGTH / 2)?)?,
            ];
            stream.copy_batch(copies)?;
            stream.copy_batch([BatchCopy::from_host(own, from)?])
        })
    }),
    call("Stream::copy_region_batch", |world, side| {
        side.copy(world, |stream, own| {
            let (to, from) = (VolumeMut::new(own, 4, LENGTH / 4), Volume::new(&world.managed, 4, LENGTH / 4));
            stream.copy_region_batch([BatchRegion::new(to, from, &REGION)?])
        })
    }),
    call("Stream::copy_region_peer", |world, side| {
        let stream = world.other.create_stream()?;
        let there = stream.upload(&[7u32; LENGTH])?;
        side.write_one_of(world, Expected::OneOf(vec![7]), |own| {
            let (to, from) = (VolumeMut::new(own, 4, LENGTH / 4), Volume::new(&there, 4, LENGTH / 4));
            stream.copy_region_peer(to, from, &REGION)
        })
    }),
    call("Stream::copy_region_with_hints", |world, side| {
        side.copy(world, |stream, own| {
            let (to, from) = (VolumeMut::new(own, 4, LENGTH / 4), Volume::new(&world.shared, 4, LENGTH / 4));
            stream.copy_region_with_hints(to, from, &REGION, CopyHints::default())
        })
    }),
    call("Stream::copy_with_hints", |world, side| {
        side.copy(world, |stream, own| stream.copy_with_hints(own, &world.shared, CopyHints::default()))
    }),
    call("Stream::copy_region", |world, side| {
        side.copy(world, |stream, own| {
            let (to, from) = (VolumeMut::new(own, 4, LENGTH / 4), Volume::new(&world.shared, 4, LENGTH / 4));
            stream.copy_region(to, from, &REGION)
        })
    }),
    call("Stream::copy_region_from_host", |world, side| {
        let from = side.from;
        side.write_one_of(world, Expected::OneOf(vec![from[0]]), |own| {
            world.streams[1].copy_region_from_host(VolumeMut::new(own, 4, LENGTH / 4), from, 4, LENGTH / 4, &REGION)
        })
    }),
    call("Stream::copy_region_to_host", |world, side| {
        let mut found = [0; LENGTH];
        let volume = Volume::new(&world.shared, 4, LENGTH / 4);
        world.stream(&mut side.random).copy_region_to_host(&mut found, 4, LENGTH / 4, volume, &REGION)?;
        Expected::Anything.check(&found);
        Ok(())
    }),
    call("Stream::copy_to_host", |world, side| {
        let mut found = [0; LENGTH];
        let stream = world.stream(&mut side.random);
        if side.coin() {
            stream.copy_to_host(&mut found, &world.shared)?;
        } else {
            stream.copy_to_host(&mut found, &world.managed)?;
        }
        Expected::Anything.check(&found);
        Ok(())
    }),
    call("Stream::clone_buffer", |world, side| {
        let stream = world.stream(&mut side.random);
        let clone = stream.clone_buffer(&world.shared)?;
        Expected::Anything.check(&stream.download(&clone)?);
        Ok(())
    })
    .may(&[Status::STREAM_CAPTURE_UNSUPPORTED]),
    call("Stream::download", |world, side| {
        let stream = world.stream(&mut side.random);
        let found = if side.coin() { stream.download(&world.pinned)? } else { stream.download(&world.shared)? };
        Expected::Anything.check(&found);
        Ok(())
    }),
    call("Stream::download_async", |world, side| {
        let download = world.stream(&mut side.random).download_async(&world.shared);
        if let Some(found) = finish(download, side.coin())? {
            Expected::Anything.check(&found);
        }
        Ok(())
    }),
    call("Stream::fill", |world, side| side.write(world, |stream, own, value| stream.fill(own, value))),
    call("Stream::fill_async", |world, side| {
        let stream = world.stream(&mut side.random);
        let filled = stream.fill_async(world.stream(&mut side.random).allocate_zeroed::<u32>(LENGTH)?, 9);
        match finish(filled, side.coin())? {
            Some(filled) => {
                assert_eq!(world.context.create_stream()?.download(&filled)?, [9; LENGTH]);
                Ok(())
            }
            None => Ok(()),
        }
    }),
    call("Stream::fill_zero", |world, side| {
        let stream = world.stream(&mut side.random);
        side.write_one_of(world, Expected::OneOf(vec![0]), |own| stream.fill_zero(own))
    }),
    call("Stream::launch_checked", |world, side| {
        side.write(world, |stream, own, value| {
            stream.launch_checked(&world.set, &LaunchConfig::new(1, 1), (own, value))
        })
    }),
    call("Stream::prefetch", |world, side| {
        let to_device = side.coin();
        world.stream(&mut side.random).prefetch(&world.managed, to_device)
    }),
    call("Stream::prefetch_batch", |world, side| {
        let ranges = [
            Prefetch::new(&world.managed, MemoryLocation::Host)?,
            Prefetch::new(world.plain_managed.slice(1..)?, MemoryLocation::Device(world.context.device().ordinal()))?,
        ];
        world.stream(&mut side.random).prefetch_batch(ranges)
    }),
    call("Stream::upload", |world, side| {
        let values = [side.random.u32(..); LENGTH];
        let uploaded = world.stream(&mut side.random).upload(&values)?;
        let found = world.stream(&mut side.random).download(&uploaded)?;
        assert_eq!(found, values);
        Ok(())
    }),
    call("Stream::upload_elements", |world, side| {
        let first = side.random.u32(..1000);
        let uploaded = world.stream(&mut side.random).upload_elements(first..first + 8)?;
        let found = world.stream(&mut side.random).download(&uploaded)?;
        assert_eq!(found, (first..first + 8).collect::<Vec<_>>());
        Ok(())
    }),
    call("Stream::upload_async", |world, side| {
        let values = [side.random.u32(..); LENGTH];
        let upload = world.stream(&mut side.random).upload_async(values);
        if let Some(uploaded) = finish(upload, side.coin())? {
            assert_eq!(world.stream(&mut side.random).download(&uploaded)?, values);
        }
        Ok(())
    }),
    call("Stream::sync_scope", |world, side| {
        let mut found = [0; LENGTH];
        let (stream, other) = (world.stream(&mut side.random), world.stream(&mut side.random));
        stream.sync_scope(|scope| {
            scope.copy_to_host(&mut found, &world.shared)?;
            scope.on(other).map(drop)
        })?;
        Expected::Anything.check(&found);
        Ok(())
    }),
    // From here on, of the scope that both threads share.
    call("StreamScope::copy_from_host", |world, side| {
        let from = side.from;
        side.write_one_of(world, Expected::OneOf(vec![from[0]]), |own| world.scope.copy_from_host(own, from))
    }),
    call("StreamScope::copy_to_host", |world, side| match side.into() {
        Some(into) => world.scope.copy_to_host(into, &world.shared),
        None => Ok(()),
    }),
    call("StreamScope::on", |world, side| {
        let stream = world.world.stream(&mut side.random);
        world.scope.on(stream).map(drop)
    }),
    call("StreamScope::stream", |world, _| {
        assert_eq!(*world.scope.stream(), world.scoped);
        Ok(())
    }),
    call("ScopedStream::copy_from_host", |world, side| {
        let stream = world.scope.on(world.world.stream(&mut side.random))?;
        let from = side.from;
        side.write_one_of(world, Expected::OneOf(vec![from[0]]), |own| stream.copy_from_host(own, from))
    }),
    call("ScopedStream::copy_to_host", |world, side| {
        let stream = world.scope.on(world.world.stream(&mut side.random))?;
        match side.into() {
            Some(into) => stream.copy_to_host(into, &world.shared),
            None => Ok(()),
        }
    }),
    call("ScopedStream::stream", |world, _| {
        let stream = world.scope.on(&world.world.streams[0])?;
        assert_eq!(*stream.stream(), world.streams[0]);
        Ok(())
    }),
];
