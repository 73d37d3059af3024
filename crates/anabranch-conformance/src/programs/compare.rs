//! Where two devices answer differently.

use super::answer::Answer;

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

/// Finds the first difference. What comes after a call that the second device did not survive is not compared, nor is
/// that call: nobody is to imitate it.
pub fn first_difference(here: &[Answer], there: &[Answer]) -> Option<Difference> {
    let known = there.iter().position(Answer::is_fatal).unwrap_or(there.len());
    let differs = |(index, (here, there)): (usize, (&Answer, &Answer))| {
        (here != there).then(|| Difference { index, here: here.clone(), there: there.clone() })
    };
    here.iter().zip(&there[..known]).enumerate().find_map(differs)
}
