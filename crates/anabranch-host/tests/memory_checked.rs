//! Memory whose use is checked: each kind of mistake is made on purpose, and found.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive; what the tests do to memory, the checked device keeps from happening"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use anabranch_host::HostOptions;
use std::sync::mpsc::channel;
use support::graphs::{allocation, fill};
use support::{Fixture, SMALL, live, status, until};

const FRESH: u32 = 0xCDCD_CDCD;
const FREED: u32 = 0xDDDD_DDDD;

fn checked() -> Fixture {
    Fixture::with(HostOptions { check_memory: true, ..SMALL })
}

impl Fixture {
    fn report(&self) -> MemoryReport {
        self.driver.memory_report(DeviceOrdinal(0)).unwrap()
    }

    /// The only finding.
    #[track_caller]
    fn finding(&self) -> MemoryFinding {
        let findings = self.report().findings;
        assert_eq!(findings.len(), 1, "{findings:#?}");
        findings.into_iter().next().unwrap()
    }

    #[track_caller]
    fn assert_found(&self, kind: MemoryFindingKind, address: u64, bytes: u64, words: &[&str]) {
        let finding = self.finding();
        assert_eq!((finding.kind, finding.address, finding.bytes), (kind, address, bytes), "{finding}");
        for word in words {
            assert!(finding.message.contains(word), "{word:?} is not in: {finding}");
        }
    }

    fn allocate_async(&self, bytes: usize, stream: Live<'_, StreamHandle>) -> DevicePointer {
        self.driver.allocate_async(&self.context.into(), bytes, None, stream).unwrap()
    }

    fn free_async(&self, address: DevicePointer, stream: Live<'_, StreamHandle>) {
        unsafe { self.driver.free_async(&self.context.into(), address, stream) }.unwrap();
    }

    fn copy(
        &self,
        kind: CopyKind,
        to: DevicePointer,
        from: DevicePointer,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> i32 {
        status(unsafe { self.driver.copy_async(&self.context.into(), kind, to.0, from.0, bytes, stream) })
    }

    /// Reads in the order of a stream.
    fn read_on(&self, address: DevicePointer, count: usize, stream: Live<'_, StreamHandle>) -> Vec<u32> {
        let mut values = vec![0u32; count];
        let to = DevicePointer(values.as_mut_ptr() as u64);
        assert_eq!(self.copy(CopyKind::DeviceToHost, to, address, count * 4, stream), 0);
        self.synchronize(stream).unwrap();
        values
    }

    /// The stream's number. A lost context does not report it.
    fn id(&self, stream: Live<'_, StreamHandle>) -> u64 {
        self.driver.stream_id(&self.context.into(), stream).unwrap()
    }
}

/// A kernel that writes 1 to the first element of its memory.
fn one() -> HostFunction {
    HostFunction::new("one", &[8], |block, arguments| {
        let memory = arguments.slice::<u8>(0);
        block.phase(|_, _| memory.set(0, 1));
    })
}

/// A kernel that does not touch its memory.
fn idle() -> HostFunction {
    HostFunction::new("idle", &[8], |_, _| {})
}

#[test]
fn nobody_checks_unless_told_to() {
    let fixture = Fixture::new();
    assert_eq!(fixture.driver.memory_report(DeviceOrdinal(0)), None);
    assert_eq!(checked().driver.memory_report(DeviceOrdinal(7)), None);
}

#[test]
fn a_copy_behind_the_free_of_another_stream_is_found_and_does_not_run() {
    let fixture = checked();
    let (owner, user, other) = (fixture.stream(), fixture.stream(), fixture.stream());
    let names = [owner, user, other].map(|stream| format!("stream {}", fixture.id(stream)));
    let memory = fixture.allocate_async(1000, owner);
    fixture.fill(owner, memory, 5, 250);
    let mut target = vec![7u32; 4];
    let pinned = fixture.driver.allocate_pinned(&fixture.context.into(), 16, PinnedFlags::empty()).unwrap();
    unsafe { pinned.cast::<u32>().copy_from(target.as_ptr(), 4) };
    fixture.synchronize(owner).unwrap();

    let gate = fixture.gate(user);
    let pinned_at = DevicePointer(pinned as u64);
    assert_eq!(fixture.copy(CopyKind::DeviceToHost, pinned_at, memory.byte_add(8), 16, user), 0);
    // Nothing orders the free behind the copy.
    fixture.free_async(memory, other);
    fixture.synchronize(other).unwrap();
    assert_eq!(fixture.report().findings, []);
    gate.open();
    let failure = fixture.synchronize(user).unwrap_err();
    assert_eq!(failure.status, Status::ILLEGAL_ADDRESS);
    assert!(failure.to_string().contains("a copy in stream"), "{failure}");
    fixture.assert_found(
        MemoryFindingKind::UseAfterFree,
        memory.0 + 8,
        16,
        &["a copy", &names[1], "8 bytes into the 1000 bytes of memory of a pool", &names[0], &names[2], "freed"],
    );
    unsafe { target.as_mut_ptr().copy_from(pinned.cast::<u32>(), 4) };
    assert_eq!(target, [7; 4], "the copy did not run");
}

#[test]
fn a_copy_before_the_free_is_no_finding() {
    let fixture = checked();
    let (owner, user) = (fixture.stream(), fixture.stream());
    let (event, done) = (fixture.event(), fixture.event());
    let memory = fixture.allocate_async(1000, owner);
    fixture.record(event, owner);
    fixture.wait(user, event);
    let gate = fixture.gate(user);
    fixture.fill(user, memory, 5, 250);
    fixture.record(done, user);
    fixture.wait(owner, done);
    fixture.free_async(memory, owner);
    gate.open();
    fixture.synchronize_all().unwrap();
    assert_eq!(fixture.report(), MemoryReport::default());
}

#[test]
fn use_before_the_allocation_is_found() {
    let fixture = checked();
    let (owner, user) = (fixture.stream(), fixture.stream());
    let gate = fixture.gate(owner);
    let memory = fixture.allocate_async(64, owner);
    fixture.fill(user, memory, 5, 16);
    assert_eq!(status(fixture.synchronize(user)), 700);
    gate.open();
    fixture.assert_found(MemoryFindingKind::UseBeforeAllocation, memory.0, 64, &["a fill", "not yet come to allocate"]);
}

#[test]
fn one_byte_too_many_is_found() {
    let fixture = checked();
    let (stream, kernel) = (fixture.stream(), fixture.function(idle()));
    let memory = fixture.allocate_async(100, stream);
    fixture.launch(stream, kernel, 1, 1, &[(memory, 100)]).unwrap();
    fixture.synchronize(stream).unwrap();
    fixture.launch(stream, kernel, 1, 1, &[(memory.byte_add(1), 100)]).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 700);
    let words = ["the kernel `idle`", "to 1 bytes past the end of the 100 bytes"];
    fixture.assert_found(MemoryFindingKind::OutOfBounds, memory.0 + 1, 100, &words);
}

