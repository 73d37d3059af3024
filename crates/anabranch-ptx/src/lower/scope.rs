//! The names that one block of a function declares.

use std::collections::HashMap;

use super::{Local, Register};

/// Names, and ranges of registers such as `%r<10>`, which are apart: `%r` is none of `%r0` to `%r9`, and a label may be named as
/// one of them.
#[derive(Debug, Default)]
pub(super) struct Scope<'a> {
    names: HashMap<&'a str, Local>,
    /// By what is before the number: the register, and how many there are.
    ranges: HashMap<&'a str, (Register, u64)>,
    /// The lowest number of single names, by what is before it.
    lowest: HashMap<&'a str, u64>,
}

/// `%r12` as `%r` and 12. Zeros before a number do not count: `%r01` is `%r1`.
fn numbered(name: &str) -> Option<(&str, u64)> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = name.split_at(digits);
    Some((prefix, number.parse().ok()?))
}

impl<'a> Scope<'a> {
    /// What a name stands for, and the number of a register of a range, counted from 1.
    pub(super) fn find(&self, name: &str) -> Option<(Local, u64)> {
        let own = self.names.get(name).map(|local| (*local, 0));
        match own {
            // A label may have the name of a register of a range, which hides it.
            None | Some((Local::Label(_), _)) => self.find_in_range(name).or(own),
            own => own,
        }
    }

    /// The label of a name, also where a range of registers hides it.
    pub(super) fn label(&self, name: &str) -> Option<u32> {
        match self.names.get(name) {
            Some(Local::Label(label)) => Some(*label),
            _ => None,
        }
    }

    fn find_in_range(&self, name: &str) -> Option<(Local, u64)> {
        let (prefix, index) = numbered(name)?;
        let (register, count) = self.ranges.get(prefix)?;
        (index < *count).then_some((Local::Register(*register), index + 1))
    }

    /// Declares a name. Returns whether it is new.
    pub(super) fn declare(&mut self, name: &'a str, local: Local) -> bool {
        if matches!(local, Local::Label(_)) {
            return self.names.insert(name, local).is_none();
        }
        if self.names.contains_key(name) || self.find_in_range(name).is_some() {
            return false;
        }
        if let Some((prefix, index)) = numbered(name) {
            let lowest = self.lowest.entry(prefix).or_insert(index);
            *lowest = index.min(*lowest);
        }
        self.names.insert(name, local);
        true
    }

    /// Declares that many registers. Returns whether all are new.
    pub(super) fn declare_range(&mut self, prefix: &'a str, register: Register, count: u64) -> bool {
        let is_new = !self.ranges.contains_key(prefix) && self.lowest.get(prefix).is_none_or(|lowest| *lowest >= count);
        if is_new {
            self.ranges.insert(prefix, (register, count));
        }
        is_new
    }
}
