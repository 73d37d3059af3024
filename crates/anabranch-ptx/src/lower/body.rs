//! The statements of a function, in order.

use super::forms;
use super::names::Declared;
use super::pass::Passed;
use super::table::{TABLE, find};
use super::{Formal, Framed, Local, Lower, Lowered, Place, Register, Scope, Signature, Spec, Width};
use crate::ops::control::{self, NO_GUARD};
use crate::ops::{compare, select_plain};
use crate::position::Position;
use crate::syntax::{Function, Initial, Instruction, Statement, Variable};
use crate::types::{Scalar, Space};

/// The size and the alignment of a variable.
pub(crate) fn layout(variable: &Variable<'_>) -> Option<(u64, u32)> {
    let own = variable.scalar.bytes().max(1) * variable.vector;
    let mut bytes = u64::from(own);
    for size in &variable.dimensions {
        bytes = bytes.checked_mul(*size)?;
    }
    Some((bytes, variable.alignment.unwrap_or(own.next_power_of_two())))
}

/// The bytes of an element of an array: of one number, also in arrays of vectors and of arrays.
pub(crate) fn element(variable: &Variable<'_>) -> Option<u32> {
    (!variable.dimensions.is_empty()).then(|| variable.scalar.bytes().max(1))
}

/// The size in bytes of an array whose first dimension is left out, such as `x[][2]`: a step of that dimension for each of its
/// initial values.
pub(crate) fn size_of_open_array(variable: &Variable<'_>, values: &[Initial<'_>]) -> Option<u64> {
    let element = u64::from(variable.scalar.bytes().max(1));
    let inner = variable.dimensions.iter().skip(1).try_fold(element, |bytes, size| bytes.checked_mul(*size))?;
    let step = inner.checked_mul(variable.vector.into())?;
    step.checked_mul(values.len() as u64)
}

/// The most bytes that the local variables and parameters of a function may have.
const LOCAL_LIMIT: u64 = 1 << 20;

