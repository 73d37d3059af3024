//! Kernels that are PTX.

use super::kernel::{Blocks, KernelError, KernelWork};
use crate::limits::MAX_SHARED_BYTES;
use crate::memory::{DeviceHeap, HostMemory};
use anabranch_hal::{
    ConditionalHandle, ConditionalValues, Detail, Failure, KernelFault, Launch as Launched, ParameterInfo, Result,
    Status, UsedRange,
};
use anabranch_ptx::{
    BlockRun, CheckedAccess, Fault, FaultCode, Function, GlobalMemory, Hooks, Launch, Linkage, Module, Options,
    Program, Progress, Region, Size, Space,
};
use std::collections::VecDeque;
use std::io;
#[cfg(not(unix))]
use std::io::Write;
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::Arc;

/// The newest version of PTX that is taken.
const NEWEST: (u32, u32) = (9, 99);
/// The number of the newest architecture that is taken.
const NEWEST_ARCHITECTURE: u32 = 199;
/// Functions that every driver defines.
const OF_THE_DRIVER: [&str; 4] = ["__assertfail", "free", "malloc", "vprintf"];
/// What the device runtime defines, for modules that are linked with it.
const OF_THE_DEVICE_RUNTIME: &str = "cudaGraphSetConditional";
/// Operations of a block before another one has its turn.
const TURN: u64 = 1 << 20;
/// Blocks that have begun on one thread, at most, where they wait for others. Those of a cooperative launch, of which there are not
/// many, all begin.
const MOST_BLOCKS: usize = 64;
/// The memory in bytes that the blocks of a launch which have begun on one thread take up together, at most, if there are several.
const MOST_BYTES: u64 = 256 << 20;

/// Parses the text of a module. `device_runtime`: it is linked with the device runtime.
pub(super) fn parse(text: &str, device_runtime: bool) -> Result<Arc<Module>> {
    if let Some(place) = text.find('\0') {
        return Err(invalid(format!("byte {place} of the text is zero")));
    }
    let module = Module::parse(text).map_err(|error| {
        let is_ptx = text.contains(".version");
        let status = if is_ptx { Status::INVALID_PTX } else { Status::INVALID_IMAGE };
        Failure { status, detail: Some(Box::new(Detail::Log(error.to_string()))) }
    })?;
    if module.version > NEWEST {
        let (major, minor) = module.version;
        let message = format!("PTX {major}.{minor} is newer than this device");
        return Err(Failure::argument(Status::UNSUPPORTED_PTX_VERSION, message));
    }
    let architecture = module.targets.first().and_then(|target| target.strip_prefix("sm_"));
    let number = architecture.map(|name| name.trim_end_matches(|letter: char| letter.is_ascii_lowercase()));
    if number.and_then(|number| number.parse().ok()).is_none_or(|number: u32| number > NEWEST_ARCHITECTURE) {
        return Err(invalid(format!("the target {:?} is not known", module.targets)));
    }
    // What is not executed is refused when a kernel with it is launched, but what is no instruction at all is an error.
    let wrong = |refusal: &&anabranch_ptx::Refusal| refusal.what.ends_with(": no such instruction");
    let is_external = |function: &&Function| !function.kernel || function.linkage != Linkage::Extern;
    // An external function that nothing uses is not looked for.
    let is_needed = |function: &&Function| function.used || function.linkage != Linkage::Extern;
    let mut externals =
        module.functions().iter().filter(|function| !function.defined).filter(is_external).filter(is_needed);
    let is_defined = |name: &str| OF_THE_DRIVER.contains(&name) || device_runtime && name == OF_THE_DEVICE_RUNTIME;
    if let Some(missing) = externals.find(|function| !is_defined(&function.name)) {
        return Err(invalid(format!(
            "line {}: the {} {} is declared and not defined",
            missing.line,
            if missing.kernel { "kernel" } else { "function" },
            missing.name
        )));
    }
    if let Some(kernel) = module.functions().iter().find(|function| function.shared_bytes > MAX_SHARED_BYTES) {
        return Err(invalid(format!(
            "line {}: the kernel {} has {} bytes of shared variables, and a block can have {MAX_SHARED_BYTES}; use dynamic \
             shared memory for more",
            kernel.line, kernel.name, kernel.shared_bytes
        )));
    }
    match module.functions().iter().flat_map(|function| &function.refusals).find(wrong) {
        Some(refusal) => Err(invalid(format!("line {}: {}", refusal.line, refusal.what))),
        None => Ok(Arc::new(module)),
    }
}

fn invalid(log: String) -> Failure {
    Failure { status: Status::INVALID_PTX, detail: Some(Box::new(Detail::Log(log))) }
}

/// A kernel of a module, ready to run.
#[derive(Debug)]
pub(crate) struct PtxKernel {
    program: Arc<Program>,
    memory: Arc<HostMemory>,
    /// What `malloc` allocates from, in this module and in others.
    heap: Arc<DeviceHeap>,
    /// Its number among the functions of the module.
    index: usize,
    sizes: Vec<usize>,
    /// How many operations a block may perform.
    operation_limit: Option<u64>,
}

