//! Conversions, composed of steps.

use super::reals::short_to_single;
use super::{Lower, Lowered, Modifiers, Spec, Width};
use crate::float::Rounding;
use crate::machine::{Select, Slot};
use crate::ops::convert::{self as steps, Extend, ToInteger};
use crate::ops::half::{self, Brain, Half, HighHalf, LowHalf, LowWord};
use crate::ops::{One, Two, bits, packed, quad, real, rounded, select, select_few, select_plain};
use crate::syntax::{Instruction, Operand};
use crate::types::{Meaning, Scalar};

/// A step for each type of integer and each size of register that can have it.
macro_rules! by_integer {
    ($scalar:expr, $width:expr, |$i:ident, $d:ident| $body:expr) => {
        by_integer!(@ $scalar, $width, $i, $d, $body,
            [U8 u8 W16 u16] [U8 u8 W32 u32] [U8 u8 W64 u64] [S8 i8 W16 u16] [S8 i8 W32 u32] [S8 i8 W64 u64]
            [U16 u16 W16 u16] [U16 u16 W32 u32] [U16 u16 W64 u64] [S16 i16 W16 u16] [S16 i16 W32 u32] [S16 i16 W64 u64]
            [U32 u32 W32 u32] [U32 u32 W64 u64] [S32 i32 W32 u32] [S32 i32 W64 u64] [U64 u64 W64 u64] [S64 i64 W64 u64])
    };
    (@ $scalar:expr, $width:expr, $i:ident, $d:ident, $body:expr, $([$s:ident $int:ident $w:ident $reg:ident])*) => {
        match ($scalar, $width) {
            $((Scalar::$s, Width::$w) => {
                #[allow(dead_code)]
                type $i = $int;
                type $d = $reg;
                Ok($body as Select)
            })*
            (other, _) => Err(format!("type .{} in a register of this size", other.name())),
        }
    };
}

/// The low bits of a register in one of another size, or of the same.
fn low_bits(from: Width, to: Width) -> Lowered<Select> {
    Ok(match (from, to) {
        (Width::W16, Width::W16) => select::<One<bits::Copied<u16>>>,
        (Width::W32, Width::W32) => select::<One<bits::Copied<u32>>>,
        (Width::W64, Width::W64) => select::<One<bits::Copied<u64>>>,
        (Width::W32, Width::W16) => select::<One<LowHalf>>,
        (Width::W64, Width::W16) => select_few::<One<half::Quarter0>>,
        (Width::W64, Width::W32) => select::<One<LowWord>>,
        _ => return Err("a register of this size".to_owned()),
    })
}

/// Reads an integer from a register and puts it into one of another size.
fn extend(scalar: Scalar, from: Width, to: Width) -> Lowered<Select> {
    macro_rules! to {
        ($d:ident: $([$s:ident $int:ident: $($w:ident $reg:ident $select:ident),*])*) => {
            match (scalar, from) {
                $($((Scalar::$s, Width::$w) => Ok($select::<One<Extend<$int, $reg, $d>>> as Select),)*)*
                (other, _) => Err(format!("type .{} in a register of this size", other.name())),
            }
        };
    }
    if from == Width::Predicate || to == Width::Predicate || scalar.bytes() > from.bytes() {
        return Err(format!("type .{} in a register of this size", scalar.name()));
    }
    // What has no more bits than the integer needs no sign.
    if to.bytes() <= scalar.bytes() {
        return low_bits(from, to);
    }
    match to {
        Width::W16 => to!(u16:
            [U8 u8: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]
            [S8 i8: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]),
        Width::W32 => to!(u32:
            [U8 u8: W16 u16 select, W32 u32 select_plain, W64 u64 select_plain]
            [S8 i8: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]
            [U16 u16: W16 u16 select, W32 u32 select_plain, W64 u64 select_plain]
            [S16 i16: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]),
        _ => to!(u64:
            [U8 u8: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]
            [S8 i8: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]
            [U16 u16: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]
            [S16 i16: W16 u16 select_few, W32 u32 select_plain, W64 u64 select_plain]
            [U32 u32: W32 u32 select, W64 u64 select_few]
            [S32 i32: W32 u32 select, W64 u64 select_few]),
    }
}

