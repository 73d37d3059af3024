//! The forms of instructions, in the notation of the PTX ISA: the modifiers that an instruction may have together.
//!
//! A form such as `lo {.cc}.integer` begins with the words that are a part of the name, which come first. Types follow each
//! other in the order of the form. The other modifiers are in any order, as for NVIDIA's assembler, each of them once; those
//! in braces may be left out. A name of [`SETS`] stands for one of its modifiers.

pub(super) mod many;
mod sets;

use std::sync::LazyLock;

use super::Lowered;
use super::table::TABLE;
use crate::types::Scalar;
pub(crate) use sets::SETS;

/// What separates forms in the table.
const SEPARATOR: &str = ", ";

/// Modifiers that NVIDIA's assembler takes more than once, of instructions that have no other check of their modifiers.
const FLAGS: [&str; 2] = ["uni", "sync"];

/// More modifiers than an instruction has.
const MOST: usize = 32;

/// A form, taken apart.
struct Form {
    text: &'static str,
    prefix: Vec<&'static str>,
    types: Vec<Place>,
    others: Vec<Place>,
}

/// A place for one modifier.
struct Place {
    optional: bool,
    words: Vec<&'static str>,
}

impl Place {
    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

/// The forms of each instruction, in the order of the table.
static FORMS: LazyLock<Vec<Vec<Form>>> = LazyLock::new(|| TABLE.iter().map(|entry| parse(entry.forms)).collect());

fn parse(forms: &'static str) -> Vec<Form> {
    forms.split(SEPARATOR).map(Form::new).collect()
}

/// Whether the order of a modifier counts.
fn is_type(word: &str) -> bool {
    Scalar::from_name(word).is_some() || matches!(word, "u2" | "s2" | "u4" | "s4")
}

/// The set of a name.
fn set(name: &str) -> Option<&'static [&'static str]> {
    SETS.iter().find(|(known, _)| *known == name).map(|(_, words)| *words)
}

/// The places of a form: their names, and whether they may be left out.
fn places(text: &'static str) -> impl Iterator<Item = (&'static str, bool)> {
    text.split('.').skip(1).map(|place| (place.trim_end_matches(['{', '}']), place.contains('}')))
}

impl Form {
    fn new(text: &'static str) -> Form {
        let (prefix, rest) =
            if text.starts_with(['.', '{']) { ("", text) } else { text.split_once(' ').unwrap_or((text, "")) };
        let prefix = prefix.split('.').filter(|word| !word.is_empty()).collect();
        let mut form = Form { text, prefix, types: Vec::new(), others: Vec::new() };
        for (name, optional) in places(rest) {
            let words = set(name).map_or_else(|| vec![name], <[_]>::to_vec);
            let is_of_types = words.iter().all(|word| is_type(word));
            let places = if is_of_types { &mut form.types } else { &mut form.others };
            places.push(Place { optional, words });
        }
        form
    }

    fn fits(&self, modifiers: &[&str], types: &[&str]) -> bool {
        if types.len() != self.types.len() || !self.types.iter().zip(types).all(|(place, word)| place.has(word)) {
            return false;
        }
        let Some(others) = modifiers.get(self.prefix.len()..) else { return false };
        if !self.prefix.iter().eq(&modifiers[..self.prefix.len()]) {
            return false;
        }
        let Some(mut left) = others.len().checked_sub(types.len()) else { return false };
        for place in &self.others {
            match others.iter().filter(|word| place.has(word)).count() {
                0 if place.optional => {}
                1 if left > 0 => left -= 1,
                _ => return false,
            }
        }
        left == 0
    }

