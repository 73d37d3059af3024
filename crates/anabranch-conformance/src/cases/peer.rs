//! Work across two devices, and across two contexts of one device.

use super::memory_raw::numbers;
use crate::case::{Case, Need, Verdict, equal, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{
    Capabilities, CaptureMode, Context, ContextFlags, LaunchConfig, MemoryPoolOptions, Region, Status, Volume,
    VolumeMut,
};

const TWO: &[Need] = &[Need::TwoDevices];
const TWO_WITH_POOLS: &[Need] = &[Need::TwoDevices, Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("peer.copies_between_contexts", "M5", copies_between_contexts),
    Case::new("peer.copies_regions_between_contexts", "M5", copies_regions_between_contexts),
    Case::new("peer.copy_between_contexts_waits", "M5", copy_between_contexts_waits),
    Case::new("peer.copy_of_unequal_lengths", "X2", copy_of_unequal_lengths),
    Case::new("peer.stream_of_neither_context", "E4", stream_of_neither_context),
    Case::new("peer.no_access_within_a_device", "X2", no_access_within_a_device),
    Case::new("peer.copies_between_devices", "M5", copies_between_devices).needs(TWO),
    Case::new("peer.copies_regions_between_devices", "M5", copies_regions_between_devices).needs(TWO),
    Case::new("peer.copy_between_devices_waits", "M5", copy_between_devices_waits).needs(TWO),
    Case::new("peer.event_across_devices", "M5", event_across_devices).needs(TWO),
    Case::new("peer.stream_across_devices", "M5", stream_across_devices).needs(TWO),
    Case::new("peer.memory_of_the_other_device", "E4", memory_of_the_other_device).needs(TWO),
    Case::new("peer.pinned_memory_of_both", "M1", pinned_memory_of_both).needs(TWO),
    Case::new("peer.dropped_while_the_other_device_reads", "M3", dropped_while_the_other_device_reads).needs(TWO),
    Case::new("peer.access_on_and_off", "X2", access_on_and_off).needs(TWO),
    Case::new("peer.access_while_a_stream_captures", "M5", access_while_a_stream_captures).needs(TWO),
    Case::new("peer.access_to_a_pool", "M5", access_to_a_pool).needs(TWO_WITH_POOLS),
];

fn other_context(environment: &Environment) -> anabranch::Result<Context> {
    environment.device().create_context(ContextFlags::empty())
}

fn copies(environment: &Environment, other: &Context) -> Verdict {
    let (near, far) = (environment.stream()?, other.create_stream()?);
    for size in [1, 4097, 1_000_003] {
        let source = near.upload(&numbers(size))?;
        let mut there = far.allocate_zeroed::<u8>(size)?;
        near.copy_peer(&mut there, &source)?;
        equal("there", far.download(&there)? == numbers(size), true)?;
        let mut back = near.allocate_zeroed::<u8>(size)?;
        far.copy_peer(&mut back, &there)?;
        equal("and back", near.download(&back)? == numbers(size), true)?;
    }
    let empty = near.upload::<u8>(&[])?;
    let mut nothing = far.upload::<u8>(&[])?;
    Ok(near.copy_peer(&mut nothing, &empty)?)
}

fn copies_regions(environment: &Environment, other: &Context) -> Verdict {
    let (near, far, third) =
        (environment.stream()?, other.create_stream()?, other_context(environment)?.create_stream()?);
    // 5 slices of 3 rows of 4 elements.
    let mut picture = near.upload(&(0..60u16).collect::<Vec<_>>())?;
    let mut block = far.allocate_zeroed::<u16>(12)?;
    let region = Region { source_origin: [1, 1, 2], destination_origin: [1, 0, 0], extent: [2, 2, 2] };
    let gate = Gate::shut(environment, &near)?;
    near.fill(picture.slice_mut(41..42)?, 99)?;
    far.copy_region_peer(VolumeMut::new(&mut block, 3, 2), Volume::new(&picture, 4, 3), &region)?;
    near.fill(&mut picture, 7)?;
    gate.open();
    let expected = vec![0, 29, 30, 0, 33, 34, 0, 99, 42, 0, 45, 46];
    equal("there", far.download(&block)?, expected)?;
    let corner = Region { extent: [1, 1, 1], ..Region::default() };
    near.copy_region_peer(VolumeMut::new(&mut block, 3, 2), Volume::new(&picture, 4, 3), &corner)?;
    equal("there again", far.download(&block)?[..2].to_vec(), vec![7, 29])?;
    let (to, from) = (VolumeMut::new(&mut block, 3, 2), Volume::new(&picture, 4, 3));
    refused("a stream of neither context", third.copy_region_peer(to, from, &corner), Status::INVALID_HANDLE)?;
    let beyond = Region { extent: [4, 1, 1], ..Region::default() };
    let (to, from) = (VolumeMut::new(&mut block, 3, 2), Volume::new(&picture, 4, 3));
    refused("a region that is too large", near.copy_region_peer(to, from, &beyond), Status::INVALID_VALUE)
}

fn copies_regions_between_contexts(environment: &Environment) -> Verdict {
    copies_regions(environment, &other_context(environment)?)
}

fn copies_regions_between_devices(environment: &Environment) -> Verdict {
    copies_regions(environment, &environment.peer()?.context()?)
}

fn copy_waits(environment: &Environment, other: &Context) -> Verdict {
    let (near, far) = (environment.stream()?, other.create_stream()?);
    let mut source = near.upload(&[1u32; 1000])?;
    let mut there = far.allocate_zeroed::<u32>(1000)?;
    let mut seen = other.allocate_pinned::<u32>(1000)?;
    far.synchronize()?;
    let gate = Gate::shut(environment, &near)?;
    near.fill(&mut source, 2)?;
    far.copy_peer(&mut there, &source)?;
    far.copy(&mut seen, &there)?;
    near.fill(&mut source, 3)?;
    equal("complete before the write", far.query()?, false)?;
    gate.open();
    equal("what was copied", seen.as_slice()?.to_vec(), vec![2; 1000])?;
    equal("in the end", near.download(&source)?, vec![3; 1000])?;
    Ok(far.synchronize()?)
}

fn copies_between_contexts(environment: &Environment) -> Verdict {
    copies(environment, &other_context(environment)?)
}

fn copy_between_contexts_waits(environment: &Environment) -> Verdict {
    copy_waits(environment, &other_context(environment)?)
}

fn copies_between_devices(environment: &Environment) -> Verdict {
    copies(environment, &environment.peer()?.context()?)
}

fn copy_between_devices_waits(environment: &Environment) -> Verdict {
    copy_waits(environment, &environment.peer()?.context()?)
}

fn copy_of_unequal_lengths(environment: &Environment) -> Verdict {
    let (near, far) = (environment.stream()?, other_context(environment)?.create_stream()?);
    let (source, mut there) = (near.upload(&[1u8, 2])?, far.upload(&[3u8])?);
    refused("copy", near.copy_peer(&mut there, &source), Status::INVALID_VALUE)?;
    equal("contents", far.download(&there)?, vec![3])
}

fn stream_of_neither_context(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, other_context(environment)?.create_stream()?);
    let third = other_context(environment)?.create_stream()?;
    let (source, mut there) = (first.upload(&[1u8])?, second.upload(&[3u8])?);
    refused("copy", third.copy_peer(&mut there, &source), Status::INVALID_HANDLE)?;
    equal("contents", second.download(&there)?, vec![3])
}

