//! Host memory of the program that is registered as pinned memory.

use super::memory_gate::opened_during;
use super::memory_raw::{Raw, address, numbers};
use crate::case::{Case, Failed, Need, Verdict, equal, holds, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::hal::CopyKind;
use anabranch::{Capabilities, DevicePointer, LaunchConfig, PinnedFlags, RegisterFlags, Status, flush_deferred_drops};

pub(super) const CASES: &[Case] = &[
    Case::new("registered.vector_is_used_where_it_is", "M7", vector_is_used_where_it_is).needs(REGISTERED),
    Case::new("registered.copies_return_at_once", "M7", copies_return_at_once).needs(REGISTERED),
    Case::new("registered.used_by_a_kernel", "M7", used_by_a_kernel).needs(REGISTERED),
    Case::new("registered.dropped_with_a_pending_copy", "M7", dropped_with_a_pending_copy).needs(REGISTERED),
    Case::new("registered.scope_waits_at_its_end", "M7", scope_waits_at_its_end).needs(REGISTERED),
    Case::new("registered.again_after_unregistering", "M7", again_after_unregistering).needs(REGISTERED),
    Case::new("registered.device_pointer", "M7", device_pointer).needs(REGISTERED),
    Case::new("registered.range_of_an_address", "M7", range_of_an_address).needs(REGISTERED),
    Case::new("registered.of_no_bytes", "X2", of_no_bytes),
    Case::new("registered.unknown_flags", "X2", unknown_flags),
    Case::new("registered.twice", "X2", twice),
    Case::new("registered.overlapping_ranges", "X2", overlapping_ranges),
    Case::new("registered.two_ranges_of_a_page", "X2", two_ranges_of_a_page),
    Case::new("registered.memory_of_the_driver", "X2", memory_of_the_driver),
    Case::new("registered.what_is_not_registered", "X2", what_is_not_registered),
    Case::new("registered.freed_as_pinned_memory", "X2", freed_as_pinned_memory),
];

const REGISTERED: &[Need] = &[Need::Capability(Capabilities::REGISTERED_HOST_ADDRESS)];

/// The size of a page that no system exceeds, so that such parts of memory share none.
const PAGE: usize = 64 << 10;

/// Memory of whole pages, of which each case has its own.
struct Pages {
    memory: Vec<u8>,
    begin: usize,
}

impl Pages {
    fn new(count: usize) -> Self {
        let memory = vec![0u8; (count + 1) * PAGE];
        let begin = memory.as_ptr().addr().next_multiple_of(PAGE) - memory.as_ptr().addr();
        Self { memory, begin }
    }

    /// The address of a byte in the pages.
    fn at(&mut self, offset: usize) -> *mut u8 {
        self.memory[self.begin + offset..].as_mut_ptr()
    }
}

impl Raw {
    /// # Safety
    /// The memory stays allocated until it is unregistered, or the driver refuses the call.
    unsafe fn register(&self, address: *mut u8, bytes: usize, flags: RegisterFlags) -> Status {
        // SAFETY: the caller keeps the memory allocated, or the driver refuses the call.
        status_of(unsafe { self.driver().register_pinned(&self.context().into(), address, bytes, flags) })
    }

    /// # Safety
    /// No queued work uses the memory, or the driver refuses the call.
    unsafe fn unregister(&self, address: *mut u8) -> Status {
        // SAFETY: no queued work uses the memory, or the driver refuses the call.
        status_of(unsafe { self.driver().unregister_pinned(&self.context().into(), address) })
    }
}

fn one_of(what: &str, found: Status, expected: &[Status]) -> Verdict {
    if expected.contains(&found) { Ok(()) } else { Err(Failed(format!("{what}: {found:?}, not one of {expected:?}"))) }
}

fn vector_is_used_where_it_is(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let vector = numbers(100_000);
    let at = vector.as_ptr();
    let mut pinned = environment.context().register_pinned(vector).map_err(|(error, _)| error)?;
    equal("the address", pinned.device_pointer().0, at.addr() as u64)?;
    let mut buffer = stream.allocate_zeroed::<u8>(100_000)?;
    stream.copy(&mut buffer, &pinned)?;
    stream.fill(pinned.slice_mut(..50_000)?, 3)?;
    equal("what was copied from it", stream.download(&buffer)?, numbers(100_000))?;
    let vector = pinned.into_vec().map_err(|(error, _)| error)?;
    equal("the address of the vector", vector.as_ptr(), at)?;
    equal("what was filled", vector[..50_000].iter().filter(|&&byte| byte != 3).count(), 0)?;
    equal("what was not", &vector[50_000..], &numbers(100_000)[50_000..])
}

fn copies_return_at_once(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut pinned = environment.context().register_pinned(numbers(1 << 20)).map_err(|(error, _)| error)?;
    let mut buffer = stream.allocate_zeroed::<u8>(1 << 20)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut buffer, &pinned)?;
    stream.copy(&mut pinned, &buffer)?;
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    equal("what came back", pinned.as_slice()?, &numbers(1 << 20)[..])
}