    /// How many modifiers of an instruction have no place here, and how many places lack one.
    fn distance(&self, modifiers: &[&str], types: &[&str]) -> usize {
        let prefix = self.prefix.iter().zip(modifiers).filter(|(own, word)| own == word).count();
        let of_types = self.types.iter().zip(types).filter(|(place, word)| place.has(word)).count();
        let is_found = |place: &&Place| modifiers.iter().any(|word| place.has(word));
        let others = self.others.iter().filter(is_found).count();
        let lacking = self.others.iter().filter(|place| !place.optional && !is_found(place)).count();
        (self.prefix.len() - prefix)
            + (self.types.len() - of_types)
            + lacking
            + modifiers.len().saturating_sub(prefix + of_types + others)
    }

    /// The message about an instruction that should have had this form.
    fn expected(&self, name: &str) -> String {
        let mut text = format!("these modifiers, which are those of no form; the closest is {}", full(name, self.text));
        for (place, _) in places(self.text) {
            if let Some(words) = set(place) {
                text.push_str(&format!("; .{place} is one of .{}", words.join(" .")));
            }
        }
        text
    }
}

/// The modifiers without those that NVIDIA's assembler ignores, which are also a test of `testp`.
fn counted<'a>(modifiers: &[&'a str]) -> Vec<&'a str> {
    let (mut counted, mut has_test) = (Vec::new(), false);
    // No form has as many modifiers as a hostile text may have.
    for word in modifiers.iter().take(MOST) {
        let is_repeated = FLAGS.contains(word) && counted.contains(word);
        let is_test = !has_test && set("test").is_some_and(|tests| tests.contains(word));
        has_test |= is_test;
        if !is_repeated && !is_test {
            counted.push(word);
        }
    }
    counted
}

/// Checks that an instruction, by its place in the table, has one of its forms.
pub(super) fn check(entry: usize, modifiers: &[&str]) -> Lowered<()> {
    let forms = FORMS.get(entry).map_or(&[][..], |forms| forms);
    let types: Vec<&str> = modifiers.iter().copied().filter(|word| is_type(word)).collect();
    if forms.iter().any(|form| form.fits(modifiers, &types)) {
        return Ok(());
    }
    let entry = TABLE.get(entry).map_or("", |entry| entry.name);
    let counted = counted(modifiers);
    if modifiers.len() <= MOST
        && counted.len() < modifiers.len()
        && forms.iter().any(|form| form.fits(&counted, &types))
    {
        return Ok(());
    }
    let closest = forms.iter().min_by_key(|form| form.distance(modifiers, &types));
    Err(closest.map_or_else(String::new, |form| form.expected(entry)))
}

/// A form with the name of its instruction, as the PTX ISA writes it.
fn full(name: &str, form: &str) -> String {
    let separator = if form.is_empty() || form.starts_with(['.', '{']) { "" } else { "." };
    format!("{name}{separator}{}", form.replacen(' ', "", 1))
}

#[cfg(test)]
mod tests {
    use super::{Form, SETS, TABLE, places};
    use std::collections::BTreeSet;

    #[test]
    fn a_place_takes_one_modifier() {
        let fits =
            |modifiers: &[&str]| Form::new("hi {.cc}.sat.word").fits(modifiers, &modifiers[modifiers.len() - 1..]);
        assert!(fits(&["hi", "sat", "s32"]) && fits(&["hi", "cc", "sat", "u32"]) && fits(&["hi", "sat", "cc", "u32"]));
        for wrong in [&["sat", "s32"][..], &["hi", "s32"], &["sat", "hi", "s32"], &["hi", "sat", "sat", "s32"]] {
            assert!(!fits(wrong), "{wrong:?}");
        }
        assert!(!fits(&["hi", "sat", "u16"]) && !fits(&["hi", "sat", "ftz", "u32"]));
    }

    #[test]
    fn each_set_is_used_and_none_is_called_like_a_modifier() {
        let used: BTreeSet<&str> =
            TABLE.iter().flat_map(|entry| entry.forms.split(", ").flat_map(places)).map(|place| place.0).collect();
        for (name, words) in SETS {
            assert!(used.contains(name), "{name}");
            assert!(SETS.iter().all(|(_, others)| !others.contains(name)), "{name}");
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{name}");
        }
    }
}
