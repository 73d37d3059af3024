//! The error of calling a function that the loaded library does not have.

use std::error::Error;
use std::fmt;

/// The loaded library is older than a function that was to be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MissingSymbol {
    /// The function.
    pub(crate) name: &'static str,
    /// The CUDA version that introduced it, as `1000 * major + 10 * minor`.
    pub(crate) since: u32,
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (self.since / 1000, self.since % 1000 / 10);
        let library = if self.name.starts_with("nvrtc") { "an NVRTC of" } else { "a driver for" };
        write!(formatter, "missing symbol {}, which needs {library} CUDA {major}.{minor} or newer", self.name)
    }
}

impl Error for MissingSymbol {}

#[cfg(test)]
mod tests {
    use super::MissingSymbol;

    #[test]
    fn the_message_names_the_function_and_the_version() {
        let error = MissingSymbol { name: "cuFuncGetParamInfo", since: 12040 };
        assert_eq!(error.to_string(), "missing symbol cuFuncGetParamInfo, which needs a driver for CUDA 12.4 or newer");
    }
}
