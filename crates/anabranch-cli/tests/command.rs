//! The command as a user sees it.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The command, with nothing of the caller's environment that would change its answers.
fn anabranch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments).env_remove("ANABRANCH_DEVICE").env_remove("ANABRANCH_HOST_DEVICES");
    command
}

fn output(arguments: &[&str]) -> Output {
    anabranch(arguments).output().expect("the command can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the command prints text")
}

#[track_caller]
fn assert_usage_error(output: &Output, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(text(&output.stdout), "");
    assert!(error.starts_with("anabranch: ") && error.lines().count() == 1, "{error}");
    for word in words {
        assert!(error.contains(word), "{error} does not say {word}");
    }
}

#[test]
fn devices_are_shown_with_their_properties() {
    let output = anabranch(&["devices"]).env("ANABRANCH_HOST_DEVICES", "3").output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in ["host:0: Software device", "host:2: Software device", "memory", "stream priorities", "memory pools"] {
        assert!(shown.contains(words), "{shown}");
    }
    for absent in shown.lines().filter(|line| line.contains(": not available: ")) {
        assert!(absent.contains("; "), "{absent} has no remedy");
    }
}

#[test]
fn devices_as_json_have_every_property() {
    let output = output(&["devices", "--json"]);
    assert!(output.status.success());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let devices = value["devices"].as_array().unwrap();
    let host = devices.iter().find(|device| device["device"] == "host:0").unwrap();
    assert_eq!((&host["backend"], &host["ordinal"]), (&Value::from("host"), &Value::from(0)));
    assert!(host["total_memory"].as_u64().unwrap() > 0);
    assert!(host["priority_range"]["greatest"].as_i64() <= host["priority_range"]["least"].as_i64());
    assert!(host["capabilities"].as_array().unwrap().contains(&Value::from("memory_pools")));
    for absent in value["absent"].as_array().unwrap() {
        assert!(["backend", "reason", "remedy"].iter().all(|key| !absent[*key].as_str().unwrap().is_empty()));
    }
    let backends = devices.iter().chain(value["absent"].as_array().unwrap()).map(|each| each["backend"].as_str());
    assert!(backends.clone().any(|name| name == Some("cuda")), "cuda is either there or absent");
}

#[test]
fn a_case_passes_and_is_counted() {
    let output = output(&["conformance", "--device", "host", "--filter", "event.never_recorded_is_complete"]);
    let lines = text(&output.stdout);
    assert!(output.status.success(), "{lines}");
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines, ["passed  E3   event.never_recorded_is_complete", "1 passed, 0 failed, 0 skipped"]);
    assert_eq!(text(&output.stderr), "", "a pipe sees no progress");
}

#[test]
fn a_filter_is_part_of_a_name_or_a_whole_rule() {
    let names = |filter: &str| text(&output(&["conformance", "--list", "--filter", filter]).stdout);
    assert!(names("event.").lines().all(|line| line.contains("event.")));
    assert!(names("e3").lines().count() >= 1);
    assert!(names("e3").lines().all(|line| line.starts_with("E3 ") || line.contains("e3")));
}

#[test]
fn json_has_one_object_a_case_and_the_summary_last() {
    let output = output(&["conformance", "--device", "host", "--json", "--filter", "event.query_pending"]);
    assert!(output.status.success());
    let values: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [case, summary] = &values[..] else { panic!("{values:?}") };
    assert_eq!((&case["name"], &case["outcome"]), (&Value::from("event.query_pending"), &Value::from("passed")));
    assert!(case["milliseconds"].as_f64().unwrap() >= 0.0);
    assert_eq!(*summary, serde_json::json!({ "device": "host:0", "passed": 1, "failed": 0, "skipped": 0 }));
}

#[test]
fn calls_of_the_driver_are_counted() {
    let arguments = ["conformance", "--device", "host", "--count-calls", "--filter", "event.query_pending"];
    let output = output(&arguments);
    assert!(output.status.success());
    let lines = text(&output.stdout);
    let queries =
        lines.lines().find(|line| line.ends_with("  Events::event_query")).expect("the case queries an event");
    assert!(queries.split_whitespace().next().unwrap().parse::<u64>().unwrap() > 0);
    let output = anabranch(&[&arguments[..], &["--json"]].concat()).output().unwrap();
    let summary: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    assert!(summary["calls"]["Events"]["event_query"].as_u64().unwrap() > 0);
}

#[test]
fn the_list_names_every_case_once_and_runs_none() {
    let output = output(&["conformance", "--list", "--json"]);
    assert!(output.status.success());
    let names: Vec<String> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    let unique: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(names.iter().all(|name| name.contains('.')));
}

#[test]
fn the_variable_names_the_default_device() {
    let arguments = ["conformance", "--json", "--filter", "event.never_recorded_is_complete"];
    let output = anabranch(&arguments).env("ANABRANCH_DEVICE", "host:1").output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).lines().last().unwrap().contains("host:1"));
}