#[test]
fn memory_that_never_was_is_found() {
    let fixture = checked();
    let (stream, kernel) = (fixture.stream(), fixture.function(one()));
    let mut plain = [0u8; 8];
    let address = DevicePointer(plain.as_mut_ptr() as u64);
    fixture.launch(stream, kernel, 1, 1, &[(address, 8)]).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 700);
    fixture.assert_found(MemoryFindingKind::NoMemory, address.0, 8, &["the kernel `one`", "where no memory is"]);
    assert_eq!(plain, [0; 8], "the kernel did not run");
}

#[test]
fn kernels_and_values_and_volumes_are_looked_at() {
    type Use = fn(&Fixture, Live<'_, StreamHandle>, DevicePointer, Live<'_, FunctionHandle>);
    let uses: [Use; 5] = [
        |fixture, stream, memory, kernel| {
            fixture.launch(stream, kernel, 1, 1, &[(memory, 64)]).unwrap();
        },
        |fixture, stream, memory, _| {
            let (value, flags) = (Value::U32(1), WriteValueFlags::empty());
            unsafe { fixture.driver.stream_write_value(&fixture.context.into(), stream, memory, value, flags) }
                .unwrap();
        },
        |fixture, stream, memory, _| {
            let (value, flags) = (Value::U32(1), WaitValueFlags::EQUAL);
            unsafe { fixture.driver.stream_wait_value(&fixture.context.into(), stream, memory, value, flags) }.unwrap();
        },
        |fixture, stream, memory, _| {
            let place = |address: u64| CopyPlace { address, host: false, pitch: 8, height: 8, origin: [0; 3] };
            let other = fixture.allocate(64);
            let copy = Copy3d { source: place(other.0), destination: place(memory.0), extent: [4, 4, 1] };
            unsafe { fixture.driver.copy_3d_async(&fixture.context.into(), &copy, stream) }.unwrap();
        },
        |fixture, stream, memory, _| {
            let graph = fixture.graph();
            fixture.add(graph, &[], fill(memory, 1, 16));
            fixture.launch_graph(fixture.instantiate(graph), stream).unwrap();
        },
    ];
    for (number, enqueue) in uses.into_iter().enumerate() {
        let fixture = checked();
        let (stream, other) = (fixture.stream(), fixture.stream());
        let id = fixture.id(stream);
        let memory = fixture.allocate(64);
        let kernel = fixture.function(one());
        let gate = fixture.gate(stream);
        enqueue(&fixture, stream, memory, kernel);
        // Plain memory, freed in the order of a stream that has nothing to do with the use.
        fixture.free_async(memory, other);
        fixture.synchronize(other).unwrap();
        gate.open();
        assert_eq!(status(fixture.synchronize(stream)), 700, "use {number}");
        let finding = fixture.finding();
        assert_eq!((finding.kind, finding.address), (MemoryFindingKind::UseAfterFree, memory.0), "use {number}");
        assert_eq!(finding.stream, Some(id), "use {number}");
    }
}

