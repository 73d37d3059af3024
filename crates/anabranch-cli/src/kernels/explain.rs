//! Which instruction two devices compute differently.
//!
//! A process of its own asks both devices: the driver's compiler may crash with a kernel.

use super::Key;
use super::worker::{self, Worker};
use crate::arguments::KernelsOptions;
use crate::output::{self, Failure};
use anabranch::Device;
use anabranch_conformance::ptx::{Located, Player, Shrunk, Subject, locate, shrink};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long one kernel is shrunk.
const PATIENCE: Duration = Duration::from_secs(4);

/// What precedes the name of the instruction in an answer.
const KIND: &str = ".kind ";

/// Finds the first instruction that differs in each kernel, and then shrinks kernels, of each instruction one after the other,
/// until the time is over.
pub(super) fn explain(
    here: &Device,
    there: &Device,
    keys: &[Key],
    seconds: u64,
    options: &KernelsOptions,
) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let there = there.to_string();
    let arguments: &[&str] = if options.json { &["--against", &there, "--json"] } else { &["--against", &there] };
    let limit = PATIENCE + Duration::from_secs(options.limit);
    let mut worker = None;
    let mut ask = |question: &str| {
        let process = match worker.take() {
            Some(process) => process,
            None => Worker::with(here, limit, arguments)?,
        };
        let (lines, end) = process.lines(question);
        match end {
            Ok(process) => worker = Some(process),
            Err(reason) => output::line(&format!("{question}: {reason}"))?,
        }
        let mut kind = None;
        for line in lines {
            match line.strip_prefix(KIND) {
                Some(name) => kind = Some(name.to_owned()),
                None => output::line(&line)?,
            }
        }
        Ok::<_, Failure>(kind)
    };
    // The kernels to shrink, by the name of the instruction.
    let mut kinds: BTreeMap<String, Vec<Key>> = BTreeMap::new();
    for &(family, seed) in keys {
        if Instant::now() >= until {
            break;
        }
        if let Some(kind) = ask(&format!("locate {family} {seed}"))? {
            kinds.entry(kind).or_default().push((family, seed));
        }
    }
    let most = kinds.values().map(Vec::len).max().unwrap_or_default();
    for (family, seed) in (0..most).flat_map(|place| kinds.values().filter_map(move |keys| keys.get(place))) {
        let left = until.saturating_duration_since(Instant::now()).min(PATIENCE);
        if left.is_zero() {
            break;
        }
        ask(&format!("shrink {family} {seed} {}", left.as_millis()))?;
    }
    Ok(())
}

/// The lines that answer a question of [`explain`].
pub(super) fn answer(question: &str, here: &Player, there: &Player, json: bool) -> String {
    if let Some(subject) = question.strip_prefix("locate ").and_then(worker::parse) {
        let located = locate(&subject, here, there);
        let kind =
            located.as_ref().map_or("", |located| located.as_ref().map_or("", |located| instruction(&located.label)));
        let line = if json { located_json(&subject, &located).to_string() } else { located_text(&subject, &located) };
        return format!("{KIND}{kind}\n{line}\n");
    }
    let rest = question.strip_prefix("shrink ").and_then(|rest| rest.rsplit_once(' '));
    let kernel = rest.and_then(|(kernel, limit)| Some((worker::parse(kernel)?, limit.parse().ok()?)));
    let Some((subject, limit)) = kernel else { return format!("`{question}` is no question\n") };
    let shrunk = shrink(&subject, here, there, Instant::now() + Duration::from_millis(limit));
    (if json { shrunk_json(&subject, &shrunk).to_string() } else { shrunk_text(&subject, &shrunk) }) + "\n"
}

/// The name of the first instruction of a label, after its guard.
fn instruction(label: &str) -> &str {
    let mut words = label.split(' ').skip_while(|word| word.starts_with('@') || *word == "{");
    words.next().unwrap_or_default()
}

fn located_text(subject: &Subject, located: &Result<Option<Located>, String>) -> String {
    match located {
        Ok(Some(located)) => format!("{subject}: {located}"),
        Ok(None) => format!("{subject}: all results are the same when they are traced"),
        Err(reason) => format!("{subject}: {reason}"),
    }
}

fn located_json(subject: &Subject, located: &Result<Option<Located>, String>) -> Value {
    match located {
        Ok(Some(located)) => json!({
            "kernel": subject.to_string(),
            "output": located.output,
            "statement": located.label,
            "thread": located.thread,
            "round": located.round,
            "operands": located.operands,
            "here": located.results.0,
            "there": located.results.1,
            "threads": located.threads,
            "differs_alone": located.differs_alone,
        }),
        Ok(None) => json!({ "kernel": subject.to_string(), "differs_traced": false }),
        Err(reason) => json!({ "kernel": subject.to_string(), "error": reason }),
    }
}

fn shrunk_text(subject: &Subject, shrunk: &Result<Option<Shrunk>, String>) -> String {
    match shrunk {
        Ok(Some(shrunk)) => format!("{subject} differs by these alone:\n  {}", shrunk.steps.join("\n  ")),
        Ok(None) => format!("{subject}: nothing can be dropped, or both devices agree now"),
        Err(reason) => format!("{subject}: {reason}"),
    }
}

fn shrunk_json(subject: &Subject, shrunk: &Result<Option<Shrunk>, String>) -> Value {
    match shrunk {
        Ok(Some(shrunk)) => json!({ "kernel": subject.to_string(), "steps": shrunk.steps, "module": shrunk.module }),
        Ok(None) => json!({ "kernel": subject.to_string(), "shrunk": false }),
        Err(reason) => json!({ "kernel": subject.to_string(), "error": reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::instruction;

    #[test]
    fn the_instruction_is_behind_the_guard() {
        assert_eq!(instruction("@!%p1 add.u32 %r0, %r1, %r2;"), "add.u32");
        assert_eq!(instruction("{ .param .b32 first;"), ".param");
        assert_eq!(instruction(""), "");
    }
}
