//! Runs kernels in processes of their own, which may crash or hang.

use super::worker::Worker;
use super::{Key, key_of};
use crate::arguments::KernelsOptions;
use crate::output::Failure;
use crate::progress::Progress;
use anabranch::Device;
use anabranch_conformance::ptx::{Answer, Recorded, Subject};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many kernels one module has: drivers take longer to load a module than to run it.
const BATCH: usize = 20;

/// What the threads share that ask the processes.
struct Work {
    batches: VecDeque<Vec<Key>>,
    done: BTreeMap<Key, Recorded>,
    failure: Option<Failure>,
}

/// Runs kernels, as far as there is time.
pub(super) fn play(
    device: &Device,
    keys: &[Key],
    options: &KernelsOptions,
) -> Result<BTreeMap<Key, Recorded>, Failure> {
    let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let limit = Duration::from_secs(options.limit);
    let batches: VecDeque<Vec<Key>> = keys.chunks(BATCH).map(<[Key]>::to_vec).collect();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.map_or_else(|| (processors / 2).clamp(1, 8), usize::from).min(batches.len());
    let work = Mutex::new(Work { batches, done: BTreeMap::new(), failure: None });
    let progress = Progress::new(keys.len());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                if let Err(failure) = job(device, limit, until, &work, &progress) {
                    let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
                    work.batches.clear();
                    work.failure.get_or_insert(failure);
                }
            });
        }
    });
    let work = work.into_inner().unwrap_or_else(PoisonError::into_inner);
    work.failure.map_or(Ok(work.done), Err)
}

/// Runs batches, one after the other.
fn job(
    device: &Device,
    limit: Duration,
    until: Option<Instant>,
    work: &Mutex<Work>,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut worker = None;
    while until.is_none_or(|until| Instant::now() < until) {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).batches.pop_front();
        let Some(batch) = next else { break };
        let process = match worker.take() {
            Some(process) => process,
            None => Worker::start(device, limit)?,
        };
        let (mut found, end) = process.ask(&batch);
        let mut left: Vec<Key> = batch[found.len()..].to_vec();
        match end {
            Ok(process) => worker = process,
            // One of them ended the process before any ran, such as the driver's compiler.
            Err(_) if found.is_empty() && left.len() > 1 => {
                let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
                work.batches.extend(left.drain(..).map(|key| vec![key]));
            }
            // The kernel after the last one that was told of has done it.
            Err(reason) if !left.is_empty() => found.extend(blamed(left.remove(0), &reason)),
            Err(_) => {}
        }
        if found.is_empty() && !left.is_empty() {
            found.extend(blamed(left.remove(0), "its process ended"));
        }
        let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
        if !left.is_empty() {
            work.batches.push_front(left);
        }
        for recorded in found {
            progress.step(|| ());
            let (key, recorded) = key_of(recorded);
            work.done.insert(key, recorded);
        }
    }
    Ok(())
}

/// What is recorded of a kernel that has ended its process.
fn blamed((family, seed): Key, reason: &str) -> Option<Recorded> {
    let subject = Subject::new(family, seed)?;
    let answers = subject.outputs().iter().map(|_| Answer::Failed(reason.to_owned())).collect();
    Some(Recorded { family, seed, fingerprint: subject.fingerprint(), answers })
}
