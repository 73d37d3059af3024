//! Parameters and results of functions that are registers, and numbers and registers as arguments. They go through the
//! frame's part of local memory, as those of `.param` do.

use super::element::{load_of, store_of};
use super::{Formal, Local, Lower, Lowered, Place, Spec, Width, literal};
use crate::machine::Slot;
use crate::ops::load::{ABSOLUTE, FRAME};
use crate::syntax::Operand;
use crate::types::Scalar;

/// A register and the place that it is passed through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    slot: Slot,
    width: Width,
    scalar: Scalar,
    place: Place,
}

impl<'a> Lower<'_, 'a> {
    /// The register of this name, passed through a place.
    pub(super) fn passed(&mut self, name: &'a str, scalar: Scalar, place: Place) -> Lowered<Passed> {
        let (slot, width) = self.any_destination(&Operand::Name(name, 0), scalar)?;
        Ok(Passed { slot, width, scalar, place })
    }

    /// Reads a register from its place.
    pub(super) fn receive(&mut self, passed: Passed) -> Lowered<()> {
        let Passed { slot, width, scalar, place } = passed;
        let base = Spec { imm: place.offset.into(), flags: FRAME | ABSOLUTE, ..Spec::new(load_of(scalar, width)?) };
        self.emit_groups(base, &[slot], scalar);
        Ok(())
    }

    /// Writes a register to its place.
    fn send(&mut self, passed: Passed) -> Lowered<()> {
        let Passed { slot, width, scalar, place } = passed;
        let base = Spec { imm: place.offset.into(), flags: FRAME | ABSOLUTE, ..Spec::new(store_of(scalar, width)?) };
        self.emit_groups(base, &[slot], scalar);
        Ok(())
    }

    /// Writes the results that are registers to their places, before a return.
    pub(super) fn send_results(&mut self) -> Lowered<()> {
        for index in 0..self.register_results.len() {
            self.send(self.register_results[index])?;
        }
        Ok(())
    }

    pub(super) fn list<'o>(operand: Option<&'o Operand<'a>>) -> Lowered<&'o [Operand<'a>]> {
        match operand {
            None => Ok(&[]),
            Some(Operand::List(list)) => Ok(list),
            Some(_) => Err("this list of parameters".to_owned()),
        }
    }

    /// Where the arguments of a call are. Those that are in no place yet are written to one.
    pub(super) fn arguments(&mut self, arguments: &[Operand<'a>], formals: &[Formal]) -> Lowered<Vec<Place>> {
        let mut places = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let own = match argument {
                Operand::Name(name, 0) => match self.find(name) {
                    Some((Local::Frame(place, _), _)) => {
                        places.push(place);
                        continue;
                    }
                    Some((Local::Register(register), _)) => Some(register.scalar),
                    _ => None,
                },
                _ => None,
            };
            let Some(scalar) = formals.get(index).map(|formal| formal.scalar).or(own) else {
                return Err("an argument of a type that is not known".to_owned());
            };
            let place = self.room(scalar.bytes().into(), scalar.bytes())?;
            let (slot, width) = match argument {
                Operand::Constant(constant) => {
                    let width = Width::of(scalar)?;
                    (self.bits(width, literal(*constant, scalar)?)?, width)
                }
                argument => self.any_source(argument, scalar)?,
            };
            self.send(Passed { slot, width, scalar, place })?;
            places.push(place);
        }
        Ok(places)
    }

    /// Where the results of a call go, and those that are read into registers after it.
    pub(super) fn results(
        &mut self,
        results: &[Operand<'a>],
        formals: &[Formal],
    ) -> Lowered<(Vec<Place>, Vec<Passed>)> {
        let (mut places, mut registers) = (Vec::new(), Vec::new());
        for (index, result) in results.iter().enumerate() {
            if let (Operand::Sink, Some(formal)) = (result, formals.get(index)) {
                places.push(self.room(formal.bytes, formal.alignment)?);
                continue;
            }
            let Operand::Name(name, 0) = result else { return Err("this result of a call".to_owned()) };
            match self.find(name) {
                Some((Local::Frame(place, _), _)) => places.push(place),
                Some((Local::Register(register), _)) => {
                    let scalar = register.scalar;
                    let place = self.room(scalar.bytes().into(), scalar.bytes())?;
                    places.push(place);
                    registers.push(self.passed(name, scalar, place)?);
                }
                _ => return Err(format!("the result `{name:.60}`, which is neither a register nor a parameter")),
            }
        }
        Ok((places, registers))
    }
}
