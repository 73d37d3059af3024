//! The forms of instructions, by what the manual defines.

mod approximate;
mod atomics;
mod compare;
mod convert;
mod floats;
mod integers;
mod lanes;
mod memory;

use super::element::{Float, Tolerance};
use std::sync::LazyLock;

/// A form of an instruction: its text with the operands `%a %b %c` and the result `%d`, whose letters the module `operand`
/// explains.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    pub(super) text: String,
    letters: [char; 4],
    /// How far results may be apart, if they are approximations.
    pub(super) near: Option<Tolerance>,
}

impl Form {
    /// A form that only composed programs have.
    pub(super) fn new(letters: &str, text: impl Into<String>) -> Self {
        let mut all = ['_'; 4];
        for (place, letter) in all.iter_mut().zip(letters.chars()) {
            *place = letter;
        }
        Self { text: text.into(), letters: all, near: None }
    }

    /// The letter of the result (0) or of an operand.
    pub(super) fn letter(&self, place: usize) -> char {
        self.letters[place]
    }

    pub(super) fn letters(&self) -> impl Iterator<Item = char> {
        self.letters.into_iter().map(|letter| if letter == '_' { 'w' } else { letter })
    }

    /// Whether it is one statement, which can have a guard.
    ///
    /// `set` and `testp` can have one too, but NVIDIA's driver (580.159.04) compiles them into several instructions, of which
    /// not all have it.
    pub(super) fn is_simple(&self) -> bool {
        self.text.matches(';').count() == 1 && !["set.", "testp."].iter().any(|name| self.text.starts_with(name))
    }

    /// Whether all lanes of a warp have to run it together.
    pub(super) fn is_collective(&self) -> bool {
        self.text.contains(".sync.")
    }

    /// Whether it can be a part of a composed program: its result is exact, and it needs no other threads but those of its
    /// warp.
    pub(super) fn is_part(&self) -> bool {
        let is_for_blocks = ["bar.sync", "bar.red", "barrier."].iter().any(|name| self.text.contains(name));
        self.near.is_none() && !is_for_blocks
    }
}

/// Forms as they are collected.
#[derive(Default)]
pub(super) struct Forms(Vec<Form>);

impl Forms {
    /// Adds a form, with the letters of its result and operands.
    fn add(&mut self, letters: &str, text: impl Into<String>) {
        let mut text = text.into();
        if !text.ends_with(';') && !text.ends_with(" }") {
            text.push(';');
        }
        self.0.push(Form::new(letters, text));
    }

    /// Adds a form with the error that the manual states. Two results may be twice as far apart.
    fn near(&mut self, letters: &str, text: impl Into<String>, float: Float, relative: f64, absolute: f64) {
        self.add(letters, text);
        if let Some(form) = self.0.last_mut() {
            form.near = Some(Tolerance { float, relative: 2.0 * relative, absolute: 2.0 * absolute });
        }
    }
}

/// All forms.
pub(super) fn all() -> &'static [Form] {
    static ALL: LazyLock<Vec<Form>> = LazyLock::new(|| {
        let mut forms = Forms::default();
        integers::add(&mut forms);
        compare::add(&mut forms);
        floats::add(&mut forms);
        convert::add(&mut forms);
        memory::add(&mut forms);
        atomics::add(&mut forms);
        lanes::add(&mut forms);
        approximate::add(&mut forms);
        forms.0
    });
    &ALL
}

/// The letter of integers of a size.
fn of_bits(bits: &str) -> &'static str {
    match bits {
        "16" => "h",
        "64" => "l",
        _ => "w",
    }
}

/// The letter of a type, such as `s16` or `f32`.
fn of_type(name: &str) -> &'static str {
    match name {
        "f16" => "H",
        "bf16" => "B",
        "f32" => "F",
        "f64" => "D",
        "f16x2" => "V",
        "bf16x2" => "X",
        integer => of_bits(integer.trim_start_matches(char::is_alphabetic)),
    }
}
