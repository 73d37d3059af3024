//! Maps by slots.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::machine::Slot;

/// Hashes slots. Lowering hands them out one after the other, so that no text can choose them to collide.
#[derive(Default)]
pub(super) struct SlotHasher(u64);

impl Hasher for SlotHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        // A map takes its places from the low bits, and marks from the high ones.
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

pub(super) type SlotMap<V> = HashMap<Slot, V, BuildHasherDefault<SlotHasher>>;
pub(super) type SlotSet = HashSet<Slot, BuildHasherDefault<SlotHasher>>;
