//! Checks that every instruction that `docs/ptx.md` lists as executed is in a kernel that devices are compared by.

use anabranch_conformance::ptx::{Family, Subject};
use std::collections::BTreeSet;
use std::path::Path;

/// Instructions whose effect no kernel can see, that depend on time or on which lanes run together, or that are the same as
/// another (`ret` of a kernel, `ld`, `membar`).
const INVISIBLE: [&str; 14] = [
    "activemask",
    "applypriority",
    "brkpt",
    "discard",
    "elect",
    "exit",
    "fence",
    "griddepcontrol",
    "ldu",
    "nanosleep",
    "pmevent",
    "prefetch",
    "prefetchu",
    "trap",
];

/// Instructions that are executed since devices were recorded. New ones would change the kernels of the recordings.
const NOT_RECORDED: [&str; 3] = ["mbarrier", "vabsdiff2", "vabsdiff4"];

#[test]
fn every_instruction_that_is_executed_is_compared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ptx.md");
    let document = std::fs::read_to_string(path).expect("docs/ptx.md can be read");
    let (_, list) = document.split_once("## Instructions that are executed").expect("the document has the list");
    let (list, _) = list.split_once("\n## ").expect("another list follows");
    let listed: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(listed.len() > 80, "{} instructions", listed.len());
    let seeds =
        [(Family::Golden, Subject::golden_count()), (Family::Sweep, Subject::sweep_count()), (Family::Random, 20)];
    let mut used = BTreeSet::new();
    for (family, count) in seeds {
        for subject in (0..count).filter_map(|seed| Subject::new(family, seed)) {
            let text = subject.module();
            let words = text.split(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '%' | '$')));
            used.extend(words.map(str::to_owned));
        }
    }
    let known = |name: &str| used.contains(name) || INVISIBLE.contains(&name) || NOT_RECORDED.contains(&name);
    let missing: Vec<&&str> = listed.iter().filter(|name| !known(name)).collect();
    assert!(missing.is_empty(), "no kernel has {missing:?}");
}
