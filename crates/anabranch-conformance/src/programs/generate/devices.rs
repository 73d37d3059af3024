//! Programs over two devices. They are about what the programs of other families are about, with the contexts of two devices,
//! and with calls that have to do with both.

use super::super::call::{GraphCall, HarnessCall, MemoryCall, ModuleCall, NodeSpec};
use super::super::slots::{ContextSlot, New, PoolSlot, StreamSlot, WordSlot};
use super::work::SHARED_WORDS;
use super::{Generator, capture, gates, graphs, memory, streams};

pub(super) fn fill(generator: &mut Generator) {
    match generator.numbers.below(6) {
        0 | 1 => streams::fill(generator),
        2 => {
            // Copies behind a gate do not hold up the host if they need not pass through its memory.
            for context in [0, 1].map(ContextSlot) {
                generator.push(MemoryCall::PeerAccess { context, peer: ContextSlot(1 - context.0) });
            }
            gates::fill(generator);
        }
        3 => {
            generator.set_up(5, 4);
            capture::run(generator);
        }
        4 => {
            generator.set_up(4, 4);
            graphs::run(generator);
        }
        _ => memory::fill(generator),
    }
}

/// The number of one of the two devices, or rarely of one that does not exist.
fn device(generator: &mut Generator) -> u32 {
    if generator.numbers.chance(1, 16) { 99 } else { generator.numbers.below(2) as u32 }
}

fn two_contexts(generator: &mut Generator) -> (ContextSlot, ContextSlot) {
    let first = generator.context();
    let other = if generator.numbers.chance(1, 16) { first } else { ContextSlot(1 - first.0) };
    (first, other)
}

/// Lets a device access the other's memory, or no more.
fn access(generator: &mut Generator) {
    let (context, peer) = two_contexts(generator);
    let call = match generator.numbers.below(8) {
        0..=3 => MemoryCall::PeerAccess { context, peer },
        4 | 5 => MemoryCall::PeerDisable { context, peer },
        _ => MemoryCall::CanAccess { device: device(generator), peer: device(generator) },
    };
    generator.push(call);
}

/// Makes the calls that follow in another context than the objects are of, or no more.
fn enter(generator: &mut Generator) {
    let context = generator.numbers.one_of([None, Some(ContextSlot(0)), Some(ContextSlot(1))]);
    generator.push(HarnessCall::Enter { context });
}

/// A copy between the devices, or within one of them, in a stream of either.
fn copy(generator: &mut Generator, stream: StreamSlot) {
    let region = generator.region();
    if generator.numbers.chance(1, 2) {
        let (from, to) = two_contexts(generator);
        return generator.push(MemoryCall::CopyBetween { stream, from, to, region });
    }
    let ((from, to), bytes) = (generator.ends(), generator.numbers.below(65) as u8);
    generator.push(MemoryCall::CopyInferred { stream, from, to, region, bytes });
}

/// Changes a number in the memory of the other device that only this stream changes.
fn launch(generator: &mut Generator) {
    let stream = generator.created_stream();
    if (6..32).contains(&stream.0) {
        let word = WordSlot((SHARED_WORDS + usize::from(stream.0)) as u16);
        let (factor, value) = (generator.numbers.one_of([1, 3, 10]), generator.numbers.below(9) as u32);
        generator.push(ModuleCall::LaunchPeer { stream, word, factor, value });
    }
}

fn prefetch(generator: &mut Generator, stream: StreamSlot) {
    let device = if generator.numbers.chance(1, 4) { None } else { Some(device(generator)) };
    generator.push(MemoryCall::PrefetchManaged { stream, device });
}

/// A call for a pool of one device, which the other may be allowed to access.
fn pool(generator: &mut Generator) {
    let known: Option<PoolSlot> = generator.numbers.pick(&generator.model.pools);
    let call = match (generator.numbers.below(8), known) {
        (0..=3, Some(pool)) => {
            let (peer, allowed) = (device(generator), generator.numbers.chance(3, 4));
            MemoryCall::PoolSetAccess { pool, peer, allowed }
        }
        (4..=6, Some(_)) => {
            let (memory, stream) = (generator.model.new_memory(), generator.stream());
            let bytes = generator.numbers.one_of([1, 512, 4096, 65536]);
            generator.model.memory.push(memory);
            MemoryCall::AllocateAsync { memory: New(memory), stream, bytes, pool: known }
        }
        (7, Some(_)) => MemoryCall::DefaultPool { device: device(generator) },
        _ => {
            let pool = generator.model.new_pool();
            generator.model.pools.push(pool);
            MemoryCall::PoolCreateOn { pool: New(pool), device: generator.numbers.below(2) as u32, max_bytes: 0 }
        }
    };
    generator.push(call);
}

/// A call of programs about streams.
pub(super) fn stream_step(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(16) {
        0..=4 => copy(generator, stream),
        5..=8 => launch(generator),
        9..=11 => access(generator),
        12 => prefetch(generator, stream),
        13 => pool(generator),
        _ => enter(generator),
    }
}

/// A call while streams may capture. Returns whether it may invalidate captures.
pub(super) fn capture_step(generator: &mut Generator) -> bool {
    let stream = generator.created_stream();
    match generator.numbers.below(16) {
        0..=5 => {
            let ((from, to), region) = (generator.ends(), generator.region());
            generator.push(MemoryCall::CopyInferred { stream, from, to, region, bytes: 16 });
            return false;
        }
        6..=10 => {
            enter(generator);
            return false;
        }
        11 | 12 => copy(generator, stream),
        13 => access(generator),
        14 => prefetch(generator, stream),
        _ => pool(generator),
    }
    true
}

/// A call of programs about graphs.
pub(super) fn graph_step(generator: &mut Generator) {
    let (device, attribute) = (device(generator), generator.numbers.below(4) as u8);
    match generator.numbers.below(8) {
        0 => generator.push(GraphCall::MemoryTrimOf { device }),
        1 => generator.push(GraphCall::MemoryResetOf { device, attribute }),
        2 | 3 => generator.push(GraphCall::MemoryAttributeOf { device, attribute }),
        4 => access(generator),
        _ => enter(generator),
    }
}

/// A call of programs about memory, in which all work is complete before the next call.
pub(super) fn memory_step(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(8) {
        0..=2 => access(generator),
        3 => prefetch(generator, stream),
        _ => pool(generator),
    }
}

/// The work of a node, over two devices in either context.
pub(super) fn anywhere(generator: &mut Generator, work: NodeSpec) -> NodeSpec {
    if !generator.has_two_devices {
        return work;
    }
    let work = match work {
        NodeSpec::Allocate { memory, bytes } if generator.numbers.chance(1, 3) => {
            NodeSpec::AllocateShared { memory, bytes }
        }
        work => work,
    };
    if generator.numbers.chance(1, 4) { work } else { NodeSpec::In(generator.context(), Box::new(work)) }
}

/// Other work for a node, mostly in the context that it has.
pub(super) fn anywhere_like(generator: &mut Generator, work: &NodeSpec, other: NodeSpec) -> NodeSpec {
    match work {
        _ if !generator.has_two_devices => other,
        NodeSpec::In(context, _) if generator.numbers.chance(7, 8) => NodeSpec::In(*context, Box::new(other)),
        NodeSpec::In(..) => anywhere(generator, other),
        _ if generator.numbers.chance(1, 8) => anywhere(generator, other),
        _ => other,
    }
}
