//! The error of finding no library.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// No candidate for a library could be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoadError {
    /// The library's name, for people.
    pub(crate) library: &'static str,
    /// Every candidate, in the order of trying. None if the library does not exist for this operating system.
    pub(crate) tried: Vec<FailedAttempt>,
}

/// One candidate for a library, and why it was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FailedAttempt {
    /// The file, by path or by a name that the operating system searches for.
    pub(crate) file: PathBuf,
    /// What the operating system said.
    pub(crate) reason: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, tried } = self;
        if tried.is_empty() {
            return write!(formatter, "there is no {library} for this operating system");
        }
        write!(formatter, "could not load the {library}; tried")?;
        for (position, FailedAttempt { file, reason }) in tried.iter().enumerate() {
            let separator = if position == 0 { "" } else { ";" };
            // The operating system usually begins with the name that it was given, which need not be said twice.
            let name = file.display().to_string();
            let reason = reason.strip_prefix(&name).map_or(reason.as_str(), |rest| rest.trim_start_matches(": "));
            write!(formatter, "{separator} {name} ({reason})")?;
        }
        Ok(())
    }
}

impl Error for LoadError {}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{FailedAttempt, LoadError};

    #[test]
    fn the_message_names_every_candidate_once() {
        let attempt = |file: &str, reason: &str| FailedAttempt { file: PathBuf::from(file), reason: reason.to_owned() };
        let error = LoadError {
            library: "CUDA driver",
            tried: vec![attempt("one.so", "one.so: no such file"), attempt("two.so", "wrong format")],
        };
        assert_eq!(
            error.to_string(),
            "could not load the CUDA driver; tried one.so (no such file); two.so (wrong format)"
        );
    }

    #[test]
    fn the_message_without_candidates_blames_the_operating_system() {
        let error = LoadError { library: "CUDA driver", tried: Vec::new() };
        assert_eq!(error.to_string(), "there is no CUDA driver for this operating system");
    }
}
