//! A conditional part that ends while another thread looks for uses of memory, under loom.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use super::{CaptureEnd, CaptureState, Whole, capture_of_memory};
use crate::submission::loom_tests::World;
use anabranch_hal::Access;
use loom::thread;
use std::sync::Arc;

/// Captures inside of each other, the outermost first, of which the last one uses the memory.
fn nested<const LEVELS: usize>(world: &World) -> [Arc<CaptureState>; LEVELS] {
    let mut outer: Option<Arc<CaptureState>> = None;
    let captures = std::array::from_fn(|level| {
        let whole = outer.take().map_or(Whole::Itself, Whole::Capture);
        let capture = CaptureState::new(world.stream(level), None, whole, CaptureEnd::Call);
        outer = Some(capture.clone());
        capture
    });
    let last: &Arc<CaptureState> = &captures[LEVELS - 1];
    world.memory().used_in(last);
    let mut inner = last.inner.lock();
    inner.retained.add_memory(world.memory(), Access::Write);
    let uses = [(world.memory().address().0, Access::Write)];
    inner.history.settle(world.stream(LEVELS - 1).id(), &uses, None);
    drop(inner);
    captures
}

/// Tries all interleavings of the end of the innermost capture with `look`, which must find the memory in each.
fn check<const LEVELS: usize>(look: fn(&World, &CaptureState) -> bool) {
    loom::model(move || {
        let world = World::new();
        let captures = nested::<LEVELS>(&world);
        let last = captures[LEVELS - 1].clone();
        let ends = thread::spawn(move || drop(last.finish()));
        assert!(look(&world, &captures[0]), "while the part ends");
        ends.join().unwrap();
        assert!(look(&world, &captures[0]), "after the part has ended");
    });
}

fn conflicts(world: &World, capture: &CaptureState) -> bool {
    let uses = [(world.memory().address().0, Access::Read)];
    capture.parts_conflict(&uses, &|inside| !inside.is_closing)
}

#[test]
fn loom_a_use_of_a_part_that_ends_is_found() {
    check::<2>(conflicts);
    check::<3>(conflicts);
}

#[test]
fn loom_the_capture_of_memory_of_a_part_that_ends_is_found() {
    let is_captured = |world: &World, _: &CaptureState| capture_of_memory(world.memory()).is_some();
    check::<2>(is_captured);
    check::<3>(is_captured);
}