/// What a conversion is asked for.
struct Conversion {
    rounding: Option<Rounding>,
    integral: Option<Rounding>,
    flush: bool,
    saturate: bool,
    relu: bool,
}

impl<'a> Lower<'_, 'a> {
    fn step(&mut self, run: Select, from: Slot, to: Width) -> Lowered<Slot> {
        let slot = self.temporary(to)?;
        self.emit_one(run, slot, from);
        Ok(slot)
    }

    pub(super) fn cvt(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        if modifiers.take("pack") {
            return self.cvt_pack(instruction, modifiers);
        }
        let types = modifiers.types();
        let integral = modifiers.take_any(&["rni", "rzi", "rmi", "rpi"]);
        let integral = integral.map(|index| [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up][index]);
        let conversion = Conversion {
            rounding: modifiers.rounding(),
            integral,
            flush: modifiers.take("ftz"),
            saturate: modifiers.take("sat"),
            relu: modifiers.take("relu"),
        };
        modifiers.finish()?;
        let &[to, from] = &*types else { return Err("these types".to_owned()) };
        match to {
            Scalar::F16x2 | Scalar::Bf16x2 if from == Scalar::F32 => {
                return self.cvt_pair(instruction, to, &conversion);
            }
            Scalar::Tf32 if from == Scalar::F32 => {
                let imm = match conversion.rounding {
                    Some(Rounding::NearestAway) => 0,
                    Some(Rounding::Nearest) => 1,
                    Some(Rounding::Zero) => 2,
                    _ => return Err("this rounding mode of .tf32".to_owned()),
                };
                if conversion.relu || conversion.saturate {
                    return Err("modifier .relu of .tf32".to_owned());
                }
                self.count(instruction, 2)?;
                let a = self.source(&instruction.operands[1], Scalar::F32)?;
                let d = self.destination(&instruction.operands[0], to)?;
                self.emit(Spec { d, a, imm, ..Spec::new(select_plain::<steps::Tensor>) });
                return Ok(());
            }
            _ => {}
        }
        self.count(instruction, 2)?;
        if let Some(bits) = [to, from].iter().find(|scalar| scalar.meaning() == Meaning::Bits) {
            return Err(format!("type .{}, of which it is not said what its bits mean", bits.name()));
        }
        self.takes_special &= from.meaning() != Meaning::Float && to.meaning() != Meaning::Float;
        let (a, own) = self.any_source(&instruction.operands[1], from)?;
        let (d, width) = self.any_destination(&instruction.operands[0], to)?;
        for (scalar, width) in [(from, own), (to, width)] {
            if scalar.meaning() == Meaning::Float && Width::of(scalar)? != width {
                return Err(format!("a register of {} bits for type .{}", 8 * width.bytes(), scalar.name()));
            }
        }
        match (from.meaning() == Meaning::Float, to.meaning() == Meaning::Float) {
            (false, false) => self.integer_to_integer((from, a, own), (to, d, width), conversion.saturate),
            (false, true) => self.integer_to_float((from, a, own), (to, d), &conversion),
            (true, false) => self.float_to_integer((from, a), (to, d, width), &conversion),
            (true, true) => self.float_to_float((from, a), (to, d), &conversion),
        }
    }

    fn integer_to_integer(
        &mut self,
        (from, a, own): (Scalar, Slot, Width),
        (to, d, width): (Scalar, Slot, Width),
        saturate: bool,
    ) -> Lowered<()> {
        let signed = |scalar: Scalar| scalar.meaning() == Meaning::Signed;
        if saturate {
            let whole = self.step(extend(from, own, Width::W64)?, a, Width::W64)?;
            let limited = self.temporary(Width::W64)?;
            let flags = u32::from(signed(from)) | u32::from(signed(to)) << 1;
            let bytes = to.bytes() * 8;
            self.emit(Spec { d: limited, a: whole, flags, bytes, ..Spec::new(select_plain::<steps::Limit>) });
            self.emit_one(extend(Scalar::U64, Width::W64, width)?, d, limited);
            return Ok(());
        }
        if to.bytes() < width.bytes() && (to.bytes() < from.bytes() || signed(to) != signed(from)) {
            // Cut first, and then extended by the sign of the result.
            let cut = self.step(extend(from, own, width)?, a, width)?;
            self.emit_one(extend(to, width, width)?, d, cut);
        } else {
            self.emit_one(extend(from, own, width)?, d, a);
        }
        Ok(())
    }

    fn integer_to_float(
        &mut self,
        (from, a, own): (Scalar, Slot, Width),
        (to, d): (Scalar, Slot),
        conversion: &Conversion,
    ) -> Lowered<()> {
        let signed = from.meaning() == Meaning::Signed;
        let nearest = matches!(conversion.rounding, None | Some(Rounding::Nearest));
        let small = from.bytes() <= 4;
        if conversion.integral.is_some() || conversion.relu {
            return Err("this rounding of an integer".to_owned());
        }
        if nearest && matches!(to, Scalar::F32 | Scalar::F64) {
            let whole = if small { Width::W32 } else { Width::W64 };
            let extended = self.step(extend(from, own, whole)?, a, whole)?;
            let run = match (to, small, signed) {
                (Scalar::F32, true, true) => select::<One<steps::SignedWordToSingle>> as Select,
                (Scalar::F32, true, false) => select_few::<One<steps::UnsignedWordToSingle>>,
                (Scalar::F32, false, true) => select_few::<One<steps::SignedToSingle>>,
                (Scalar::F32, false, false) => select_few::<One<steps::UnsignedToSingle>>,
                (_, true, true) => select_few::<One<steps::SignedWordToDouble>>,
                (_, true, false) => select_few::<One<steps::UnsignedWordToDouble>>,
                (_, false, true) => select_few::<One<steps::SignedToDouble>>,
                (_, false, false) => select_few::<One<steps::UnsignedToDouble>>,
            };
            self.emit_one(run, d, extended);
        } else {
            let extended = self.step(extend(from, own, Width::W64)?, a, Width::W64)?;
            let imm = rounded::code(conversion.rounding.unwrap_or(Rounding::Nearest));
            let rounded = self.temporary(Width::W64)?;
            let run = select_plain::<steps::RoundedFromInteger>;
            let (flags, bytes) = (format(to)?, u32::from(signed));
            self.emit(Spec { d: rounded, a: extended, imm, flags, bytes, ..Spec::new(run) });
            self.narrow_bits(rounded, d, to)?;
        }
        self.limits(to, d, conversion)
    }

    /// The low bits of 64, in a register of a float.
    fn narrow_bits(&mut self, from: Slot, d: Slot, to: Scalar) -> Lowered<()> {
        match Width::of(to)? {
            Width::W64 => self.emit_one(select::<One<bits::Copied<u64>>>, d, from),
            Width::W32 => self.emit_one(select::<One<LowWord>>, d, from),
            _ => self.emit_one(select_few::<One<half::Quarter0>>, d, from),
        }
        Ok(())
    }

    /// Saturation, and zero instead of negative numbers.
    fn limits(&mut self, to: Scalar, d: Slot, conversion: &Conversion) -> Lowered<()> {
        if conversion.flush && to == Scalar::F32 {
            self.emit_one(select_few::<One<real::Flush<f32>>>, d, d);
        }
        if conversion.saturate {
            let run = match to {
                Scalar::F32 => select_few::<One<real::Saturate<f32>>> as Select,
                Scalar::F64 => select_few::<One<real::Saturate<f64>>>,
                Scalar::F16 => select_few::<One<half::Saturate<Half>>>,
                _ => select_few::<One<half::Saturate<Brain>>>,
            };
            self.emit_one(run, d, d);
        }
        if conversion.relu {
            let run = match to {
                Scalar::F16 => select_few::<One<half::Relu<Half>>> as Select,
                Scalar::Bf16 => select_few::<One<half::Relu<Brain>>>,
                _ => return Err("modifier .relu of this type".to_owned()),
            };
            self.emit_one(run, d, d);
        }
        Ok(())
    }

    fn float_to_integer(
        &mut self,
        (from, mut a): (Scalar, Slot),
        (to, d, width): (Scalar, Slot, Width),
        conversion: &Conversion,
    ) -> Lowered<()> {
        let Some(integral) = conversion.integral else {
            return Err("a conversion without .rni or the like".to_owned());
        };
        if matches!(from, Scalar::F16 | Scalar::Bf16) {
            a = self.step(short_to_single(from)?, a, Width::W32)?;
        } else if conversion.flush && from == Scalar::F32 {
            a = self.flushed(a, from)?;
        }
        let double = from == Scalar::F64;
        let own = if double { Width::W64 } else { Width::W32 };
        if integral != Rounding::Zero {
            a = self.step(integral_of(double, integral), a, own)?;
        }
        // The usual ones have functions for vectors.
        let run = match (to, width, double) {
            (Scalar::S32, Width::W32, false) => Ok(select_few::<One<ToInteger<f32, i32, u32>>> as Select),
            (Scalar::U32, Width::W32, false) => Ok(select_few::<One<ToInteger<f32, u32, u32>>> as Select),
            (Scalar::S32, Width::W32, true) => Ok(select_few::<One<ToInteger<f64, i32, u32>>> as Select),
            _ if double => {
                by_integer!(to, width, |I, D| select_plain::<One<ToInteger<f64, I, D>>>)
            }
            _ => by_integer!(to, width, |I, D| select_plain::<One<ToInteger<f32, I, D>>>),
        }?;
        self.emit_one(run, d, a);
        Ok(())
    }

    fn float_to_float(
        &mut self,
        (from, mut a): (Scalar, Slot),
        (to, d): (Scalar, Slot),
        conversion: &Conversion,
    ) -> Lowered<()> {
        let nearest = matches!(conversion.rounding, None | Some(Rounding::Nearest));
        // What is flushed is of 32 bits on both sides: hardware rounds a subnormal number of 32 bits to one of 16.
        if conversion.flush && from == Scalar::F32 && to != Scalar::F16 {
            a = self.flushed(a, from)?;
        }
        let short = matches!(from, Scalar::F16 | Scalar::Bf16);
        let single = if short { self.step(short_to_single(from)?, a, Width::W32)? } else { a };
        match (from, to) {
            _ if from == to => match conversion.integral {
                Some(integral) if short => {
                    let rounded = self.step(integral_of(false, integral), single, Width::W32)?;
                    self.emit_one(narrow(to), d, rounded);
                }
                Some(integral) => self.emit_one(integral_of(from == Scalar::F64, integral), d, a),
                None if conversion.flush && from == Scalar::F32 => {
                    self.emit_one(select_few::<One<real::Canonical>>, d, a);
                }
                None => match Width::of(from)? {
                    Width::W64 => self.emit_one(select::<One<bits::Copied<u64>>>, d, a),
                    Width::W32 => self.emit_one(select::<One<bits::Copied<u32>>>, d, a),
                    _ => self.emit_one(select::<One<bits::Copied<u16>>>, d, a),
                },
            },
            (Scalar::F64, Scalar::F32) if nearest => self.emit_one(select::<One<steps::DoubleToSingle>>, d, a),
            (Scalar::F64, Scalar::F16) if nearest => self.emit_one(select_few::<One<steps::DoubleToHalf>>, d, a),
            (Scalar::F64, Scalar::Bf16) if nearest => self.emit_one(select_few::<One<steps::DoubleToBrain>>, d, a),
            (Scalar::F16, Scalar::F32) => self.emit_one(select_few::<One<real::Canonical>>, d, single),
            (_, Scalar::F32) if short => self.emit_one(select::<One<bits::Copied<u32>>>, d, single),
            (_, Scalar::F64) => self.emit_one(select::<One<steps::SingleToDouble>>, d, single),
            (_, Scalar::F16 | Scalar::Bf16) if from != Scalar::F64 && nearest => self.emit_one(narrow(to), d, single),
            (_, Scalar::F16 | Scalar::Bf16 | Scalar::F32) => {
                let double = match from {
                    Scalar::F64 => a,
                    _ => self.step(select::<One<steps::SingleToDouble>>, single, Width::W64)?,
                };
                let imm = rounded::code(conversion.rounding.unwrap_or(Rounding::Nearest));
                let rounded = self.temporary(Width::W64)?;
                let run = select_plain::<steps::RoundedNarrow>;
                let (flags, bytes) = (format(to)?, u32::from(from == Scalar::F64));
                self.emit(Spec { d: rounded, a: double, imm, flags, bytes, ..Spec::new(run) });
                self.narrow_bits(rounded, d, to)?;
            }
            _ => return Err(format!("a conversion from .{} to .{}", from.name(), to.name())),
        }
        self.limits(to, d, conversion)
    }

    /// Two floats to a pair of short ones: the first becomes the high half.
    fn cvt_pair(&mut self, instruction: &Instruction<'a>, to: Scalar, conversion: &Conversion) -> Lowered<()> {
        self.count(instruction, 3)?;
        let one = if to == Scalar::F16x2 { Scalar::F16 } else { Scalar::Bf16 };
        let mut halves = [Slot(0); 2];
        for (half, operand) in halves.iter_mut().zip(&instruction.operands[1..]) {
            let a = self.source(operand, Scalar::F32)?;
            *half = self.temporary(Width::W16)?;
            self.float_to_float((Scalar::F32, a), (one, *half), conversion)?;
        }
        let d = self.destination(&instruction.operands[0], to)?;
        self.emit_two(select_few::<Two<half::Pair>>, d, halves[1], halves[0]);
        Ok(())
    }

    fn cvt_pack(&mut self, instruction: &Instruction<'a>, mut modifiers: Modifiers<'a>) -> Lowered<()> {
        let types = modifiers.types();
        modifiers.take("sat");
        let name = modifiers.first();
        modifiers.take_any(&["u2", "s2", "u4", "s4"]);
        modifiers.finish()?;
        let (bits, signed) = match (name, types.first()) {
            (Some("u2"), _) => (2, false),
            (Some("s2"), _) => (2, true),
            (Some("u4"), _) => (4, false),
            (Some("s4"), _) => (4, true),
            (_, Some(to)) => (to.bytes() * 8, to.meaning() == Meaning::Signed),
            _ => return Err("these types".to_owned()),
        };
        if !(2..=16).contains(&bits) {
            return Err("these types".to_owned());
        }
        let with_rest = types.contains(&Scalar::B32);
        self.count(instruction, if with_rest { 4 } else { 3 })?;
        let a = self.source(&instruction.operands[1], Scalar::S32)?;
        let b = self.source(&instruction.operands[2], Scalar::S32)?;
        let c = match instruction.operands.get(3) {
            Some(Operand::Sink) | None => self.bits(Width::W32, 0)?,
            Some(rest) => self.source(rest, Scalar::B32)?,
        };
        let d = self.destination(&instruction.operands[0], Scalar::U32)?;
        let flags = u32::from(signed);
        self.emit(Spec { d, a, b, c, bytes: bits, flags, ..Spec::new(select_plain::<packed::Pack>) });
        Ok(())
    }

    /// `mov`.
    pub(super) fn mov(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        super::memory::of_memory(scalar)?;
        self.count(instruction, 2)?;
        let [to, from] = [&instruction.operands[0], &instruction.operands[1]].map(|operand| self.parts(operand));
        let (to, from) = (&*to, &*from);
        if scalar == Scalar::Pred {
            let (a, negate) = self.predicate(from)?;
            let d = self.destination(to, Scalar::Pred)?;
            let run = select_plain::<crate::ops::compare::MovePredicate>;
            self.emit(Spec { d, a, negate, ..Spec::new(run) });
            return Ok(());
        }
        for operand in [to, from] {
            if let Operand::Vector(parts) = operand {
                self.alike(parts)?;
                if scalar.meaning() != Meaning::Bits {
                    return Err(format!("a vector as a value of type .{}, instead of bits", scalar.name()));
                }
            }
        }
        let width = Width::of(scalar)?;
        match (to, from) {
            (_, Operand::Vector(parts)) => self.pack(to, parts, scalar),
            (Operand::Vector(parts), _) => self.unpack(parts, from, scalar),
            _ => {
                let before = self.specs.len();
                let a = self.source(from, scalar)?;
                let d = self.destination(to, scalar)?;
                // What was read by operations of its own, such as a special register, is written where it shall be.
                if let Some(last) = self.specs[before..].last_mut()
                    && last.d == a
                {
                    last.d = d;
                    return Ok(());
                }
                let run = match width {
                    Width::W16 => select::<One<bits::Copied<u16>>> as Select,
                    Width::W32 => select::<One<bits::Copied<u32>>>,
                    Width::W128 => select_few::<One<quad::CopiedQuad>>,
                    _ => select::<One<bits::Copied<u64>>>,
                };
                self.emit_one(run, d, a);
                Ok(())
            }
        }
    }

    fn pack(&mut self, to: &Operand<'a>, parts: &[Operand<'a>], scalar: Scalar) -> Lowered<()> {
        let width = Width::of(scalar)?;
        let part = match (width, parts.len()) {
            (Width::W32, 2) | (Width::W64, 4) => Scalar::B16,
            (Width::W64, 2) => Scalar::B32,
            (Width::W128, 2) => Scalar::B64,
            _ => return Err("a vector of these sizes".to_owned()),
        };
        let mut slots = [Slot(0); 4];
        for (slot, operand) in slots.iter_mut().zip(parts) {
            *slot = self.source(operand, part)?;
        }
        let d = self.destination(to, scalar)?;
        let [a, b, c, e] = slots;
        match (width, part) {
            (Width::W32, _) => self.emit_two(select_few::<Two<half::Pair>>, d, a, b),
            (_, Scalar::B32) => self.emit_two(select_few::<Two<half::PairWords>>, d, a, b),
            (_, Scalar::B64) => self.emit_two(select_few::<Two<quad::PairDoubles>>, d, a, b),
            _ => self.emit(Spec { d, a, b, c, e, ..Spec::new(select_few::<packed::Quad>) }),
        }
        Ok(())
    }

    fn unpack(&mut self, parts: &[Operand<'a>], from: &Operand<'a>, scalar: Scalar) -> Lowered<()> {
        let a = self.source(from, scalar)?;
        let width = Width::of(scalar)?;
        let (part, runs): (Scalar, &[Select]) = match (width, parts.len()) {
            (Width::W32, 2) => (Scalar::B16, &[select_few::<One<LowHalf>>, select_few::<One<HighHalf>>]),
            (Width::W64, 2) => (Scalar::B32, &[select::<One<LowWord>>, select::<One<half::HighWord>>]),
            (Width::W128, 2) => {
                (Scalar::B64, &[select_few::<One<quad::LowDouble>>, select_few::<One<quad::HighDouble>>])
            }
            (Width::W64, 4) => (
                Scalar::B16,
                &[
                    select_few::<One<half::Quarter0>>,
                    select_few::<One<half::Quarter1>>,
                    select_few::<One<half::Quarter2>>,
                    select_few::<One<half::Quarter3>>,
                ],
            ),
            _ => return Err("a vector of these sizes".to_owned()),
        };
        for (operand, run) in parts.iter().zip(runs) {
            if !matches!(operand, Operand::Sink) {
                let d = self.destination(operand, part)?;
                self.emit_one(*run, d, a);
            }
        }
        Ok(())
    }
}