#[test]
fn a_case_of_its_own_process_answers_in_json() {
    let name = "event.never_recorded_is_complete";
    let output = output(&["conformance", "--device", "host", "--exact", name, "--in-this-process"]);
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({ "outcome": "passed", "reason": null }));
}

#[test]
fn what_makes_no_sense_is_one_sentence_and_status_2() {
    assert_usage_error(&output(&["conformance", "--device", "gpu"]), &["`gpu`", "host:N"]);
    assert_usage_error(&output(&["conformance", "--device", "host:77"]), &["host:77", "host:0"]);
    assert_usage_error(&output(&["conformance", "--filter", "no such case"]), &["no such case", "--list"]);
    let output = anabranch(&["devices"]).env("ANABRANCH_HOST_DEVICES", "many").output().unwrap();
    assert_usage_error(&output, &["ANABRANCH_HOST_DEVICES", "many"]);
}

#[test]
fn a_device_that_is_not_there_comes_with_a_remedy() {
    let output = output(&["conformance", "--device", "hip:0"]);
    assert_usage_error(&output, &["hip:0", "AMD GPUs are not supported yet"]);
    assert!(!text(&output.stderr).contains("the only one"), "{}", text(&output.stderr));
    let output = anabranch(&["conformance", "--device", "host:1"]).env("ANABRANCH_HOST_DEVICES", "1").output().unwrap();
    assert_usage_error(&output, &["host:1", "set ANABRANCH_HOST_DEVICES"]);
}

/// What the library and the command read.
const VARIABLES: [&str; 9] = [
    "ANABRANCH_DEVICE",
    "ANABRANCH_HOST_DEVICES",
    "ANABRANCH_HOST_WORKERS",
    "ANABRANCH_HOST_SEED",
    "ANABRANCH_HOST_CHECK_MEMORY",
    "ANABRANCH_HOST_OPERATION_LIMIT",
    "ANABRANCH_NVRTC",
    "ANABRANCH_CUDADEVRT",
    "ANABRANCH_CACHE",
];

#[test]
fn a_variable_that_is_empty_is_not_set() {
    // `conformance` and `fuzz` have two software devices where no number is given.
    for arguments in [
        &["devices"][..],
        &["conformance", "--device", "host:1", "--filter", "event.never_recorded_is_complete"],
        &["fuzz", "--device", "host:1", "--family", "devices", "--seeds", "0..1"],
    ] {
        let mut command = anabranch(arguments);
        let output = command.envs(VARIABLES.map(|variable| (variable, ""))).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn an_unknown_option_is_status_2_and_points_to_the_help() {
    let output = output(&["conformance", "--frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--help"));
}

#[test]
fn help_and_version_are_there() {
    let help = text(&output(&["--help"]).stdout);
    assert!(
        ["devices", "conformance", "ANABRANCH_DEVICE", "Exit status"].iter().all(|word| help.contains(word)),
        "{help}"
    );
    for variable in VARIABLES {
        assert!(
            help.contains(&format!("\n  {variable} ")) || help.contains(&format!("\n  {variable}\n")),
            "{variable}"
        );
    }
    for command in ["devices", "conformance", "fuzz", "run", "inspect", "completions", "man"] {
        let output = output(&[command, "--help"]);
        assert!(output.status.success() && text(&output.stdout).contains("Usage:"), "{command}");
    }
    assert!(!text(&output(&["conformance", "--help"]).stdout).contains("in-this-process"));
    assert_eq!(text(&output(&["--version"]).stdout), format!("anabranch {}\n", env!("CARGO_PKG_VERSION")));
}

/// Command lines that print something.
const WITH_OUTPUT: &[&[&str]] = &[
    &["devices"],
    &["devices", "--json"],
    &["conformance", "--list"],
    &["conformance", "--device", "host", "--filter", "e3"],
    &["fuzz", "--device", "host", "--family", "streams", "--seeds", "0..1"],
    &["fuzz", "--device", "host", "--family", "streams", "--print", "0"],
    &[
        "run",
        "tests/data/kernels.ptx",
        "--device=host",
        "--kernel=places",
        "--grid=1",
        "--block=1",
        "out:u32[1]:/dev/null",
    ],
    &["inspect", "tests/data/kernels.ptx"],
    &["inspect", "tests/data/kernels.ptx", "--json"],
    &["completions", "bash"],
    &["man"],
    &["--help"],
    &["fuzz", "--help"],
    &["--version"],
];

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_sentence_and_status_1() {
    let recording = ["fuzz", "--device", "host", "--family", "streams", "--seeds", "0..1", "--record", "/dev/full"];
    for (arguments, words) in
        WITH_OUTPUT.iter().map(|&arguments| (arguments, "output")).chain([(&recording[..], "/dev/full")])
    {
        let mut command = anabranch(arguments);
        if words == "output" {
            command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        }
        let output = command.output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.starts_with("anabranch: ") && error.lines().count() == 1, "{arguments:?}: {error}");
        assert!(error.contains(words) && error.contains("cannot be written"), "{arguments:?}: {error}");
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    for arguments in WITH_OUTPUT {
        let mut child = anabranch(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", output.status);
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}
