//! Which instruction two devices compute differently.

use super::Key;
use crate::output::{self, Failure};
use anabranch::Device;
use anabranch_conformance::ptx::{Family, Located, Player, Shrunk, Subject, locate, shrink};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long one kernel is shrunk.
const PATIENCE: Duration = Duration::from_secs(4);

/// Finds the first instruction that differs in each kernel, and then shrinks kernels, of each instruction one after the other,
/// until the time is over.
pub(super) fn explain(here: &Device, there: &Device, keys: &[Key], seconds: u64, json: bool) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let (here, there) = (Player::new(here)?, Player::new(there)?);
    // The kernels to shrink, by the name of the instruction.
    let mut kinds: BTreeMap<String, Vec<Subject>> = BTreeMap::new();
    for subject in keys.iter().filter_map(|&(family, seed)| Subject::new(family, seed)) {
        if Instant::now() >= until {
            output::line(&"there was no time for the other kernels")?;
            break;
        }
        let located = locate(&subject, &here, &there);
        print_located(&subject, &located, json)?;
        if subject.family() == Family::Random {
            let kind = located.ok().flatten().map_or_else(String::new, |located| instruction(&located.label));
            kinds.entry(kind).or_default().push(subject);
        }
    }
    let most = kinds.values().map(Vec::len).max().unwrap_or_default();
    for subject in (0..most).flat_map(|place| kinds.values().filter_map(move |subjects| subjects.get(place))) {
        let now = Instant::now();
        if now >= until {
            break;
        }
        let shrunk = shrink(subject, &here, &there, until.min(now + PATIENCE));
        print_shrunk(subject, &shrunk, json)?;
    }
    Ok(())
}

/// The name of the first instruction of a label, after its guard.
fn instruction(label: &str) -> String {
    let mut words = label.split(' ').skip_while(|word| word.starts_with('@') || *word == "{");
    words.next().unwrap_or_default().to_owned()
}

fn print_located(subject: &Subject, located: &Result<Option<Located>, String>, json: bool) -> Result<(), Failure> {
    if !json {
        return output::line(&match located {
            Ok(Some(located)) => format!("{subject}: {located}"),
            Ok(None) => format!("{subject}: all results are the same when they are traced"),
            Err(reason) => format!("{subject}: {reason}"),
        });
    }
    output::json_line(&match located {
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
    })
}

fn print_shrunk(subject: &Subject, shrunk: &Result<Option<Shrunk>, String>, json: bool) -> Result<(), Failure> {
    if !json {
        return output::line(&match shrunk {
            Ok(Some(shrunk)) => format!("{subject} differs by these alone:\n  {}", shrunk.steps.join("\n  ")),
            Ok(None) => format!("{subject} is the same in this process"),
            Err(reason) => format!("{subject}: {reason}"),
        });
    }
    output::json_line(&match shrunk {
        Ok(Some(shrunk)) => json!({ "kernel": subject.to_string(), "steps": shrunk.steps, "module": shrunk.module }),
        Ok(None) => json!({ "kernel": subject.to_string(), "differs_here": false }),
        Err(reason) => json!({ "kernel": subject.to_string(), "error": reason }),
    })
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
