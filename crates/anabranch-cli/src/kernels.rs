//! `anabranch kernels`.

mod explain;
mod play;
mod worker;

use crate::arguments::KernelsOptions;
use crate::date;
use crate::environment;
use crate::output::{self, Failure};
use anabranch::{Device, Instance};
use anabranch_conformance::ptx::{
    Answer, Difference, Family, Header, Player, Recorded, Recording, Subject, differences,
};
use play::play;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// How many random kernels are run if nothing else is said.
const RANDOM: Range<u64> = 0..200;

/// A kernel, by its family and seed.
type Key = (Family, u64);

pub(crate) fn run(options: &KernelsOptions) -> Result<ExitCode, Failure> {
    let device = open(options.device.as_deref())?;
    if options.worker {
        let other = options.against.as_deref().map(|name| open(Some(name))).transpose()?;
        return worker::run(&device, other.as_ref(), options.json);
    }
    if let Some(name) = &options.show {
        return show(&device, name);
    }
    let against = options.against.as_deref();
    let file = against.filter(|against| Path::new(against).exists()).map(Path::new);
    let recording = file.map(read).transpose()?;
    let other = match (against, file) {
        (Some(name), None) => Some(open(Some(name))?),
        _ => None,
    };
    if options.explain.is_some() && other.is_none() {
        return Err(Failure::Usage(
            "`--explain` asks both devices again: name the other one, as in `--against host`".to_owned(),
        ));
    }
    let keys = match &recording {
        Some(recording) => {
            let all = recording.kernels.iter().map(|recorded| (recorded.family, recorded.seed));
            chosen(
                options,
                all.filter(|key| {
                    key.0 == Family::Golden || options.seeds.as_ref().is_none_or(|seeds| seeds.contains(&key.1))
                }),
            )
        }
        None => chosen(options, asked(options).into_iter()),
    };
    if keys.is_empty() {
        return Err(Failure::Usage("there is no kernel of this family, name and seed".to_owned()));
    }
    // Before the work, so that it is not in vain.
    let output = options.record.as_ref().map(|path| create(path)).transpose()?;
    let start = Instant::now();
    let here = play(&device, &keys, options)?;
    let seconds = start.elapsed().as_secs_f64();
    if let (Some(file), Some(path)) = (output, &options.record) {
        record(&device, &here, file, path)?;
    }
    let compared = match (recording, &other) {
        (Some(recording), _) => Some(compare(&here, recording.kernels.iter().cloned().map(key_of).collect(), options)?),
        (None, Some(other)) => {
            let keys: Vec<Key> = here.keys().copied().collect();
            Some(compare(&here, play(other, &keys, options)?, options)?)
        }
        (None, None) => None,
    };
    let failed = failures(&here, options, compared.is_none())?;
    summary(&here, seconds, failed, compared.as_ref(), options)?;
    if let (Some(seconds), Some(other), Some(compared)) = (options.explain, &other, &compared) {
        explain::explain(&device, other, &compared.different, seconds, options)?;
    }
    let is_well = compared.is_none_or(|compared| compared.different.is_empty()) && (failed == 0 || against.is_some());
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Opens the device of that name, or the default one.
fn open(name: Option<&str>) -> Result<Device, Failure> {
    let mut builder = Instance::builder().isolated();
    if !environment::is_set(environment::HOST_DEVICES) {
        builder = builder.host_devices(1);
    }
    let instance = builder.cuda(name.is_none_or(|name| !name.starts_with("host"))).build()?;
    Ok(match name {
        Some(name) => instance.device(name)?,
        None => instance.default_device()?,
    })
}

/// The kernels that were asked for.
fn asked(options: &KernelsOptions) -> Vec<Key> {
    let (golden, sweeps) = (0..Subject::golden_count(), 0..Subject::sweep_count());
    let of = |family, default: Range<u64>| {
        let seeds = if family == Family::Golden { default.clone() } else { options.seeds.clone().unwrap_or(default) };
        seeds.map(move |seed| (family, seed))
    };
    of(Family::Golden, golden).chain(of(Family::Sweep, sweeps)).chain(of(Family::Random, RANDOM)).collect()
}

/// Those of the families and names that were asked for.
fn chosen(options: &KernelsOptions, keys: impl Iterator<Item = Key>) -> Vec<Key> {
    let has_name = |&(family, seed): &Key| {
        let named =
            |text: &String| Subject::new(family, seed).is_some_and(|subject| subject.to_string().contains(text));
        options.filter.as_ref().is_none_or(named)
    };
    let has_family = |(family, _): &Key| options.family.is_empty() || options.family.contains(family);
    keys.filter(has_family).filter(has_name).collect()
}

fn key_of(recorded: Recorded) -> (Key, Recorded) {
    ((recorded.family, recorded.seed), recorded)
}

fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let file =
        File::open(path).map_err(|error| Failure::Usage(format!("{} cannot be opened: {error}", path.display())))?;
    let recording = Recording::read(file)
        .map_err(|reason| Failure::Failed(format!("{} is no recording: {reason}", path.display())))?;
    for recorded in &recording.kernels {
        recorded.subject().map_err(|reason| Failure::Failed(format!("{}: {reason}", path.display())))?;
    }
    Ok(recording)
}

