//! State spaces: each name is in one, and an access to it says which.

use super::{Framed, Item, Local, Lower, Lowered};
use crate::types::{Meaning, Space};

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Does {
    Load,
    Store,
    /// A load and a store at once, or an operation on a barrier object.
    Atomic,
}

impl Lower<'_, '_> {
    /// The state space of a name that is declared, and has an address.
    pub(super) fn space_of(&self, name: &str) -> Option<Space> {
        let variable = |number: u32| self.items.variables.get(number as usize).map(|variable| variable.space);
        match self.find(name) {
            Some((Local::Frame(_, Framed::Local(_)), _)) => Some(Space::Local),
            Some((Local::Frame(..) | Local::Parameter(_), _)) => Some(Space::Parameter),
            Some((Local::Variable(number), _)) => variable(number),
            Some(_) => None,
            None => match self.items.by_name.get(name) {
                Some(Item::Variable(number)) => variable(*number),
                _ => None,
            },
        }
    }

    /// Checks that an access in a state space, or in none that is named, may be made to a name, to what a register points to,
    /// or to a number.
    pub(super) fn check_space(&self, name: Option<&str>, space: Option<Space>, does: Does) -> Lowered<()> {
        if does == Does::Store && space == Some(Space::Constant) {
            return Err("a store to constant memory".to_owned());
        }
        let Some(name) = name else {
            let is_local = space == Some(Space::Local) && does != Does::Atomic;
            return if is_local { Ok(()) } else { Err("a number as an address that is not local".to_owned()) };
        };
        match self.find(name) {
            Some((Local::Register(register), _)) => {
                if register.scalar.meaning() == Meaning::Float {
                    return Err(format!("an address in `{name:.60}`, which is of type .{}", register.scalar.name()));
                }
                if matches!(space, None | Some(Space::Global)) && register.scalar.bytes() == 4 {
                    return Err(format!("an address of 64 bits in `{name:.60}`, which has 32"));
                }
                if does == Does::Store && space == Some(Space::Parameter) {
                    return Err(format!("a store to what `{name:.60}` points to as a parameter"));
                }
                return Ok(());
            }
            Some((Local::Frame(_, Framed::Parameter), _)) if does != Does::Load => {
                return Err(format!("a store to the parameter `{name:.60}` of the function"));
            }
            Some((Local::Frame(_, Framed::Result), _)) if does != Does::Store => {
                return Err(format!("a load of the result `{name:.60}` of the function"));
            }
            None if matches!(self.items.by_name.get(name), Some(Item::Function(_))) => {
                return Err(format!("an access to the function `{name:.60}`"));
            }
            _ => {}
        }
        // Names that have no space are refused where their address is looked for.
        let Some(own) = self.space_of(name).filter(|own| *own != Space::Texture) else { return Ok(()) };
        let is_reached = match space {
            Some(space) => space == own,
            None => matches!(own, Space::Global | Space::Shared | Space::Local),
        };
        if !is_reached || does == Does::Atomic && !matches!(own, Space::Global | Space::Shared) {
            return Err(format!("this access to `{name:.60}`, which is in .{}", own.name()));
        }
        Ok(())
    }
}
