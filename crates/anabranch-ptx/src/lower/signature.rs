//! What functions take and return, and whether a call agrees with it.

use super::{Framed, Item, Local, Lower, layout};
use crate::syntax::{Function, Instruction, Operand, Variable};
use crate::types::{Meaning, Scalar, Space};

/// A parameter or a result of a function, or what is passed for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Formal {
    pub(super) scalar: Scalar,
    pub(super) bytes: u64,
    pub(super) alignment: u32,
    is_array: bool,
    is_register: bool,
}

impl Formal {
    pub(super) fn of(variable: &Variable<'_>) -> Formal {
        // What has no layout is refused where it is declared.
        let (bytes, alignment) = layout(variable).unwrap_or((u64::MAX, 1));
        let (is_array, is_register) = (!variable.dimensions.is_empty(), variable.space == Space::Register);
        Formal { scalar: variable.scalar, bytes, alignment, is_array, is_register }
    }

    /// A register of a type.
    fn of_register(scalar: Scalar, vector: u32) -> Formal {
        let bytes = u64::from(scalar.bytes() * vector);
        Formal { scalar, bytes, alignment: scalar.bytes(), is_array: false, is_register: true }
    }

    /// Whether one is passed for the other: bits for anything of their size, and integers for each other.
    fn agrees(&self, other: &Formal) -> bool {
        let is_aligned = self.is_register || other.is_register || self.alignment == other.alignment;
        if self.is_array || other.is_array {
            // `[]` has any size.
            let has_size = self.bytes == other.bytes || self.bytes == 0 || other.bytes == 0;
            return self.is_array && other.is_array && has_size && is_aligned;
        }
        let (own, others) = (self.scalar.meaning(), other.scalar.meaning());
        let is_float = |meaning| meaning == Meaning::Float;
        let is_bits = own == Meaning::Bits || others == Meaning::Bits;
        self.bytes == other.bytes && is_aligned && (is_bits || is_float(own) == is_float(others))
    }
}

/// What a function takes and returns.
#[derive(Clone, Default, Debug)]
pub(crate) struct Signature {
    kernel: bool,
    pub(super) results: Vec<Formal>,
    pub(super) parameters: Vec<Formal>,
}

impl Signature {
    pub(crate) fn of(function: &Function<'_>) -> Signature {
        Signature { kernel: function.kernel, ..Signature::of_lists(&function.results, &function.parameters) }
    }

    /// Whether functions can be called in place of each other.
    pub(super) fn agrees(&self, other: &Signature) -> bool {
        let agree = |one: &[Formal], other: &[Formal]| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.agrees(other))
        };
        self.kernel == other.kernel
            && agree(&self.results, &other.results)
            && agree(&self.parameters, &other.parameters)
    }

    pub(super) fn of_lists(results: &[Variable<'_>], parameters: &[Variable<'_>]) -> Signature {
        let formals = |list: &[Variable<'_>]| list.iter().map(Formal::of).collect();
        Signature { kernel: false, results: formals(results), parameters: formals(parameters) }
    }
}

impl<'a> Lower<'_, 'a> {
    /// Checks that a call agrees with what the function takes and returns, as an assembler does.
    pub(super) fn check_call(
        &mut self,
        instruction: &Instruction<'a>,
        signature: &Signature,
        results: &[Operand<'a>],
        arguments: &[Operand<'a>],
    ) {
        let mut what = None;
        if signature.kernel {
            what = Some("a call of a kernel".to_owned());
        }
        for (kind, formals, actuals) in
            [("result", &signature.results, results), ("argument", &signature.parameters, arguments)]
        {
            let (needed, found) = (formals.len(), actuals.len());
            if needed != found {
                let ending = if needed == 1 { "" } else { "s" };
                what.get_or_insert_with(|| format!("a call with {found} of {needed} {kind}{ending}"));
            }
            for (index, (formal, actual)) in formals.iter().zip(actuals).enumerate() {
                let number = index + 1;
                match self.actual(actual) {
                    Actual::Any if formal.is_array => {
                        what.get_or_insert_with(|| format!("a number for the array that is {kind} {number} of a call"));
                    }
                    Actual::Of(actual) if !formal.agrees(&actual) => {
                        let message = || format!("a call whose {kind} {number} has another type, size or alignment");
                        what.get_or_insert_with(message);
                    }
                    Actual::Wrong(name) => {
                        let message = || {
                            format!(
                                "`{name:.60}` as {kind} {number} of a call, which is neither a register nor a `.param` variable of this function's body"
                            )
                        };
                        what.get_or_insert_with(message);
                    }
                    _ => {}
                }
            }
        }
        if let Some(what) = what {
            self.invalid(instruction.at, what);
        }
    }

    fn actual(&self, operand: &Operand<'a>) -> Actual<'a> {
        match *operand {
            Operand::Constant(_) => Actual::Any,
            Operand::Name(name, 0) => match self.find(name) {
                Some((Local::Frame(_, Framed::Passed(formal)), _)) => Actual::Of(formal),
                Some((Local::Register(register), _)) => {
                    Actual::Of(Formal::of_register(register.scalar, register.vector))
                }
                Some(_) => Actual::Wrong(name),
                None => match self.items.by_name.get(name) {
                    Some(Item::Variable(_) | Item::Function(_)) => Actual::Wrong(name),
                    None => Actual::Unknown,
                },
            },
            _ => Actual::Unknown,
        }
    }
}

/// What is passed to a function.
enum Actual<'a> {
    /// A number, which is of any type.
    Any,
    Of(Formal),
    /// Something that cannot be passed.
    Wrong(&'a str),
    /// Something that is refused elsewhere, or not wanted.
    Unknown,
}
