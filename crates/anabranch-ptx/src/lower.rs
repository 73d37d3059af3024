//! From statements to operations: each instruction with its modifiers becomes operations, or a refusal that names it.

#[macro_use]
mod choose;

mod arithmetic;
mod body;
mod check;
mod compare;
mod convert;
mod element;
mod flow;
pub(crate) mod forms;
mod hints;
mod improve;
mod logic;
mod memory;
mod modifiers;
mod names;
mod pass;
mod phases;
mod range;
mod reals;
mod scope;
mod signature;
mod slots;
mod space;
pub(crate) mod table;
mod warp;

use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use crate::machine::Width;
use crate::machine::{Select, Slot};
use crate::ops::control::NO_GUARD;
use crate::position::{ParseError, Parsed, Position};
use crate::syntax::{Constant, Function};
use crate::types::Scalar;

pub(crate) use body::{element, layout, size_of_open_array};
pub(crate) use check::{Checked, operands};
use improve::Kind;
use modifiers::Modifiers;
pub(crate) use names::{Declared, Item, Items};
use scope::Scope;
use signature::Formal;
pub(crate) use signature::Signature;
use slots::SlotMap;

/// Why a function cannot be executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The line of the PTX text.
    pub line: u32,
    /// What is not supported, by its name.
    pub what: String,
}

/// A result whose error says what is not supported.
pub(crate) type Lowered<T> = Result<T, String>;

impl Width {
    /// That of registers of a type of PTX.
    pub(crate) fn of(scalar: Scalar) -> Lowered<Width> {
        match scalar.bytes() {
            0 if scalar == Scalar::Pred => Ok(Width::Predicate),
            1 | 2 => Ok(Width::W16),
            4 => Ok(Width::W32),
            8 => Ok(Width::W64),
            16 => Ok(Width::W128),
            _ => Err(format!("registers of type .{}", scalar.name())),
        }
    }
}

/// A number that is the same in all lanes, and known when a program is linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Value {
    Bits(u64),
    /// The address of a variable, in its space, plus an offset.
    Variable(u32, i64),
    /// The address of a function.
    Function(u32),
}

/// An operation before it is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) select: Select,
    pub(crate) d: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    pub(crate) e: Slot,
    pub(crate) imm: u64,
    /// Added to `imm`: an address.
    pub(crate) relocation: Option<Value>,
    pub(crate) target: u32,
    pub(crate) flags: u32,
    pub(crate) bytes: u32,
    pub(crate) negate: bool,
    pub(crate) guard: Slot,
    pub(crate) guard_negate: bool,
    /// The operation looks at its guard itself.
    pub(crate) own_guard: bool,
    pub(crate) kind: Kind,
    /// Of a comparison: the same with a branch by its result.
    pub(crate) branch: Option<Select>,
}

impl Spec {
    pub(crate) fn new(select: Select) -> Spec {
        let none = Slot(0);
        Spec {
            select,
            d: none,
            a: none,
            b: none,
            c: none,
            e: none,
            imm: 0,
            relocation: None,
            target: 0,
            flags: 0,
            bytes: 0,
            negate: false,
            guard: NO_GUARD,
            guard_negate: false,
            own_guard: false,
            kind: Kind::Other,
            branch: None,
        }
    }
}

/// Bytes in the part of local memory that a frame has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Place {
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// A call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Site {
    /// The function, if it is known.
    pub(crate) function: Option<u32>,
    /// The table of `brx.idx`. It is no call then.
    pub(crate) table: Option<u32>,
    pub(crate) results: Vec<Place>,
    pub(crate) arguments: Vec<Place>,
}

/// A function as operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) specs: Checked,
    /// What is done once for each warp, before its first block. It reads and writes registers alone.
    pub(crate) prologue: Checked,
    /// The line of each operation, and the place of the source: a file and a line, or zeros.
    pub(crate) lines: Vec<(u32, u32, u32)>,
    pub(crate) frame_bytes: u32,
    pub(crate) constants: Vec<(Slot, Width, Value)>,
    pub(crate) local_bytes: u32,
    /// The largest alignment of what is in its local memory.
    pub(crate) local_alignment: u32,
    pub(crate) formals: Vec<Place>,
    pub(crate) results: Vec<Place>,
    pub(crate) sites: Vec<Site>,
    /// Tables of `brx.idx`, each once however often it is used: the labels.
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) refusals: Vec<Refusal>,
    /// Variables and functions that are named.
    pub(crate) uses: Vec<Value>,
    /// How many registers of each type are declared.
    pub(crate) registers: Vec<(Scalar, u64)>,
}