fn used_by_a_kernel(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let source = context.register_pinned(vec![1.5f32; 1000]).map_err(|(error, _)| error)?;
    let mut destination = context.register_pinned(vec![0.0f32; 1000]).map_err(|(error, _)| error)?;
    let scale = environment.kernel("scale")?;
    let config = LaunchConfig::for_elements(1000);
    // SAFETY: `scale` reads and writes as many numbers as its last argument says.
    unsafe { stream.launch(&scale, &config, (&mut destination, &source, 4.0f32, 1000u32))? };
    equal("result", destination.into_vec().map_err(|(error, _)| error)?, vec![6.0; 1000])
}

fn dropped_with_a_pending_copy(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let pinned = environment.context().register_pinned(numbers(100_000)).map_err(|(error, _)| error)?;
    let mut buffer = stream.allocate_zeroed::<u8>(100_000)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.copy(&mut buffer, &pinned)?;
    drop(pinned);
    // This could be the same memory if the vector had been freed.
    let other = vec![0xeeu8; 100_000];
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    let found = stream.download(&buffer)?;
    flush_deferred_drops();
    drop(other);
    equal("what was copied", found, numbers(100_000))
}

fn scope_waits_at_its_end(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut memory = vec![0u8; 100_000];
    let gate = Gate::shut(environment, &stream)?;
    opened_during(&gate, || environment.context().register_scope(&mut memory, |pinned| stream.fill(pinned, 7)))?;
    equal("what is not filled", memory.iter().filter(|&&byte| byte != 7).count(), 0)
}

fn again_after_unregistering(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut memory = numbers(4096);
    for value in 0..4u8 {
        environment.context().register_scope(&mut memory, |pinned| stream.fill(pinned, value))?;
        equal("what is filled", memory[4095], value)?;
    }
    let pinned = environment.context().register_pinned(memory).map_err(|(error, _)| error)?;
    equal("what was registered", pinned.into_vec().map_err(|(error, _)| error)?, vec![3; 4096])
}

fn device_pointer(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    let begin = pages.at(0);
    // SAFETY: the pages outlive this, and no work uses them.
    unsafe {
        equal("registering", raw.register(begin, PAGE, RegisterFlags::DEVICE_MAP), Status::SUCCESS)?;
        let ask = |at: *mut u8| {
            raw.driver().pinned_device_pointer(&raw.context().into(), at).map_err(|failure| failure.status)
        };
        let (first, inside) = (ask(begin), ask(begin.add(100)));
        equal("unregistering", raw.unregister(begin), Status::SUCCESS)?;
        equal("the first byte", first, Ok(DevicePointer(begin.addr() as u64)))?;
        equal("a byte inside", inside, Ok(DevicePointer(begin.addr() as u64 + 100)))?;
        equal("afterwards", ask(begin), Err(Status::INVALID_VALUE))
    }
}

fn range_of_an_address(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    let begin = pages.at(0);
    // SAFETY: the pages outlive this, and no work uses them.
    unsafe {
        equal("registering", raw.register(begin, PAGE, RegisterFlags::PORTABLE), Status::SUCCESS)?;
        let range = raw.driver().memory_range(&raw.context().into(), DevicePointer(begin.addr() as u64 + 64));
        equal("unregistering", raw.unregister(begin), Status::SUCCESS)?;
        let range = range.map_err(|failure| Failed(format!("asking for the range: {failure:?}")))?;
        equal("the first address", range.address.0, begin.addr() as u64)?;
        equal("the size", range.bytes, PAGE as u64)?;
        equal("the device", range.device, None)
    }
}

fn of_no_bytes(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    // SAFETY: the driver refuses the calls.
    unsafe {
        equal("no bytes", raw.register(pages.at(0), 0, RegisterFlags::empty()), Status::INVALID_VALUE)?;
        let nowhere = std::ptr::null_mut();
        equal("no address", raw.register(nowhere, PAGE, RegisterFlags::empty()), Status::INVALID_VALUE)?;
        equal("unregistering no address", raw.unregister(nowhere), Status::INVALID_VALUE)
    }
}

fn unknown_flags(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    let unknown = RegisterFlags::from_bits_retain(0x100);
    // SAFETY: the driver refuses the call.
    equal("registering", unsafe { raw.register(pages.at(0), PAGE, unknown) }, Status::INVALID_VALUE)
}

