//! Each kernel of a text that is PTX runs for a number of operations, with arguments that are zero, in checked mode and without:
//! it comes to an end, or to a fault with a place.

#![no_main]

use anabranch_ptx::{BlockRun, GlobalMemory, Launch, Module, NoHooks, Options, Program, Progress, Region, Size, Space};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

/// How many operations a block performs at most.
const LIMIT: u64 = 2_000;

/// The variables of a module, and nothing else.
struct Memory(Vec<(u64, Vec<u128>)>);

// SAFETY: the vectors are not changed while kernels run, and only their memory is accessed, atomically, by one thread.
unsafe impl GlobalMemory for Memory {
    fn region(&self, address: u64) -> Option<Region> {
        self.0.iter().find_map(|(begin, memory)| {
            let region = Region {
                address: *begin,
                bytes: size_of_val(&memory[..]) as u64,
                pointer: std::ptr::with_exposed_provenance_mut(*begin as usize),
                writable: true,
            };
            region.contains(address, address.checked_add(1)?).then_some(region)
        })
    }
}

fuzz_target!(|text: &str| {
    let Ok(module) = Module::parse(text) else { return };
    let is_large = |bytes: u64| bytes > 1 << 20;
    if module.variables().iter().any(|variable| is_large(variable.bytes)) || module.variables().len() > 1000 {
        return;
    }
    let mut memory = Vec::new();
    let program = Program::link(Arc::new(module), |variable| {
        let mut words = vec![0u128; variable.bytes as usize / size_of::<u128>() + 1];
        let begin = words.as_mut_ptr().expose_provenance() as u64;
        memory.push((begin, words));
        begin
    });
    let globals =
        || program.module().variables().iter().filter(|one| matches!(one.space, Space::Global | Space::Constant));
    for (variable, (begin, _)) in globals().zip(&memory) {
        let initial = program.initial(variable);
        // SAFETY: the memory of a variable has its bytes.
        unsafe {
            let place: *mut u8 = std::ptr::with_exposed_provenance_mut(*begin as usize);
            std::ptr::copy_nonoverlapping(initial.as_ptr(), place, initial.len());
        }
    }
    let memory = Memory(memory);
    for kernel in program.module().kernels() {
        let parameters = vec![0; kernel.parameter_bytes as usize];
        let block = kernel.required_block().map_or([40, 1, 1], |required| required.map(|extent| extent as u32));
        for checked in [false, true] {
            let size = Size { grid: [2, 1, 1], block, dynamic_shared: 64 };
            let mut options = Options::default();
            options.operation_limit = Some(LIMIT);
            options.checked = checked;
            let Ok(launch) = Launch::new(&program, &kernel.name, size, &parameters, &memory, &NoHooks, options) else {
                continue;
            };
            let mut run = BlockRun::new(&launch);
            for number in 0..launch.blocks() {
                run.start(number);
                // A block may not come to an end without the other one, and has its limit.
                while let Progress::Yielded = run.step(u64::MAX) {}
            }
        }
    }
});
