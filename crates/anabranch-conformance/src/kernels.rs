//! The kernels of the cases: PTX compiled from `kernels.cu`, and the same kernels as Rust closures.

use anabranch::hal::HostModule;
use anabranch::{DualModule, HostFunction, KernelFault};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) const PTX: &str = include_str!("kernels.ptx");

/// The kernels of `conditional_kernels.cu`, in a module of their own: it is linked with the device runtime.
pub(crate) const SETTERS: &str = include_str!("conditional_kernels.ptx");

/// The structure that the kernel `mixed` takes by value, laid out as C++ does.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
pub(crate) struct Mixed {
    pub(crate) a: u8,
    pub(crate) padding: [u8; 7],
    pub(crate) b: u64,
    pub(crate) c: f32,
    pub(crate) padding_at_end: [u8; 4],
}

/// Whether devices that run PTX and closures run the PTX.
static PREFERS_PTX: AtomicBool = AtomicBool::new(false);

/// From now on, the kernels of the cases are PTX on every device that runs PTX, in this process.
pub fn prefer_ptx() {
    PREFERS_PTX.store(true, Ordering::Relaxed);
}

/// The kernels, for both kinds of devices.
pub(crate) fn program() -> DualModule {
    let program = of_both();
    if PREFERS_PTX.load(Ordering::Relaxed) { program.prefer_ptx() } else { program }
}

/// The kernels that set conditional values, for both kinds of devices.
pub(crate) fn setters() -> DualModule {
    let program = DualModule::new()
        .ptx(SETTERS)
        .host_function(HostFunction::new("decide", &[8, 4], |_, arguments| {
            arguments.set_conditional(0, arguments.scalar(1));
        }))
        .host_function(HostFunction::new("count_down", &[8, 8], |_, arguments| {
            let left = arguments.slice::<u32>(1);
            left.set(0, left.get(0).wrapping_sub(1));
            arguments.set_conditional(0, left.get(0));
        }));
    if PREFERS_PTX.load(Ordering::Relaxed) { program.prefer_ptx() } else { program }
}

fn of_both() -> DualModule {
    let host = host_module();
    let program = host
        .globals()
        .iter()
        .fold(DualModule::new().ptx(PTX), |program, global| program.host_global(global.name.as_str(), global.bytes));
    host.functions().iter().cloned().fold(program, DualModule::host_function)
}

/// The kernel `add` as a closure that safe code can launch, which it cannot beside global variables.
pub(crate) fn checked_program() -> DualModule {
    let host = host_module();
    host.functions()
        .iter()
        .filter(|function| function.name() == "add")
        .cloned()
        .fold(DualModule::new(), DualModule::host_function)
}

/// The kernels, for the software device.
pub(crate) fn host_module() -> HostModule {
    HostModule::new()
        .with_global("table", 16)
        .with_function(HostFunction::new("store", &[8, 4], |_, arguments| {
            arguments.slice::<u32>(0).set(0, arguments.scalar(1));
        }))
        .with_function(HostFunction::new("add", &[8, 4, 4], |_, arguments| {
            let (output, factor, value) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1), arguments.scalar(2));
            output.set(0, output.get(0).wrapping_mul(factor).wrapping_add(value));
        }))
        .with_function(HostFunction::new("scale", &[8, 8, 4, 4], |block, arguments| {
            let (destination, source) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1));
            let (factor, count) = (arguments.scalar::<f32>(2), arguments.scalar::<u32>(3) as usize);
            block.phase(|thread, _| {
                let i = thread.global_x();
                if i < count {
                    destination.set(i, source.get(i) * factor);
                }
            });
        }))
        .with_function(HostFunction::new("spin", &[8], |_, arguments| {
            let (start, long) = (Instant::now(), Duration::from_nanos(arguments.scalar(0)));
            while start.elapsed() < long {
                std::thread::yield_now();
            }
        }))
        .with_function(HostFunction::new("fault", &[8], |_, arguments| {
            let output = arguments.slice::<u32>(0);
            output.set(output.len(), 1);
        }))
        .with_function(HostFunction::new("trap", &[], |_, _| KernelFault::trap("the kernel trapped").raise()))
        .with_function(HostFunction::new("reverse", &[8], |block, arguments| {
            let data = arguments.slice::<u32>(0);
            let count = block.thread_count();
            let base = block.index()[0] as usize * count;
            block.phase(|thread, shared| {
                shared.slice::<u32>()[thread.linear()] = data.get(base + thread.linear());
            });
            block.phase(|thread, shared| {
                data.set(base + thread.linear(), shared.slice::<u32>()[count - 1 - thread.linear()]);
            });
        }))
        .with_function(HostFunction::new("indices", &[8], |block, arguments| {
            let output = arguments.slice::<u32>(0);
            let [x, y, z] = block.index();
            let [width, height, _] = block.grid_dimensions();
            let (number, count) = ((z * height + y) * width + x, block.thread_count());
            block.phase(|thread, _| {
                output.set(number as usize * count + thread.linear(), number * 65536 + thread.linear() as u32);
            });
        }))
        .with_function(HostFunction::new("read_table", &[8], |block, arguments| {
            let (output, table) = (arguments.slice::<u32>(0), arguments.global::<u32>("table"));
            block.phase(|thread, _| output.set(thread.linear(), table.get(thread.linear())));
        }))
        .with_function(HostFunction::new("count_up", &[8], |block, arguments| {
            // All threads of the block at once: grids may be large.
            let count = block.thread_count() as u32;
            arguments.slice::<u32>(0).fetch_update(0, |value| value.wrapping_add(count));
        }))
        .with_function(HostFunction::new("mixed", &[8, 1, 2, 4, 8, 4, 8, 24], |_, arguments| {
            let output = arguments.slice::<u64>(0);
            output.set(0, u64::from(arguments.scalar::<u8>(1)));
            output.set(1, u64::from(arguments.scalar::<u16>(2)));
            output.set(2, u64::from(arguments.scalar::<u32>(3)));
            output.set(3, arguments.scalar::<u64>(4));
            output.set(4, arguments.scalar::<f32>(5) as u64);
            output.set(5, arguments.scalar::<f64>(6) as u64);
            let [head, b, tail] = arguments.scalar::<[u64; 3]>(7);
            let (a, c) = (head.to_ne_bytes()[0], f32::from_ne_bytes(low_half(tail)));
            output.set(6, u64::from(a) + b + c as u64);
        }))
}

fn low_half(word: u64) -> [u8; 4] {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    [a, b, c, d]
}