impl PtxKernel {
    /// The kernels of a program.
    pub(super) fn all(
        program: &Arc<Program>,
        memory: &Arc<HostMemory>,
        heap: &Arc<DeviceHeap>,
        operation_limit: Option<u64>,
    ) -> Vec<Self> {
        let functions = program.module().functions().iter().enumerate();
        let kernels = functions.filter(|(_, function)| function.kernel && function.defined);
        let new = |(index, function): (usize, &Function)| Self {
            program: Arc::clone(program),
            memory: Arc::clone(memory),
            heap: Arc::clone(heap),
            index,
            sizes: function.parameters.iter().map(|parameter| parameter.bytes as usize).collect(),
            operation_limit,
        };
        kernels.map(new).collect()
    }

    pub(super) fn function(&self) -> &Function {
        &self.program.module().functions()[self.index]
    }

    pub(super) fn name(&self) -> &str {
        &self.function().name
    }

    pub(super) fn parameter_sizes(&self) -> &[usize] {
        &self.sizes
    }

    pub(super) fn parameters(&self) -> Vec<ParameterInfo> {
        let info = |parameter: &anabranch_ptx::Parameter| ParameterInfo {
            offset: parameter.offset as usize,
            size: parameter.bytes as usize,
        };
        self.function().parameters.iter().map(info).collect()
    }

    pub(super) fn constant_bytes(&self) -> u32 {
        let variables = self.program.module().variables().iter();
        let bytes: u64 = variables.filter(|variable| variable.space == Space::Constant).map(|one| one.bytes).sum();
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Refuses a launch that the kernel is not made for, or that cannot be executed.
    pub(super) fn check(&self, launch: &Launched<'_>) -> Result<()> {
        let function = self.function();
        if let Some(refusal) = function.refusals.first() {
            let message = format!(
                "the software device cannot run the kernel `{}`: line {} of its PTX: {}",
                function.name, refusal.line, refusal.what
            );
            return Err(Failure::argument(Status::NOT_SUPPORTED, message));
        }
        let invalid = |message: String| Err(Failure::argument(Status::INVALID_VALUE, message));
        let threads: u64 = launch.block.iter().map(|&extent| u64::from(extent)).product();
        match (function.required_block(), function.most_threads()) {
            (Some(required), _) if required != launch.block.map(u64::from) => {
                invalid(format!("the kernel was compiled for blocks of {required:?} threads"))
            }
            (_, Some(most)) if threads > most => {
                invalid(format!("the kernel was compiled for blocks of at most {most} threads"))
            }
            _ => self.check_cluster(launch.cluster),
        }
    }

    /// Refuses clusters that the kernel is not made for.
    fn check_cluster(&self, cluster: Option<[u32; 3]>) -> Result<()> {
        let function = self.function();
        let invalid = |message: String| Err(Failure::argument(Status::INVALID_CLUSTER_SIZE, message));
        match (cluster, function.required_cluster(), function.most_cluster_blocks()) {
            (Some(cluster), Some(required), _) if cluster != required => {
                invalid(format!("the kernel was compiled for clusters of {required:?} blocks"))
            }
            (Some(cluster), _, Some(most))
                if cluster.iter().fold(1u64, |all, &extent| all.saturating_mul(extent.into())) > most =>
            {
                invalid(format!("the kernel was compiled for clusters of at most {most} blocks"))
            }
            (None, None, _) if function.needs_cluster() => {
                invalid("the kernel was compiled for clusters whose size a launch says".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Runs blocks on this thread, with the same memory for all of them. Those that wait for others let them run.
    pub(super) fn run_blocks(&self, work: &KernelWork, blocks: Blocks<'_>) -> std::result::Result<(), KernelError> {
        let function = self.function();
        let mut parameters = vec![0; function.parameter_bytes as usize];
        let mut values = &work.values[..];
        for parameter in &function.parameters {
            let (value, rest) = values.split_at(parameter.bytes as usize);
            parameters[parameter.offset as usize..][..value.len()].copy_from_slice(value);
            values = rest;
        }
        let failed = |status, message| KernelError::Fault(KernelFault { status, message });
        let memory = Memory { memory: &self.memory, declared: &work.ranges, heap: &self.heap };
        let dynamic_shared = u32::try_from(work.shared_bytes).unwrap_or(u32::MAX) - function.shared_bytes;
        let size = Size { grid: work.grid, block: work.block, dynamic_shared };
        let mut options = Options::default();
        options.checked = self.memory.observer.is_some();
        options.operation_limit = self.operation_limit;
        options.cluster = work.cluster;
        let around = Around { conditionals: work.conditionals.as_deref(), heap: &self.heap };
        let launch = Launch::new(&self.program, &function.name, size, &parameters, &memory, &around, options)
            .map_err(|error| failed(Status::LAUNCH_FAILED, error.to_string()))?;
        let mut waiting: VecDeque<BlockRun<'_>> = VecDeque::new();
        let mut idle = Vec::new();
        let mut most_blocks = if work.cooperative { usize::MAX } else { MOST_BLOCKS };
        // Blocks take up more when they call functions.
        let room_for = |run: &BlockRun<'_>| {
            let room = usize::try_from(MOST_BYTES / run.memory_bytes().max(1)).unwrap_or(usize::MAX);
            if work.cooperative { usize::MAX } else { room.max(1) }
        };
        let mut left = 0..0;
        let mut begin = || {
            if left.is_empty() {
                left = (blocks.next)()?;
            }
            left.next()
        };
        loop {
            let begun = if waiting.len() < most_blocks { begin() } else { None };
            let mut run = match begun {
                Some(block) => {
                    let mut run = idle.pop().unwrap_or_else(|| BlockRun::new(&launch));
                    run.start(block);
                    most_blocks = most_blocks.min(room_for(&run));
                    run
                }
                None => match waiting.pop_front() {
                    Some(run) => run,
                    None => return Ok(()),
                },
            };
            match run.step(TURN) {
                Progress::Done => idle.push(run),
                // What it waits for may not come any more.
                Progress::Yielded if (blocks.has_failed)() => return Ok(()),
                Progress::Yielded => {
                    most_blocks = most_blocks.min(room_for(&run));
                    // It may wait for a block of another thread.
                    std::thread::yield_now();
                    waiting.push_back(run);
                }
                Progress::Fault(fault) => return Err(failed(status_of(&fault), self.text_of(&fault))),
            }
        }
    }

    /// What a fault says.
    fn text_of(&self, fault: &Fault) -> String {
        match (&fault.detail, self.operation_limit) {
            (anabranch_ptx::Detail::Watchdog, Some(limit)) => {
                format!("{fault}; a block may perform {limit}, or as many as ANABRANCH_HOST_OPERATION_LIMIT says")
            }
            _ => fault.to_string(),
        }
    }
}

/// The status of a fault.
fn status_of(fault: &Fault) -> Status {
    i32::try_from(fault.code.0).map_or(Status::LAUNCH_FAILED, Status)
}

/// The memory of a device.
struct Memory<'a> {
    memory: &'a HostMemory,
    /// What the launch declares that it uses.
    declared: &'a [UsedRange],
    heap: &'a DeviceHeap,
}

// SAFETY: the allocations of a device are initialised memory whose addresses are exposed, aligned to at least 256 bytes or as
// the program has allocated them, and whoever launches a kernel keeps what it uses, and what the launch declares. Other work
// accesses them atomically, or is ordered. The heap stays as long as the kernel.
unsafe impl GlobalMemory for Memory<'_> {
    fn region(&self, address: u64) -> Option<Region> {
        let allocated = self.memory.table.range_of(address);
        // Memory may be freed behind the kernel, and a part of it be in a later allocation already.
        let declared = || {
            let mut ranges = self.declared.iter().map(UsedRange::declared);
            let range = ranges.find(|range| address.wrapping_sub(range.address) < range.bytes)?;
            Some(range.address..range.address.saturating_add(range.bytes))
        };
        let range = allocated
            .map(|range| range.address.0..range.address.0 + range.bytes)
            .or_else(declared)
            .or_else(|| self.heap.range().filter(|range| range.contains(&address)))
            .or_else(|| self.memory.range_freed_later(address))?;
        Some(Region {
            address: range.start,
            bytes: range.end - range.start,
            pointer: std::ptr::with_exposed_provenance_mut(range.start as usize),
            writable: true,
        })
    }
}

/// Writes to the process's standard output. The program may hold Rust's lock of it while it waits for the kernel.
#[cfg(unix)]
fn write_to_standard_output(mut text: &[u8]) -> io::Result<()> {
    let output = io::stdout();
    while !text.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(output.as_fd(), text))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => text = &text[written..],
        }
    }
    Ok(())
}

