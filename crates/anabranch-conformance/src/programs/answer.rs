//! What a device answers to a call.

use std::fmt::{self, Display, Formatter};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It returned this status.
    Status(i32),
    /// It was not made, because an object that it uses does not exist, or because what it would do is not defined.
    Skipped,
    /// The process ended.
    Crashed,
    /// It did not return in time.
    Hung,
}

/// The answer to a call: how it ended, and what it returned as far as that is the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// How the call ended.
    pub outcome: Outcome,
    /// What it returned. Empty if that is nothing.
    pub detail: String,
}

impl Answer {
    /// An answer without a detail.
    pub const fn new(outcome: Outcome) -> Self {
        Self { outcome, detail: String::new() }
    }

    /// The answer with that detail. Line ends become spaces.
    pub fn with(outcome: Outcome, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.contains(['\n', '\r', '\t']) {
            detail = detail.split(['\n', '\r', '\t']).collect::<Vec<_>>().join(" ");
        }
        Self { outcome, detail }
    }

    /// Writes the answer as one line: nothing for success without a detail.
    pub fn to_line(&self) -> String {
        match (self.outcome, self.detail.is_empty()) {
            (Outcome::Status(0), true) => String::new(),
            (Outcome::Status(0), false) => format!("0 {}", self.detail),
            (_, true) => self.outcome.to_string(),
            (_, false) => format!("{} {}", self.outcome, self.detail),
        }
    }

    /// Reads what [`to_line`](Self::to_line) has written, or `None` if it has not.
    pub fn from_line(line: &str) -> Option<Self> {
        let (outcome, detail) = line.split_once(' ').unwrap_or((line, ""));
        let outcome = match outcome {
            "" => Outcome::Status(0),
            "skipped" => Outcome::Skipped,
            "crash" => Outcome::Crashed,
            "hang" => Outcome::Hung,
            status => Outcome::Status(status.parse().ok()?),
        };
        Some(Self { outcome, detail: detail.to_owned() })
    }

    /// Whether the device did not survive the call.
    pub fn is_fatal(&self) -> bool {
        matches!(self.outcome, Outcome::Crashed | Outcome::Hung)
    }
}

impl Display for Outcome {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(formatter, "{status}"),
            Self::Skipped => formatter.write_str("skipped"),
            Self::Crashed => formatter.write_str("crash"),
            Self::Hung => formatter.write_str("hang"),
        }
    }
}

impl Display for Answer {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.outcome, formatter)?;
        if self.detail.is_empty() { Ok(()) } else { write!(formatter, " {}", self.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Outcome};

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        for outcome in [Outcome::Status(0), Outcome::Status(901), Outcome::Skipped, Outcome::Crashed, Outcome::Hung] {
            for detail in ["", "g2.1 nodes=2", "0"] {
                let answer = Answer::with(outcome, detail);
                assert_eq!(Answer::from_line(&answer.to_line()), Some(answer));
            }
        }
        assert_eq!(Answer::from_line("what"), None);
    }
}
