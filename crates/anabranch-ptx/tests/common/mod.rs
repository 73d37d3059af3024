//! Memory of a device, and launches on it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anabranch_ptx::{
    CheckedAccess, Fault, FaultCode, GlobalMemory, Hooks, Launch, Level, Module, Options, Program, Region, Size, Space,
};

/// An allocation, at an address that is not that of this process.
struct Allocation {
    address: u64,
    bytes: u64,
    words: Box<[AtomicU64]>,
    writable: bool,
}

/// Global memory: allocations with gaps between them.
#[derive(Default)]
pub struct Memory {
    allocations: Vec<Allocation>,
}

// SAFETY: the words of an allocation are atomic, and live as long as the memory, which outlives runs that borrow it.
unsafe impl GlobalMemory for Memory {
    fn region(&self, address: u64) -> Option<Region> {
        let within = |at: &&Allocation| address >= at.address && address - at.address < at.bytes;
        let found = self.allocations.iter().find(within)?;
        let pointer = found.words.as_ptr().cast_mut().cast::<u8>();
        pointer.expose_provenance();
        Some(Region { address: found.address, bytes: found.bytes, pointer, writable: found.writable })
    }
}

impl Memory {
    /// An allocation of zeros.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        let address =
            self.allocations.last().map_or(0x10_0000, |last| last.address + last.bytes.next_multiple_of(4096) + 4096);
        let words = (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        self.allocations.push(Allocation { address, bytes, words, writable: true });
        address
    }

    /// An allocation with these values.
    pub fn upload<T: Copy>(&mut self, values: &[T]) -> u64 {
        // SAFETY: the values are numbers, of which all bytes may be read.
        let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
        let address = self.allocate(bytes.len().max(1) as u64);
        self.write(address, bytes);
        address
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let at = self.allocations.iter().find(|at| address >= at.address && address - at.address < at.bytes).unwrap();
        let start = (address - at.address) as usize;
        for (index, byte) in bytes.iter().enumerate() {
            let (word, shift) = ((start + index) / 8, (start + index) % 8 * 8);
            let old = at.words[word].load(Ordering::Relaxed);
            at.words[word].store(old & !(255 << shift) | u64::from(*byte) << shift, Ordering::Relaxed);
        }
    }

    /// The values of an allocation.
    pub fn download<T: Copy>(&self, address: u64) -> Vec<T> {
        let at = self.allocations.iter().find(|at| at.address == address).unwrap();
        let words: Vec<u64> = at.words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let count = at.bytes as usize / size_of::<T>();
        // SAFETY: the words have that many numbers.
        (0..count).map(|index| unsafe { words.as_ptr().cast::<T>().add(index).read_unaligned() }).collect()
    }

    pub fn seal(&mut self, address: u64) {
        self.allocations.iter_mut().find(|at| at.address == address).unwrap().writable = false;
    }
}

/// Arguments of a kernel.
#[derive(Default, Clone)]
pub struct Arguments(pub Vec<u8>);

impl Arguments {
    pub fn new() -> Arguments {
        Arguments::default()
    }

    pub fn with<T: Copy>(mut self, value: T) -> Arguments {
        while !self.0.len().is_multiple_of(align_of::<T>()) {
            self.0.push(0);
        }
        // SAFETY: the value is a number or a structure of numbers without padding.
        self.0.extend(unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), size_of::<T>()) });
        self
    }
}

/// What kernels print, and all accesses that are checked.
#[derive(Default)]
pub struct Record {
    pub printed: Mutex<Vec<u8>>,
    pub accesses: Mutex<Vec<(u32, [u32; 3], anabranch_ptx::Access)>>,
    pub refuse: Option<u64>,
}

impl Hooks for Record {
    fn print(&self, text: &[u8]) {
        self.printed.lock().unwrap().extend(text);
    }

    fn access(&self, access: &CheckedAccess<'_>) -> Result<(), (FaultCode, String)> {
        self.accesses.lock().unwrap().push((access.line, access.thread, access.access));
        if self.refuse == Some(access.access.address) {
            return Err((FaultCode::ILLEGAL_ADDRESS, "refused".to_owned()));
        }
        Ok(())
    }
}

/// A device with one module.
pub struct Device {
    pub memory: Memory,
    pub program: Program,
    pub record: Record,
    pub options: Options,
}

impl Device {
    pub fn new(text: &str) -> Device {
        Device::with_level(text, anabranch_ptx::detect())
    }

    pub fn with_level(text: &str, level: Level) -> Device {
        let module = Arc::new(Module::parse(text).unwrap_or_else(|error| panic!("{error}")));
        let mut memory = Memory::default();
        let program = Program::link_for(module, level, |variable| memory.allocate(variable.bytes.max(1)));
        for variable in program.module().variables() {
            if matches!(variable.space, Space::Global | Space::Constant) {
                let initial = program.initial(variable);
                let address = program.address(&variable.name).unwrap();
                memory.write(address, &initial);
                if variable.space == Space::Constant {
                    memory.seal(address);
                }
            }
        }
        Device { memory, program, record: Record::default(), options: Options::default() }
    }

    pub fn launch(
        &self,
        kernel: &str,
        grid: impl Into<Dimensions>,
        block: impl Into<Dimensions>,
        arguments: &Arguments,
    ) -> Result<(), Box<Fault>> {
        self.launch_with(kernel, grid, block, 0, arguments)
    }

    pub fn launch_with(
        &self,
        kernel: &str,
        grid: impl Into<Dimensions>,
        block: impl Into<Dimensions>,
        dynamic_shared: u32,
        arguments: &Arguments,
    ) -> Result<(), Box<Fault>> {
        let size = Size { grid: grid.into().0, block: block.into().0, dynamic_shared };
        let launch = Launch::new(&self.program, kernel, size, &arguments.0, &self.memory, &self.record, self.options);
        launch.unwrap_or_else(|error| panic!("{error}")).run()
    }
}

/// Sizes in one, two or three dimensions.
pub struct Dimensions(pub [u32; 3]);

impl From<u32> for Dimensions {
    fn from(x: u32) -> Dimensions {
        Dimensions([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dimensions {
    fn from((x, y): (u32, u32)) -> Dimensions {
        Dimensions([x, y, 1])
    }
}

impl From<[u32; 3]> for Dimensions {
    fn from(all: [u32; 3]) -> Dimensions {
        Dimensions(all)
    }
}

/// Numbers that look random, from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mixed = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51afd7ed558ccd);
        mixed ^ mixed >> 33
    }

    pub fn real(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }
}
