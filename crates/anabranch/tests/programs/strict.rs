//! Strict order: uses of memory that the program has not ordered are refused, and change nothing.

use crate::captured::two;
use crate::tally::note;
use crate::world::World;
use anabranch::Status;
use proptest::prelude::*;

/// Copies in a stream to a buffer from another one, some of them behind all work of a stream that the first then waits for.
#[derive(Clone, Debug)]
pub(crate) struct Strict {
    copies: Vec<(usize, usize, usize, Option<usize>)>,
}

pub(crate) fn strict() -> impl Strategy<Value = Strict> {
    let n = || 0..4usize;
    let copies = prop::collection::vec((n(), n(), n(), prop::option::of(n())), 1..6);
    copies.prop_map(|copies| Strict { copies })
}

impl World<'_> {
    /// Nobody else uses the contexts meanwhile, whose calls would be refused too.
    pub(crate) fn strict(&mut self, strict: &Strict) {
        if !self.is_alone || !self.shared.is_empty() {
            return;
        }
        for &(stream, to, from, after) in &strict.copies {
            let stream = self.stream(stream);
            let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
            if let Some(after) = after {
                stream.stream.wait_stream(&self.stream(after).stream).unwrap();
            }
            let place = &mut self.places[stream.device];
            let numbers = [to, from].map(|buffer| place.buffers[buffer].number);
            let context = place.context.clone();
            let Some([destination, source]) = two(place, to, from) else { continue };
            context.set_strict_order(true);
            let copied = stream.stream.copy(destination, &*source);
            context.set_strict_order(false);
            match copied {
                Ok(()) => {
                    self.memories[numbers[0]] = self.memories[numbers[1]];
                    note("copies in strict order");
                }
                Err(error) => {
                    assert_eq!(error.status(), Status::ILLEGAL_STATE, "{error}");
                    note("copies refused in strict order");
                }
            }
        }
    }
}