/// Writes to the process's standard output, which takes bytes by way of Rust's lock only.
#[cfg(not(unix))]
fn write_to_standard_output(text: &[u8]) -> io::Result<()> {
    io::stdout().lock().write_all(text)
}

/// What is around a kernel. What it prints is written to standard output.
struct Around<'a> {
    /// The conditional values that it can set.
    conditionals: Option<&'a (dyn ConditionalValues + Send + Sync)>,
    heap: &'a DeviceHeap,
}

impl Hooks for Around<'_> {
    fn print(&self, text: &[u8]) {
        // Nobody can be told that it cannot be written.
        let _ = write_to_standard_output(text);
    }
    fn access(&self, access: &CheckedAccess<'_>) -> std::result::Result<(), (FaultCode, String)> {
        if access.access.space != Space::Global {
            return Ok(());
        }
        let checked = self.heap.check(access.access.address, access.access.bytes.into());
        checked.map_err(|what| (FaultCode::ILLEGAL_ADDRESS, what))
    }
    fn allocate(&self, bytes: u64) -> Option<u64> {
        self.heap.allocate(bytes)
    }
    fn free(&self, address: u64) -> std::result::Result<(), String> {
        self.heap.free(address)
    }
    fn set_conditional(&self, handle: u64, value: u32) -> bool {
        self.conditionals.is_some_and(|conditionals| conditionals.set(ConditionalHandle(handle), value))
    }
}
