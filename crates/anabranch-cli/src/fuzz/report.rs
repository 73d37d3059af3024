//! Differences in groups.

use crate::output::{self, Failure};
use anabranch_conformance::programs::{Answer, Difference, Family, Outcome, Program, first_difference};
use serde_json::json;
use std::collections::BTreeMap;

/// How many calls before a difference are printed.
const BEFORE: usize = 40;
/// How many seeds of a group are printed.
const SEEDS: usize = 12;

/// What the differences of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    family: Family,
    call: &'static str,
    here: String,
    there: String,
}

/// One program with a difference, and the answers here.
pub(super) struct Example {
    pub(super) program: Program,
    pub(super) here: Vec<Answer>,
    pub(super) difference: Difference,
}

/// All differences of a kind.
#[derive(Default)]
pub(super) struct Group {
    seeds: Vec<u64>,
    pub(super) example: Option<Example>,
}

/// Differences, by what they have in common, and how many programs of each family were compared.
#[derive(Default)]
pub(super) struct Groups {
    groups: BTreeMap<Kind, Group>,
    compared: BTreeMap<Family, usize>,
}

impl Kind {
    pub(super) fn of(program: &Program, difference: &Difference) -> Self {
        let Difference { index, here, there } = difference;
        let same = here.outcome == there.outcome;
        let text = |outcome: Outcome| if same { format!("{outcome} with another value") } else { outcome.to_string() };
        let (here, there) = (text(here.outcome), text(there.outcome));
        Self { family: program.family(), call: program.name(*index), here, there }
    }
}

impl Groups {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Compares the answers to the program of a family and a seed, which is made only where they differ.
    pub(super) fn compare(&mut self, family: Family, seed: u64, here: &[Answer], there: &[Answer]) {
        *self.compared.entry(family).or_default() += 1;
        let Some(difference) = first_difference(here, there) else { return };
        let program = Program::new(family, seed);
        let group = self.groups.entry(Kind::of(&program, &difference)).or_default();
        group.seeds.push(program.seed());
        // The one with the fewest calls before the difference.
        if group.example.as_ref().is_none_or(|example| difference.index < example.difference.index) {
            group.example = Some(Example { program, here: here.to_vec(), difference });
        }
    }

    /// Changes each group.
    pub(super) fn each(
        &mut self,
        mut change: impl FnMut(&Kind, &mut Group) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.groups.iter_mut().try_for_each(|(kind, group)| change(kind, group))
    }

    pub(super) fn print(&self, json: bool) -> Result<(), Failure> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(kind, group)| (kind.family, std::cmp::Reverse(group.seeds.len())));
        for (kind, group) in groups {
            let Some(example) = &group.example else { continue };
            if json {
                print_json(kind, group, example)?;
            } else {
                print_text(kind, group, example)?;
            }
        }
        self.compared.iter().try_for_each(|(family, compared)| self.print_family(*family, *compared, json))
    }

    fn print_family(&self, family: Family, compared: usize, json: bool) -> Result<(), Failure> {
        let groups = self.groups.iter().filter(|(kind, _)| kind.family == family);
        let different: usize = groups.map(|(_, group)| group.seeds.len()).sum();
        let equal = compared - different;
        if json {
            return output::json_line(&json!({ "family": family.name(), "compared": compared, "equal": equal }));
        }
        output::line(&format!("{family}: {equal} of {compared} programs equal"))
    }
}

fn print_json(kind: &Kind, group: &Group, example: &Example) -> Result<(), Failure> {
    let Difference { index, here, there } = &example.difference;
    let before: Vec<String> = (0..*index).map(|index| call(example, index)).collect();
    output::json_line(&json!({
        "family": kind.family.name(), "call": kind.call, "here": kind.here, "recorded": kind.there,
        "count": group.seeds.len(), "seeds": group.seeds,
        "example": {
            "seed": example.program.seed(), "index": index, "before": before, "call": example.program.text(*index),
            "here": here.to_string(), "recorded": there.to_string(),
        },
    }))
}

fn print_text(kind: &Kind, group: &Group, example: &Example) -> Result<(), Failure> {
    let Kind { family, call: name, here, there } = kind;
    let seeds: Vec<String> = group.seeds.iter().take(SEEDS).map(ToString::to_string).collect();
    let count = group.seeds.len();
    let more = if count > SEEDS { ", ..." } else { "" };
    output::line(&format!(
        "-- {family}: {name}: here {here}, recorded {there}: {count} times; seeds {}{more}",
        seeds.join(", ")
    ))?;
    let Difference { index, here, there } = &example.difference;
    let seed = example.program.seed();
    if *index > BEFORE {
        output::line(&format!("   {seed} ... {} calls", index - BEFORE))?;
    }
    for before in index.saturating_sub(BEFORE)..*index {
        output::line(&format!("   {seed} {before} {}", call(example, before)))?;
    }
    let text = example.program.text(*index);
    output::line(&format!("   here:     {seed} {index} {text} -> {here}"))?;
    output::line(&format!("   recorded: {seed} {index} {text} -> {there}\n"))
}

fn call(example: &Example, index: usize) -> String {
    let answer = example.here.get(index).map(ToString::to_string).unwrap_or_default();
    format!("{} -> {answer}", example.program.text(index))
}
