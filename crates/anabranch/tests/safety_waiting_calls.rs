//! Calls that wait, on drivers that keep other threads waiting while one waits in a call.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "common/one_lock.rs"]
mod one_lock;

use anabranch::{
    BatchCopy, BatchRegion, Context, DualModule, HostFunction, Instance, Module, PinnedBuffer, Region, Result, Stream,
    Volume, VolumeMut,
};
use common::{assert_ends, hold};
use one_lock::OneLock;
use proptest::prelude::*;
use std::time::Duration;

/// More than a driver copies in one piece.
const MANY: usize = 3 << 20;

fn context() -> Context {
    let instance = Instance::builder().cuda(false).isolated().wrap(OneLock::over).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

fn module() -> DualModule {
    DualModule::new().host_function(HostFunction::new("nothing", &[], |_, _| ())).host_global("table", MANY)
}

/// What the calls use.
struct Things {
    context: Context,
    stream: Stream,
    module: Module,
    pinned: [PinnedBuffer<u8>; 2],
}

type Call = fn(&mut Things) -> Result<()>;

/// Has a thread make a call that waits for the work of a stream. What that waits for comes only when another thread has made
/// calls of its own.
fn keeps_nobody_waiting(call: Call) {
    assert_ends(move || {
        let context = context();
        let pinned = [(); 2].map(|()| context.allocate_pinned::<u8>(64).unwrap());
        let stream = context.create_stream().unwrap();
        let module = module().load(&context).unwrap();
        let signal = hold(&context, &stream);
        let mut things = Things { context: context.clone(), stream, module, pinned };
        let other = context.create_stream().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                call(&mut things).unwrap();
                // What is returned at once has to be complete, too.
                things.stream.synchronize().unwrap();
            });
            // By now, the call waits.
            std::thread::sleep(Duration::from_millis(20));
            let mut memory = other.upload(&[1u32]).unwrap();
            other.fill(&mut memory, 2u32).unwrap();
            other.wait_event(&other.record_event().unwrap()).unwrap();
            other.launch_host_func(|| ()).unwrap();
            assert_eq!(other.download(&memory).unwrap(), [2]);
            signal.set(1);
        });
    });
}

const PICTURE: Region = Region { source_origin: [1, 0, 0], destination_origin: [0; 3], extent: [2, 4, 1] };

#[test]
fn safety_136_copies_from_and_to_plain_memory_keep_nobody_waiting() {
    let calls: &[Call] = &[
        |things| things.stream.download(&things.pinned[0]).map(drop),
        |things| things.stream.copy_from_host(&mut things.pinned[0], &[1; 64]),
        |things| {
            let buffer = things.stream.upload(&[1u8; 64])?;
            assert_eq!(things.stream.download(&buffer)?, [1; 64]);
            Ok(())
        },
        |things| things.stream.upload(&vec![7u8; MANY]).map(drop),
        |things| {
            let buffer = things.stream.allocate_zeroed::<u8>(MANY)?;
            things.stream.download(&buffer).map(drop)
        },
        |things| {
            let (mut buffer, mut plain) = (things.stream.allocate_zeroed::<u8>(MANY)?, vec![0u8; MANY]);
            let sources: Vec<_> = (0..20u8).map(|byte| vec![byte; MANY]).collect();
            things.stream.sync_scope(|scope| {
                for source in &sources {
                    scope.copy_from_host(&mut buffer, source)?;
                }
                scope.copy_to_host(&mut plain, &buffer)
            })?;
            assert_eq!(plain, [19u8; MANY]);
            Ok(())
        },
        |things| {
            let (mut buffer, mut plain) = (things.stream.allocate_zeroed::<u8>(16)?, [0; 16]);
            things.stream.copy_region_from_host(VolumeMut::new(&mut buffer, 4, 4), &[1; 16], 4, 4, &PICTURE)?;
            things.stream.copy_region_to_host(&mut plain, 4, 4, Volume::new(&buffer, 4, 4), &PICTURE)
        },
        |things| things.module.set_global(&things.stream, "table", &[1u8; MANY]),
        |things| {
            let (buffer, mut plain) = (things.stream.allocate_zeroed::<u8>(16)?, [1; 16]);
            let copy = BatchRegion::to_host(&mut plain, 4, 4, Volume::new(&buffer, 4, 4), &PICTURE)?;
            things.stream.copy_region_batch([copy])
        },
    ];
    calls.iter().for_each(|&call| keeps_nobody_waiting(call));
}

