//! The process that runs programs, one after the other. It may crash or hang.
//!
//! It reads a task from each line of its input. It writes a line for each answer, and [`DONE`] or [`LOST`] after each
//! program.

use super::pool::Task;
use crate::output::Failure;
use anabranch::{Capabilities, Device};
use anabranch_conformance::programs::{Answer, Player};
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

pub(super) fn run(open: impl Fn() -> Result<Device, Failure>) -> Result<ExitCode, Failure> {
    let announce = Arc::new(AtomicBool::new(false));
    let start = || {
        let (device, announced) = (open()?, announce.clone());
        let listener = move |answer: &Answer| {
            if announced.load(Ordering::Relaxed) {
                // If nobody reads it any more, the process ends after this program.
                let _ = write(&(answer.to_line() + "\n"));
            }
        };
        Ok::<_, Failure>((Player::with_listener(&device, listener)?, device))
    };
    let (mut player, mut device) = start()?;
    write(&format!("{READY}\n"))?;
    for line in stdin().lock().lines() {
        let line = line.map_err(|_| Failure::OutputClosed)?;
        let (text, alone) = line.strip_prefix(ALONE).map_or((&*line, false), |text| (text, true));
        let task: Task = text.parse().map_err(Failure::Usage)?;
        announce.store(alone, Ordering::Relaxed);
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
            (player, device) = start()?;
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