fn no_access_within_a_device(environment: &Environment) -> Verdict {
    let (device, context) = (environment.device(), environment.context());
    equal("a device is its own peer", device.can_access_peer(device)?, false)?;
    let other = other_context(environment)?;
    refused("to another context", context.enable_peer_access(&other), Status::PEER_ACCESS_UNSUPPORTED)?;
    refused("to itself", context.enable_peer_access(context), Status::PEER_ACCESS_UNSUPPORTED)?;
    // SAFETY: no work uses the other's memory.
    let disabled = unsafe { [context.disable_peer_access(&other), context.disable_peer_access(context)] };
    for result in disabled {
        refused("disabling access that is not enabled", result, Status::PEER_ACCESS_NOT_ENABLED)?;
    }
    Ok(())
}

fn access_while_a_stream_captures(environment: &Environment) -> Verdict {
    let (context, other) = (environment.context(), environment.peer()?.context()?);
    // SAFETY: no work uses the other's memory.
    let disable = || unsafe { context.disable_peer_access(&other) };
    let stream = environment.stream()?;
    for enabled in [true, false] {
        let mut changed = Ok(());
        let captured = stream.capture(CaptureMode::ThreadLocal, |_| {
            changed = if enabled { context.enable_peer_access(&other) } else { disable() };
            Ok(())
        });
        refused("changing access", changed, Status::STREAM_CAPTURE_UNSUPPORTED)?;
        refused("the capture", captured.map(drop), Status::STREAM_CAPTURE_INVALIDATED)?;
    }
    Ok(())
}

