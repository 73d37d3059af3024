//! Files that are generated and kept in the repository.

use std::path::Path;

use crate::Outcome;

/// Writes `text` to the file at `path` below `root`, or with `check` compares it. False means that the file differs from
/// what `source` gives.
pub(crate) fn keep(root: &Path, path: &str, text: &str, check: bool, source: &str) -> Outcome<bool> {
    let file = root.join(path);
    if !check {
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    } else if std::fs::read_to_string(&file).ok().as_deref() != Some(text) {
        eprintln!("{path} differs from what {source} give now; run this without --check");
        return Ok(false);
    }
    Ok(true)
}
