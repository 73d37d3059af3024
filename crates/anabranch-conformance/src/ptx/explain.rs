//! Finds which instruction two devices compute differently.
//!
//! A composed kernel is made to write a trace: each result of each step of each thread, with its operands. The first step whose
//! results differ is run alone then, with the operands that it had: if it is the same alone, what surrounds it makes the
//! difference, such as what a compiler makes of both. What is left when all steps are dropped that the difference does not need
//! shows that.

use super::player::Player;
use super::random::{EVENT, EVENTS, Program, Style};
use super::subject::{Family, Subject};
use super::sweep;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Instant;

/// The first result that two devices compute differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The number of the output.
    pub output: usize,
    /// The instructions.
    pub label: String,
    /// The number of the thread.
    pub thread: usize,
    /// How often the thread had come there before.
    pub round: usize,
    /// The registers that are read, and their values on both devices.
    pub operands: Vec<(String, u64, u64)>,
    /// The results.
    pub results: (u64, u64),
    /// How many threads have different results of these instructions.
    pub threads: usize,
    /// Whether the instructions differ without the others too, for the same operands.
    pub differs_alone: bool,
}

impl fmt::Display for Located {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { output, label, thread, round, operands, results: (here, there), threads, differs_alone } = self;
        write!(
            formatter,
            "output {output}, thread {thread}, round {round}, `{label}`: {here:#x}, and there {there:#x}"
        )?;
        for (name, here, there) in operands {
            match here == there {
                true => write!(formatter, ", {name} = {here:#x}")?,
                false => write!(formatter, ", {name} = {here:#x}, and there {there:#x}")?,
            }
        }
        let alone = if *differs_alone { "differs alone too" } else { "is the same alone" };
        write!(formatter, "; in {threads} threads; {alone}")
    }
}

/// What is left of a kernel without all that a difference does not need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The steps that are left.
    pub steps: Vec<String>,
    /// The text of a module with them.
    pub module: String,
}

/// The elements of all outputs.
type Outputs = Result<Vec<Vec<u64>>, String>;

fn run(player: &Player, subject: &Subject) -> Outputs {
    let mut outputs = Err("the device has run nothing".to_owned());
    player.play(std::slice::from_ref(subject), |_, played| outputs = played.outputs.into_iter().collect());
    outputs
}

/// Two devices, as what they compute of a kernel.
struct Pair<'a> {
    here: &'a dyn Fn(&Subject) -> Outputs,
    there: &'a dyn Fn(&Subject) -> Outputs,
}

impl Pair<'_> {
    fn run(&self, subject: &Subject) -> Result<[Vec<Vec<u64>>; 2], String> {
        Ok([(self.here)(subject)?, (self.there)(subject)?])
    }

    fn differs(&self, subject: &Subject) -> Result<bool, String> {
        let [ours, theirs] = self.run(subject)?;
        Ok(ours != theirs)
    }
}

/// The results of a thread, in their order.
fn events(trace: &[u64], thread: usize) -> impl Iterator<Item = &[u64]> {
    let all = trace.get(thread * EVENTS * EVENT..).unwrap_or_default();
    all.chunks_exact(EVENT).take(EVENTS).take_while(|event| event[0] != 0)
}

/// Finds the first result that two devices compute differently, if there is one while it is searched for.
///
/// # Errors
///
/// One sentence, if one of the devices fails, or the threads go different ways although all results are the same.
pub fn locate(subject: &Subject, here: &Player, there: &Player) -> Result<Option<Located>, String> {
    let pair = Pair { here: &|subject| run(here, subject), there: &|subject| run(there, subject) };
    match subject.family {
        Family::Random => locate_step(&Program::new(subject.seed), &pair),
        Family::Golden | Family::Sweep => locate_element(subject, &pair),
    }
}

fn locate_element(subject: &Subject, pair: &Pair) -> Result<Option<Located>, String> {
    let [ours, theirs] = pair.run(subject)?;
    for (index, (output, (ours, theirs))) in subject.outputs.iter().zip(ours.iter().zip(&theirs)).enumerate() {
        let pairs = || ours.iter().copied().zip(theirs.iter().copied());
        let unequal = |&(a, b): &(u64, u64)| !output.element.equal(a, b);
        let Some(thread) = pairs().position(|pair| unequal(&pair)) else { continue };
        let operands =
            if subject.family == Family::Sweep { sweep::operands(subject, index, thread) } else { Vec::new() };
        return Ok(Some(Located {
            output: index,
            label: output.label.clone(),
            thread,
            round: 0,
            operands: operands.into_iter().map(|(name, value)| (name, value, value)).collect(),
            results: (ours[thread], theirs[thread]),
            threads: pairs().filter(unequal).count(),
            differs_alone: subject.family == Family::Sweep,
        }));
    }
    Ok(None)
}

