//! Kernels as Rust closures, for the host device.
//!
//! A kernel is called once a block. What its threads do between two barriers is a [phase](Block::phase): a closure
//! called once a thread. The end of a phase is the barrier. Blocks run in any order and at the same time, so global
//! memory is reached through [`GlobalSlice`], which is checked, and whose accesses are never a data race in Rust's
//! sense, however the kernel is written; global variables aside, if they are used as elements of several sizes.

mod arguments;
mod block;
mod global;

pub use arguments::{ConditionalValues, GlobalRange, HostArguments, UsedRange};
pub use block::{Block, SharedMemory, Thread};
pub use global::{DeviceElement, GlobalSlice};

use crate::Status;
use std::fmt;
use std::sync::Arc;

/// What the host device calls for each block.
pub type HostBody = Arc<dyn Fn(&mut Block<'_>, &HostArguments<'_>) + Send + Sync + 'static>;

/// A kernel as a Rust closure.
///
/// A kernel has one or more *stages*. All blocks finish a stage before any starts the next, which is how a grid-wide
/// barrier of a cooperative launch is written here.
///
/// ```
/// use anabranch_hal::HostFunction;
///
/// // y[i] = a * x[i] + y[i], for i below n; parameters: x, y, a, n.
/// let saxpy = HostFunction::new("saxpy", &[8, 8, 4, 4], |block, arguments| {
///     let (x, y) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1));
///     let (a, n) = (arguments.scalar::<f32>(2), arguments.scalar::<u32>(3));
///     block.phase(|thread, _shared| {
///         let i = thread.global_x();
///         if i < n as usize {
///             y.set(i, a * x.get(i) + y.get(i));
///         }
///     });
/// });
/// assert_eq!(saxpy.name(), "saxpy");
/// ```
#[derive(Clone)]
pub struct HostFunction {
    name: String,
    parameter_sizes: Vec<usize>,
    static_shared_bytes: u32,
    stages: Vec<HostBody>,
}

impl HostFunction {
    /// A kernel of one stage. `parameter_sizes` are the sizes of its parameters in bytes, in order; a pointer has 8.
    ///
    /// A closure may be launched by safe code, with any grid and block, and with any arguments of these sizes. Where it has
    /// `unsafe` code of its own, that has to hold for all of them. This it can rely on while it runs: memory of an argument
    /// that the launch declares to write is used by nobody else, memory that it declares to read is written by nobody, and
    /// so two arguments overlap only where both are read. An address as a plain value is worth nothing.
    pub fn new(
        name: impl Into<String>,
        parameter_sizes: &[usize],
        body: impl Fn(&mut Block<'_>, &HostArguments<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            parameter_sizes: parameter_sizes.to_vec(),
            static_shared_bytes: 0,
            stages: vec![Arc::new(body)],
        }
    }

    /// Adds a stage, which starts when all blocks have finished the stages before it.
    #[must_use]
    pub fn then(mut self, body: impl Fn(&mut Block<'_>, &HostArguments<'_>) + Send + Sync + 'static) -> Self {
        self.stages.push(Arc::new(body));
        self
    }

    /// Shared memory of a block that the kernel always has, in bytes. It lies before the dynamic shared memory.
    #[must_use]
    pub fn with_static_shared_bytes(mut self, bytes: u32) -> Self {
        self.static_shared_bytes = bytes;
        self
    }

    /// The kernel's name in its module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sizes of the parameters in bytes, in order.
    pub fn parameter_sizes(&self) -> &[usize] {
        &self.parameter_sizes
    }

    /// Shared memory of a block that the kernel always has, in bytes.
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared_bytes
    }

    /// The stages, at least one.
    pub fn stages(&self) -> &[HostBody] {
        &self.stages
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HostFunction")
            .field("name", &self.name)
            .field("parameter_sizes", &self.parameter_sizes)
            .field("static_shared_bytes", &self.static_shared_bytes)
            .field("stages", &self.stages.len())
            .finish()
    }
}

/// A module of Rust closures, for the host device: kernels, and global variables that they share.
#[derive(Clone, Debug, Default)]
pub struct HostModule {
    functions: Vec<HostFunction>,
    globals: Vec<HostGlobal>,
}

/// A global variable of a host module (`__constant__` or `__device__`). It is zero until something is copied there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGlobal {
    /// The variable's name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
}

impl HostModule {
    /// A module with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kernel. Of two with one name, the later counts.
    #[must_use]
    pub fn with_function(mut self, function: HostFunction) -> Self {
        self.functions.retain(|other| other.name != function.name);
        self.functions.push(function);
        self
    }

    /// Adds a global variable of `bytes` bytes, which kernels reach by [`HostArguments::global`].
    #[must_use]
    pub fn with_global(mut self, name: impl Into<String>, bytes: usize) -> Self {
        self.globals.push(HostGlobal { name: name.into(), bytes });
        self
    }

    /// The kernels.
    pub fn functions(&self) -> &[HostFunction] {
        &self.functions
    }

    /// The global variables.
    pub fn globals(&self) -> &[HostGlobal] {
        &self.globals
    }
}

impl FromIterator<HostFunction> for HostModule {
    fn from_iter<I: IntoIterator<Item = HostFunction>>(functions: I) -> Self {
        functions.into_iter().fold(Self::new(), Self::with_function)
    }
}

/// A fault of a kernel as hardware has them: it ends the launch, and the context is lost.
///
/// It leaves the kernel by unwinding, without a message of the panic hook. A plain panic in a kernel is something else:
/// an error of the stream, and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// The sticky code that the context answers from then on.
    pub status: Status,
    /// One sentence on what happened.
    pub message: String,
}

impl KernelFault {
    /// Ends the launch with this fault.
    #[cold]
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// An access outside of the memory that the kernel was given: 700.
    #[cold]
    pub fn illegal_address(message: impl Into<String>) -> Self {
        Self { status: Status::ILLEGAL_ADDRESS, message: message.into() }
    }

    /// A trap: 719.
    #[cold]
    pub fn trap(message: impl Into<String>) -> Self {
        Self { status: Status::LAUNCH_FAILED, message: message.into() }
    }

    /// A failed device-side assertion: 710.
    #[cold]
    pub fn assertion(message: impl Into<String>) -> Self {
        Self { status: Status::ASSERT, message: message.into() }
    }
}
