//! `anabranch conformance`.

use crate::arguments::ConformanceOptions;
use crate::environment;
use crate::isolation::{self, Answer};
use crate::output::{self, Failure};
use crate::progress::Progress;
use anabranch::{Device, Instance};
use anabranch_conformance::{CallCounts, Case, Outcome, Runner, Summary, all};
use serde_json::json;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long to wait for what a case has left behind.
const SETTLING_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &ConformanceOptions) -> Result<ExitCode, Failure> {
    let cases = chosen(options)?;
    if options.list {
        list(&cases, options.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut instance = Instance::builder();
    if !environment::is_set(environment::HOST_DEVICES) {
        // As many as the cases with two devices need.
        instance = instance.host_devices(2);
    }
    let calls = options.count_calls.then(CallCounts::default);
    if let Some(layer) = calls.clone() {
        instance = instance.wrap(move |driver| layer.wrap(driver));
    }
    let instance = instance.build()?;
    let device = match &options.device {
        Some(name) => instance.device(name)?,
        None => instance.default_device()?,
    };
    let mut runner = Runner::new(&device, peer(&instance, &device).as_ref())?;
    if options.in_this_process {
        return run_here(&mut runner, &cases);
    }
    let name = device.to_string();
    let count_calls = options.count_calls;
    let isolation = move |case: &Case| isolation::run(&device, case, count_calls);
    let progress = Progress::new(cases.len());
    let (mut summary, mut failed) = (Summary::default(), Vec::new());
    for case in &cases {
        progress.begin(case.name);
        let report = runner.run(case, &isolation);
        settle();
        summary.count(&report);
        progress.step(|| if options.json { output::json_line(&report) } else { output::line(&report) })?;
        if report.outcome == "failed" {
            failed.push(report);
        }
    }
    drop(progress);
    if options.json {
        let Summary { passed, failed, skipped } = summary;
        let mut line = json!({ "device": name, "passed": passed, "failed": failed, "skipped": skipped });
        if let Some(calls) = &calls {
            line["calls"] = json!(calls.groups());
        }
        output::json_line(&line)?;
    } else {
        // Again, where they are seen behind a thousand others.
        failed.iter().try_for_each(output::line)?;
        output::line(&summary)?;
        for (group, methods) in calls.iter().flat_map(CallCounts::groups) {
            methods.iter().try_for_each(|(method, calls)| output::line(&format!("{calls:>9}  {group}::{method}")))?;
        }
    }
    Ok(if summary.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until what the last case has dropped is given back, which may block behind work of the next one. A case that
/// hangs may have left work that never ends, so that there is a limit to it.
fn settle() {
    let (done, wait) = channel();
    let flush = move || {
        anabranch::flush_deferred_drops();
        // Nobody waits any more if it has taken too long.
        let _ = done.send(());
    };
    if std::thread::Builder::new().name("anabranch-settle".to_owned()).spawn(flush).is_ok() {
        let _ = wait.recv_timeout(SETTLING_LIMIT);
    }
}

/// The cases that were asked for.
fn chosen(options: &ConformanceOptions) -> Result<Vec<Case>, Failure> {
    let cases = all();
    let (text, chosen) = if let Some(name) = &options.exact {
        (name, cases.into_iter().filter(|case| case.name == name).collect())
    } else if let Some(text) = &options.filter {
        let matches = |case: &Case| case.name.contains(text.as_str()) || case.rule.eq_ignore_ascii_case(text);
        (text, cases.into_iter().filter(matches).collect::<Vec<_>>())
    } else {
        return Ok(cases);
    };
    if chosen.is_empty() {
        return Err(Failure::Usage(format!("no case matches `{text}`; `anabranch conformance --list` names them all")));
    }
    Ok(chosen)
}

fn list(cases: &[Case], as_json: bool) -> Result<(), Failure> {
    cases.iter().try_for_each(|case| {
        if as_json {
            output::json_line(&json!({ "name": case.name, "rule": case.rule, "loses_context": case.loses_context }))
        } else {
            output::line(&format!("{:<4} {}", case.rule, case.name))
        }
    })
}

/// The next device of the same back end, from the first again after the last.
fn peer(instance: &Instance, device: &Device) -> Option<Device> {
    let devices: Vec<&Device> = instance.devices().iter().filter(|other| other.backend() == device.backend()).collect();
    let own = devices.iter().position(|other| *other == device)?;
    let next = devices[(own + 1) % devices.len()];
    (next != device).then(|| next.clone())
}

/// Runs one case on behalf of the process that [isolates](isolation) it.
fn run_here(runner: &mut Runner, cases: &[Case]) -> Result<ExitCode, Failure> {
    let mut passed = true;
    for case in cases {
        let outcome = runner.run_here(case);
        passed &= !matches!(outcome, Outcome::Failed(_));
        output::json_line(&Answer::from(outcome))?;
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
