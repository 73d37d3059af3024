//! Copies that the driver must refuse, and some that it must not refuse.

use super::memory_raw::{GARBAGE, Raw, address};
use crate::case::{Case, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::hal::CopyKind;
use anabranch::{ContextFlags, PinnedFlags, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("copy.past_the_end_of_device_memory", "X2", past_the_end_of_device_memory),
    Case::new("copy.past_the_end_from_the_host", "X2", past_the_end_from_the_host),
    Case::new("copy.past_the_end_to_the_host", "X2", past_the_end_to_the_host),
    Case::new("copy.null_addresses", "X2", null_addresses),
    Case::new("copy.of_nothing", "X2", of_nothing),
    Case::new("copy.garbage_addresses", "X2", garbage_addresses),
    Case::new("copy.device_memory_as_host_source", "X2", device_memory_as_host_source),
    Case::new("copy.overlapping", "X2", overlapping),
    Case::new("copy.buffer_of_another_context", "E4", buffer_of_another_context),
    Case::new("copy.pinned_buffer_of_another_context", "M1", pinned_buffer_of_another_context),
    Case::new("copy.part_beyond_the_end", "X2", part_beyond_the_end),
];

/// The driver allocates multiples of 2 MiB, so no other allocation begins directly after this one.
const BYTES: usize = 2 << 20;
const REFUSED: Status = Status::INVALID_VALUE;

fn past_the_end_of_device_memory(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let small = address("allocating", raw.allocate(4096))?;
    let (first, second) = (address("allocating", raw.allocate(BYTES))?, address("allocating", raw.allocate(BYTES))?);
    let kind = CopyKind::DeviceToDevice;
    // SAFETY: what reaches past the end is refused; nothing uses the memory afterwards.
    let (statuses, freed) = unsafe {
        let statuses = [
            raw.copy(kind, first.0, small.0, 4097),
            raw.copy(kind, first.0 + 1, second.0, BYTES),
            raw.copy(kind, first.0, second.0 + 1, BYTES),
            raw.copy(kind, first.0, second.0, 1 << 40),
            raw.copy_now(kind, small.0, first.0, BYTES),
        ];
        (statuses, [raw.free(small), raw.free(first), raw.free(second)])
    };
    equal("copies", statuses, [REFUSED; 5])?;
    equal("frees", freed, [Status::SUCCESS; 3])
}

fn past_the_end_from_the_host(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let source = vec![0u8; 4 * BYTES];
    let pageable = source.as_ptr().expose_provenance() as u64;
    let pinned = address("allocating pinned memory", raw.allocate_pinned(4 * BYTES, PinnedFlags::PORTABLE))?;
    let (small, large) = (address("allocating", raw.allocate(4096))?, address("allocating", raw.allocate(BYTES))?);
    let kind = CopyKind::HostToDevice;
    // SAFETY: what reaches past the end is refused; nothing uses the memory afterwards.
    let (statuses, freed) = unsafe {
        let statuses = [
            raw.copy_now(kind, small.0, pageable, 4097),
            raw.copy_now(kind, large.0, pageable, 4 * BYTES),
            raw.copy(kind, large.0, pageable, 4 * BYTES),
            raw.copy(kind, large.0, pinned.0, BYTES + 1),
            raw.copy(kind, large.0, pinned.0, 4 * BYTES),
        ];
        (statuses, [raw.free(small), raw.free(large), raw.free_pinned(pinned)])
    };
    equal("copies", statuses, [REFUSED; 5])?;
    equal("frees", freed, [Status::SUCCESS; 3])
}

fn past_the_end_to_the_host(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let mut destination = vec![0u8; 4 * BYTES];
    let pageable = destination.as_mut_ptr().expose_provenance() as u64;
    let pinned = address("allocating pinned memory", raw.allocate_pinned(4 * BYTES, PinnedFlags::PORTABLE))?;
    let (small, large) = (address("allocating", raw.allocate(4096))?, address("allocating", raw.allocate(BYTES))?);
    let kind = CopyKind::DeviceToHost;
    // SAFETY: what reaches past the end is refused; nothing uses the memory afterwards.
    let (statuses, freed) = unsafe {
        let statuses = [
            raw.copy_now(kind, pageable, small.0, 4097),
            raw.copy_now(kind, pageable, large.0, 4 * BYTES),
            raw.copy(kind, pinned.0, large.0, 4 * BYTES),
        ];
        (statuses, [raw.free(small), raw.free(large), raw.free_pinned(pinned)])
    };
    equal("copies", statuses, [REFUSED; 3])?;
    equal("frees", freed, [Status::SUCCESS; 3])
}

fn null_addresses(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let mut host = vec![0u8; 64];
    let pageable = host.as_mut_ptr().expose_provenance() as u64;
    let memory = address("allocating", raw.allocate(64))?;
    // SAFETY: a null address is refused; nothing uses the memory afterwards.
    let (statuses, freed) = unsafe {
        let statuses = [
            raw.copy(CopyKind::DeviceToDevice, memory.0, 0, 64),
            raw.copy(CopyKind::DeviceToDevice, 0, memory.0, 64),
            raw.copy(CopyKind::HostToDevice, memory.0, 0, 64),
            raw.copy(CopyKind::HostToDevice, 0, pageable, 64),
            raw.copy(CopyKind::DeviceToHost, 0, memory.0, 64),
            raw.copy_now(CopyKind::HostToDevice, memory.0, 0, 64),
            raw.copy_now(CopyKind::DeviceToHost, 0, memory.0, 64),
        ];
        (statuses, raw.free(memory))
    };
    equal("copies", statuses, [REFUSED; 7])?;
    equal("free", freed, Status::SUCCESS)
}

fn of_nothing(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let kinds = [CopyKind::DeviceToDevice, CopyKind::HostToDevice, CopyKind::DeviceToHost, CopyKind::Inferred];
    // SAFETY: nothing is copied.
    let null = kinds.map(|kind| unsafe { raw.copy(kind, 0, 0, 0) });
    // SAFETY: nothing is copied.
    let garbage = unsafe { raw.copy(CopyKind::DeviceToDevice, GARBAGE.0, GARBAGE.0, 0) };
    equal("null addresses", null, [Status::SUCCESS; 4])?;
    equal("garbage addresses", garbage, Status::SUCCESS)?;
    raw.synchronize()
}

fn garbage_addresses(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let mut host = vec![0u8; 4096];
    let pageable = host.as_mut_ptr().expose_provenance() as u64;
    let memory = address("allocating", raw.allocate(64))?;
    // SAFETY: what is not the device's is refused; nothing uses the memory afterwards.
    let (statuses, freed) = unsafe {
        let statuses = [
            raw.copy(CopyKind::DeviceToDevice, memory.0, GARBAGE.0, 64),
            raw.copy(CopyKind::HostToDevice, pageable, pageable + 64, 64),
        ];
        (statuses, raw.free(memory))
    };
    equal("copies", statuses, [REFUSED; 2])?;
    equal("free", freed, Status::SUCCESS)
}

fn device_memory_as_host_source(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let (first, second) = (address("allocating", raw.allocate(4096))?, address("allocating", raw.allocate(4096))?);
    // SAFETY: both have that many bytes, and are freed when the copy is complete.
    let (status, freed) = unsafe {
        let status = raw.copy(CopyKind::HostToDevice, first.0, second.0, 4096);
        raw.synchronize()?;
        (status, [raw.free(first), raw.free(second)])
    };
    equal("copy", status, Status::SUCCESS)?;
    equal("frees", freed, [Status::SUCCESS; 2])
}

/// The contents of the memory are unspecified afterwards.
fn overlapping(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let memory = address("allocating", raw.allocate(4096))?;
    // SAFETY: both ranges are within the memory, which is freed when the copy is complete.
    let (status, freed) = unsafe {
        let status = raw.copy(CopyKind::DeviceToDevice, memory.0 + 64, memory.0, 2048);
        raw.synchronize()?;
        (status, raw.free(memory))
    };
    equal("copy and free", [status, freed], [Status::SUCCESS; 2])
}

fn buffer_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, foreign) = (environment.stream()?, other.create_stream()?);
    let mut theirs = foreign.upload(&[1u8, 2, 3])?;
    let mut ours = stream.upload(&[4u8, 5, 6])?;
    refused("copy from it", stream.copy(&mut ours, &theirs), Status::INVALID_HANDLE)?;
    refused("copy to it", stream.copy(&mut theirs, &ours), Status::INVALID_HANDLE)?;
    refused("fill", stream.fill(&mut theirs, 1), Status::INVALID_HANDLE)?;
    refused("download", stream.download(&theirs), Status::INVALID_HANDLE)?;
    refused("upload", stream.copy_from_host(&mut theirs, &[0; 3]), Status::INVALID_HANDLE)?;
    equal("ours", stream.download(&ours)?, vec![4, 5, 6])?;
    equal("theirs", foreign.download(&theirs)?, vec![1, 2, 3])
}

fn pinned_buffer_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let stream = environment.stream()?;
    let mut pinned = other.allocate_pinned::<u8>(3)?;
    pinned.as_mut_slice()?.copy_from_slice(&[7, 8, 9]);
    let mut buffer = stream.allocate_zeroed::<u8>(3)?;
    stream.copy(&mut buffer, &pinned)?;
    equal("contents", stream.download(&buffer)?, vec![7, 8, 9])
}

fn part_beyond_the_end(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = stream.upload(&[0u16; 10])?;
    refused("a part", buffer.slice(5..11), REFUSED)?;
    refused("a part to write", buffer.slice_mut(11..), REFUSED)?;
    refused("backwards", buffer.slice(std::ops::Range { start: 4, end: 3 }), REFUSED)?;
    refused("the largest index", buffer.slice(..=usize::MAX), REFUSED)?;
    refused("of a part", buffer.slice(2..5)?.slice(..4), REFUSED)?;
    refused("a split", buffer.slice_mut(..)?.split_at(11), REFUSED)
}
