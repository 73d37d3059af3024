//! A case in a process of its own: it leaves the device unusable for the process that ran it.

use anabranch::Device;
use anabranch_conformance::{Case, Outcome};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The process ends itself after 60 seconds of a case. It also has to start, and to load the driver.
const LIMIT: Duration = Duration::from_secs(120);
/// How often to see whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What the process prints.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Answer {
    outcome: String,
    reason: Option<String>,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        let (outcome, reason) = match outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(reason) => ("failed", Some(reason)),
            Outcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        Self { outcome: outcome.to_owned(), reason }
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        let reason = answer.reason.unwrap_or_default();
        match answer.outcome.as_str() {
            "passed" => Self::Passed,
            "skipped" => Self::Skipped(reason),
            _ => Self::Failed(reason),
        }
    }
}

/// Runs the case in a process of its own, over the layer that counts calls if `count_calls` says so.
pub(crate) fn run(device: &Device, case: &Case, count_calls: bool) -> Outcome {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["conformance", "--device", &device.to_string(), "--exact", case.name, "--in-this-process"])
            .args(count_calls.then_some("--count-calls"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    });
    match started {
        Ok(child) => answer(child),
        Err(error) => Outcome::Failed(format!("a process of its own could not be started: {error}")),
    }
}

fn answer(mut child: Child) -> Outcome {
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < LIMIT => std::thread::sleep(PAUSE),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Outcome::Failed(format!("its process did not end within {} seconds", LIMIT.as_secs()));
            }
            Err(error) => return Outcome::Failed(format!("its process could not be waited for: {error}")),
        }
    };
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        // What cannot be read is no answer, which is seen below.
        let _ = output.read_to_string(&mut text);
    }
    let found = text.lines().find_map(|line| serde_json::from_str::<Answer>(line).ok());
    match found {
        // A process that answers and then crashes has not passed.
        Some(answer) if status.code().is_some() => answer.into(),
        _ => Outcome::Failed(format!("its process ended with {status} and without an answer")),
    }
}

// What the tests run is a script of a shell.
#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::{Answer, Outcome, answer};
    use std::process::{Command, Stdio};

    fn outcome_of(script: &str) -> Outcome {
        answer(Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap())
    }

    #[test]
    fn an_answer_comes_back_as_it_was() {
        for outcome in [Outcome::Passed, Outcome::Failed("why".to_owned()), Outcome::Skipped("how".to_owned())] {
            let line = serde_json::to_string(&Answer::from(outcome.clone())).unwrap();
            assert_eq!(outcome_of(&format!("echo '{line}'")), outcome);
        }
    }

    #[test]
    fn a_process_that_crashes_or_says_nothing_has_failed() {
        let failed = |script: &str| match outcome_of(script) {
            Outcome::Failed(reason) => reason,
            other => panic!("{script}: {other:?}"),
        };
        assert!(failed("exit 3").contains("without an answer"));
        assert!(failed(r#"echo '{"outcome":"passed","reason":null}'; kill -SEGV $$"#).contains("signal"));
    }
}
