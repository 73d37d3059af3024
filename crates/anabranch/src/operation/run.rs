//! Operations that are being run.

use super::each::drop_all;
use super::steps::{Step, Steps};
use super::target::{Forks, Place};
use crate::error::Result;

/// Makes the steps, one after the other, on the thread that calls.
///
/// # Errors
/// That of the first step that fails. The steps behind it are dropped, in their order, and so are the values that were made for
/// them; streams that have left others join them.
pub(super) fn run(steps: Steps<'_>, place: &Place<'_>) -> Result<()> {
    let mut run = Run { place: *place, forks: Vec::new(), steps };
    while let Some(step) = run.steps.pop_front() {
        run.make(step)?;
    }
    Ok(())
}

/// An operation between two of its steps.
struct Run<'p, 'a> {
    /// Where the next step is made.
    place: Place<'p>,
    /// The forks that have not joined, the innermost last.
    forks: Vec<Forks<'p>>,
    /// What is still to do. It has a join for each of the forks.
    steps: Steps<'a>,
}

impl<'a> Run<'_, 'a> {
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
                    forks.join()?;
                }
                combine(self.place.stream)
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
