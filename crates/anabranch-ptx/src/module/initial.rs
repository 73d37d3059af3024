//! Initial values of variables: one list for each dimension, and one for a vector.

use super::{INITIAL_LIMIT, Variable};
use crate::lower::{Item, Items, Value, literal};
use crate::position::{ParseError, Parsed};
use crate::syntax::{Constant, Initial, Variable as Declaration};
use crate::types::{Meaning, Scalar, Space};

/// The bits of a number as an initial value. Those without a type of their own have the bits of a float, as assemblers have it.
fn initial_bits(constant: Constant, scalar: Scalar) -> Result<u64, String> {
    Ok(match (constant, scalar) {
        (Constant::Double(bits), Scalar::B32) => (f64::from_bits(bits) as f32).to_bits().into(),
        (Constant::Single(bits), Scalar::B8 | Scalar::B16 | Scalar::B64) => bits.into(),
        (Constant::Double(bits), Scalar::B8 | Scalar::B16) => bits,
        _ => literal(constant, scalar)?,
    })
}

/// Writes the initial contents of a variable.
pub(super) fn fill(
    items: &Items<'_>,
    variable: &mut Variable,
    declaration: &Declaration<'_>,
    left: &mut u64,
) -> Parsed<()> {
    let Some(initial) = &declaration.initial else { return Ok(()) };
    if declaration.scalar.meaning() == Meaning::Float && declaration.scalar.bytes() == 2 {
        let message = format!("an initial value of type .{}; one of .b16 has its bits", declaration.scalar.name());
        return Err(ParseError::new(declaration.at, message));
    }
    // How many there are in each dimension, and the bytes of one step, the outermost first; a vector is one more.
    let mut sizes = declaration.dimensions.clone();
    if let Some(first @ 0) = sizes.first_mut() {
        *first = u64::MAX;
    }
    if declaration.vector > 1 {
        sizes.push(declaration.vector.into());
    }
    let element = u64::from(declaration.scalar.bytes().max(1));
    let mut dimensions: Vec<(u64, u64)> = sizes.iter().map(|&size| (size, element)).collect();
    for index in (1..dimensions.len()).rev() {
        let (size, stride) = dimensions[index];
        dimensions[index - 1].1 = stride.saturating_mul(size);
    }
    let mut writer = Writer { items, variable, declaration, left };
    writer.write(initial, 0, &dimensions)
}

struct Writer<'w, 'a> {
    items: &'w Items<'a>,
    variable: &'w mut Variable,
    declaration: &'w Declaration<'a>,
    left: &'w mut u64,
}

impl Writer<'_, '_> {
    /// Makes the initial contents long enough, within the limit of all of them.
    fn reserve(&mut self, end: u64) -> Parsed<()> {
        let bytes = &mut self.variable.initial;
        let more = end.saturating_sub(bytes.len() as u64);
        if more > *self.left {
            let message = format!("initial values of more than {INITIAL_LIMIT} bytes");
            return Err(ParseError::new(self.declaration.at, message));
        }
        *self.left -= more;
        if more > 0 {
            bytes.resize(end as usize, 0);
        }
        Ok(())
    }

    /// Writes what is at a place, with a list for each of the dimensions that are left.
    fn write(&mut self, initial: &Initial<'_>, at: u64, dimensions: &[(u64, u64)]) -> Parsed<()> {
        let scalar = self.declaration.scalar;
        let size = u64::from(scalar.bytes().max(1));
        let place = self.declaration.at;
        let error = |message: String| Err(ParseError::new(place, message));
        match (initial, dimensions) {
            (Initial::List(list), [(count, stride), rest @ ..]) => {
                let found = list.len() as u64;
                if found > *count {
                    return error(format!("{found} initial values for {count}"));
                }
                if rest.is_empty() && self.declaration.vector > 1 && found < *count {
                    return error(format!("{found} initial values for the {count} of a vector"));
                }
                for (index, inside) in list.iter().enumerate() {
                    self.write(inside, at.saturating_add(stride.saturating_mul(index as u64)), rest)?;
                }
                return Ok(());
            }
            (Initial::List(_), []) => return error("a list as the initial value of one number".to_owned()),
            (_, [_, ..]) => {
                return error(
                    "an initial value for several; each dimension, and a vector, has a list in braces".to_owned(),
                );
            }
            (_, []) => {}
        }
        if at.saturating_add(size) > self.variable.bytes {
            return error("more initial values than the variable has elements".to_owned());
        }
        match initial {
            Initial::List(_) => Ok(()),
            Initial::Constant(constant) => {
                let bits = initial_bits(*constant, scalar).map_err(|what| ParseError::new(place, what))?;
                self.reserve(at + size)?;
                let size = (size as usize).min(8);
                self.variable.initial[at as usize..at as usize + size].copy_from_slice(&bits.to_le_bytes()[..size]);
                Ok(())
            }
            Initial::Address { at: position, name, generic, offset, mask } => {
                let wrong = |what: &str| Err(ParseError::new(*position, format!("{what} `{name:.60}`")));
                let value = match self.items.by_name.get(name) {
                    Some(Item::Variable(variable)) => {
                        let space = self.items.variables[*variable as usize].space;
                        if !matches!(space, Space::Global | Space::Constant) {
                            return wrong("the address of a variable that is neither `.global` nor `.const`:");
                        }
                        Value::Variable(*variable, *offset)
                    }
                    Some(Item::Function(_)) if *offset != 0 => return wrong("an offset from the function"),
                    Some(Item::Function(_)) if *generic => return wrong("the generic address of the function"),
                    Some(Item::Function(function)) => Value::Function(*function),
                    None => {
                        return Err(ParseError::new(*position, format!("the name `{name:.60}` is not declared")));
                    }
                };
                if scalar.meaning() == Meaning::Float || size < 8 && *mask == u64::MAX {
                    let message = format!("the address of `{name:.60}` as a value of type .{}", scalar.name());
                    return Err(ParseError::new(*position, message));
                }
                self.reserve(at + size)?;
                self.variable.addresses.push((at, size.min(8) as u32, value, *generic, *mask));
                Ok(())
            }
        }
    }
}
