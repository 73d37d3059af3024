//! Faults, panics, and what is not permitted.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use anabranch_host::HostOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use support::{Fixture, SMALL, live, status};

fn faulty(fixture: &Fixture) -> Live<'static, FunctionHandle> {
    fixture.function(HostFunction::new("faulty", &[8], |block, arguments| {
        let memory = arguments.slice::<u32>(0);
        block.phase(|thread, _| memory.set(thread.global_x(), 1));
    }))
}

#[test]
fn a_fault_loses_the_context_and_no_other() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let other = live(driver.context_create(DeviceOrdinal(0), ContextFlags::empty()).unwrap());
    let memory = fixture.allocate(16);
    let kernel = faulty(&fixture);
    let event = fixture.event();
    let gate = fixture.gate(stream);
    fixture.launch(stream, kernel, 1, 5, &[(memory, 16)]).unwrap();
    fixture.record(event, stream);

    let dropped = Arc::new(());
    let held = Arc::downgrade(&dropped);
    fixture.host(stream, move || drop(dropped));
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    fixture.host(stream, move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let told = Arc::new(AtomicI32::new(-1));
    let tell = Arc::clone(&told);
    let callback = Box::new(move |status: Status| tell.store(status.0, Ordering::SeqCst));
    driver.stream_add_callback(&context.into(), stream, callback).unwrap();
    gate.open();

    let failure = fixture.synchronize(stream).unwrap_err();
    assert_eq!(failure.status, Status::ILLEGAL_ADDRESS);
    assert!(matches!(failure.detail.as_deref(), Some(Detail::Fault(message)) if message.contains("element 4")));
    assert_eq!(told.load(Ordering::SeqCst), 700);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(held.upgrade().is_none());

    assert_eq!(status(driver.allocate(&context.into(), 16)), 700);
    assert_eq!(fixture.query_event(event), 700);
    assert_eq!(status(driver.stream_create(&context.into(), StreamFlags::empty(), 0)), 700);
    assert_eq!(status(fixture.launch(stream, kernel, 1, 1, &[(memory, 16)])), 700);
    assert_eq!(status(fixture.synchronize_all()), 700);
    assert_eq!(status(unsafe { driver.stream_destroy(&context.into(), stream.handle()) }), 700);
    assert_eq!(status(unsafe { driver.free(&context.into(), memory) }), 700);

    driver.context_synchronize(&other.into()).unwrap();
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
    // The last release of the primary context clears the error.
    unsafe { driver.primary_context_release(DeviceOrdinal(0)) }.unwrap();
    let again = live(driver.primary_context_retain(DeviceOrdinal(0)).unwrap());
    driver.context_synchronize(&again.into()).unwrap();
}

#[test]
fn queries_of_work_that_still_runs_report_a_fault_elsewhere() {
    for check_memory in [false, true] {
        let fixture = Fixture::with(HostOptions { check_memory, ..SMALL });
        let (held, broken) = (fixture.stream(), fixture.stream());
        let (memory, event, kernel) = (fixture.allocate(16), fixture.event(), faulty(&fixture));
        let (sender, started) = channel();
        let (release, released) = channel::<()>();
        fixture.host(held, move || {
            let _ = sender.send(());
            let _ = released.recv();
        });
        fixture.record(event, held);
        started.recv().unwrap();
        assert_eq!((fixture.query(held), fixture.query_event(event)), (600, 600));
        fixture.launch(broken, kernel, 1, 5, &[(memory, 16)]).unwrap();
        assert_eq!(status(fixture.synchronize(broken)), 700);
        let found = (fixture.query(held), fixture.query(Live::LEGACY), fixture.query_event(event));
        drop(release);
        assert_eq!(found, (700, 700, 700));
        assert_eq!(status(fixture.synchronize(held)), 700);
    }
}

#[test]
fn graphs_outlive_their_context_s_fault() {
    let fixture = Fixture::new();
    let (driver, context, stream) = (&fixture.driver, fixture.context, fixture.stream());
    let (memory, kernel, graph) = (fixture.allocate(16), faulty(&fixture), fixture.graph());
    let executable = fixture.instantiate(graph);
    fixture.launch(stream, kernel, 1, 5, &[(memory, 16)]).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 700);
    assert_eq!(status(fixture.launch_graph(executable, stream)), 700);
    assert_eq!(status(unsafe { driver.executable_destroy(&context.into(), executable.handle()) }), 0);
    let made = driver.graph_create(&context.into()).unwrap();
    for graph in [graph.handle(), made] {
        assert_eq!(status(unsafe { driver.graph_destroy(&context.into(), graph) }), 0);
    }
    assert_eq!(status(driver.function_name(&context.into(), kernel)), 700);
}

