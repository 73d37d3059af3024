//! `docs/misuse.md` has each public item in exactly one row, and names only tests that exist.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(crate_directory().join(file)).unwrap()
}

fn document() -> String {
    read("../../docs/misuse.md")
}

/// What is between marks.
fn between(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// A row of one of the tables.
struct Row<'d> {
    /// The section, and the types that it is about.
    section: &'d str,
    types: Vec<&'d str>,
    /// The items, and the answers to the questions.
    cells: Vec<&'d str>,
}

fn rows(document: &str) -> Vec<Row<'_>> {
    let (mut section, mut types, mut rows) = ("", Vec::new(), Vec::new());
    for line in document.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (section, types) = (title, Vec::new());
        } else if let Some(title) = line.strip_prefix("### ") {
            types = between(title, '`').collect();
        } else if line.starts_with("| `") {
            let cells = line.trim_matches('|').split('|').map(str::trim).collect();
            rows.push(Row { section, types: types.clone(), cells });
        }
    }
    rows
}

/// A path without generic parameters, and without what follows it.
fn path(text: &str) -> String {
    let (mut depth, mut path) = (0, String::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth > 0 => {}
            ':' if !text[at..].starts_with("::") && !path.ends_with(':') => break,
            letter if letter.is_alphanumeric() || "_:!".contains(letter) => path.push(letter),
            _ => break,
        }
    }
    path
}

/// The kind and the path of each public item in the listing of a crate.
fn listed(listing: &str, crate_name: &str) -> Vec<(&'static str, String)> {
    const KINDS: &[&str] = &["fn", "struct", "enum", "trait", "type", "use", "macro", "mod", "static", "const"];
    let prefix = format!("{crate_name}::");
    let items = listing.lines().filter_map(|line| {
        let mut rest = line.strip_prefix("pub ")?;
        let mut kind = "";
        // Such as `const fn`; the last word says what it is.
        while let Some((word, behind)) = rest.split_once(' ').filter(|_| !rest.starts_with(&prefix)) {
            kind = KINDS.iter().find(|known| **known == word).copied().unwrap_or(kind);
            rest = behind;
        }
        Some((kind, path(rest.strip_prefix(&prefix)?)))
    });
    items.collect()
}

/// All public items of the crate, and the methods of what it exports of other crates, except of plain data.
fn items(plain: &BTreeSet<&str>) -> BTreeSet<String> {
    let own = listed(&read("public-api.txt"), "anabranch");
    let exported: BTreeSet<String> =
        own.iter().filter(|(kind, _)| *kind == "use").map(|(_, name)| name.clone()).collect();
    let mut items: BTreeSet<String> =
        own.into_iter().filter(|(kind, _)| !["mod", "type"].contains(kind)).map(|(_, name)| name).collect();
    for (file, name) in [("anabranch-hal", "anabranch_hal"), ("anabranch-core", "anabranch_core")] {
        for (_, path) in
            listed(&read(&format!("../{file}/public-api.txt")), name).iter().filter(|(kind, _)| *kind == "fn")
        {
            let mut ends = path.rsplit("::");
            let (Some(method), Some(of)) = (ends.next(), ends.next()) else { continue };
            if exported.contains(of) && !plain.contains(of) {
                items.insert(format!("{of}::{method}"));
            }
        }
    }
    items
}

/// The items that a name in a row means: itself, or a method of each of the section's types that has it.
fn meant<'i>(name: &str, row: &Row<'_>, items: &'i BTreeSet<String>) -> Vec<&'i String> {
    let of_types: Vec<_> = row.types.iter().filter_map(|of| items.get(&format!("{of}::{name}"))).collect();
    if of_types.is_empty() { items.get(name).into_iter().collect() } else { of_types }
}

#[test]
fn every_public_item_is_in_exactly_one_row() {
    let document = document();
    let rows = rows(&document);
    let plain = rows.iter().filter(|row| row.section == "Plain data").flat_map(|row| between(row.cells[0], '`'));
    let items = items(&plain.collect());
    assert!(items.len() > 500, "{}", items.len());
    let mut counted: BTreeMap<&String, usize> = items.iter().map(|item| (item, 0)).collect();
    for row in &rows {
        for name in between(row.cells[0], '`') {
            let meant = meant(name, row, &items);
            assert!(!meant.is_empty(), "`{name}` is no public item: {:?}", row.cells);
            meant.into_iter().for_each(|item| *counted.get_mut(item).unwrap() += 1);
        }
    }
    let with = |wanted: fn(&usize) -> bool| -> Vec<_> {
        counted.iter().filter(|(_, count)| wanted(count)).map(|(item, _)| *item).collect()
    };
    assert_eq!(with(|count| *count == 0), Vec::<&String>::new(), "in no row: think about them");
    assert_eq!(with(|count| *count > 1), Vec::<&String>::new(), "in several rows");
}

#[test]
fn every_question_has_an_answer_of_defined_words() {
    let document = document();
    let defined: BTreeSet<&str> =
        document.lines().filter_map(|line| line.strip_prefix("* *")?.split_once("*:")).map(|(word, _)| word).collect();
    let mut used = BTreeSet::new();
    for row in rows(&document) {
        assert!(row.cells.len() == 6 && row.cells.iter().all(|cell| !cell.is_empty()), "{:?}", row.cells);
        for word in row.cells[1..].iter().flat_map(|cell| between(cell, '*')) {
            assert!(defined.contains(word), "`{word}` is not defined: {:?}", row.cells);
            used.insert(word);
        }
    }
    assert_eq!(used, defined, "defined and not used");
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_test_that_the_table_names_exists() {
    let document = document();
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
    // No method has so long a name.
    let is_test = |name: &&str| name.starts_with("safety_") || name.matches('_').count() > 4;
    let named: BTreeSet<&str> = between(&document, '`').filter(is_test).collect();
    assert!(named.len() > 50, "{named:?}");
    let unknown: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
    assert!(unknown.is_empty(), "tests that do not exist: {unknown:?}");
}
