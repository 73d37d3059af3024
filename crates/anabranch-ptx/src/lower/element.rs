//! Which load or store it is, by the type in memory and the size of the register.

use super::{Lowered, Width};
use crate::machine::Select;
use crate::ops::load::{Load, LoadEach, Store, StoreEach};
use crate::ops::{body_and_rest, few_and_rest};
use crate::types::{Meaning, Scalar};

pub(super) fn load_of(scalar: Scalar, width: Width) -> Lowered<Select> {
    let signed = scalar.meaning() == Meaning::Signed;
    Ok(match (scalar.bytes(), signed, width) {
        (1, false, Width::W16) => body_and_rest::<Load<u8, u16>, LoadEach<u8, u16, true>>,
        (1, false, Width::W32) => few_and_rest::<Load<u8, u32>, LoadEach<u8, u32, false>>,
        (1, false, Width::W64) => few_and_rest::<Load<u8, u64>, LoadEach<u8, u64, false>>,
        (1, true, Width::W16) => few_and_rest::<Load<i8, u16>, LoadEach<i8, u16, false>>,
        (1, true, Width::W32) => few_and_rest::<Load<i8, u32>, LoadEach<i8, u32, false>>,
        (1, true, Width::W64) => few_and_rest::<Load<i8, u64>, LoadEach<i8, u64, false>>,
        (2, _, Width::W16) => body_and_rest::<Load<u16, u16>, LoadEach<u16, u16, true>>,
        (2, false, Width::W32) => few_and_rest::<Load<u16, u32>, LoadEach<u16, u32, false>>,
        (2, false, Width::W64) => few_and_rest::<Load<u16, u64>, LoadEach<u16, u64, false>>,
        (2, true, Width::W32) => few_and_rest::<Load<i16, u32>, LoadEach<i16, u32, false>>,
        (2, true, Width::W64) => few_and_rest::<Load<i16, u64>, LoadEach<i16, u64, false>>,
        (4, _, Width::W32) => body_and_rest::<Load<u32, u32>, LoadEach<u32, u32, true>>,
        (4, false, Width::W64) => few_and_rest::<Load<u32, u64>, LoadEach<u32, u64, false>>,
        (4, true, Width::W64) => few_and_rest::<Load<i32, u64>, LoadEach<i32, u64, false>>,
        (8, _, Width::W64) => body_and_rest::<Load<u64, u64>, LoadEach<u64, u64, true>>,
        (16, _, Width::W128) => few_and_rest::<Load<u128, u128>, LoadEach<u128, u128, false>>,
        _ => return Err(format!("type .{}", scalar.name())),
    })
}

pub(super) fn store_of(scalar: Scalar, width: Width) -> Lowered<Select> {
    Ok(match (scalar.bytes(), width) {
        (1, Width::W16) => body_and_rest::<Store<u8, u16>, StoreEach<u8, u16, true>>,
        (1, Width::W32) => few_and_rest::<Store<u8, u32>, StoreEach<u8, u32, false>>,
        (1, Width::W64) => few_and_rest::<Store<u8, u64>, StoreEach<u8, u64, false>>,
        (2, Width::W16) => body_and_rest::<Store<u16, u16>, StoreEach<u16, u16, true>>,
        (2, Width::W32) => few_and_rest::<Store<u16, u32>, StoreEach<u16, u32, false>>,
        (2, Width::W64) => few_and_rest::<Store<u16, u64>, StoreEach<u16, u64, false>>,
        (4, Width::W32) => body_and_rest::<Store<u32, u32>, StoreEach<u32, u32, true>>,
        (4, Width::W64) => few_and_rest::<Store<u32, u64>, StoreEach<u32, u64, false>>,
        (8, Width::W64) => body_and_rest::<Store<u64, u64>, StoreEach<u64, u64, true>>,
        (16, Width::W128) => few_and_rest::<Store<u128, u128>, StoreEach<u128, u128, false>>,
        _ => return Err(format!("type .{}", scalar.name())),
    })
}
