//! Calls that allocate memory, and access of the host to it.

use super::Front;
use super::model::Kind;
use crate::programs::call::{BufferKind, FrontCall};

impl Front<'_> {
    fn length(&mut self) -> usize {
        self.one_of([1, 5, 8, 8, 16, 16, 33, 64, 64, 64, 256, 0])
    }

    pub(super) fn allocate(&mut self) -> FrontCall {
        let (stream, context) = self.any_stream();
        let mut length = self.length();
        if self.chance(1, 64) {
            length = self.one_of([usize::MAX, 1 << 61, 1 << 50]);
        }
        match self.below(10) {
            0..=3 => {
                let pools = &self.model.pools;
                let pool = self.generator.numbers.pick(pools).filter(|_| self.generator.numbers.chance(1, 2));
                FrontCall::Allocate { memory: self.new_memory(context, Kind::Device, length), stream, length, pool }
            }
            4..=6 => {
                let (length, seed) = (self.length(), 1 + self.below(100) as u32);
                FrontCall::Upload { memory: self.new_memory(context, Kind::Device, length), stream, length, seed }
            }
            number => {
                let (kind, model) = match number {
                    7 => (BufferKind::Plain, Kind::Plain),
                    8 => (BufferKind::Pinned, Kind::Pinned),
                    _ => (BufferKind::Managed, Kind::Managed),
                };
                FrontCall::AllocateOn { memory: self.new_memory(context, model, length), kind, context, stream, length }
            }
        }
    }

    pub(super) fn host_access(&mut self) -> FrontCall {
        let memory = self.host_memory();
        let seed = 1 + self.below(100) as u32;
        match self.below(8) {
            0 | 1 => FrontCall::HostRead { memory },
            2 | 3 => FrontCall::HostWrite { memory, seed },
            4 => FrontCall::ReadWhile { memory, body: self.body() },
            5 => FrontCall::WriteWhile { memory, seed, body: self.body() },
            _ => {
                let (stream, context) = self.any_stream();
                let (to, from) = self.two_of(context);
                let (to, from) = (self.part(to), self.part(from));
                let other = if self.chance(1, 2) { Some(self.stream()) } else { None };
                FrontCall::Scope { stream, other, to, from, seed, body: self.body() }
            }
        }
    }
}
