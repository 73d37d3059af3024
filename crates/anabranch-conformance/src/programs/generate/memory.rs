//! Programs about memory, in which all work is complete before the next call.

use super::super::call::{AddressSpec, ArenaCall, Base, MemoryCall, PlaceSpec};
use super::super::slots::{Flags, New, StreamSlot};
use super::{Generator, devices};
use anabranch::hal::{CopyKind, FillPattern, MemoryPoolAttribute};

/// The bytes of each buffer that addresses are in.
const BYTES: usize = 4096;

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(3, 0);
    let length = 40 + generator.numbers.below(40);
    generator.until(length, |generator| {
        if generator.has_two_devices && generator.numbers.chance(1, 6) {
            devices::memory_step(generator);
        } else {
            step(generator);
        }
    });
}

fn step(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(32) {
        0..=6 => copy(generator, stream),
        7..=12 => copy_3d(generator, stream),
        13..=16 => fill_memory(generator, stream),
        17 => copy_peer(generator, stream),
        18 => {
            let (at, bytes) = (address(generator), size(generator));
            let second = if generator.has_two_devices { Some(1) } else { Some(0) };
            let device = generator.numbers.one_of([Some(0), second, None, Some(99)]);
            generator.push(ArenaCall::Prefetch { stream, at, bytes, device });
        }
        19..=22 => allocate(generator, stream),
        23 | 24 => free(generator, stream),
        25..=29 => pool(generator),
        30 => {
            let context = generator.context();
            generator.push(MemoryCall::Info { context });
        }
        _ => {
            let (context, peer) = (generator.context(), generator.context());
            let call = match generator.numbers.below(2) {
                0 => MemoryCall::PeerAccess { context, peer },
                _ => MemoryCall::PeerDisable { context, peer },
            };
            generator.push(call);
        }
    }
}

/// A base of addresses, which the driver may refuse.
fn base(generator: &mut Generator) -> Base {
    let memory = generator.numbers.pick(&generator.model.memory).map_or(Base::Device, Base::Memory);
    let common = [Base::Device, Base::Device, Base::Device, Base::Other, Base::Pinned, Base::Pageable, Base::Managed];
    match generator.numbers.below(16) {
        0 => Base::Null,
        1 => Base::Garbage,
        2 | 3 => memory,
        _ => generator.numbers.one_of(common),
    }
}

pub(super) fn address(generator: &mut Generator) -> AddressSpec {
    let base = base(generator);
    let offset = match generator.numbers.below(8) {
        0 => generator.numbers.one_of([1, 2, 3, 4, 6, 1023, 1024]),
        1 => (BYTES - generator.numbers.one_of([1, 8, 16, 64])) as u16,
        2 => BYTES as u16,
        _ => generator.numbers.below(60) as u16 * 64,
    };
    AddressSpec { base, offset }
}

/// An address for one side of a copy, mostly in that half of a buffer. Drivers do not check addresses of the host.
fn side(generator: &mut Generator, is_host: bool, half: u16) -> AddressSpec {
    if !is_host && generator.numbers.chance(1, 3) {
        return address(generator);
    }
    let base = match is_host {
        true => generator.numbers.one_of([Base::Pinned, Base::Pageable, Base::Managed, Base::Device]),
        false => base(generator),
    };
    let offset = match base {
        Base::Memory(_) => generator.numbers.one_of([0, 0, 1, 4, 16, 64]),
        _ => half * (BYTES / 2) as u16 + generator.numbers.below(15) as u16 * 64,
    };
    AddressSpec { base, offset }
}

fn size(generator: &mut Generator) -> usize {
    generator.numbers.one_of([0, 1, 3, 4, 8, 16, 33, 64, 64, 100, 1000, 4097])
}

fn copy(generator: &mut Generator, stream: StreamSlot) {
    let kinds = [CopyKind::HostToDevice, CopyKind::DeviceToHost, CopyKind::DeviceToDevice, CopyKind::Inferred];
    let kind = generator.numbers.one_of(kinds);
    let is_host = |host_kinds: [CopyKind; 2]| host_kinds.contains(&kind);
    let to = side(generator, is_host([CopyKind::DeviceToHost, CopyKind::Inferred]), 0);
    let from = side(generator, is_host([CopyKind::HostToDevice, CopyKind::Inferred]), 1);
    let bytes = size(generator);
    if generator.numbers.chance(1, 3) {
        let context = generator.context();
        generator.push(ArenaCall::Copy { context, kind, to, from, bytes });
    } else {
        generator.push(ArenaCall::CopyAsync { stream, kind, to, from, bytes });
    }
}

fn place(generator: &mut Generator, half: u16) -> PlaceSpec {
    let base = base(generator);
    let is_host = matches!(base, Base::Pinned | Base::Pageable | Base::Managed);
    let offset = match generator.numbers.below(6) {
        0 if !is_host => 1,
        1 if !is_host => (BYTES - 64) as u16,
        _ => half * (BYTES / 2) as u16,
    };
    PlaceSpec {
        address: AddressSpec { base, offset },
        pitch: generator.numbers.one_of([0, 8, 16, 17, 20, 32, 64]),
        height: generator.numbers.one_of([0, 1, 2, 4, 6]),
        origin: [
            generator.numbers.one_of([0, 0, 0, 1, 4, 16]),
            generator.numbers.one_of([0, 0, 0, 1, 2]),
            generator.numbers.one_of([0, 0, 0, 1]),
        ],
    }
}

