//! Rust sources of the repository.

use std::path::{Path, PathBuf};

use crate::Outcome;

/// All Rust files below a folder, in a fixed order.
pub(crate) fn rust_files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The items of a file.
pub(crate) fn parse(path: &Path) -> Outcome<syn::File> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(syn::parse_file(&text).map_err(|error| {
        let start = error.span().start();
        format!("{}:{}:{}: {error}", path.display(), start.line, start.column + 1)
    })?)
}
