//! A process that runs programs, as the one that started it sees it.

use super::worker::{DONE, LOST, READY};
use crate::output::Failure;
use anabranch_conformance::programs::{Answer, Outcome};
use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a process may take to open the device.
const START: Duration = Duration::from_secs(120);
/// How much is read at once.
const CHUNK: usize = 1 << 16;

/// One process.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    output: Lines,
    limit: Duration,
}

/// Why a process gave no more answers.
pub(super) enum End {
    Ended(ExitStatus),
    Hung,
}

impl End {
    /// The answer to the call that was being made.
    pub(super) fn answer(&self) -> Answer {
        match self {
            Self::Hung => Answer::new(Outcome::Hung),
            Self::Ended(status) => {
                Answer::with(Outcome::Crashed, status.to_string().trim_end_matches(" (core dumped)"))
            }
        }
    }
}

impl Worker {
    /// Starts a process, and waits until it has opened the device that the arguments name. A call may take as long as
    /// `limit`.
    pub(super) fn start(arguments: &[String], limit: Duration) -> Result<Self, Failure> {
        let command = format!("anabranch fuzz --worker {}", arguments.join(" "));
        let failed = |what: String| Failure::Failed(format!("the process `{command}` {what}"));
        let program = std::env::current_exe().map_err(|error| failed(format!("could not be started: {error}")))?;
        let child = Command::new(program)
            .args(["fuzz", "--worker"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(|error| failed(format!("could not be started: {error}")))?;
        let Some(output) = child.stdout.take() else { return Err(failed("has no output".to_owned())) };
        let (send, chunks) = channel();
        let reader = std::thread::Builder::new().name("anabranch-fuzz-reader".to_owned());
        let spawned = reader.spawn(move || read(output, &send));
        spawned.map_err(|error| failed(format!("could not be read: {error}")))?;
        let mut worker = Self { child, output: Lines { chunks, text: Vec::new(), taken: 0 }, limit };
        match worker.output.next(START) {
            Ok(line) if line == READY.as_bytes() => Ok(worker),
            Ok(line) => {
                let line = String::from_utf8_lossy(line);
                Err(failed(format!("could not open the device: {line}")))
            }
            Err(RecvTimeoutError::Timeout) => Err(failed("did not open the device in time".to_owned())),
            Err(RecvTimeoutError::Disconnected) => {
                let status = worker.child.wait().map_or("no status".to_owned(), |status| status.to_string());
                Err(failed(format!("could not open the device ({status}): run it to see why")))
            }
        }
    }

    /// Gives the process tasks. If it has ended, its output says so.
    pub(super) fn ask(&mut self, text: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = input.write_all(text.as_bytes()).and_then(|()| input.flush());
        }
    }

    /// Reads the answers to one program, and whether the process ends after it.
    pub(super) fn program(&mut self) -> (Vec<Answer>, Result<bool, End>) {
        let mut answers = Vec::new();
        loop {
            match self.output.next(self.limit) {
                Ok(line) if line == DONE.as_bytes() => return (answers, Ok(false)),
                Ok(line) if line == LOST.as_bytes() => return (answers, Ok(true)),
                Ok(line) => answers.extend(Answer::from_line(&String::from_utf8_lossy(line))),
                Err(RecvTimeoutError::Timeout) => return (answers, Err(End::Hung)),
                Err(RecvTimeoutError::Disconnected) => {
                    let end = self.child.wait().map_or(End::Hung, End::Ended);
                    return (answers, Err(end));
                }
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A process that is idle ends with its input, but one that hangs does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on all that there is to read at a time, until the end or until nobody wants it.
fn read(mut output: impl Read, chunks: &Sender<Vec<u8>>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        match output.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                if chunks.send(chunk[..count].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// What a process writes, line by line. It comes from the reading thread in larger pieces: most lines are short, and come many
/// at a time.
#[derive(Debug)]
struct Lines {
    chunks: Receiver<Vec<u8>>,
    text: Vec<u8>,
    /// How much of the text was handed out.
    taken: usize,
}

impl Lines {
    /// The next line, without its end, if it comes in time. A part of a line at the end of the output is none.
    fn next(&mut self, limit: Duration) -> Result<&[u8], RecvTimeoutError> {
        let mut searched = self.taken;
        loop {
            if let Some(length) = self.text[searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.taken..searched + length;
                self.taken = line.end + 1;
                return Ok(&self.text[line]);
            }
            self.text.drain(..self.taken);
            self.taken = 0;
            searched = self.text.len();
            self.text.extend(self.chunks.recv_timeout(limit)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    #[test]
    fn lines_are_whole_wherever_chunks_end() {
        let (send, chunks) = channel();
        let mut lines = Lines { chunks, text: Vec::new(), taken: 0 };
        for chunk in ["a", "b\n\n", "c\nd", "\n", "e"] {
            send.send(chunk.as_bytes().to_vec()).unwrap();
        }
        for line in ["ab", "", "c", "d"] {
            assert_eq!(lines.next(Duration::ZERO), Ok(line.as_bytes()));
        }
        assert_eq!(lines.next(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        drop(send);
        assert_eq!(lines.next(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
    }
}
