//! `mbarrier`.

use super::memory::access;
use super::space::Does;
use super::{Lower, Lowered, Modifiers, Spec, Width, range};
use crate::ops::convert::Extend;
use crate::ops::load::{CONSTANT, FRAME, LOCAL, PARAMETER, SPACE};
use crate::ops::{One, atomic, phases, select, select_plain};
use crate::syntax::{Instruction, Operand};
use crate::types::{Scalar, Space};

impl<'a> Lower<'_, 'a> {
    pub(super) fn mbarrier(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let kinds = ["init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count"];
        let kind = modifiers.take_any(&kinds).map_or("", |kind| kinds[kind]);
        if kind.is_empty() || modifiers.has("expect_tx") {
            return Err("transactions of barrier objects".to_owned());
        }
        let parity = modifiers.take("parity");
        let keeps_phase = modifiers.take("noComplete");
        let _ = modifiers.one_type()?;
        let access = access(&mut modifiers)?;
        modifiers.finish()?;
        if !matches!(access.space, None | Some(Space::Shared)) {
            return Err("this state space".to_owned());
        }
        if kind == "pending_count" {
            self.count(instruction, 2)?;
            let a = self.source(&instruction.operands[1], Scalar::U64)?;
            let d = self.destination(&instruction.operands[0], Scalar::U32)?;
            self.emit_one(select_plain::<phases::Pending>, d, a);
            return Ok(());
        }
        let asks = matches!(kind, "test_wait" | "try_wait");
        let (result, operands) = match kind {
            "init" | "inval" => (None, &*instruction.operands),
            _ => match instruction.operands.split_first() {
                Some((result, rest)) => (Some(result), rest),
                None => return Err("0 operands".to_owned()),
            },
        };
        let (address, b) = match operands {
            [_] if keeps_phase => return Err("modifier .noComplete without a count".to_owned()),
            [address] if matches!(kind, "arrive" | "arrive_drop") => (address, self.bits(Width::W64, 1)?),
            [address] if kind == "inval" => (address, self.bits(Width::W64, 0)?),
            [address, state] if asks && !parity => (address, self.source(state, Scalar::U64)?),
            // A third operand is how long it may wait.
            [address, state, _] if kind == "try_wait" && !parity => (address, self.source(state, Scalar::U64)?),
            [address, parity] if asks => (address, self.parity(parity)?),
            [address, parity, _] if kind == "try_wait" => (address, self.parity(parity)?),
            [_, count] if kind != "init" && range::number(count) == Some(0) => {
                return Err("an arrival of none".to_owned());
            }
            [address, count] if kind != "inval" => (address, self.wide(count)?),
            _ => return Err(format!("{} operands", instruction.operands.len())),
        };
        let target = match kind {
            "init" => phases::INITIALIZE,
            "inval" => phases::INVALIDATE,
            "arrive" => phases::ARRIVE,
            "arrive_drop" => phases::DROP,
            _ if parity => phases::OF_PARITY,
            _ => phases::OF_STATE,
        };
        let run = if asks { select_plain::<phases::Ask> } else { select_plain::<phases::Change> };
        let mut spec = Spec { b, target, bytes: 8, ..Spec::new(run) };
        if let Some(result) = result.filter(|result| !matches!(result, Operand::Sink)) {
            spec.d = self.destination(result, if asks { Scalar::Pred } else { Scalar::U64 })?;
            spec.flags = atomic::RESULT;
        }
        // The name of a variable says where it is.
        let is_named = matches!(address, Operand::Address(Some(name), _) if self.space_of(name).is_some());
        let space = if is_named { Some(Space::Shared) } else { access.space };
        self.locate(&mut spec, address, space, Does::Atomic)?;
        if matches!(spec.flags & SPACE, CONSTANT | PARAMETER | LOCAL | FRAME) {
            return Err("barrier objects in this state space".to_owned());
        }
        self.emit(spec);
        Ok(())
    }

    fn parity(&mut self, operand: &Operand<'a>) -> Lowered<crate::machine::Slot> {
        range::check(operand, 0..=1)?;
        self.wide(operand)
    }

    /// A number of 32 bits in a register of 64.
    fn wide(&mut self, operand: &Operand<'a>) -> Lowered<crate::machine::Slot> {
        let narrow = self.source(operand, Scalar::U32)?;
        let wide = self.temporary(Width::W64)?;
        self.emit_one(select::<One<Extend<u32, u32, u64>>>, wide, narrow);
        Ok(wide)
    }
}
