//! Operations that are being run.

use super::each::drop_all;
use super::steps::{Step, Steps};
use super::target::{Forks, Place};
use crate::error::Result;
use crate::stream::Stream;

/// Makes the steps, one after the other, on the thread that calls. Returns the streams that have left that of the place and
/// joined it, each once.
///
/// # Errors
/// That of the first step that fails. The steps behind it are dropped, in their order, and so are the values that were made for
/// them; streams that have left others join them.
pub(super) fn run<'p>(steps: Steps<'_>, place: &Place<'p>) -> Result<Vec<&'p Stream>> {
    let mut run = Run { place: *place, forks: Vec::new(), joined: Vec::new(), steps };
    while let Some(step) = run.steps.pop_front() {
        run.make(step)?;
    }
    Ok(std::mem::take(&mut run.joined))
}

/// An operation between two of its steps.
struct Run<'p, 'a> {
    /// Where the next step is made.
    place: Place<'p>,
    /// The forks that have not joined, the innermost last.
    forks: Vec<Forks<'p>>,
    /// The streams of those that have joined, each once.
    joined: Vec<&'p Stream>,
    /// What is still to do. It has a join for each of the forks.
    steps: Steps<'a>,
}

impl<'p, 'a> Run<'p, 'a> {
    fn make(&mut self, step: Step<'a>) -> Result<()> {
        match step {
            Step::Queue(queue) => queue(self.place.stream),
            Step::Choose(choice) => {
                self.steps.prepend(choice.choose()?);
                Ok(())
            }
            Step::Fork(count) => {
                let mut forks = Forks::new(self.place);
                let left = forks.leave(count);
                // Also if that has failed, for its join.
                self.forks.push(forks);
                left
            }
            Step::Part(number) => {
                self.place = self.forks.last().map_or(self.place, |forks| *forks.place(number));
                Ok(())
            }
            Step::Join(combine) => {
                if let Some(forks) = self.forks.pop() {
                    self.place = *forks.place(0);
                    self.note_joined(&forks);
                    forks.join()?;
                }
                combine(self.place.stream)
            }
        }
    }

    fn note_joined(&mut self, forks: &Forks<'p>) {
        for stream in forks.streams() {
            if !self.joined.contains(&stream) {
                self.joined.push(stream);
            }
        }
    }

    /// Drops the next step. Whether there was one.
    fn drop_next(&mut self) -> bool {
        match self.steps.pop_front() {
            // Of no other streams, for its join.
            Some(Step::Fork(_)) => self.forks.push(Forks::new(self.place)),
            Some(Step::Join(combine)) => {
                // They join when they are dropped, also if what the parts have made unwinds.
                let _forks = self.forks.pop();
                drop(combine);
            }
            Some(step) => drop(step),
            None => return false,
        }
        true
    }
}

/// After a step that has failed or unwound.
impl Drop for Run<'_, '_> {
    fn drop(&mut self) {
        drop_all(|| self.drop_next());
    }
}
