//! Events.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use support::{Fixture, live, status};

fn timed(fixture: &Fixture) -> Live<'static, EventHandle> {
    live(fixture.driver.event_create(&fixture.context.into(), EventFlags::empty()).unwrap())
}

fn elapsed(fixture: &Fixture, start: Live<'_, EventHandle>, end: Live<'_, EventHandle>) -> Result<f32> {
    fixture.driver.event_elapsed(&fixture.context.into(), start, end)
}

#[test]
fn an_event_that_was_never_recorded_is_complete() {
    let fixture = Fixture::new();
    let (event, stream) = (fixture.event(), fixture.stream());
    assert_eq!(fixture.query_event(event), 0);
    fixture.driver.event_synchronize(&fixture.context.into(), event).unwrap();
    fixture.wait(stream, event);
    assert_eq!(fixture.query(stream), 0);
}

#[test]
fn a_record_captures_the_work_before_it_only() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (first, second) = (fixture.event(), timed(&fixture));
    let gate_one = fixture.gate(stream);
    fixture.record(first, stream);
    fixture.record(second, stream);
    let gate_two = fixture.gate(stream);
    assert_eq!((fixture.query_event(first), fixture.query_event(second)), (600, 600));
    gate_one.open();
    for event in [first, second] {
        fixture.driver.event_synchronize(&fixture.context.into(), event).unwrap();
        assert_eq!(fixture.query_event(event), 0);
    }
    assert_eq!(fixture.query(stream), 600);
    gate_two.open();
    fixture.synchronize(stream).unwrap();
}

#[test]
fn a_wait_binds_to_the_record_before_it() {
    let fixture = Fixture::new();
    let (busy, stream) = (fixture.stream(), fixture.stream());
    let event = fixture.event();
    fixture.record(event, busy);
    fixture.wait(stream, event);
    let gate = fixture.gate(busy);
    fixture.record(event, busy);
    fixture.synchronize(stream).unwrap();
    // The other way about: a wait keeps what it is bound to, though the event is complete again.
    fixture.wait(stream, event);
    fixture.host(stream, || ());
    fixture.record(event, fixture.stream());
    assert_eq!(fixture.query_event(event), 0);
    assert_eq!(fixture.query(stream), 600);
    gate.open();
    fixture.synchronize(stream).unwrap();
}

#[test]
fn a_destroyed_event_and_stream_are_still_waited_for() {
    let fixture = Fixture::new();
    let (busy, stream) = (fixture.stream(), fixture.stream());
    let event = fixture.event();
    let gate = fixture.gate(busy);
    fixture.record(event, busy);
    fixture.wait(stream, event);
    fixture.host(stream, || ());
    unsafe { fixture.driver.event_destroy(&fixture.context.into(), event.handle()) }.unwrap();
    unsafe { fixture.driver.stream_destroy(&fixture.context.into(), busy.handle()) }.unwrap();
    assert_eq!(fixture.query(stream), 600);
    gate.open();
    fixture.synchronize(stream).unwrap();
}

#[test]
fn times() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (start, end, plain) = (timed(&fixture), timed(&fixture), fixture.event());
    assert_eq!(status(elapsed(&fixture, start, end)), 400);
    fixture.record(start, stream);
    assert_eq!(status(elapsed(&fixture, start, end)), 400);
    fixture.record(plain, stream);
    assert_eq!(status(elapsed(&fixture, start, plain)), 400);
    let gate = fixture.gate(stream);
    fixture.record(end, stream);
    assert_eq!(status(elapsed(&fixture, start, end)), 600);
    std::thread::sleep(std::time::Duration::from_millis(2));
    gate.open();
    fixture.synchronize(stream).unwrap();
    let forth = elapsed(&fixture, start, end).unwrap();
    assert!(forth >= 2.0, "{forth}");
    assert_eq!(elapsed(&fixture, end, start).unwrap(), -forth);
    assert_eq!(elapsed(&fixture, end, end).unwrap(), 0.0);
}

#[test]
fn flags() {
    let fixture = Fixture::new();
    let (driver, context, stream, event) = (&fixture.driver, fixture.context, fixture.stream(), fixture.event());
    let create = |bits| status(driver.event_create(&context.into(), EventFlags::from_bits_retain(bits)));
    assert_eq!(create(0x4), 1);
    assert_eq!(create(0x80), 1);
    assert_eq!(create(0x6), 801);
    assert_eq!(create(0x3), 0);
    let record = |bits| {
        let flags = EventRecordFlags::from_bits_retain(bits);
        status(driver.event_record(&context.into(), event, stream, flags))
    };
    assert_eq!((record(0x1), record(0x40)), (401, 1));
    let wait = |bits| {
        let flags = EventWaitFlags::from_bits_retain(bits);
        status(driver.stream_wait_event(&context.into(), stream, event, flags))
    };
    assert_eq!((wait(0x1), wait(0x40)), (401, 1));
}

#[test]
fn an_event_is_recorded_in_its_context_and_waited_for_in_any() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let foreign = live(driver.stream_create(&other.into(), StreamFlags::NON_BLOCKING, 0).unwrap());
    let (event, stream) = (fixture.event(), fixture.stream());
    let record = driver.event_record(&other.into(), event, foreign, EventRecordFlags::empty());
    assert_eq!(status(record), 400);
    let gate = fixture.gate(stream);
    fixture.record(event, stream);
    driver.stream_wait_event(&other.into(), foreign, event, EventWaitFlags::empty()).unwrap();
    assert_eq!(fixture.query(foreign), 600);
    gate.open();
    driver.context_synchronize(&other.into()).unwrap();
    assert_eq!(fixture.query_event(event), 0);
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
}
