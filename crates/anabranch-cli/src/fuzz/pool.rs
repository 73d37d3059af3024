//! Runs programs in other processes, which may crash or hang.

use super::worker::{ALONE, DONE, LOST, READY};
use crate::arguments::FuzzOptions;
use crate::fault::Fault;
use crate::output::Failure;
use anabranch::Device;
use anabranch_conformance::programs::{Answer, Family, Outcome, Program};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many programs a worker is given at once, so that it need not wait for the next.
const BATCH: usize = 16;
/// How long a worker may take to open the device.
const START: Duration = Duration::from_secs(120);

/// A program to run: that of a family and a seed, or only the calls of these numbers of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) family: Family,
    pub(super) seed: u64,
    pub(super) keep: Option<Vec<usize>>,
}

impl Task {
    pub(super) fn program(&self) -> Program {
        let program = Program::new(self.family, self.seed);
        match &self.keep {
            Some(calls) => program.keep(calls),
            None => program,
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.family, self.seed)?;
        self.keep.iter().flatten().try_for_each(|call| write!(formatter, " {call}"))?;
        if self.keep.as_ref().is_some_and(Vec::is_empty) { formatter.write_str(" ") } else { Ok(()) }
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("`{text}` is no task");
        let mut words = text.splitn(3, ' ');
        let family = words.next().unwrap_or_default().parse()?;
        let seed = words.next().unwrap_or_default().parse().map_err(wrong)?;
        let calls = |calls: &str| calls.split_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(wrong);
        Ok(Self { family, seed, keep: words.next().map(calls).transpose()? })
    }
}

/// What came of a task.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) answers: Vec<Answer>,
    /// How the process ended when it ran this program, if it did not when it ran it again alone.
    pub(super) unsteady: Option<Answer>,
}

/// Processes that run programs on one device.
#[derive(Debug)]
pub(super) struct Pool {
    /// What the processes are told about the device.
    arguments: Vec<String>,
    jobs: usize,
    limit: Duration,
    /// Processes that have nothing to do.
    idle: Mutex<Vec<Worker>>,
}

/// Why a worker gave no more answers.
enum End {
    Ended(ExitStatus),
    Hung,
}

impl End {
    /// The answer to the call that was being made.
    fn answer(&self) -> Answer {
        match self {
            Self::Hung => Answer::new(Outcome::Hung),
            Self::Ended(status) => {
                Answer::with(Outcome::Crashed, status.to_string().trim_end_matches(" (core dumped)"))
            }
        }
    }
}

/// One process.
#[derive(Debug)]
struct Worker {
    child: Child,
    lines: Receiver<String>,
    limit: Duration,
}

