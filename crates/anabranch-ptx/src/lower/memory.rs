//! Loads, stores, atomic operations and addresses.

use super::element::{load_of, store_of};
use super::names::Base;
use super::space::Does;
use super::{Lower, Lowered, Modifiers, Spec, Width};
use crate::machine::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, Select, Slot};
use crate::ops::load::{ABSOLUTE, CONSTANT, FRAME, GENERIC, GLOBAL, LOCAL, NARROW, PARAMETER, SHARED};
use crate::ops::{One, Two, atomic, bits, integer, quad, select, select_few, select_plain, special};
use crate::syntax::{Instruction, Operand};
use crate::types::{Meaning, Scalar, Space};

/// The most registers that one operation loads or stores.
const GROUP: usize = 4;

/// What says how an access is ordered and cached, beside its space and type.
pub(super) struct Access {
    /// Others may write what is read, and the reader may wait for it.
    watches: bool,
    acquire: bool,
    release: bool,
    vector: usize,
    pub(super) space: Option<Space>,
    /// The last operand is a cache policy.
    policy: bool,
}

impl Access {
    /// Checks that a vector is not larger than what is loaded or stored at once: 16 bytes, or 32 of global memory.
    fn check_vector(&self, opcode: &str, scalar: Scalar) -> Lowered<()> {
        let bytes = scalar.bytes() as usize * self.vector;
        let is_global = matches!(self.space, None | Some(Space::Global)) && opcode != "ldu";
        if self.vector > 1 && bytes > 16 && !(bytes == 32 && scalar.bytes() < 16 && is_global) {
            return Err(format!("a vector of {} values of {} bytes", self.vector, scalar.bytes()));
        }
        Ok(())
    }
}

/// Modifiers about caches and ordering that change nothing here: all loads and stores go to memory at once.
fn caching(modifiers: &mut Modifiers<'_>) {
    for word in ["ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "volatile", "weak", "relaxed", "mmio", "cta", "gpu"] {
        modifiers.take(word);
    }
    for word in ["sys", "cluster", "unified"] {
        modifiers.take(word);
    }
    modifiers.take_prefix("L1::");
    modifiers.take_prefix("L2::");
}

pub(super) fn access(modifiers: &mut Modifiers<'_>) -> Lowered<Access> {
    let watches = ["volatile", "relaxed", "acquire", "mmio", "cg", "cv"].iter().any(|word| modifiers.has(word));
    let acquire = modifiers.take("acquire");
    let release = modifiers.take("release");
    let both = modifiers.take("acq_rel");
    let policy = modifiers.take("L2::cache_hint");
    caching(modifiers);
    let vector = modifiers.take_any(&["v2", "v4", "v8"]).map_or(1, |index| 2 << index);
    let mut space = None;
    for word in ["global", "shared", "shared::cta", "local", "const", "param", "param::entry", "param::func"] {
        if modifiers.take(word) {
            space = Space::from_name(word);
        }
    }
    if modifiers.has("shared::cluster") {
        return Err("shared memory of other blocks of a cluster".to_owned());
    }
    Ok(Access { watches, acquire: acquire || both, release: release || both, vector, space, policy })
}

/// Checks that a type is one of loads, stores and moves, which have no short floats.
pub(super) fn of_memory(scalar: Scalar) -> Lowered<()> {
    if !scalar.has_numbers() {
        return Err(format!("type .{}; bits of that size are loaded, stored and moved", scalar.name()));
    }
    Ok(())
}

