//! Memory: allocation, copies, fills, pools.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Fixture, live, status};

fn copy(fixture: &Fixture, kind: CopyKind, to: u64, from: u64, bytes: usize, stream: Live<'_, StreamHandle>) -> i32 {
    status(unsafe { fixture.driver.copy_async(&fixture.context.into(), kind, to, from, bytes, stream) })
}

#[test]
fn allocation() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    unsafe {
        assert_eq!(status(driver.allocate(&context.into(), 0)), 1);
        assert_eq!(status(driver.allocate(&context.into(), usize::MAX)), 2);
        assert_eq!(status(driver.allocate(&context.into(), 2 << 30)), 2);
        assert_eq!(status(driver.allocate_managed(&context.into(), 0)), 1);
        assert!(driver.allocate_pinned(&context.into(), 0, PinnedFlags::empty()).unwrap().is_null());
        assert_eq!(status(driver.allocate_pinned(&context.into(), 8, PinnedFlags::from_bits_retain(0x100))), 1);
        assert_eq!(status(driver.free(&context.into(), DevicePointer::NULL)), 0);
        assert_eq!(status(driver.free(&context.into(), DevicePointer(0x1234))), 1);
        let memory = driver.allocate(&context.into(), 1000).unwrap();
        assert_eq!(memory.0 % 256, 0);
        assert_eq!(status(driver.free(&context.into(), memory.byte_add(1))), 1);
        assert_eq!(status(driver.free_pinned(&context.into(), memory.0 as *mut u8)), 1);
        assert_eq!(driver.memory_info(&context.into()).unwrap(), MemoryInfo { free: (1 << 30) - 1000, total: 1 << 30 });
        assert!(fixture.read(memory, 250).iter().all(|&value| value == 0));
        assert_eq!(status(driver.free(&context.into(), memory)), 0);
        assert_eq!(status(driver.free(&context.into(), memory)), 1);
        assert_eq!(driver.memory_info(&context.into()).unwrap().free, 1 << 30);
    }
}

#[test]
fn copies_go_where_they_should() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (a, b) = (fixture.allocate(64), fixture.allocate(64));
    let managed = fixture.driver.allocate_managed(&fixture.context.into(), 64).unwrap();
    let pinned = fixture.driver.allocate_pinned(&fixture.context.into(), 64, PinnedFlags::PORTABLE).unwrap();
    let values: Vec<u32> = (0..16).collect();
    let mut back = vec![0u32; 16];
    let (values_at, back_at) = (values.as_ptr() as u64, back.as_mut_ptr() as u64);
    assert_eq!(copy(&fixture, CopyKind::HostToDevice, a.0, values_at, 64, stream), 0);
    assert_eq!(copy(&fixture, CopyKind::DeviceToDevice, b.0, a.0, 64, stream), 0);
    assert_eq!(copy(&fixture, CopyKind::Inferred, pinned as u64, b.0, 64, stream), 0);
    assert_eq!(copy(&fixture, CopyKind::Inferred, managed.0, pinned as u64, 64, stream), 0);
    assert_eq!(copy(&fixture, CopyKind::DeviceToHost, back_at, managed.0, 64, stream), 0);
    fixture.synchronize(stream).unwrap();
    assert_eq!(back, values);
    unsafe { fixture.driver.free_pinned(&fixture.context.into(), pinned) }.unwrap();
    fixture.free(managed);
}

#[test]
fn copies_outside_of_memory_are_refused() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (a, b) = (fixture.allocate(64), fixture.allocate(64));
    let host = [0u8; 128];
    let at = host.as_ptr() as u64;
    use CopyKind::{DeviceToDevice, DeviceToHost, HostToDevice, Inferred};
    for (kind, to, from, bytes, expected) in [
        (DeviceToDevice, a.0, b.0, 0, 0),
        (DeviceToDevice, a.0, b.0, 65, 1),
        (DeviceToDevice, 0, b.0, 8, 1),
        (DeviceToDevice, a.0, at, 8, 1),
        (HostToDevice, a.0 + 60, at, 8, 1),
        (HostToDevice, a.0, 0, 8, 1),
        (DeviceToHost, at, at, 8, 1),
        (Inferred, a.0 + 60, at, 8, 1),
        (Inferred, a.0, b.0, usize::MAX, 1),
    ] {
        assert_eq!(copy(&fixture, kind, to, from, bytes, stream), expected, "{kind:?} {bytes}");
    }
    let freed = fixture.allocate(64);
    assert_eq!(copy(&fixture, DeviceToDevice, freed.0, a.0, 64, stream), 0);
    fixture.free(freed);
    assert_eq!(copy(&fixture, DeviceToDevice, freed.0, a.0, 64, stream), 1);
}

