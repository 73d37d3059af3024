//! Fills of every width, at odd offsets, and invalid fills.

use super::memory_raw::{Raw, address};
use crate::case::{Case, Need, Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{Capabilities, DevicePointer, FillElement, FillPattern, PinnedFlags, Status};
use std::fmt::Debug;

pub(super) const CASES: &[Case] = &[
    Case::new("fill.of_8_bits", "S1", of_8_bits),
    Case::new("fill.of_16_bits", "S1", of_16_bits),
    Case::new("fill.of_32_bits", "S1", of_32_bits),
    Case::new("fill.of_64_bits", "S1", of_64_bits),
    Case::new("fill.of_floating_point", "S1", of_floating_point),
    Case::new("fill.a_later_one_wins", "S1", a_later_one_wins),
    Case::new("fill.with_zeros", "S1", with_zeros),
    Case::new("fill.returns_at_once", "S1", returns_at_once),
    Case::new("fill.pinned_memory", "M1", pinned_memory),
    Case::new("fill.managed_memory", "M1", managed_memory).needs(&[Need::Capability(Capabilities::MANAGED_MEMORY)]),
    Case::new("fill.past_the_end", "X2", past_the_end),
    Case::new("fill.not_aligned", "X2", not_aligned),
    Case::new("fill.of_nothing", "X2", of_nothing),
    Case::new("fill.where_nothing_is", "X2", where_nothing_is),
];

/// Fills odd counts at odd offsets, and checks that neighbouring elements do not change.
fn check<T: FillElement + PartialEq + Debug>(environment: &Environment, background: T, values: &[T]) -> Verdict {
    const LENGTH: usize = 70_001;
    let stream = environment.stream()?;
    for &value in values {
        for (start, count) in [(0, 1), (1, 1), (3, 7), (5, 4097), (1, LENGTH - 2), (0, LENGTH)] {
            let mut expected = vec![background; LENGTH];
            let mut buffer = stream.upload(&expected)?;
            stream.fill(buffer.slice_mut(start..start + count)?, value)?;
            expected[start..start + count].fill(value);
            let found = stream.download(&buffer)?;
            if let Some(index) = (0..LENGTH).find(|&index| found[index] != expected[index]) {
                let what = format!("element {index} after a fill of {count} from {start}");
                equal(&what, found[index], expected[index])?;
            }
        }
    }
    Ok(())
}

fn of_8_bits(environment: &Environment) -> Verdict {
    check(environment, 0x55u8, &[0, 1, 0xff])
}

fn of_16_bits(environment: &Environment) -> Verdict {
    check(environment, 0x5555u16, &[0, 0x0102, 0xfffe])
}

fn of_32_bits(environment: &Environment) -> Verdict {
    check(environment, 0x5555_5555u32, &[0, 0x0102_0304, 0xffff_fffe])
}

fn of_64_bits(environment: &Environment) -> Verdict {
    check(environment, 0x5555_5555_5555_5555u64, &[0, 0x0102_0304_0506_0708, 0x7777_7777_7777_7777, 1, 1 << 63])
}

fn of_floating_point(environment: &Environment) -> Verdict {
    check(environment, 0.0f32, &[1.5, -0.25])?;
    check(environment, 0.0f64, &[std::f64::consts::PI, f64::MIN_POSITIVE])
}

fn a_later_one_wins(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.allocate_zeroed::<u64>(9999)?;
    for value in 0..100u64 {
        stream.fill(&mut buffer, value << 33 | value)?;
    }
    equal("contents", stream.download(&buffer)?, vec![99 << 33 | 99; 9999])
}

fn with_zeros(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.upload(&[[1u8, 2, 3]; 333])?;
    stream.fill_zero(buffer.slice_mut(1..332)?)?;
    let mut expected = vec![[0u8; 3]; 333];
    (expected[0], expected[332]) = ([1, 2, 3], [1, 2, 3]);
    equal("contents", stream.download(&buffer)?, expected)
}

fn returns_at_once(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.allocate_zeroed::<u64>(100_000)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 1 << 40)?;
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    equal("contents", stream.download(buffer.slice(99_999..)?)?, vec![1 << 40])
}

