//! The process that runs programs, one after the other. It may crash or hang.
//!
//! It reads a task from each line of its input. It writes a line for each answer, and [`DONE`] or [`LOST`] after each
//! program.

use super::Devices;
use super::pool::Task;
use crate::output::Failure;
use anabranch::Capabilities;
use anabranch_conformance::programs::{Answer, Family, Player};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a task begins with if each of its answers is to be written at once.
pub(super) const ALONE: &str = "alone ";
/// The line before the first program.
pub(super) const READY: &str = ".ready";
/// The line after a program.
pub(super) const DONE: &str = ".done";
/// The line after a program that has lost the device for this process, which ends.
pub(super) const LOST: &str = ".lost";

pub(super) fn run(open: impl Fn() -> Result<Devices, Failure>, families: &[Family]) -> Result<ExitCode, Failure> {
    let announce = Arc::new(AtomicBool::new(false));
    let counts: BTreeSet<usize> = families.iter().map(|family| family.device_count()).collect();
    // Players by how many devices they have.
    let start = || {
        let devices = open()?;
        let mut players = BTreeMap::new();
        for &count in &counts {
            let announced = announce.clone();
            let listener = move |answer: &Answer| {
                if announced.load(Ordering::Relaxed) {
                    // If nobody reads it any more, the process ends after this program.
                    let _ = write(&(answer.to_line() + "\n"));
                }
            };
            let second = devices.second.as_ref().filter(|_| count > 1);
            players.insert(count, Player::with_listener(&devices.first, second, listener)?);
        }
        Ok::<_, Failure>((players, devices.first))
    };
    let (mut players, mut device) = match start() {
        Err(Failure::Usage(reason) | Failure::Failed(reason)) => {
            // Nobody reads the error output of this process.
            write(&format!("{reason}\n"))?;
            return Ok(ExitCode::FAILURE);
        }
        started => started?,
    };
    write(&format!("{READY}\n"))?;
    for line in stdin().lock().lines() {
        let line = line.map_err(|_| Failure::OutputClosed)?;
        let (text, alone) = line.strip_prefix(ALONE).map_or((&*line, false), |text| (text, true));
        let task: Task = text.parse().map_err(Failure::Usage)?;
        announce.store(alone, Ordering::Relaxed);
        let Some(player) = players.get_mut(&task.family.device_count()) else {
            return Err(Failure::Usage(format!("`{task}` is of no family that was named")));
        };
        let played = player.play(&task.program());
        let mut text = String::new();
        if !alone {
            played.answers.iter().for_each(|answer| text.extend([&*answer.to_line(), "\n"]));
        }
        // After a panic, nothing is certain.
        let has_panicked = played.answers.last().is_none_or(Answer::is_fatal);
        let recovers = device.capabilities().contains(Capabilities::CONTEXT_RECOVERY) && !has_panicked;
        text.extend([if played.is_lost && !recovers { LOST } else { DONE }, "\n"]);
        write(&text)?;
        if played.is_lost && recovers {
            (players, device) = start()?;
        } else if played.is_lost {
            // Threads of a lost device may never end.
            std::process::exit(0);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(text: &str) -> Result<(), Failure> {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|_| Failure::OutputClosed)
}
