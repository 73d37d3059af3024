//! Where two devices answer differently.

use super::answer::{Answer, Outcome};

/// The first call of a program that two devices answer differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the call.
    pub index: usize,
    /// What the first device answers.
    pub here: Answer,
    /// What the second device answers, or was recorded to.
    pub there: Answer,
}

/// Whether two answers are equal. A call that one device does not make, because it does not provide what that needs, may be
/// refused by the other.
fn is_alike(here: &Answer, there: &Answer) -> bool {
    let is_refused = |answer: &Answer| matches!(answer.outcome, Outcome::Status(status) if status != 0);
    let is_skipped = |answer: &Answer| answer.outcome == Outcome::Skipped;
    here == there || (is_skipped(here) && is_refused(there)) || (is_refused(here) && is_skipped(there))
}

/// Finds the first difference. What comes after a call that the second device did not survive is not compared, nor is
/// that call: nobody is to imitate it.
pub fn first_difference(here: &[Answer], there: &[Answer]) -> Option<Difference> {
    let known = there.iter().position(Answer::is_fatal).unwrap_or(there.len());
    let differs = |(index, (here, there)): (usize, (&Answer, &Answer))| {
        (!is_alike(here, there)).then(|| Difference { index, here: here.clone(), there: there.clone() })
    };
    here.iter().zip(&there[..known]).enumerate().find_map(differs)
}