fn pinned_memory(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut pinned = environment.context().allocate_pinned::<u16>(1001)?;
    stream.fill(pinned.slice_mut(1..1000)?, 0xabcd)?;
    let mut expected = vec![0xabcd; 1001];
    (expected[0], expected[1000]) = (0, 0);
    equal("contents", pinned.as_slice()?.to_vec(), expected)
}

fn managed_memory(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut managed = environment.context().allocate_managed::<u32>(1001)?;
    stream.fill(&mut managed, 0x0a0b_0c0d)?;
    equal("contents", managed.as_slice()?.to_vec(), vec![0x0a0b_0c0d; 1001])
}

fn past_the_end(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    // The driver allocates multiples of 2 MiB, so no other allocation begins directly after this one.
    const BYTES: usize = 2 << 20;
    let memory = address("allocating", raw.allocate(BYTES))?;
    let patterns = [FillPattern::U8(1), FillPattern::U16(1), FillPattern::U32(1), FillPattern::U64(1)];
    // SAFETY: a fill that reaches past the end is refused, and the other one fits.
    let statuses = patterns.map(|pattern| unsafe {
        let count = BYTES / pattern.width();
        (raw.fill(memory, pattern, count + 1), raw.fill(memory, pattern, count))
    });
    raw.synchronize()?;
    // SAFETY: nothing uses the memory any more.
    let freed = unsafe { raw.free(memory) };
    equal("too many, and as many as fit", statuses, [(Status::INVALID_VALUE, Status::SUCCESS); 4])?;
    equal("freeing", freed, Status::SUCCESS)
}

fn not_aligned(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let memory = address("allocating", raw.allocate(4096))?;
    let attempts = [
        (1, FillPattern::U16(1)),
        (1, FillPattern::U32(1)),
        (2, FillPattern::U32(1)),
        (4, FillPattern::U64(1)),
        (1, FillPattern::U64(0)),
    ];
    // SAFETY: they are refused, and would be within the memory otherwise.
    let statuses = attempts.map(|(offset, pattern)| unsafe { raw.fill(memory.byte_add(offset), pattern, 3) });
    raw.synchronize()?;
    // SAFETY: nothing uses the memory any more.
    let freed = unsafe { raw.free(memory) };
    equal("filling", statuses, [Status::INVALID_VALUE; 5])?;
    equal("freeing", freed, Status::SUCCESS)
}

fn of_nothing(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let patterns = [FillPattern::U8(1), FillPattern::U32(1)];
    // SAFETY: nothing is filled.
    let statuses = patterns.map(|pattern| unsafe { raw.fill(DevicePointer::NULL, pattern, 0) });
    equal("no elements at the null address", statuses, [Status::SUCCESS; 2])?;
    raw.synchronize()
}

fn where_nothing_is(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let pageable = vec![0u8; 4096];
    let on_the_heap = DevicePointer(pageable.as_ptr().expose_provenance() as u64);
    let pinned = address("allocating pinned memory", raw.allocate_pinned(4096, PinnedFlags::PORTABLE))?;
    // SAFETY: the first two are refused; the last is within its memory, which nothing else uses.
    let statuses = [DevicePointer::NULL, on_the_heap, pinned].map(|to| unsafe { raw.fill(to, FillPattern::U8(1), 64) });
    raw.synchronize()?;
    // SAFETY: nothing uses the memory any more.
    let freed = unsafe { raw.free_pinned(pinned) };
    equal("null, heap, pinned", statuses, [Status::INVALID_VALUE, Status::INVALID_VALUE, Status::SUCCESS])?;
    equal("freeing", freed, Status::SUCCESS)
}