#[test]
fn a_fault_ends_waits_for_values() {
    let fixture = Fixture::new();
    let (waiting, stream) = (fixture.stream(), fixture.stream());
    let memory = fixture.allocate(16);
    // Before the wait, because loading a module waits for all work.
    let kernel = faulty(&fixture);
    unsafe {
        fixture.driver.stream_wait_value(&fixture.context.into(), waiting, memory, Value::U32(9), WaitValueFlags::EQUAL)
    }
    .unwrap();
    fixture.launch(stream, kernel, 1, 1, &[]).unwrap_err();
    fixture.launch(stream, kernel, 1, 5, &[(memory, 16)]).unwrap();
    assert_eq!(status(fixture.synchronize(waiting)), 700);
}

#[test]
fn every_fault_has_its_status() {
    for (fault, expected) in [
        (KernelFault::trap("trap"), 719),
        (KernelFault::assertion("assertion"), 710),
        (KernelFault { status: Status::MISALIGNED_ADDRESS, message: "misaligned".to_owned() }, 716),
    ] {
        let fixture = Fixture::new();
        let stream = fixture.stream();
        let kernel = fixture.function(HostFunction::new("fault", &[], move |_, _| fault.clone().raise()));
        // Enough blocks for several threads.
        fixture.launch(stream, kernel, 64, 256, &[]).unwrap();
        assert_eq!(status(fixture.synchronize(stream)), expected);
        assert_eq!(status(fixture.synchronize_all()), expected);
    }
}

/// A kernel of one block that panics with that text.
fn panicking(fixture: &Fixture, text: &'static str) -> Live<'static, FunctionHandle> {
    fixture.function(HostFunction::new("panics", &[], move |_, _| panic!("{text}")))
}

fn assert_panicked(result: Result<()>, text: &str) {
    let failure = result.unwrap_err();
    assert_eq!(failure.status, Status::LAUNCH_FAILED);
    assert!(matches!(failure.detail.as_deref(), Some(Detail::Panic(message)) if message == text), "{failure}");
}

#[test]
fn a_panic_of_a_kernel_is_an_error_of_its_stream_reported_once() {
    let fixture = Fixture::new();
    let (stream, other) = (fixture.stream(), fixture.stream());
    let (sender, receiver) = channel();
    let (first, second) = (panicking(&fixture, "first"), panicking(&fixture, "second"));
    fixture.launch(stream, first, 1, 1, &[]).unwrap();
    fixture.launch(stream, second, 1, 1, &[]).unwrap();
    fixture.host(stream, move || sender.send(()).unwrap());
    fixture.host(other, || ());
    fixture.synchronize(other).unwrap();
    assert_panicked(fixture.synchronize(stream), "first");
    receiver.try_recv().unwrap();
    fixture.synchronize(stream).unwrap();
    fixture.synchronize_all().unwrap();

    let kernel = fixture.function(HostFunction::new("block", &[], |block, _| {
        assert_ne!(block.index(), [7, 0, 0], "block seven");
    }));
    fixture.launch(stream, kernel, 64, 256, &[]).unwrap();
    let failure = fixture.synchronize_all().unwrap_err();
    assert!(matches!(failure.detail.as_deref(), Some(Detail::Panic(message)) if message.contains("block seven")));
    assert_eq!(fixture.query(stream), 0);
}

#[test]
fn events_leave_the_report_to_the_stream() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let event = fixture.event();
    let kernel = panicking(&fixture, "before the record");
    let gate = fixture.gate(stream);
    fixture.launch(stream, kernel, 1, 1, &[]).unwrap();
    fixture.record(event, stream);
    assert_eq!(fixture.query(stream), 600);
    gate.open();
    fixture.driver.event_synchronize(&fixture.context.into(), event).unwrap();
    assert_eq!(fixture.query_event(event), 0);
    assert_panicked(fixture.synchronize(stream), "before the record");
    fixture.synchronize(stream).unwrap();
}

