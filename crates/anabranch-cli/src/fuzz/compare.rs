//! Compares the answers of a device with others.

use super::pool::{Pool, Task};
use super::report::{Group, Groups, Kind};
use super::{on_all_cores, play, programs};
use crate::arguments::FuzzOptions;
use crate::output::{self, Failure};
use anabranch_conformance::programs::{
    Answer, Difference, Family, Header, Recorded, Recording, first_difference, shrink,
};
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often two devices are asked, and how long if no time is given, to make one program shorter.
const MOST_ATTEMPTS: usize = 500;
const LONGEST: Duration = Duration::from_secs(30);

/// Compares a device with a recording.
pub(super) fn with_file(pool: &Pool, options: &FuzzOptions, path: &Path) -> Result<ExitCode, Failure> {
    let file =
        File::open(path).map_err(|error| Failure::Usage(format!("{} cannot be opened: {error}", path.display())))?;
    let recording = Recording::read(file)
        .map_err(|reason| Failure::Failed(format!("{} is no recording: {reason}", path.display())))?;
    let families = &options.family;
    let is_chosen = |recorded: &&Recorded| {
        let seeds = options.seeds.as_ref();
        families.contains(&recorded.family) && seeds.is_none_or(|seeds| seeds.contains(&recorded.seed))
    };
    let chosen: Vec<&Recorded> = recording.programs.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(Failure::Usage(format!("{} has no program that was asked for", path.display())));
    }
    let unfit = on_all_cores(&chosen, |recorded| recorded.program().err());
    if let Some(reason) = unfit.into_iter().flatten().next() {
        return Err(Failure::Failed(format!("{}: {reason}", path.display())));
    }
    let wanted: Vec<(Family, u64)> = chosen.iter().map(|recorded| (recorded.family, recorded.seed)).collect();
    let (answers, summary) = play(pool, &wanted, options.seconds)?;
    let mut groups = Groups::default();
    for recorded in chosen {
        if let Some(here) = answers.get(&(recorded.family, recorded.seed)) {
            groups.compare(recorded.family, recorded.seed, here, &recorded.answers);
        }
    }
    if !options.json {
        let Header { device, driver, date } = &recording.header;
        output::line(&format!("compared with {device}, {driver}, of {date}"))?;
    }
    groups.print(options.json)?;
    summary.print(options.json)?;
    Ok(if groups.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares two devices, and makes the examples of their differences short.
pub(super) fn with_device(pool: &Pool, other: &Pool, options: &FuzzOptions) -> Result<ExitCode, Failure> {
    let (here, summary) = play(pool, &programs(options), options.seconds)?;
    let played: Vec<(Family, u64)> = here.keys().copied().collect();
    let (there, _) = play(other, &played, None)?;
    let mut groups = Groups::default();
    for (&(family, seed), here) in &here {
        let there = there.get(&(family, seed)).map(|there| &there[..]).unwrap_or_default();
        groups.compare(family, seed, here, there);
    }
    let longest = options.seconds.map_or(LONGEST, Duration::from_secs);
    groups.each(|kind, group| shorten(pool, other, kind, group, longest))?;
    groups.print(options.json)?;
    summary.print(options.json)?;
    Ok(if groups.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What two devices answer to some calls of a program, if they differ.
fn differs(pool: &Pool, other: &Pool, task: &Task) -> Result<Option<(Vec<Answer>, Difference)>, Failure> {
    let (here, there) = (pool.play_one(task)?.answers, other.play_one(task)?.answers);
    Ok(first_difference(&here, &there).map(|difference| (here, difference)))
}

/// Makes the example of a group as short as it goes in that time.
fn shorten(pool: &Pool, other: &Pool, kind: &Kind, group: &mut Group, longest: Duration) -> Result<(), Failure> {
    let Some(example) = &mut group.example else { return Ok(()) };
    let (family, seed) = (example.program.family(), example.program.seed());
    let task = |calls: &[usize]| Task { family, seed, keep: Some(calls.to_vec()) };
    let (program, start) = (example.program.clone(), Instant::now());
    // What comes after the difference is not needed. After the last call there is only the end.
    let count = (example.difference.index + 1).min(program.len());
    let calls = shrink(count, MOST_ATTEMPTS, |calls| {
        if start.elapsed() > longest {
            return Ok(false);
        }
        let found = differs(pool, other, &task(calls))?;
        Ok::<_, Failure>(found.is_some_and(|(_, difference)| Kind::of(&program.keep(calls), &difference) == *kind))
    })?;
    // Without another look, the answers would be those to other calls.
    if let Some((here, difference)) = differs(pool, other, &task(&calls))? {
        (example.program, example.here, example.difference) = (program.keep(&calls), here, difference);
    }
    Ok(())
}