impl Pool {
    /// Makes a pool of processes for a device, whose driver has a fault on purpose.
    pub(super) fn new(device: &Device, fault: Option<&Fault>, options: &FuzzOptions) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut arguments = vec!["--device".to_owned(), device.to_string()];
        if let Some(fault) = fault {
            arguments.extend(["--fault".to_owned(), fault.to_string()]);
        }
        // A process opens as many devices as its programs need.
        for family in &options.family {
            arguments.extend(["--family".to_owned(), family.to_string()]);
        }
        let (jobs, limit) = (options.jobs.unwrap_or(cores).max(1), Duration::from_secs(options.limit));
        Self { arguments, jobs, limit, idle: Mutex::default() }
    }

    /// Runs one program.
    pub(super) fn play_one(&self, task: &Task) -> Result<Played, Failure> {
        let mut answers = Vec::new();
        self.play_all(vec![task.clone()], None, |_, played| {
            answers.push(played);
            Ok(())
        })?;
        answers.pop().ok_or_else(|| Failure::Failed("the program did not run".to_owned()))
    }

    /// Runs programs on all processes until that time, and hands over what came of each, in no order.
    pub(super) fn play_all(
        &self,
        mut tasks: Vec<Task>,
        until: Option<Instant>,
        mut take: impl FnMut(&Task, Played) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        tasks.reverse();
        let jobs = self.jobs.min(tasks.len().div_ceil(BATCH)).max(1);
        let queue = Mutex::new(tasks);
        let (results, received) = channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let (queue, results) = (&queue, results.clone());
                scope.spawn(move || {
                    let mut worker = self.idle().pop();
                    loop {
                        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                        let left = queue.len().saturating_sub(BATCH);
                        let batch: Vec<Task> = queue.drain(left..).rev().collect();
                        drop(queue);
                        if batch.is_empty() || is_past(until) {
                            self.idle().extend(worker);
                            return;
                        }
                        let mut send = |task: Task, played| results.send(Ok((task, played))).is_ok();
                        match self.play_batch(&mut worker, batch, until, &mut send) {
                            Ok(true) => {}
                            Ok(false) => return,
                            Err(failure) => {
                                let _ = results.send(Err(failure));
                                return;
                            }
                        }
                    }
                });
            }
            drop(results);
            let taken = received.iter().try_for_each(|result| result.and_then(|(task, played)| take(&task, played)));
            // The workers see that nobody wants their answers.
            drop(received);
            taken
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs some programs on one process, which is started if there is none and if there is time. Returns whether more
    /// can be run.
    fn play_batch(
        &self,
        worker: &mut Option<Worker>,
        batch: Vec<Task>,
        until: Option<Instant>,
        send: &mut impl FnMut(Task, Played) -> bool,
    ) -> Result<bool, Failure> {
        let mut tasks = batch.into_iter().peekable();
        while tasks.peek().is_some() {
            let current = match worker {
                Some(worker) => worker,
                None if is_past(until) => return Ok(false),
                None => worker.insert(self.start()?),
            };
            // What a process that ends does not read is given to the next one.
            let text: String = tasks.clone().map(|task| format!("{task}\n")).collect();
            current.ask(&text);
            for task in tasks.by_ref() {
                let (answers, end) = current.program();
                let is_lost = !matches!(end, Ok(false));
                let played = match end {
                    Ok(_) => Played { answers, unsteady: None },
                    Err(end) => self.play_alone(&task, &end)?,
                };
                if !send(task, played) {
                    return Ok(false);
                }
                if is_lost {
                    *worker = None;
                    break;
                }
            }
        }
        Ok(true)
    }

    /// Runs a program that has ended its process again, in a process of its own that tells of each answer at once.
    fn play_alone(&self, task: &Task, before: &End) -> Result<Played, Failure> {
        let mut worker = self.start()?;
        worker.ask(&format!("{ALONE}{task}\n"));
        let (mut answers, end) = worker.program();
        match end {
            Ok(_) => Ok(Played { answers, unsteady: Some(before.answer()) }),
            Err(end) => {
                answers.push(end.answer());
                Ok(Played { answers, unsteady: None })
            }
        }
    }

    fn start(&self) -> Result<Worker, Failure> {
        let command = format!("anabranch fuzz --worker {}", self.arguments.join(" "));
        let failed = |what: String| Failure::Failed(format!("the process `{command}` {what}"));
        let program = std::env::current_exe().map_err(|error| failed(format!("could not be started: {error}")))?;
        let child = Command::new(program)
            .args(["fuzz", "--worker"])
            .args(&self.arguments)
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
        let spawned = std::thread::Builder::new().name("anabranch-fuzz-reader".to_owned()).spawn(read);
        spawned.map_err(|error| failed(format!("could not be read: {error}")))?;
        let mut worker = Worker { child, lines, limit: self.limit };
        match worker.lines.recv_timeout(START) {
            Ok(line) if line == READY => Ok(worker),
            Ok(line) => Err(failed(format!("could not open the device: {line}"))),
            Err(RecvTimeoutError::Timeout) => Err(failed("did not open the device in time".to_owned())),
            Err(RecvTimeoutError::Disconnected) => {
                let status = worker.child.wait().map_or("no status".to_owned(), |status| status.to_string());
                Err(failed(format!("could not open the device ({status}): run it to see why")))
            }
        }
    }
}

impl Worker {
    /// Gives the process tasks. If it has ended, its output says so.
    fn ask(&mut self, text: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = input.write_all(text.as_bytes()).and_then(|()| input.flush());
        }
    }

    /// Reads the answers to one program, and whether the process ends after it.
    fn program(&mut self) -> (Vec<Answer>, Result<bool, End>) {
        let mut answers = Vec::new();
        loop {
            match self.lines.recv_timeout(self.limit) {
                Ok(line) if line == DONE => return (answers, Ok(false)),
                Ok(line) if line == LOST => return (answers, Ok(true)),
                Ok(line) => answers.extend(Answer::from_line(&line)),
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

fn is_past(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() >= time)
}

#[cfg(test)]
mod tests {
    use super::Task;
    use anabranch_conformance::programs::Family;

    #[test]
    fn a_task_is_read_as_it_was_written() {
        for keep in [None, Some(vec![]), Some(vec![3]), Some(vec![0, 17])] {
            let task = Task { family: Family::Gates, seed: 7, keep };
            assert_eq!(task.to_string().parse(), Ok(task));
        }
        assert!("gates x".parse::<Task>().is_err());
    }
}
