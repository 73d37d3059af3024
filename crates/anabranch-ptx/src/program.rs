//! A module whose variables have addresses, and whose operations have the functions of this processor.

use std::ptr;
use std::sync::Arc;

use crate::lower::{Code, Spec, Value, Width};
use crate::machine::{FUNCTION_WINDOW, Level, Locate, Op, SHARED_WINDOW, Slot, detect, guarded};
use crate::module::{Function, Module, Variable};
use crate::ops::control::NO_GUARD;
use crate::ops::load::locate_at;
use crate::types::Space;

/// A function, ready to run.
pub(crate) struct Linked {
    pub(crate) ops: Vec<Op>,
    /// What is done once for each warp.
    pub(crate) prologue: Vec<Op>,
    /// What frames contain when they are made: slots, sizes and bits.
    pub(crate) constants: Vec<(Slot, Width, u64)>,
}

/// A module that can be launched.
pub struct Program {
    module: Arc<Module>,
    addresses: Vec<u64>,
    /// Where constant variables begin and end, in order.
    pub(crate) constants: Vec<(u64, u64)>,
    pub(crate) functions: Vec<Linked>,
    /// What finds the addresses of accesses.
    pub(crate) locate: Locate,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Program").field("module", &self.module).finish_non_exhaustive()
    }
}

impl Program {
    /// Gives the global and constant variables of a module their addresses. `address` is called for each of them in order,
    /// and returns the address of memory of the variable's size and alignment.
    pub fn link(module: Arc<Module>, address: impl FnMut(&Variable) -> u64) -> Program {
        Program::link_for(module, detect(), address)
    }

    /// The same for a level that is not the processor's best: a lower one.
    pub fn link_for(module: Arc<Module>, level: Level, mut address: impl FnMut(&Variable) -> u64) -> Program {
        let level = level.min(detect());
        let addresses = module
            .variables
            .iter()
            .map(|variable| match variable.space {
                Space::Shared => variable.shared_offset.into(),
                Space::Global | Space::Constant => address(variable),
                _ => 0,
            })
            .collect::<Vec<u64>>();
        let both = module.variables.iter().zip(&addresses);
        let mut constants: Vec<(u64, u64)> = both
            .filter(|(variable, _)| variable.space == Space::Constant && variable.bytes > 0)
            .map(|(variable, &address)| (address, address.saturating_add(variable.bytes)))
            .collect();
        constants.sort_unstable();
        let functions = Vec::new();
        let mut program = Program { module, addresses, constants, functions, locate: locate_at(level) };
        let functions = program.module.functions.iter().map(|function| program.link_function(&function.code, level));
        program.functions = functions.collect();
        program
    }

    fn link_function(&self, code: &Code, level: Level) -> Linked {
        let op = |spec: &Spec| {
            let chosen = (spec.select)();
            let run = (chosen.run)(level);
            let wrapped = spec.guard != NO_GUARD && !spec.own_guard;
            let moved = spec.relocation.map_or(0, |value| self.value(value, false));
            Op {
                run: if wrapped { guarded } else { run },
                inner: run,
                rest: (chosen.rest)(level),
                d: spec.d,
                a: spec.a,
                b: spec.b,
                c: spec.c,
                e: spec.e,
                guard: spec.guard,
                imm: spec.imm.wrapping_add(moved),
                target: spec.target,
                negate: if spec.negate { !0 } else { 0 },
                guard_negate: if spec.guard_negate { !0 } else { 0 },
                flags: spec.flags,
                bytes: spec.bytes,
            }
        };
        let constants = code.constants.iter().map(|(slot, width, value)| (*slot, *width, self.value(*value, false)));
        Linked {
            ops: code.specs.specs().iter().map(op).collect(),
            prologue: code.prologue.specs().iter().map(op).collect(),
            constants: constants.collect(),
        }
    }

    /// The number that a value is.
    pub(crate) fn value(&self, value: Value, generic: bool) -> u64 {
        match value {
            Value::Bits(bits) => bits,
            Value::Function(function) => function_address(function),
            Value::Variable(variable, offset) => {
                let base = self.addresses[variable as usize].wrapping_add_signed(offset);
                let shared = self.module.variables[variable as usize].space == Space::Shared;
                if generic && shared { base.wrapping_add(SHARED_WINDOW) } else { base }
            }
        }
    }

    /// What a variable of the module contains at first. Trailing zeros are left out. Empty for a variable of another module.
    pub fn initial(&self, variable: &Variable) -> Vec<u8> {
        let own = &self.module.variables;
        // A copy is as good.
        if !own.as_ptr_range().contains(&ptr::from_ref(variable)) && !own.contains(variable) {
            return Vec::new();
        }
        let mut bytes = variable.initial.clone();
        for (at, size, value, generic, mask) in &variable.addresses {
            let mut number = self.value(*value, *generic);
            if *mask != u64::MAX {
                number = (number & mask) >> mask.trailing_zeros().min(63);
            }
            let (start, size) = (*at as usize, *size as usize);
            bytes[start..start + size].copy_from_slice(&number.to_le_bytes()[..size]);
        }
        bytes
    }

    /// The module.
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// The address of a variable.
    pub fn address(&self, name: &str) -> Option<u64> {
        let index = self.module.variables.iter().position(|variable| variable.name == name)?;
        Some(self.addresses[index])
    }

    pub(crate) fn function(&self, index: u32) -> &Function {
        &self.module.functions[index as usize]
    }
}

/// The address of a function. Zero is none.
fn function_address(function: u32) -> u64 {
    FUNCTION_WINDOW + 16 * (u64::from(function) + 1)
}

/// The function of an address, if it is the address of one.
pub(crate) fn function_of(address: u64) -> Option<u32> {
    let offset = address.checked_sub(FUNCTION_WINDOW)?;
    if offset == 0 || !offset.is_multiple_of(16) {
        return None;
    }
    u32::try_from(offset / 16 - 1).ok()
}
