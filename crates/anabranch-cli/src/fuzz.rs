//! `anabranch fuzz`.

mod compare;
mod pool;
mod process;
mod report;
mod worker;

use crate::arguments::FuzzOptions;
use crate::date;
use crate::environment;
use crate::fault::Fault;
use crate::output::{self, Failure};
use crate::progress::Progress;
use anabranch::{Device, Instance};
use anabranch_conformance::programs::{Answer, Family, Header, Program, Recorded, Recording};
use pool::{Pool, Task};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How many programs of each family are run if nothing else is said.
const SEEDS: Range<u64> = 0..200;

/// How long a thread of the software device looks for work before it sleeps.
const WORKER_SPIN: Duration = Duration::from_micros(5);

pub(crate) fn run(options: &FuzzOptions) -> Result<ExitCode, Failure> {
    let fault = options.fault.as_ref();
    let open = || Devices::open(options.device.as_deref(), fault);
    if options.worker {
        return worker::run(open, &options.family);
    }
    let devices = open()?;
    let against = options.against.as_deref().filter(|against| !Path::new(against).exists());
    let other = against.map(|against| Devices::open(Some(against), None)).transpose()?;
    let options = &FuzzOptions { family: families(options, &devices, other.as_ref())?, ..options.clone() };
    let pool = Pool::new(&devices.first, fault, options);
    if let Some(seed) = options.print {
        return print(&pool, options, seed);
    }
    match (&options.record, &options.against, &other) {
        (Some(file), ..) => record(&pool, &devices.first, options, file),
        (None, _, Some(other)) => compare::with_device(&pool, &Pool::new(&other.first, None, options), options),
        (None, Some(against), None) => compare::with_file(&pool, options, Path::new(against)),
        (None, None, None) => {
            let (_, summary) = play(&pool, &programs(options), options.seconds)?;
            summary.print(options.json)?;
            Ok(if summary.fatal == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// The device that programs run on, and another one of the same driver, if there is one.
struct Devices {
    first: Device,
    second: Option<Device>,
}

impl Devices {
    /// Opens the device of that name, or the default one, with a fault.
    fn open(name: Option<&str>, fault: Option<&Fault>) -> Result<Self, Failure> {
        // Each core has a process of its own, which needs it for more than looking for work.
        let mut builder = Instance::builder().isolated().host_worker_spin(WORKER_SPIN);
        if !environment::is_set(environment::HOST_WORKERS) {
            // A worker runs one program at a time: two threads of the software device are enough.
            builder = builder.host_workers(2);
        }
        if !environment::is_set(environment::HOST_DEVICES) {
            builder = builder.host_devices(2);
        }
        if let Some(fault) = fault.cloned() {
            builder = builder.wrap(move |driver| fault.wrap(driver));
        }
        let instance = builder.cuda(name.is_none_or(|name| !name.starts_with("host"))).build()?;
        let first = match name {
            Some(name) => instance.device(name)?,
            None => instance.default_device()?,
        };
        // The next one, and behind the last one the first.
        let others =
            instance.devices().iter().filter(|device| device.backend() == first.backend() && **device != first);
        let rank = |device: &&Device| (device.ordinal() < first.ordinal(), device.ordinal());
        let second = others.min_by_key(rank).cloned();
        Ok(Self { first, second })
    }

    fn count(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }
}

/// The families that were asked for. Without any, all for which there are enough devices.
fn families(options: &FuzzOptions, devices: &Devices, other: Option<&Devices>) -> Result<Vec<Family>, Failure> {
    let all = [Some(devices), other].into_iter().flatten();
    let lacking = |family: &Family| all.clone().find(|devices| devices.count() < family.device_count());
    if options.family.is_empty() {
        return Ok(Family::ALL.into_iter().filter(|family| lacking(family).is_none()).collect());
    }
    match options.family.iter().find_map(|family| Some((family, lacking(family)?))) {
        Some((family, devices)) => Err(Failure::Usage(format!(
            "the programs of the family `{family}` need two devices of one driver, and there is only {}: use a machine \
             with two GPUs, or `--device host` with {} not set or at least 2",
            devices.first,
            environment::HOST_DEVICES
        ))),
        None => Ok(options.family.clone()),
    }
}

/// The programs that were asked for, those of a seed one after the other.
fn programs(options: &FuzzOptions) -> Vec<(Family, u64)> {
    let seeds = options.seeds.clone().unwrap_or(SEEDS);
    seeds.flat_map(|seed| options.family.iter().map(move |&family| (family, seed))).collect()
}

/// Prints one program with its answers.
fn print(pool: &Pool, options: &FuzzOptions, seed: u64) -> Result<ExitCode, Failure> {
    for &family in &options.family {
        let program = Program::new(family, seed);
        let played = pool.play_one(&Task { family, seed, keep: None })?;
        output::line(&format!("{family} {seed}, {} calls", program.len()))?;
        for (index, answer) in played.answers.iter().enumerate() {
            output::line(&format!("{index:>4} {} -> {answer}", program.text(index)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What came of many programs.
struct Summary {
    programs: usize,
    calls: usize,
    fatal: usize,
    unsteady: Vec<(Family, u64, Answer)>,
    seconds: f64,
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Failure> {
        let Self { programs, calls, fatal, unsteady, seconds } = self;
        let rate = *programs as f64 / seconds;
        if json {
            return output::json_line(&serde_json::json!({
                "programs": programs, "calls": calls, "fatal": fatal, "seconds": seconds, "programs_per_second": rate,
                "unsteady": unsteady.iter().map(|(family, seed, end)| format!("{family} {seed}: {end}")).collect::<Vec<_>>(),
            }));
        }
        for (family, seed, end) in unsteady {
            output::line(&format!("{family} {seed}: {end}, but not when it ran again alone"))?;
        }
        output::line(&format!(
            "{programs} programs, {calls} calls, {fatal} crashed or hung; {rate:.0} programs a second"
        ))
    }
}

type Answers = BTreeMap<(Family, u64), Vec<Answer>>;

/// Runs programs, as far as there is time.
fn play(pool: &Pool, programs: &[(Family, u64)], seconds: Option<u64>) -> Result<(Answers, Summary), Failure> {
    let (start, progress) = (Instant::now(), Progress::new(programs.len()));
    let mut answers = Answers::new();
    let mut summary = Summary { programs: 0, calls: 0, fatal: 0, unsteady: Vec::new(), seconds: 0.0 };
    let tasks = programs.iter().map(|&(family, seed)| Task { family, seed, keep: None }).collect();
    let until = seconds.map(|seconds| start + Duration::from_secs(seconds));
    pool.play_all(tasks, until, |task, played| {
        summary.programs += 1;
        summary.calls += played.answers.len();
        if played.answers.last().is_some_and(Answer::is_fatal) {
            summary.fatal += 1;
        }
        summary.unsteady.extend(played.unsteady.map(|end| (task.family, task.seed, end)));
        answers.insert((task.family, task.seed), played.answers);
        progress.step(|| Ok(()))
    })?;
    summary.seconds = start.elapsed().as_secs_f64();
    Ok((answers, summary))
}

/// Writes the answers of a device to a file.
fn record(pool: &Pool, device: &Device, options: &FuzzOptions, path: &Path) -> Result<ExitCode, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{} cannot be written: {error}", path.display()));
    // Before the work, so that it is not in vain.
    let file = File::create(path).map_err(failed)?;
    let (answers, summary) = play(pool, &programs(options), options.seconds)?;
    let header = Header {
        device: device.properties().name.clone(),
        driver: format!("CUDA {}", device.driver_version()),
        date: date::today(),
    };
    let played: Vec<(Family, u64)> = answers.keys().copied().collect();
    let fingerprints = on_all_cores(&played, |&(family, seed)| Program::new(family, seed).fingerprint());
    let record = |(((family, seed), answers), fingerprint)| Recorded { family, seed, fingerprint, answers };
    let recording = Recording { header, programs: answers.into_iter().zip(fingerprints).map(record).collect() };
    recording.write(file).map_err(failed)?;
    summary.print(options.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Computes something of each item, a part of them on each core, and keeps the order.
fn on_all_cores<T: Sync, R: Send>(items: &[T], compute: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = items.chunks(items.len().div_ceil(cores).max(1));
    let compute_part = |part: &[T]| part.iter().map(&compute).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|part| (part, scope.spawn(|| compute_part(part)))).collect();
        // Where a thread has panicked, this one does so too.
        threads.into_iter().flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| compute_part(part))).collect()
    })
}
