//! What names stand for, and operands.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use super::{Framed, Local, Lower, Lowered, Place, Register, Signature, Spec, Value, Width, literal};
use crate::machine::Slot;
use crate::ops::special::{self, DYNAMIC_SHARED, REGISTERS};
use crate::ops::{select, select_plain};
use crate::syntax::Operand;
use crate::types::{Meaning, Scalar, Space};

/// The names of the parts of a vector.
const PARTS: [[&str; 2]; 4] = [["x", "r"], ["y", "g"], ["z", "b"], ["w", "a"]];

/// Something outside of functions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    Variable(u32),
    Function(u32),
}

/// What is known of a variable when functions are lowered.
#[derive(Clone, Debug)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    pub(crate) space: Space,
    pub(crate) bytes: u64,
    pub(crate) alignment: u32,
    /// Of an array: the bytes of an element.
    pub(crate) element: Option<u32>,
    /// `.extern .shared x[]`: where dynamic shared memory begins.
    pub(crate) dynamic: bool,
    /// The function whose own it is.
    pub(crate) owner: Option<u32>,
}

/// All names of a module.
#[derive(Debug, Default)]
pub(crate) struct Items<'a> {
    pub(crate) by_name: HashMap<&'a str, Item>,
    pub(crate) variables: Vec<Declared<'a>>,
    /// What each function takes and returns. A call has it without a copy, however long it is.
    pub(crate) signatures: Vec<Rc<Signature>>,
    /// The function that is being lowered.
    pub(crate) current: u32,
}

/// Where an address begins.
pub(super) enum Base {
    /// A register.
    Register(Slot, Width),
    /// A number, perhaps to be relocated.
    Fixed(u64, Option<Value>),
    /// An offset in the frame's part of local memory.
    Frame(u32),
    /// An offset in the parameters of the kernel.
    Parameter(Place),
}

