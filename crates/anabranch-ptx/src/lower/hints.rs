//! Instructions about caches, grids and profilers, which do nothing here.

use super::space::Does;
use super::{Lower, Lowered, range};
use crate::syntax::{Instruction, Operand};
use crate::types::Space;

/// The bytes that a priority is applied to, and that are discarded.
const LINE: i64 = 128;

impl<'a> Lower<'_, 'a> {
    pub(super) fn hint(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let [address, rest @ ..] = &*instruction.operands else { return Err("0 operands".to_owned()) };
        let Operand::Address(name, _) = address else {
            return Err("this operand as an address; an address is in brackets".to_owned());
        };
        let space = instruction.modifiers.iter().find_map(|word| Space::from_name(word));
        self.check_space(*name, space, Does::Load)?;
        match (instruction.opcode, rest) {
            ("applypriority" | "discard", [size]) if range::number(size) == Some(LINE) => Ok(()),
            ("applypriority" | "discard", [_]) => Err(format!("a size that is not the number {LINE}")),
            ("prefetch" | "prefetchu", []) => Ok(()),
            _ => Err(format!("{} operands", instruction.operands.len())),
        }
    }

    pub(super) fn grid_control(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 0)
    }

    pub(super) fn performance_event(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 1)?;
        let most = if instruction.modifiers.contains(&"mask") { 0xffff } else { 15 };
        let event = &instruction.operands[0];
        if range::number(event).is_none() {
            return Err("an event that is no number".to_owned());
        }
        range::check(event, 0..=most)
    }
}
