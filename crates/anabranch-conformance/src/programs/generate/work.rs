//! Work for a stream, and calls that concern no stream.

use super::super::call::{
    BadPlace, EventCall, ExecutableCall, GraphCall, HarnessCall, KernelSpec, MemoryCall, ModuleCall, Place, StreamCall,
    WaitSpec, Wrong,
};
use super::super::slots::{ContextSlot, Flags, ModuleSlot, New, Patience, RegionSlot, StreamSlot, WordSlot};
use super::Generator;

/// How many numbers are only ever increased. The ones behind them belong to a stream each.
pub(super) const SHARED_WORDS: usize = 16;

impl Generator {
    pub(super) fn region(&mut self) -> RegionSlot {
        RegionSlot(self.numbers.below(16) as u16)
    }

    pub(super) fn place(&mut self) -> Place {
        if self.has_two_devices && self.numbers.chance(1, 3) {
            return Place::Other;
        }
        self.numbers.one_of([
            Place::Device,
            Place::Device,
            Place::Device,
            Place::Pinned,
            Place::Pinned,
            Place::Pageable,
        ])
    }

    /// A place that no copy of the host has to wait for.
    pub(super) fn quick_place(&mut self) -> Place {
        if self.has_two_devices && self.numbers.chance(1, 2) {
            return Place::Other;
        }
        self.numbers.one_of([Place::Device, Place::Device, Place::Pinned])
    }

    pub(super) fn kernel(&mut self) -> KernelSpec {
        KernelSpec {
            word: WordSlot(self.numbers.below(SHARED_WORDS) as u16),
            grid: 1 + self.numbers.below(3) as u32,
            block: self.numbers.one_of([1, 5, 32]),
            wrong: None,
        }
    }

    pub(super) fn wrong(&mut self) -> Wrong {
        self.numbers.one_of([
            Wrong::EmptyGrid,
            Wrong::EmptyBlock,
            Wrong::LargeBlock,
            Wrong::LargeShared,
            Wrong::LargeCooperative,
            Wrong::LargeCluster,
            Wrong::NoFunction,
            Wrong::NoArguments,
        ])
    }

    /// The two ends of a copy, of which one at least is on the device.
    pub(super) fn ends(&mut self) -> (Place, Place) {
        let other = self.quick_place();
        if self.numbers.chance(1, 2) { (Place::Device, other) } else { (other, Place::Device) }
    }

    pub(super) fn launch(&mut self, stream: StreamSlot) {
        let kernel = self.kernel();
        self.push(ModuleCall::Launch { stream, kernel });
    }

    /// Work that a stream takes, and that does not make the host wait.
    pub(super) fn work(&mut self, stream: StreamSlot) {
        let (region, number) = (self.region(), 1 + self.numbers.below(1000) as u32);
        match self.numbers.below(15) {
            0..=5 => self.launch(stream),
            6 | 7 => {
                let ((from, to), bytes) = (self.ends(), 1 + self.numbers.below(64) as u8);
                self.push(MemoryCall::CopyAsync { stream, from, to, region, bytes });
            }
            8 | 9 => {
                let (width, count) = (self.numbers.one_of([1, 2, 4]), self.numbers.below(17) as u8);
                self.push(MemoryCall::Fill { stream, region, width, count });
            }
            10 => {
                let (from, to) = self.ends();
                let extent = [self.numbers.below(17), 1 + self.numbers.below(2), 1 + self.numbers.below(2)];
                self.push(MemoryCall::Copy3d { stream, from, to, region, extent });
            }
            11 | 12 => self.push(StreamCall::HostFunction { stream, number, repeatable: true }),
            13 => self.push(StreamCall::WriteValue { stream, mark: (number % 8) as u8 }),
            _ => self.push(StreamCall::WaitValue { stream, what: WaitSpec::Open }),
        }
    }

