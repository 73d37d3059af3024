//! `anabranch kernels`: what a device computes is recorded, and what it computes differently is named.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn kernels(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch")).arg("kernels").args(arguments).output().unwrap()
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

#[test]
fn every_kernel_is_computed_again_the_same() {
    let path = file("kernels.gz").to_str().unwrap().to_owned();
    let output = kernels(&["--device", "host", "--seeds", "0..100", "--record", &path, "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let recorded = lines(&output).pop().unwrap();
    assert!(recorded["kernels"].as_u64().unwrap() >= 240, "{recorded}");
    assert_eq!(recorded["failed"], 0);
    let output = kernels(&["--device", "host", "--against", &path, "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let again = lines(&output).pop().unwrap();
    assert_eq!((&again["equal"], &again["different"]), (&recorded["kernels"], &Value::from(0)));
}

#[test]
fn a_difference_names_the_kernel_the_element_and_both_values() {
    let path = file("altered.gz");
    let text = path.to_str().unwrap();
    let output = kernels(&["--device", "host", "--filter", "golden.collatz", "--record", text]);
    assert!(output.status.success(), "{}", complaint(&output));
    let mut recording = anabranch_conformance::ptx::Recording::read(std::fs::File::open(&path).unwrap()).unwrap();
    let anabranch_conformance::ptx::Answer::Elements(elements) = &mut recording.kernels[0].answers[0] else {
        panic!("golden kernels have their elements recorded")
    };
    elements[26] += 1;
    recording.write(std::fs::File::create(&path).unwrap()).unwrap();
    let output = kernels(&["--device", "host", "--against", text, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&output);
    assert_eq!((&found[0]["kernel"], &found[0]["element"]), (&Value::from("golden.collatz"), &Value::from(26)));
    // 27 takes 111 steps.
    assert_eq!((&found[0]["here"], &found[0]["there"]), (&Value::from("0x6f"), &Value::from("0x70")));
    assert_eq!(found[1]["different"], 1);
}

#[test]
fn two_devices_are_recorded_and_compared_at_once() {
    let path = file("both.gz").to_str().unwrap().to_owned();
    let seeds = ["--family", "random", "--seeds", "0..45", "--jobs", "2"];
    let devices = ["--device", "host", "--against", "host", "--explain", "5", "--record", &path, "--json"];
    let output = kernels(&[&seeds[..], &devices].concat());
    assert!(output.status.success(), "{}", complaint(&output));
    let found = lines(&output).pop().unwrap();
    assert_eq!((&found["equal"], &found["different"]), (&Value::from(45), &Value::from(0)));
    let output = kernels(&["--device", "host", "--against", &path, "--explain", "5"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("name the other one"), "{}", complaint(&output));
}

#[test]
fn a_kernel_is_shown_with_its_text_and_elements() {
    let output = kernels(&["--device", "host", "--show", "sweep.0"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(".visible .entry sweep_0") && text.contains("\nadd.u16 %d, %a, %b;: 0x"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, reason) in [
        (&["--show", "sweep"][..], "there is no kernel `sweep`"),
        (&["--show", "golden.nothing"], "there is no kernel `golden.nothing`"),
        (&["--family", "bogus"], "there is no family `bogus`"),
        (&["--filter", "bogus"], "there is no kernel of this family"),
        (&["--against", "bogus"], "bogus"),
        (&["--explain", "5"], "--against"),
        (&["--jobs", "0"], "--jobs"),
    ] {
        let output = kernels(&[&["--device", "host"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(complaint(&output).contains(reason), "{arguments:?}: {}", complaint(&output));
    }
}
