//! Calls that return futures, and calls for futures.

use super::Front;
use super::model::{Kind, ModelMemory};
use crate::programs::call::{FrontCall, FrontKernel, PartSpec};
use crate::programs::slots::{FutureSlot, New};

impl Front<'_> {
    /// A future that gives memory back.
    fn future_with(&mut self, memory: Vec<ModelMemory>) -> New<FutureSlot> {
        // No other call of the program uses numbers of functions.
        let slot = FutureSlot(self.generator.model.new_function().0);
        self.model.futures.push((slot, memory));
        New(slot)
    }

    fn new_future(&mut self) -> New<FutureSlot> {
        self.future_with(Vec::new())
    }

    pub(super) fn future(&mut self) -> FrontCall {
        if !self.model.futures.is_empty() && self.chance(2, 5) {
            let at = self.below(self.model.futures.len());
            let (future, memory) = self.model.futures.swap_remove(at);
            if self.chance(1, 4) && !self.model.counts_orders {
                return FrontCall::FutureDrop { future };
            }
            self.model.memory.extend(memory);
            return FrontCall::FutureAwait { future };
        }
        let (stream, context) = self.any_stream();
        match self.below(16) {
            0 | 1 => {
                let checked = self.chance(1, 2);
                FrontCall::FutureOf { future: self.new_future(), stream, checked }
            }
            2 => {
                let event = self.event();
                FrontCall::FutureOfEvent { future: self.new_future(), event }
            }
            3 if !self.model.executables.is_empty() => {
                let (executable, _) = self.executable();
                FrontCall::FutureOfLaunch { future: self.new_future(), executable, stream }
            }
            4..=7 => {
                let memory = self.memory_of(context);
                let from = self.part(memory);
                FrontCall::DownloadAsync { future: self.new_future(), stream, from }
            }
            8 | 9 => {
                let (length, seed) = (self.one_of([0, 1, 8, 64]), 1 + self.below(100) as u32);
                let memory = self.new_memory(context, Kind::Device, length);
                let lent = self.lend(memory.0).into_iter().collect();
                FrontCall::UploadAsync { future: self.future_with(lent), memory, stream, length, seed }
            }
            10 | 11 => {
                let (to, from) = self.two_of(context);
                let lent = [self.lend(to.slot), self.lend(from.slot)].into_iter().flatten().collect();
                FrontCall::CopyAsync { future: self.future_with(lent), stream, to: to.slot, from: from.slot }
            }
            12 => {
                let (memory, value) = (self.memory_of(context).slot, self.below(1000) as u32);
                let lent = self.lend(memory).into_iter().collect();
                FrontCall::FillAsync { future: self.future_with(lent), stream, memory, value }
            }
            13 => {
                let mut launch = self.launch(context);
                let memory = launch.part.memory;
                launch.kernel = FrontKernel::Add { factor: 3, value: self.below(9) as u32 };
                (launch.grid, launch.block, launch.wrong) = (1, 1, None);
                launch.part = PartSpec { memory, start: 0, end: launch.part.end };
                let lent = self.lend(memory).into_iter().collect();
                FrontCall::LaunchAsync { future: self.future_with(lent), stream, launch }
            }
            _ => {
                let body = self.body();
                FrontCall::EnqueueAsync { future: self.new_future(), stream, body }
            }
        }
    }
}
