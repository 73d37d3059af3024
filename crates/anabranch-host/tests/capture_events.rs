//! Captures: events, and the streams that join.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use support::{Fixture, live, status};

const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn timed(fixture: &Fixture) -> Live<'static, EventHandle> {
    live(fixture.driver.event_create(&fixture.context.into(), EventFlags::empty()).unwrap())
}

fn elapsed(fixture: &Fixture, start: Live<'_, EventHandle>, end: Live<'_, EventHandle>) -> i32 {
    status(fixture.driver.event_elapsed(&fixture.context.into(), start, end))
}

#[test]
fn a_captured_event_is_neither_queried_nor_synchronized() {
    let fixture = Fixture::new();
    for mode in MODES {
        for synchronize in [false, true] {
            let (stream, event) = (fixture.stream(), fixture.event());
            fixture.begin(stream, mode);
            assert_eq!(fixture.node(stream), 0);
            fixture.record(event, stream);
            if synchronize {
                assert_eq!(fixture.synchronize_event(event), 907);
            } else {
                assert_eq!(fixture.query_event(event), 907);
            }
            assert_eq!(fixture.capture_status(stream), 2);
            // It means nothing any more, until it is recorded again.
            assert_eq!((fixture.query_event(event), fixture.synchronize_event(event)), (1, 1));
            assert_eq!(fixture.end(stream), 901);
            assert_eq!((fixture.query_event(event), fixture.synchronize_event(event)), (1, 1));
            assert_eq!(fixture.try_wait(stream, event), 1);
            assert_eq!(fixture.capture_status(stream), 0);
            fixture.record(event, stream);
            assert_eq!((fixture.synchronize_event(event), fixture.query_event(event)), (0, 0));
            fixture.wait(fixture.stream(), event);
            fixture.assert_usable(stream);
        }
    }
}

#[test]
fn a_captured_event_of_a_capture_that_went_well_is_over_too() {
    let fixture = Fixture::new();
    let (stream, event) = (fixture.stream(), fixture.event());
    fixture.begin(stream, CaptureMode::Global);
    fixture.record(event, stream);
    assert_eq!(fixture.end(stream), 0);
    assert_eq!((fixture.query_event(event), fixture.synchronize_event(event)), (1, 1));
    assert_eq!(fixture.try_wait(stream, event), 1);
    unsafe { fixture.driver.event_destroy(&fixture.context.into(), event.handle()) }.unwrap();
}

#[test]
fn elapsed_time_with_a_captured_event_does_no_harm() {
    let fixture = Fixture::new();
    let (stream, captured, plain) = (fixture.stream(), timed(&fixture), timed(&fixture));
    fixture.record(plain, fixture.stream());
    fixture.begin(stream, CaptureMode::Global);
    fixture.record(captured, stream);
    assert_eq!((elapsed(&fixture, plain, captured), elapsed(&fixture, captured, plain)), (907, 907));
    assert_eq!(elapsed(&fixture, captured, captured), 907);
    assert_eq!(fixture.capture_status(stream), 1);
    assert_eq!(fixture.end(stream), 0);
    fixture.record(captured, stream);
    fixture.synchronize_all().unwrap();
    assert_eq!(elapsed(&fixture, plain, captured), 0);
}

#[test]
fn waiting_for_an_event_from_outside() {
    let fixture = Fixture::new();
    for mode in MODES {
        let (stream, event) = (fixture.stream(), fixture.event());
        fixture.record(event, fixture.stream());
        fixture.begin(stream, mode);
        assert_eq!(fixture.try_wait(stream, event), 905);
        assert_eq!((fixture.capture_status(stream), fixture.node(stream)), (2, 901));
        assert_eq!((fixture.capture_status(stream), fixture.try_begin(stream, mode)), (2, 401));
        assert_eq!(fixture.query(stream), 900);
        assert_eq!(fixture.end(stream), 901);
        assert_eq!(fixture.query(stream), 0);
        fixture.assert_usable(stream);
    }
}