#[test]
fn a_value_whose_memory_is_freed_while_it_is_waited_for_is_found() {
    let fixture = checked();
    let (stream, other) = (fixture.stream(), fixture.stream());
    let memory = fixture.allocate(64);
    fixture.fill(stream, memory, 0, 16);
    fixture.synchronize(stream).unwrap();
    unsafe {
        fixture.driver.stream_wait_value(&fixture.context.into(), stream, memory, Value::U32(1), WaitValueFlags::EQUAL)
    }
    .unwrap();
    fixture.free_async(memory, other);
    assert_eq!(status(fixture.synchronize(stream)), 700);
    fixture.assert_found(MemoryFindingKind::UseAfterFree, memory.0, 4, &["a wait for a value"]);
}

#[test]
fn memory_freed_while_a_kernel_runs_is_found() {
    let fixture = checked();
    let (stream, other) = (fixture.stream(), fixture.stream());
    let (running, runs) = channel();
    let (go_on, goes_on) = channel::<()>();
    let goes_on = std::sync::Mutex::new(goes_on);
    let kernel = fixture.function(HostFunction::new("long", &[8], move |_, _| {
        running.send(()).unwrap();
        let _ = goes_on.lock().unwrap().recv();
    }));
    let memory = fixture.allocate(64);
    fixture.launch(stream, kernel, 1, 1, &[(memory, 64)]).unwrap();
    runs.recv().unwrap();
    fixture.free_async(memory, other);
    fixture.synchronize(other).unwrap();
    drop(go_on);
    assert_eq!(status(fixture.synchronize(stream)), 700);
    fixture.assert_found(MemoryFindingKind::UseAfterFree, memory.0, 64, &["the kernel `long`", "when it was done"]);
}

#[test]
fn a_write_through_a_stale_pointer_is_found() {
    let fixture = checked();
    let memory = fixture.allocate(100);
    fixture.free(memory);
    assert_eq!(fixture.report().findings, []);
    let stale = memory.0 as *mut u8;
    assert_eq!(unsafe { stale.cast::<u32>().read() }, FREED);
    unsafe { stale.add(40).write(1) };
    let words = ["40 bytes into the 100 bytes of device memory", "a call that waits", "changed after the free"];
    fixture.assert_found(MemoryFindingKind::WriteAfterFree, memory.0 + 40, 1, &words);
    // It is reported once.
    fixture.finding();
}

#[test]
fn a_write_through_a_stale_pointer_is_found_when_the_memory_leaves_quarantine() {
    let fixture = checked();
    let memory = fixture.allocate(100);
    fixture.free(memory);
    unsafe { (memory.0 as *mut u8).add(99).write(1) };
    // More than is kept: 64 MiB.
    (0..3).for_each(|_| fixture.free(fixture.allocate(32 << 20)));
    fixture.assert_found(MemoryFindingKind::WriteAfterFree, memory.0 + 99, 1, &[]);
}

#[test]
fn writes_around_memory_are_found_when_it_is_freed() {
    for (offset, place) in [(100, "0 bytes past the end of"), (-1, "1 bytes before")] {
        let fixture = checked();
        let stream = fixture.stream();
        let memory = fixture.allocate_async(100, stream);
        fixture.synchronize(stream).unwrap();
        let at = (memory.0 as *mut u8).wrapping_offset(offset);
        unsafe { at.write(1) };
        fixture.free_async(memory, stream);
        fixture.synchronize(stream).unwrap();
        fixture.assert_found(MemoryFindingKind::WriteOutOfBounds, at as u64, 1, &[place]);
    }
}

#[test]
fn new_memory_has_a_pattern_and_its_address_comes_again_late() {
    let fixture = checked();
    let stream = fixture.stream();
    for _ in 0..2 {
        let memory = fixture.allocate_async(16, stream);
        assert_eq!(fixture.read_on(memory, 4, stream), [FRESH; 4]);
        fixture.fill(stream, memory, 1, 4);
        fixture.free_async(memory, stream);
        assert_ne!(fixture.allocate_async(16, stream), memory);
    }
    let pinned = fixture.driver.allocate_pinned(&fixture.context.into(), 4, PinnedFlags::empty()).unwrap();
    assert_eq!(unsafe { pinned.cast::<u32>().read() }, FRESH);
    assert_eq!(fixture.report().findings, []);
}

