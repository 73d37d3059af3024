//! Branches, calls and barriers.

use super::pass::Passed;
use super::{Item, Local, Lower, Lowered, Modifiers, Signature, Site, Spec, Value, Width, range};
use crate::machine::Select;
use crate::ops::convert::Extend;
use crate::ops::{One, control, select, select_plain};
use crate::position::Position;
use crate::syntax::{Instruction, Operand};
use crate::types::Scalar;
use std::rc::Rc;

impl<'a> Lower<'_, 'a> {
    fn label(&self, name: &str) -> Lowered<u32> {
        match self.find(name) {
            Some((Local::Label(label), _)) => Ok(label),
            _ => Err(format!("the label `{name:.60}`, which is not declared")),
        }
    }

    /// Notes a table of targets, whose labels are declared.
    pub(super) fn declare_table(&mut self, names: &[&'a str]) -> u32 {
        let labels: Lowered<Vec<u32>> = names.iter().map(|name| self.label(name)).collect();
        let table = labels.map(|labels| {
            self.code.tables.push(labels);
            self.code.tables.len() as u32 - 1
        });
        self.declared_tables.push(table);
        self.declared_tables.len() as u32 - 1
    }

    /// What the functions of `.calltargets` take and return, which must be the same for all.
    pub(super) fn signature_of(&mut self, at: Position, names: &[&'a str]) -> Rc<Signature> {
        let mut common: Option<Rc<Signature>> = None;
        for name in names {
            let signature = match self.items.by_name.get(name) {
                Some(Item::Function(number)) => self.items.signatures[*number as usize].clone(),
                _ => {
                    self.invalid(at, format!("the target `{name:.60}` of calls, which is no function"));
                    continue;
                }
            };
            match &common {
                Some(earlier) if !earlier.agrees(&signature) => {
                    self.invalid(
                        at,
                        format!("the target `{name:.60}` of calls, which takes or returns something else"),
                    );
                }
                Some(_) => {}
                None => common = Some(signature),
            }
        }
        common.unwrap_or_default()
    }

    fn emit_control(&mut self, spec: Spec) {
        self.emit(Spec { own_guard: true, ..spec });
    }

    pub(super) fn bra(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 1)?;
        let Operand::Name(name, 0) = &instruction.operands[0] else { return Err("this operand as a label".to_owned()) };
        let target = self.label(name)?;
        self.emit_control(Spec { target, ..Spec::new(select_plain::<control::Branch>) });
        // A label's number is replaced by its place when the whole function is known.
        self.jumps();
        Ok(())
    }

    pub(super) fn brx(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 2)?;
        let Operand::Name(name, 0) = &instruction.operands[1] else { return Err("this table of targets".to_owned()) };
        let Some((Local::Targets(declared), _)) = self.find(name) else {
            return Err(format!("the table `{name:.60}`, which is not declared"));
        };
        let table = self.declared_tables[declared as usize].clone()?;
        let a = self.source(&instruction.operands[0], Scalar::U32)?;
        let wide = self.temporary(Width::W64)?;
        self.emit_one(select::<One<Extend<u32, u32, u64>>>, wide, a);
        let target = self.code.sites.len() as u32;
        self.code.sites.push(Site { table: Some(table), ..Site::default() });
        self.emit_control(Spec { a: wide, target, ..Spec::new(select_plain::<control::Indirect>) });
        Ok(())
    }

    pub(super) fn leave(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 0)?;
        let run: Select = match (instruction.opcode, self.kernel) {
            ("trap" | "brkpt", _) => select_plain::<control::Trap>,
            ("ret", false) => {
                self.send_results()?;
                select_plain::<control::Return>
            }
            _ => select_plain::<control::Exit>,
        };
        self.emit_control(Spec::new(run));
        Ok(())
    }

    pub(super) fn sleep(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        self.count(instruction, 1)?;
        self.source(&instruction.operands[0], Scalar::U32)?;
        self.emit_control(Spec::new(select_plain::<control::Yield>));
        Ok(())
    }

    pub(super) fn call(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        modifiers.take("uni");
        modifiers.finish()?;
        // Places for registers are used again after the call.
        let start = self.code.local_bytes;
        let lowered = self.call_of(instruction);
        self.most_local = self.most_local.max(self.code.local_bytes);
        self.code.local_bytes = start;
        for passed in lowered? {
            self.receive(passed)?;
        }
        Ok(())
    }

    /// Makes the call, and returns what is to be read after it.
    fn call_of(&mut self, instruction: &Instruction<'a>) -> Lowered<Vec<Passed>> {
        let mut operands = instruction.operands.iter().peekable();
        let results = Self::list(operands.next_if(|operand| matches!(operand, Operand::List(_))))?;
        let Some(Operand::Name(name, 0)) = operands.next() else { return Err("a call of this operand".to_owned()) };
        let arguments = Self::list(operands.next_if(|operand| matches!(operand, Operand::List(_))))?;
        let local = self.find(name);
        let (prototype, rest) = (operands.next(), operands.next());
        let signature = match (local, self.items.by_name.get(name), prototype) {
            (None, Some(Item::Function(function)), None) => self.items.signatures[*function as usize].clone(),
            (None, Some(Item::Function(_)), _) => return Err("a prototype for a function that is named".to_owned()),
            (Some((Local::Register(_), _)), _, Some(Operand::Name(prototype, 0))) => match self.find(prototype) {
                Some((Local::Prototype(number), _)) => self.prototypes[number as usize].clone(),
                _ => return Err(format!("`{prototype:.60}` as a prototype, which is none")),
            },
            (Some((Local::Register(_), _)), ..) => {
                return Err(
                    "a call of what a register points to, without `.callprototype` or `.calltargets`".to_owned()
                );
            }
            _ => return Err(format!("the function `{name:.60}`, which is not declared")),
        };
        if rest.is_some() {
            return Err(format!("{} operands", instruction.operands.len()));
        }
        self.check_call(instruction, &signature, results, arguments);
        let (results, registers) = self.results(results, &signature.results)?;
        let arguments = self.arguments(arguments, &signature.parameters)?;
        let mut site = Site { results, arguments, ..Site::default() };
        let target = self.code.sites.len() as u32;
        if let Some((Local::Register(_), _)) = local {
            let a = self.source(&Operand::Name(name, 0), Scalar::U64)?;
            self.code.sites.push(site);
            self.emit_control(Spec { a, target, ..Spec::new(select_plain::<control::Indirect>) });
            return Ok(registers);
        }
        let Some(Item::Function(function)) = self.items.by_name.get(name) else {
            return Err(format!("the function `{name:.60}`, which is not declared"));
        };
        site.function = Some(*function);
        self.code.uses.push(Value::Function(*function));
        self.code.sites.push(site);
        self.emit_control(Spec { target, ..Spec::new(select_plain::<control::Call>) });
        Ok(registers)
    }

    /// `bar`, `barrier`.
    pub(super) fn bar(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        if modifiers.take("warp") {
            modifiers.take("sync");
            modifiers.finish()?;
            self.count(instruction, 1)?;
            let e = self.source(&instruction.operands[0], Scalar::U32)?;
            let run = select_plain::<crate::ops::warp::Meet>;
            self.emit(Spec { e, flags: crate::ops::warp::MEET, ..Spec::new(run) });
            return Ok(());
        }
        if modifiers.has("cluster") {
            return Err("barriers of clusters".to_owned());
        }
        modifiers.take("cta");
        let aligned = modifiers.take("aligned") || instruction.opcode == "bar";
        let Some(kind) = modifiers.take_any(&["sync", "arrive", "red"]) else {
            return Err("a barrier without .sync, .arrive or .red".to_owned());
        };
        let types = modifiers.types();
        let reduction = modifiers.take_any(&["popc", "and", "or"]);
        modifiers.finish()?;
        let mut flags = match (kind, reduction) {
            (0, None) => control::SYNC,
            (1, None) => control::ARRIVE,
            (2, Some(reduction)) => control::REDUCE_COUNT + reduction as u32,
            _ => return Err("these modifiers".to_owned()),
        };
        if aligned {
            flags |= control::ALIGNED;
        }
        let mut operands = instruction.operands.iter();
        let mut spec = Spec { ..Spec::new(select_plain::<control::Barrier>) };
        if kind == 2 {
            let scalar = if types.contains(&Scalar::Pred) { Scalar::Pred } else { Scalar::U32 };
            if (scalar == Scalar::Pred) != (reduction != Some(0)) {
                return Err("these types".to_owned());
            }
            let Some(d) = operands.next() else { return Err("0 operands".to_owned()) };
            spec.d = self.destination(d, scalar)?;
        }
        let Some(number) = operands.next() else { return Err("0 operands".to_owned()) };
        range::check(number, 0..=15)?;
        spec.a = self.source(number, Scalar::U32)?;
        let mut rest: Vec<_> = operands.collect();
        if kind == 2 {
            let Some(predicate) = rest.pop() else { return Err("a reduction without a predicate".to_owned()) };
            (spec.c, spec.negate) = self.predicate(predicate)?;
        }
        match *rest {
            [] if kind == 1 => return Err("an arrival without a number of threads".to_owned()),
            [] => {}
            [count] => {
                let threads = range::number(count);
                if threads.is_some_and(|threads| threads % 32 != 0 || kind == 1 && threads == 0) {
                    return Err("a number of threads that is not one of whole warps".to_owned());
                }
                spec.b = self.source(count, Scalar::U32)?;
                flags |= control::COUNTED;
            }
            _ => return Err(format!("{} operands", instruction.operands.len())),
        }
        spec.flags = flags;
        self.emit_control(spec);
        Ok(())
    }

    /// Notes that the operation that was added last jumps to a label.
    fn jumps(&mut self) {
        self.label_uses.push(self.specs.len() as u32 - 1);
    }
}
