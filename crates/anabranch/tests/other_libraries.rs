//! `anabranch::other_libraries` has each member of the pages of other libraries in exactly one row, and names only what exists.
//! Not part of the package, which has neither the list of these members nor the conformance cases.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap()
}

/// The members by page, in the order of the list.
fn listed() -> BTreeMap<String, Vec<String>> {
    let (mut pages, mut page) = (BTreeMap::<String, Vec<String>>::new(), String::new());
    for line in read("../../docs/other-libraries.txt").lines() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut page);
        } else if !line.is_empty() && !line.starts_with('#') {
            pages.entry(page.clone()).or_default().push(line.to_owned());
        }
    }
    pages
}

/// The rows of a file's tables with so many columns, without their headings.
fn rows(file: &str, columns: usize) -> Vec<Vec<String>> {
    let text = read(file);
    let lines = text.lines().filter_map(|line| line.strip_prefix("//! |")?.strip_suffix('|'));
    let cells = lines.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    cells.filter(|cells| cells.len() == columns && cells[0] != "there" && !cells[0].starts_with("---")).collect()
}

/// The table of a page, and the file that it is in.
fn page(name: &str) -> Vec<Vec<String>> {
    rows(&format!("src/other_libraries/{name}.rs"), 4)
}

/// What is between marks for code.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Where the links of a text lead to, and the text without them.
fn links(text: &str) -> (Vec<&str>, String) {
    let (mut targets, mut rest) = (Vec::new(), String::new());
    let mut parts = text.split("[`");
    rest.push_str(parts.next().unwrap());
    for part in parts {
        let (_, behind) = part.split_once("`](").unwrap_or_else(|| panic!("no link in: {part}"));
        let (target, behind) = behind.split_once(')').unwrap();
        targets.push(target);
        rest.push_str(behind);
    }
    (targets, rest)
}

/// The paths of the public API from the crate on, as links write them, without generic parameters.
fn public() -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (listing, name) in
        [("", "anabranch"), ("../anabranch-core/", "anabranch_core"), ("../anabranch-hal/", "anabranch_hal")]
    {
        for line in read(&format!("{listing}public-api.txt")).lines() {
            let start = format!("{name}::");
            let Some(at) = line.find(&start) else { continue };
            let (mut depth, mut path) = (0, String::new());
            for letter in line[at + start.len()..].chars() {
                match letter {
                    '<' => depth += 1,
                    '>' => depth -= 1,
                    _ if depth > 0 => {}
                    letter if letter.is_alphanumeric() || "_:!".contains(letter) => path.push(letter),
                    _ => break,
                }
            }
            let path = path.trim_end_matches(':');
            paths.insert(path.to_owned());
            // What the crate exports of others is known by its last names.
            if name != "anabranch" {
                let names: Vec<_> = path.rsplit("::").take(2).collect();
                paths.extend([names[0].to_owned(), names.iter().rev().copied().collect::<Vec<_>>().join("::")]);
            }
        }
    }
    paths
}

/// The functions of tests, as `file::function`.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["tests", "tests/pages"] {
        for file in std::fs::read_dir(path(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let Some(module) = file.extension().filter(|kind| *kind == "rs").and(file.file_stem()) else { continue };
            let text = std::fs::read_to_string(&file).unwrap();
            for test in text.split("#[test]\n").skip(1) {
                let function = test.split("fn ").nth(1).unwrap().split('(').next().unwrap();
                names.insert(format!("{}::{function}", module.to_str().unwrap()));
            }
        }
    }
    // Programs that do not compile are tests too.
    let programs = std::fs::read_dir(path("tests/compile_fail")).unwrap().map(|entry| entry.unwrap().path());
    names.extend(programs.map(|file| format!("compile_fail::{}", file.file_stem().unwrap().to_str().unwrap())));
    names
}

/// The cases of the document, of which another test says that they are those there are.
fn cases() -> BTreeSet<String> {
    read("../../docs/semantics.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(case, _)| case.to_owned())
        .filter(|case| case.contains('.'))
        .collect()
}

#[test]
fn every_member_is_in_exactly_one_row() {
    let pages = listed();
    let files: BTreeSet<_> = std::fs::read_dir(path("src/other_libraries"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(files, pages.keys().cloned().collect(), "a page of the list has a module, and no other has one");
    assert_eq!(pages.len(), 5);
    for (page_name, members) in pages {
        let mut counted: BTreeMap<&String, usize> = members.iter().map(|member| (member, 0)).collect();
        assert!(counted.len() == members.len() && members.len() > 10, "{page_name} lists a member twice, or few");
        let rows = page(&page_name);
        for row in &rows {
            for member in code(&row[0]) {
                let count = counted.get_mut(&member.to_owned());
                *count.unwrap_or_else(|| panic!("`{member}` of {page_name} is not in the list")) += 1;
            }
        }
        let wrong: Vec<_> = counted.into_iter().filter(|(_, count)| *count != 1).collect();
        assert!(wrong.is_empty(), "{page_name}: in no row, or in several: {wrong:?}");
    }
}

#[test]
fn what_rows_name_exists() {
    let (public, tests, cases) = (public(), tests(), cases());
    assert!(public.len() > 1000 && tests.len() > 300 && cases.len() > 500);
    for page_name in listed().keys() {
        for row in page(page_name) {
            let (targets, rest) = links(&row[1]);
            assert!(!targets.is_empty() && !rest.contains('`'), "{page_name}: what is here is a link: {row:?}");
            let how = links(&row[2]);
            for target in targets.into_iter().chain(how.0) {
                let known = target.strip_prefix("crate::").map(|target| public.contains(target));
                assert!(
                    known.unwrap_or(target.starts_with("std::")),
                    "{target} of {page_name} is not in the public API"
                );
            }
            let reason = row[2].strip_prefix("differs: ").or_else(|| row[2].strip_prefix("left out: "));
            assert!(row[2] == "equal" || reason.is_some_and(|reason| reason.len() > 10), "{page_name}: {row:?}");
            let shown: Vec<_> = code(&row[3]).collect();
            assert!(!shown.is_empty(), "{page_name}: nothing shows {row:?}");
            for name in shown {
                assert!(tests.contains(name) || cases.contains(name), "{page_name}: there is no test or case `{name}`");
            }
        }
    }
}

#[test]
fn further_names_exist_too() {
    let public = public();
    let mut files: Vec<_> = listed().into_keys().map(|page| format!("src/other_libraries/{page}.rs")).collect();
    files.push("src/other_libraries.rs".to_owned());
    let mut count = 0;
    for file in files {
        for row in rows(&file, 2) {
            for target in links(&row[1]).0 {
                count += 1;
                let known = target.strip_prefix("crate::").is_some_and(|target| public.contains(target));
                assert!(known, "{target} of {file} is not in the public API");
            }
        }
    }
    assert!(count > 60, "{count}");
}