#[test]
fn memory_of_graphs_is_live_from_its_allocation_to_its_free() {
    let fixture = checked();
    let (stream, kernel) = (fixture.stream(), fixture.function(one()));
    let graph = fixture.graph();
    let added = fixture.try_add(graph, &[], allocation(64)).unwrap();
    let memory = added.address.unwrap();
    let filled = fixture.add(graph, &[added.node], fill(memory, 3, 16));
    fixture.add(graph, &[filled], NodeParameters::Free(memory));
    let executable = fixture.instantiate(graph);
    (0..3).for_each(|_| fixture.run_graph(executable, stream));
    assert_eq!(fixture.report(), MemoryReport::default());
    fixture.launch(stream, kernel, 1, 1, &[(memory, 64)]).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 700);
    fixture.assert_found(MemoryFindingKind::UseAfterFree, memory.0, 64, &["memory of a graph", "freed"]);
}

#[test]
fn memory_of_a_graph_before_its_first_launch_is_found() {
    let fixture = checked();
    let (stream, kernel) = (fixture.stream(), fixture.function(one()));
    let memory = fixture.try_add(fixture.graph(), &[], allocation(64)).unwrap().address.unwrap();
    fixture.launch(stream, kernel, 1, 1, &[(memory, 64)]).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 700);
    fixture.assert_found(MemoryFindingKind::UseBeforeAllocation, memory.0, 64, &["no launch has allocated yet"]);
}

#[test]
fn what_is_allocated_can_be_asked_for() {
    let fixture = checked();
    let stream = fixture.stream();
    let plain = fixture.allocate(10);
    let gate = fixture.gate(stream);
    let pooled = fixture.allocate_async(20, stream);
    let pinned = fixture.driver.allocate_pinned(&fixture.context.into(), 30, PinnedFlags::empty()).unwrap();
    let kinds = || {
        let mut kinds: Vec<_> =
            fixture.report().allocations.iter().map(|live| (live.bytes, live.kind, live.address)).collect();
        kinds.sort_by_key(|(bytes, ..)| *bytes);
        kinds
    };
    let (device, pool) = ((10, AllocationKind::Device, plain.0), (20, AllocationKind::Pool, pooled.0));
    assert_eq!(kinds(), [device, pool, (30, AllocationKind::Pinned, pinned as u64)]);
    fixture.free_async(plain, stream);
    fixture.free_async(pooled, stream);
    assert_eq!(kinds().len(), 3, "the frees have not run");
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!(kinds(), [(30, AllocationKind::Pinned, pinned as u64)]);
    let other = fixture.driver.memory_report(DeviceOrdinal(1)).unwrap();
    assert_eq!(other, MemoryReport::default());
    // A context's memory is freed with it.
    unsafe { fixture.driver.primary_context_release(DeviceOrdinal(0)) }.unwrap();
    assert_eq!(fixture.report(), MemoryReport::default());
}

#[test]
fn numbers_of_pools_are_what_they_are_without() {
    let fixture = checked();
    let stream = fixture.stream();
    let pool = fixture.driver.default_memory_pool(DeviceOrdinal(0)).unwrap();
    let reserved = || fixture.driver.memory_pool_attribute(live(pool), MemoryPoolAttribute::ReservedCurrent).unwrap();
    for _ in 0..5 {
        let memory = fixture.allocate_async(4096, stream);
        fixture.free_async(memory, stream);
        assert_eq!(reserved(), 32 << 20);
    }
    fixture.synchronize(stream).unwrap();
    assert_eq!(reserved(), 0);
    assert_eq!(fixture.driver.memory_info(&fixture.context.into()).unwrap().free, 1 << 30);
}

#[test]
fn large_memory_is_checked_and_not_kept() {
    let fixture = checked();
    let (stream, other) = (fixture.stream(), fixture.stream());
    let memory = fixture.allocate(800 << 20);
    let gate = fixture.gate(stream);
    fixture.fill(stream, memory, 1, 16);
    fixture.free_async(memory, other);
    fixture.synchronize(other).unwrap();
    gate.open();
    assert_eq!(status(fixture.synchronize(stream)), 700);
    fixture.assert_found(MemoryFindingKind::NoMemory, memory.0, 64, &["a fill"]);
}

#[test]
fn many_threads_with_memory_of_their_own_are_no_finding() {
    let fixture = checked();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = fixture.stream();
                for round in 0..500 {
                    let memory = fixture.allocate_async(64 + round, stream);
                    fixture.fill(stream, memory, round as u32, 16);
                    fixture.free_async(memory, stream);
                }
                fixture.synchronize(stream).unwrap();
            });
        }
    });
    until("everything is freed", || fixture.report() == MemoryReport::default());
}
