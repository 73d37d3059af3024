//! Calls of operations and of pools of streams.

use crate::table::{Call, call};
use crate::world::LENGTH;
use anabranch::{Buffer, Operation, Result, Stream, StreamPolicy, StreamPool};
use futures::executor::block_on;

const POLICIES: [StreamPolicy; 2] = [StreamPolicy::RoundRobin, StreamPolicy::LeastLoaded];

fn filled(value: u32) -> Operation<'static, Buffer<u32>> {
    Operation::new(|stream| stream.allocate_zeroed::<u32>(LENGTH)).then(move |stream, mut buffer| {
        stream.fill(&mut buffer, value)?;
        Ok(buffer)
    })
}

/// Whether all streams of a pool are different ones.
fn are_different(pool: &StreamPool) -> bool {
    let streams: Vec<&Stream> = pool.streams().collect();
    (1..streams.len()).all(|number| !streams[..number].contains(&streams[number]))
}

pub(crate) const CALLS: &[Call] = &[
    call("Operation::all", |world, side| {
        let all = Operation::all((0..5).map(filled));
        let parts = if side.coin() { all.run(&world.lanes)? } else { all.queue(&world.lanes)? };
        for (part, value) in parts.iter().zip(0..) {
            assert_eq!(world.lanes.stream().download(part)?, [value; LENGTH]);
        }
        Ok(())
    }),
    call("Operation::new", |world, side| {
        let both = filled(1).zip(filled(2)).then(|stream, (mut left, right)| {
            stream.copy(&mut left, &right)?;
            Ok(left)
        });
        let future = both.run_async(&world.lanes);
        if side.coin() {
            let both = block_on(future)?;
            assert_eq!(world.lanes.stream().download(&both)?, [2; LENGTH]);
        }
        Ok(())
    }),
    call("Operation::value", |world, side| {
        let stream = world.stream(&mut side.random);
        let seven = Operation::value(7).and_then(|seven| Operation::value(seven).zip(Operation::value(seven)));
        assert_eq!(seven.queue(stream)?, (7, 7));
        Ok(())
    }),
    call("StreamPool::from_streams", |world, _| {
        let streams = (0..2).map(|_| world.context.create_stream()).collect::<Result<Vec<_>>>()?;
        let pool = StreamPool::from_streams(streams, StreamPolicy::LeastLoaded)?;
        filled(1).zip(filled(2)).queue(&pool).map(drop)
    }),
    call("StreamPool::new", |world, side| {
        let policy = POLICIES[usize::from(side.coin())];
        let pool = StreamPool::new(&world.context, 2, policy)?;
        filled(1).zip(filled(2)).queue(&pool).map(drop)
    }),
    call("StreamPool::policy", |world, _| {
        assert_eq!(world.lanes.policy(), StreamPolicy::LeastLoaded);
        Ok(())
    }),
    call("StreamPool::stream", |world, _| world.lanes.stream().launch_host_func(|| {})),
    call("StreamPool::streams", |world, _| {
        assert!(world.lanes.streams().len() == 2 && are_different(&world.lanes));
        Ok(())
    }),
];
