//! Arithmetic of floats. Flushing and saturation are operations of their own, before and after.

use super::improve::Kind;
use super::{Lower, Lowered, Modifiers, Spec, Width};
use crate::float::Rounding;
use crate::machine::{Select, Slot};
use crate::ops::half::{self, Brain, Half, Packed};
use crate::ops::{One, Three, Two, bits, real, rounded, select, select_few, select_plain};
use crate::syntax::Instruction;
use crate::types::Scalar;

/// A function of short floats, for each of their types.
macro_rules! short {
    ($scalar:expr, $wrap:ident<$f:ident>) => {
        match $scalar {
            Scalar::F16 => Ok(select_few::<$wrap<half::$f<Half>>> as Select),
            Scalar::Bf16 => Ok(select_few::<$wrap<half::$f<Brain>>> as Select),
            Scalar::F16x2 => Ok(select_few::<$wrap<Packed<half::$f<Half>>>> as Select),
            Scalar::Bf16x2 => Ok(select_few::<$wrap<Packed<half::$f<Brain>>>> as Select),
            other => Err(format!("type .{}", other.name())),
        }
    };
}

/// A function of floats of 32 and 64 bits, or of short ones.
macro_rules! float {
    ($scalar:expr, $wrap:ident<$f:ident>) => {
        match $scalar {
            Scalar::F32 => Ok(select::<$wrap<real::$f<f32>>> as Select),
            Scalar::F64 => Ok(select::<$wrap<real::$f<f64>>> as Select),
            other => short!(other, $wrap<$f>),
        }
    };
}

/// The same for functions that short floats do not have.
macro_rules! long {
    ($scalar:expr, $wrap:ident<$f:ident>) => {
        choose!($scalar, [Scalar::F32 => f32, Scalar::F64 => f64], select::<$wrap<real::$f<T>>>)
    };
}

/// What an instruction does beside its operation.
#[derive(Clone, Copy)]
struct Steps {
    /// A rounding mode that is not to the nearest.
    exact: Option<Rounding>,
    flush: bool,
    saturate: bool,
    relu: bool,
    nan: bool,
    approximate: bool,
}

