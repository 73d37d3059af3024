//! Makes programs. What is generated depends on nothing but the family and the seed.
//!
//! The generator does not see answers. It has a rough idea of what exists and what captures, so that most calls make sense.

mod capture;
mod devices;
mod front;
mod gates;
mod graphs;
mod memory;
mod model;
mod modules;
mod nodes;
mod sticky;
mod streams;
mod values;
mod work;

use super::call::Call;
use super::numbers::Numbers;
use super::{Family, HostThread};
use model::Model;

/// A program that is being made.
struct Generator {
    numbers: Numbers,
    calls: Vec<(HostThread, Call)>,
    model: Model,
    /// How many calls the second thread makes next.
    second: usize,
    /// Whether the contexts are of two devices.
    has_two_devices: bool,
    /// Whether the program keeps to the primary context. On hardware, a fault loses every context of the process, on the
    /// software device only the one.
    has_one_context: bool,
}

/// The calls of the program of a family and a seed.
pub(super) fn calls(family: Family, seed: u64) -> Vec<(HostThread, Call)> {
    let numbers = Numbers::new(family as u64, seed);
    let has_two_devices = family.device_count() > 1;
    let mut generator = Generator {
        numbers,
        calls: Vec::new(),
        model: Model::default(),
        second: 0,
        has_two_devices,
        has_one_context: family == Family::Sticky,
    };
    match family {
        Family::Streams => streams::fill(&mut generator),
        Family::Gates => gates::fill(&mut generator),
        Family::Capture => capture::fill(&mut generator),
        Family::Graphs => graphs::fill(&mut generator),
        Family::Memory => memory::fill(&mut generator),
        Family::Values => values::fill(&mut generator),
        Family::Modules => modules::fill(&mut generator),
        Family::Sticky => sticky::fill(&mut generator),
        Family::Devices => devices::fill(&mut generator),
        Family::Front => front::fill(&mut generator),
    }
    generator.calls
}

impl Generator {
    /// Adds a call on the first thread, or now and then a few in a row on the second.
    fn push(&mut self, call: impl Into<Call>) {
        if self.second == 0 && self.numbers.chance(1, 24) {
            self.second = 1 + self.numbers.below(4);
        }
        let thread = if self.second > 0 { HostThread::Second } else { HostThread::First };
        self.second = self.second.saturating_sub(1);
        self.push_on(thread, call);
    }

    fn push_on(&mut self, thread: HostThread, call: impl Into<Call>) {
        self.calls.push((thread, call.into()));
    }

    /// Adds calls until there are that many.
    fn until(&mut self, count: usize, mut step: impl FnMut(&mut Self)) {
        while self.calls.len() < count {
            step(self);
        }
    }
}
