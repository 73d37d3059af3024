//! Comparisons and selections.

use super::reals::short_to_single;
use super::{Lower, Lowered, Modifiers, Spec, Width};
use crate::machine::{Select, Slot};
use crate::ops::compare::{self, Compare, CompareBranch};
use crate::ops::half::{HighHalf, LowHalf};
use crate::ops::{One, select, select_few, select_plain};
use crate::syntax::{Instruction, Operand};
use crate::types::{Meaning, Scalar};

/// A comparison of each type, in the order of its operators.
macro_rules! operators {
    ($wrap:ident, $name:expr; $($word:literal $operator:ident;)*) => {
        match $name {
            $($word => $wrap!($operator),)*
            other => Err(format!("the comparison .{other}")),
        }
    };
}

macro_rules! all {
    ($wrap:ident, $name:expr) => {
        operators!($wrap, $name;
            "eq" Equal; "ne" NotEqual; "lt" Less; "le" LessEqual; "gt" Greater; "ge" GreaterEqual;
            "equ" EqualOrNan; "neu" NotEqualOrNan; "ltu" LessOrNan; "leu" LessEqualOrNan;
            "gtu" GreaterOrNan; "geu" GreaterEqualOrNan; "num" Numbers; "nan" SomeNan;)
    };
}

/// Comparisons of integers. `lo`, `ls`, `hi` and `hs` are those of unsigned ones.
fn of_integer(name: &str, scalar: Scalar) -> Lowered<Select> {
    let name = match name {
        "lo" => "lt",
        "ls" => "le",
        "hi" => "gt",
        "hs" => "ge",
        other => other,
    };
    if matches!(scalar, Scalar::B16 | Scalar::B32 | Scalar::B64) {
        return match name {
            "eq" => choose_bits!(scalar, select::<Compare<compare::Equal<T>>>),
            "ne" => choose_bits!(scalar, select::<Compare<compare::NotEqual<T>>>),
            other => Err(format!("the comparison .{other} of bits")),
        };
    }
    macro_rules! wrap {
        ($operator:ident) => {
            choose_integer!(scalar, select::<Compare<compare::$operator<T>>>)
        };
    }
    operators!(wrap, name;
        "eq" Equal; "ne" NotEqual; "lt" Less; "le" LessEqual; "gt" Greater; "ge" GreaterEqual;)
}

/// Comparisons of integers with a branch by the result, of the types of counters.
fn branch_of(name: &str, scalar: Scalar) -> Lowered<Select> {
    macro_rules! wrap {
        ($operator:ident) => {
            choose!(scalar, [
                Scalar::U32 | Scalar::B32 => u32, Scalar::S32 => i32,
            ], select::<CompareBranch<compare::$operator<T>>>)
        };
    }
    operators!(wrap, name;
        "eq" Equal; "ne" NotEqual; "lt" Less; "le" LessEqual; "gt" Greater; "ge" GreaterEqual;
        "lo" Less; "ls" LessEqual; "hi" Greater; "hs" GreaterEqual;)
}

fn of_real(name: &str, scalar: Scalar) -> Lowered<Select> {
    macro_rules! single {
        ($operator:ident) => {
            Ok(select::<Compare<compare::$operator<f32>>> as Select)
        };
    }
    macro_rules! double {
        ($operator:ident) => {
            Ok(select_few::<Compare<compare::$operator<f64>>> as Select)
        };
    }
    match scalar {
        Scalar::F32 => all!(single, name),
        Scalar::F64 => all!(double, name),
        other => Err(format!("type .{}", other.name())),
    }
}

const WORDS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
];

/// A comparison, taken apart.
struct Comparison {
    flush: bool,
    combination: u32,
    types: Vec<Scalar>,
    name: &'static str,
}

