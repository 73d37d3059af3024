//! Numbers that an instruction takes only within a range. Values in registers may be others.

use std::ops::RangeInclusive;

use super::Lowered;
use crate::syntax::{Constant, Operand};

/// The number that an operand is.
pub(super) fn number(operand: &Operand<'_>) -> Option<i64> {
    match operand {
        Operand::Constant(Constant::Integer(value)) => Some(*value),
        _ => None,
    }
}

/// Checks that an operand, if it is a number, is one of these.
pub(super) fn check(operand: &Operand<'_>, range: RangeInclusive<i64>) -> Lowered<()> {
    match number(operand) {
        Some(value) if !range.contains(&value) => {
            Err(format!("the number {value}, where {} to {} are taken", range.start(), range.end()))
        }
        _ => Ok(()),
    }
}