    /// Work that is wrong on purpose, or unusual.
    pub(super) fn odd_work(&mut self, stream: StreamSlot) {
        let (region, number) = (self.region(), 1 + self.numbers.below(1000) as u32);
        match self.numbers.below(19) {
            0 | 1 => {
                let kernel = KernelSpec { wrong: Some(self.wrong()), ..self.kernel() };
                self.push(ModuleCall::Launch { stream, kernel });
            }
            2 => self.push(ModuleCall::LaunchOther { stream }),
            3 => {
                let place = self.numbers.one_of([BadPlace::Null, BadPlace::End]);
                self.push(MemoryCall::CopyBad { stream, place });
            }
            4 => {
                let place = self.numbers.one_of([BadPlace::Null, BadPlace::End, BadPlace::Odd]);
                self.push(MemoryCall::FillBad { stream, place });
            }
            5 => {
                let (from, to) = (self.place(), self.place());
                let bytes = self.numbers.below(65) as u8;
                self.push(MemoryCall::CopyAsync { stream, from, to, region, bytes });
            }
            6 => self.push(MemoryCall::Fill { stream, region, width: 8, count: 1 }),
            7 => self.push(StreamCall::HostFunction { stream, number, repeatable: false }),
            8 | 9 => self.push(StreamCall::Callback { stream, number }),
            10 => self.push(StreamCall::WaitValue { stream, what: WaitSpec::Odd }),
            11 => self.push(MemoryCall::FreeAsync { stream, memory: None }),
            12 => {
                let (memory, bytes) = (self.model.new_memory(), self.numbers.one_of([0, 1, 512, 4096, 1 << 50]));
                self.push(MemoryCall::AllocateAsync { memory: New(memory), stream, bytes, pool: None });
                self.model.memory.push(memory);
            }
            13 => {
                let memory = self.numbers.pick(&self.model.memory);
                self.push(MemoryCall::FreeAsync { stream, memory });
            }
            14 => self.push(MemoryCall::Prefetch { stream }),
            15 => {
                if let Some((executable, _)) = self.executable() {
                    self.push(ExecutableCall::Launch { executable, stream });
                }
            }
            16 => self.push(MemoryCall::CopyPeer { stream, region }),
            17 => {
                let policy = self.numbers.below(4) as u8;
                self.push(StreamCall::SetPolicy { stream, policy });
            }
            _ => {
                let (from, to) = (self.place(), self.place());
                self.push(MemoryCall::Copy3d { stream, from, to, region, extent: [4, 2, 1] });
            }
        }
    }

    /// A question about a stream.
    pub(super) fn ask_stream(&mut self, stream: StreamSlot) {
        let call = match self.numbers.below(9) {
            0..=2 => StreamCall::Query { stream, patience: Patience::Either },
            3 => StreamCall::Flags { stream },
            4 => StreamCall::Priority { stream },
            5 => StreamCall::Id { stream },
            6 => StreamCall::Context { stream },
            7 => StreamCall::TakeFailure { stream },
            _ => StreamCall::Attribute { stream },
        };
        self.push(call);
    }

    /// A question about events, or a wait of the host for one.
    pub(super) fn ask_event(&mut self) {
        let event = if self.numbers.chance(1, 24) { None } else { Some(self.event()) };
        let call = match self.numbers.below(4) {
            0 => EventCall::Synchronize { event },
            1 => EventCall::Elapsed { start: self.event(), end: self.event() },
            _ => EventCall::Query { event, patience: Patience::Either },
        };
        self.push(call);
    }

    /// A call that concerns a context or a device.
    pub(super) fn ask_context(&mut self) {
        let context = self.context();
        match self.numbers.below(16) {
            0 | 1 => self.push(StreamCall::ContextSynchronize { context }),
            2 => self.push(MemoryCall::Info { context }),
            3 => {
                let (from, to, region) = (self.place(), self.place(), self.region());
                self.push(MemoryCall::Copy { context, from, to, region });
            }
            kind @ 4..=6 => {
                let (memory, bytes) = (New(self.model.new_memory()), 4096);
                self.model.memory.push(memory.0);
                self.push(match kind {
                    4 => MemoryCall::Allocate { memory, context, bytes },
                    5 => MemoryCall::AllocatePinned { memory, context, bytes, flags: Flags(1) },
                    _ => MemoryCall::AllocateManaged { memory, context, bytes },
                });
            }
            7 => {
                let memory = self.numbers.pick(&self.model.memory);
                let memory = if self.numbers.chance(1, 2) { memory } else { None };
                self.push(MemoryCall::Free { context, memory });
            }
            8 => self.push(ModuleCall::LoadAndUnload { context }),
            9 => {
                let name = self.numbers.one_of(["count_up", "store", "nothing", ""]);
                let (function, module) = (New(self.model.new_function()), Some(ModuleSlot(context.0)));
                self.push(ModuleCall::Function { function, module, name });
                self.model.functions.push(function.0);
            }
            10 => {
                if let Some(function) = self.numbers.pick(&self.model.functions) {
                    self.push(ModuleCall::Info { function: Some(function) });
                }
            }
            11 => self.push(GraphCall::MemoryTrim {}),
            12 => {
                let pool = self.model.new_pool();
                self.push(MemoryCall::PoolCreate { pool: New(pool), max_bytes: 0 });
                self.model.pools.push(pool);
            }
            13 => {
                if let Some(pool) = self.numbers.pick(&self.model.pools) {
                    let call = match self.numbers.below(3) {
                        0 => MemoryCall::PoolDestroy { pool },
                        _ => MemoryCall::PoolTrim { pool, keep_bytes: 0 },
                    };
                    self.push(call);
                }
            }
            14 => self.push(MemoryCall::PeerAccess { context, peer: ContextSlot(1 - context.0) }),
            _ => self.push(MemoryCall::FreePinned { context, memory: None }),
        }
    }

    /// Waits for everything, and reads what memory contains.
    pub(super) fn read_contents(&mut self) {
        self.push(HarnessCall::ReadContents {});
    }
}
