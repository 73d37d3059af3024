//! What lanes of a warp do together.

use super::{Lower, Lowered, Modifiers, Spec, Width};
use crate::machine::Select;
use crate::ops::{select, select_plain, warp};
use crate::syntax::{Instruction, Operand};
use crate::types::Scalar;

impl<'a> Lower<'_, 'a> {
    /// The mask of an instruction: its last operand, or all lanes in the forms without `.sync`.
    fn members(&mut self, instruction: &Instruction<'a>, count: usize, sync: bool) -> Lowered<crate::machine::Slot> {
        self.count(instruction, count + usize::from(sync))?;
        match instruction.operands.last() {
            Some(last) if sync => self.source(last, Scalar::U32),
            _ => {
                // Forms without a mask take the lanes that are here, whose mask is read first.
                let mask = self.temporary(Width::W32)?;
                self.emit(Spec { d: mask, ..Spec::new(select_plain::<warp::ActiveMask>) });
                Ok(mask)
            }
        }
    }

    pub(super) fn shfl(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let sync = modifiers.take("sync");
        let mode = modifiers.take_any(&["up", "down", "bfly", "idx"]);
        modifiers.one_type()?;
        modifiers.finish()?;
        let Some(mode) = mode else { return Err("shfl without a mode".to_owned()) };
        let flags = [warp::UP, warp::DOWN, warp::BUTTERFLY, warp::INDEXED][mode];
        let e = self.members(instruction, 4, sync)?;
        let a = self.source(&instruction.operands[1], Scalar::B32)?;
        let b = self.source(&instruction.operands[2], Scalar::B32)?;
        let c = self.source(&instruction.operands[3], Scalar::B32)?;
        let (d, second) = self.pair(&instruction.operands[0], Scalar::B32)?;
        let (imm, target) = second.map_or((0, 0), |slot| (warp::SECOND, slot.0));
        self.emit(Spec { d, a, b, c, e, imm, target, flags, ..Spec::new(select::<warp::Shuffle>) });
        Ok(())
    }

    /// `d|p`, or `d` alone.
    fn pair(
        &mut self,
        operand: &Operand<'a>,
        scalar: Scalar,
    ) -> Lowered<(crate::machine::Slot, Option<crate::machine::Slot>)> {
        match operand {
            Operand::Pair(both) => {
                Ok((self.destination(&both.0, scalar)?, Some(self.destination(&both.1, Scalar::Pred)?)))
            }
            one => Ok((self.destination(one, scalar)?, None)),
        }
    }

    pub(super) fn vote(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let sync = modifiers.take("sync");
        let mode = modifiers.take_any(&["all", "any", "uni", "ballot"]);
        modifiers.one_type()?;
        modifiers.finish()?;
        let e = self.members(instruction, 2, sync)?;
        let (a, negate) = self.predicate(&instruction.operands[1])?;
        let (run, flags, scalar): (Select, u32, _) = match mode {
            Some(3) => (select_plain::<warp::Ballot>, 0, Scalar::B32),
            Some(mode) => (select_plain::<warp::Vote>, [warp::ALL, warp::ANY, warp::UNIFORM][mode], Scalar::Pred),
            None => return Err("vote without a mode".to_owned()),
        };
        let d = self.destination(&instruction.operands[0], scalar)?;
        self.emit(Spec { d, a, e, negate, flags, ..Spec::new(run) });
        Ok(())
    }

    pub(super) fn matches(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let sync = modifiers.take("sync");
        let mode = modifiers.take_any(&["all", "any"]);
        let scalar = modifiers.one_type()?;
        modifiers.finish()?;
        let Some(mode) = mode else { return Err("match without a mode".to_owned()) };
        let e = self.members(instruction, 2, sync)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let (d, second) = self.pair(&instruction.operands[0], Scalar::U32)?;
        let run: Select = match scalar {
            Scalar::B32 => select_plain::<warp::Match<u32>>,
            Scalar::B64 => select_plain::<warp::Match<u64>>,
            _ => return Err(format!("type .{}", scalar.name())),
        };
        if second.is_some() && mode == 1 {
            return Err("match.any with a predicate".to_owned());
        }
        let (imm, c) = second.map_or((0, d), |slot| (warp::SECOND, slot));
        self.emit(Spec { d, a, c, e, imm, flags: [warp::ALL, warp::ANY][mode], ..Spec::new(run) });
        Ok(())
    }

    pub(super) fn redux(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let sync = modifiers.take("sync");
        let scalar = modifiers.one_type()?;
        let nan = modifiers.take("NaN");
        let absolute = modifiers.take("abs");
        let Some(kind) = modifiers.take_any(&warp::REDUCTIONS) else { return Err("this reduction".to_owned()) };
        modifiers.finish()?;
        let imm = match scalar {
            Scalar::U32 | Scalar::B32 => warp::OF_UNSIGNED,
            Scalar::S32 => warp::OF_SIGNED,
            Scalar::F32 if !absolute && matches!(kind, 1 | 2) => {
                if nan {
                    warp::OF_REAL_NAN
                } else {
                    warp::OF_REAL
                }
            }
            _ => return Err(format!("type .{}", scalar.name())),
        };
        let e = self.members(instruction, 2, sync)?;
        let a = self.source(&instruction.operands[1], scalar)?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        self.emit(Spec { d, a, e, imm, flags: kind as u32, ..Spec::new(select_plain::<warp::Reduce>) });
        Ok(())
    }

    pub(super) fn activemask(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 1)?;
        let d = self.destination(&instruction.operands[0], Scalar::B32)?;
        self.emit(Spec { d, ..Spec::new(select_plain::<warp::ActiveMask>) });
        Ok(())
    }

    pub(super) fn elect(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 2)?;
        let e = self.source(&instruction.operands[1], Scalar::U32)?;
        let (d, c) = self.pair(&instruction.operands[0], Scalar::U32)?;
        let Some(c) = c else { return Err("elect with one result".to_owned()) };
        self.emit(Spec { d, c, e, ..Spec::new(select_plain::<warp::Elect>) });
        Ok(())
    }
}
