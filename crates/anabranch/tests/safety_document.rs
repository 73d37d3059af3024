//! `docs/safety.md` names the tests of each class of defects. Not part of the package, which has no documents.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::BTreeSet;

/// The names of tests and programs that begin with `safety_`, in a text.
fn safety_names(text: &str) -> BTreeSet<String> {
    let word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = text.split(|character| !word(character));
    words
        .filter(|name| name.starts_with("safety_") && name[7..].starts_with(char::is_numeric))
        .map(Into::into)
        .collect()
}

#[test]
fn the_document_names_every_test_of_a_class_and_no_other() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("../../docs/safety.md")).unwrap();
    for class in 1..=135 {
        assert!(document.contains(&format!("\n| {class} | ")), "class {class} is missing");
    }
    let mut there = BTreeSet::new();
    for folder in ["tests", "tests/compiler", "tests/completion", "tests/owned", "tests/reaper", "tests/compile_fail"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            there.extend(safety_names(&path.file_stem().unwrap().to_string_lossy()));
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let line = line.strip_prefix("async ").unwrap_or(line);
                there.extend(line.strip_prefix("fn ").map(safety_names).into_iter().flatten());
            }
        }
    }
    let named = safety_names(&document);
    assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "named, and not there");
    assert_eq!(there.difference(&named).collect::<Vec<_>>(), Vec::<&String>::new(), "there, and not named");
}
