//! `anabranch fuzz`: what a device does wrong is found, and named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> Output {
    fuzz_with(arguments, &[])
}

fn fuzz_with(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    for variable in ["ANABRANCH_HOST_DEVICES", "ANABRANCH_HOST_WORKERS", "ANABRANCH_HOST_CHECK_MEMORY"] {
        command.env_remove(variable);
    }
    command.arg("fuzz").args(arguments).envs(variables.iter().copied()).output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn complaint(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A file in the folder for files of tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Records what the software device answers to programs of a family.
fn record(name: &str, family: &str, seeds: &str) -> String {
    let path = file(name).to_str().unwrap().to_owned();
    let output = fuzz(&["--device", "host", "--family", family, "--seeds", seeds, "--record", &path]);
    assert!(output.status.success(), "{}", complaint(&output));
    path
}

#[test]
fn what_was_recorded_is_answered_again() {
    let path = file("all.gz").to_str().unwrap().to_owned();
    let output = fuzz(&["--device", "host", "--seeds", "0..4", "--record", &path, "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(lines(&output)[0]["programs"], 40);
    let output = fuzz(&["--device", "host", "--against", &path, "--json"]);
    let found = lines(&output);
    assert!(output.status.success(), "{found:?}");
    let (summary, families) = found.split_last().unwrap();
    assert_eq!((&summary["programs"], &summary["fatal"]), (&Value::from(40), &Value::from(0)));
    assert_eq!(families.len(), 10);
    assert!(families.iter().all(|family| family["compared"] == 4 && family["equal"] == 4), "{families:?}");
}

#[test]
fn only_what_is_asked_for_is_compared() {
    let path = record("some.gz", "gates", "3..9");
    let programs = |arguments: &[&str]| {
        let output = fuzz(&[&["--device", "host", "--against", &path, "--json"], arguments].concat());
        lines(&output).pop().unwrap()["programs"].clone()
    };
    assert_eq!(programs(&[]), 6);
    assert_eq!(programs(&["--seeds", "0..5"]), 2);
    let output = fuzz(&["--device", "host", "--against", &path, "--family", "graphs"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("no program that was asked for"));
}

#[test]
fn programs_over_two_devices_need_two() {
    let one = [("ANABRANCH_HOST_DEVICES", "1")];
    let arguments = ["--device", "host", "--seeds", "0..2", "--json"];
    let chosen = [&arguments[..], &["--family", "streams", "--family", "devices"]].concat();
    let output = fuzz_with(&chosen, &one);
    assert_eq!(output.status.code(), Some(2));
    let complaint = complaint(&output);
    assert!(complaint.contains("`devices`") && complaint.contains("ANABRANCH_HOST_DEVICES"), "{complaint}");
    // Behind the last device comes the first.
    let on_the_last = ["--device", "host:1", "--seeds", "0..2", "--family", "devices"];
    for (arguments, variables, programs) in [(&arguments[..], &one[..], 18), (&arguments, &[], 20), (&chosen, &[], 4)] {
        let output = fuzz_with(arguments, variables);
        assert_eq!(lines(&output)[0]["programs"], programs, "{arguments:?}");
    }
    assert_eq!(fuzz(&on_the_last).status.code(), Some(0));
}

/// Its error output is not read by the process that starts it.
#[test]
fn a_process_that_cannot_open_its_device_writes_why() {
    let output = fuzz(&["--worker", "--device", "host:7", "--family", "streams"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("opening a device on host:7: there is no such device"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn more_and_fewer_workers_of_the_software_device_answer_the_same() {
    let path = record("workers.gz", "devices", "0..30");
    for (variable, value) in
        [("ANABRANCH_HOST_WORKERS", "1"), ("ANABRANCH_HOST_WORKERS", "8"), ("ANABRANCH_HOST_CHECK_MEMORY", "1")]
    {
        let output = fuzz_with(&["--device", "host", "--against", &path], &[(variable, value)]);
        assert!(output.status.success(), "{variable}={value}: {output:?}");
    }
}

#[test]
fn an_answer_that_differs_is_found_in_a_recording() {
    let path = record("differs.gz", "streams", "0..30");
    let output = fuzz(&["--device", "host", "--against", &path, "--json", "--fault", "alter"]);
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&output);
    let [group, _, _] = &found[..] else { panic!("{found:?}") };
    assert_eq!((group["family"].as_str(), group["call"].as_str()), (Some("streams"), Some("stream_priority")));
    let example = &group["example"];
    assert!(example["call"].as_str().unwrap().contains("stream_priority("), "{example}");
    assert_ne!(example["here"], example["recorded"]);
    assert_eq!(example["before"].as_array().unwrap().len() as u64, example["index"].as_u64().unwrap());
}

#[test]
fn two_devices_are_compared_by_few_calls() {
    let arguments = ["--device", "host", "--against", "host", "--family", "streams", "--seeds", "0..30", "--json"];
    let output = fuzz(&[&arguments[..], &["--fault", "alter"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&output);
    let [group, _, _] = &found[..] else { panic!("{found:?}") };
    // At most the stream has to be created whose priority is asked for.
    assert!(group["example"]["before"].as_array().unwrap().len() <= 1, "{group}");
    assert!(group["count"].as_u64() > Some(1), "{group}");
    assert!(fuzz(&arguments).status.success());
}

#[test]
fn a_device_that_crashes_or_hangs_is_named_with_the_call() {
    let path = record("fatal.gz", "streams", "3..5");
    for (fault, answer) in [("abort:stream_priority", "crash"), ("hang:stream_priority", "hang")] {
        let arguments = ["--device", "host", "--limit", "4", "--json", "--fault", fault];
        let output = fuzz(&[&arguments[..], &["--against", &path]].concat());
        assert_eq!(output.status.code(), Some(1), "{fault}");
        let found = lines(&output);
        let (group, summary) = (&found[0], &found[found.len() - 1]);
        assert_eq!((group["call"].as_str(), group["here"].as_str()), (Some("stream_priority"), Some(answer)));
        assert!(summary["fatal"].as_u64() > Some(0) && summary["programs"] == 2, "{summary}");
    }
}

#[test]
fn what_a_recorded_device_did_not_survive_is_not_compared() {
    let path = file("crashed.gz").to_str().unwrap().to_owned();
    let arguments = ["--device", "host", "--family", "streams", "--seeds", "0..6"];
    let fatal = fuzz(&[&arguments[..], &["--record", &path, "--fault", "abort:stream_priority", "--json"]].concat());
    assert!(lines(&fatal)[0]["fatal"].as_u64() > Some(0));
    assert!(fuzz(&["--device", "host", "--against", &path]).status.success());
}

#[test]
fn a_program_is_printed_with_its_answers() {
    let output = fuzz(&["--device", "host", "--family", "graphs", "--print", "7"]);
    let text = std::str::from_utf8(&output.stdout).unwrap();
    assert!(text.starts_with("graphs 7, "), "{text}");
    assert!(text.contains(" t0 stream_create(new s6,c0,") && text.contains("end of the program -> 0"), "{text}");
}

#[test]
fn what_is_no_recording_and_no_seed_is_said() {
    let path = file("text.gz");
    std::fs::write(&path, "this is no recording").unwrap();
    let output = fuzz(&["--device", "host", "--against", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("is no recording"), "{}", complaint(&output));
    let output = fuzz(&["--device", "host", "--seeds", "9..9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("no seed"), "{}", complaint(&output));
    let output = fuzz(&["--device", "host", "--family", "everything"]);
    assert!(complaint(&output).contains("streams, gates"), "{}", complaint(&output));
}
