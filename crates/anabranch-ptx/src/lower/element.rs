//! Which load or store it is, by the type in memory and the size of the register.

use super::{Lowered, Width};
use crate::machine::Select;
use crate::ops::load::{Load, Store};
use crate::ops::select;
use crate::types::{Meaning, Scalar};

pub(super) fn load_of(scalar: Scalar, width: Width) -> Lowered<Select> {
    let signed = scalar.meaning() == Meaning::Signed;
    Ok(match (scalar.bytes(), signed, width) {
        (1, false, Width::W16) => select::<Load<u8, u16>>,
        (1, false, Width::W32) => select::<Load<u8, u32>>,
        (1, false, Width::W64) => select::<Load<u8, u64>>,
        (1, true, Width::W16) => select::<Load<i8, u16>>,
        (1, true, Width::W32) => select::<Load<i8, u32>>,
        (1, true, Width::W64) => select::<Load<i8, u64>>,
        (2, _, Width::W16) => select::<Load<u16, u16>>,
        (2, false, Width::W32) => select::<Load<u16, u32>>,
        (2, false, Width::W64) => select::<Load<u16, u64>>,
        (2, true, Width::W32) => select::<Load<i16, u32>>,
        (2, true, Width::W64) => select::<Load<i16, u64>>,
        (4, _, Width::W32) => select::<Load<u32, u32>>,
        (4, false, Width::W64) => select::<Load<u32, u64>>,
        (4, true, Width::W64) => select::<Load<i32, u64>>,
        (8, _, Width::W64) => select::<Load<u64, u64>>,
        _ => return Err(format!("type .{}", scalar.name())),
    })
}

pub(super) fn store_of(scalar: Scalar, width: Width) -> Lowered<Select> {
    Ok(match (scalar.bytes(), width) {
        (1, Width::W16) => select::<Store<u8, u16>>,
        (1, Width::W32) => select::<Store<u8, u32>>,
        (1, Width::W64) => select::<Store<u8, u64>>,
        (2, Width::W16) => select::<Store<u16, u16>>,
        (2, Width::W32) => select::<Store<u16, u32>>,
        (2, Width::W64) => select::<Store<u16, u64>>,
        (4, Width::W32) => select::<Store<u32, u32>>,
        (4, Width::W64) => select::<Store<u32, u64>>,
        (8, Width::W64) => select::<Store<u64, u64>>,
        _ => return Err(format!("type .{}", scalar.name())),
    })
}
