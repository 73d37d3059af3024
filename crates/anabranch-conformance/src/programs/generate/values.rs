//! Programs about waits for values and writes of values, in which all work is complete before the next call.

use super::super::call::{AddressSpec, ArenaCall, Base};
use super::super::slots::{Flags, StreamSlot};
use super::Generator;
use super::memory::address;
use anabranch::hal::{CopyKind, FillPattern, Value};

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(3, 0);
    let length = 40 + generator.numbers.below(40);
    generator.until(length, step);
}

fn step(generator: &mut Generator) {
    let stream = generator.stream();
    let (at, value) = (place(generator), value(generator));
    match generator.numbers.below(16) {
        0..=6 => {
            let flags = Flags(generator.numbers.one_of([0, 0, 0, 1, 1, 2, 2, 3, 4, 1 << 30, 1 << 30 | 1, 1 << 31]));
            generator.push(ArenaCall::Wait { stream, at, value, flags });
        }
        7..=13 => {
            let flags = Flags(generator.numbers.one_of([0, 0, 0, 0, 0, 1, 2]));
            generator.push(ArenaCall::Write { stream, at, value, flags });
        }
        14 => fill_values(generator, stream, at),
        _ => {
            let from = place(generator);
            generator.push(ArenaCall::CopyAsync { stream, kind: CopyKind::DeviceToDevice, to: at, from, bytes: 8 });
        }
    }
}

/// Mostly one of a few aligned numbers.
fn place(generator: &mut Generator) -> AddressSpec {
    match generator.numbers.below(8) {
        0 => address(generator),
        1 => AddressSpec { base: Base::Device, offset: generator.numbers.one_of([1, 2, 4, 4092, 4094, 4096]) },
        _ => {
            let base = generator.numbers.one_of([Base::Device, Base::Device, Base::Pinned, Base::Managed, Base::Other]);
            AddressSpec { base, offset: generator.numbers.below(8) as u16 * 8 }
        }
    }
}

fn value(generator: &mut Generator) -> Value {
    let narrow = [0, 1, 2, 5, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
    let wide = [0, 1, 5, 0xffff_ffff, 1 << 32, i64::MAX as u64, 1 << 63, u64::MAX];
    if generator.numbers.chance(1, 2) {
        Value::U32(generator.numbers.one_of(narrow))
    } else {
        Value::U64(generator.numbers.one_of(wide))
    }
}

fn fill_values(generator: &mut Generator, stream: StreamSlot, at: AddressSpec) {
    let number = generator.numbers.one_of([0, 1, 5, u64::MAX]);
    let pattern = match generator.numbers.chance(1, 2) {
        true => FillPattern::U32(number as u32),
        false => FillPattern::U64(number),
    };
    generator.push(ArenaCall::Fill { stream, at, pattern, count: 1 });
}