fn record(device: &Device, here: &BTreeMap<Key, Recorded>, file: File, path: &Path) -> Result<(), Failure> {
    let header = Header {
        device: device.properties().name.clone(),
        driver: format!("CUDA {}", device.driver_version()),
        date: date::today(),
    };
    let recording = Recording { header, kernels: here.values().cloned().collect() };
    recording.write(file).map_err(|error| Failure::Failed(format!("{} cannot be written: {error}", path.display())))
}

/// What came of a comparison.
struct Compared {
    equal: usize,
    different: Vec<Key>,
}

/// Compares kernels, and prints each kind of difference.
fn compare(
    here: &BTreeMap<Key, Recorded>,
    there: BTreeMap<Key, Recorded>,
    options: &KernelsOptions,
) -> Result<Compared, Failure> {
    let mut compared = Compared { equal: 0, different: Vec::new() };
    // By the instruction. A kernel that is composed differs first where something is wrong.
    let mut kinds: BTreeMap<String, (usize, String, Difference)> = BTreeMap::new();
    for (&(family, seed), recorded) in here {
        let Some((subject, other)) = Subject::new(family, seed).zip(there.get(&(family, seed))) else { continue };
        let found = differences(&subject, recorded, other);
        if found.is_empty() {
            compared.equal += 1;
            continue;
        }
        compared.different.push((family, seed));
        let first = if family == Family::Random { 1 } else { found.len() };
        for difference in found.into_iter().take(first) {
            let key = if family == Family::Sweep { difference.label.clone() } else { format!("{subject}") };
            kinds.entry(key).or_insert_with(|| (0, subject.to_string(), difference)).0 += 1;
        }
    }
    for (count, name, difference) in kinds.into_values() {
        let Difference { output, label, element, here, there } = difference;
        if options.json {
            output::json_line(&json!({
                "kernel": name, "kernels": count, "output": output, "statement": label, "element": element,
                "here": here, "there": there,
            }))?;
        } else {
            let element = element.map_or_else(String::new, |element| format!(", element {element}"));
            output::line(&format!("{name}, output {output}{element}: `{label}`: {here}, and there {there} ({count})"))?;
        }
    }
    Ok(compared)
}

/// Counts the outputs that could not be computed, and prints why.
fn failures(here: &BTreeMap<Key, Recorded>, options: &KernelsOptions, print: bool) -> Result<usize, Failure> {
    let mut count = 0;
    for recorded in here.values() {
        let subject = Subject::new(recorded.family, recorded.seed);
        let mut told: Option<&str> = None;
        for (index, answer) in recorded.answers.iter().enumerate() {
            let Answer::Failed(reason) = answer else { continue };
            count += 1;
            if print && told != Some(reason) {
                told = Some(reason);
                let output = subject.as_ref().and_then(|subject| subject.outputs().get(index));
                let label = output.map_or("", |output| output.label());
                let name = subject.as_ref().map(ToString::to_string).unwrap_or_default();
                if options.json {
                    output::json_line(&json!({ "kernel": name, "statement": label, "error": reason }))?;
                } else {
                    output::line(&format!("{name}: `{label}`: {reason}"))?;
                }
            }
        }
    }
    Ok(count)
}

fn summary(
    here: &BTreeMap<Key, Recorded>,
    seconds: f64,
    failed: usize,
    compared: Option<&Compared>,
    options: &KernelsOptions,
) -> Result<(), Failure> {
    let outputs: usize = here.values().map(|recorded| recorded.answers.len()).sum();
    let kernels = here.len();
    if options.json {
        let mut line = json!({ "kernels": kernels, "outputs": outputs, "failed": failed, "seconds": seconds });
        if let Some(Compared { equal, different }) = compared {
            line["equal"] = json!(equal);
            line["different"] = json!(different.len());
        }
        return output::json_line(&line);
    }
    output::line(&format!("{kernels} kernels, {outputs} outputs, {failed} not computed; {seconds:.0} seconds"))?;
    match compared {
        Some(Compared { equal, different }) => {
            output::line(&format!("{equal} of {} kernels equal", equal + different.len()))
        }
        None => Ok(()),
    }
}

/// Prints the module of a kernel, and the elements of its outputs.
fn show(device: &Device, name: &str) -> Result<ExitCode, Failure> {
    let wrong = || Failure::Usage(format!("there is no kernel `{name}`, such as sweep.3"));
    let (family, seed) = name.split_once('.').ok_or_else(wrong)?;
    let family: Family = family.parse().map_err(Failure::Usage)?;
    let subject = match seed.parse() {
        Ok(seed) => Subject::new(family, seed),
        Err(_) => (0..Subject::golden_count())
            .filter_map(|seed| Subject::new(family, seed))
            .find(|subject| subject.to_string() == name),
    };
    let subjects = [subject.ok_or_else(wrong)?];
    output::line(&subjects[0].module())?;
    let mut result = Ok(ExitCode::SUCCESS);
    Player::new(device)?.play(&subjects, |subject, played| {
        for (output, elements) in subject.outputs().iter().zip(&played.outputs) {
            let text = match elements {
                Ok(elements) => elements.iter().map(|&element| output.text(element)).collect::<Vec<_>>().join(" "),
                Err(reason) => reason.clone(),
            };
            let line = output::line(&format!("{}: {text}", output.label()));
            if let (Err(failure), true) = (line, result.is_ok()) {
                result = Err(failure);
            }
        }
    });
    result
}