/// `f32` to a short float.
fn narrow(to: Scalar) -> Select {
    if to == Scalar::F16 {
        select_few::<One<half::FromSingle<Half>>>
    } else {
        select_few::<One<half::FromSingle<Brain>>>
    }
}

/// The number of a format in operations.
fn format(scalar: Scalar) -> Lowered<u32> {
    match scalar {
        Scalar::F16 => Ok(0),
        Scalar::Bf16 => Ok(1),
        Scalar::F32 => Ok(2),
        Scalar::F64 => Ok(3),
        other => Err(format!("type .{}", other.name())),
    }
}

/// A float rounded to an integral one.
fn integral_of(double: bool, rounding: Rounding) -> Select {
    match (double, rounding) {
        (false, Rounding::Zero) => select_few::<One<steps::IntegralZero>>,
        (false, Rounding::Down) => select_few::<One<steps::IntegralDown>>,
        (false, Rounding::Up) => select_few::<One<steps::IntegralUp>>,
        (false, _) => select_few::<One<steps::IntegralNearest>>,
        (true, Rounding::Zero) => select_few::<One<steps::IntegralZeroDouble>>,
        (true, Rounding::Down) => select_few::<One<steps::IntegralDownDouble>>,
        (true, Rounding::Up) => select_few::<One<steps::IntegralUpDouble>>,
        (true, _) => select_few::<One<steps::IntegralNearestDouble>>,
    }
}
