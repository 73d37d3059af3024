//! Launches of kernels, block by block.
//!
//! A [`Launch`] is what all blocks of a grid share. A [`BlockRun`] runs one block after another on the thread that has it,
//! and keeps its memory in between. Blocks are independent: any number of threads may each have a [`BlockRun`]. A block that
//! waits for another one makes progress as long as the caller steps both: [`BlockRun::step`] returns after a number of
//! operations.

mod barrier;
mod block;
mod call;
mod checker;
mod field;
mod frame;
mod gather;
mod heap;
mod print;
mod provided;
mod warp;

use crate::fault::FaultCode;
use crate::lower::Refusal;
use crate::machine::Geometry;
use crate::memory::{Access, GlobalMemory};
use crate::program::Program;

pub use block::{BlockRun, Progress};

/// An access of a thread, as hooks see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckedAccess<'a> {
    /// The kernel.
    pub kernel: &'a str,
    /// The line of the PTX text.
    pub line: u32,
    /// The file and the line of the source, if the text has `.loc`.
    pub source: Option<(&'a str, u32)>,
    /// The block.
    pub block: [u32; 3],
    /// The thread.
    pub thread: [u32; 3],
    /// Where, how much, and what.
    pub access: Access,
}

/// What the caller of a launch does for its kernels.
pub trait Hooks: Sync {
    /// Takes what `printf` writes, one call at a time: bytes that need not be UTF-8.
    fn print(&self, text: &[u8]) {
        let _ = text;
    }

    /// Looks at an access, in checked mode, before it is performed.
    ///
    /// # Errors
    ///
    /// The status with which the kernel ends, and what is wrong.
    fn access(&self, access: &CheckedAccess<'_>) -> Result<(), (FaultCode, String)> {
        let _ = access;
        Ok(())
    }

    /// Allocates memory for `malloc`, at an address that is a multiple of 16. `None`, for which `malloc` returns zero: there
    /// is not as much. What it returns is memory of the launch's [`GlobalMemory`].
    fn allocate(&self, bytes: u64) -> Option<u64> {
        let _ = bytes;
        None
    }

    /// Frees memory that `allocate` has returned. The address is not zero.
    ///
    /// # Errors
    ///
    /// What is wrong with the address, which ends the kernel.
    fn free(&self, address: u64) -> Result<(), String> {
        Err(format!("free of {address:#x}, and there is no heap"))
    }

    /// Sets a conditional value of the graph that the launch belongs to: `cudaGraphSetConditional`. Returns `false` if the
    /// launch has no value with that handle, which ends the kernel.
    fn set_conditional(&self, handle: u64, value: u32) -> bool {
        let _ = (handle, value);
        false
    }
}

/// The external functions that kernels can call here. Others fail when they are called.
pub const PROVIDED_FUNCTIONS: [&str; 5] = ["vprintf", "__assertfail", "malloc", "free", "cudaGraphSetConditional"];

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// The size of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of each block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
}

/// How a kernel is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Every access is checked and shown to [`Hooks::access`]; reads of memory of blocks and threads of which no byte was
    /// written are faults (for local memory not in modules with the target `debug`), and so are lanes of one warp at
    /// different barriers.
    pub checked: bool,
    /// How many operations each block may perform, of one warp each.
    pub operation_limit: Option<u64>,
    /// How deep calls may be nested.
    pub call_depth: u32,
    /// The most bytes of local memory that a thread may have.
    pub stack_bytes: u32,
    /// What `%gridid` is.
    pub grid_id: u64,
    /// Blocks of a cluster, as special registers tell them: extents that divide those of the grid, where 0 stands for 1, and
    /// at most [`CLUSTER_LIMIT`] blocks. A kernel that requires another size has that, unless this says one. The blocks of a
    /// cluster are independent, too.
    pub cluster: [u32; 3],
}

impl Default for Options {
    fn default() -> Options {
        Options {
            checked: false,
            operation_limit: None,
            call_depth: 4096,
            stack_bytes: 1 << 20,
            grid_id: 0,
            cluster: [1; 3],
        }
    }
}

/// Why a kernel cannot be launched.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No kernel has this name.
    #[error("the module has no kernel {0}")]
    UnknownKernel(String),
    /// The kernel has instructions that cannot be executed.
    #[error("the kernel {kernel} cannot be executed: line {}: {}", first.line, first.what)]
    NotExecutable {
        /// The kernel.
        kernel: String,
        /// The first thing that is not supported.
        first: Refusal,
    },
    /// A grid or a block of no size, or of too large a size.
    #[error(
        "a grid of {grid:?} blocks of {block:?} threads: a block has 1 to {most} threads, and a grid at least one block"
    )]
    BadSize {
        /// The grid.
        grid: [u32; 3],
        /// The block.
        block: [u32; 3],
        /// The most threads.
        most: u64,
    },
    /// The kernel says what size blocks must have.
    #[error("blocks of {found:?} threads, and the kernel requires {required:?}")]
    RequiredBlock {
        /// What `.reqntid` says.
        required: [u64; 3],
        /// The block.
        found: [u32; 3],
    },
    /// The parameters have the wrong size.
    #[error("{found} bytes of parameters, and the kernel has {expected}")]
    ParameterBytes {
        /// What the kernel has.
        expected: u32,
        /// What was given.
        found: usize,
    },
    /// Clusters that the grid does not consist of, or of too many blocks.
    #[error(
        "clusters of {cluster:?} blocks in a grid of {grid:?}: extents of a cluster divide those of the grid, and it has at most \
         {CLUSTER_LIMIT} blocks"
    )]
    BadCluster {
        /// The grid.
        grid: [u32; 3],
        /// The cluster.
        cluster: [u32; 3],
    },
    /// More shared memory than a block may have.
    #[error("{0} bytes of shared memory: a block has at most {SHARED_LIMIT}")]
    SharedMemory(u64),
}