fn twice(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    let (begin, none) = (pages.at(0), RegisterFlags::empty());
    // SAFETY: the pages outlive this, and no work uses them.
    unsafe {
        equal("registering", raw.register(begin, PAGE, none), Status::SUCCESS)?;
        let again = raw.register(begin, PAGE, none);
        equal("unregistering", raw.unregister(begin), Status::SUCCESS)?;
        equal("registering again", again, Status::HOST_MEMORY_ALREADY_REGISTERED)?;
        equal("unregistering again", raw.unregister(begin), Status::HOST_MEMORY_NOT_REGISTERED)
    }
}

fn overlapping_ranges(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(4));
    let none = RegisterFlags::empty();
    let (first, second) = (pages.at(0), pages.at(PAGE));
    // SAFETY: the pages outlive this, and no work uses them.
    unsafe {
        equal("registering", raw.register(second, 2 * PAGE, none), Status::SUCCESS)?;
        let found = [(first, 2), (first, 4), (second, 1), (second.add(PAGE), 2)]
            .map(|(begin, count)| raw.register(begin, count * PAGE, none));
        let beside = raw.register(first, PAGE, none);
        equal("unregistering", raw.unregister(second), Status::SUCCESS)?;
        equal("overlapping", found, [Status::HOST_MEMORY_ALREADY_REGISTERED; 4])?;
        equal("beside it", beside, Status::SUCCESS)?;
        equal("unregistering that", raw.unregister(first), Status::SUCCESS)
    }
}

/// The documentation does not say whether a driver takes both.
fn two_ranges_of_a_page(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    let none = RegisterFlags::empty();
    let (first, second) = (pages.at(0), pages.at(1024));
    // SAFETY: the page outlives this, and work that uses it is waited for.
    unsafe {
        equal("registering", raw.register(first, 1024, none), Status::SUCCESS)?;
        let beside = raw.register(second, 1024, none);
        let unregistered = raw.unregister(first);
        // The other one is not affected.
        let buffer = raw.stream().upload(&numbers(1024))?;
        let copied =
            raw.copy(CopyKind::DeviceToHost, second.expose_provenance() as u64, buffer.device_pointer().0, 1024);
        raw.synchronize()?;
        if beside == Status::SUCCESS {
            equal("unregistering the other", raw.unregister(second), Status::SUCCESS)?;
        }
        one_of("registering the other", beside, &[Status::SUCCESS, Status::HOST_MEMORY_ALREADY_REGISTERED])?;
        equal("unregistering", unregistered, Status::SUCCESS)?;
        equal("copying", copied, Status::SUCCESS)?;
        let found = std::slice::from_raw_parts(second, 1024);
        equal("what was copied", found, &numbers(1024)[..])
    }
}

fn memory_of_the_driver(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let pinned = address("allocating pinned memory", raw.allocate_pinned(PAGE, PinnedFlags::PORTABLE))?;
    let pointer = std::ptr::with_exposed_provenance_mut(pinned.0 as usize);
    // SAFETY: no work uses the memory, and the driver refuses to register and to unregister it.
    unsafe {
        let registered = raw.register(pointer, PAGE, RegisterFlags::empty());
        let unregistered = raw.unregister(pointer);
        equal("freeing", raw.free_pinned(pinned), Status::SUCCESS)?;
        one_of("registering", registered, &[Status::HOST_MEMORY_ALREADY_REGISTERED, Status::INVALID_VALUE])?;
        one_of("unregistering", unregistered, &[Status::HOST_MEMORY_NOT_REGISTERED, Status::INVALID_VALUE])
    }
}

fn what_is_not_registered(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(2));
    let (begin, inside) = (pages.at(0), pages.at(PAGE));
    // SAFETY: the pages outlive this, and no work uses them.
    unsafe {
        equal("memory that is not", raw.unregister(begin), Status::HOST_MEMORY_NOT_REGISTERED)?;
        equal("registering", raw.register(begin, 2 * PAGE, RegisterFlags::empty()), Status::SUCCESS)?;
        let found = raw.unregister(inside);
        equal("unregistering", raw.unregister(begin), Status::SUCCESS)?;
        one_of("an address inside", found, &[Status::HOST_MEMORY_NOT_REGISTERED, Status::INVALID_VALUE])?;
    }
    holds("it is host memory again", pages.memory.iter().all(|&byte| byte == 0))
}

fn freed_as_pinned_memory(environment: &Environment) -> Verdict {
    let (raw, mut pages) = (Raw::new(environment)?, Pages::new(1));
    let begin = pages.at(0);
    // SAFETY: the page outlives this, no work uses it, and the driver refuses to free it.
    unsafe {
        equal("registering", raw.register(begin, PAGE, RegisterFlags::empty()), Status::SUCCESS)?;
        let pointer = DevicePointer(begin.expose_provenance() as u64);
        let found = [raw.free_pinned(pointer), raw.free(pointer)];
        equal("unregistering", raw.unregister(begin), Status::SUCCESS)?;
        equal("freeing", found, [Status::INVALID_VALUE; 2])
    }
}
