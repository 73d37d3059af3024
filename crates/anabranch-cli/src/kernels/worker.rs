//! The process that runs kernels, and the one that asks it.
//!
//! It reads a line for each batch: a family and seeds, such as `sweep 0` and `sweep 1` with a comma between them. It writes the
//! lines of what is recorded of each kernel, and [`DONE`] after the batch. A process with two devices also reads `locate` or
//! `shrink`, a kernel, and a number of milliseconds, and writes lines to be printed.

use super::{Key, explain};
use crate::output::Failure;
use anabranch::Device;
use anabranch_conformance::ptx::{Player, Recorded, Subject};
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The line after a batch.
const DONE: &str = ".done";

pub(super) fn run(device: &Device, other: Option<&Device>, json: bool) -> Result<ExitCode, Failure> {
    let player = Player::new(device)?;
    let other = other.map(Player::new).transpose()?;
    for line in stdin().lock().lines() {
        let line = line.map_err(|_| Failure::OutputClosed)?;
        if let Some(other) = &other {
            write(&format!("{}{DONE}\n", explain::answer(&line, &player, other, json)))?;
            continue;
        }
        let subjects: Vec<Subject> = line.split(',').filter_map(parse).collect();
        let (mut is_lost, mut written) = (false, Ok(()));
        player.play(&subjects, |subject, played| {
            is_lost |= played.is_lost;
            let text: String = Recorded::new(subject, &played).lines().map(|line| line + "\n").collect();
            if written.is_ok() {
                written = write(&text);
            }
        });
        written?;
        if is_lost {
            // Threads of a lost device may never end.
            std::process::exit(0);
        }
        write(&format!("{DONE}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn parse(text: &str) -> Option<Subject> {
    let (family, seed) = text.split_once(' ')?;
    Subject::new(family.parse().ok()?, seed.parse().ok()?)
}

fn write(text: &str) -> Result<(), Failure> {
    let mut output = stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|_| Failure::OutputClosed)
}

/// A process that runs kernels.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    lines: Receiver<String>,
    limit: Duration,
}

/// Lines until the process ends, or takes too long for one.
struct Lines<'a> {
    worker: &'a Worker,
    end: Option<RecvTimeoutError>,
    is_done: bool,
}

impl Iterator for Lines<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.is_done || self.end.is_some() {
            return None;
        }
        match self.worker.lines.recv_timeout(self.worker.limit) {
            Ok(line) if line == DONE => {
                self.is_done = true;
                None
            }
            Ok(line) => Some(line),
            Err(end) => {
                self.end = Some(end);
                None
            }
        }
    }
}

impl Worker {
    pub(super) fn start(device: &Device, limit: Duration) -> Result<Self, Failure> {
        Self::with(device, limit, &[])
    }

    /// A process with more arguments.
    pub(super) fn with(device: &Device, limit: Duration, arguments: &[&str]) -> Result<Self, Failure> {
        let failed = |what: String| Failure::Failed(format!("the process that runs kernels {what}"));
        let program = std::env::current_exe().map_err(|error| failed(format!("could not be started: {error}")))?;
        let child = Command::new(program)
            .args(["kernels", "--worker", "--device", &device.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(|error| failed(format!("could not be started: {error}")))?;
        let Some(output) = child.stdout.take() else { return Err(failed("has no output".to_owned())) };
        let (send, lines) = channel();
        let read = move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            let _ = lines.try_for_each(|line| send.send(line));
        };
        let spawned = std::thread::Builder::new().name("anabranch-kernels-reader".to_owned()).spawn(read);
        spawned.map_err(|error| failed(format!("could not be read: {error}")))?;
        Ok(Self { child, lines, limit })
    }

    /// Runs kernels, and returns what was recorded, and the process if it can run more, or how it ended.
    pub(super) fn ask(mut self, keys: &[Key]) -> (Vec<Recorded>, Result<Option<Self>, String>) {
        let text: Vec<String> = keys.iter().map(|(family, seed)| format!("{family} {seed}")).collect();
        if let Some(input) = &mut self.child.stdin {
            // If it has ended, its output says so.
            let _ = input.write_all((text.join(",") + "\n").as_bytes()).and_then(|()| input.flush());
        }
        let mut found = Vec::new();
        let mut lines = Lines { worker: &self, end: None, is_done: false };
        while let Ok(Some(recorded)) = Recorded::read(&mut lines) {
            found.push(recorded);
        }
        let (end, is_done) = (lines.end, lines.is_done);
        match end {
            _ if is_done => (found, Ok(Some(self))),
            Some(RecvTimeoutError::Timeout) => (found, Err("its process hung".to_owned())),
            // It has told of the kernel that has lost the device.
            _ if found.len() < keys.len() && self.has_ended_well() && !found.is_empty() => (found, Ok(None)),
            _ if found.len() == keys.len() => (found, Ok(None)),
            _ => (found, Err("its process crashed".to_owned())),
        }
    }

    /// Writes a line, and returns the lines of the answer, and the process, or how it ended.
    pub(super) fn lines(mut self, question: &str) -> (Vec<String>, Result<Self, String>) {
        if let Some(input) = &mut self.child.stdin {
            // If it has ended, its output says so.
            let _ = input.write_all(format!("{question}\n").as_bytes()).and_then(|()| input.flush());
        }
        let mut lines = Lines { worker: &self, end: None, is_done: false };
        let found = lines.by_ref().collect();
        match lines.end {
            None => (found, Ok(self)),
            Some(RecvTimeoutError::Timeout) => (found, Err("its process hung".to_owned())),
            Some(RecvTimeoutError::Disconnected) => (found, Err("its process crashed".to_owned())),
        }
    }

    fn has_ended_well(&mut self) -> bool {
        self.child.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A process that is idle ends with its input, but one that hangs does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