impl<'a> Lower<'_, 'a> {
    pub(super) fn find(&self, name: &str) -> Option<(Local, u64)> {
        self.scopes.iter().rev().find_map(|scope| scope.find(name))
    }

    /// The register of a name: its slot, and its type.
    pub(super) fn register(&mut self, name: &str) -> Lowered<(Slot, Scalar)> {
        match self.find(name) {
            Some((Local::Register(register), _)) if register.vector != 1 => {
                Err(format!("the vector `{name:.60}` where one of its parts is needed, such as `{name:.60}.x`"))
            }
            Some((Local::Register(register), index)) => self.part(register, index, 0),
            Some(_) => Err(format!("`{name:.60}` where a register is needed")),
            None => Err(format!("the name `{name:.60}`, which is not declared")),
        }
    }

    /// A part of a register, which has one alone unless it is a vector.
    fn part(&mut self, register: Register, index: u64, part: u32) -> Lowered<(Slot, Scalar)> {
        let key = (register.declaration, index, part);
        if let Some(slot) = self.slots.get(&key) {
            return Ok((*slot, register.scalar));
        }
        let slot = self.slot(Width::of(register.scalar)?)?;
        self.slots.insert(key, slot);
        Ok((slot, register.scalar))
    }

    /// The register that an operand is, or the part of one. Special registers are none.
    pub(super) fn held(&mut self, operand: &Operand<'a>) -> Lowered<Option<(Slot, Scalar)>> {
        match operand {
            Operand::Name(name, 0) => match self.find(name) {
                Some((Local::Register(_), _)) => self.register(name).map(Some),
                _ => Ok(None),
            },
            Operand::Part(name, part) => match self.find(name) {
                Some((Local::Register(register), index)) => {
                    let number = PARTS.iter().position(|names| names.contains(part)).map(|number| number as u32);
                    match number.filter(|number| register.vector > 1 && *number < register.vector) {
                        Some(number) => self.part(register, index, number).map(Some),
                        None => {
                            Err(format!("the part .{part:.60} of the register `{name:.60}`, which it does not have"))
                        }
                    }
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// A vector register as the vector of its parts. Other operands are what they are.
    pub(super) fn parts<'o>(&self, operand: &'o Operand<'a>) -> Cow<'o, Operand<'a>> {
        let Operand::Name(name, 0) = operand else { return Cow::Borrowed(operand) };
        match self.find(name) {
            Some((Local::Register(register), _)) if register.vector != 1 => {
                let parts = PARTS.iter().take(register.vector as usize);
                Cow::Owned(Operand::Vector(parts.map(|names| Operand::Part(name, names[0])).collect()))
            }
            _ => Cow::Borrowed(operand),
        }
    }

    /// The register of an operand, if it is one, of this type.
    fn held_of(&mut self, operand: &Operand<'a>, scalar: Scalar) -> Lowered<Option<Slot>> {
        let Some((slot, own)) = self.held(operand)? else { return Ok(None) };
        if Width::of(own)? != Width::of(scalar)? || !scalar.takes(own) {
            return Err(format!("a register of type .{} for type .{}", own.name(), scalar.name()));
        }
        Ok(Some(slot))
    }

    /// A register of a type.
    pub(super) fn register_of(&mut self, name: &str, scalar: Scalar) -> Lowered<Slot> {
        let (slot, own) = self.register(name)?;
        if Width::of(own)? != Width::of(scalar)? || !scalar.takes(own) {
            return Err(format!("the register `{name:.60}` of type .{} for type .{}", own.name(), scalar.name()));
        }
        Ok(slot)
    }

    /// Where a result of a type goes.
    pub(super) fn destination(&mut self, operand: &Operand<'a>, scalar: Scalar) -> Lowered<Slot> {
        match operand {
            Operand::Name(name, 0) => self.register_of(name, scalar),
            Operand::Sink => self.temporary(Width::of(scalar)?),
            _ => self.held_of(operand, scalar)?.ok_or_else(|| "this operand as a result".to_owned()),
        }
    }

    /// A value of a type that an instruction reads.
    pub(super) fn source(&mut self, operand: &Operand<'a>, scalar: Scalar) -> Lowered<Slot> {
        let width = Width::of(scalar)?;
        match operand {
            Operand::Constant(constant) => self.bits(width, literal(*constant, scalar)?),
            Operand::Part(name, part) => match self.held_of(operand, scalar)? {
                Some(slot) => Ok(slot),
                None => self.special_of(name, part, scalar),
            },
            Operand::Name(name, 0) if self.find(name).is_none() && name.starts_with('%') => {
                self.special_of(name, "", scalar)
            }
            Operand::Name(name, offset) => match self.find(name) {
                Some((Local::Register(_), _)) if *offset == 0 => self.register_of(name, scalar),
                Some((Local::Register(_), _)) => Err("a sum as an operand".to_owned()),
                _ => self.address_value(name, *offset, scalar),
            },
            Operand::Element(name, index) => {
                let offset = self.element(name, *index)?;
                self.address_value(name, offset, scalar)
            }
            _ => Err("this operand as a value".to_owned()),
        }
    }

    /// A value and its own size, for instructions that take registers of any size.
    pub(super) fn any_source(&mut self, operand: &Operand<'a>, scalar: Scalar) -> Lowered<(Slot, Width)> {
        if let Some((slot, own)) = self.held(operand)? {
            if !scalar.takes(own) {
                return Err(format!("a register of type .{} for type .{}", own.name(), scalar.name()));
            }
            return Ok((slot, Width::of(own)?));
        }
        Ok((self.source(operand, scalar)?, Width::of(scalar)?))
    }

    /// Where a result goes, in a register of any size that is large enough.
    pub(super) fn any_destination(&mut self, operand: &Operand<'a>, scalar: Scalar) -> Lowered<(Slot, Width)> {
        let least = Width::of(scalar)?;
        match operand {
            Operand::Name(name, 0) | Operand::Part(name, _) => {
                let found = self.held(operand)?;
                let (slot, own) = found.ok_or_else(|| format!("`{name:.60}` where a register is needed"))?;
                let width = Width::of(own)?;
                if width == Width::Predicate {
                    return Err(format!("the predicate `{name:.60}` where another register is needed"));
                }
                if width.bytes() < least.bytes() || !scalar.takes(own) {
                    let types = format!("of type .{} for type .{}", own.name(), scalar.name());
                    return Err(format!("the register `{name:.60}` {types}"));
                }
                Ok((slot, width))
            }
            Operand::Sink => Ok((self.temporary(least)?, least)),
            _ => Err("this operand as a result".to_owned()),
        }
    }

    /// A predicate, and whether it is negated.
    pub(super) fn predicate(&mut self, operand: &Operand<'a>) -> Lowered<(Slot, bool)> {
        match operand {
            Operand::Name(name, 0) if self.find(name).is_none() && name.starts_with('%') => {
                Ok((self.special(name, "", Width::Predicate)?, false))
            }
            Operand::Name(name, 0) => Ok((self.register_of(name, Scalar::Pred)?, false)),
            Operand::Not(name) => Ok((self.register_of(name, Scalar::Pred)?, true)),
            Operand::Constant(crate::syntax::Constant::Integer(value)) => {
                let slot = self.constant(Width::Predicate, Value::Bits(if *value != 0 { u64::MAX } else { 0 }))?;
                Ok((slot, false))
            }
            _ => Err("this operand as a predicate".to_owned()),
        }
    }

    /// Reads a special register as a value of a type. Few instructions take one.
    fn special_of(&mut self, name: &str, part: &str, scalar: Scalar) -> Lowered<Slot> {
        let slot = self.special(name, part, Width::of(scalar)?)?;
        if !self.takes_special || scalar.meaning() == Meaning::Float {
            return Err(format!("the special register `{name:.60}`, which `mov` reads"));
        }
        Ok(slot)
    }

    /// Reads a special register.
    fn special(&mut self, name: &str, part: &str, width: Width) -> Lowered<Slot> {
        let found = REGISTERS.iter().position(|known| known.0 == name && known.1 == part);
        let Some(number) = found else {
            let dot = if part.is_empty() { "" } else { "." };
            return Err(format!("the register `{name:.60}{dot}{part:.60}`"));
        };
        let bits = REGISTERS[number].2;
        let is_of_threads = || matches!(name, "%tid" | "%ntid" | "%ctaid" | "%nctaid");
        let fits = match (bits, width) {
            (32, Width::W32) | (64, Width::W64) | (1, Width::Predicate) => true,
            // They had 16 bits once, and are still read so.
            (32, Width::W16) => is_of_threads(),
            // It had 32 bits once.
            (64, Width::W32) => name == "%gridid",
            _ => false,
        };
        if !fits {
            return Err(format!(
                "the special register `{name:.60}`, which has {bits} bits, as a value of another size"
            ));
        }
        self.special_number(number as u64, bits, width)
    }

    fn special_number(&mut self, number: u64, bits: u32, width: Width) -> Lowered<Slot> {
        let slot = self.temporary(width)?;
        let run = match (bits, width) {
            (_, Width::W32) if special::is_place(number) => select::<special::BlockIndex>,
            (_, Width::W32) => select::<special::Register>,
            (_, Width::W64) => select_plain::<special::WideRegister>,
            (32, Width::W16) => {
                let whole = self.temporary(Width::W32)?;
                let run = select::<special::Register>;
                self.emit(Spec { d: whole, imm: number, ..Spec::new(run) });
                self.emit_one(select::<crate::ops::One<crate::ops::half::LowHalf>>, slot, whole);
                return Ok(slot);
            }
            (1, Width::Predicate) => {
                self.emit(Spec { d: slot, imm: number, ..Spec::new(select_plain::<special::IsCluster>) });
                return Ok(slot);
            }
            _ => return Err("a special register in a register of this size".to_owned()),
        };
        self.emit(Spec { d: slot, imm: number, ..Spec::new(run) });
        Ok(slot)
    }

    /// The address of something, as a value of a type. Few instructions take one.
    fn address_value(&mut self, name: &str, offset: i64, scalar: Scalar) -> Lowered<Slot> {
        let slot = self.address_of(name, offset, Width::of(scalar)?)?;
        if !self.takes_address {
            return Err(format!("the address of `{name:.60}`, which `mov` reads"));
        }
        if scalar.meaning() == Meaning::Float {
            return Err(format!("the address of `{name:.60}` as a value of type .{}", scalar.name()));
        }
        if let Some((Local::Frame(_, Framed::Passed(_)), _)) = self.find(name) {
            return Err(format!("the address of `{name:.60}`, which is passed to functions"));
        }
        let is_far = matches!(self.space_of(name), Some(Space::Global | Space::Constant));
        if is_far && scalar.bytes() == 4 {
            return Err(format!("the address of `{name:.60}`, which has 64 bits, as a value of 32"));
        }
        Ok(slot)
    }

    /// How many bytes an element of an array is behind its first one.
    pub(super) fn element(&self, name: &str, index: u64) -> Lowered<i64> {
        let bytes = match (self.find(name), self.items.by_name.get(name)) {
            (Some((Local::Frame(_, Framed::Local(element)), _)), _) => element,
            (Some((Local::Variable(number), _)), _) => self.items.variables[number as usize].element,
            (None, Some(Item::Variable(number))) => self.items.variables[*number as usize].element,
            (None, None) => return Err(format!("the name `{name:.60}`, which is not declared")),
            _ => None,
        };
        let Some(bytes) = bytes else { return Err(format!("an element of `{name:.60}`, which is no array")) };
        let offset = index.checked_mul(bytes.into()).and_then(|offset| i64::try_from(offset).ok());
        offset.ok_or_else(|| format!("an element of `{name:.60}` of this number"))
    }

    /// The address of something, as a value.
    pub(super) fn address_of(&mut self, name: &str, offset: i64, width: Width) -> Lowered<Slot> {
        match self.base(name, offset)? {
            Base::Register(slot, own) if own == width => Ok(slot),
            Base::Register(slot, Width::W64) if width == Width::W32 => {
                let low = self.temporary(width)?;
                self.emit_one(select::<crate::ops::One<crate::ops::half::LowWord>>, low, slot);
                Ok(low)
            }
            Base::Register(..) => Err("an address in a register of this size".to_owned()),
            Base::Fixed(number, None) => self.bits(width, number),
            Base::Fixed(_, Some(value)) => self.constant(width, value),
            Base::Parameter(place) => self.bits(width, u64::from(place.offset).wrapping_add_signed(offset)),
            Base::Frame(start) => {
                let slot = self.temporary(width)?;
                let run = match width {
                    Width::W32 => select_plain::<special::FrameAddress<u32>>,
                    Width::W64 => select_plain::<special::FrameAddress<u64>>,
                    _ => return Err("an address in a register of this size".to_owned()),
                };
                self.emit(Spec { d: slot, imm: u64::from(start), ..Spec::new(run) });
                Ok(slot)
            }
        }
    }

    /// Where an address begins that is a name plus an offset. Offsets are already added to what is fixed.
    pub(super) fn base(&mut self, name: &str, offset: i64) -> Lowered<Base> {
        match self.find(name) {
            Some((Local::Register(_), _)) => {
                let (slot, scalar) = self.register(name)?;
                Ok(Base::Register(slot, Width::of(scalar)?))
            }
            Some((Local::Frame(place, _), _)) => {
                let start = i64::from(place.offset).saturating_add(offset);
                let within = (0..=i64::from(place.offset + place.bytes)).contains(&start);
                if !within || start < i64::from(place.offset) {
                    return Err(format!("an address outside of `{name:.60}`"));
                }
                Ok(Base::Frame(start as u32))
            }
            Some((Local::Parameter(place), _)) => Ok(Base::Parameter(place)),
            Some((Local::Variable(variable), _)) => self.variable(variable, offset),
            Some((Local::Label(_) | Local::Targets(_) | Local::Prototype(_), _)) => {
                Err(format!("the address of the label `{name:.60}`"))
            }
            None => match self.items.by_name.get(name) {
                Some(Item::Variable(variable)) => self.variable(*variable, offset),
                Some(Item::Function(function)) if offset == 0 => Ok(Base::Fixed(0, Some(Value::Function(*function)))),
                Some(Item::Function(_)) => Err("an offset from a function".to_owned()),
                None => Err(format!("the name `{name:.60}`, which is not declared")),
            },
        }
    }

    fn variable(&mut self, variable: u32, offset: i64) -> Lowered<Base> {
        let declared = &self.items.variables[variable as usize];
        if declared.space == Space::Texture {
            return Err("textures and surfaces".to_owned());
        }
        if declared.dynamic {
            self.code.uses.push(Value::Variable(variable, 0));
            let start = self.special_number(DYNAMIC_SHARED, 64, Width::W64)?;
            if offset != 0 {
                let offset = self.bits(Width::W64, offset as u64)?;
                self.emit_two(select::<crate::ops::Two<crate::ops::integer::Add<u64>>>, start, start, offset);
            }
            return Ok(Base::Register(start, Width::W64));
        }
        Ok(Base::Fixed(0, Some(Value::Variable(variable, offset))))
    }
}
