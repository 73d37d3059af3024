//! Running a kernel: its blocks, on one thread or on several.

use super::body::Body;
use super::function::FunctionState;
use super::share::Share;
use super::spares::Spares;
use crate::engine::{Engine, Operation, Outcome, Partition, StreamState, Turn, Use, Work};
use crate::error::enter_work;
use anabranch_hal::{Block, ConditionalValues, HostArguments, HostFunction, KernelFault, Thrown, UsedRange, contain};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// Threads in all, below which it does not pay to call other workers.
const WORTH_SHARING: u64 = 4096;

/// Threads that one worker takes at a time, so that taking costs little.
const THREADS_AT_A_TIME: u64 = 1024;

/// A kernel that queued work will run.
///
/// It does not count references: threads that enqueue and threads that run would contend for the count, which costs more
/// than all the rest of a small launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelReference(NonNull<FunctionState>);

// SAFETY: it is a shared reference to a `FunctionState`, which may be used from any thread.
unsafe impl Send for KernelReference {}
// SAFETY: sharing it shares the `FunctionState`, which may be used from any thread.
unsafe impl Sync for KernelReference {}

impl KernelReference {
    /// # Safety
    /// The kernel's module is not unloaded before all work that uses the reference has run or is dropped.
    pub(crate) unsafe fn new(function: &FunctionState) -> Self {
        Self(NonNull::from(function))
    }

    pub(crate) fn get(&self) -> &FunctionState {
        // SAFETY: the maker of the reference guaranteed that the kernel outlives it. A module's kernels are destroyed
        // only when it is unloaded, or with its context, whose work is completed first.
        unsafe { self.0.as_ref() }
    }
}

/// A launch, with everything that it needs by value.
#[derive(Clone)]
pub(crate) struct KernelWork {
    pub(crate) kernel: KernelReference,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Blocks of a cluster.
    pub(crate) cluster: [u32; 3],
    /// Whether all blocks run at the same time.
    pub(crate) cooperative: bool,
    pub(crate) shared_bytes: usize,
    /// The values of the arguments without padding.
    pub(crate) values: SmallVec<[u8; 48]>,
    pub(crate) ranges: SmallVec<[UsedRange; 2]>,
    /// The values of conditional nodes that it can set, in a graph that has some.
    pub(crate) conditionals: Option<Arc<dyn ConditionalValues + Send + Sync>>,
}

/// The blocks that a thread runs.
pub(super) struct Blocks<'a> {
    /// The next ones, until there are none.
    pub(super) next: &'a mut dyn FnMut() -> Option<Range<u64>>,
    /// Whether another thread has seen the kernel fail, which ends all of its blocks.
    pub(super) has_failed: &'a dyn Fn() -> bool,
}

/// How a kernel failed.
#[derive(Debug)]
pub(crate) enum KernelError {
    /// As hardware does: the context is lost.
    Fault(KernelFault),
    /// Any other panic: an error of the stream.
    Panic(String),
}

impl KernelError {
    fn of(thrown: &Thrown) -> Self {
        match thrown.payload().downcast_ref::<KernelFault>() {
            Some(fault) => Self::Fault(fault.clone()),
            None => Self::Panic(thrown.message()),
        }
    }

    /// Records it for the stream or the context.
    pub(crate) fn note(self, stream: &StreamState, sequence: u64) {
        match self {
            Self::Fault(fault) => stream.core.lose(fault),
            Self::Panic(message) => stream.fail(sequence, message),
        }
    }
}

impl std::fmt::Debug for KernelWork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KernelWork")
            .field("grid", &self.grid)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

impl KernelWork {
    /// A launch to be filled in.
    pub(crate) fn new(kernel: KernelReference) -> Self {
        Self {
            kernel,
            grid: [0; 3],
            block: [0; 3],
            cluster: [1; 3],
            cooperative: false,
            shared_bytes: 0,
            values: SmallVec::new(),
            ranges: SmallVec::new(),
            conditionals: None,
        }
    }

    /// What it uses: what its launch declares.
    pub(crate) fn operation(&self) -> Operation {
        let ranges = self.ranges.iter().map(UsedRange::declared);
        let name = Cow::Owned(format!("the kernel `{}`", self.kernel.get().body.name()));
        Operation { name, uses: ranges.map(|range| Use::device(range.address, range.bytes)).collect() }
    }

    /// Whether nobody else has it, and it is as small as launches mostly are.
    pub(crate) fn is_worth_keeping(work: &mut Arc<Self>) -> bool {
        Arc::get_mut(work).is_some_and(|work| !work.values.spilled() && !work.ranges.spilled())
    }

    fn block_count(&self) -> u64 {
        self.grid.iter().map(|&extent| u64::from(extent)).product()
    }

    fn threads_per_block(&self) -> u64 {
        self.block.iter().map(|&extent| u64::from(extent)).product()
    }

    /// Where in the grid the block of a number is.
    fn block_index(&self, number: u64) -> [u32; 3] {
        // Most launches run as one range.
        if number == 0 {
            return [0; 3];
        }
        let [width, height, _] = self.grid.map(|extent| u64::from(extent).max(1));
        // Each is below an extent of the grid, which is 32 bits wide.
        [number % width, number / width % height, number / width / height].map(|value| value as u32)
    }

    /// Where the block of the next number is. Behind the last one, it is outside of the grid.
    #[inline]
    fn next_block_index(&self, [x, y, z]: [u32; 3]) -> [u32; 3] {
        let [width, height, _] = self.grid;
        if x + 1 < width {
            [x + 1, y, z]
        } else if y + 1 < height {
            [0, y + 1, z]
        } else {
            [0, 0, z + 1]
        }
    }

