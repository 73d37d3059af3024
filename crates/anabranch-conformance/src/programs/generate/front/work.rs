//! Work for streams.

use super::Front;
use super::model::ModelMemory;
use crate::programs::call::{FrontCall, FrontKernel, FrontLaunch, PartSpec, RegionSpec, WrongLaunch};
use crate::programs::slots::ContextSlot;

impl Front<'_> {
    pub(super) fn work(&mut self) -> FrontCall {
        let (stream, context) = self.any_stream();
        let (to, from) = self.two_of(context);
        let (number, value) = (1 + self.below(1000) as u32, self.below(1000) as u32);
        match self.below(24) {
            0..=5 => {
                let (to, from) = self.parts(to, from);
                FrontCall::Copy { stream, to, from }
            }
            6 => {
                let (memory, middle) = (to.slot, to.length / 2 + u16::from(self.chance(1, 8)));
                FrontCall::CopyWithin { stream, memory, middle }
            }
            7 => {
                let (to, from) = (self.memory(), self.memory());
                let (to, from) = self.parts(to, from);
                FrontCall::CopyPeer { stream, to, from }
            }
            8 | 9 => {
                let (to, from, region) = self.region(to, from);
                FrontCall::CopyRegion { stream, to, from, region }
            }
            10 | 11 => FrontCall::Fill { stream, to: self.part(to), value },
            12 => FrontCall::FillZero { stream, to: self.part(to) },
            13 | 14 => {
                let to = self.part(to);
                let length = usize::from(to.end.saturating_sub(to.start)) + usize::from(self.chance(1, 16));
                FrontCall::CopyFromHost { stream, to, length, seed: number }
            }
            15 => {
                let from = self.part(from);
                let length = usize::from(from.end.saturating_sub(from.start)) + usize::from(self.chance(1, 16));
                FrontCall::CopyToHost { stream, from, length }
            }
            16 | 17 => FrontCall::Download { stream, from: self.part(from) },
            18 => FrontCall::Prefetch { stream, memory: self.managed_memory(), to_host: self.chance(1, 2) },
            19 => FrontCall::HostFunction { stream, number, repeatable: false },
            20 => FrontCall::HostFunction { stream, number, repeatable: true },
            21 => FrontCall::Callback { stream, number },
            _ => self.launch_call(),
        }
    }

    pub(super) fn launch_call(&mut self) -> FrontCall {
        let (stream, context) = self.any_stream();
        FrontCall::Launch { stream, launch: self.launch(context) }
    }

    /// A launch that safe code makes where it can.
    pub(super) fn checked_launch(&mut self) -> FrontCall {
        let (stream, context) = self.any_stream();
        let mut launch = self.launch(context);
        if !matches!(launch.kernel, FrontKernel::Add { .. }) {
            let value = self.below(9) as u32;
            (launch.kernel, launch.grid, launch.block) = (FrontKernel::Add { factor: 3, value }, 1, 1);
        }
        FrontCall::LaunchChecked { stream, launch }
    }

    pub(super) fn launch(&mut self, context: ContextSlot) -> FrontLaunch {
        let memory = self.memory_of(context);
        let context = if self.chance(1, 32) { self.context() } else { context };
        let length = u32::from(memory.length);
        let (grid, block) = (1 + self.below(3) as u32, 1 + self.below((length / 3).max(1) as usize) as u32);
        let kernel = match self.below(8) {
            0..=3 => FrontKernel::Add { factor: self.one_of([1, 3, 10]), value: self.below(9) as u32 },
            4 => FrontKernel::CountUp,
            5 | 6 => FrontKernel::Reverse,
            _ => FrontKernel::Indices,
        };
        let (grid, block) = if matches!(kernel, FrontKernel::Add { .. }) { (1, 1) } else { (grid, block) };
        let wrong = [
            WrongLaunch::EmptyGrid,
            WrongLaunch::LargeBlock,
            WrongLaunch::LargeShared,
            WrongLaunch::FewArguments,
            WrongLaunch::WideArgument,
        ];
        let wrong = if self.chance(1, 24) { Some(self.one_of(wrong)) } else { None };
        let mut launch = FrontLaunch {
            context,
            kernel,
            part: PartSpec { memory: memory.slot, start: 0, end: 0 },
            grid,
            block,
            wrong,
        };
        let room = usize::from(memory.length).saturating_sub(launch.elements());
        launch.part.start = self.below(room + 1) as u16;
        launch.part.end = memory.length;
        launch
    }

    /// A copy of a region of two buffers, which sometimes extends past their ends.
    fn region(&mut self, to: ModelMemory, from: ModelMemory) -> (PartSpec, PartSpec, RegionSpec) {
        let whole = |memory: ModelMemory| PartSpec { memory: memory.slot, start: 0, end: memory.length };
        let mut shape = || [1 + self.below(8), 1 + self.below(4)];
        let (to_shape, from_shape) = (shape(), shape());
        let row = to_shape[0].min(from_shape[0]);
        let rows = to_shape[1].min(from_shape[1]);
        let extent = [self.below(row + 1), self.below(rows + 1), 1 + self.below(2)];
        let mut origin = |shape: [usize; 2]| {
            let past = usize::from(self.chance(1, 24));
            [
                self.below((shape[0] + 1).saturating_sub(extent[0])) + past,
                self.below((shape[1] + 1).saturating_sub(extent[1])),
                self.below(2),
            ]
        };
        let (to_origin, from_origin) = (origin(to_shape), origin(from_shape));
        (whole(to), whole(from), RegionSpec { to_shape, from_shape, to_origin, from_origin, extent })
    }
}
