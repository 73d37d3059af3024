//! Architectures of GPUs, as compilers name them.

use crate::error::{Error, Result};
use anabranch_hal::{OutputKind, Status};
use std::fmt;
use std::str::FromStr;

/// An architecture of NVIDIA's GPUs: 90 for compute capability 9.0, or 90a with the architecture-specific features.
///
/// The output kind determines whether it is the virtual architecture `compute_90` (PTX) or the real one `sm_90`
/// (machine code).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Architecture {
    number: u32,
    features: Features,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Features {
    Common,
    Family,
    Specific,
}

impl Architecture {
    /// The architecture of that number, such as 90 for compute capability 9.0.
    pub const fn new(number: u32) -> Self {
        Self { number, features: Features::Common }
    }

    /// With the features of its family, as in `100f`. Such code runs on GPUs of the family only.
    #[must_use]
    pub const fn with_family_features(self) -> Self {
        Self { features: Features::Family, ..self }
    }

    /// With the features of this architecture alone, as in `90a`. Such code runs on no other architecture, not even a
    /// newer one.
    #[must_use]
    pub const fn with_specific_features(self) -> Self {
        Self { features: Features::Specific, ..self }
    }

    /// Its number, such as 90.
    pub const fn number(self) -> u32 {
        self.number
    }

    pub(super) fn option(self, output: OutputKind) -> String {
        let prefix = match output {
            OutputKind::Ptx => "compute_",
            OutputKind::Binary => "sm_",
        };
        format!("--gpu-architecture={prefix}{self}")
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.features {
            Features::Common => "",
            Features::Family => "f",
            Features::Specific => "a",
        };
        write!(formatter, "{}{suffix}", self.number)
    }
}

impl FromStr for Architecture {
    type Err = Error;

    /// Parses `90`, `90a` and `100f`, optionally after `sm_` or `compute_`.
    fn from_str(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        let name = trimmed.strip_prefix("sm_").or(trimmed.strip_prefix("compute_")).unwrap_or(trimmed);
        let (digits, features) = if let Some(digits) = name.strip_suffix('a') {
            (digits, Features::Specific)
        } else if let Some(digits) = name.strip_suffix('f') {
            (digits, Features::Family)
        } else {
            (name, Features::Common)
        };
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        number.map(|number| Self { number, features }).ok_or_else(|| {
            let message = format!("`{text}` names no architecture; write one as in 90, 90a or sm_90");
            Error::argument(Status::INVALID_VALUE, "reading the name of an architecture", message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Architecture;
    use anabranch_hal::OutputKind;

    #[test]
    fn names_are_read_and_written() {
        for (text, expected) in [("90", "90"), ("sm_90a", "90a"), ("compute_100f", "100f"), (" 75 ", "75")] {
            assert_eq!(text.parse::<Architecture>().unwrap().to_string(), expected);
        }
        for text in ["", "a", "sm_", "sm_x", "+90", "90b", "9.0", "99999999999"] {
            let error = text.parse::<Architecture>().unwrap_err();
            assert!(error.to_string().contains("names no architecture"), "{text}: {error}");
        }
        assert_eq!(Architecture::new(90).with_specific_features().to_string(), "90a");
        assert_eq!(Architecture::new(100).with_family_features().to_string(), "100f");
    }

    #[test]
    fn machine_code_is_for_the_real_architecture() {
        let architecture = Architecture::new(90);
        assert_eq!(architecture.option(OutputKind::Ptx), "--gpu-architecture=compute_90");
        assert_eq!(architecture.option(OutputKind::Binary), "--gpu-architecture=sm_90");
    }
}
