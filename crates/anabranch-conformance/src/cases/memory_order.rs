//! Memory that several streams use: the order that the library maintains, and when memory is freed.

use super::memory_raw::numbers;
use crate::case::{Case, Need, Verdict, equal, holds};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{Capabilities, LaunchConfig, MemoryPoolOptions};

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("memory.usable_on_its_stream", "M3", usable_on_its_stream),
    Case::new("memory.usable_on_another_stream", "M3", usable_on_another_stream),
    Case::new("memory.reader_waits_for_writer", "M3", reader_waits_for_writer),
    Case::new("memory.writer_waits_for_all_readers", "M3", writer_waits_for_all_readers),
    Case::new("memory.readers_do_not_wait_for_each_other", "M3", readers_do_not_wait_for_each_other),
    Case::new("memory.alternating_writers", "M3", alternating_writers),
    Case::new("memory.not_reused_while_another_stream_reads", "M3", not_reused_while_another_stream_reads),
    Case::new("memory.dropped_behind_pending_work", "M3", dropped_behind_pending_work),
    Case::new("memory.plain_buffer_dropped_behind_pending_work", "M3", plain_buffer_dropped_behind_pending_work),
    Case::new("memory.dropped_after_its_stream", "M3", dropped_after_its_stream),
    Case::new("memory.stream_dropped_with_pending_work", "S3", stream_dropped_with_pending_work),
    Case::new("memory.ten_thousand_allocations", "M3", ten_thousand_allocations).needs(POOLS),
];

fn usable_on_its_stream(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    let mut pinned = environment.context().allocate_pinned::<u32>(1000)?;
    let mut buffer = stream.allocate_zeroed::<u32>(1000)?;
    stream.fill(&mut buffer, 0x0102_0304)?;
    stream.copy(&mut pinned, &buffer)?;
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    equal("contents", pinned.as_slice()?.to_vec(), vec![0x0102_0304; 1000])?;
    Ok(stream.synchronize()?)
}

fn usable_on_another_stream(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let mut pinned = environment.context().allocate_pinned::<u8>(5000)?;
    let gate = Gate::shut(environment, &first)?;
    let mut buffer = first.allocate_zeroed::<u8>(5000)?;
    second.fill(&mut buffer, 9)?;
    second.copy(&mut pinned, &buffer)?;
    equal("complete before the allocation", second.query()?, false)?;
    gate.open();
    equal("contents", pinned.as_slice()?.to_vec(), vec![9; 5000])?;
    // The buffer would contain the zeros of the first stream if that fill had run second.
    equal("in the end", first.download(&buffer)?, vec![9; 5000])
}

fn reader_waits_for_writer(environment: &Environment) -> Verdict {
    let (writer, reader) = (environment.stream()?, environment.stream()?);
    let mut buffer = writer.upload(&[1u32])?;
    let mut seen = environment.context().allocate_pinned::<u32>(1)?;
    let (store, gate) = (environment.kernel("store")?, Gate::shut(environment, &writer)?);
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { writer.launch(&store, &LaunchConfig::new(1, 1), (&mut buffer, 2u32))? };
    reader.copy(&mut seen, &buffer)?;
    equal("read before the write", reader.query()?, false)?;
    gate.open();
    reader.synchronize()?;
    equal("what was read", seen.as_slice()?.to_vec(), vec![2])?;
    Ok(writer.synchronize()?)
}

fn writer_waits_for_all_readers(environment: &Environment) -> Verdict {
    let context = environment.context();
    let (first, second, writer) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let mut buffer = writer.upload(&[1u32; 1000])?;
    let (mut by_first, mut by_second) = (context.allocate_pinned::<u32>(1000)?, context.allocate_pinned::<u32>(1000)?);
    let (first_gate, second_gate) = (Gate::shut(environment, &first)?, Gate::shut(environment, &second)?);
    first.copy(&mut by_first, &buffer)?;
    second.copy(&mut by_second, &buffer)?;
    writer.fill(&mut buffer, 2)?;
    let written = writer.record_event()?;
    equal("written before either read", written.query()?, false)?;
    first_gate.open();
    first.synchronize()?;
    equal("written before the second read", written.query()?, false)?;
    second_gate.open();
    writer.synchronize()?;
    equal("the first saw", by_first.as_slice()?.to_vec(), vec![1; 1000])?;
    equal("the second saw", by_second.as_slice()?.to_vec(), vec![1; 1000])?;
    equal("in the end", writer.download(&buffer)?, vec![2; 1000])
}

fn readers_do_not_wait_for_each_other(environment: &Environment) -> Verdict {
    let (held_up, free) = (environment.stream()?, environment.stream()?);
    let buffer = free.upload(&numbers(777))?;
    let context = environment.context();
    let (mut late, mut early) = (context.allocate_pinned::<u8>(777)?, context.allocate_pinned::<u8>(777)?);
    let gate = Gate::shut(environment, &held_up)?;
    held_up.copy(&mut late, &buffer)?;
    free.copy(&mut early, &buffer)?;
    free.synchronize()?;
    equal("the stream with pending work", held_up.query()?, false)?;
    gate.open();
    held_up.synchronize()?;
    equal("early", early.as_slice()?.to_vec(), numbers(777))?;
    equal("late", late.as_slice()?.to_vec(), numbers(777))
}

