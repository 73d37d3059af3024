//! Logic, shifts, bit fields and permutations.

use super::{Lower, Lowered, Modifiers, Spec, range};
use crate::machine::Select;
use crate::ops::{One, Three, Two, bits, integer, select, select_few, select_plain};
use crate::syntax::{Constant, Instruction, Operand};
use crate::types::Scalar;

impl<'a> Lower<'_, 'a> {
    pub(super) fn logic(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        let opcode = instruction.opcode;
        if scalar == Scalar::Pred {
            return self.predicate_logic(instruction);
        }
        let run = match opcode {
            "and" => choose_bits!(scalar, select::<Two<bits::And<T>>>),
            "or" => choose_bits!(scalar, select::<Two<bits::Or<T>>>),
            "xor" => choose_bits!(scalar, select::<Two<bits::Xor<T>>>),
            "not" => choose_bits!(scalar, select_few::<One<bits::Not<T>>>),
            _ => choose_bits!(scalar, select_few::<One<bits::LogicalNot<T>>>),
        }?;
        if matches!(opcode, "not" | "cnot") {
            self.unary(instruction, scalar, run)
        } else {
            self.binary(instruction, scalar, run)
        }
    }

    fn predicate_logic(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        // The values for neither, the second only, the first only, and both.
        let (mut table, count) = match instruction.opcode {
            "and" => (0b1000u64, 3),
            "or" => (0b1110, 3),
            "xor" => (0b0110, 3),
            "not" => (0b0011, 2),
            _ => return Err("type .pred".to_owned()),
        };
        self.count(instruction, count)?;
        let d = self.destination(&instruction.operands[0], Scalar::Pred)?;
        let (a, a_negated) = self.predicate(&instruction.operands[1])?;
        let (b, b_negated) = if count == 3 { self.predicate(&instruction.operands[2])? } else { (a, false) };
        if count == 2 {
            table = 0b0011;
        }
        if a_negated {
            table = (table << 2 | table >> 2) & 15;
        }
        if b_negated {
            table = (table & 5) << 1 | (table & 10) >> 1;
        }
        self.emit(Spec { d, a, b, imm: table, ..Spec::new(select_plain::<bits::PredicateLogic>) });
        Ok(())
    }

    pub(super) fn shift(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        let run = if instruction.opcode == "shl" {
            choose_bits!(scalar, select::<Two<integer::ShiftLeft<T>>>)
        } else {
            choose!(scalar, [
                Scalar::U16 | Scalar::B16 => u16, Scalar::U32 | Scalar::B32 => u32, Scalar::U64 | Scalar::B64 => u64,
                Scalar::S16 => i16, Scalar::S32 => i32, Scalar::S64 => i64,
            ], select::<Two<integer::ShiftRight<T>>>)
        }?;
        self.count(instruction, 3)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let b = self.source(&instruction.operands[2], Scalar::U32)?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        self.emit_two(run, d, a, b);
        Ok(())
    }

    pub(super) fn funnel(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let right = modifiers.take_any(&["l", "r"]);
        let wrap = modifiers.take_any(&["clamp", "wrap"]);
        modifiers.finish()?;
        let run = match (right, wrap) {
            (Some(0), Some(0)) => select_few::<Three<bits::FunnelLeftClamp>> as Select,
            (Some(0), Some(1)) => select::<Three<bits::FunnelLeftWrap>>,
            (Some(1), Some(0)) => select_few::<Three<bits::FunnelRightClamp>>,
            (Some(1), Some(1)) => select_few::<Three<bits::FunnelRightWrap>>,
            _ => return Err("shf without .l or .r, and .clamp or .wrap".to_owned()),
        };
        self.ternary(instruction, [scalar, scalar, Scalar::U32, scalar], run)
    }

    pub(super) fn lookup(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        self.count(instruction, 5)?;
        let Operand::Constant(Constant::Integer(table)) = instruction.operands[4] else {
            return Err("lop3 whose table is no number".to_owned());
        };
        let mut sources = [crate::machine::Slot(0); 3];
        for (slot, operand) in sources.iter_mut().zip(&instruction.operands[1..4]) {
            *slot = self.source(operand, scalar)?;
        }
        let [a, b, c] = sources;
        let d = self.destination(&instruction.operands[0], scalar)?;
        self.emit(Spec { d, a, b, c, imm: table as u64, ..Spec::new(select::<bits::Lookup>) });
        Ok(())
    }

    /// `popc`, `clz`, `brev`, `bfind`.
    pub(super) fn count_bits(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let shift = modifiers.take("shiftamt");
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        let signed = matches!(scalar, Scalar::S32 | Scalar::S64);
        let run = match (instruction.opcode, shift, signed) {
            ("popc", ..) => choose_bits!(scalar, select_few::<One<bits::Ones<T>>>),
            ("clz", ..) => choose_bits!(scalar, select_few::<One<bits::Leading<T>>>),
            ("brev", ..) => choose_bits!(scalar, select_few::<One<bits::Reverse<T>>>),
            (_, false, false) => choose_bits!(scalar, select_few::<One<bits::FindUnsigned<T>>>),
            (_, false, true) => choose_bits!(scalar, select_few::<One<bits::FindSigned<T>>>),
            (_, true, false) => choose_bits!(scalar, select_few::<One<bits::ShiftUnsigned<T>>>),
            (_, true, true) => choose_bits!(scalar, select_few::<One<bits::ShiftSigned<T>>>),
        }?;
        let to = if instruction.opcode == "brev" { scalar } else { Scalar::U32 };
        self.unary_to(instruction, scalar, to, run)
    }

    pub(super) fn bit_field(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        if instruction.opcode == "bfi" {
            let run = choose!(scalar, [Scalar::B32 => u32, Scalar::B64 => u64], select_few::<bits::Insert<T>>)?;
            self.count(instruction, 5)?;
            check_field(&instruction.operands[3..])?;
            let a = self.source(&instruction.operands[1], scalar)?;
            let b = self.source(&instruction.operands[2], scalar)?;
            let c = self.source(&instruction.operands[3], Scalar::U32)?;
            let e = self.source(&instruction.operands[4], Scalar::U32)?;
            let d = self.destination(&instruction.operands[0], scalar)?;
            self.emit(Spec { d, a, b, c, e, ..Spec::new(run) });
            return Ok(());
        }
        let run = match scalar {
            Scalar::U32 => select_few::<Three<bits::ExtractUnsigned<u32>>> as Select,
            Scalar::U64 => select_few::<Three<bits::ExtractUnsigned<u64>>>,
            Scalar::S32 => select_few::<Three<bits::ExtractSigned<u32>>>,
            Scalar::S64 => select_few::<Three<bits::ExtractSigned<u64>>>,
            _ => return Err(format!("type .{}", scalar.name())),
        };
        self.count(instruction, 4)?;
        check_field(&instruction.operands[2..])?;
        self.ternary(instruction, [scalar, Scalar::U32, Scalar::U32, scalar], run)
    }

    /// `bmsk`, `szext`.
    pub(super) fn bit_mask(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let wrap = modifiers.take_any(&["clamp", "wrap"]);
        modifiers.finish()?;
        let run = match (instruction.opcode, wrap, scalar) {
            ("bmsk", Some(0), _) => select_few::<Two<bits::MaskClamp>> as Select,
            ("bmsk", Some(1), _) => select_few::<Two<bits::MaskWrap>>,
            (_, Some(0), Scalar::S32) => select_few::<Two<bits::ExtendSignedClamp>>,
            (_, Some(1), Scalar::S32) => select_few::<Two<bits::ExtendSignedWrap>>,
            (_, Some(0), Scalar::U32) => select_few::<Two<bits::ExtendUnsignedClamp>>,
            (_, Some(1), Scalar::U32) => select_few::<Two<bits::ExtendUnsignedWrap>>,
            _ => return Err("these modifiers".to_owned()),
        };
        self.binary(instruction, Scalar::U32, run)
    }

    pub(super) fn find_nth(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        modifiers.one_type()?;
        modifiers.finish()?;
        self.ternary(instruction, [Scalar::B32; 4], select_few::<Three<bits::FindNth>>)
    }

    pub(super) fn permute(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        modifiers.one_type()?;
        let run = match modifiers.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) {
            None => select_few::<Three<bits::Permute>> as Select,
            Some(0) => select_few::<Three<bits::PermuteForward4>>,
            Some(1) => select_few::<Three<bits::PermuteBackward4>>,
            Some(2) => select_few::<Three<bits::PermuteReplicate8>>,
            Some(3) => select_few::<Three<bits::PermuteEdgeLeft>>,
            Some(4) => select_few::<Three<bits::PermuteEdgeRight>>,
            Some(_) => select_few::<Three<bits::PermuteReplicate16>>,
        };
        modifiers.finish()?;
        self.ternary(instruction, [Scalar::B32; 4], run)
    }
}

/// The start and the length of a field of bits.
fn check_field(operands: &[Operand<'_>]) -> Lowered<()> {
    operands.iter().try_for_each(|operand| range::check(operand, 0..=255))
}