#[test]
fn waiting_for_an_event_that_was_never_recorded() {
    let fixture = Fixture::new();
    let (stream, event) = (fixture.stream(), fixture.event());
    fixture.begin(stream, CaptureMode::Global);
    fixture.wait(stream, event);
    assert_eq!((fixture.capture_status(stream), fixture.dependencies(stream).len()), (1, 0));
    assert_eq!(fixture.end(stream), 0);
}

#[test]
fn external_records_and_waits_are_nodes() {
    let fixture = Fixture::new();
    let (stream, event) = (fixture.stream(), fixture.event());
    assert_eq!(fixture.try_record(event, stream, EventRecordFlags::EXTERNAL), 401);
    assert_eq!(fixture.try_wait_flagged(stream, event, EventWaitFlags::EXTERNAL), 401);
    fixture.record(event, fixture.stream());
    fixture.begin(stream, CaptureMode::Global);
    assert_eq!(fixture.try_wait_flagged(stream, event, EventWaitFlags::EXTERNAL), 0);
    let wait = fixture.dependencies(stream);
    assert_eq!(fixture.try_record(event, stream, EventRecordFlags::EXTERNAL), 0);
    let record = fixture.dependencies(stream);
    assert_ne!(wait, record);
    let kind = |node| fixture.driver.graph_node_kind(&fixture.context.into(), node).unwrap();
    assert_eq!((kind(live(wait[0])), kind(live(record[0]))), (GraphNodeKind::EVENT_WAIT, GraphNodeKind::EVENT_RECORD));
    // The record is the graph's, and not a captured event.
    assert_eq!(fixture.driver.thread_exchange_capture_mode(CaptureMode::Relaxed).unwrap(), CaptureMode::Global);
    assert_eq!(fixture.query_event(event), 0);
    fixture.driver.thread_exchange_capture_mode(CaptureMode::Global).unwrap();
    assert_eq!(fixture.end(stream), 0);
}

#[test]
fn two_captures_do_not_merge() {
    let fixture = Fixture::new();
    let (one, two, event) = (fixture.stream(), fixture.stream(), fixture.event());
    fixture.begin(one, CaptureMode::Global);
    fixture.begin(two, CaptureMode::Global);
    fixture.record(event, one);
    assert_eq!(fixture.try_wait(two, event), 902);
    assert_eq!((fixture.capture_status(one), fixture.capture_status(two)), (2, 2));
    assert_eq!((fixture.end(two), fixture.end(one)), (901, 901));
    fixture.assert_usable(one);
    fixture.assert_usable(two);
}

#[test]
fn waiting_for_an_event_whose_capture_is_over_or_invalidated() {
    let fixture = Fixture::new();
    let (one, two, event) = (fixture.stream(), fixture.stream(), fixture.event());
    fixture.begin(one, CaptureMode::Relaxed);
    fixture.record(event, one);
    assert_eq!(fixture.query(one), 900);
    for over in [false, true] {
        if over {
            assert_eq!(fixture.end(one), 901);
        }
        for flags in [EventWaitFlags::empty(), EventWaitFlags::EXTERNAL] {
            // Another stream does not join.
            assert_eq!((fixture.try_wait_flagged(two, event, flags), fixture.capture_status(two)), (1, 0));
            assert_eq!(fixture.try_wait_flagged(Live::LEGACY, event, flags), 1);
            fixture.begin(two, CaptureMode::Relaxed);
            assert_eq!((fixture.try_wait_flagged(two, event, flags), fixture.capture_status(two)), (1, 2));
            assert_eq!(fixture.end(two), 901);
        }
    }
    fixture.assert_usable(two);
}

