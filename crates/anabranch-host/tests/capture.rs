//! Captures: begun, ended, invalidated.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Fixture, live, status};

const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

#[test]
fn begin_is_refused_on_the_legacy_stream_and_twice() {
    let fixture = Fixture::new();
    for mode in MODES {
        assert_eq!(fixture.try_begin(Live::<StreamHandle>::NULL, mode), 900);
        assert_eq!(fixture.try_begin(Live::LEGACY, mode), 900);
        assert_eq!(fixture.try_begin(Live::PER_THREAD, mode), 0);
        assert_eq!(fixture.end(Live::PER_THREAD), 0);
        let stream = fixture.stream();
        fixture.begin(stream, mode);
        assert_eq!(fixture.try_begin(stream, mode), 401);
        assert_eq!(fixture.capture_status(stream), 1);
        assert_eq!(fixture.end(stream), 0);
        fixture.assert_usable(stream);
    }
}

#[test]
fn captured_work_does_not_run_and_uncaptured_work_keeps_its_order() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let order = Arc::new(AtomicUsize::new(0));
    let gate = fixture.gate(stream);
    fixture.begin(stream, CaptureMode::Relaxed);
    let captured = Arc::clone(&order);
    assert_eq!(fixture.repeatable(stream, move || captured.store(99, Ordering::Relaxed)), 0);
    assert_eq!(fixture.end(stream), 0);
    let seen = Arc::clone(&order);
    fixture.host(stream, move || {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    // The next uncaptured item follows the last uncaptured one.
    assert_eq!((fixture.query(stream), order.load(Ordering::Relaxed)), (600, 0));
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!(order.load(Ordering::Relaxed), 1);
}

#[test]
fn end_without_a_capture() {
    let fixture = Fixture::new();
    for stream in [fixture.stream(), Live::PER_THREAD, Live::LEGACY] {
        assert_eq!(fixture.end(stream), 401);
        assert_eq!(fixture.capture_status(stream), 0);
    }
}

#[test]
fn end_on_another_thread() {
    let fixture = Fixture::new();
    for mode in MODES {
        let stream = fixture.stream();
        fixture.begin(stream, mode);
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| fixture.end(stream)).join().unwrap());
        if mode == CaptureMode::Relaxed {
            assert_eq!(elsewhere, 0);
        } else {
            assert_eq!(elsewhere, 908);
            assert_eq!(fixture.capture_status(stream), 0);
        }
        assert_eq!(fixture.end(stream), 401);
        fixture.assert_usable(stream);
    }
}

#[test]
fn end_on_a_stream_that_has_joined() {
    let fixture = Fixture::new();
    let (origin, fork) = (fixture.stream(), fixture.stream());
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!(fixture.end(fork), 903);
    assert_eq!((fixture.capture_status(origin), fixture.capture_status(fork)), (2, 2));
    assert_eq!(fixture.end(fork), 903);
    assert_eq!(fixture.end(origin), 901);
    fixture.assert_usable(origin);
    fixture.assert_usable(fork);
}

#[test]
fn the_host_may_not_ask_for_a_capturing_stream() {
    let fixture = Fixture::new();
    for synchronize in [false, true] {
        for mode in MODES {
            let stream = fixture.stream();
            fixture.begin(stream, mode);
            let ask = || if synchronize { status(fixture.synchronize(stream)) } else { fixture.query(stream) };
            assert_eq!(ask(), 900);
            assert_eq!(fixture.capture_status(stream), 2);
            // Asked again it is still `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`, where enqueueing work is
            // `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)`.
            assert_eq!((ask(), fixture.node(stream), fixture.try_begin(stream, mode)), (900, 901, 401));
            assert_eq!(fixture.end(stream), 901);
            fixture.assert_usable(stream);
        }
    }
}