    /// Runs blocks of a stage on this thread.
    pub(super) fn run_blocks(&self, stage: usize, blocks: Blocks<'_>) -> Result<(), KernelError> {
        match &self.kernel.get().body {
            // A mistake of the interpreter ends the kernel, and not the thread.
            Body::Ptx(kernel) => {
                contain(|| kernel.run_blocks(self, blocks)).unwrap_or_else(|thrown| Err(KernelError::of(&thrown)))
            }
            Body::Closures(function) => {
                while let Some(blocks) = (blocks.next)() {
                    self.run_closures(function, stage, blocks)?;
                }
                Ok(())
            }
        }
    }

    fn run_closures(&self, function: &HostFunction, stage: usize, blocks: Range<u64>) -> Result<(), KernelError> {
        let Some(stage) = function.stages().get(stage) else { return Ok(()) };
        with_shared_memory(self.shared_bytes, |shared| {
            let body = || {
                // SAFETY: the caller that enqueued the launch guaranteed that every range is live, initialised memory
                // until it has run, which nobody reaches through references.
                let arguments = unsafe {
                    let kernel = self.kernel.get();
                    let sizes = function.parameter_sizes();
                    HostArguments::new(&self.values, sizes, &self.ranges, kernel.globals.ranges())
                };
                let arguments = match &self.conditionals {
                    Some(conditionals) => arguments.with_conditionals(&**conditionals),
                    None => arguments,
                };
                let mut index = self.block_index(blocks.start);
                for _ in blocks {
                    stage(&mut Block::new(index, self.block, self.grid, shared), &arguments);
                    index = self.next_block_index(index);
                }
            };
            contain(body).map_err(|thrown| KernelError::of(&thrown))
        })
    }
}

/// A launch in a queue, until it has run.
pub(super) struct KernelEntry(pub(super) Option<Arc<KernelWork>>);

impl Work for KernelEntry {
    fn run(&mut self, turn: &Turn<'_>) -> Outcome {
        if let Some(work) = self.0.take() {
            if let Err(error) = run_kernel(turn.engine, &work, turn.stream.level(), turn.stream.partition.as_ref()) {
                error.note(turn.stream, turn.sequence);
            }
            Spares::of(turn.stream).keep(work);
        }
        Outcome::Done
    }

    fn operation(&self) -> Option<Operation> {
        self.0.as_ref().map(|work| work.operation())
    }
}

/// Runs a kernel to its end, with the help of workers where that pays.
/// `partition`: the part of the workers that runs it, if not all do.
pub(crate) fn run_kernel(
    engine: &Engine,
    work: &Arc<KernelWork>,
    level: usize,
    partition: Option<&Arc<Partition>>,
) -> Result<(), KernelError> {
    // SAFETY: it is a variable of this block, in which nothing else marks the thread for longer.
    let _scope = unsafe { enter_work() };
    let (blocks, threads) = (work.block_count(), work.threads_per_block());
    // Small launches are many, and to divide takes longer than all the rest of running one.
    let large = engine.workers() > 0 && blocks.saturating_mul(threads) >= WORTH_SHARING;
    let chunk = if large { (THREADS_AT_A_TIME / threads.max(1)).max(1) } else { blocks.max(1) };
    let others = if large { blocks.div_ceil(chunk).saturating_sub(1) } else { 0 };
    // This thread is one of those that run work, be it a worker or one that waits.
    let workers = partition.map_or(engine.workers(), |partition| partition.workers()).saturating_sub(1);
    let helpers = workers.min(usize::try_from(others).unwrap_or(usize::MAX));
    for stage in 0..work.kernel.get().body.stages() {
        work.ranges.iter().for_each(UsedRange::forget_element_size);
        if helpers > 0 {
            let share = Share::new(
                Arc::clone(work),
                stage,
                blocks,
                chunk,
                partition.map(|partition| (Arc::clone(partition), level)),
            );
            engine.offer(level, &share, helpers);
            share.run_to_end(work)?;
        } else {
            let mut all = Some(0..blocks);
            work.run_blocks(stage, Blocks { next: &mut || all.take(), has_failed: &|| false })?;
        }
    }
    Ok(())
}

/// Shared memory is made of these, so that it is aligned to 16 bytes.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(16))]
struct Line([u8; 16]);

thread_local! {
    static SHARED_MEMORY: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Gives `body` this thread's shared memory, which is initialised once and used again.
fn with_shared_memory<R>(bytes: usize, body: impl FnOnce(&mut [u8]) -> R) -> R {
    if bytes == 0 {
        return body(&mut []);
    }
    // Taken out while in use; `body` does not unwind.
    let mut lines = SHARED_MEMORY.try_with(Cell::take).unwrap_or_default();
    let count = bytes.div_ceil(size_of::<Line>());
    if lines.len() < count {
        lines.resize(count, Line([0; 16]));
    }
    let memory = bytemuck::cast_slice_mut::<Line, u8>(&mut lines);
    let result = match memory.get_mut(..bytes) {
        Some(memory) => body(memory),
        None => body(&mut []),
    };
    let _ = SHARED_MEMORY.try_with(|kept| kept.set(lines));
    result
}

/// Runs a share of a kernel, and marks the thread as inside of it.
pub(super) fn run_share(work: &KernelWork, stage: usize, next: Blocks<'_>) -> Result<(), KernelError> {
    // SAFETY: it is a variable of this block, in which nothing else marks the thread for longer.
    let _scope = unsafe { enter_work() };
    work.run_blocks(stage, next)
}