#[test]
fn the_legacy_stream_does_not_join() {
    let fixture = Fixture::new();
    let (stream, event) = (fixture.stream(), fixture.event());
    fixture.begin(stream, CaptureMode::Global);
    fixture.record(event, stream);
    assert_eq!(fixture.try_wait(Live::LEGACY, event), 906);
    assert_eq!(fixture.capture_status(stream), 2);
    assert_eq!(fixture.end(stream), 901);
    let blocking = fixture.blocking();
    fixture.begin(blocking, CaptureMode::Global);
    fixture.record(event, blocking);
    assert_eq!(fixture.try_wait(Live::LEGACY, event), 906);
    assert_eq!(fixture.capture_status(blocking), 2);
    assert_eq!(fixture.end(blocking), 901);
}

#[test]
fn a_fork_that_joins() {
    let fixture = Fixture::new();
    for mode in MODES {
        let (origin, fork) = (fixture.stream(), fixture.stream());
        fixture.begin(origin, mode);
        assert_eq!(fixture.node(origin), 0);
        let trunk = fixture.dependencies(origin);
        fixture.fork(origin, fork);
        assert_eq!((fixture.capture_status(fork), fixture.dependencies(fork)), (1, trunk));
        assert_eq!((fixture.node(fork), fixture.node(origin)), (0, 0));
        let (left, right) = (fixture.dependencies(origin), fixture.dependencies(fork));
        assert_ne!(left, right);
        fixture.fork(fork, origin);
        assert_eq!(fixture.dependencies(origin), [left[0], right[0]]);
        let info = fixture.info(fork, false).unwrap();
        assert_eq!((info.id, info.graph), fixture.info(origin, false).map(|info| (info.id, info.graph)).unwrap());
        assert_eq!(fixture.end(origin), 0);
        assert_eq!(fixture.capture_status(fork), 0);
        fixture.assert_usable(fork);
    }
}

#[test]
fn a_fork_that_does_not_join() {
    let fixture = Fixture::new();
    let (origin, fork) = (fixture.stream(), fixture.stream());
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!((fixture.node(fork), fixture.capture_status(fork)), (0, 1));
    assert_eq!(fixture.end(origin), 904);
    assert_eq!((fixture.capture_status(fork), fixture.capture_status(origin)), (0, 0));
    assert_eq!((fixture.query(fork), fixture.query(origin)), (0, 0));
    assert_eq!(fixture.end(origin), 401);
    fixture.assert_usable(origin);
    fixture.assert_usable(fork);
}

#[test]
fn a_fork_without_nodes_need_not_join() {
    let fixture = Fixture::new();
    let (origin, fork, further) = (fixture.stream(), fixture.stream(), fixture.stream());
    fixture.begin(origin, CaptureMode::Global);
    assert_eq!(fixture.node(origin), 0);
    fixture.fork(origin, fork);
    fixture.fork(fork, further);
    assert_eq!(fixture.end(origin), 0);
    fixture.assert_usable(further);
}

#[test]
fn a_fork_joins_through_another() {
    let fixture = Fixture::new();
    let (origin, one, two) = (fixture.stream(), fixture.stream(), fixture.stream());
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, one);
    assert_eq!(fixture.node(one), 0);
    fixture.fork(one, two);
    assert_eq!(fixture.node(two), 0);
    fixture.fork(two, origin);
    assert_eq!(fixture.end(origin), 0);
    // With a node after the join it is left open again.
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, one);
    assert_eq!(fixture.node(one), 0);
    fixture.fork(one, origin);
    assert_eq!(fixture.node(one), 0);
    assert_eq!(fixture.end(origin), 904);
    for stream in [origin, one, two] {
        fixture.assert_usable(stream);
    }
}

