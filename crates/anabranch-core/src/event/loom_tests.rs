//! Events that one thread records and another waits for or asks, under loom. The model of a driver is that of submissions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use super::EventCore;
use crate::submission::loom_tests::{World, check};
use anabranch_hal::{Access, EventFlags, EventRecordFlags, EventWaitFlags};
use loom::thread::JoinHandle;
use std::sync::Arc;

fn event(world: &World) -> Arc<EventCore> {
    Arc::new(EventCore::create(world.stream(0).context(), EventFlags::DISABLE_TIMING).unwrap())
}

fn record(world: &World, stream: usize, event: &EventCore) {
    world.stream(stream).record(event, EventRecordFlags::empty()).unwrap();
}

/// Lets a stream wait for the event in another thread.
fn wait_elsewhere(world: &Arc<World>, stream: usize, event: &Arc<EventCore>) -> JoinHandle<()> {
    let event = event.clone();
    world.spawn(move |world| world.stream(stream).wait_event(&event, EventWaitFlags::empty()).unwrap())
}

#[test]
fn loom_a_use_that_is_found_ordered_by_an_event_is_behind_it() {
    check(4, |world| {
        let event = event(world);
        world.submit(0, Access::Write);
        let recorded = event.clone();
        let recorder = world.spawn(move |world| record(world, 0, &recorded));
        let waiter = wait_elsewhere(world, 1, &event);
        let work = world.submit(0, Access::Write);
        recorder.join().unwrap();
        waiter.join().unwrap();
        world.require_behind(1, &[&work])
    });
}

/// Whoever waits follows what the driver made the stream wait for, and not the record before or after.
#[test]
fn loom_a_use_is_behind_the_record_that_was_waited_for() {
    check(4, |world| {
        let event = event(world);
        let work = world.submit(0, Access::Write);
        record(world, 0, &event);
        let waiter = wait_elsewhere(world, 1, &event);
        record(world, 2, &event);
        waiter.join().unwrap();
        world.require_behind(1, &[&work])
    });
}

/// The same of a query, which may tell of the record before.
#[test]
fn loom_a_use_is_behind_the_record_that_was_found_complete() {
    check(4, |world| {
        let event = event(world);
        world.submit(0, Access::Write);
        record(world, 0, &event);
        let asked = event.clone();
        let asker = world.spawn(move |_| assert!(asked.query().unwrap()));
        let work = world.submit(0, Access::Write);
        record(world, 0, &event);
        asker.join().unwrap();
        world.require_behind(1, &[&work])
    });
}