#[test]
fn everything_that_is_put_into_an_invalidated_stream_is_refused() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let stream = fixture.stream();
    let memory = fixture.allocate(256);
    let kernel = fixture.function(HostFunction::new("nothing", &[], |_, _| ()));
    let (event, recorded) = (fixture.event(), fixture.event());
    fixture.record(recorded, fixture.stream());
    fixture.begin(stream, CaptureMode::Relaxed);
    assert_eq!(fixture.query(stream), 900);
    let host = [0u8; 8];
    let copy = |kind, to, from| status(unsafe { driver.copy_async(&context.into(), kind, to, from, 8, stream) });
    assert_eq!(status(fixture.launch(stream, kernel, 1, 1, &[])), 901);
    assert_eq!(copy(CopyKind::HostToDevice, memory.0, host.as_ptr() as u64), 901);
    assert_eq!(copy(CopyKind::DeviceToDevice, memory.0, memory.0 + 64), 901);
    let fill = |pattern| status(unsafe { driver.fill_async(&context.into(), memory, pattern, 4, stream) });
    assert_eq!((fill(FillPattern::U8(1)), fill(FillPattern::U64(1))), (901, 901));
    assert_eq!(status(driver.allocate_async(&context.into(), 64, None, stream)), 901);
    assert_eq!(status(unsafe { driver.free_async(&context.into(), memory, stream) }), 901);
    assert_eq!(status(unsafe { driver.free_async(&context.into(), DevicePointer::NULL, stream) }), 901);
    assert_eq!(status(driver.allocate_async(&context.into(), 0, None, stream)), 901);
    assert_eq!(copy(CopyKind::DeviceToDevice, 0, 0), 901);
    // What cannot be captured at all is refused as before.
    assert_eq!(status(driver.stream_add_callback(&context.into(), stream, Box::new(|_| ()))), 900);
    assert_eq!(
        (status(driver.stream_id(&context.into(), stream)), status(driver.stream_flags(&context.into(), stream))),
        (900, 900)
    );
    assert_eq!(status(driver.stream_priority(&context.into(), stream)), 901);
    let (value, wait, write) = (Value::U32(0), WaitValueFlags::EQUAL, WriteValueFlags::empty());
    assert_eq!(status(unsafe { driver.stream_wait_value(&context.into(), stream, memory, value, wait) }), 901);
    assert_eq!(status(unsafe { driver.stream_write_value(&context.into(), stream, memory, value, write) }), 901);
    assert_eq!(fixture.try_record(event, stream, EventRecordFlags::empty()), 901);
    assert_eq!(fixture.try_record(event, stream, EventRecordFlags::EXTERNAL), 901);
    assert_eq!((fixture.try_wait(stream, recorded), fixture.try_wait(stream, event)), (901, 901));
    assert_eq!(fixture.update_dependencies(stream, &[], DependencyUpdate::Set), 901);
    assert_eq!(fixture.info(stream, false).unwrap().status, CaptureStatus::Invalidated);
    assert_eq!(fixture.end(stream), 901);
    fixture.assert_usable(stream);
    fixture.free(memory);
}

#[test]
fn a_callback_invalidates_and_unrepeatable_work_does_not() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let kept = Arc::new(());
    fixture.begin(stream, CaptureMode::Global);
    let held = Arc::clone(&kept);
    let once = HostWork::new(move || drop(held));
    assert_eq!(status(fixture.driver.stream_launch_host_function(&fixture.context.into(), stream, once)), 900);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(fixture.capture_status(stream), 1);
    assert_eq!(fixture.node(stream), 0);
    let held = Arc::clone(&kept);
    let callback: Callback = Box::new(move |_| drop(held));
    assert_eq!(status(fixture.driver.stream_add_callback(&fixture.context.into(), stream, callback)), 900);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(fixture.capture_status(stream), 2);
    assert_eq!(fixture.end(stream), 901);
    fixture.assert_usable(stream);
}

#[test]
fn the_legacy_stream_while_a_blocking_stream_captures() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let memory = fixture.allocate(64);
    let legacy = Live::LEGACY;
    let mut bytes = [0u8; 4];
    let address = bytes.as_mut_ptr() as u64;
    let uses: &[(&str, &dyn Fn(EventHandle) -> i32)] = &[
        ("query", &|_| fixture.query(legacy)),
        ("synchronize", &|_| status(fixture.synchronize(legacy))),
        ("record", &|event| fixture.try_record(live(event), legacy, EventRecordFlags::empty())),
        ("wait", &|event| fixture.try_wait(legacy, live(event))),
        ("copy", &|_| status(unsafe { driver.copy(&context.into(), CopyKind::DeviceToHost, address, memory.0, 4) })),
        ("fill", &|_| status(unsafe { driver.fill_async(&context.into(), memory, FillPattern::U8(0), 4, legacy) })),
        ("allocate", &|_| status(driver.allocate_async(&context.into(), 4, None, Live::<StreamHandle>::NULL))),
        ("free", &|_| status(unsafe { driver.free_async(&context.into(), memory, legacy) })),
    ];
    for (name, call) in uses {
        for stream in [fixture.blocking(), Live::PER_THREAD] {
            let event = fixture.event();
            fixture.record(event, fixture.stream());
            fixture.begin(stream, CaptureMode::Relaxed);
            // Asking for its status does no harm, nor does a host function.
            assert_eq!((fixture.capture_status(legacy), status(fixture.info(legacy, true))), (906, 906), "{name}");
            assert_eq!(fixture.node(legacy), 906, "{name}");
            assert_eq!(fixture.capture_status(stream), 1, "{name}");
            assert_eq!(call(event.handle()), 906, "{name}");
            assert_eq!(fixture.capture_status(stream), 2, "{name}");
            assert_eq!(call(event.handle()), 906, "{name}: while it is invalidated");
            assert_eq!(fixture.end(stream), 901, "{name}");
            assert_eq!(fixture.capture_status(legacy), 0, "{name}");
            assert_eq!(fixture.node(legacy), 0, "{name}");
        }
    }
    fixture.synchronize(legacy).unwrap();
    fixture.free(memory);
}

