//! Pinned host memory.

use super::memory_gate::opened_during;
use super::memory_raw::{Raw, address, numbers};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{Capabilities, LaunchConfig, PinnedFlags, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("pinned.begins_with_zeros", "M1", begins_with_zeros),
    Case::new("pinned.flags", "X2", flags),
    Case::new("pinned.of_no_bytes", "X2", of_no_bytes),
    Case::new("pinned.reading_waits_for_the_writer", "M1", reading_waits_for_the_writer),
    Case::new("pinned.reading_does_not_wait_for_readers", "M1", reading_does_not_wait_for_readers),
    Case::new("pinned.writing_waits_for_readers", "M1", writing_waits_for_readers),
    Case::new("pinned.dropped_with_a_pending_copy", "M1", dropped_with_a_pending_copy),
    Case::new("pinned.used_by_a_kernel", "M1", used_by_a_kernel)
        .needs(&[Need::Capability(Capabilities::UNIFIED_ADDRESSING)]),
];

fn begins_with_zeros(environment: &Environment) -> Verdict {
    for length in [1, 4097, 100_003] {
        let mut buffer = environment.context().allocate_pinned::<u8>(length)?;
        holds("it is zero", buffer.as_slice()?.iter().all(|&byte| byte == 0))?;
        buffer.as_mut_slice()?.fill(0xff);
    }
    Ok(())
}

fn flags(environment: &Environment) -> Verdict {
    let context = environment.context();
    for bits in [0x8, 0x100] {
        let unknown = PinnedFlags::from_bits_retain(bits);
        let result = context.allocate_pinned_with_flags::<u8>(64, unknown);
        refused(&format!("flags {bits:#x}"), result, Status::INVALID_VALUE)?;
    }
    let mut combined = context.allocate_pinned_with_flags::<u8>(1001, PinnedFlags::WRITE_COMBINED)?;
    combined.as_mut_slice()?.copy_from_slice(&numbers(1001));
    let stream = environment.stream()?;
    let mut device = stream.allocate_zeroed::<u8>(1001)?;
    stream.copy(&mut device, &combined)?;
    equal("what was written combined", stream.download(&device)?, numbers(1001))
}

fn of_no_bytes(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let nothing = address("allocating 0 bytes", raw.allocate_pinned(0, PinnedFlags::PORTABLE))?;
    // SAFETY: the driver returned this address, which may be null, and nothing uses it.
    equal("freeing it", unsafe { raw.free_pinned(nothing) }, Status::SUCCESS)
}

fn reading_waits_for_the_writer(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&numbers(100_000))?;
    let mut pinned = environment.context().allocate_pinned::<u8>(100_000)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut pinned, &source)?;
    let right = opened_during(&gate, || pinned.as_slice().map(|found| found == numbers(100_000)))?;
    holds("what was read is what was copied", right)?;
    Ok(stream.synchronize()?)
}

fn reading_does_not_wait_for_readers(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut pinned = environment.context().allocate_pinned::<u8>(1000)?;
    pinned.as_mut_slice()?.fill(4);
    let mut device = stream.allocate_zeroed::<u8>(1000)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut device, &pinned)?;
    equal("read while blocked", pinned.as_slice()?.to_vec(), vec![4; 1000])?;
    equal("complete while blocked", stream.query()?, false)?;
    equal("idle while blocked", pinned.is_idle()?, false)?;
    gate.open();
    equal("contents", stream.download(&device)?, vec![4; 1000])
}

fn writing_waits_for_readers(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut pinned = environment.context().allocate_pinned::<u8>(100_000)?;
    pinned.as_mut_slice()?.fill(1);
    let mut device = stream.allocate_zeroed::<u8>(100_000)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut device, &pinned)?;
    let written = opened_during(&gate, || pinned.as_mut_slice().map(|memory| memory.fill(2)));
    written?;
    equal("what was copied", stream.download(&device)?, vec![1; 100_000])
}

fn dropped_with_a_pending_copy(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut pinned = environment.context().allocate_pinned::<u8>(100_000)?;
    pinned.as_mut_slice()?.copy_from_slice(&numbers(100_000));
    let mut device = stream.allocate_zeroed::<u8>(100_000)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut device, &pinned)?;
    drop(pinned);
    // This could be the same memory if that memory had already been freed.
    let mut next = environment.context().allocate_pinned::<u8>(100_000)?;
    next.as_mut_slice()?.fill(0xee);
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    let found = stream.download(&device)?;
    anabranch::flush_deferred_drops();
    if found == numbers(100_000) { Ok(()) } else { Err(Failed("the copy saw other memory".to_owned())) }
}

fn used_by_a_kernel(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut source, mut destination) =
        (environment.context().allocate_pinned::<f32>(1000)?, environment.context().allocate_pinned::<f32>(1000)?);
    source.as_mut_slice()?.fill(1.5);
    let scale = environment.kernel("scale")?;
    let config = LaunchConfig::for_elements(1000);
    // SAFETY: `scale` reads and writes as many numbers as its last argument says.
    unsafe { stream.launch(&scale, &config, (&mut destination, &source, 4.0f32, 1000u32))? };
    equal("result", destination.as_slice()?.to_vec(), vec![6.0; 1000])?;
    Ok(stream.synchronize()?)
}