/// Each step multiplies and adds, so any other order produces a different result.
fn alternating_writers(environment: &Environment) -> Verdict {
    let streams = [environment.stream()?, environment.stream()?, environment.stream()?];
    let add = environment.kernel("add")?;
    let mut buffer = streams[0].upload(&[1u32])?;
    let gate = Gate::shut(environment, &streams[0])?;
    let mut expected = 1u32;
    for step in 0..150u32 {
        let stream = &streams[(step * step) as usize % 3];
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), (&mut buffer, 3u32, step))? };
        expected = expected.wrapping_mul(3).wrapping_add(step);
    }
    gate.open();
    equal("result", streams[1].download(&buffer)?, vec![expected])?;
    Ok(streams.iter().try_for_each(|stream| stream.synchronize())?)
}

fn not_reused_while_another_stream_reads(environment: &Environment) -> Verdict {
    const LENGTH: usize = 100_000;
    let (home, reader, third) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let mut seen = environment.context().allocate_pinned::<u8>(LENGTH)?;
    let source = numbers(LENGTH);
    let buffer = home.upload(&source)?;
    let gate = Gate::shut(environment, &reader)?;
    reader.copy(&mut seen, &buffer)?;
    drop(buffer);
    // Both may receive the same memory. Their writes must then run after the read.
    let mut on_home = home.allocate_zeroed::<u8>(LENGTH)?;
    home.fill(&mut on_home, 0xee)?;
    let mut on_third = third.allocate_zeroed::<u8>(LENGTH)?;
    third.fill(&mut on_third, 0xdd)?;
    equal("read while blocked", reader.query()?, false)?;
    gate.open();
    reader.synchronize()?;
    holds("the reader saw what was there before the drop", seen.as_slice()? == source)?;
    equal("on the same stream", home.download(&on_home)?, vec![0xee; LENGTH])?;
    equal("on a third stream", third.download(&on_third)?, vec![0xdd; LENGTH])
}

fn dropped_behind_pending_work(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut seen = environment.context().allocate_pinned::<u8>(3333)?;
    let mut buffer = stream.allocate_zeroed::<u8>(3333)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 0x77)?;
    stream.copy(&mut seen, &buffer)?;
    drop(buffer);
    let mut next = stream.allocate_zeroed::<u8>(3333)?;
    stream.fill(&mut next, 0x11)?;
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    equal("contents", seen.as_slice()?.to_vec(), vec![0x77; 3333])
}

fn plain_buffer_dropped_behind_pending_work(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut seen = environment.context().allocate_pinned::<u8>(3333)?;
    let mut buffer = environment.context().allocate_zeroed::<u8>(&stream, 3333)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 0x77)?;
    stream.copy(&mut seen, &buffer)?;
    drop(buffer);
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    anabranch::flush_deferred_drops();
    equal("contents", seen.as_slice()?.to_vec(), vec![0x77; 3333])
}

fn dropped_after_its_stream(environment: &Environment) -> Verdict {
    let (home, other) = (environment.stream()?, environment.stream()?);
    let buffer = home.upload(&numbers(4000))?;
    drop(home);
    equal("contents", other.download(&buffer)?, numbers(4000))?;
    drop(buffer);
    let mut next = other.allocate_zeroed::<u8>(4000)?;
    other.fill(&mut next, 3)?;
    equal("the next one", other.download(&next)?, vec![3; 4000])
}

fn stream_dropped_with_pending_work(environment: &Environment) -> Verdict {
    let (home, other) = (environment.stream()?, environment.stream()?);
    let mut buffer = home.upload(&[0u32; 500])?;
    let mut seen = environment.context().allocate_pinned::<u32>(500)?;
    let gate = Gate::shut(environment, &home)?;
    home.fill(&mut buffer, 5)?;
    drop(home);
    other.copy(&mut seen, &buffer)?;
    equal("read before the dropped stream has written", other.query()?, false)?;
    gate.open();
    equal("contents", seen.as_slice()?.to_vec(), vec![5; 500])?;
    Ok(other.synchronize()?)
}

fn ten_thousand_allocations(environment: &Environment) -> Verdict {
    const LENGTH: usize = 64 << 10;
    const COUNT: u64 = 10_000;
    let stream = environment.stream()?;
    let pool = environment.device().create_memory_pool(&MemoryPoolOptions::default())?;
    for index in 0..COUNT {
        let mut buffer = stream.allocate_zeroed_from::<u8>(&pool, LENGTH)?;
        stream.fill(buffer.slice_mut(..16)?, index as u8)?;
    }
    equal("in use at the end", pool.used_bytes()?, 0)?;
    // An allocation reuses memory that the same stream has freed, without waiting.
    holds("no more than two are ever in use", pool.used_bytes_high()? <= 2 * LENGTH as u64)?;
    holds("little was reserved", pool.reserved_bytes_high()? <= COUNT * LENGTH as u64 / 8)?;
    Ok(stream.synchronize()?)
}