fn copy_3d(generator: &mut Generator, stream: StreamSlot) {
    let (to, from) = (place(generator, 0), place(generator, 1));
    let extent = [
        generator.numbers.one_of([0, 1, 7, 16, 16, 17]),
        generator.numbers.one_of([0, 1, 1, 2, 3, 4]),
        generator.numbers.one_of([0, 1, 1, 1, 2, 3]),
    ];
    generator.push(ArenaCall::Copy3d { stream, to, from, extent });
}

fn copy_peer(generator: &mut Generator, stream: StreamSlot) {
    let (to, from, bytes) = (address(generator), address(generator), size(generator));
    let (to_context, from_context) = (generator.context(), generator.context());
    generator.push(ArenaCall::CopyPeer { stream, to, to_context, from, from_context, bytes });
}

fn fill_memory(generator: &mut Generator, stream: StreamSlot) {
    let (at, number) = (address(generator), generator.numbers.below(1 << 30) as u64);
    let pattern = match generator.numbers.below(4) {
        0 => FillPattern::U8(number as u8),
        1 => FillPattern::U16(number as u16),
        2 => FillPattern::U32(number as u32),
        _ => FillPattern::U64(number << 20 | 5),
    };
    let count = generator.numbers.one_of([0, 1, 2, 4, 5, 7, 64, 1024, 4097]);
    generator.push(ArenaCall::Fill { stream, at, pattern, count });
}

fn allocate(generator: &mut Generator, stream: StreamSlot) {
    let (memory, context) = (New(generator.model.new_memory()), generator.context());
    let bytes = generator.numbers.one_of([0, 1, 512, 1000, 4096, 65536, 1 << 50, usize::MAX]);
    let pool = generator.numbers.pick(&generator.model.pools).filter(|_| !bytes.is_multiple_of(3));
    let call = match generator.numbers.below(6) {
        0 => MemoryCall::Allocate { memory, context, bytes },
        1 => MemoryCall::AllocateManaged { memory, context, bytes },
        2 => {
            let flags = Flags(generator.numbers.one_of([0, 1, 2, 3, 4, 7, 8, 0x10]));
            MemoryCall::AllocatePinned { memory, context, bytes, flags }
        }
        _ => MemoryCall::AllocateAsync { memory, stream, bytes, pool },
    };
    generator.push(call);
    if (1..1 << 20).contains(&bytes) {
        generator.model.memory.push(memory.0);
    }
}

fn free(generator: &mut Generator, stream: StreamSlot) {
    let context = generator.context();
    let memory = if generator.numbers.chance(1, 8) { None } else { generator.numbers.pick(&generator.model.memory) };
    // Whichever call does not fit the kind of the memory is skipped.
    match generator.numbers.below(8) {
        0 => {
            let at = address(generator);
            generator.push(ArenaCall::Free { context, at });
        }
        1 => {
            let at = address(generator);
            generator.push(ArenaCall::FreeAsync { stream, at });
        }
        2 => {
            if let Some(memory) = memory {
                generator.push(ArenaCall::FreeTwice { context, memory });
            }
        }
        3 | 4 => generator.push(MemoryCall::Free { context, memory }),
        5 => generator.push(MemoryCall::FreePinned { context, memory }),
        _ => generator.push(MemoryCall::FreeAsync { stream, memory }),
    }
}

fn pool(generator: &mut Generator) {
    let unit = 32 << 20;
    let Some(pool) = generator.numbers.pick(&generator.model.pools).filter(|_| !generator.numbers.chance(1, 4)) else {
        let pool = generator.model.new_pool();
        let max_bytes = generator.numbers.one_of([0, 0, 1, unit, unit + 1, u64::MAX]);
        generator.push(MemoryCall::PoolCreate { pool: New(pool), max_bytes });
        generator.model.pools.push(pool);
        return;
    };
    let attribute = generator.numbers.one_of([
        MemoryPoolAttribute::ReleaseThreshold,
        MemoryPoolAttribute::ReservedCurrent,
        MemoryPoolAttribute::ReservedHigh,
        MemoryPoolAttribute::UsedCurrent,
        MemoryPoolAttribute::UsedHigh,
    ]);
    let call = match generator.numbers.below(12) {
        0..=4 => MemoryCall::PoolAttribute { pool, attribute },
        5 | 6 => {
            let value = generator.numbers.one_of([0, 0, 1, unit, u64::MAX]);
            MemoryCall::PoolSetAttribute { pool, attribute, value }
        }
        7 => {
            let (peer, allowed) = (generator.numbers.one_of([0, 0, 99]), generator.numbers.chance(1, 2));
            MemoryCall::PoolSetAccess { pool, peer, allowed }
        }
        8 | 9 => {
            let keep_bytes = generator.numbers.one_of([0, 1, unit as usize, usize::MAX]);
            MemoryCall::PoolTrim { pool, keep_bytes }
        }
        10 => MemoryCall::DefaultPool { device: generator.numbers.one_of([0, 99]) },
        _ => {
            generator.model.pools.retain(|known| *known != pool);
            MemoryCall::PoolDestroy { pool }
        }
    };
    generator.push(call);
}
