//! The comment at the start of a PTX file that says what it was made from.

use sha2::{Digest, Sha256};

const COMPILER: &str = "// Compiler: ";
const OPTIONS: &str = "// Options: ";
const HASH: &str = "// SHA-256 of the source: ";

/// What a PTX file was made from, and with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Name and version of the compiler.
    pub(crate) compiler: String,
    /// Its options, with spaces between them.
    pub(crate) options: String,
    /// The source's hash.
    pub(crate) hash: String,
}

impl Stamp {
    /// The stamp of a PTX file, if it has one.
    pub(crate) fn of_ptx(ptx: &str) -> Option<Self> {
        let value = |key| ptx.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        Some(Self { compiler: value(COMPILER)?, options: value(OPTIONS)?, hash: value(HASH)? })
    }

    /// The comment, for the PTX of the source of that name.
    pub(crate) fn text(&self, name: &str) -> String {
        let Self { compiler, options, hash } = self;
        format!(
            "// Made from {name} by `cargo xtask kernels`.\n{COMPILER}{compiler}\n{OPTIONS}{options}\n{HASH}{hash}\n"
        )
    }
}

/// The hash of a source, as hexadecimal digits.
pub(crate) fn hash(source: &str) -> String {
    Sha256::digest(source).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Stamp, hash};

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { compiler: "NVRTC 12.0".to_owned(), options: "--a --b".to_owned(), hash: hash("source") };
        assert_eq!(Stamp::of_ptx(&(stamp.text("kernels.cu") + "//\n.version 8.0\n")), Some(stamp));
        assert_eq!(Stamp::of_ptx("//\n.version 8.0\n"), None);
    }

    #[test]
    fn the_hash_is_that_of_the_standard() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
