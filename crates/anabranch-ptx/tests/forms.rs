//! The forms of instructions: each is executed, and what is of none is refused, as NVIDIA's assembler has it, which
//! `ANABRANCH_PTXAS` names. Without it, the answers of `ptxas` 12.9 to the instructions of a list are expected.

#![allow(clippy::unwrap_used)]

#[path = "common/operands.rs"]
mod operands;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_ptx::{Module, instructions, modifier_sets};
use operands::{HEAD, TAIL, instruction, register};

/// Answers of the assembler: `+` before what it takes, `-` before what it refuses.
const ANSWERS: &str = include_str!("forms/answers.txt");

/// How many files have been written for the assembler.
static FILES: AtomicUsize = AtomicUsize::new(0);

fn text(version: &str, target: &str, lines: &[&str]) -> String {
    format!(".version {version}\n.target {target}\n{HEAD}{}\n{TAIL}", lines.join("\n"))
}

/// Why an instruction is not executed.
fn refusal(line: &str) -> Option<String> {
    match Module::parse(&text("8.8", "sm_90", &[line])) {
        Err(error) => Some(error.to_string()),
        Ok(module) => {
            module.functions().iter().flat_map(|function| &function.refusals).next().map(|one| one.what.clone())
        }
    }
}

/// Which of these instructions the assembler takes, for one of several targets. None without an assembler.
fn asked(lines: &[String]) -> Option<BTreeSet<String>> {
    let assembler = std::env::var_os("ANABRANCH_PTXAS")?;
    let mut taken = BTreeSet::new();
    // Of some instructions, an early target alone has the form without `.sync`, and a late one alone the form at all.
    for (version, target) in [("8.8", "sm_90"), ("8.8", "sm_100a"), ("6.2", "sm_60")] {
        let left = lines.iter().map(String::as_str).filter(|line| !taken.contains(*line));
        let mut work: Vec<Vec<&str>> = left.collect::<Vec<_>>().chunks(1000).map(<[_]>::to_vec).collect();
        while let Some(chunk) = work.pop() {
            let early = version < "8";
            let text = text(version, target, &chunk);
            let text = if early { text.replace(" .reg .b128 %q<9>;", "") } else { text };
            let unique = FILES.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("anabranch-forms-{}-{unique}.ptx", std::process::id()));
            std::fs::write(&path, text).unwrap();
            let output = Command::new(&assembler).args(["-O0", "-arch", target, "-o", "/dev/null"]).arg(&path).output();
            let output = output.unwrap();
            std::fs::remove_file(&path).unwrap();
            if output.status.success() {
                taken.extend(chunk.into_iter().map(str::to_owned));
                continue;
            }
            let messages = String::from_utf8_lossy(&output.stderr).into_owned();
            let line_of = |message: &str| message.split_once(", line ")?.1.split_once(';')?.0.parse::<usize>().ok();
            let first = HEAD.lines().count() + 3;
            let errors = messages.lines().filter(|message| message.contains("; error"));
            let wrong: BTreeSet<usize> = errors.filter_map(line_of).map(|line| line.wrapping_sub(first)).collect();
            let right: Vec<&str> =
                chunk.iter().enumerate().filter(|(at, _)| !wrong.contains(at)).map(|(_, line)| *line).collect();
            if right.len() < chunk.len() {
                work.push(right);
            } else if let (start, end @ [_, ..]) = chunk.split_at(chunk.len() / 2)
                && !start.is_empty()
            {
                work.extend([start.to_vec(), end.to_vec()]);
            }
        }
    }
    Some(taken)
}

/// What PTX has since versions that `ptxas` 12.9 does not know.
fn is_newer(line: &str) -> bool {
    line.starts_with("sub") && line.contains("16x2 ") && !line.contains("f16x2")
        || line.contains(".volatile") && line.contains(".local")
}

/// A form of an instruction: the words before all others, and places with the words that each may have.
struct Form {
    prefix: Vec<&'static str>,
    places: Vec<(bool, Vec<&'static str>)>,
}

fn forms() -> Vec<(&'static str, Form)> {
    let sets: BTreeMap<_, _> = modifier_sets().collect();
    let mut all = Vec::new();
    for instruction in instructions() {
        for form in instruction.support.into_iter().flat_map(|forms| forms.split(", ")) {
            let (prefix, rest) = if form.contains(' ') { form.split_once(' ').unwrap() } else { ("", form) };
            let place = |place: &'static str| {
                let name = place.trim_end_matches(['{', '}']);
                (place.contains('}'), sets.get(name).map_or_else(|| vec![name], |words| words.to_vec()))
            };
            let prefix = prefix.split('.').filter(|word| !word.is_empty()).collect();
            all.push((instruction.name, Form { prefix, places: rest.split('.').skip(1).map(place).collect() }));
        }
    }
    all
}

impl Form {
    /// Its modifiers, with one word for each place that has one.
    fn words(&self, word_of: impl Fn(usize) -> Option<usize>) -> Vec<&'static str> {
        let chosen = self.places.iter().enumerate().filter_map(|(at, (_, words))| Some(words[word_of(at)?]));
        self.prefix.iter().copied().chain(chosen).collect()
    }

    /// Each word of each place, with what is required of the other places, and all places at once.
    fn all(&self) -> BTreeSet<Vec<&'static str>> {
        let required = |at: usize| (!self.places[at].0).then_some(0);
        let mut all = BTreeSet::from([self.words(required), self.words(|_| Some(0))]);
        for (place, (_, words)) in self.places.iter().enumerate() {
            for word in 0..words.len() {
                all.insert(self.words(|at| if at == place { Some(word) } else { required(at) }));
            }
        }
        all
    }
}