#[test]
fn small_uploads_are_staged() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let memory = fixture.allocate(128 << 10);
    let gate = fixture.gate(stream);
    let mut values = vec![7u32; 32 << 10];
    assert_eq!(copy(&fixture, CopyKind::HostToDevice, memory.0, values.as_ptr() as u64, 128 << 10, stream), 0);
    values.fill(9);
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert!(fixture.read(memory, 32 << 10).iter().all(|&value| value == 7));
}

/// Makes a call while work is pending, and checks whether it waits for that work.
fn check(fixture: &Fixture, stream: Live<'_, StreamHandle>, waits: bool, call: impl FnOnce() -> i32 + Send) {
    let gate = fixture.gate(stream);
    if !waits {
        // A call that waits after all would never come back.
        assert_eq!(call(), 0);
        gate.open();
    } else {
        let opened = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&opened);
        std::thread::scope(|scope| {
            let call = scope.spawn(move || {
                assert_eq!(call(), 0);
                assert!(seen.load(Ordering::SeqCst), "the call did not wait");
            });
            // Time for a call that does not wait to come back and be found out.
            std::thread::sleep(std::time::Duration::from_millis(5));
            opened.store(true, Ordering::SeqCst);
            gate.open();
            call.join().unwrap();
        });
    }
    fixture.synchronize_all().unwrap();
}

#[test]
fn what_waits_for_pending_work_and_what_does_not() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    const LARGE: usize = 1 << 20;
    let (a, b) = (fixture.allocate(LARGE), fixture.allocate(LARGE));
    let pinned = driver.allocate_pinned(&context.into(), LARGE, PinnedFlags::empty()).unwrap() as u64;
    let pageable = vec![0u8; LARGE];
    let host = pageable.as_ptr() as u64;
    let (one, two) = (vec![0u8; 64], vec![0u8; 64]);
    let (one, two) = (one.as_ptr() as u64, two.as_ptr() as u64);
    let async_copy = |waits, kind, to, from, bytes| {
        check(&fixture, stream, waits, || copy(&fixture, kind, to, from, bytes, stream));
    };
    async_copy(false, CopyKind::HostToDevice, a.0, pinned, LARGE);
    async_copy(true, CopyKind::HostToDevice, a.0, host, LARGE);
    async_copy(false, CopyKind::HostToDevice, a.0, host, 16 << 10);
    async_copy(false, CopyKind::DeviceToHost, pinned, a.0, LARGE);
    async_copy(true, CopyKind::DeviceToHost, host, a.0, 16 << 10);
    async_copy(true, CopyKind::Inferred, one, two, 64);
    async_copy(false, CopyKind::DeviceToDevice, b.0, a.0, LARGE);

    let blocking = fixture.blocking();
    let sync_copy = |waits, kind, to, from, bytes| {
        check(&fixture, blocking, waits, || status(unsafe { driver.copy(&context.into(), kind, to, from, bytes) }));
    };
    sync_copy(true, CopyKind::DeviceToHost, host, a.0, 64);
    sync_copy(true, CopyKind::DeviceToHost, pinned, a.0, 64);
    sync_copy(true, CopyKind::HostToDevice, a.0, pinned, 64);
    sync_copy(false, CopyKind::HostToDevice, a.0, host, 64);
    sync_copy(false, CopyKind::DeviceToDevice, b.0, a.0, 64);

    let allocate_pinned = || driver.allocate_pinned(&context.into(), 64, PinnedFlags::empty());
    let (first, second) = (fixture.allocate(64), allocate_pinned().unwrap() as usize);
    let module = HostModule::new();
    unsafe {
        check(&fixture, stream, true, || status(driver.free(&context.into(), first)));
        check(&fixture, stream, true, || status(driver.free_pinned(&context.into(), second as *mut u8)));
        check(&fixture, stream, true, || status(driver.module_load(&context.into(), ModuleImage::Host(&module))));
        check(&fixture, stream, false, || status(driver.allocate(&context.into(), 64)));
        check(&fixture, stream, false, || status(allocate_pinned().map(|_| ())));
        check(&fixture, stream, false, || status(driver.event_create(&context.into(), EventFlags::empty())));
        check(&fixture, stream, false, || status(driver.stream_create(&context.into(), StreamFlags::empty(), 0)));
        check(&fixture, stream, false, || {
            status(driver.fill_async(&context.into(), a, FillPattern::U8(1), 64, stream))
        });
    }
}