fn locate_step(program: &Program, pair: &Pair) -> Result<Option<Located>, String> {
    let [ours, theirs] = pair.run(&program.subject(Style::Trace))?.map(|mut outputs| outputs.swap_remove(0));
    // The first statement in the text comes first in time too, as all threads meet behind each.
    let mut first: Option<(usize, usize, usize)> = None;
    for thread in 0..program.threads() {
        let mut pairs = events(&ours, thread).zip(events(&theirs, thread));
        let Some(at) = pairs.position(|(a, b)| a[..2] != b[..2]) else { continue };
        let step = events(&ours, thread).nth(at).map_or(0, |event| event[0] as usize - 1);
        let key = (program.statement(step), at, thread);
        first = Some(first.map_or(key, |other| other.min(key)));
    }
    let Some((_, at, thread)) = first else { return Ok(None) };
    let of = |trace: &[u64]| events(trace, thread).nth(at).map(<[u64]>::to_vec).unwrap_or_default();
    let (our, their) = (of(&ours), of(&theirs));
    if our[0] != their[0] {
        let label = |event: &[u64]| {
            let step = program.steps().find(|step| step.id + 1 == event[0] as usize);
            step.map(|step| step.label.clone()).unwrap_or_default()
        };
        return Err(format!(
            "thread {thread} comes to `{}`, and there to `{}`, although its results before are the same",
            label(&our),
            label(&their)
        ));
    }
    let number = our[0];
    let Some(step) = program.steps().find(|step| step.id + 1 == number as usize) else { return Ok(None) };
    let names = step.operands.iter().cloned();
    let operands = names.zip(our[2..].iter().zip(&their[2..])).map(|(name, (&a, &b))| (name, a, b)).collect();
    let is_step = |event: &&[u64]| event[0] == number;
    let differs = |thread: usize| {
        let pairs = events(&ours, thread).filter(is_step).zip(events(&theirs, thread).filter(is_step));
        pairs.into_iter().any(|(a, b)| a[1] != b[1])
    };
    // Each thread has the operands that it had when it differed, or first.
    let event = |thread: usize| {
        let mut pairs = events(&ours, thread).filter(is_step).zip(events(&theirs, thread).filter(is_step));
        let different = pairs.find(|(a, b)| a[1] != b[1]).map(|(a, _)| a);
        different.or_else(|| events(&ours, thread).find(is_step))
    };
    let values = step.operands.iter().enumerate().map(|(place, register)| {
        let value = |thread| event(thread).map_or(0, |event| event[2 + place]);
        (register.clone(), (0..program.threads()).map(value).collect())
    });
    let alone = program.alone(step.id, &values.collect::<Vec<_>>()).subject(Style::Outputs);
    Ok(Some(Located {
        output: step.id,
        label: step.label.clone(),
        thread,
        round: events(&ours, thread).take(at).filter(is_step).count(),
        operands,
        results: (our[1], their[1]),
        threads: (0..program.threads()).filter(|&thread| differs(thread)).count(),
        differs_alone: pair.differs(&alone)?,
    }))
}

/// Drops what the difference between two devices does not need, as far as there is time. Nothing if they do not differ.
///
/// # Errors
///
/// One sentence, if one of the devices fails.
pub fn shrink(subject: &Subject, here: &Player, there: &Player, until: Instant) -> Result<Option<Shrunk>, String> {
    let pair = Pair { here: &|subject| run(here, subject), there: &|subject| run(there, subject) };
    match subject.family {
        Family::Random => shrink_steps(&Program::new(subject.seed), &pair, until),
        Family::Golden | Family::Sweep => Ok(None),
    }
}

fn shrink_steps(program: &Program, pair: &Pair, until: Instant) -> Result<Option<Shrunk>, String> {
    let differs = |steps: &BTreeSet<usize>| pair.differs(&program.keep(steps).subject(Style::Outputs));
    let Some(left) = smallest(program.steps().map(|step| step.id).collect(), until, differs)? else { return Ok(None) };
    let steps = program.steps().filter(|step| left.contains(&step.id)).map(|step| step.label.clone()).collect();
    Ok(Some(Shrunk { steps, module: program.keep(&left).subject(Style::Outputs).module() }))
}