#[test]
fn the_legacy_stream_while_other_streams_capture() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let foreign = live(driver.stream_create(&other.into(), StreamFlags::empty(), 0).unwrap());
    let memory = fixture.allocate(4);
    let stream = fixture.stream();
    for mode in MODES {
        // A non-blocking stream, and a blocking one of another context.
        fixture.begin(stream, mode);
        driver.stream_begin_capture(&other.into(), foreign, CaptureMode::Relaxed).unwrap();
        assert_eq!(fixture.node(Live::LEGACY), 0);
        assert_eq!(fixture.capture_status(Live::LEGACY), 0);
        fixture.read(memory, 1);
        let fill =
            unsafe { driver.fill_async(&context.into(), memory, FillPattern::U8(0), 4, Live::<StreamHandle>::NULL) };
        assert_eq!(status(fill), 0);
        assert_eq!((fixture.capture_status(stream), fixture.capture_status(foreign)), (1, 1));
        assert_eq!(fixture.end(stream), 0);
        assert_eq!(fixture.end(foreign), 0);
    }
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
    fixture.free(memory);
}

#[test]
fn a_blocking_stream_that_has_joined_counts_for_the_legacy_stream() {
    let fixture = Fixture::new();
    let (origin, fork, event) = (fixture.stream(), fixture.blocking(), fixture.event());
    let record = || fixture.try_record(event, Live::LEGACY, EventRecordFlags::empty());
    fixture.begin(origin, CaptureMode::Relaxed);
    assert_eq!(record(), 0);
    fixture.fork(origin, fork);
    assert_eq!(record(), 906);
    assert_eq!((fixture.capture_status(origin), fixture.capture_status(fork)), (2, 2));
    assert_eq!(fixture.end(origin), 901);
    fixture.assert_usable(Live::PER_THREAD);
    assert_eq!(fixture.node(Live::LEGACY), 0);
    fixture.assert_usable(fork);
}

#[test]
fn a_stream_that_is_destroyed_while_it_captures() {
    let fixture = Fixture::new();
    for mode in MODES {
        let (stream, fork, event) = (fixture.blocking(), fixture.stream(), fixture.event());
        fixture.begin(stream, mode);
        assert_eq!(fixture.node(stream), 0);
        fixture.record(event, stream);
        fixture.wait(fork, event);
        unsafe { fixture.driver.stream_destroy(&fixture.context.into(), stream.handle()) }.unwrap();
        // Nobody could end the capture any more.
        assert_eq!((fixture.capture_status(fork), fixture.query_event(event)), (0, 1));
        assert_eq!((status(fixture.synchronize_all()), fixture.node(Live::LEGACY)), (0, 0));
        fixture.assert_usable(fork);
    }
}

#[test]
fn a_stream_that_has_joined_and_is_destroyed() {
    let fixture = Fixture::new();
    let (origin, joined, open) = (fixture.stream(), fixture.stream(), fixture.blocking());
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, joined);
    assert_eq!(fixture.node(joined), 0);
    fixture.fork(joined, origin);
    unsafe { fixture.driver.stream_destroy(&fixture.context.into(), joined.handle()) }.unwrap();
    assert_eq!(fixture.end(origin), 0);
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, open);
    assert_eq!(fixture.node(open), 0);
    unsafe { fixture.driver.stream_destroy(&fixture.context.into(), open.handle()) }.unwrap();
    assert_eq!(fixture.end(origin), 904);
    assert_eq!(fixture.node(Live::LEGACY), 0);
    fixture.assert_usable(origin);
}

