//! Cases: the name, the rule, the needs and the function of each.

use crate::environment::Environment;
use anabranch::{Capabilities, Error, Status, UpdateError};
use std::fmt;

/// One conformance case: a named check of the behaviour of a device.
#[derive(Clone, Copy)]
pub struct Case {
    /// The group and the name in the group, such as `event.wait_binds_at_call`.
    pub name: &'static str,
    /// The rule that the case verifies, such as `E2`.
    pub rule: &'static str,
    /// What the device must provide. Otherwise the case is skipped.
    pub needs: &'static [Need],
    /// Whether the case loses its context. It then runs in a separate process on real hardware.
    pub loses_context: bool,
    /// Runs the case.
    pub run: fn(&Environment) -> Verdict,
}

impl Case {
    /// Creates a case without needs.
    pub const fn new(name: &'static str, rule: &'static str, run: fn(&Environment) -> Verdict) -> Self {
        Self { name, rule, needs: &[], loses_context: false, run }
    }

    /// Returns the same case with needs.
    #[must_use]
    pub const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// Returns the same case, marked as one that loses its context.
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

/// What a case needs from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A capability.
    Capability(Capabilities),
    /// The absence of a capability. The case checks what happens without it.
    Without(Capabilities),
    /// A second device of the same back end.
    TwoDevices,
    /// The library's kernels that set conditional values. With CUDA, they require `libcudadevrt.a` of the toolkit.
    ConditionalSetting,
    /// External memory and semaphores that are files, as those of the software device are.
    ExternalFiles,
}

/// The verdict of a case: it passed, or what is wrong.
pub type Verdict = Result<(), Failed>;

/// A description of what a case found to be wrong.
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

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device behaved as required.
    Passed,
    /// The device did not behave as required.
    Failed(String),
    /// The device does not provide what the case needs.
    Skipped(String),
}

/// Fails unless the two values are equal.
pub(crate) fn equal<T: PartialEq + fmt::Debug>(what: &str, found: T, expected: T) -> Verdict {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    let same = found.chars().zip(expected.chars()).take_while(|(found, expected)| found == expected).count();
    Err(Failed(format!("{what}: found {}, expected {}", excerpt(&found, same), excerpt(&expected, same))))
}

/// Returns the text if it is short, or else the part around the character at `position`.
fn excerpt(text: &str, position: usize) -> String {
    const SHORT: usize = 160;
    const BEFORE: usize = 40;
    const AFTER: usize = 80;
    let length = text.chars().count();
    if length <= SHORT {
        return text.to_owned();
    }
    let start = position.saturating_sub(BEFORE);
    let middle: String = text.chars().skip(start).take(BEFORE + AFTER).collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if start + BEFORE + AFTER < length { "…" } else { "" });
    format!("{before}{middle}{after}")
}

/// Fails unless `condition` holds.
pub(crate) fn holds(what: &str, condition: bool) -> Verdict {
    if condition { Ok(()) } else { Err(Failed(format!("{what} does not hold"))) }
}

/// Fails unless the call returned the error `status`.
pub(crate) fn refused<T>(what: &str, result: anabranch::Result<T>, status: Status) -> Verdict {
    match result {
        Ok(_) => Err(Failed(format!("{what}: succeeded, expected {status:?}"))),
        Err(error) => equal(what, error.status(), status),
    }
}

/// The status of a driver call.
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
