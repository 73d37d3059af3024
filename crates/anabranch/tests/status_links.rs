//! In the documentation of the library, each status code is a link to its constant, and its number and name belong together. With
//! `UPDATE_DOCS=1`, this makes the links.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::Status;
use std::fs;
use std::mem::take;
use std::path::{Path, PathBuf};

const WIDTH: usize = 120;
const NAME: &str = "CUDA_ERROR_";

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|kind| kind == "rs")).collect()
}

/// A line of documentation: what is before its text, and the text.
fn documentation(line: &str) -> Option<(&str, &str)> {
    let at = line.len() - line.trim_start().len() + 3;
    let is_documentation = line.trim_start().starts_with("/// ") || line.trim_start().starts_with("//! ");
    is_documentation.then(|| line.split_at(at + 1))
}

/// The text with links, and the codes whose names or links are wrong.
fn linked(text: &str) -> (String, Vec<String>) {
    let (mut result, mut wrong) = (String::new(), Vec::new());
    let mut spans = text.split('`').enumerate().peekable();
    while let Some((number, span)) = spans.next() {
        let code = (number % 2 == 1).then(|| span.strip_suffix(')')?.split_once(" (")).flatten();
        let Some((name, value)) = code.filter(|(name, _)| name.starts_with(NAME)) else {
            if number % 2 == 1 {
                result.push_str(&format!("`{span}`"));
            } else {
                result.push_str(span);
            }
            continue;
        };
        let target = format!("](crate::Status::{})", name.trim_start_matches(NAME));
        let is_linked = result.ends_with('[');
        let is_right = is_linked && spans.peek().is_some_and(|(_, rest)| rest.starts_with(&target));
        let status = Status(value.parse().unwrap_or(-1));
        if status.name() != Some(name) || !is_right {
            wrong.push(span.to_owned());
        }
        let link = if is_linked { format!("`{span}`") } else { format!("[`{span}`{target}") };
        result.push_str(&link);
    }
    (result, wrong)
}

/// The words, of which code is never divided.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_code) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        is_code ^= letter == '`';
        if letter == ' ' && !is_code {
            words.push(take(&mut word));
        } else {
            word.push(letter);
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// A paragraph with links, in lines that are not too long.
fn wrapped(lines: &[&str]) -> Vec<String> {
    let (prefix, first) = documentation(lines[0]).unwrap();
    let text: Vec<&str> = lines.iter().map(|line| documentation(line).unwrap().1.trim()).collect();
    let indent = " ".repeat(first.len() - first.trim_start().len());
    let later = if first.trim_start().starts_with("* ") { format!("{indent}  ") } else { indent.clone() };
    let (mut result, mut line) = (Vec::new(), format!("{prefix}{indent}"));
    let mut is_empty = true;
    for word in words(&linked(&text.join(" ")).0) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            result.push(std::mem::replace(&mut line, format!("{prefix}{later}")));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    result.push(line);
    result
}

/// The source with links, and what was wrong with it.
fn with_links(source: &str) -> (String, Vec<String>) {
    let (mut result, mut wrong, mut paragraph) = (Vec::new(), Vec::new(), Vec::<&str>::new());
    let mut is_code = false;
    let mut end = |paragraph: &mut Vec<&str>, result: &mut Vec<String>| {
        let lines = take(paragraph);
        let of_lines: Vec<_> = lines.iter().flat_map(|line| linked(documentation(line).unwrap().1).1).collect();
        if of_lines.is_empty() {
            result.extend(lines.into_iter().map(str::to_owned));
        } else {
            result.extend(wrapped(&lines));
        }
        wrong.extend(of_lines);
    };
    for line in source.lines() {
        let text = documentation(line).map(|(_, text)| text.trim_start());
        let is_fence = text.is_some_and(|text| text.starts_with("```"));
        let is_table = text.is_some_and(|text| text.starts_with('|'));
        let is_heading = text.is_some_and(|text| text.starts_with('#'));
        let is_alone = is_fence || is_code || is_table || is_heading;
        if text.is_none_or(|text| text.starts_with("* ")) || is_alone {
            end(&mut paragraph, &mut result);
        }
        is_code ^= is_fence;
        match text {
            Some(_) if !is_alone && !is_code => paragraph.push(line),
            Some(_) if is_table => {
                let (prefix, text) = documentation(line).unwrap();
                result.push(format!("{prefix}{}", linked(text).0));
            }
            _ => result.push(line.to_owned()),
        }
    }
    end(&mut paragraph, &mut result);
    (result.join("\n") + "\n", wrong)
}

#[test]
fn every_status_is_a_link_to_its_constant() {
    let (mut complaints, mut count) = (Vec::new(), 0);
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let source = fs::read_to_string(&path).unwrap();
        let (expected, wrong) = with_links(&source);
        count += expected.matches("](crate::Status::").count();
        if std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty()) {
            fs::write(&path, &expected).unwrap();
        } else if !wrong.is_empty() || source != expected {
            complaints.push(format!("{}: {wrong:?}", path.display()));
        }
    }
    assert!(complaints.is_empty(), "run this with UPDATE_DOCS=1, if the names fit the numbers: {complaints:#?}");
    assert!(count > 200, "{count}");
}

#[test]
fn links_are_made_and_lines_are_wrapped() {
    let before = "fn before() {}
    /// Does it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for `some code`; `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is not enough memory for
    /// it.
    ///
    /// ```
    /// // `CUDA_ERROR_INVALID_VALUE (1)`
    /// ```
    fn f() {}
    // `CUDA_ERROR_INVALID_VALUE (1)`
";
    let after = "fn before() {}
    /// Does it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for `some code`;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory for it.
    ///
    /// ```
    /// // `CUDA_ERROR_INVALID_VALUE (1)`
    /// ```
    fn f() {}
    // `CUDA_ERROR_INVALID_VALUE (1)`
";
    let (result, wrong) = with_links(before);
    assert_eq!(result, after);
    assert_eq!(wrong, ["CUDA_ERROR_INVALID_VALUE (1)", "CUDA_ERROR_OUT_OF_MEMORY (2)"]);
    assert_eq!(with_links(after), (after.to_owned(), Vec::new()));
    for wrong in ["`CUDA_ERROR_INVALID_VALUE (2)`", "[`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::NOT_FOUND)"] {
        assert_eq!(linked(wrong).1.len(), 1, "{wrong}");
    }
}