/// The most threads of a block.
pub const THREAD_LIMIT: u64 = 1024;

/// The most blocks of a cluster.
pub const CLUSTER_LIMIT: u64 = 16;

/// The most bytes of shared memory of a block.
pub const SHARED_LIMIT: u64 = 1 << 20;

/// Words of parameters, which are aligned as the largest access needs.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Words([u64; 8]);

/// A launch of a kernel.
pub struct Launch<'l> {
    pub(crate) program: &'l Program,
    pub(crate) kernel: u32,
    pub(crate) geometry: Geometry,
    pub(crate) parameters: Vec<Words>,
    pub(crate) parameter_bytes: u64,
    pub(crate) memory: &'l dyn GlobalMemory,
    /// What the memory says of itself.
    pub(crate) direct: bool,
    pub(crate) hooks: &'l dyn Hooks,
    pub(crate) options: Options,
}

impl std::fmt::Debug for Launch<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Launch").field("kernel", &self.kernel).field("geometry", &self.geometry).finish()
    }
}

impl<'l> Launch<'l> {
    /// A launch of a kernel. `parameters` has them at the offsets that [`Parameter`](crate::Parameter) says.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] says why the kernel cannot be launched so.
    pub fn new(
        program: &'l Program,
        kernel: &str,
        size: Size,
        parameters: &[u8],
        memory: &'l dyn GlobalMemory,
        hooks: &'l dyn Hooks,
        options: Options,
    ) -> Result<Launch<'l>, LaunchError> {
        let functions = program.module().functions();
        let is_it = |function: &crate::Function| function.kernel && function.defined && function.name == kernel;
        let Some(index) = functions.iter().position(is_it) else {
            return Err(LaunchError::UnknownKernel(kernel.to_owned()));
        };
        let function = &functions[index];
        if let Some(first) = function.refusals.first() {
            return Err(LaunchError::NotExecutable { kernel: kernel.to_owned(), first: first.clone() });
        }
        let most = function.most_threads().unwrap_or(THREAD_LIMIT).min(THREAD_LIMIT);
        let threads = size.block.iter().fold(1u64, |threads, &axis| threads.saturating_mul(axis.into()));
        if threads == 0 || threads > most || size.block.iter().any(|&axis| axis > 1024) || size.grid.contains(&0) {
            return Err(LaunchError::BadSize { grid: size.grid, block: size.block, most });
        }
        let given = options.cluster.map(|extent| extent.max(1));
        let required = function.required_cluster();
        let cluster = if given == [1; 3] { required.unwrap_or(given) } else { given };
        let together = cluster.iter().fold(1u64, |blocks, &extent| blocks.saturating_mul(extent.into()));
        let divides = size.grid.iter().zip(cluster).all(|(blocks, extent)| blocks.is_multiple_of(extent));
        let limit = function.most_cluster_blocks().unwrap_or(CLUSTER_LIMIT).min(CLUSTER_LIMIT);
        if together > limit || !divides || required.is_some_and(|required| required != cluster) {
            return Err(LaunchError::BadCluster { grid: size.grid, cluster });
        }
        if let Some(required) = function.required_block()
            && required != size.block.map(u64::from)
        {
            return Err(LaunchError::RequiredBlock { required, found: size.block });
        }
        if parameters.len() != function.parameter_bytes as usize {
            let expected = function.parameter_bytes;
            return Err(LaunchError::ParameterBytes { expected, found: parameters.len() });
        }
        let mut total = u64::from(function.shared_bytes);
        if size.dynamic_shared > 0 {
            total = total.next_multiple_of(program.module().dynamic_alignment.into());
        }
        total += u64::from(size.dynamic_shared);
        if total > SHARED_LIMIT {
            return Err(LaunchError::SharedMemory(total));
        }
        let mut words = vec![Words([0; 8]); parameters.len().div_ceil(64).max(1)];
        for (index, byte) in parameters.iter().enumerate() {
            words[index / 64].0[index / 8 % 8] |= u64::from(*byte) << (index % 8 * 8);
        }
        Ok(Launch {
            program,
            kernel: index as u32,
            geometry: Geometry {
                grid: size.grid,
                block: size.block,
                cluster,
                dynamic_shared: size.dynamic_shared,
                total_shared: total as u32,
                grid_id: options.grid_id,
            },
            parameters: words,
            parameter_bytes: parameters.len() as u64,
            memory,
            direct: memory.is_direct(),
            hooks,
            options,
        })
    }

    /// How many blocks the grid has.
    pub fn blocks(&self) -> u64 {
        self.geometry.grid.iter().map(|&axis| u64::from(axis)).fold(1, u64::saturating_mul)
    }

    /// The place of a block in the grid.
    pub fn block_index(&self, block: u64) -> [u32; 3] {
        let [x, y, _] = self.geometry.grid.map(u64::from);
        [(block % x) as u32, (block / x % y) as u32, (block / x / y) as u32]
    }

    /// Runs all blocks, one after another, on this thread. A block that waits for a later one waits for ever, or until its
    /// limit of operations.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn run(&self) -> Result<(), Box<crate::Fault>> {
        let mut run = BlockRun::new(self);
        for block in 0..self.blocks() {
            run.start(block);
            loop {
                match run.step(u64::MAX) {
                    Progress::Done => break,
                    Progress::Yielded => {}
                    Progress::Fault(fault) => return Err(fault),
                }
            }
        }
        Ok(())
    }
}
