//! The modifiers of an instruction, taken one by one. What is left over is not supported.

use super::Lowered;
use crate::float::Rounding;
use crate::types::Scalar;

pub(crate) struct Modifiers<'a> {
    left: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(all: &[&'a str]) -> Modifiers<'a> {
        Modifiers { left: all.to_vec() }
    }

    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.left.iter().position(|left| *left == word);
        if let Some(position) = found {
            self.left.remove(position);
        }
        found.is_some()
    }

    /// The first of these that is there, as its place in the list.
    pub(super) fn take_any(&mut self, words: &[&str]) -> Option<usize> {
        words.iter().position(|word| self.take(word))
    }

    /// Takes everything that has this beginning.
    pub(super) fn take_prefix(&mut self, prefix: &str) -> bool {
        let before = self.left.len();
        self.left.retain(|left| !left.starts_with(prefix));
        self.left.len() != before
    }

    /// All types, in order.
    pub(super) fn types(&mut self) -> Vec<Scalar> {
        let mut found = Vec::new();
        self.left.retain(|left| match Scalar::from_name(left) {
            Some(scalar) => {
                found.push(scalar);
                false
            }
            None => true,
        });
        found
    }

    /// The only type.
    pub(super) fn one_type(&mut self) -> Lowered<Scalar> {
        match *self.types() {
            [scalar] => Ok(scalar),
            [] => Err("an instruction without a type".to_owned()),
            [_, other, ..] => Err(format!("a second type, .{}", other.name())),
        }
    }

    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        const ALL: [Rounding; 5] =
            [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up, Rounding::NearestAway];
        self.take_any(&["rn", "rz", "rm", "rp", "rna"]).map(|index| ALL[index])
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.left.contains(&word)
    }

    /// The first that is left.
    pub(super) fn first(&self) -> Option<&'a str> {
        self.left.first().copied()
    }

    /// Nothing may be left.
    pub(super) fn finish(self) -> Lowered<()> {
        match self.left.first() {
            None => Ok(()),
            Some(word) => Err(format!("modifier .{word}")),
        }
    }
}
