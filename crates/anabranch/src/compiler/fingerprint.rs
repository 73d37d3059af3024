//! The key of a compilation: a digest of everything that its result depends on.

use super::included_files::IncludedFiles;
use anabranch_hal::{CompileRequest, OutputKind};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;

/// A SHA-256 digest.
pub(super) type Sha256Digest = [u8; 32];

/// Changes whenever the same digest would mean something else.
const FORMAT: &str = "anabranch compiler cache, format 1";

/// The digest of all that the result of a compilation depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(Sha256Digest);

impl Fingerprint {
    /// The fingerprint of a request to a compiler, or `None` if the request does not determine everything that the
    /// result depends on.
    pub(super) fn of(identity: &str, request: &CompileRequest<'_>, include_directories: &[PathBuf]) -> Option<Self> {
        let CompileRequest { source, name, options, name_expressions, output } = request;
        let files = IncludedFiles::of(name, source, options.iter().chain(*name_expressions), include_directories)?;
        let mut digest = FieldDigest(Sha256::new());
        digest.field(FORMAT.as_bytes());
        digest.field(identity.as_bytes());
        digest.field(match output {
            OutputKind::Ptx => b"ptx",
            OutputKind::Binary => b"binary",
        });
        digest.field(name.as_bytes());
        for list in [options, name_expressions] {
            digest.count(list.len());
            list.iter().for_each(|text| digest.field(text.as_bytes()));
        }
        digest.field(source.as_bytes());
        digest.count(files.iter().len());
        for (path, content) in files.iter() {
            digest.field(path.as_os_str().as_encoded_bytes());
            digest.field(content);
        }
        if options.iter().any(|option| may_name_the_current_directory(option)) {
            digest.field(std::env::current_dir().ok()?.as_os_str().as_encoded_bytes());
        }
        Some(Self(digest.0.finalize().into()))
    }

    pub(super) fn bytes(&self) -> &Sha256Digest {
        &self.0
    }
}

/// Whether an option makes the compiler write absolute paths of source files into the code, as it does for debuggers and
/// profilers.
fn may_name_the_current_directory(option: &str) -> bool {
    option.trim_start().starts_with("-G") || option.contains("debug") || option.contains("line")
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// A digest of fields. Each has its length before it, so that no two lists of fields are the same bytes.
struct FieldDigest(Sha256);

impl FieldDigest {
    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn field(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;
    use anabranch_hal::{CompileRequest, OutputKind};

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn every_field_counts_and_none_runs_into_the_next() {
        let mut seen = Vec::new();
        for identity in ["one", "two"] {
            for source in ["ab", "a"] {
                for name in ["c", "bc"] {
                    for options in [&[][..], &["x"], &["xy"], &["x", "y"], &["y", "x"]] {
                        for expressions in [&[][..], &["x"]] {
                            for output in [OutputKind::Ptx, OutputKind::Binary] {
                                let (options, name_expressions) = (&strings(options), &strings(expressions));
                                let request = CompileRequest { source, name, options, name_expressions, output };
                                let fingerprint = Fingerprint::of(identity, &request, &[]).unwrap();
                                assert!(!seen.contains(&fingerprint));
                                seen.push(fingerprint);
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(seen[0].to_string().len(), 64);
    }
}
