//! Differences between what two devices computed.

use super::recording::{Answer, Recorded};
use super::subject::Subject;

/// An output that two devices computed differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the output.
    pub output: usize,
    /// The instruction that gives it, or its name.
    pub label: String,
    /// The number of the element, which is that of the thread where each thread has one, if it is known.
    pub element: Option<usize>,
    /// What was computed here.
    pub here: String,
    /// What was recorded.
    pub there: String,
}

/// Compares what was recorded of a kernel on two devices.
pub fn differences(subject: &Subject, here: &Recorded, there: &Recorded) -> Vec<Difference> {
    let answers = here.answers.iter().zip(&there.answers);
    let mut found = Vec::new();
    for (index, (output, (here, there))) in subject.outputs().iter().zip(answers).enumerate() {
        let place = match (here, there) {
            (Answer::Elements(here), Answer::Elements(there)) => {
                let unequal = |(&here, &there): (&u64, &u64)| !output.element.equal(here, there);
                let place = here.iter().zip(there).position(unequal);
                if place.is_none() && here.len() == there.len() {
                    continue;
                }
                place
            }
            _ if here == there => continue,
            _ => None,
        };
        let text = |answer: &Answer| match (answer, place) {
            (Answer::Hash(hash), _) => format!("#{hash:08x}"),
            (Answer::Elements(elements), Some(place)) => {
                elements.get(place).map_or_else(String::new, |&bits| output.text(bits))
            }
            (Answer::Elements(elements), None) => format!("{} elements", elements.len()),
            (Answer::Failed(reason), _) => reason.clone(),
        };
        let (here, there) = (text(here), text(there));
        found.push(Difference { output: index, label: output.label.clone(), element: place, here, there });
    }
    found
}
