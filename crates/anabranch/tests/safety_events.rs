//! Classes of defects of events that safe code must not be able to bring about. `docs/safety.md` lists them all by the numbers
//! in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Completion, NodeWork, Result};
use common::{checked_host, hold};
use std::pin::Pin;
use std::task::{self, Poll};

/// Polls a future once.
fn poll(future: &mut Completion) -> Poll<Result<()>> {
    Pin::new(future).poll(&mut task::Context::from_waker(task::Waker::noop()))
}

#[test]
fn safety_87_a_record_by_a_launch_says_nothing_about_the_record_before() {
    for is_recorded_again in [false, true] {
        let context = checked_host();
        let [earlier, later] = [(); 2].map(|()| context.create_stream().unwrap());
        let event = context.create_event().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        let held = hold(&context, &earlier);
        earlier.fill(&mut pinned, 7u32).unwrap();
        event.record(&earlier).unwrap();
        let mut future = event.completed();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::event_record(&event)).unwrap();
        graph.instantiate().unwrap().launch(&later).unwrap();
        later.synchronize().unwrap();
        if is_recorded_again {
            event.record(&later).unwrap();
        }
        assert!(poll(&mut future).is_ready(), "it waits for the latest record");
        assert!(!pinned.is_idle().unwrap());
        held.set(1);
        assert_eq!(pinned.as_slice().unwrap(), [7; 4]);
    }
}
