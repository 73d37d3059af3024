//! Runs all cases on the software device.

use anabranch::{Instance, InstanceBuilder, flush_deferred_drops};
use anabranch_conformance::{CallCounts, Case, CaseReport, Isolation, Outcome, Runner, Summary, all};
use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

/// The families of rules, and the number of rules in each.
const RULES: [(char, u32); 8] = [('D', 4), ('E', 8), ('S', 11), ('H', 4), ('M', 10), ('C', 14), ('G', 8), ('X', 5)];

fn is_known(rule: &str) -> bool {
    RULES.iter().any(|(family, count)| {
        let number = rule.strip_prefix(*family).and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (1..=*count).contains(&number))
    })
}

fn group(case: &Case) -> &'static str {
    case.name.split('.').next().unwrap_or_default()
}

#[test]
fn the_software_device_behaves_like_hardware() {
    let reports = plain();
    let attended =
        |report: &&CaseReport| report.reason.as_ref().is_some_and(|reason| reason.contains("BACKGROUND_PROGRESS"));
    assert_eq!(reports.iter().filter(attended).count(), 0, "this device has its own threads");
}

/// This device has no threads of its own, and runs work in an order that a seed determines.
#[test]
fn the_deterministic_software_device_behaves_like_hardware() {
    for seed in [1, 2] {
        ask(Instance::builder().host_seed(seed));
    }
}

/// The groups of calls of the driver contract.
const GROUPS: [&str; 17] = [
    "Captures",
    "Contexts",
    "Devices",
    "Driver",
    "Events",
    "ExecutableGraphs",
    "ExternalMemory",
    "ExternalSemaphores",
    "Graphs",
    "GreenContexts",
    "InterprocessMemory",
    "Memory",
    "Modules",
    "Objects",
    "Streams",
    "TensorMaps",
    "VirtualMemory",
];

#[test]
fn a_layer_over_the_driver_changes_no_verdict_and_sees_every_group_of_calls() {
    let counts = CallCounts::default();
    let layer = counts.clone();
    let layered = ask(Instance::builder().wrap(move |driver| layer.wrap(driver)));
    let verdicts = |reports: &[CaseReport]| {
        reports.iter().map(|report| (report.name, report.outcome, report.reason.clone())).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(&layered), verdicts(plain()));
    if filter().is_empty() {
        let groups: Vec<&str> = counts.groups().into_keys().collect();
        assert_eq!(groups, GROUPS);
    }
}

/// What the software device answers without options.
fn plain() -> &'static [CaseReport] {
    static PLAIN: OnceLock<Vec<CaseReport>> = OnceLock::new();
    PLAIN.get_or_init(|| ask(Instance::builder()))
}

/// What the names of the cases must contain.
fn filter() -> String {
    std::env::var("ANABRANCH_CASES").unwrap_or_default()
}

fn ask(builder: InstanceBuilder) -> Vec<CaseReport> {
    let instance = builder.cuda(false).host_devices(2).build().expect("the host devices start");
    let [device, peer] = instance.devices() else { panic!("there are two devices") };
    let mut runner = Runner::new(device, Some(peer)).expect("the host device can be used");
    let isolation: &Isolation = &|_| Outcome::Failed("the host device needs no isolation".to_owned());
    let only = filter();
    let (mut summary, mut reports) = (Summary::default(), Vec::new());
    for case in all().iter().filter(|case| case.name.contains(&only)) {
        let report = runner.run(case, isolation);
        flush_deferred_drops();
        println!("{report} ({:.2} ms)", report.milliseconds);
        summary.count(&report);
        reports.push(report);
    }
    println!("{summary}");
    let failures: Vec<String> =
        reports.iter().filter(|report| report.outcome == "failed").map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{summary}\n{}", failures.join("\n"));
    reports
}

#[test]
fn names_are_unique_and_contain_their_group() {
    let mut names = HashSet::new();
    for case in all() {
        assert!(names.insert(case.name), "{} occurs twice", case.name);
        let well_formed = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
        let parts: Vec<&str> = case.name.split('.').collect();
        assert_eq!(parts.len(), 2, "{} is a group and a question", case.name);
        assert!(
            parts.iter().all(|part| part.split('_').all(|word| !word.is_empty() && word.chars().all(well_formed))),
            "{} consists of words",
            case.name
        );
    }
}

#[test]
fn every_rule_is_known() {
    for case in all() {
        assert!(is_known(case.rule), "{}: there is no rule `{}`", case.name, case.rule);
    }
}

#[test]
fn there_are_enough_cases() {
    let cases = all();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let groups: BTreeSet<&str> = cases.iter().map(group).collect();
    assert!(groups.len() >= 15, "groups {groups:?}");
}