/// The smallest set that still differs and that is found by dropping parts, halves first.
fn smallest(
    all: BTreeSet<usize>,
    until: Instant,
    differs: impl Fn(&BTreeSet<usize>) -> Result<bool, String>,
) -> Result<Option<BTreeSet<usize>>, String> {
    let mut left = all;
    if !differs(&left)? {
        return Ok(None);
    }
    let mut size = left.len().div_ceil(2);
    while size > 0 {
        // What comes last is needed least often.
        let steps: Vec<usize> = left.iter().rev().copied().collect();
        let before = left.len();
        for part in steps.chunks(size) {
            if Instant::now() >= until {
                return Ok(Some(left));
            }
            let fewer: BTreeSet<usize> = left.iter().filter(|step| !part.contains(step)).copied().collect();
            if !fewer.is_empty() && differs(&fewer)? {
                left = fewer;
            }
        }
        // As long as single steps can be dropped, others may be after them.
        if size > 1 || left.len() == before {
            size /= 2;
        }
    }
    Ok(Some(left))
}

#[cfg(test)]
mod tests {
    use super::super::subject::Text;
    use super::{Outputs, Pair, Player, Program, Subject, locate_step, run, shrink_steps, smallest};
    use anabranch::Instance;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn player() -> Player {
        let instance =
            Instance::builder().isolated().cuda(false).host_devices(1).build().expect("the host device starts");
        Player::new(&instance.devices()[0]).expect("the host device can be used")
    }

    /// A device that takes one instruction for another.
    fn altered(player: &Player, subject: &Subject, from: &str, to: &str) -> Outputs {
        let mut subject = subject.clone();
        if let Text::Part(part) = &mut subject.text {
            *part = part.replace(from, to);
        }
        run(player, &subject)
    }

    #[test]
    fn the_instruction_that_differs_is_found_and_left_alone() {
        let player = player();
        let mut found = 0;
        for seed in 0..40 {
            let program = Program::new(seed);
            if !program.steps().any(|step| step.label.contains("mul.lo.s32 ")) {
                continue;
            }
            let pair = Pair {
                here: &|subject| run(&player, subject),
                there: &|subject| altered(&player, subject, "mul.lo.s32 ", "add.s32 "),
            };
            let Some(located) = locate_step(&program, &pair).expect("the host device runs") else { continue };
            found += 1;
            assert!(located.label.contains("mul.lo.s32 "), "{located}");
            assert!(located.differs_alone && located.threads > 0, "{located}");
            let values: Vec<u32> = located.operands.iter().map(|&(_, here, _)| here as u32).collect();
            assert!(located.operands.iter().all(|(_, here, there)| here == there), "{located}");
            let expected = (u64::from(values[0].wrapping_mul(values[1])), u64::from(values[0].wrapping_add(values[1])));
            assert_eq!(located.results, expected, "{located}");
            let shrunk = shrink_steps(&program, &pair, later()).expect("the host device runs").expect("they differ");
            assert_eq!(shrunk.steps.len(), 1, "{:?}", shrunk.steps);
            assert!(shrunk.module.contains("mul.lo.s32 "));
        }
        assert!(found > 0);
    }

    #[test]
    fn devices_that_agree_have_no_difference() {
        let player = player();
        let same = |subject: &Subject| run(&player, subject);
        let pair = Pair { here: &same, there: &same };
        for seed in 0..10 {
            assert_eq!(locate_step(&Program::new(seed), &pair), Ok(None));
            assert_eq!(shrink_steps(&Program::new(seed), &pair, later()), Ok(None));
        }
    }

    #[test]
    fn only_what_a_difference_needs_is_left() {
        let until = later();
        let needed = BTreeSet::from([3, 17, 18]);
        let differs = |steps: &BTreeSet<usize>| Ok(needed.is_subset(steps));
        assert_eq!(smallest((0..40).collect(), until, differs), Ok(Some(needed.clone())));
        assert_eq!(smallest((0..40).collect(), until, |_: &_| Ok(false)), Ok(None));
        let failing = |_: &BTreeSet<usize>| Err("the device is lost".to_owned());
        assert_eq!(smallest((0..40).collect(), until, failing), Err("the device is lost".to_owned()));
        // Without time all are left.
        assert_eq!(smallest((0..40).collect(), Instant::now(), differs), Ok(Some((0..40).collect())));
    }
}