impl<'a> Lower<'_, 'a> {
    fn comparison(&self, instruction: &Instruction<'a>) -> Lowered<Comparison> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let types = modifiers.types();
        let Some(index) = modifiers.take_any(&WORDS) else { return Err("a comparison without an operator".to_owned()) };
        let combination = modifiers.take_any(&["and", "or", "xor"]).map_or(compare::ALONE, |index| index as u32 + 1);
        let flush = modifiers.take("ftz");
        modifiers.finish()?;
        Ok(Comparison { flush, combination, types, name: WORDS[index] })
    }

    /// The operands of a comparison, and the predicate it is combined with.
    fn compared(
        &mut self,
        instruction: &Instruction<'a>,
        comparison: &Comparison,
        scalar: Scalar,
    ) -> Lowered<([Slot; 2], (Slot, bool))> {
        let combined = comparison.combination != compare::ALONE;
        self.count(instruction, if combined { 4 } else { 3 })?;
        let mut sources = [Slot(0); 2];
        for (slot, operand) in sources.iter_mut().zip(&instruction.operands[1..3]) {
            *slot = self.source(operand, scalar)?;
            if comparison.flush {
                *slot = self.flushed(*slot, scalar)?;
            }
            if matches!(scalar, Scalar::F16 | Scalar::Bf16) {
                let single = self.temporary(Width::W32)?;
                self.emit_one(short_to_single(scalar)?, single, *slot);
                *slot = single;
            }
        }
        let other = if combined { self.predicate(&instruction.operands[3])? } else { (Slot(0), false) };
        Ok((sources, other))
    }

    /// The low or the high halves of packed floats, as singles.
    fn halves(&mut self, slots: [Slot; 2], scalar: Scalar, high: bool) -> Lowered<[Slot; 2]> {
        let (run, one): (Select, _) = (
            if high { select_few::<One<HighHalf>> } else { select::<One<LowHalf>> },
            if scalar == Scalar::F16x2 { Scalar::F16 } else { Scalar::Bf16 },
        );
        let mut singles = [Slot(0); 2];
        for (single, slot) in singles.iter_mut().zip(slots) {
            let half = self.temporary(Width::W16)?;
            self.emit_one(run, half, slot);
            *single = self.temporary(Width::W32)?;
            self.emit_one(short_to_single(one)?, *single, half);
        }
        Ok(singles)
    }

    pub(super) fn setp(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let comparison = self.comparison(instruction)?;
        let &[scalar] = &*comparison.types else { return Err("these types".to_owned()) };
        let ([a, b], (c, negate)) = self.compared(instruction, &comparison, scalar)?;
        let (d, e) = match &instruction.operands[0] {
            Operand::Pair(both) => {
                let d = self.destination(&both.0, Scalar::Pred)?;
                (d, Some(self.destination(&both.1, Scalar::Pred)?))
            }
            one => (self.destination(one, Scalar::Pred)?, None),
        };
        let flags = comparison.combination;
        if matches!(scalar, Scalar::F16x2 | Scalar::Bf16x2) {
            let Some(e) = e else { return Err("a packed comparison with one result".to_owned()) };
            let run = of_real(comparison.name, Scalar::F32)?;
            // The predicate may be one of the results: the half that overwrites it comes last.
            let reads_first = flags != compare::ALONE && c == d;
            let order = if reads_first { [(true, e), (false, d)] } else { [(false, d), (true, e)] };
            for (high, d) in order {
                let [a, b] = self.halves([a, b], scalar, high)?;
                self.emit(Spec { d, a, b, c, flags, negate, ..Spec::new(run) });
            }
            return Ok(());
        }
        if e.is_some() && matches!(scalar, Scalar::F16 | Scalar::Bf16) {
            return Err(format!("two results of type .{}", scalar.name()));
        }
        let run = if scalar.meaning() == Meaning::Float {
            of_real(comparison.name, wider(scalar))?
        } else {
            of_integer(comparison.name, scalar)?
        };
        let (e, imm) = e.map_or((Slot(0), 0), |e| (e, 1));
        let alone = flags == compare::ALONE && imm == 0;
        let branch = if alone { branch_of(comparison.name, scalar).ok() } else { None };
        self.emit(Spec { d, a, b, c, e, imm, flags, negate, branch, ..Spec::new(run) });
        Ok(())
    }

    /// `set`: a comparison whose result is a number.
    pub(super) fn set(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let comparison = self.comparison(instruction)?;
        let &[to, scalar] = &*comparison.types else { return Err("these types".to_owned()) };
        let ([a, b], (c, negate)) = self.compared(instruction, &comparison, scalar)?;
        let flags = comparison.combination;
        if matches!(scalar, Scalar::F16x2 | Scalar::Bf16x2) {
            // Each half of the result is of the comparison of these halves.
            let yes = match to {
                Scalar::F16x2 => 0x3c00,
                Scalar::Bf16x2 => 0x3f80,
                Scalar::U32 | Scalar::S32 => 0xffff,
                _ => return Err(format!("a result of type .{}", to.name())),
            };
            let no = self.bits(Width::W32, 0)?;
            let mut halves = [no; 2];
            let run = of_real(comparison.name, Scalar::F32)?;
            for (half, slot) in halves.iter_mut().enumerate() {
                let [a, b] = self.halves([a, b], scalar, half == 1)?;
                let holds = self.temporary(Width::Predicate)?;
                self.emit(Spec { d: holds, a, b, c, flags, negate, ..Spec::new(run) });
                let yes = self.bits(Width::W32, yes << (16 * half))?;
                *slot = self.temporary(Width::W32)?;
                let run = select::<compare::Select<u32>>;
                self.emit(Spec { d: *slot, a: yes, b: no, e: holds, ..Spec::new(run) });
            }
            let d = self.destination(&instruction.operands[0], to)?;
            self.emit_two(select::<crate::ops::Two<crate::ops::bits::Or<u32>>>, d, halves[0], halves[1]);
            return Ok(());
        }
        let yes = match to {
            Scalar::F32 => u64::from(1f32.to_bits()),
            Scalar::F16 => 0x3c00,
            Scalar::Bf16 => 0x3f80,
            Scalar::U32 | Scalar::S32 | Scalar::U16 | Scalar::S16 => u64::MAX,
            _ => return Err(format!("a result of type .{}", to.name())),
        };
        let run = if scalar.meaning() == Meaning::Float {
            of_real(comparison.name, wider(scalar))?
        } else {
            of_integer(comparison.name, scalar)?
        };
        let holds = self.temporary(Width::Predicate)?;
        self.emit(Spec { d: holds, a, b, c, flags, negate, ..Spec::new(run) });
        let width = Width::of(to)?;
        let d = self.destination(&instruction.operands[0], to)?;
        let (yes, no) = (self.bits(width, yes)?, self.bits(width, 0)?);
        let run = choose_bits!(to, select::<compare::Select<T>>)?;
        self.emit(Spec { d, a: yes, b: no, e: holds, ..Spec::new(run) });
        Ok(())
    }

    pub(super) fn selp(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        super::memory::of_memory(scalar)?;
        self.count(instruction, 4)?;
        let run = choose_bits!(scalar, select::<compare::Select<T>>)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let b = self.source(&instruction.operands[2], scalar)?;
        let (e, negate) = self.predicate(&instruction.operands[3])?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        self.emit(Spec { d, a, b, e, negate, ..Spec::new(run) });
        Ok(())
    }

    /// `slct`: by the sign of the last operand.
    pub(super) fn slct(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let types = modifiers.types();
        let flush = modifiers.take("ftz");
        modifiers.finish()?;
        let &[scalar, by] = &*types else { return Err("these types".to_owned()) };
        self.count(instruction, 4)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let b = self.source(&instruction.operands[2], scalar)?;
        let mut c = self.source(&instruction.operands[3], by)?;
        if flush {
            c = self.flushed(c, by)?;
        }
        let zero = self.bits(Width::W32, 0)?;
        let holds = self.temporary(Width::Predicate)?;
        let run = match by {
            Scalar::S32 => of_integer("ge", by)?,
            Scalar::F32 => of_real("ge", by)?,
            _ => return Err(format!("type .{}", by.name())),
        };
        self.emit(Spec { d: holds, a: c, b: zero, ..Spec::new(run) });
        let d = self.destination(&instruction.operands[0], scalar)?;
        let run = choose_bits!(scalar, select::<compare::Select<T>>)?;
        self.emit(Spec { d, a, b, e: holds, ..Spec::new(run) });
        Ok(())
    }

    pub(super) fn testp(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let Some(kind) = modifiers.take_any(&compare::TESTS) else { return Err("testp without a test".to_owned()) };
        modifiers.finish()?;
        self.count(instruction, 2)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let d = self.destination(&instruction.operands[0], Scalar::Pred)?;
        let run = match scalar {
            Scalar::F32 => select_plain::<compare::TestSingle> as Select,
            Scalar::F64 => select_plain::<compare::TestDouble>,
            _ => return Err(format!("type .{}", scalar.name())),
        };
        self.emit(Spec { d, a, imm: kind as u64, ..Spec::new(run) });
        Ok(())
    }
}

/// The type that a comparison of floats is done in. Short ones have been converted, which is exact.
fn wider(scalar: Scalar) -> Scalar {
    if matches!(scalar, Scalar::F16 | Scalar::Bf16) { Scalar::F32 } else { scalar }
}
