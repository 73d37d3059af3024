//! Memory that is allocated and freed with invalid arguments, with unusual sizes, and with the wrong call.

use super::memory_raw::{GARBAGE, HUGE, Raw, address, numbers};
use crate::case::{Case, Need, Verdict, equal, holds};
use crate::environment::Environment;
use anabranch::{Capabilities, PinnedFlags, Status};

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("memory.plain_allocation_of_nothing", "X2", plain_allocation_of_nothing),
    Case::new("memory.stream_ordered_allocation_of_nothing", "M3", stream_ordered_allocation_of_nothing).needs(POOLS),
    Case::new("memory.buffers_of_nothing", "M3", buffers_of_nothing),
    Case::new("memory.more_than_there_is", "X2", more_than_there_is),
    Case::new("memory.more_than_the_address_space", "X2", more_than_the_address_space),
    Case::new("memory.free_null", "X2", free_null),
    Case::new("memory.free_garbage", "X2", free_garbage),
    Case::new("memory.free_inside", "X2", free_inside),
    Case::new("memory.free_twice", "X2", free_twice),
    Case::new("memory.plain_free_of_stream_ordered", "M3", plain_free_of_stream_ordered).needs(POOLS),
    Case::new("memory.stream_ordered_free_of_plain", "M3", stream_ordered_free_of_plain).needs(POOLS),
    Case::new("memory.free_of_the_wrong_kind", "X2", free_of_the_wrong_kind),
    Case::new("memory.zeroed_after_reuse", "M3", zeroed_after_reuse),
    Case::new("memory.plain_buffer", "M3", plain_buffer),
    Case::new("memory.info_is_consistent", "X2", info_is_consistent),
    Case::new("memory.addresses_do_not_overlap", "M3", addresses_do_not_overlap),
];

fn plain_allocation_of_nothing(environment: &Environment) -> Verdict {
    equal("allocating 0 bytes", Raw::new(environment)?.allocate(0), Err(Status::INVALID_VALUE))
}

fn stream_ordered_allocation_of_nothing(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let nothing = address("allocating 0 bytes in stream order", raw.allocate_async(0))?;
    // SAFETY: the driver returned this address, and nothing uses it.
    equal("freeing it", unsafe { raw.free_async(nothing) }, Status::SUCCESS)?;
    raw.synchronize()
}

fn buffers_of_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut device = stream.upload::<u32>(&[])?;
    let mut pinned = environment.context().allocate_pinned::<u32>(0)?;
    stream.fill(&mut device, 7)?;
    stream.copy(&mut pinned, &device)?;
    equal("pinned elements", pinned.as_slice()?.len(), 0)?;
    equal("pinned elements to write", pinned.as_mut_slice()?.len(), 0)?;
    equal("downloaded elements", stream.download(&device)?.len(), 0)?;
    let full = stream.upload(&[1u32, 2, 3])?;
    equal("an empty part", stream.download(full.slice(3..)?)?, vec![])
}

fn more_than_there_is(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let expected = Err(Status::OUT_OF_MEMORY);
    equal("plain", raw.allocate(HUGE), expected)?;
    equal("pinned", raw.allocate_pinned(HUGE, PinnedFlags::empty()), expected)?;
    if environment.device().capabilities().contains(Capabilities::MEMORY_POOLS) {
        equal("in stream order", raw.allocate_async(HUGE), expected)?;
    }
    // The failures have no lasting effect.
    let stream = environment.stream()?;
    equal("memory afterwards", stream.download(&stream.upload(&[5u8])?)?, vec![5])
}

fn more_than_the_address_space(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let status = |result: anabranch::Result<()>| result.err().map(|error| error.status());
    let expected = Some(Status::OUT_OF_MEMORY);
    equal("device", status(stream.allocate_zeroed::<u64>(usize::MAX / 4).map(drop)), expected)?;
    equal("pinned", status(context.allocate_pinned::<u64>(usize::MAX / 4).map(drop)), expected)?;
    equal("plain", status(context.allocate_zeroed::<u64>(&stream, usize::MAX / 4).map(drop)), expected)
}

fn free_null(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let null = anabranch::DevicePointer::NULL;
    // SAFETY: the null address is ignored.
    unsafe {
        equal("free", raw.free(null), Status::SUCCESS)?;
        equal("free in stream order", raw.free_async(null), Status::SUCCESS)?;
        equal("free pinned", raw.free_pinned(null), Status::SUCCESS)
    }
}

fn free_garbage(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let pageable = vec![0u8; 4096];
    let on_the_heap = anabranch::DevicePointer(pageable.as_ptr().expose_provenance() as u64);
    // SAFETY: the driver returned neither address, so it has nothing to free.
    unsafe {
        equal("free", raw.free(GARBAGE), Status::INVALID_VALUE)?;
        equal("free in stream order", raw.free_async(GARBAGE), Status::INVALID_VALUE)?;
        equal("free pinned", raw.free_pinned(GARBAGE), Status::INVALID_VALUE)?;
        equal("free pinned of the heap", raw.free_pinned(on_the_heap), Status::INVALID_VALUE)
    }
}