/// A register of the text.
#[derive(Clone, Copy, Debug)]
struct Register {
    scalar: Scalar,
    /// How many parts it has: 1, or those of a vector.
    vector: u32,
    declaration: u32,
}

/// What a name within a function stands for.
#[derive(Clone, Copy, Debug)]
enum Local {
    Register(Register),
    /// A variable in the frame's part of local memory.
    Frame(Place, Framed),
    /// A parameter of the kernel, at this offset.
    Parameter(Place),
    /// A shared variable of the function.
    Variable(u32),
    Label(u32),
    /// A table of targets.
    Targets(u32),
    /// A prototype.
    Prototype(u32),
}

/// What a variable in the frame's part of local memory is.
#[derive(Clone, Copy, Debug)]
enum Framed {
    /// A local variable. An array has the size of an element.
    Local(Option<u32>),
    /// A parameter of the function.
    Parameter,
    /// A result of the function.
    Result,
    /// A `.param` variable of the body, which is passed to functions.
    Passed(Formal),
}

/// The most bytes of registers that a function may have in a frame.
const FRAME_LIMIT: u32 = 1 << 24;

/// A function while it is lowered.
pub(crate) struct Lower<'m, 'a> {
    items: &'m mut Items<'a>,
    kernel: bool,
    code: Code,
    scopes: Vec<Scope<'a>>,
    declarations: u32,
    /// How many local variables have been declared.
    locals: u32,
    /// Of registers: by their declaration, their number in it, and their part.
    slots: HashMap<(u32, u64, u32), Slot>,
    constants: HashMap<(Width, Value), Slot>,
    temporaries: HashMap<Width, Vec<Slot>>,
    used: HashMap<Width, usize>,
    predicate_line: (u32, u32),
    /// Where labels are, once they have been passed.
    labels: Vec<Option<u32>>,
    /// Operations whose `target` is the number of a label.
    label_uses: Vec<u32>,
    /// The tables of targets that are declared: their numbers, or why they cannot be used.
    declared_tables: Vec<Lowered<u32>>,
    prototypes: Vec<Rc<Signature>>,
    /// What makes the text no PTX.
    invalid: Option<ParseError>,
    /// Results of the function that are registers.
    register_results: Vec<pass::Passed>,
    guard: Slot,
    guard_negate: bool,
    /// The instruction takes addresses of variables and functions as values.
    takes_address: bool,
    /// The instruction takes special registers.
    takes_special: bool,
    carry: Option<Slot>,
    /// The most local memory that was in use at once.
    most_local: u32,
    line: (u32, u32, u32),
    /// The operations so far.
    specs: Vec<Spec>,
    prologue: Vec<Spec>,
    /// The size of each slot that has been handed out.
    widths: SlotMap<Width>,
}

/// Lowers a function that has a body.
///
/// # Errors
///
/// A body that is no PTX. What is only not supported is in the [refusals](Code::refusals).
pub(crate) fn lower<'a>(items: &mut Items<'a>, function: &Function<'a>) -> Parsed<Code> {
    let mut lower = Lower {
        items,
        kernel: function.kernel,
        code: Code::default(),
        scopes: vec![Scope::default()],
        declarations: 0,
        locals: 0,
        slots: HashMap::new(),
        constants: HashMap::new(),
        temporaries: HashMap::new(),
        used: HashMap::new(),
        predicate_line: (0, 64),
        labels: Vec::new(),
        label_uses: Vec::new(),
        declared_tables: Vec::new(),
        prototypes: Vec::new(),
        invalid: None,
        register_results: Vec::new(),
        guard: NO_GUARD,
        guard_negate: false,
        takes_address: false,
        takes_special: false,
        carry: None,
        most_local: 0,
        line: (function.at.line, 0, 0),
        specs: Vec::new(),
        prologue: Vec::new(),
        widths: SlotMap::default(),
    };
    lower.function(function);
    match lower.invalid {
        Some(error) => Err(error),
        None => Ok(lower.code),
    }
}