impl<'a> Lower<'_, 'a> {
    /// Fills in where an operation accesses memory.
    pub(super) fn locate(
        &mut self,
        spec: &mut Spec,
        operand: &Operand<'a>,
        space: Option<Space>,
        does: Does,
    ) -> Lowered<()> {
        let (name, offset) = match operand {
            Operand::Address(name, offset) => (*name, *offset),
            Operand::Element(name, index) if does != Does::Atomic => (Some(*name), self.element(name, *index)?),
            _ => return Err("this operand as an address; an address is in brackets".to_owned()),
        };
        self.check_space(name, space, does)?;
        let mut code = match space {
            // The name of a shared variable says where it is.
            None if name.is_some_and(|name| self.space_of(name) == Some(Space::Shared)) => SHARED,
            None => GENERIC,
            Some(Space::Global) => GLOBAL,
            Some(Space::Shared) => SHARED,
            Some(Space::Local) => LOCAL,
            Some(Space::Constant) => CONSTANT,
            Some(Space::Parameter) if self.kernel => PARAMETER,
            Some(Space::Parameter) => LOCAL,
            Some(_) => return Err("this state space".to_owned()),
        };
        let base = match name {
            Some(name) => self.base(name, offset)?,
            None => Base::Fixed(offset as u64, None),
        };
        match base {
            Base::Register(slot, width) => {
                spec.a = slot;
                spec.imm = offset as u64;
                match width {
                    Width::W64 => {}
                    Width::W32 => code |= NARROW,
                    _ => return Err("an address in a register of this size".to_owned()),
                }
                if name.is_some_and(|name| !matches!(self.find(name), Some((super::Local::Register(_), _)))) {
                    // Dynamic shared memory: the offset is already in the register.
                    spec.imm = 0;
                }
            }
            Base::Fixed(number, value) => {
                spec.imm = number;
                spec.relocation = value;
                code |= ABSOLUTE;
            }
            Base::Frame(start) => {
                spec.imm = start.into();
                code = FRAME | ABSOLUTE;
            }
            Base::Parameter(place) => {
                spec.imm = u64::from(place.offset).wrapping_add_signed(offset);
                code = PARAMETER | ABSOLUTE;
            }
        }
        spec.flags |= code;
        Ok(())
    }

    /// Exactly this many operands, and a cache policy if a modifier says so.
    fn with_policy(&mut self, instruction: &Instruction<'a>, count: usize, access: &Access) -> Lowered<()> {
        self.count(instruction, count + usize::from(access.policy))?;
        if access.policy {
            self.source(&instruction.operands[count], Scalar::B64)?;
        }
        Ok(())
    }

    fn fence(&mut self) {
        self.emit(Spec::new(select_plain::<atomic::Fence>));
    }

    /// The registers of a vector, in the order of memory.
    fn elements(&self, operand: &Operand<'a>, count: usize) -> Lowered<Vec<Operand<'a>>> {
        match &*self.parts(operand) {
            Operand::Vector(parts) if parts.len() == count => Ok(parts.clone()),
            one if count == 1 => Ok(vec![one.clone()]),
            _ => Err("a vector of another size".to_owned()),
        }
    }

    pub(super) fn ld(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let access = access(&mut modifiers)?;
        modifiers.finish()?;
        of_memory(scalar)?;
        access.check_vector(instruction.opcode, scalar)?;
        self.with_policy(instruction, 2, &access)?;
        let parts = self.elements(&instruction.operands[0], access.vector)?;
        let width = self.common_width(&parts, scalar)?;
        let mut slots = Vec::new();
        for part in &parts {
            slots.push(match part {
                Operand::Sink => self.temporary(width)?,
                part => self.any_destination(part, scalar)?.0,
            });
        }
        let mut base = Spec::new(match (width, access.vector) {
            (Width::W128, 2..) => return Err("vectors of type .b128".to_owned()),
            (Width::W128, _) if access.watches || access.acquire => select_plain::<quad::LoadWhole>,
            _ => load_of(scalar, width)?,
        });
        self.locate(&mut base, &instruction.operands[1], access.space, Does::Load)?;
        // A parameter of the kernel is the same for all lanes.
        if let [d] = *slots
            && base.flags == PARAMETER | ABSOLUTE
            && scalar.bytes() == width.bytes()
            && width != Width::W128
            && self.parameter_holds(&instruction.operands[1], scalar)
        {
            let run = match width {
                Width::W16 => select_few::<special::Parameter<u16>> as Select,
                Width::W32 => select::<special::Parameter<u32>>,
                _ => select::<special::Parameter<u64>>,
            };
            self.emit(Spec { d, imm: base.imm, ..Spec::new(run) });
            return Ok(());
        }
        if access.watches {
            self.emit(Spec::new(select_plain::<atomic::Watch>));
        }
        self.keep_address(&mut base, &slots)?;
        self.emit_groups(base, &slots, scalar);
        if access.acquire {
            self.fence();
        }
        Ok(())
    }

    /// A load of several groups takes its address from a copy, if a group before the last one overwrites the register.
    fn keep_address(&mut self, base: &mut Spec, slots: &[Slot]) -> Lowered<()> {
        let last = slots.len().saturating_sub(1) / GROUP * GROUP;
        if base.flags & ABSOLUTE != 0 || !slots[..last].contains(&base.a) {
            return Ok(());
        }
        let (width, copy): (Width, Select) = match base.flags & NARROW != 0 {
            true => (Width::W32, select::<One<bits::Copied<u32>>>),
            false => (Width::W64, select::<One<bits::Copied<u64>>>),
        };
        let kept = self.temporary(width)?;
        self.emit_one(copy, kept, base.a);
        base.a = kept;
        Ok(())
    }

    /// Accesses of up to four registers each.
    pub(super) fn emit_groups(&mut self, base: Spec, slots: &[Slot], scalar: Scalar) {
        for (index, group) in slots.chunks(GROUP).enumerate() {
            let bytes = scalar.bytes() * group.len() as u32;
            let imm = base.imm.wrapping_add(u64::from(bytes) * index as u64);
            let mut all = group.iter().copied();
            let mut next = || all.next().unwrap_or_default();
            let (d, b, c, e) = (next(), next(), next(), next());
            self.emit(Spec { d, b, c, e, imm, bytes, target: group.len() as u32, ..base });
        }
    }

    /// Whether an access lies within a parameter of the kernel, and is aligned.
    fn parameter_holds(&self, operand: &Operand<'a>, scalar: Scalar) -> bool {
        let Operand::Address(Some(name), offset) = operand else { return false };
        let Some((super::Local::Parameter(place), _)) = self.find(name) else { return false };
        let start = i64::from(place.offset).saturating_add(*offset);
        *offset >= 0
            && offset.saturating_add(scalar.bytes().into()) <= i64::from(place.bytes)
            && start % i64::from(scalar.bytes()) == 0
    }

    /// The size of the registers of a vector, if there are any: all have one, and types that go together.
    pub(super) fn alike(&mut self, parts: &[Operand<'a>]) -> Lowered<Option<Width>> {
        let mut types: Vec<Scalar> = Vec::new();
        for part in parts {
            types.extend(self.held(part)?.map(|(_, scalar)| scalar));
        }
        for (index, one) in types.iter().enumerate() {
            for other in &types[..index] {
                if Width::of(*one)? != Width::of(*other)? {
                    return Err("a vector of registers of different sizes".to_owned());
                }
                if !one.takes(*other) {
                    return Err(format!("a vector of registers of types .{} and .{}", other.name(), one.name()));
                }
            }
        }
        types.first().map(|scalar| Width::of(*scalar)).transpose()
    }

    /// The size of the registers of a vector, or that of its type.
    fn common_width(&mut self, parts: &[Operand<'a>], scalar: Scalar) -> Lowered<Width> {
        let width = self.alike(parts)?;
        let width = width.map_or_else(|| Width::of(scalar), Ok)?;
        if width.bytes() < scalar.bytes() || width == Width::Predicate {
            return Err(format!("a register that is too small for type .{}", scalar.name()));
        }
        Ok(width)
    }

    pub(super) fn st(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let access = access(&mut modifiers)?;
        if modifiers.has("async") {
            return Err("modifier .async".to_owned());
        }
        if instruction.modifiers.contains(&"param::entry") {
            return Err("a store to parameters of a kernel".to_owned());
        }
        modifiers.finish()?;
        of_memory(scalar)?;
        access.check_vector(instruction.opcode, scalar)?;
        self.with_policy(instruction, 2, &access)?;
        if let Operand::Address(Some(name), _) = &instruction.operands[0]
            && let Some((super::Local::Parameter(_), _)) = self.find(name)
        {
            self.invalid(instruction.at, format!("a store to the parameter `{name:.60}` of the kernel"));
        }
        let parts = self.elements(&instruction.operands[1], access.vector)?;
        let width = self.common_width(&parts, scalar)?;
        let mut slots = Vec::new();
        for part in &parts {
            slots.push(match part {
                Operand::Constant(constant) => self.bits(width, super::literal(*constant, scalar)?)?,
                part => self.any_source(part, scalar)?.0,
            });
        }
        let mut base = Spec::new(match (width, access.vector) {
            (Width::W128, 2..) => return Err("vectors of type .b128".to_owned()),
            (Width::W128, _) if access.watches || access.release => select_plain::<quad::StoreWhole>,
            _ => store_of(scalar, width)?,
        });
        self.locate(&mut base, &instruction.operands[0], access.space, Does::Store)?;
        if access.release {
            self.fence();
        }
        self.emit_groups(base, &slots, scalar);
        Ok(())
    }

    /// `atom`, `red`.
    pub(super) fn atomic(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        modifiers.take("noftz");
        let scalar = modifiers.one_type()?;
        let access = access(&mut modifiers)?;
        if access.vector != 1 {
            return Err("atomic operations on vectors".to_owned());
        }
        if modifiers.has("async") {
            return Err("modifier .async".to_owned());
        }
        let Some(kind) = modifiers.take_any(&atomic::NAMES) else { return Err("this atomic operation".to_owned()) };
        modifiers.finish()?;
        let name = atomic::NAMES[kind];
        let result = instruction.opcode == "atom";
        let of = match scalar {
            Scalar::F32 | Scalar::F64 => atomic::REAL,
            Scalar::F16 => atomic::HALF,
            Scalar::Bf16 => atomic::BRAIN,
            Scalar::F16x2 => atomic::HALF_PAIR,
            Scalar::Bf16x2 => atomic::BRAIN_PAIR,
            _ if scalar.meaning() == Meaning::Signed => atomic::SIGNED,
            _ => atomic::UNSIGNED,
        };
        let width = Width::of(scalar)?;
        let run = match width {
            Width::W16 if matches!(name, "cas" | "exch" | "add" | "min" | "max") => {
                select_plain::<atomic::Short> as Select
            }
            Width::W32 => select_plain::<atomic::Single>,
            Width::W64 => select_plain::<atomic::Double>,
            Width::W128 if matches!(name, "cas" | "exch") => select_plain::<quad::Exchange>,
            _ => return Err(format!("type .{}", scalar.name())),
        };
        if scalar.bytes() < 2 || scalar.meaning() == Meaning::Float && !matches!(name, "add" | "min" | "max") {
            return Err(format!("type .{} of .{name}", scalar.name()));
        }
        self.with_policy(instruction, usize::from(result) + if name == "cas" { 3 } else { 2 }, &access)?;
        let operands = &instruction.operands[usize::from(result)..];
        let b = self.source(&operands[1], scalar)?;
        let c = if name == "cas" { self.source(&operands[2], scalar)? } else { b };
        let mut spec = Spec { b, c, target: kind as u32, bytes: scalar.bytes(), ..Spec::new(run) };
        spec.flags = of << atomic::TYPE_SHIFT;
        if result && !matches!(instruction.operands[0], Operand::Sink) {
            spec.d = self.destination(&instruction.operands[0], scalar)?;
            spec.flags |= atomic::RESULT;
        }
        self.locate(&mut spec, &operands[0], access.space, Does::Atomic)?;
        if matches!(spec.flags & crate::ops::load::SPACE, CONSTANT | PARAMETER) {
            return Err("atomic operations in this state space".to_owned());
        }
        self.emit(spec);
        Ok(())
    }

    /// `fence`, `membar`.
    pub(super) fn fences(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let refused = instruction.modifiers.iter().find(|word| word.starts_with("proxy::tensormap"));
        if let Some(word) = refused {
            return Err(format!("modifier .{word}"));
        }
        self.count(instruction, 0)?;
        self.fence();
        Ok(())
    }

    pub(super) fn cvta(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        let scalar = modifiers.one_type()?;
        let to = modifiers.take("to");
        let access = access(&mut modifiers)?;
        modifiers.finish()?;
        self.count(instruction, 2)?;
        let width = Width::of(scalar)?;
        let window = match access.space {
            Some(Space::Shared) => SHARED_WINDOW,
            Some(Space::Local) => LOCAL_WINDOW,
            Some(Space::Parameter) => {
                if self.kernel {
                    PARAMETER_WINDOW
                } else {
                    LOCAL_WINDOW
                }
            }
            Some(_) => 0,
            None => return Err("cvta without a state space".to_owned()),
        };
        if !to && let Operand::Name(name, _) | Operand::Element(name, _) = &instruction.operands[1] {
            let is_elsewhere = self.space_of(name).is_some_and(|own| Some(own) != access.space);
            if is_elsewhere {
                return Err(format!("`{name:.60}`, which is in another state space"));
            }
        }
        if !matches!(scalar, Scalar::U32 | Scalar::U64) {
            return Err(format!("type .{}", scalar.name()));
        }
        let a = self.source(&instruction.operands[1], scalar)?;
        let d = self.destination(&instruction.operands[0], scalar)?;
        match (width, window) {
            (Width::W64, 0) => self.emit_one(select::<One<bits::Copied<u64>>>, d, a),
            (Width::W64, _) => {
                let window = self.bits(width, window)?;
                let run =
                    if to { select::<Two<integer::Sub<u64>>> as Select } else { select::<Two<integer::Add<u64>>> };
                self.emit_two(run, d, a, window);
            }
            _ => return Err("generic addresses of 32 bits".to_owned()),
        }
        Ok(())
    }

    pub(super) fn isspacep(&mut self, instruction: &Instruction<'a>) -> Lowered<()> {
        let mut modifiers = Modifiers::new(&instruction.modifiers);
        // A block is a cluster of its own.
        let cluster = modifiers.take("shared::cluster");
        let access = access(&mut modifiers)?;
        modifiers.finish()?;
        self.count(instruction, 2)?;
        let imm = match access.space {
            None if cluster => 1,
            Some(Space::Global) => 0,
            Some(Space::Shared) => 1,
            Some(Space::Local) => 2,
            Some(Space::Parameter) => 3,
            Some(Space::Constant) => 4,
            _ => return Err("isspacep of this state space".to_owned()),
        };
        let a = self.source(&instruction.operands[1], Scalar::U64)?;
        let d = self.destination(&instruction.operands[0], Scalar::Pred)?;
        self.emit(Spec { d, a, imm, ..Spec::new(select_plain::<special::IsSpace>) });
        Ok(())
    }
}
