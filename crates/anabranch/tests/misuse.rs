//! `docs/misuse.md` has a row for every public type, and names only tests that exist.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What is between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of the rows of the table.
fn rows(document: &str) -> Vec<Vec<&str>> {
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The types and traits that the crate defines.
fn types() -> BTreeSet<String> {
    let listed = fs::read_to_string(crate_directory().join("public-api.txt")).unwrap();
    let kinds = ["pub struct anabranch::", "pub enum anabranch::", "pub trait anabranch::"];
    let names = listed.lines().filter_map(|line| kinds.iter().find_map(|kind| line.strip_prefix(kind)));
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    // A path goes on behind the name of a type that is inside of a module or an enumeration.
    let names = names.map(|rest| rest.split_at(rest.find(|letter| !is_name(letter)).unwrap_or(rest.len())));
    names.filter(|(_, rest)| !rest.starts_with("::")).map(|(name, _)| name.to_owned()).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_type_has_a_row_with_an_answer_to_each_question() {
    let document = fs::read_to_string(crate_directory().join("../../docs/misuse.md")).unwrap();
    let rows = rows(&document);
    for row in &rows {
        assert!(row.len() == 6 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
    let answered: BTreeSet<&str> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let missing: Vec<_> = types().into_iter().filter(|name| !answered.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "types without a row: {missing:?}");
}

#[test]
fn every_test_that_the_table_names_exists() {
    let document = fs::read_to_string(crate_directory().join("../../docs/misuse.md")).unwrap();
    let files = files(&crate_directory().join("tests"));
    let sources: Vec<_> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap(), fs::read_to_string(path).unwrap()))
        .collect();
    let exists = |name: &str| {
        let function = format!("fn {name}(");
        sources.iter().any(|(file, text)| *file == name || text.contains(&function))
    };
    let named: BTreeSet<&str> = quoted(&document).filter(|name| name.starts_with("safety_")).collect();
    assert!(!named.is_empty());
    let unknown: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
    assert!(unknown.is_empty(), "tests that do not exist: {unknown:?}");
}
