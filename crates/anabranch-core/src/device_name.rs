//! The names of devices, such as `cuda:0` and `host`.

use crate::error::{Error, Result};
use anabranch_hal::{BackendKind, DeviceOrdinal, Status};
use std::fmt;
use std::str::FromStr;

/// The name of a device: a back end and a number, `cuda:0` or `host:1`. Without a number, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceName {
    /// The back end.
    pub backend: BackendKind,
    /// The device's number within its back end.
    pub ordinal: DeviceOrdinal,
}

impl FromStr for DeviceName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::argument(
                Status::INVALID_DEVICE,
                "reading a device's name",
                format!("`{text}` names no device; write `host`, `host:N`, `cuda` or `cuda:N`"),
            )
        };
        let (backend, number) = text.trim().split_once(':').map_or((text.trim(), "0"), |(name, number)| (name, number));
        let backend = match backend.to_ascii_lowercase().as_str() {
            "cuda" => BackendKind::Cuda,
            "hip" => BackendKind::Hip,
            "host" => BackendKind::Host,
            _ => return Err(refuse()),
        };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(refuse());
        }
        let ordinal = DeviceOrdinal(number.parse().map_err(|_| refuse())?);
        Ok(Self { backend, ordinal })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.backend, self.ordinal.0)
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceName;

    #[test]
    fn names_are_read_with_and_without_a_number() {
        for (text, expected) in [("host", "host:0"), ("cuda:3", "cuda:3"), (" HOST:1 ", "host:1"), ("hip", "hip:0")] {
            assert_eq!(text.parse::<DeviceName>().unwrap().to_string(), expected);
        }
        for text in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "host:99999999999", "host:0:0"] {
            let error = text.parse::<DeviceName>().unwrap_err();
            assert!(error.to_string().contains("names no device"), "{text}: {error}");
        }
    }
}