impl<'a> Lower<'_, 'a> {
    /// All arithmetic of floats: by the name of the instruction.
    pub(super) fn real_arithmetic(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let types = modifiers.types();
        let scalar = match *types {
            [scalar] => scalar,
            // The sum of a short float and a single.
            [Scalar::F32, short @ (Scalar::F16 | Scalar::Bf16)] => return self.mixed(instruction, modifiers, short),
            _ => return Err("these types".to_owned()),
        };
        let rounding = modifiers.rounding();
        let flush = modifiers.take("ftz");
        let saturate = modifiers.take("sat");
        let relu = modifiers.take("relu");
        let nan = modifiers.take("NaN");
        let [xorsign, abs] = ["xorsign", "abs"].map(|word| modifiers.take(word));
        if xorsign != abs {
            return Err("one of .xorsign and .abs without the other".to_owned());
        }
        let magnitude = xorsign;
        let approximate = modifiers.take("approx") || modifiers.take("full");
        modifiers.finish()?;
        let opcode = instruction.opcode;
        if magnitude && (scalar != Scalar::F32 || !matches!(opcode, "min" | "max")) {
            return Err("modifier .xorsign".to_owned());
        }
        let count = match opcode {
            "add" | "sub" | "mul" | "div" | "min" | "max" => 2,
            "fma" | "mad" => 3,
            _ => 1,
        };
        self.three_or_less(instruction, count)?;
        let exact = match rounding {
            None | Some(Rounding::Nearest) => None,
            Some(rounding) => Some(rounding),
        };
        let options = Steps { exact, flush, saturate, relu, nan, approximate };
        if scalar == Scalar::F32x2 {
            return self.pairs(instruction, count, options);
        }
        if exact.is_some() && (approximate || scalar.bytes() < 4 || scalar == Scalar::F16x2 || scalar == Scalar::Bf16x2)
        {
            return Err("this rounding mode for this type".to_owned());
        }
        let mut sources = [Slot(0); 3];
        for (slot, operand) in sources.iter_mut().zip(&instruction.operands[1..]) {
            *slot = self.source(operand, scalar)?;
        }
        let d = self.destination(&instruction.operands[0], scalar)?;
        if magnitude {
            return self.magnitudes((opcode, scalar, count), d, sources, options);
        }
        self.steps((opcode, scalar, count), d, sources, options)
    }

    /// `min` and `max` of magnitudes, with the sign of a product.
    fn magnitudes(
        &mut self,
        what: (&str, Scalar, usize),
        d: Slot,
        [a, b, _]: [Slot; 3],
        options: Steps,
    ) -> Lowered<()> {
        let (mut sources, sign) = ([Slot(0); 3], self.temporary(Width::W32)?);
        let mask = self.bits(Width::W32, 1 << 31)?;
        self.emit_two(select::<Two<bits::Xor<u32>>>, sign, a, b);
        self.emit_two(select::<Two<bits::And<u32>>>, sign, sign, mask);
        for (source, whole) in sources.iter_mut().zip([a, b]) {
            *source = self.temporary(Width::W32)?;
            self.emit_one(select::<One<real::Absolute<f32>>>, *source, whole);
        }
        self.steps(what, d, sources, options)?;
        self.emit_two(select::<Two<bits::Or<u32>>>, d, d, sign);
        // A NaN has no sign.
        self.emit_one(select_few::<One<real::Canonical>>, d, d);
        Ok(())
    }

    /// `add`, `sub`, `mul` and `fma` of pairs of floats of 32 bits: each on its own.
    fn pairs(&mut self, instruction: &Instruction<'a>, count: usize, options: Steps) -> Lowered<()> {
        let named = matches!(instruction.opcode, "add" | "sub" | "mul" | "fma");
        if !named || options.saturate || options.relu || options.nan || options.approximate {
            return Err("this form of type .f32x2".to_owned());
        }
        let mut halves = [[Slot(0); 3]; 2];
        for (index, operand) in instruction.operands[1..].iter().enumerate() {
            let pair = self.source(operand, Scalar::F32x2)?;
            for (half, run) in
                halves.iter_mut().zip([select::<One<half::LowWord>> as Select, select::<One<half::HighWord>>])
            {
                half[index] = self.temporary(Width::W32)?;
                self.emit_one(run, half[index], pair);
            }
        }
        let d = self.destination(&instruction.operands[0], Scalar::F32x2)?;
        let mut results = [Slot(0); 2];
        for (result, sources) in results.iter_mut().zip(halves) {
            *result = self.temporary(Width::W32)?;
            self.steps((instruction.opcode, Scalar::F32, count), *result, sources, options)?;
        }
        self.emit_two(select_few::<Two<half::PairWords>>, d, results[0], results[1]);
        Ok(())
    }

    /// The operations of one instruction.
    fn steps(
        &mut self,
        (opcode, scalar, count): (&str, Scalar, usize),
        d: Slot,
        mut sources: [Slot; 3],
        Steps { exact, flush, saturate, relu, nan, approximate }: Steps,
    ) -> Lowered<()> {
        if flush {
            for slot in sources.iter_mut().take(count) {
                *slot = self.flushed(*slot, scalar)?;
            }
        }
        if let Some(rounding) = exact {
            self.rounded(opcode, scalar, rounding, d, sources, flush)?;
        } else if let Some(run) = flushing(opcode, scalar).filter(|_| flush && !approximate) {
            self.emit_three(run, d, sources);
        } else {
            let run = self.nearest(opcode, scalar, nan, approximate && (flush || scalar != Scalar::F64))?;
            self.emit_three(run, d, sources);
            if let Some(last) = self.specs.last_mut()
                && count == 3
                && scalar == Scalar::F32
            {
                last.kind = Kind::Fused;
            }
        }
        if flush {
            self.emit_one(float!(scalar, One<Flush>)?, d, d);
        }
        if saturate {
            self.emit_one(float!(scalar, One<Saturate>)?, d, d);
        }
        if relu {
            self.emit_one(short!(scalar, One<Relu>)?, d, d);
        }
        Ok(())
    }

    fn three_or_less(&self, instruction: &Instruction<'a>, count: usize) -> Lowered<()> {
        self.count(instruction, count + 1)
    }

    /// A value whose subnormal numbers are zeros.
    pub(super) fn flushed(&mut self, slot: Slot, scalar: Scalar) -> Lowered<Slot> {
        let flushed = self.temporary(Width::of(scalar)?)?;
        self.emit_one(float!(scalar, One<Flush>)?, flushed, slot);
        Ok(flushed)
    }

    /// What an instruction is that rounds to the nearest.
    fn nearest(&mut self, opcode: &str, scalar: Scalar, nan: bool, approximate: bool) -> Lowered<Select> {
        match (opcode, scalar) {
            ("add", _) => float!(scalar, Two<Add>),
            ("sub", _) => float!(scalar, Two<Sub>),
            ("mul", _) => float!(scalar, Two<Mul>),
            ("fma" | "mad", _) => float!(scalar, Three<Fused>),
            ("div", _) => long!(scalar, Two<Div>),
            ("min", _) if nan => float!(scalar, Two<MinNan>),
            ("max", _) if nan => float!(scalar, Two<MaxNan>),
            ("min", _) => float!(scalar, Two<Min>),
            ("max", _) => float!(scalar, Two<Max>),
            ("abs", _) => float!(scalar, One<Absolute>),
            ("neg", _) => float!(scalar, One<Negate>),
            ("rcp", Scalar::F64) if approximate => Ok(select_few::<One<real::ReciprocalHigh>>),
            ("rcp", _) => long!(scalar, One<Reciprocal>),
            ("sqrt", _) => long!(scalar, One<Root>),
            ("rsqrt", Scalar::F64) if approximate => Ok(select_few::<One<real::ReciprocalRootHigh>>),
            ("rsqrt", Scalar::F32) => Ok(select::<One<real::ReciprocalRoot<f32>>>),
            ("rsqrt", Scalar::F64) => Ok(select::<One<real::ReciprocalRoot<f64>>>),
            ("sin", Scalar::F32) => Ok(select_plain::<One<real::Sine>>),
            ("cos", Scalar::F32) => Ok(select_plain::<One<real::Cosine>>),
            ("lg2", Scalar::F32) => Ok(select_plain::<One<real::Logarithm>>),
            ("ex2", Scalar::F32) => Ok(select_plain::<One<real::PowerOfTwo>>),
            ("tanh", Scalar::F32) => Ok(select_plain::<One<real::Tangent>>),
            ("ex2", _) => short!(scalar, One<PowerOfTwo>),
            ("tanh", _) => short!(scalar, One<Tangent>),
            _ => Err(format!("type .{}", scalar.name())),
        }
    }

    /// What an instruction is in another rounding mode.
    fn rounded(
        &mut self,
        opcode: &str,
        scalar: Scalar,
        rounding: Rounding,
        d: Slot,
        [a, b, c]: [Slot; 3],
        flush: bool,
    ) -> Lowered<()> {
        let kind = match opcode {
            "add" => rounded::ADD,
            "sub" => rounded::SUB,
            "mul" => rounded::MUL,
            "fma" | "mad" => rounded::FUSED,
            "div" => rounded::DIV,
            "sqrt" => rounded::ROOT,
            "rcp" => rounded::RECIPROCAL,
            _ => return Err("a rounding mode of this instruction".to_owned()),
        };
        let run = match scalar {
            Scalar::F32 => select_plain::<rounded::Single>,
            Scalar::F64 => select_plain::<rounded::Double>,
            _ => return Err(format!("this rounding mode for type .{}", scalar.name())),
        };
        // Operands that are not there are read too: they are any plane of the size.
        let count = match kind {
            rounded::ROOT | rounded::RECIPROCAL => 1,
            rounded::FUSED => 3,
            _ => 2,
        };
        let (b, c) = (if count > 1 { b } else { a }, if count > 2 { c } else { a });
        let flags = if flush { kind | rounded::FLUSH } else { kind };
        self.emit(Spec { d, a, b, c, flags, imm: rounded::code(rounding), ..Spec::new(run) });
        Ok(())
    }

    /// `add.f32.f16` and the like: the short float is converted first, which is exact.
    fn mixed(&mut self, instruction: &Instruction<'a>, mut modifiers: Modifiers<'a>, short: Scalar) -> Lowered<()> {
        let rounding = modifiers.rounding().unwrap_or(Rounding::Nearest);
        let saturate = modifiers.take("sat");
        modifiers.finish()?;
        let opcode = instruction.opcode;
        let count = if opcode == "fma" { 3 } else { 2 };
        self.three_or_less(instruction, count)?;
        let mut sources = [Slot(0); 3];
        for (index, operand) in instruction.operands[1..].iter().enumerate() {
            let is_short = index == 0 || opcode == "fma" && index == 1;
            sources[index] = self.source(operand, if is_short { short } else { Scalar::F32 })?;
            if is_short {
                let whole = self.temporary(Width::W32)?;
                self.emit_one(short_to_single(short)?, whole, sources[index]);
                sources[index] = whole;
            }
        }
        let d = self.destination(&instruction.operands[0], Scalar::F32)?;
        if rounding == Rounding::Nearest {
            let run = self.nearest(opcode, Scalar::F32, false, false)?;
            self.emit_three(run, d, sources);
        } else {
            self.rounded(opcode, Scalar::F32, rounding, d, sources, false)?;
        }
        if saturate {
            self.emit_one(select::<One<real::Saturate<f32>>>, d, d);
        }
        Ok(())
    }

    pub(super) fn copysign(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        let run = float!(scalar, Two<CopySign>)?;
        self.binary(instruction, scalar, run)
    }
}

/// What an instruction with `.ftz` is whose exact result may be less than the least normal number and rounded to it:
/// hardware flushes what is less when it is rounded to all bits of a normal number.
fn flushing(opcode: &str, scalar: Scalar) -> Option<Select> {
    match (opcode, scalar) {
        ("mul", Scalar::F32) => Some(select::<Two<real::MulFlush>>),
        ("fma" | "mad", Scalar::F32) => Some(select::<Three<real::FusedFlush>>),
        ("div", Scalar::F32) => Some(select_few::<Two<real::DivFlush>>),
        ("rcp", Scalar::F32) => Some(select_few::<One<real::ReciprocalFlush>>),
        ("mul", _) => short!(scalar, Two<MulFlush>).ok(),
        ("fma" | "mad", _) => short!(scalar, Three<FusedFlush>).ok(),
        _ => None,
    }
}

/// `f16` or `bf16` to `f32`.
pub(super) fn short_to_single(scalar: Scalar) -> Lowered<Select> {
    match scalar {
        Scalar::F16 => Ok(select_few::<One<half::ToSingle<Half>>>),
        Scalar::Bf16 => Ok(select_few::<One<half::ToSingle<Brain>>>),
        other => Err(format!("type .{}", other.name())),
    }
}