/// A vector that is larger than what is loaded or stored at once.
fn is_too_large(words: &[&str]) -> bool {
    let size = |word: &&str| register(word).and_then(|letter| "_hrd".find(letter)).map_or(16, |size| 1 << size);
    let bytes = words.iter().rfind(|word| register(word).is_some()).map_or(0, size);
    let count = words.iter().find_map(|word| word.strip_prefix('v')?.parse().ok()).unwrap_or(1);
    count > 1 && count * bytes > 16
}

#[test]
fn each_form_is_taken() {
    let mut lines = BTreeSet::new();
    for (name, form) in forms() {
        for words in form.all() {
            if !is_too_large(&words) {
                lines.insert(instruction(name, &words));
            }
            // The order counts for types and for the words of the name.
            let (mut others, types): (Vec<&str>, Vec<&str>) =
                words[form.prefix.len()..].iter().partition(|word| register(word).is_none());
            others.reverse();
            let reversed: Vec<&str> = form.prefix.iter().copied().chain(types).chain(others).collect();
            if !is_too_large(&words) {
                lines.insert(instruction(name, &reversed));
            }
        }
    }
    assert!(lines.len() > 2000);
    for line in &lines {
        assert_eq!(refusal(line), None, "{line}");
    }
    let lines: Vec<String> = lines.into_iter().collect();
    if let Some(taken) = asked(&lines) {
        let refused: Vec<&String> = lines.iter().filter(|line| !taken.contains(*line) && !is_newer(line)).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// One step away from a form: words in another order, there twice, left out, added, or exchanged.
fn mutate(words: &mut Vec<&'static str>, own: &[&'static str], all: &[&'static str], random: &mut Random) {
    let at = random.below(words.len());
    match random.below(5) {
        0 if words.len() > 1 => {
            let other = random.below(words.len());
            words.swap(at, other);
        }
        1 if !words.is_empty() => words.insert(at, words[random.below(words.len())]),
        2 if !words.is_empty() => drop(words.remove(at)),
        3 if !words.is_empty() => words[at] = own[random.below(own.len())],
        _ => words.insert(at, all[random.below(all.len())]),
    }
}

#[test]
fn what_is_of_no_form_is_refused_as_the_assembler_does() {
    let forms = forms();
    let all: BTreeSet<&str> =
        forms.iter().flat_map(|(_, form)| form.places.iter().flat_map(|place| &place.1)).copied().collect();
    let all: Vec<&str> = all.into_iter().collect();
    let seed = std::env::var("ANABRANCH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    let mut taken_here = BTreeSet::new();
    for (name, form) in &forms {
        let own = forms.iter().filter(|(other, _)| other == name).flat_map(|(_, form)| form.all()).flatten();
        let own: Vec<&str> = own.chain(all.iter().copied().take(1)).collect();
        for words in form.all() {
            let mut words = words;
            for _ in 0..=random.below(2) {
                mutate(&mut words, &own, &all, &mut random);
            }
            let line = instruction(name, &words);
            if refusal(&line).is_none() {
                taken_here.insert(line);
            }
        }
    }
    // Most steps lead away from all forms.
    assert!(taken_here.len() > 100);
    let lines: Vec<String> = taken_here.into_iter().collect();
    if let Some(taken) = asked(&lines) {
        let lax: Vec<&String> = lines.iter().filter(|line| !taken.contains(*line) && !is_newer(line)).collect();
        assert!(lax.is_empty(), "seed {seed}: {lax:#?}");
    }
}

#[test]
fn answers_are_those_of_the_assembler() {
    let answers: Vec<(&str, &str)> = ANSWERS.lines().filter_map(|line| line.split_once(' ')).collect();
    assert!(answers.len() > 100);
    for (answer, line) in &answers {
        match refusal(line) {
            None => assert_eq!(*answer, "+", "{line}"),
            Some(message) => assert_eq!(*answer, "-", "{line}: {message}"),
        }
    }
    let lines: Vec<String> = answers.iter().map(|(_, line)| (*line).to_owned()).collect();
    if let Some(taken) = asked(&lines) {
        for (answer, line) in &answers {
            assert_eq!(taken.contains(*line), *answer == "+", "{line}");
        }
    }
}

#[test]
fn a_refusal_names_the_line_the_instruction_and_the_closest_form() {
    let module = Module::parse(&text("8.8", "sm_90", &["add.sat.f64 %d1, %d2, %d3;"])).unwrap();
    let refusals = &module.functions().iter().find(|function| function.name == "k").unwrap().refusals;
    let [refusal] = &**refusals else { panic!("{refusals:?}") };
    assert_eq!(refusal.line as usize, HEAD.lines().count() + 3);
    let expected = "add.sat.f64: these modifiers, which are those of no form; the closest is add{.rnd}.f64; .rnd is one of .rn .rz .rm .rp";
    assert_eq!(refusal.what, expected);
}