#[test]
fn a_later_record_does_not_move_what_was_waited_for() {
    let fixture = Fixture::new();
    let (origin, fork, event) = (fixture.stream(), fixture.stream(), fixture.event());
    fixture.begin(origin, CaptureMode::Global);
    assert_eq!(fixture.node(origin), 0);
    let first = fixture.dependencies(origin);
    fixture.record(event, origin);
    assert_eq!(fixture.node(origin), 0);
    fixture.wait(fork, event);
    assert_eq!(fixture.dependencies(fork), first);
    fixture.record(event, origin);
    assert_eq!(fixture.dependencies(fork), first);
    // Waiting for what one depends on already adds nothing.
    fixture.wait(origin, event);
    assert_eq!(fixture.dependencies(origin).len(), 1);
    assert_eq!(fixture.end(origin), 0);
}

#[test]
fn recording_a_captured_event_elsewhere_replaces_it() {
    let fixture = Fixture::new();
    let (stream, other, event) = (fixture.stream(), fixture.stream(), fixture.event());
    fixture.begin(stream, CaptureMode::Relaxed);
    fixture.record(event, stream);
    fixture.record(event, other);
    assert_eq!((fixture.query_event(event), fixture.capture_status(stream)), (0, 1));
    assert_eq!(fixture.try_wait(stream, event), 905);
    assert_eq!(fixture.end(stream), 901);
}

#[test]
fn recording_an_event_of_another_context() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let event = live(driver.event_create(&other.into(), EventFlags::DISABLE_TIMING).unwrap());
    let stream = fixture.stream();
    fixture.begin(stream, CaptureMode::Global);
    assert_eq!(fixture.try_record(event, stream, EventRecordFlags::empty()), 400);
    // What a node records is left to its launches.
    assert_eq!(fixture.try_record(event, stream, EventRecordFlags::EXTERNAL), 0);
    assert_eq!(fixture.capture_status(stream), 1);
    assert_eq!(fixture.end(stream), 0);
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
}

#[test]
fn a_stream_of_another_device_joins() {
    let fixture = Fixture::new();
    let driver = &fixture.driver;
    let other = live(driver.context_create(DeviceOrdinal(1), ContextFlags::empty()).unwrap());
    let foreign = live(driver.stream_create(&other.into(), StreamFlags::NON_BLOCKING, 0).unwrap());
    let event = live(driver.event_create(&other.into(), EventFlags::DISABLE_TIMING).unwrap());
    let origin = fixture.stream();
    fixture.begin(origin, CaptureMode::Global);
    assert_eq!(fixture.node(origin), 0);
    fixture.fork(origin, foreign);
    assert_eq!((fixture.capture_status(foreign), fixture.node(foreign)), (1, 0));
    driver.event_record(&other.into(), event, foreign, EventRecordFlags::empty()).unwrap();
    fixture.wait(origin, event);
    assert_eq!(fixture.end(origin), 0);
    unsafe { driver.context_destroy(&other.into()) }.unwrap();
}

