//! `anabranch fuzz`.

mod compare;
mod date;
mod pool;
mod report;
mod worker;

use crate::arguments::FuzzOptions;
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
use std::time::Instant;

/// How many programs of each family are run if nothing else is said.
const SEEDS: Range<u64> = 0..200;

/// How many programs are run before the time is looked at.
const CHUNK: usize = 256;

pub(crate) fn run(options: &FuzzOptions) -> Result<ExitCode, Failure> {
    let fault = options.fault.as_ref();
    let open = || device(options.device.as_deref(), fault);
    if options.worker {
        return worker::run(open);
    }
    let device = open()?;
    let pool = Pool::new(&device, fault, options);
    if let Some(seed) = options.print {
        return print(&pool, options, seed);
    }
    match (&options.record, &options.against) {
        (Some(file), _) => record(&pool, &device, options, file),
        (None, Some(against)) if Path::new(against).exists() => compare::with_file(&pool, options, Path::new(against)),
        (None, Some(against)) => {
            let other = Pool::new(&self::device(Some(against), None)?, None, options);
            compare::with_device(&pool, &other, options)
        }
        (None, None) => {
            let (_, summary) = play(&pool, &programs(options), options.seconds)?;
            summary.print(options.json)?;
            Ok(if summary.fatal == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// The device of that name, or the default one, with a fault.
fn device(name: Option<&str>, fault: Option<&Fault>) -> Result<Device, Failure> {
    // A worker runs one program at a time: two threads of the software device are enough.
    let mut builder = Instance::builder().isolated().host_workers(2);
    if let Some(fault) = fault.cloned() {
        builder = builder.wrap(move |driver| fault.wrap(driver));
    }
    Ok(match name {
        Some(name) => builder.cuda(!name.starts_with("host")).build()?.device(name)?,
        None => builder.build()?.default_device()?,
    })
}

fn families(options: &FuzzOptions) -> Vec<Family> {
    if options.family.is_empty() { Family::ALL.to_vec() } else { options.family.clone() }
}

/// The programs that were asked for, those of a seed one after the other.
fn programs(options: &FuzzOptions) -> Vec<(Family, u64)> {
    let seeds = options.seeds.clone().unwrap_or(SEEDS);
    let families = families(options);
    seeds.flat_map(|seed| families.iter().map(move |&family| (family, seed))).collect()
}

/// Prints one program with its answers.
fn print(pool: &Pool, options: &FuzzOptions, seed: u64) -> Result<ExitCode, Failure> {
    for family in families(options) {
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
    for programs in programs.chunks(if seconds.is_some() { CHUNK } else { programs.len().max(1) }) {
        if seconds.is_some_and(|seconds| start.elapsed().as_secs() >= seconds) {
            break;
        }
        let tasks = programs.iter().map(|&(family, seed)| Task { family, seed, keep: None }).collect();
        pool.play_all(tasks, |task, played| {
            summary.programs += 1;
            summary.calls += played.answers.len();
            if played.answers.last().is_some_and(Answer::is_fatal) {
                summary.fatal += 1;
            }
            summary.unsteady.extend(played.unsteady.map(|end| (task.family, task.seed, end)));
            answers.insert((task.family, task.seed), played.answers);
            progress.step(|| Ok(()))
        })?;
    }
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
    let record = |((family, seed), answers)| Recorded::new(&Program::new(family, seed), answers);
    let recording = Recording { header, programs: answers.into_iter().map(record).collect() };
    recording.write(file).map_err(failed)?;
    summary.print(options.json)?;
    Ok(ExitCode::SUCCESS)
}
