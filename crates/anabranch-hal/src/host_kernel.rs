//! Kernels that are Rust closures, for the software device.
//!
//! The device calls a kernel once per block. The code that threads execute between two barriers is a
//! [phase](Block::phase): a closure that is called once per thread. The end of a phase is the barrier.
//!
//! Blocks run in any order and concurrently. Kernels therefore access global memory through [`GlobalSlice`], which
//! checks bounds and whose accesses are never a data race in Rust's sense, however the kernel is written. The one
//! exception is a global variable that a kernel accesses with elements of different sizes.

mod arguments;
mod block;
mod global;
mod tensor;

pub use arguments::{ConditionalValues, GlobalRange, HostArguments, UsedRange};
pub use block::{Block, SharedMemory, Thread};
pub use global::{DeviceElement, GlobalSlice};
pub use tensor::{TensorElement, TensorView};

use crate::Status;
use std::fmt;
use std::sync::Arc;

/// The closure that the software device calls for each block.
pub type HostBody = Arc<dyn Fn(&mut Block<'_>, &HostArguments<'_>) + Send + Sync + 'static>;

/// A kernel that is a Rust closure.
///
/// A kernel has one or more *stages*. All blocks complete a stage before any block starts the next one. Stages thus
/// replace the grid-wide barrier of a cooperative launch.
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
    /// Creates a kernel with one stage. `parameter_sizes` are the sizes of its parameters in bytes, in order. A pointer
    /// has 8 bytes.
    ///
    /// Safe code can launch the closure with any grid and block, and with any arguments of these sizes. Any `unsafe`
    /// code in the closure must be sound for all of them. The closure can rely on the following while it runs: nothing
    /// else accesses memory that the launch declares to write, and nothing writes memory that the launch declares to
    /// read. Two arguments therefore overlap only if the launch reads both. The closure must not rely on an address
    /// that is passed as a plain value.
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

    /// Adds a stage. It starts when all blocks have completed the previous stage.
    #[must_use]
    pub fn then(mut self, body: impl Fn(&mut Block<'_>, &HostArguments<'_>) + Send + Sync + 'static) -> Self {
        self.stages.push(Arc::new(body));
        self
    }

    /// Sets the static shared memory of a block, in bytes. It precedes the dynamic shared memory.
    #[must_use]
    pub fn with_static_shared_bytes(mut self, bytes: u32) -> Self {
        self.static_shared_bytes = bytes;
        self
    }

    /// The name of the kernel in its module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The sizes of the parameters in bytes, in order.
    pub fn parameter_sizes(&self) -> &[usize] {
        &self.parameter_sizes
    }

    /// The static shared memory of a block, in bytes.
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared_bytes
    }

    /// The stages. There is at least one.
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

/// A module of kernels that are Rust closures, for the software device. The kernels share its global variables.
#[derive(Clone, Debug, Default)]
pub struct HostModule {
    functions: Vec<HostFunction>,
    globals: Vec<HostGlobal>,
}

/// A global variable of a module of Rust closures (`__constant__` or `__device__`). Its initial value is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGlobal {
    /// The name of the variable.
    pub name: String,
    /// The size in bytes.
    pub bytes: usize,
}

impl HostModule {
    /// Creates an empty module.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kernel. It replaces an earlier kernel of the same name.
    #[must_use]
    pub fn with_function(mut self, function: HostFunction) -> Self {
        self.functions.retain(|other| other.name != function.name);
        self.functions.push(function);
        self
    }

    /// Adds a global variable of `bytes` bytes, in place of one of the same name. Kernels access it with
    /// [`HostArguments::global`].
    #[must_use]
    pub fn with_global(mut self, name: impl Into<String>, bytes: usize) -> Self {
        let name = name.into();
        self.globals.retain(|other| other.name != name);
        self.globals.push(HostGlobal { name, bytes });
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

/// A fault of a kernel, as on hardware. It ends the launch, and the context is lost.
///
/// A fault unwinds out of the kernel without calling the panic hook. An ordinary panic in a kernel is different: it is
/// an error of the stream and does not affect the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// The status that the context reports from then on: a sticky one. The host device takes any other for
    /// `CUDA_ERROR_LAUNCH_FAILED (719)`.
    pub status: Status,
    /// One sentence that describes the fault.
    pub message: String,
}

impl KernelFault {
    /// Ends the launch with this fault.
    #[cold]
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// An access outside the memory that the kernel was given: `CUDA_ERROR_ILLEGAL_ADDRESS (700)`.
    #[cold]
    pub fn illegal_address(message: impl Into<String>) -> Self {
        Self { status: Status::ILLEGAL_ADDRESS, message: message.into() }
    }

    /// A trap: `CUDA_ERROR_LAUNCH_FAILED (719)`.
    #[cold]
    pub fn trap(message: impl Into<String>) -> Self {
        Self { status: Status::LAUNCH_FAILED, message: message.into() }
    }

    /// A failed device-side assertion: `CUDA_ERROR_ASSERT (710)`.
    #[cold]
    pub fn assertion(message: impl Into<String>) -> Self {
        Self { status: Status::ASSERT, message: message.into() }
    }
}
