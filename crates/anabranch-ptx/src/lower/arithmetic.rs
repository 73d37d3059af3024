//! Arithmetic of integers.

use super::improve::Kind;
use super::{Lower, Lowered, Modifiers, Spec, Width};
use crate::machine::{Select, Slot};
use crate::ops::half::{Packed, Signed};
use crate::ops::{One, Three, Two, bits, carry, integer, select, select_few, video};
use crate::syntax::{Instruction, Operand};
use crate::types::{Meaning, Scalar};

impl<'a> Lower<'_, 'a> {
    /// Exactly this many operands.
    pub(super) fn count(&self, instruction: &Instruction<'a>, count: usize) -> Lowered<()> {
        if instruction.operands.len() != count {
            return Err(format!("{} operands", instruction.operands.len()));
        }
        Ok(())
    }

    /// `d = f(a)` of one type.
    pub(super) fn unary(&mut self, instruction: &Instruction<'a>, scalar: Scalar, run: Select) -> Lowered<()> {
        self.unary_to(instruction, scalar, scalar, run)
    }

    pub(super) fn unary_to(
        &mut self,
        instruction: &Instruction<'a>,
        from: Scalar,
        to: Scalar,
        run: Select,
    ) -> Lowered<()> {
        self.count(instruction, 2)?;
        let a = self.source(&instruction.operands[1], from)?;
        let d = self.destination(&instruction.operands[0], to)?;
        self.emit_one(run, d, a);
        Ok(())
    }

    /// `d = f(a, b)` of one type.
    pub(super) fn binary(&mut self, instruction: &Instruction<'a>, scalar: Scalar, run: Select) -> Lowered<()> {
        self.count(instruction, 3)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let b = self.source(&instruction.operands[2], scalar)?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        self.emit_two(run, d, a, b);
        Ok(())
    }

    /// `d = f(a, b, c)`, of types of the operands and the result.
    pub(super) fn ternary(
        &mut self,
        instruction: &Instruction<'a>,
        [a, b, c, d]: [Scalar; 4],
        run: Select,
    ) -> Lowered<()> {
        self.count(instruction, 4)?;
        let a = self.source(&instruction.operands[1], a)?;
        let b = self.source(&instruction.operands[2], b)?;
        let c = self.source(&instruction.operands[3], c)?;
        let d = self.destination(&instruction.operands[0], d)?;
        self.emit_three(run, d, [a, b, c]);
        Ok(())
    }

    pub(super) fn add_or_sub(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let adds = instruction.opcode.starts_with("add");
        if instruction.opcode.ends_with('c') || modifiers.has("cc") {
            return self.with_carry(instruction, modifiers);
        }
        let types = modifiers.types();
        let &[scalar, ..] = &*types else { return Err("an instruction without a type".to_owned()) };
        if scalar.meaning() == Meaning::Float {
            return self.real_arithmetic(instruction);
        }
        if types.len() > 1 {
            return Err(format!("a second type, .{}", types[1].name()));
        }
        let saturated = modifiers.take("sat");
        modifiers.finish()?;
        let run = match (scalar, adds, saturated) {
            (Scalar::U16x2 | Scalar::S16x2, true, false) => select_few::<Two<Packed<integer::Add<u16>>>> as Select,
            (Scalar::U16x2 | Scalar::S16x2, false, false) => select_few::<Two<Packed<integer::Sub<u16>>>>,
            (Scalar::S32, true, true) => select_few::<Two<integer::AddSaturated<i32>>>,
            (Scalar::S32, false, true) => select_few::<Two<integer::SubSaturated<i32>>>,
            (_, _, true) => return Err(format!("modifier .sat of type .{}", scalar.name())),
            (_, true, _) => choose_bits!(scalar, select::<Two<integer::Add<T>>>)?,
            (_, false, _) => choose_bits!(scalar, select::<Two<integer::Sub<T>>>)?,
        };
        self.binary(instruction, scalar, run)?;
        if let (true, Width::W64, Some(sum)) = (adds, Width::of(scalar)?, self.specs.last_mut()) {
            sum.kind = Kind::Sum;
        }
        Ok(())
    }

    /// `add.cc`, `addc`, `sub.cc`, `subc`.
    fn with_carry(&mut self, instruction: &Instruction<'a>, mut modifiers: Modifiers<'a>) -> Lowered<()> {
        let scalar = modifiers.one_type()?;
        let mut flags = if modifiers.take("cc") { carry::CARRY_OUT } else { 0 };
        modifiers.finish()?;
        if instruction.opcode.ends_with('c') {
            flags |= carry::CARRY_IN;
        }
        let run = if instruction.opcode.starts_with("add") {
            choose!(scalar, [Scalar::U32 | Scalar::S32 => u32, Scalar::U64 | Scalar::S64 => u64], select_few::<carry::AddCarry<T>>)
        } else {
            choose!(scalar, [Scalar::U32 | Scalar::S32 => u32, Scalar::U64 | Scalar::S64 => u64], select_few::<carry::SubCarry<T>>)
        }?;
        self.count(instruction, 3)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let b = self.source(&instruction.operands[2], scalar)?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        let e = self.carry()?;
        self.emit(Spec { d, a, b, c: a, e, flags, ..Spec::new(run) });
        Ok(())
    }

    pub(super) fn multiply(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        if scalar.meaning() == Meaning::Float {
            return self.real_arithmetic(instruction);
        }
        let part = modifiers.take_any(&["lo", "hi", "wide"]);
        modifiers.finish()?;
        match part {
            Some(0) => self.binary(instruction, scalar, choose_bits!(scalar, select::<Two<integer::Mul<T>>>)?),
            Some(1) => {
                self.binary(instruction, scalar, choose_integer!(scalar, select_few::<Two<integer::MulHigh<T>>>)?)
            }
            Some(_) => {
                let run = choose!(scalar, [
                    Scalar::U16 => u16, Scalar::U32 => u32, Scalar::S16 => i16, Scalar::S32 => i32,
                ], select::<Two<integer::MulWide<T>>>)?;
                self.count(instruction, 3)?;
                let a = self.source(&instruction.operands[1], scalar)?;
                let b = self.source(&instruction.operands[2], scalar)?;
                let d = self.destination(&instruction.operands[0], wide(scalar))?;
                let kind = match scalar {
                    Scalar::U32 => Kind::Wide { signed: false },
                    Scalar::S32 => Kind::Wide { signed: true },
                    _ => Kind::Other,
                };
                self.emit(Spec { d, a, b, kind, ..Spec::new(run) });
                Ok(())
            }
            None => Err("a product of integers without .lo, .hi or .wide".to_owned()),
        }
    }

    pub(super) fn multiply_add(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        if scalar.meaning() == Meaning::Float {
            return self.real_arithmetic(instruction);
        }
        let part = modifiers.take_any(&["lo", "hi", "wide"]);
        if instruction.opcode == "madc" || modifiers.has("cc") {
            return self.multiply_with_carry(instruction, modifiers, scalar, part == Some(1));
        }
        let saturated = modifiers.take("sat");
        modifiers.finish()?;
        let same = [scalar; 4];
        match part {
            _ if saturated && (part != Some(1) || scalar != Scalar::S32) => {
                Err("modifier .sat of this type".to_owned())
            }
            Some(1) if saturated => {
                self.ternary(instruction, same, select_few::<Three<integer::MulHighAddSaturated<i32>>>)
            }
            Some(0) => self.ternary(instruction, same, choose_bits!(scalar, select::<Three<integer::MulAdd<T>>>)?),
            Some(1) => {
                self.ternary(instruction, same, choose_integer!(scalar, select_few::<Three<integer::MulHighAdd<T>>>)?)
            }
            Some(_) => {
                let run = choose!(scalar, [
                    Scalar::U16 => u16, Scalar::U32 => u32, Scalar::S16 => i16, Scalar::S32 => i32,
                ], select_few::<Three<integer::MulWideAdd<T>>>)?;
                self.ternary(instruction, [scalar, scalar, wide(scalar), wide(scalar)], run)
            }
            None => Err("a product of integers without .lo, .hi or .wide".to_owned()),
        }
    }

    fn multiply_with_carry(
        &mut self,
        instruction: &Instruction<'a>,
        mut modifiers: Modifiers<'a>,
        scalar: Scalar,
        high: bool,
    ) -> Lowered<()> {
        let mut flags = if modifiers.take("cc") { carry::CARRY_OUT } else { 0 };
        modifiers.finish()?;
        flags |= if instruction.opcode == "madc" { carry::CARRY_IN } else { 0 };
        flags |= if high { carry::HIGH } else { 0 };
        let run = match scalar {
            Scalar::U32 => select_few::<carry::MulAddCarryUnsigned<u32>> as Select,
            Scalar::U64 => select_few::<carry::MulAddCarryUnsigned<u64>>,
            Scalar::S32 => select_few::<carry::MulAddCarrySigned<u32>>,
            Scalar::S64 => select_few::<carry::MulAddCarrySigned<u64>>,
            _ => return Err(format!("type .{}", scalar.name())),
        };
        self.count(instruction, 4)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let b = self.source(&instruction.operands[2], scalar)?;
        let c = self.source(&instruction.operands[3], scalar)?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        let e = self.carry()?;
        self.emit(Spec { d, a, b, c, e, flags, ..Spec::new(run) });
        Ok(())
    }

    /// `mul24`, `mad24`: the low 24 bits of the factors, and 32 bits of the product of 48.
    pub(super) fn multiply_24(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let high = match modifiers.take_any(&["lo", "hi"]) {
            Some(part) => part == 1,
            None => return Err("a product of integers without .lo or .hi".to_owned()),
        };
        let saturated = modifiers.take("sat");
        modifiers.finish()?;
        let adds = instruction.opcode == "mad24";
        self.count(instruction, if adds { 4 } else { 3 })?;
        let signed = match scalar {
            Scalar::S32 => true,
            Scalar::U32 => false,
            _ => return Err(format!("type .{}", scalar.name())),
        };
        let d = self.destination(&instruction.operands[0], scalar)?;
        let eight = self.bits(Width::W32, 8)?;
        let mut factors = [Slot(0); 2];
        for (factor, operand) in factors.iter_mut().zip(&instruction.operands[1..3]) {
            let whole = self.source(operand, scalar)?;
            *factor = self.temporary(Width::W32)?;
            self.emit_two(select::<Two<integer::ShiftLeft<u32>>>, *factor, whole, eight);
        }
        // Factors shifted to the top: the high half of their product is that of 48 bits, shifted by 16 less 32.
        let product = self.temporary(Width::W32)?;
        let [a, b] = factors;
        if high {
            let run = if signed {
                select::<Two<integer::MulHigh<i32>>> as Select
            } else {
                select::<Two<integer::MulHigh<u32>>>
            };
            self.emit_two(run, product, a, b);
        } else {
            for factor in [a, b] {
                let run = if signed {
                    select::<Two<integer::ShiftRight<i32>>> as Select
                } else {
                    select::<Two<integer::ShiftRight<u32>>>
                };
                self.emit_two(run, factor, factor, eight);
            }
            self.emit_two(select::<Two<integer::Mul<u32>>>, product, a, b);
        }
        if adds {
            let c = self.source(&instruction.operands[3], scalar)?;
            let run = if saturated && high && signed {
                select_few::<Two<integer::AddSaturated<i32>>> as Select
            } else if saturated {
                return Err("modifier .sat of this type".to_owned());
            } else {
                select::<Two<integer::Add<u32>>>
            };
            self.emit_two(run, d, product, c);
        } else {
            self.emit_one(select::<One<bits::Copied<u32>>>, d, product);
        }
        Ok(())
    }

    pub(super) fn integer_binary(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        if scalar.meaning() == Meaning::Float {
            return self.real_arithmetic(instruction);
        }
        let relu = modifiers.take("relu");
        modifiers.finish()?;
        let run = match (instruction.opcode, scalar, relu) {
            ("div", _, false) => choose_integer!(scalar, select_few::<Two<integer::Div<T>>>)?,
            ("rem", _, false) => choose_integer!(scalar, select_few::<Two<integer::Rem<T>>>)?,
            ("min", Scalar::U16x2, false) => select_few::<Two<Packed<integer::Min<u16>>>>,
            ("max", Scalar::U16x2, false) => select_few::<Two<Packed<integer::Max<u16>>>>,
            ("min", Scalar::S16x2, false) => select_few::<Two<Packed<Signed<integer::Min<i16>>>>>,
            ("max", Scalar::S16x2, false) => select_few::<Two<Packed<Signed<integer::Max<i16>>>>>,
            ("min", Scalar::S16x2, true) => select_few::<Two<Packed<Signed<integer::MinRelu<i16>>>>>,
            ("max", Scalar::S16x2, true) => select_few::<Two<Packed<Signed<integer::MaxRelu<i16>>>>>,
            ("min", Scalar::S32, true) => select_few::<Two<integer::MinRelu<i32>>>,
            ("max", Scalar::S32, true) => select_few::<Two<integer::MaxRelu<i32>>>,
            ("min", _, false) => choose_integer!(scalar, select_few::<Two<integer::Min<T>>>)?,
            ("max", _, false) => choose_integer!(scalar, select_few::<Two<integer::Max<T>>>)?,
            _ => return Err("modifier .relu of this type".to_owned()),
        };
        self.binary(instruction, scalar, run)
    }

    pub(super) fn integer_unary(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        if scalar.meaning() == Meaning::Float {
            return self.real_arithmetic(instruction);
        }
        modifiers.finish()?;
        let run = if instruction.opcode == "abs" {
            choose!(scalar, [Scalar::S16 => i16, Scalar::S32 => i32, Scalar::S64 => i64], select_few::<One<integer::Absolute<T>>>)
        } else {
            choose!(scalar, [Scalar::S16 => i16, Scalar::S32 => i32, Scalar::S64 => i64], select_few::<One<integer::Negate<T>>>)
        }?;
        self.unary(instruction, scalar, run)
    }

    pub(super) fn sad(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        let run = choose_integer!(scalar, select_few::<Three<integer::AbsoluteDifferenceAdd<T>>>)?;
        self.ternary(instruction, [scalar; 4], run)
    }

    /// `vabsdiff2`, `vabsdiff4`, without selectors and masks.
    pub(super) fn differences(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let types = modifiers.types();
        let how = modifiers.take_any(&["sat", "add"]);
        modifiers.finish()?;
        let [d, a, b] = *types else { return Err("these types".to_owned()) };
        let mut flags = [0, video::SATURATED, video::SUM][how.map_or(0, |how| how + 1)];
        for (scalar, flag) in [(d, video::D_SIGNED), (a, video::A_SIGNED), (b, video::B_SIGNED)] {
            match scalar {
                Scalar::U32 => {}
                Scalar::S32 => flags |= flag,
                _ => return Err("these types".to_owned()),
            }
        }
        self.count(instruction, 4)?;
        let mut sources = [Slot(0); 3];
        for (slot, operand) in sources.iter_mut().zip(&instruction.operands[1..]) {
            if let Operand::Part(..) = operand {
                return Err("video instructions with selectors".to_owned());
            }
            *slot = self.source(operand, Scalar::U32)?;
        }
        if let Operand::Part(..) = instruction.operands[0] {
            return Err("video instructions with masks".to_owned());
        }
        let d = self.destination(&instruction.operands[0], Scalar::U32)?;
        let [a, b, c] = sources;
        let bytes = if instruction.opcode == "vabsdiff4" { 8 } else { 16 };
        self.emit(Spec { d, a, b, c, flags, bytes, ..Spec::new(select_few::<video::AbsoluteDifferences>) });
        Ok(())
    }

    pub(super) fn dot(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let types = modifiers.types();
        let high = modifiers.take_any(&["lo", "hi"]);
        modifiers.finish()?;
        let signs = match *types {
            [a, b] if [a, b].iter().all(|of| matches!(of, Scalar::U32 | Scalar::S32)) => {
                [a == Scalar::S32, b == Scalar::S32]
            }
            _ => return Err("these types".to_owned()),
        };
        self.count(instruction, 4)?;
        let mut sources = [Slot(0); 3];
        for (slot, operand) in sources.iter_mut().zip(&instruction.operands[1..]) {
            *slot = self.source(operand, Scalar::U32)?;
        }
        let d = self.destination(&instruction.operands[0], Scalar::U32)?;
        let [a, b, c] = sources;
        if instruction.opcode == "dp2a" {
            let Some(high) = high else { return Err("dp2a without .lo or .hi".to_owned()) };
            let flags = u32::from(signs[0]) | u32::from(signs[1]) << 1 | (high as u32) << 2;
            self.emit(Spec { d, a, b, c, flags, ..Spec::new(select_few::<bits::Dot2>) });
            return Ok(());
        }
        let run = match signs {
            [false, false] => select_few::<Three<bits::DotUnsigned>> as Select,
            [true, true] => select_few::<Three<bits::DotSigned>>,
            [false, true] => select_few::<Three<bits::DotUnsignedSigned>>,
            [true, false] => select_few::<Three<bits::DotSignedUnsigned>>,
        };
        self.emit_three(run, d, sources);
        Ok(())
    }
}

/// The type of twice the bits.
fn wide(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::U16 => Scalar::U32,
        Scalar::S16 => Scalar::S32,
        Scalar::S32 => Scalar::S64,
        _ => Scalar::U64,
    }
}
