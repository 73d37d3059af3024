//! Where the repository is.

use std::path::{Path, PathBuf};

/// The root of the workspace: cargo names the directory of the package it runs, which is one below it.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.and_then(|path| path.parent().map(Path::to_path_buf)).unwrap_or_else(|| PathBuf::from("."))
}
