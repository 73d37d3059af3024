//! Gives programs to other processes, which may crash or hang.

use super::process::{End, Worker};
use super::worker::ALONE;
use crate::arguments::FuzzOptions;
use crate::fault::Fault;
use crate::output::Failure;
use anabranch::Device;
use anabranch_conformance::programs::{Answer, Family, Program};
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many programs a worker is given at once.
const BATCH: usize = 16;
/// How few a worker has left when it is given more, so that it need not wait for them.
const FEW: usize = 8;

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
                    let mut send = |task: Task, played| results.send(Ok((task, played))).is_ok();
                    if let Err(failure) = self.play_queue(queue, until, &mut send) {
                        let _ = results.send(Err(failure));
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

    /// Runs programs on one process until there are no more, or nobody wants the answers. It is started if there is none
    /// and if there is time, and is given more programs before it has run out of them.
    fn play_queue(
        &self,
        queue: &Mutex<Vec<Task>>,
        until: Option<Instant>,
        send: &mut impl FnMut(Task, Played) -> bool,
    ) -> Result<(), Failure> {
        let mut worker = self.idle().pop();
        // What a process was given and has not answered.
        let mut asked: VecDeque<Task> = VecDeque::new();
        loop {
            if asked.len() <= FEW && !is_past(until) {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                let left = queue.len().saturating_sub(BATCH);
                let more: Vec<Task> = queue.drain(left..).rev().collect();
                drop(queue);
                if let Some(worker) = &mut worker {
                    worker.ask(&lines(&more));
                }
                asked.extend(more);
            }
            let current = match &mut worker {
                _ if asked.is_empty() => break,
                Some(worker) => worker,
                None if is_past(until) => break,
                None => {
                    // What a process that has ended did not read is given to the next one.
                    let started = worker.insert(self.start()?);
                    started.ask(&lines(&asked));
                    started
                }
            };
            let (answers, end) = current.program();
            let Some(task) = asked.pop_front() else { break };
            if !matches!(end, Ok(false)) {
                worker = None;
            }
            let played = match end {
                Ok(_) => Played { answers, unsteady: None },
                Err(end) => self.play_alone(&task, &end)?,
            };
            if !send(task, played) {
                return Ok(());
            }
        }
        self.idle().extend(worker);
        Ok(())
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
        Worker::start(&self.arguments, self.limit)
    }
}

/// Tasks as a process reads them.
fn lines<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> String {
    tasks.into_iter().map(|task| format!("{task}\n")).collect()
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
