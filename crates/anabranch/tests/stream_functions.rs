//! `docs/stream-functions.md` has each function of the CUDA driver about streams in exactly one row, and names only what
//! exists. Not part of the package, which has no documents.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// A row of one of the tables.
struct Row {
    section: String,
    cells: Vec<String>,
}

fn rows() -> Vec<Row> {
    let (mut section, mut rows) = (String::new(), Vec::new());
    for line in read("../../docs/stream-functions.md").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            title.clone_into(&mut section);
        } else if line.starts_with("| `") {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            rows.push(Row { section: section.clone(), cells });
        }
    }
    rows
}

/// What is between marks for code.
fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

impl Row {
    fn function(&self) -> &str {
        code(&self.cells[0])[0]
    }
}

fn listed() -> BTreeSet<String> {
    read("../../docs/stream-functions.txt").lines().filter(|line| !line.starts_with('#')).map(Into::into).collect()
}

/// The functions of the driver that `anabranch-cuda` calls, by the names under which the driver is asked for them.
fn called() -> BTreeSet<String> {
    let table = read("../anabranch-cuda/src/ffi/cuda_functions.rs");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../anabranch-cuda/src");
    let sources: String = files(&root).into_iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    // A long attribute begins in a line of its own.
    let entries = table.split("#[entry_point(").skip(1).map(|entry| {
        let name = entry.split("fn ").nth(1).unwrap().split('(').next().unwrap();
        (entry.split('"').nth(1).unwrap(), format!("functions.{name}("))
    });
    entries.filter(|(_, call)| sources.contains(call.as_str())).map(|(entry_point, _)| entry_point.to_owned()).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The types, and the functions of types, of the public API, without generic parameters.
fn public() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let listing =
        read("public-api.txt") + &read("../anabranch-core/public-api.txt") + &read("../anabranch-hal/public-api.txt");
    for line in listing.lines() {
        let Some(start) = line.find("anabranch") else { continue };
        let (mut depth, mut path) = (0, String::new());
        for letter in line[start..].chars() {
            match letter {
                '<' => depth += 1,
                '>' => depth -= 1,
                _ if depth > 0 => {}
                letter if letter.is_alphanumeric() || "_:".contains(letter) => path.push(letter),
                _ => break,
            }
        }
        let mut ends = path.rsplit("::");
        let (Some(name), Some(of)) = (ends.next(), ends.next()) else { continue };
        names.extend([name.to_owned(), format!("{of}::{name}")]);
    }
    names
}

#[test]
fn every_function_is_in_exactly_one_row() {
    let listed = listed();
    assert!(listed.len() > 70, "{listed:?}");
    let mut counted: BTreeMap<String, usize> = listed.into_iter().map(|name| (name, 0)).collect();
    for row in rows() {
        let count = counted.get_mut(row.function());
        *count.unwrap_or_else(|| panic!("`{}` is not in the list", row.function())) += 1;
    }
    let wrong: Vec<_> = counted.into_iter().filter(|(_, count)| *count != 1).collect();
    assert!(wrong.is_empty(), "in no row, or in several: {wrong:?}");
}

#[test]
fn what_is_used_is_called_and_reached_by_functions_that_exist() {
    let (called, public) = (called(), public());
    let rows = rows();
    let used: BTreeSet<&str> = rows.iter().filter(|row| row.section == "Used").map(Row::function).collect();
    for row in &rows {
        assert!(row.cells.iter().all(|cell| !cell.is_empty()), "{:?}", row.cells);
        let function = row.function();
        assert_eq!(called.contains(function), used.contains(function), "`{function}` is called exactly if it is used");
        match &*row.section {
            "Used" => {
                let named = code(&row.cells[1]);
                assert!(!named.is_empty() && row.cells.len() == 2, "{:?}", row.cells);
                for name in named {
                    assert!(public.contains(name), "`{name}` of `{function}` is not in the public API");
                }
            }
            "Covered by others" => {
                let by = code(&row.cells[1]);
                assert!(!by.is_empty() && row.cells.len() == 3, "{:?}", row.cells);
                assert!(by.iter().all(|name| used.contains(name)), "{:?}", row.cells);
            }
            "Not used" => {
                assert_eq!(row.cells.len(), 2, "{:?}", row.cells);
                for name in code(&row.cells[1]) {
                    assert!(public.contains(name), "`{name}` of `{function}` is not in the public API");
                }
            }
            other => panic!("no section is called {other}"),
        }
    }
}