fn free_inside(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let plain = address("allocating", raw.allocate(4096))?;
    let pinned = address("allocating pinned memory", raw.allocate_pinned(4096, PinnedFlags::PORTABLE))?;
    // SAFETY: nothing uses the memory, and an address inside it is refused.
    unsafe {
        let inside = raw.free(plain.byte_add(256));
        equal("then the right one", raw.free(plain), Status::SUCCESS)?;
        equal("inside", inside, Status::INVALID_VALUE)?;
        let inside = raw.free_pinned(pinned.byte_add(256));
        equal("then the right pinned one", raw.free_pinned(pinned), Status::SUCCESS)?;
        equal("inside of pinned memory", inside, Status::INVALID_VALUE)?;
    }
    if environment.device().capabilities().contains(Capabilities::MEMORY_POOLS) {
        let ordered = address("allocating in stream order", raw.allocate_async(4096))?;
        // SAFETY: nothing uses the memory, and an address inside it is refused.
        unsafe {
            equal("inside, in stream order", raw.free_async(ordered.byte_add(256)), Status::INVALID_VALUE)?;
            equal("then the right one in stream order", raw.free_async(ordered), Status::SUCCESS)?;
        }
    }
    raw.synchronize()
}

fn free_twice(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let plain = address("allocating", raw.allocate(4096))?;
    let pinned = address("allocating pinned memory", raw.allocate_pinned(4096, PinnedFlags::PORTABLE))?;
    // SAFETY: nothing uses the memory, no one else allocates in between, and the second time is refused.
    unsafe {
        equal("free", raw.free(plain), Status::SUCCESS)?;
        equal("again", raw.free(plain), Status::INVALID_VALUE)?;
        equal("free pinned", raw.free_pinned(pinned), Status::SUCCESS)?;
        equal("pinned again", raw.free_pinned(pinned), Status::INVALID_VALUE)?;
    }
    if environment.device().capabilities().contains(Capabilities::MEMORY_POOLS) {
        let ordered = address("allocating in stream order", raw.allocate_async(4096))?;
        // SAFETY: nothing uses the memory, no one else allocates in between, and the second time is refused.
        unsafe {
            equal("free in stream order", raw.free_async(ordered), Status::SUCCESS)?;
            equal("again in stream order", raw.free_async(ordered), Status::INVALID_VALUE)?;
            raw.synchronize()?;
            equal("again after synchronizing", raw.free_async(ordered), Status::INVALID_VALUE)?;
        }
    }
    raw.synchronize()
}

fn plain_free_of_stream_ordered(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let ordered = address("allocating in stream order", raw.allocate_async(4096))?;
    raw.synchronize()?;
    // SAFETY: nothing uses the memory, and the second time is refused.
    unsafe {
        equal("plain free", raw.free(ordered), Status::SUCCESS)?;
        equal("then in stream order", raw.free_async(ordered), Status::INVALID_VALUE)
    }
}

fn stream_ordered_free_of_plain(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let plain = address("allocating", raw.allocate(4096))?;
    // SAFETY: nothing uses the memory, and the second time is refused.
    unsafe {
        let freed = raw.free_async(plain);
        raw.synchronize()?;
        let again = raw.free(plain);
        equal("free in stream order", freed, Status::SUCCESS)?;
        equal("then a plain free", again, Status::INVALID_VALUE)
    }
}

fn free_of_the_wrong_kind(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let plain = address("allocating", raw.allocate(4096))?;
    let pinned = address("allocating pinned memory", raw.allocate_pinned(4096, PinnedFlags::PORTABLE))?;
    // SAFETY: nothing uses the memory, and what is not of the call's kind is refused.
    unsafe {
        let (pinned_as_plain, plain_as_pinned) = (raw.free(pinned), raw.free_pinned(plain));
        equal("free", raw.free(plain), Status::SUCCESS)?;
        equal("free pinned", raw.free_pinned(pinned), Status::SUCCESS)?;
        equal("free of pinned memory", pinned_as_plain, Status::INVALID_VALUE)?;
        equal("free pinned of device memory", plain_as_pinned, Status::INVALID_VALUE)
    }
}

fn zeroed_after_reuse(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for length in [1usize, 1000, 100_000] {
        for _ in 0..3 {
            let mut dirty = stream.allocate_zeroed::<u8>(length)?;
            stream.fill(&mut dirty, 0xa5)?;
            drop(dirty);
            let found = stream.download(&stream.allocate_zeroed::<u8>(length)?)?;
            equal("bytes that are not zero", found.iter().filter(|&&byte| byte != 0).count(), 0)?;
        }
    }
    Ok(())
}

fn plain_buffer(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = environment.context().allocate_zeroed::<u8>(&stream, 4099)?;
    equal("at first", stream.download(&buffer)?, vec![0; 4099])?;
    let source = numbers(4099);
    stream.copy_from_host(&mut buffer, &source)?;
    equal("then", stream.download(&buffer)?, source)
}

fn info_is_consistent(environment: &Environment) -> Verdict {
    let info = environment.context().memory_info()?;
    holds("there is memory", info.total > 0)?;
    holds("the free memory does not exceed the total", info.free <= info.total)
}

fn addresses_do_not_overlap(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut ranges = Vec::new();
    let mut buffers = Vec::new();
    for length in (1..200).map(|step| step * 37) {
        let buffer = stream.allocate_zeroed::<u8>(length)?;
        let start = buffer.device_pointer().0;
        holds("the address is aligned to 256 bytes", start.is_multiple_of(256))?;
        ranges.push((start, start + length as u64));
        buffers.push(buffer);
    }
    ranges.sort_unstable();
    holds("no two ranges overlap", ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0))?;
    drop(buffers);
    Ok(stream.synchronize()?)
}
