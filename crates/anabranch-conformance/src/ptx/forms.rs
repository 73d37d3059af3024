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
    pub(super) use_in_programs: Use,
}

/// Where a form can be used in a composed program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Anywhere.
    Anywhere,
    /// Where all lanes of a warp run it together.
    Together,
    /// Nowhere.
    Nowhere,
}

impl Form {
    /// The letter of the result (0) or of an operand.
    pub(super) fn letter(&self, place: usize) -> char {
        self.letters[place]
    }

    pub(super) fn letters(&self) -> impl Iterator<Item = char> {
        self.letters.into_iter().map(|letter| if letter == '_' { 'w' } else { letter })
    }

    /// Whether it is one statement, which can have a guard.
    pub(super) fn is_simple(&self) -> bool {
        self.text.matches(';').count() == 1
    }
}

/// Forms as they are collected.
#[derive(Default)]
pub(super) struct Forms(Vec<Form>);

impl Forms {
    /// Adds a form, with the letters of its result and operands.
    fn add(&mut self, letters: &str, text: impl Into<String>) {
        self.add_for(Use::Anywhere, letters, text);
    }

    fn add_for(&mut self, use_in_programs: Use, letters: &str, text: impl Into<String>) {
        let mut all = ['_'; 4];
        for (place, letter) in all.iter_mut().zip(letters.chars()) {
            *place = letter;
        }
        let mut text = text.into();
        if !text.ends_with(';') && !text.ends_with(" }") {
            text.push(';');
        }
        // NaN that may be any must not get into other results.
        let any = matches!(all[0], 'e' | 'g' | 'f' | 'v' | 'x');
        let use_in_programs = if any { Use::Nowhere } else { use_in_programs };
        self.0.push(Form { text, letters: all, near: None, use_in_programs });
    }

    /// Adds a form with the error that the manual states. Two results may be twice as far apart.
    fn near(&mut self, letters: &str, text: impl Into<String>, float: Float, relative: f64, absolute: f64) {
        self.add_for(Use::Nowhere, letters, text);
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