#[test]
fn a_panic_can_be_taken_while_later_work_is_queued() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (early, late) = (panicking(&fixture, "early"), panicking(&fixture, "late"));
    fixture.launch(stream, early, 1, 1, &[]).unwrap();
    let event = fixture.event();
    fixture.record(event, stream);
    let gate = fixture.gate(stream);
    fixture.driver.event_synchronize(&fixture.context.into(), event).unwrap();
    let take = || fixture.driver.stream_take_failure(&fixture.context.into(), stream);
    assert_eq!(fixture.query(stream), 600);
    assert_panicked(take(), "early");
    take().unwrap();
    fixture.launch(stream, late, 1, 1, &[]).unwrap();
    take().unwrap();
    gate.open();
    assert_panicked(fixture.synchronize(stream), "late");
}

#[test]
fn the_panic_of_a_destroyed_stream_reaches_the_context() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let kernel = panicking(&fixture, "orphan");
    let gate = fixture.gate(stream);
    fixture.launch(stream, kernel, 1, 1, &[]).unwrap();
    unsafe { fixture.driver.stream_destroy(&fixture.context.into(), stream.handle()) }.unwrap();
    gate.open();
    assert_panicked(fixture.synchronize_all(), "orphan");
    fixture.synchronize_all().unwrap();
}

#[test]
fn host_work_and_kernels_must_not_call_the_driver() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (sender, receiver) = channel();
    let driver: &'static anabranch_host::HostDriver = Box::leak(Box::new(fixture.driver));
    let context = fixture.context;
    let from_callback = sender.clone();
    let from_kernel = sender.clone();
    let calls = move || {
        [
            status(driver.stream_query(&context.into(), stream)),
            status(driver.context_synchronize(&context.into())),
            status(driver.allocate(&context.into(), 16)),
            status(driver.device_count()),
        ]
    };
    let function = HostFunction::new("calls", &[], move |_, _| from_kernel.send(calls()).unwrap());
    let module: HostModule = [function].into_iter().collect();
    unsafe {
        let module = live(driver.module_load(&context.into(), ModuleImage::Host(&module)).unwrap());
        let function = live(driver.module_function(&context.into(), module, "calls").unwrap());
        driver
            .stream_launch_host_function(&context.into(), stream, HostWork::new(move || sender.send(calls()).unwrap()))
            .unwrap();
        driver
            .stream_add_callback(&context.into(), stream, Box::new(move |_| from_callback.send(calls()).unwrap()))
            .unwrap();
        let launch = Launch {
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            attributes: None,
            overlap: None,
            arguments: &[],
            ranges: &[],
        };
        driver.launch(&context.into(), stream, function, &launch).unwrap();
        driver.stream_synchronize(&context.into(), stream).unwrap();
    }
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [[800; 4]; 3]);
}

#[test]
fn the_driver_can_be_dropped_by_host_work() {
    let Fixture { driver, context, .. } = Fixture::new();
    let (sender, receiver) = channel::<anabranch_host::HostDriver>();
    let (done, is_done) = channel();
    let stream = live(driver.stream_create(&context.into(), StreamFlags::empty(), 0).unwrap());
    let work = HostWork::new(move || {
        drop(receiver.recv().unwrap());
        done.send(()).unwrap();
    });
    driver.stream_launch_host_function(&context.into(), stream, work).unwrap();
    sender.send(driver).unwrap();
    is_done.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
}