#[test]
fn a_context_that_is_lost_while_its_stream_captures() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let (stream, broken) = (fixture.stream(), fixture.stream());
    let kernel = fixture.function(HostFunction::new("fault", &[], |_, _| KernelFault::trap("a test").raise()));
    fixture.begin(stream, CaptureMode::Global);
    fixture.launch(broken, kernel, 1, 1, &[]).unwrap();
    support::until("the context is lost", || fixture.capture_status(broken) == 719);
    assert_eq!((fixture.query(stream), fixture.node(stream), status(fixture.synchronize_all())), (719, 719, 719));
    // Its other contexts are not kept from what it prohibits for ever.
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    assert_eq!(status(driver.allocate(&other.into(), 16)), 900);
    assert_eq!(fixture.end(stream), 719);
    let memory = driver.allocate(&other.into(), 16).unwrap();
    unsafe { driver.free(&other.into(), memory) }.unwrap();
    assert_eq!(fixture.end(stream), 719);
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
}

#[test]
fn a_thread_that_ends_while_its_default_stream_captures() {
    let fixture = Fixture::new();
    let fork = fixture.stream();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            fixture.begin(Live::PER_THREAD, CaptureMode::Global);
            fixture.fork(Live::PER_THREAD, fork);
            assert_eq!(fixture.node(fork), 0);
        });
    });
    support::until("the capture is over", || fixture.capture_status(fork) == 0);
    let memory = fixture.allocate(4);
    fixture.free(memory);
    fixture.assert_usable(fork);
    fixture.assert_usable(Live::PER_THREAD);
}

#[test]
fn a_thread_that_ends_while_a_stream_captures() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    std::thread::scope(|scope| {
        scope.spawn(|| fixture.begin(stream, CaptureMode::Global));
    });
    assert_eq!(fixture.capture_status(stream), 1);
    assert_eq!(fixture.node(stream), 0);
    assert_eq!(fixture.end(stream), 908);
    fixture.assert_usable(stream);
}

#[test]
fn a_context_that_is_destroyed_while_its_stream_captures() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let foreign = live(driver.stream_create(&other.into(), StreamFlags::NON_BLOCKING, 0).unwrap());
    let (fork, origin) = (fixture.stream(), fixture.stream());
    let drawn = live(driver.stream_create(&other.into(), StreamFlags::empty(), 0).unwrap());
    driver.stream_begin_capture(&other.into(), foreign, CaptureMode::Relaxed).unwrap();
    let event = live(driver.event_create(&other.into(), EventFlags::DISABLE_TIMING).unwrap());
    driver.event_record(&other.into(), event, foreign, EventRecordFlags::empty()).unwrap();
    fixture.wait(fork, event);
    fixture.begin(origin, CaptureMode::Relaxed);
    fixture.fork(origin, drawn);
    assert_eq!(fixture.capture_status(drawn), 1);
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
    assert_eq!((fixture.capture_status(fork), fixture.capture_status(origin)), (0, 2));
    fixture.assert_usable(fork);
    assert_eq!(fixture.end(origin), 901);
    fixture.assert_usable(origin);
}

#[test]
fn captures_of_two_drivers_do_not_meet() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let stream = one.stream();
    one.begin(stream, CaptureMode::Global);
    let memory = two.allocate(4);
    two.free(memory);
    two.synchronize_all().unwrap();
    assert_eq!(one.end(stream), 0);
}

#[test]
fn a_driver_that_goes_while_streams_capture() {
    let dropped = Arc::new(());
    {
        let fixture = Fixture::new();
        let (stream, held) = (fixture.stream(), Arc::clone(&dropped));
        fixture.begin(stream, CaptureMode::Global);
        assert_eq!(fixture.repeatable(stream, move || assert_eq!(*held, ())), 0);
        fixture.begin(Live::PER_THREAD, CaptureMode::Relaxed);
    }
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[test]
fn host_work_may_not_capture() {
    let fixture = Arc::new(Fixture::new());
    let stream = fixture.stream();
    let inside = Arc::clone(&fixture);
    let answers = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let noted = Arc::clone(&answers);
    fixture.host(stream, move || {
        let context = inside.context;
        noted.lock().extend([
            inside.try_begin(stream, CaptureMode::Relaxed),
            status(inside.end_with_graph(stream)),
            inside.capture_status(stream),
            status(inside.info(stream, true)),
            inside.update_dependencies(stream, &[], DependencyUpdate::Add),
        ]);
        assert!(!context.handle().is_null());
    });
    fixture.synchronize(stream).unwrap();
    assert_eq!(*answers.lock(), [800; 5]);
}