#[test]
fn safety_136_copies_between_pinned_memory_keep_nobody_waiting() {
    let calls: &[Call] = &[
        |Things { stream, pinned: [to, from], .. }| stream.copy(to, &*from),
        |Things { stream, pinned: [to, from], .. }| {
            stream.copy_region(VolumeMut::new(to, 4, 4), Volume::new(&*from, 4, 4), &PICTURE)
        },
        |Things { stream, pinned: [to, from], .. }| stream.copy_batch([BatchCopy::new(to, &*from)?]),
        |Things { stream, pinned: [to, _], .. }| stream.copy_batch([BatchCopy::from_host(to, &[1; 64])?]),
        |Things { stream, pinned: [to, from], .. }| {
            let copy = BatchRegion::new(VolumeMut::new(to, 4, 4), Volume::new(&*from, 4, 4), &PICTURE)?;
            stream.copy_region_batch([copy])
        },
        |Things { stream, pinned: [to, from], .. }| {
            to.write(|to| to.fill(1))?;
            stream.copy(&mut *from, &*to)?;
            assert_eq!(from.as_slice()?, [1; 64]);
            Ok(())
        },
    ];
    calls.iter().for_each(|&call| keeps_nobody_waiting(call));
}

#[test]
fn safety_137_calls_that_wait_for_the_whole_context_keep_nobody_waiting() {
    let calls: &[Call] = &[
        |things| module().load(&things.context).map(drop),
        |things| {
            let all = things.context.device().multiprocessors()?;
            let (groups, _) = all.split(1, all.minimum_partition())?;
            things.context.create_green_context(&groups).map(drop)
        },
        |things| {
            let registered = things.context.register_pinned(vec![1u8; 64]).map_err(|(error, _)| error)?;
            assert_eq!(registered.into_vec().map_err(|(error, _)| error)?, [1; 64]);
            Ok(())
        },
        |things| {
            let mut memory = [1u8; 64];
            let stream = things.context.create_stream()?;
            things.context.register_scope(&mut memory, |memory| stream.fill(memory, 2))?;
            assert_eq!(memory, [2; 64]);
            Ok(())
        },
    ];
    calls.iter().for_each(|&call| keeps_nobody_waiting(call));
}

/// An extent whose product is a few million bytes, one origin on each side, and the rest of the rows and slices.
fn large_region() -> impl Strategy<Value = (Region, [usize; 4])> {
    let extent = prop_oneof![
        (1..3_usize << 20, 1..3usize, 1..3usize),
        (1..4096usize, 1..600usize, 1..4usize),
        (1..60usize, 1..60usize, 1..600usize),
    ];
    (extent, prop::array::uniform6(0..3usize), prop::array::uniform4(0..3usize)).prop_map(
        |((x, y, z), origins, rest)| {
            let [a, b, c, d, e, f] = origins;
            (Region { source_origin: [a, b, c], destination_origin: [d, e, f], extent: [x, y, z] }, rest)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Plain memory to the device and back, by regions that are copied in parts.
    #[test]
    fn large_regions_arrive_whole((region, rest) in large_region()) {
        let context = context();
        let stream = context.create_stream().unwrap();
        let [x, y, z] = region.extent;
        let (from, to) = (region.source_origin, region.destination_origin);
        let (from_row, from_rows) = (from[0] + x + rest[0], from[1] + y + rest[1]);
        let (to_row, to_rows) = (to[0] + x + rest[2], to[1] + y + rest[3]);
        let source: Vec<u8> = (0..from_row * from_rows * (from[2] + z)).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut buffer = stream.allocate_zeroed::<u8>(to_row * to_rows * (to[2] + z)).unwrap();
        let there = VolumeMut::new(&mut buffer, to_row, to_rows);
        stream.copy_region_from_host(there, &source, from_row, from_rows, &region).unwrap();
        let mut back = vec![0u8; source.len()];
        let and_back = Region { source_origin: to, destination_origin: from, extent: region.extent };
        let here = Volume::new(&buffer, to_row, to_rows);
        stream.copy_region_to_host(&mut back, from_row, from_rows, here, &and_back).unwrap();
        for (at, (&byte, &copied)) in source.iter().zip(&back).enumerate() {
            let position = [at % from_row, at / from_row % from_rows, at / from_row / from_rows];
            let is_inside = (0..3).all(|axis| (from[axis]..from[axis] + region.extent[axis]).contains(&position[axis]));
            prop_assert_eq!(copied, if is_inside { byte } else { 0 }, "at {:?}", position);
        }
        prop_assert_eq!(buffer.len() - x * y * z, stream.download(&buffer).unwrap().len() - x * y * z);
    }
}