impl<'a> Lower<'_, 'a> {
    /// A part of the frame's local memory.
    fn place(&mut self, variable: &Variable<'a>) -> Lowered<Place> {
        let (bytes, alignment) = layout(variable).ok_or("a variable of this size")?;
        self.room(bytes, alignment)
    }

    /// As many bytes of the frame's local memory.
    pub(super) fn room(&mut self, bytes: u64, alignment: u32) -> Lowered<Place> {
        let alignment = alignment.max(1);
        let start = u64::from(self.code.local_bytes).next_multiple_of(alignment.into());
        if start.saturating_add(bytes) > LOCAL_LIMIT {
            return Err(format!("local variables of more than {LOCAL_LIMIT} bytes"));
        }
        self.code.local_bytes = (start + bytes) as u32;
        self.code.local_alignment = self.code.local_alignment.max(alignment);
        Ok(Place { offset: start as u32, bytes: bytes as u32 })
    }

    fn declare(&mut self, at: Position, name: &'a str, local: Local) {
        let is_new = self.scopes.last_mut().is_none_or(|scope| scope.declare(name, local));
        self.is_declared(at, name, is_new);
    }

    fn is_declared(&mut self, at: Position, name: &str, is_new: bool) {
        if !is_new {
            self.invalid(at, format!("a second declaration of `{name:.60}` in one block"));
        }
    }

    /// A parameter or a result of the function in its frame. Those that are registers have a place there, too.
    fn formal(&mut self, variable: &Variable<'a>, framed: Framed) -> (Place, Option<Passed>) {
        let place = match self.place(variable) {
            Ok(place) => place,
            Err(what) => {
                self.refuse(variable.at.line, what);
                return (Place::default(), None);
            }
        };
        if variable.space != Space::Register {
            self.declare(variable.at, variable.name, Local::Frame(place, framed));
            return (place, None);
        }
        self.variable_statement(variable);
        match self.passed(variable.name, variable.scalar, place) {
            Ok(passed) => (place, Some(passed)),
            Err(what) => {
                self.refuse(variable.at.line, what);
                (place, None)
            }
        }
    }

    pub(super) fn function(&mut self, function: &Function<'a>) {
        if function.kernel {
            let mut offset = 0u64;
            for parameter in &function.parameters {
                let Some((bytes, alignment)) = layout(parameter) else { continue };
                offset = offset.checked_next_multiple_of(alignment.into()).unwrap_or(u64::MAX);
                let place = Place { offset: offset as u32, bytes: bytes as u32 };
                self.code.formals.push(place);
                self.declare(parameter.at, parameter.name, Local::Parameter(place));
                offset = offset.saturating_add(bytes);
            }
        } else {
            for result in &function.results {
                let (place, register) = self.formal(result, Framed::Result);
                self.code.results.push(place);
                self.register_results.extend(register);
            }
            for parameter in &function.parameters {
                let (place, register) = self.formal(parameter, Framed::Parameter);
                self.code.formals.push(place);
                if let Some(register) = register
                    && let Err(what) = self.receive(register)
                {
                    self.refuse(parameter.at.line, what);
                }
            }
        }
        if let Some(body) = &function.body {
            self.block(body);
        }
        // The end of a body is a return.
        self.guard = NO_GUARD;
        if let Err(what) = self.send_results() {
            self.refuse(function.at.line, what);
        }
        let run: crate::machine::Select =
            if self.kernel { select_plain::<control::Exit> } else { select_plain::<control::Return> };
        self.emit(Spec { own_guard: true, ..Spec::new(run) });
        self.patch();
        self.code.local_bytes = self.code.local_bytes.max(self.most_local).next_multiple_of(16);
        self.code.frame_bytes = self.code.frame_bytes.max(64);
        self.improve();
        self.check(function.at.line);
    }

    /// Replaces the numbers of labels by their places.
    fn patch(&mut self) {
        let place = |labels: &[Option<u32>], label: u32| labels.get(label as usize).copied().flatten().unwrap_or(0);
        for &at in &self.label_uses {
            let spec = &mut self.specs[at as usize];
            spec.target = place(&self.labels, spec.target);
        }
        for target in self.code.tables.iter_mut().flatten() {
            *target = place(&self.labels, *target);
        }
    }

    fn block(&mut self, statements: &[Statement<'a>]) {
        // Names may be used before they stand in the text: labels, and tables of targets.
        for statement in statements {
            match statement {
                Statement::Label(at, name) => {
                    let label = Local::Label(self.labels.len() as u32);
                    self.labels.push(None);
                    self.declare(*at, name, label);
                }
                Statement::Prototype(prototype) => {
                    let number = Local::Prototype(self.prototypes.len() as u32);
                    self.prototypes.push(Signature::of_lists(&prototype.results, &prototype.parameters).into());
                    self.declare(prototype.at, prototype.name, number);
                }
                Statement::Callees(at, name, callees) => {
                    let signature = self.signature_of(*at, callees);
                    let number = Local::Prototype(self.prototypes.len() as u32);
                    self.prototypes.push(signature);
                    self.declare(*at, name, number);
                }
                _ => {}
            }
        }
        for statement in statements {
            if let Statement::Targets(at, name, labels) = statement {
                let table = self.declare_table(labels);
                self.declare(*at, name, Local::Targets(table));
            }
        }
        for statement in statements {
            match statement {
                Statement::Label(_, name) => {
                    if let Some(label) = self.scopes.last().and_then(|scope| scope.label(name)) {
                        self.labels[label as usize] = Some(self.specs.len() as u32);
                    }
                }
                Statement::Instruction(instruction) => self.instruction(instruction),
                Statement::Variable(variable) => self.variable_statement(variable),
                Statement::Source { file, line } => (self.line.1, self.line.2) = (*file, *line),
                Statement::Block(inside) => {
                    // What is declared inside exists only there, and its memory is used again.
                    let (start, locals) = (self.code.local_bytes, self.locals);
                    self.scopes.push(Scope::default());
                    self.block(inside);
                    self.scopes.pop();
                    self.most_local = self.most_local.max(self.code.local_bytes);
                    // A local variable stays: its address may be used behind the block.
                    if self.locals == locals {
                        self.code.local_bytes = start;
                    }
                }
                Statement::Targets(..) | Statement::Callees(..) | Statement::Prototype(..) => {}
            }
        }
    }

    fn variable_statement(&mut self, variable: &Variable<'a>) {
        let line = variable.at.line;
        if !matches!(variable.space, Space::Global | Space::Constant) {
            if variable.initial.is_some() {
                let space = variable.space.name();
                let message = format!("an initial value of `{:.60}`, which is in .{space}", variable.name);
                self.invalid(variable.at, message);
            }
            if variable.dimensions.contains(&0) && !matches!(variable.space, Space::Register) {
                self.invalid(variable.at, format!("`{:.60}`, which has no size", variable.name));
            }
        }
        match variable.space {
            Space::Register => {
                let declaration = self.declarations;
                self.declarations += 1;
                let (at, name, scalar, vector) = (variable.at, variable.name, variable.scalar, variable.vector);
                let register = Register { scalar, vector, declaration };
                match variable.count {
                    Some(count) => {
                        let scope = self.scopes.last_mut();
                        let is_new = scope.is_none_or(|scope| scope.declare_range(name, register, count));
                        self.is_declared(at, name, is_new);
                    }
                    None => self.declare(at, name, Local::Register(register)),
                }
                let count = variable.count.unwrap_or(1).saturating_mul(vector.into());
                match self.code.registers.iter_mut().find(|(scalar, _)| *scalar == variable.scalar) {
                    Some((_, all)) => *all = all.saturating_add(count),
                    None => self.code.registers.push((variable.scalar, count)),
                }
                if vector > 4 {
                    self.refuse(line, "vector registers of more than 4 parts");
                }
            }
            Space::Local | Space::Parameter => match self.place(variable) {
                Ok(place) => {
                    let framed = match variable.space {
                        Space::Parameter => Framed::Passed(Formal::of(variable)),
                        _ => {
                            self.locals += 1;
                            Framed::Local(element(variable))
                        }
                    };
                    self.declare(variable.at, variable.name, Local::Frame(place, framed));
                }
                Err(what) => self.refuse(line, what),
            },
            Space::Shared => {
                let Some((bytes, alignment)) = layout(variable) else {
                    return self.refuse(line, "a variable of this size");
                };
                let number = self.items.variables.len() as u32;
                self.items.variables.push(Declared {
                    name: variable.name,
                    space: Space::Shared,
                    bytes,
                    alignment,
                    element: element(variable),
                    dynamic: false,
                    owner: Some(self.items.current),
                });
                self.declare(variable.at, variable.name, Local::Variable(number));
            }
            _ => self.refuse(line, "variables of this state space in functions"),
        }
    }

    fn instruction(&mut self, instruction: &Instruction<'a>) {
        self.line.0 = instruction.at.line;
        for used in self.used.values_mut() {
            *used = 0;
        }
        self.guard = NO_GUARD;
        self.guard_negate = false;
        let lowered = self.guarded(instruction);
        if let Err(what) = lowered {
            let mut name = instruction.opcode.to_owned();
            for modifier in &instruction.modifiers {
                name.push('.');
                name.push_str(modifier);
            }
            let text = if what.is_empty() { format!("{name:.100}") } else { format!("{name:.100}: {what}") };
            self.refuse(instruction.at.line, text);
        }
    }

    fn guarded(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        if let Some((name, negated)) = instruction.guard {
            let guard = self.register_of(name, Scalar::Pred)?;
            // All operations of the instruction have the guard of before, also behind one that writes that register.
            self.guard = if instruction.operands.first().is_some_and(|results| results.names(name)) {
                let copy = self.temporary(Width::Predicate)?;
                self.emit_one(select_plain::<compare::MovePredicate>, copy, guard);
                copy
            } else {
                guard
            };
            self.guard_negate = negated;
        }
        self.takes_address = matches!(instruction.opcode, "mov" | "cvta");
        self.takes_special = matches!(instruction.opcode, "mov" | "cvt");
        let Some(place) = find(instruction.opcode) else { return Err("no such instruction".to_owned()) };
        let lower = TABLE[place].lower.map_err(str::to_owned)?;
        let has_form = forms::check(place, &instruction.modifiers);
        // What only lacks support is refused with its own reason.
        lower(self, instruction)?;
        has_form
    }
}