impl<'a> Lower<'_, 'a> {
    /// Notes why the text is no PTX.
    fn invalid(&mut self, at: Position, what: impl Into<String>) {
        self.invalid.get_or_insert_with(|| ParseError::new(at, what));
    }

    fn refuse(&mut self, line: u32, what: impl Into<String>) {
        // A text that is hostile may have as many as it has instructions, and each takes memory.
        if self.code.refusals.len() < 1000 {
            self.code.refusals.push(Refusal { line, what: what.into() });
        }
    }

    /// A new slot.
    fn slot(&mut self, width: Width) -> Lowered<Slot> {
        if width == Width::Predicate {
            if self.predicate_line.1 >= 64 {
                self.predicate_line = (self.code.frame_bytes, 0);
                self.code.frame_bytes += 64;
            }
            let slot = Slot(self.predicate_line.0 + self.predicate_line.1);
            self.predicate_line.1 += 4;
            self.widths.insert(slot, width);
            return Ok(slot);
        }
        if self.code.frame_bytes >= FRAME_LIMIT {
            return Err(format!("a function with registers of more than {FRAME_LIMIT} bytes for a warp"));
        }
        let slot = Slot(self.code.frame_bytes);
        self.code.frame_bytes += width.slot_bytes();
        self.widths.insert(slot, width);
        Ok(slot)
    }

    /// A slot that this instruction alone uses.
    fn temporary(&mut self, width: Width) -> Lowered<Slot> {
        let used = self.used.entry(width).or_default();
        *used += 1;
        let index = *used - 1;
        if let Some(slot) = self.temporaries.entry(width).or_default().get(index) {
            return Ok(*slot);
        }
        let slot = self.slot(width)?;
        self.temporaries.entry(width).or_default().push(slot);
        Ok(slot)
    }

    /// A slot with a number in all lanes.
    fn constant(&mut self, width: Width, value: Value) -> Lowered<Slot> {
        if let Some(slot) = self.constants.get(&(width, value)) {
            return Ok(*slot);
        }
        let slot = self.slot(width)?;
        self.constants.insert((width, value), slot);
        self.code.constants.push((slot, width, value));
        if !matches!(value, Value::Bits(_)) {
            self.code.uses.push(value);
        }
        Ok(slot)
    }

    fn bits(&mut self, width: Width, bits: u64) -> Lowered<Slot> {
        let bits = match width {
            Width::W16 => bits & 0xffff,
            Width::W32 => bits & 0xffff_ffff,
            _ => bits,
        };
        self.constant(width, Value::Bits(bits))
    }

    /// The predicate that holds carries.
    fn carry(&mut self) -> Lowered<Slot> {
        if let Some(slot) = self.carry {
            return Ok(slot);
        }
        let slot = self.slot(Width::Predicate)?;
        self.carry = Some(slot);
        Ok(slot)
    }

    /// Adds an operation, with the guard of the instruction.
    fn emit(&mut self, mut spec: Spec) {
        spec.guard = self.guard;
        spec.guard_negate = self.guard_negate;
        if let Some(value) = spec.relocation {
            self.code.uses.push(value);
        }
        self.specs.push(spec);
        self.code.lines.push(self.line);
    }

    fn emit_one(&mut self, select: Select, d: Slot, a: Slot) {
        self.emit(Spec { d, a, ..Spec::new(select) });
    }

    fn emit_two(&mut self, select: Select, d: Slot, a: Slot, b: Slot) {
        self.emit(Spec { d, a, b, ..Spec::new(select) });
    }

    fn emit_three(&mut self, select: Select, d: Slot, [a, b, c]: [Slot; 3]) {
        self.emit(Spec { d, a, b, c, ..Spec::new(select) });
    }
}

/// The bits of a number as a value of a type.
pub(crate) fn literal(constant: Constant, scalar: Scalar) -> Lowered<u64> {
    Ok(match (scalar, constant) {
        _ if !scalar.has_numbers() => {
            return Err(format!("a number for the type .{}, which takes registers alone", scalar.name()));
        }
        (Scalar::F32 | Scalar::F64, Constant::Integer(_)) => {
            let name = scalar.name();
            return Err(format!(
                "an integer for the type .{name}, which takes numbers such as 1.0, 0f3F800000 and 0d3FF0000000000000"
            ));
        }
        (Scalar::F32 | Scalar::B32, Constant::Single(bits)) => bits.into(),
        (Scalar::F32, Constant::Double(bits)) => (f64::from_bits(bits) as f32).to_bits().into(),
        // The bits of 32 as those of 64, as NVIDIA's assembler has it.
        (Scalar::F64, Constant::Single(bits)) => bits.into(),
        (Scalar::F64 | Scalar::B64, Constant::Double(bits)) => bits,
        (_, Constant::Integer(value)) => value as u64,
        _ => return Err(format!("a floating-point number for the type .{}", scalar.name())),
    })
}
