//! Programs about modules and kernels, and launches with any configuration.

use super::super::call::{ImageSpec, LaunchSpec, ModuleCall};
use super::super::slots::{FunctionSlot, ModuleSlot, New, StreamSlot};
use super::Generator;
use anabranch::hal::FunctionAttribute;

/// Names of kernels, of a variable, and of nothing.
const NAMES: [&str; 12] = [
    "count_up",
    "count_up",
    "count_up",
    "store",
    "store",
    "mixed",
    "read_table",
    "table",
    "nothing",
    "store ",
    "",
    "st\0ore",
];

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(3, 0);
    for module in [0, 1].map(ModuleSlot) {
        look_up(generator, Some(module), "count_up");
        look_up(generator, Some(module), "store");
    }
    let length = 40 + generator.numbers.below(40);
    generator.until(length, step);
}

fn look_up(generator: &mut Generator, module: Option<ModuleSlot>, name: &'static str) {
    let function = generator.model.new_function();
    generator.push(ModuleCall::Function { function: New(function), module, name });
    if module.is_some() && ["count_up", "store", "mixed", "read_table"].contains(&name) {
        generator.model.functions.push(function);
    }
}

fn module(generator: &mut Generator) -> Option<ModuleSlot> {
    let own = generator.numbers.pick(&generator.model.modules);
    match generator.numbers.below(16) {
        0 => None,
        1..=9 if own.is_some() => own,
        _ => Some(ModuleSlot(generator.numbers.below(2) as u16)),
    }
}

fn function(generator: &mut Generator) -> Option<FunctionSlot> {
    if generator.numbers.chance(1, 20) { None } else { generator.numbers.pick(&generator.model.functions) }
}

fn step(generator: &mut Generator) {
    let (stream, module, function) = (generator.stream(), module(generator), function(generator));
    match generator.numbers.below(32) {
        0..=13 => launch(generator, stream, function),
        14 | 15 => load(generator),
        16 if generator.model.modules.len() > 1 => {
            let module = generator.model.modules.swap_remove(0);
            generator.push(ModuleCall::Unload { module });
        }
        17..=20 => {
            let name = generator.numbers.one_of(NAMES);
            look_up(generator, module, name);
        }
        21 => generator.push(ModuleCall::Names { module }),
        22 => {
            let name = generator.numbers.one_of(["table", "table", "count_up", "nothing", "", "ta\0ble"]);
            generator.push(ModuleCall::Global { module, name });
        }
        23 => generator.push(ModuleCall::Name { function }),
        24 | 25 => generator.push(ModuleCall::Info { function }),
        26..=28 => set_attribute(generator, function),
        29 | 30 => {
            let threads = generator.numbers.one_of([0, 1, 32, 33, 256, 1024, 1025, 2048, u32::MAX]);
            let shared = generator.numbers.one_of([0, 0, 1, 1024, 49152, 49153, 232_448, 232_449]);
            generator.push(ModuleCall::Occupancy { function, threads, shared });
        }
        _ => generator.read_contents(),
    }
}

fn load(generator: &mut Generator) {
    let (slot, context) = (generator.model.new_module(), generator.context());
    let image = generator.numbers.one_of([
        ImageSpec::Kernels,
        ImageSpec::Kernels,
        ImageSpec::Kernels,
        ImageSpec::Kernels,
        ImageSpec::NoText,
        ImageSpec::NotPtx,
        ImageSpec::Truncated,
        ImageSpec::NewVersion,
        ImageSpec::NewTarget,
    ]);
    generator.push(ModuleCall::Load { module: New(slot), context, image });
    if image == ImageSpec::Kernels {
        generator.model.modules.push(slot);
        look_up(generator, Some(slot), "count_up");
    }
}

fn set_attribute(generator: &mut Generator, function: Option<FunctionSlot>) {
    let attribute = match generator.numbers.below(4) {
        0 => FunctionAttribute::PreferredSharedMemoryCarveout(generator.numbers.one_of([-1, 0, 50, 100, 101, -2])),
        1 => FunctionAttribute::NonPortableClusterSize(generator.numbers.chance(1, 2)),
        _ => FunctionAttribute::MaxDynamicSharedBytes(generator.numbers.one_of([
            0,
            1,
            1024,
            49152,
            49153,
            65536,
            232_448,
            232_449,
            1 << 31,
            u32::MAX,
        ])),
    };
    generator.push(ModuleCall::SetAttribute { function, attribute });
}

fn launch(generator: &mut Generator, stream: StreamSlot, function: Option<FunctionSlot>) {
    let numbers = &mut generator.numbers;
    let grid = match numbers.below(8) {
        0 => numbers.one_of([[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
        1 if numbers.chance(1, 8) => numbers.one_of([[70_000, 1, 1], [1, 65_535, 1], [1, 1, 65_535]]),
        1 => numbers.one_of([[1, 65_536, 1], [1, 1, 65_536]]),
        2 => numbers.one_of([[2, 3, 4], [8, 1, 1], [18, 1, 1], [1 << 31, 1, 1]]),
        _ => [1 + numbers.below(4) as u32, 1, 1],
    };
    let block = match numbers.below(8) {
        0 => numbers.one_of([[0, 1, 1], [1, 0, 1], [1, 1, 0]]),
        1 => numbers.one_of([[1025, 1, 1], [1, 1024, 1], [1, 1, 64], [1, 1, 65], [32, 32, 2], [1, 1025, 1]]),
        2 => numbers.one_of([[1024, 1, 1], [8, 8, 16], [16, 1, 64]]),
        _ => [1 + numbers.below(40) as u32, 1, 1],
    };
    // Many blocks of many threads take a software device long.
    let block =
        if grid.iter().any(|&extent| extent > 1000) && block.iter().product::<u32>() > 40 { [1; 3] } else { block };
    let cluster = match numbers.below(10) {
        0 => Some(numbers.one_of([
            [0, 1, 1],
            [1, 1, 1],
            [2, 1, 1],
            [1, 2, 1],
            [3, 1, 1],
            [4, 1, 1],
            [9, 1, 1],
            [17, 1, 1],
        ])),
        _ => None,
    };
    let shared = match numbers.below(6) {
        0 => numbers.one_of([1, 1024, 49152, 49153, 65536, 232_448, 232_449, u32::MAX]),
        _ => 0,
    };
    // Whether a cooperative grid of more than one block fits differs between devices, unless it is huge.
    let blocks = grid.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let cooperative = numbers.chance(1, 10) && (blocks <= 1 || blocks > 1 << 20);
    let priority = if numbers.chance(1, 10) { Some(numbers.one_of([0, -1, -5, -100, 5, 100])) } else { None };
    let has_arguments = !numbers.chance(1, 20);
    let launch = LaunchSpec { grid, block, cluster, shared, cooperative, priority, has_arguments };
    generator.push(ModuleCall::LaunchAny { stream, function, launch });
}