fn event_across_devices(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    let (near, far) = (environment.stream()?, other.create_stream()?);
    let mut word = far.upload(&[1u32])?;
    let gate = Gate::shut(environment, &near)?;
    let event = near.record_event()?;
    far.wait_event(&event)?;
    far.fill(&mut word, 2)?;
    equal("complete before the event", far.query()?, false)?;
    gate.open();
    equal("contents", far.download(&word)?, vec![2])?;
    Ok(near.synchronize()?)
}

fn stream_across_devices(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    let (near, far) = (environment.stream()?, other.create_stream()?);
    let mut word = far.upload(&[1u32])?;
    let gate = Gate::shut(environment, &near)?;
    far.wait_stream(&near)?;
    far.fill(&mut word, 2)?;
    equal("complete before the other device", far.query()?, false)?;
    gate.open();
    equal("contents", far.download(&word)?, vec![2])?;
    Ok(near.synchronize()?)
}

fn memory_of_the_other_device(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    let (near, far) = (environment.stream()?, other.create_stream()?);
    let (mut ours, mut theirs) = (near.upload(&[1u32])?, far.upload(&[2u32])?);
    refused("copy", near.copy(&mut ours, &theirs), Status::INVALID_HANDLE)?;
    refused("fill", near.fill(&mut theirs, 3), Status::INVALID_HANDLE)?;
    let store = environment.kernel("store")?;
    // SAFETY: both calls are refused.
    let (memory, kernel) = unsafe {
        (
            near.launch(&store, &LaunchConfig::new(1, 1), (&mut theirs, 4u32)),
            far.launch(&store, &LaunchConfig::new(1, 1), (&mut theirs, 4u32)),
        )
    };
    refused("launch with it", memory, Status::INVALID_HANDLE)?;
    refused("launch of the other device's kernel", kernel, Status::INVALID_HANDLE)?;
    equal("contents", (near.download(&ours)?, far.download(&theirs)?), (vec![1], vec![2]))
}

fn pinned_memory_of_both(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    let (near, far) = (environment.stream()?, other.create_stream()?);
    let mut pinned = environment.context().allocate_pinned::<u8>(5000)?;
    let gate = Gate::shut(environment, &near)?;
    near.fill(&mut pinned, 6)?;
    let mut there = far.allocate_zeroed::<u8>(5000)?;
    far.copy(&mut there, &pinned)?;
    equal("complete before the write", far.query()?, false)?;
    gate.open();
    equal("contents", far.download(&there)?, vec![6; 5000])?;
    Ok(near.synchronize()?)
}

fn dropped_while_the_other_device_reads(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    let (near, far) = (environment.stream()?, other.create_stream()?);
    let mut there = far.allocate_zeroed::<u8>(50_000)?;
    let source = near.upload(&numbers(50_000))?;
    far.synchronize()?;
    let gate = Gate::shut(environment, &far)?;
    far.copy_peer(&mut there, &source)?;
    drop(source);
    let mut next = near.allocate_zeroed::<u8>(50_000)?;
    near.fill(&mut next, 0xee)?;
    gate.open();
    equal("what was read is right", far.download(&there)? == numbers(50_000), true)?;
    equal("the next one", near.download(&next)?, vec![0xee; 50_000])
}

fn access_on_and_off(environment: &Environment) -> Verdict {
    let (near, other) = (environment.context(), environment.peer()?.context()?);
    if !environment.device().can_access_peer(environment.peer()?)? {
        return refused("access that cannot be", near.enable_peer_access(&other), Status::PEER_ACCESS_UNSUPPORTED);
    }
    near.enable_peer_access(&other)?;
    near.enable_peer_access(&other)?;
    copies(environment, &other)?;
    // SAFETY: no work uses the other's memory any more.
    unsafe {
        near.disable_peer_access(&other)?;
        refused("again", near.disable_peer_access(&other), Status::PEER_ACCESS_NOT_ENABLED)
    }
}

fn access_to_a_pool(environment: &Environment) -> Verdict {
    let peer = environment.peer()?;
    if !environment.device().can_access_peer(peer)? {
        return Ok(());
    }
    let pool = environment.device().create_memory_pool(&MemoryPoolOptions::default())?;
    pool.set_peer_access(peer, true)?;
    let (near, far) = (environment.stream()?, peer.context()?.create_stream()?);
    let source = near.allocate_zeroed_from::<u8>(&pool, 1000)?;
    let mut there = far.upload(&[1u8; 1000])?;
    far.copy_peer(&mut there, &source)?;
    equal("contents", far.download(&there)?, vec![0; 1000])?;
    drop(source);
    near.synchronize()?;
    Ok(pool.set_peer_access(peer, false)?)
}