#[test]
fn what_a_capture_says_of_itself() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    assert_eq!(fixture.info(stream, false).unwrap(), CaptureInfo::default());
    assert_eq!(fixture.info(Live::LEGACY, true).unwrap(), CaptureInfo::default());
    let mut ids = Vec::new();
    for _ in 0..3 {
        fixture.begin(stream, CaptureMode::Global);
        let info = fixture.info(stream, true).unwrap();
        assert_eq!((info.status, info.dependencies, info.edge_data), (CaptureStatus::Active, vec![], Some(vec![])));
        assert!(info.graph.is_some());
        assert_eq!(fixture.node(stream), 0);
        let info = fixture.info(stream, false).unwrap();
        assert_eq!((info.dependencies.len(), info.edge_data), (1, None));
        assert_eq!(fixture.info(stream, true).unwrap().edge_data, Some(vec![EdgeData::default()]));
        ids.push(info.id);
        assert_eq!(fixture.end(stream), 0);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn dependencies_are_added_and_replaced() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    for update in [DependencyUpdate::Add, DependencyUpdate::Set] {
        assert_eq!(fixture.update_dependencies(stream, &[], update), 401);
        assert_eq!(fixture.update_dependencies(Live::LEGACY, &[], update), 401);
    }
    fixture.begin(stream, CaptureMode::Global);
    assert_eq!(fixture.node(stream), 0);
    let first = fixture.dependencies(stream)[0];
    assert_eq!(fixture.update_dependencies(stream, &[], DependencyUpdate::Add), 0);
    assert_eq!(fixture.dependencies(stream), [first]);
    assert_eq!(fixture.update_dependencies(stream, &[], DependencyUpdate::Set), 0);
    assert_eq!(fixture.dependencies(stream), []);
    assert_eq!(fixture.node(stream), 0);
    let second = fixture.dependencies(stream)[0];
    assert_eq!(fixture.update_dependencies(stream, &[first.into()], DependencyUpdate::Add), 0);
    assert_eq!(fixture.dependencies(stream), [second, first]);
    assert_eq!(fixture.node(stream), 0);
    let third = fixture.dependencies(stream)[0];
    let edges = {
        let graph = fixture.info(stream, false).unwrap().graph.unwrap();
        fixture.driver.graph_edges(&fixture.context.into(), live(graph)).unwrap()
    };
    let mut pairs: Vec<_> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
    let mut expected = vec![(first, third), (second, third)];
    pairs.sort();
    expected.sort();
    assert_eq!(pairs, expected);
    assert_eq!(fixture.end(stream), 0);
}

#[test]
fn dependencies_of_another_graph_are_refused() {
    let fixture = Fixture::new();
    let (one, two) = (fixture.stream(), fixture.stream());
    fixture.begin(one, CaptureMode::Global);
    fixture.begin(two, CaptureMode::Global);
    assert_eq!(fixture.node(one), 0);
    let foreign = fixture.dependencies(one)[0];
    for update in [DependencyUpdate::Add, DependencyUpdate::Set] {
        assert_eq!(fixture.update_dependencies(two, &[foreign.into()], update), 1);
    }
    assert_eq!((fixture.dependencies(two), fixture.capture_status(two)), (vec![], 1));
    assert_eq!((fixture.end(one), fixture.end(two)), (0, 0));
}

#[test]
fn nodes_taken_out_of_the_dependencies_need_not_join() {
    let fixture = Fixture::new();
    let (origin, fork) = (fixture.stream(), fixture.stream());
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!((fixture.node(fork), fixture.node(fork)), (0, 0));
    assert_eq!(fixture.update_dependencies(fork, &[], DependencyUpdate::Set), 0);
    assert_eq!(fixture.end(origin), 0);
    // What comes after them must.
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!(fixture.node(fork), 0);
    assert_eq!(fixture.update_dependencies(fork, &[], DependencyUpdate::Set), 0);
    assert_eq!(fixture.node(fork), 0);
    assert_eq!(fixture.end(origin), 904);
    // Taken out of the origin's after the join, the fork is excused too.
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!(fixture.node(fork), 0);
    fixture.fork(fork, origin);
    assert_eq!(fixture.update_dependencies(origin, &[], DependencyUpdate::Set), 0);
    assert_eq!(fixture.end(origin), 0);
}

#[test]
fn a_query_that_would_lose_edge_data() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let kernel = fixture.function(HostFunction::new("nothing", &[], |_, _| ()));
    fixture.begin(stream, CaptureMode::Global);
    fixture.launch(stream, kernel, 1, 1, &[]).unwrap();
    let node = fixture.dependencies(stream)[0];
    let data = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
    assert_eq!(fixture.update_dependencies(stream, &[Dependency { node, data }], DependencyUpdate::Set), 0);
    assert_eq!(status(fixture.info(stream, false)), 402);
    assert_eq!(fixture.info(stream, true).unwrap().edge_data, Some(vec![data]));
    assert_eq!(fixture.capture_status(stream), 1);
    assert_eq!(fixture.end(stream), 0);
}