#[test]
fn work_that_is_queued_when_the_driver_goes_is_dropped() {
    let fixture = Fixture::new();
    let (stream, gated) = (fixture.stream(), fixture.allocate(4));
    let flags = WaitValueFlags::EQUAL;
    // Behind a gate, so that a worker takes all the rest at once.
    let gate = fixture.gate(stream);
    unsafe { fixture.driver.stream_wait_value(&fixture.context.into(), stream, gated, Value::U32(1), flags) }.unwrap();
    let held = Arc::new(());
    let kept = Arc::clone(&held);
    fixture.host(stream, move || drop(kept));
    let event = fixture.event();
    fixture.record(event, stream);
    fixture.wait(fixture.blocking(), event);
    gate.open();
    // Time for both streams to be parked; the test holds if they are not.
    std::thread::sleep(std::time::Duration::from_millis(5));
    drop(fixture);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn streams_of_the_api() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    for default in [Live::<StreamHandle>::NULL, Live::LEGACY, Live::PER_THREAD] {
        assert_eq!(status(unsafe { driver.stream_destroy(&context.into(), default.handle()) }), 400);
        assert_eq!(driver.stream_flags(&context.into(), default).unwrap(), StreamFlags::empty());
        assert_eq!(driver.stream_context(&context.into(), default).unwrap(), context.handle());
    }
    let bad = StreamFlags::from_bits_retain(0x8);
    assert_eq!(status(driver.stream_create(&context.into(), bad, 0)), 1);
    for (asked, got) in [(-100, -5), (-5, -5), (-1, -1), (0, 0), (1, 0), (100, 0)] {
        let stream = live(driver.stream_create(&context.into(), StreamFlags::NON_BLOCKING, asked).unwrap());
        assert_eq!(driver.stream_priority(&context.into(), stream).unwrap(), got);
        assert_eq!(driver.stream_flags(&context.into(), stream).unwrap(), StreamFlags::NON_BLOCKING);
    }
    let id = |stream| driver.stream_id(&context.into(), stream).unwrap();
    assert_eq!(id(Live::<StreamHandle>::NULL), id(Live::LEGACY));
    assert_ne!(id(Live::<StreamHandle>::NULL), id(fixture.stream()));

    let stream = fixture.stream();
    let policy = StreamAttribute::SynchronizationPolicy(SynchronizationPolicy::BlockingSync);
    driver.stream_set_attribute(&context.into(), stream, &policy).unwrap();
    let kind = StreamAttributeKind::SynchronizationPolicy;
    assert_eq!(driver.stream_attribute(&context.into(), stream, kind).unwrap(), policy);
    let kind = StreamAttributeKind::AccessPolicyWindow;
    assert_eq!(status(driver.stream_attribute(&context.into(), stream, kind)), 801);

    let other = live(driver.context_create(DeviceOrdinal(0), ContextFlags::empty()).unwrap());
    assert_eq!(status(driver.stream_query(&other.into(), stream)), 0);
    assert_eq!(status(driver.stream_synchronize(&other.into(), stream)), 0);
    assert_eq!(status(driver.allocate_async(&other.into(), 64, None, stream)), 0);
    assert_eq!(driver.stream_context(&other.into(), stream).unwrap(), context.handle());
}

#[test]
fn devices_and_contexts() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    assert_eq!(driver.device_count().unwrap(), 2);
    assert_eq!(status(driver.device_properties(DeviceOrdinal(2))), 101);
    assert_eq!(status(driver.primary_context_retain(DeviceOrdinal(2))), 101);
    assert_eq!(driver.device_properties(DeviceOrdinal(0)).unwrap().name, "Software device (2 workers)");
    assert_eq!(driver.primary_context_retain(DeviceOrdinal(0)).unwrap(), fixture.context.handle());
    unsafe { driver.primary_context_release(DeviceOrdinal(0)) }.unwrap();
    unsafe { driver.primary_context_release(DeviceOrdinal(0)) }.unwrap();
    assert_eq!(status(unsafe { driver.primary_context_release(DeviceOrdinal(0)) }), 201);
    let context = live(driver.primary_context_retain(DeviceOrdinal(0)).unwrap());
    let peer = live(driver.context_create(DeviceOrdinal(1), ContextFlags::SCHEDULE_BLOCKING_SYNC).unwrap());
    assert!(driver.device_can_access_peer(DeviceOrdinal(0), DeviceOrdinal(1)).unwrap());
    unsafe {
        assert_eq!(status(driver.context_disable_peer_access(&context.into(), peer)), 705);
        assert_eq!(status(driver.context_enable_peer_access(&context.into(), peer)), 0);
        assert_eq!(status(driver.context_enable_peer_access(&context.into(), peer)), 704);
        assert_eq!(status(driver.context_disable_peer_access(&context.into(), peer)), 0);
        assert_eq!(status(driver.context_destroy(&peer.into())), 0);
        assert_eq!(status(driver.context_destroy(&context.into())), 201);
    }
}

#[test]
fn a_destroyed_context_completes_its_work_first() {
    let fixture = Fixture::new();
    let context = live(fixture.driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let stream = live(fixture.driver.stream_create(&context.into(), StreamFlags::empty(), 0).unwrap());
    let (open, gate) = channel();
    let (sender, receiver) = channel();
    let work = HostWork::new(move || {
        gate.recv().unwrap();
        sender.send(()).unwrap();
    });
    fixture.driver.stream_launch_host_function(&context.into(), stream, work).unwrap();
    std::thread::scope(|scope| {
        let destroy = scope.spawn(|| unsafe { fixture.driver.context_destroy(&context.into()) });
        open.send(()).unwrap();
        destroy.join().unwrap().unwrap();
    });
    receiver.try_recv().unwrap();
}
