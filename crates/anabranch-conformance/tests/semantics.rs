//! Checks that `docs/semantics.md` lists every case, and no other, under its rule.
//!
//! `UPDATE_DOCS=1 cargo test -p anabranch-conformance --test semantics` generates the lists between the marks
//! `<!-- cases:E2 -->` and `<!-- /cases -->`.

use anabranch_conformance::{Case, Need, all};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

const BEGIN: &str = "<!-- cases:";
const BEGIN_ENDS: &str = " -->\n";
const END: &str = "<!-- /cases -->";
const REMEDY: &str = "run `UPDATE_DOCS=1 cargo test -p anabranch-conformance --test semantics`";

/// The list of cases of one rule in the document.
struct List<'a> {
    rule: &'a str,
    /// The byte range of the text between the marks.
    range: Range<usize>,
    text: &'a str,
}

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/semantics.md")
}

fn lists(document: &str) -> Vec<List<'_>> {
    let mut lists = Vec::new();
    let mut position = 0;
    while let Some(begin) = document[position..].find(BEGIN).map(|found| position + found + BEGIN.len()) {
        let rule_end = begin + document[begin..].find(BEGIN_ENDS).expect("a mark ends with its line");
        let start = rule_end + BEGIN_ENDS.len();
        let end = start + document[start..].find(END).expect("every list has an end");
        lists.push(List { rule: &document[begin..rule_end], range: start..end, text: &document[start..end] });
        position = end;
    }
    lists
}

/// The names of the cases in a list: the text between backquotes at the beginning of each row.
fn listed(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

fn by_rule(cases: &[Case]) -> BTreeMap<&'static str, Vec<&Case>> {
    let mut rules: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for case in cases {
        rules.entry(case.rule).or_default().push(case);
    }
    rules
}

fn needs(case: &Case) -> String {
    let words = |capabilities: anabranch::Capabilities| {
        let names: Vec<String> =
            capabilities.iter_names().map(|(name, _)| name.to_lowercase().replace('_', " ")).collect();
        names.join(", ")
    };
    let mut needs: Vec<String> = case
        .needs
        .iter()
        .map(|need| match need {
            Need::Capability(capability) => words(*capability),
            Need::Without(capability) => format!("no {}", words(*capability)),
            Need::TwoDevices => "two devices".to_owned(),
            Need::ConditionalSetting => "conditional values set by kernels".to_owned(),
            Need::ExternalFiles => "external memory of files".to_owned(),
        })
        .collect();
    if case.loses_context {
        needs.push("loses its context".to_owned());
    }
    needs.join("; ")
}

/// The list of cases that a rule should have.
fn table(cases: &[&Case]) -> String {
    if cases.is_empty() {
        return "No case.\n".to_owned();
    }
    let rows = cases.iter().map(|case| format!("| `{}` | {} |\n", case.name, needs(case)).replace("|  |", "| |"));
    format!("| case | needs |\n|---|---|\n{}", rows.collect::<String>())
}

fn updated(document: &str, rules: &BTreeMap<&str, Vec<&Case>>) -> String {
    let mut text = document.to_owned();
    for list in lists(document).iter().rev() {
        text.replace_range(list.range.clone(), &table(rules.get(list.rule).map_or(&[], Vec::as_slice)));
    }
    text
}

#[test]
fn the_document_lists_every_case_under_its_rule() {
    let cases = all();
    let rules = by_rule(&cases);
    let mut document = std::fs::read_to_string(path()).expect("docs/semantics.md can be read");
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty()) {
        document = updated(&document, &rules);
        std::fs::write(path(), &document).expect("docs/semantics.md can be written");
    }
    let lists = lists(&document);
    let mut complaints = Vec::new();
    let sections: BTreeSet<&str> = lists.iter().map(|list| list.rule).collect();
    if sections.len() != lists.len() {
        complaints.push("a rule has two lists".to_owned());
    }
    for rule in rules.keys().filter(|rule| !sections.contains(*rule)) {
        complaints.push(format!("there is no section for {rule}: add one with the marks of a list"));
    }
    for list in &lists {
        if !document[..list.range.start].contains(&format!("\n### {} ", list.rule)) {
            complaints.push(format!("the list of {} is not under the heading of that rule", list.rule));
        }
        let expected: BTreeSet<&str> = rules.get(list.rule).into_iter().flatten().map(|case| case.name).collect();
        let found = listed(list.text);
        complaints.extend(expected.difference(&found).map(|name| format!("{}: {name} is missing", list.rule)));
        complaints.extend(found.difference(&expected).map(|name| format!("{}: there is no case {name}", list.rule)));
    }
    assert!(complaints.is_empty(), "docs/semantics.md: {REMEDY}\n{}", complaints.join("\n"));
    assert!(updated(&document, &rules) == document, "docs/semantics.md is out of date: {REMEDY}");
}