#[test]
fn fills() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(32));
    let fill = |offset, pattern, count| {
        let address = memory.byte_add(offset);
        status(unsafe { fixture.driver.fill_async(&fixture.context.into(), address, pattern, count, stream) })
    };
    assert_eq!(fill(0, FillPattern::U64(0x0102_0304_0506_0708), 4), 0);
    assert_eq!(fill(8, FillPattern::U32(0xdead_beef), 2), 0);
    assert_eq!(fill(16, FillPattern::U16(0xabcd), 2), 0);
    assert_eq!(fill(21, FillPattern::U8(0xee), 1), 0);
    assert_eq!(fill(0, FillPattern::U8(0), 0), 0);
    assert_eq!(fill(0, FillPattern::U32(0), 9), 1);
    assert_eq!(fill(2, FillPattern::U32(0), 1), 1);
    assert_eq!(fill(0, FillPattern::U64(0), usize::MAX), 1);
    fixture.synchronize(stream).unwrap();
    let low = 0x0506_0708;
    let high = 0x0102_0304;
    assert_eq!(fixture.read(memory, 8), [low, high, 0xdead_beef, 0xdead_beef, 0xabcd_abcd, 0x0102_ee04, low, high]);
}

#[test]
fn regions() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let memory = fixture.allocate(4 * 4 * 4);
    let source: Vec<u8> = (0..64).collect();
    let place = |address, host, origin| CopyPlace { address, host, pitch: 4, height: 4, origin };
    let copy = |source: CopyPlace, destination: CopyPlace, extent| {
        status(unsafe { driver.copy_3d_async(&context.into(), &Copy3d { source, destination, extent }, stream) })
    };
    let from = place(source.as_ptr() as u64, true, [1, 1, 1]);
    let to = place(memory.0, false, [2, 2, 2]);
    assert_eq!(copy(from, to, [2, 2, 2]), 0);
    assert_eq!(copy(from, to, [0, 9, 9]), 0);
    assert_eq!(copy(from, to, [3, 2, 2]), 1);
    assert_eq!(copy(from, to, [2, 3, 2]), 1);
    assert_eq!(copy(from, to, [2, 2, 3]), 1);
    assert_eq!(copy(from, CopyPlace { address: 0, ..to }, [1, 1, 1]), 1);
    assert_eq!(copy(from, CopyPlace { height: usize::MAX, ..to }, [1, 1, 1]), 1);
    let mut back = vec![0u8; 64];
    assert_eq!(copy(place(memory.0, false, [0; 3]), place(back.as_mut_ptr() as u64, true, [0; 3]), [4, 4, 4]), 0);
    for (index, &value) in back.iter().enumerate() {
        let [x, y, z] = [index % 4, index / 4 % 4, index / 16];
        let expected = if x >= 2 && y >= 2 && z >= 2 { index - 1 - 4 - 16 } else { 0 };
        assert_eq!(value as usize, expected, "at {x}, {y}, {z}");
    }
}

#[test]
fn regions_lie_close_together_where_no_pitch_or_height_is_given() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let memory = fixture.allocate(24);
    let source: Vec<u8> = (1..=24).collect();
    let place = |address, host, pitch, height| CopyPlace { address, host, pitch, height, origin: [0; 3] };
    let copy = |pitch, height, extent| {
        let source = place(source.as_ptr() as u64, true, pitch, height);
        let copy = Copy3d { source, destination: place(memory.0, false, 0, 0), extent };
        status(unsafe { driver.copy_3d_async(&context.into(), &copy, stream) })
    };
    assert_eq!(copy(0, 0, [2, 3, 4]), 0);
    assert_eq!(copy(0, 0, [2, 3, 5]), 1, "it ends outside of the memory");
    assert_eq!((copy(1, 0, [2, 1, 1]), copy(2, 2, [2, 3, 1])), (1, 1), "what is given has to be enough");
    let mut back = [0u8; 24];
    assert_eq!(self::copy(&fixture, CopyKind::DeviceToHost, back.as_mut_ptr() as u64, memory.0, 24, stream), 0);
    fixture.synchronize(stream).unwrap();
    assert_eq!(back.to_vec(), source);
}

#[test]
fn managed_memory_is_prefetched() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let (managed, plain) = (driver.allocate_managed(&context.into(), 64).unwrap(), fixture.allocate(64));
    let prefetch = |address, bytes, device| {
        status(unsafe { driver.prefetch_async(&context.into(), address, bytes, device, stream) })
    };
    assert_eq!(prefetch(managed, 64, Some(DeviceOrdinal(0))), 0);
    assert_eq!(prefetch(managed, 64, None), 0);
    assert_eq!(prefetch(managed, 65, None), 1);
    assert_eq!(prefetch(plain, 64, None), 1);
    assert_eq!(prefetch(managed, 64, Some(DeviceOrdinal(9))), 101);
}

#[test]
fn peers() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let peer = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let (here, there) = (fixture.allocate(64), driver.allocate(&peer.into(), 64).unwrap());
    let stream = fixture.stream();
    fixture.fill(stream, here, 3, 16);
    let copy = |bytes| unsafe {
        driver.copy_peer_async(&fixture.context.into(), there, peer, here, fixture.context, bytes, stream)
    };
    assert_eq!((status(copy(64)), status(copy(65))), (0, 1));
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(there, 16), [3; 16]);
    unsafe { driver.context_destroy(&peer.into()) }.unwrap();
}
