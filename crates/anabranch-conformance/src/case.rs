//! A case: its name, its rule, what it needs, and what it does.

use crate::environment::Environment;
use anabranch::{Capabilities, Error, Status, UpdateError};
use std::fmt;

/// One named question to a device, and the answer that it must give.
#[derive(Clone, Copy)]
pub struct Case {
    /// The group and the question, such as `event.wait_binds_at_call`.
    pub name: &'static str,
    /// The rule that it proves, such as `E2`.
    pub rule: &'static str,
    /// What the device must have; else the case is skipped.
    pub needs: &'static [Need],
    /// Whether the case loses its context, so that it needs a process of its own on real hardware.
    pub loses_context: bool,
    /// Asks the question.
    pub run: fn(&Environment) -> Verdict,
}

impl Case {
    /// A case that needs nothing beyond the common ground.
    pub const fn new(name: &'static str, rule: &'static str, run: fn(&Environment) -> Verdict) -> Self {
        Self { name, rule, needs: &[], loses_context: false, run }
    }

    /// The same case with needs.
    #[must_use]
    pub const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// The same case, which loses its context.
    #[must_use]
    pub const fn loses_context(self) -> Self {
        Self { loses_context: true, ..self }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Case({}, {})", self.name, self.rule)
    }
}

/// What a case needs of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A capability.
    Capability(Capabilities),
    /// The lack of a capability, where the case asks what happens then.
    Without(Capabilities),
    /// A second device of the same back end.
    TwoDevices,
    /// Kernels of the library that set conditional values, for which CUDA needs a library of its toolkit.
    ConditionalSetting,
    /// Work that runs though nobody synchronises, because the case waits for it by other means.
    BackgroundProgress,
}

/// What a case found: nothing wrong, or what.
pub type Verdict = Result<(), Failed>;

/// What a case found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(pub String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(format!("unexpected error: {error:?}"))
    }
}

impl From<UpdateError> for Failed {
    fn from(error: UpdateError) -> Self {
        Self(format!("unexpected error: {error}: {:?}", error.result()))
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device answered as it must.
    Passed,
    /// It did not.
    Failed(String),
    /// The device lacks what the case needs.
    Skipped(String),
}

/// Fails unless the two are equal.
pub(crate) fn equal<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Verdict {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    let same = found.chars().zip(expected.chars()).take_while(|(found, expected)| found == expected).count();
    Err(Failed(format!("{what}: found {}, expected {}", excerpt(&found, same), excerpt(&expected, same))))
}

/// The text if it is short, else what is around the character of that number.
fn excerpt(text: &str, place: usize) -> String {
    const SHORT: usize = 160;
    const BEFORE: usize = 40;
    const AFTER: usize = 80;
    let length = text.chars().count();
    if length <= SHORT {
        return text.to_owned();
    }
    let start = place.saturating_sub(BEFORE);
    let middle: String = text.chars().skip(start).take(BEFORE + AFTER).collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if start + BEFORE + AFTER < length { "…" } else { "" });
    format!("{before}{middle}{after}")
}

/// Fails unless `condition` holds.
pub(crate) fn holds(what: &str, condition: bool) -> Verdict {
    if condition { Ok(()) } else { Err(Failed(format!("{what} does not hold"))) }
}

/// Fails unless the call failed with `status`.
pub(crate) fn refused<T>(what: &str, result: anabranch::Result<T>, status: Status) -> Verdict {
    match result {
        Ok(_) => Err(Failed(format!("{what}: succeeded, expected {status:?}"))),
        Err(error) => equal(what, error.status(), status),
    }
}

/// The status of a driver's own call.
pub(crate) fn status_of<T>(result: anabranch::hal::Result<T>) -> Status {
    result.map_or_else(|failure| failure.status, |_| Status::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn a_long_difference_is_told_in_short() {
        let mut found = vec![1; 10_000];
        let expected = found.clone();
        found[5000] = 2;
        let text = equal("contents", found, expected).unwrap_err().0;
        assert!(text.chars().count() < 400, "{text}");
        assert!(text.contains("1, 2, 1") && text.contains("…"), "{text}");
        assert_eq!(equal("short", 1, 2).unwrap_err().0, "short: found 1, expected 2");
    }
}
