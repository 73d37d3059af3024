//! Kernels, and launching them.

mod arguments;
mod call;
mod checked;
mod config;
mod declared;

pub use arguments::{KernelArgument, KernelArguments, Scalar};
pub use call::KernelCall;
pub use config::{Dimensions, LaunchConfig};

use crate::error::Result;
use crate::module::Module;
use crate::stream::Stream;
use anabranch_core::module::KernelCore;
use anabranch_hal::{FunctionAttribute, FunctionHandle, FunctionInfo, ParameterInfo};
use std::fmt;
use std::sync::Arc;

/// A kernel of a loaded module. Cheap to clone; its module stays loaded as long as it lives.
#[derive(Clone)]
pub struct Kernel {
    core: Arc<KernelCore>,
}

impl Kernel {
    pub(crate) fn from_core(core: Arc<KernelCore>) -> Self {
        Self { core }
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Arc<KernelCore> {
        &self.core
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// The parameters it declares, or `None` where the driver cannot say (before CUDA 12.4). Where it can, launches are
    /// checked against them.
    pub fn parameters(&self) -> Option<&[ParameterInfo]> {
        self.core.parameters()
    }

    /// Registers, memory and limits of the kernel.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn info(&self) -> Result<FunctionInfo> {
        self.core.info()
    }

    /// Sets an attribute, such as how much dynamic shared memory above 48 KiB a launch may ask for.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` when the device cannot have so much.
    pub fn set_attribute(&self, attribute: FunctionAttribute) -> Result<()> {
        self.core.set_attribute(attribute)
    }

    /// How many blocks of that size fit on a multiprocessor at once. Times the number of multiprocessors, it is the
    /// largest cooperative grid.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` when the block has no threads.
    pub fn max_active_blocks(&self, threads_per_block: u32, dynamic_shared_bytes: usize) -> Result<u32> {
        self.core.max_active_blocks(threads_per_block, dynamic_shared_bytes)
    }

    /// The kernel's module.
    pub fn module(&self) -> Module {
        Module::from_core(self.core.module().clone())
    }

    /// A number that is unique among all objects of this process, and never used again.
    pub fn id(&self) -> u64 {
        self.core.label().id().get()
    }

    /// Gives the kernel a label, for layers of the driver. A kernel keeps its first. Whether this is it.
    #[track_caller]
    pub fn set_label(&self, label: &str) -> bool {
        self.core.label().set_name(self.core.context(), label)
    }

    /// The driver's handle. It is valid as long as this kernel.
    pub fn as_raw(&self) -> FunctionHandle {
        self.core.handle()
    }
}

impl Module {
    /// Finds a kernel by its name, the mangled one for C++ without `extern "C"`.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND (500)` when there is none of that name; the message lists those there are, where the
    /// driver can say.
    #[track_caller]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        Ok(Kernel::from_core(self.core().kernel(name)?))
    }
}

impl Stream {
    /// Launches a kernel in stream order, and returns at once.
    ///
    /// The arguments are a tuple: `&buffer` or a [`BufferSlice`](crate::BufferSlice) for memory that the kernel reads,
    /// `&mut buffer` or a [`BufferSliceMut`](crate::BufferSliceMut) for memory that it writes, and plain numbers, a
    /// [`Scalar`] or a [`DevicePointer`](crate::DevicePointer) by value. A buffer by value is memory that the kernel writes,
    /// one in [`Reads`](crate::Reads) memory that it reads; both are dropped, and so freed behind the launch, unless
    /// [`launch_async`](Self::launch_async) gives them back. Number and sizes are checked, memory is ordered between
    /// streams, and it outlives the launch. CuPy and Warp call this a kernel call, Mojo
    /// `enqueue_function`. Follows the Driver API's group *Execution Control*.
    ///
    /// This is the lower level: whether the arguments are of the types that the kernel has is up to whoever writes the
    /// launch, at each of them. [`kernels!`](crate::kernels) declares the types once. Closures on the host device can be
    /// launched by safe code, with [`launch_checked`](Self::launch_checked).
    ///
    /// # Safety
    /// The device's code cannot be checked. The caller promises that each argument is of the type that the kernel
    /// declares; that the kernel reads only memory given to it, and writes only memory given as mutable, within its
    /// bounds; that memory behind raw pointers is live until the launch has run, and ordered; and that threads of the
    /// kernel do not race.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` when the arguments, the grid, the block or the shared memory do not fit;
    /// `CUDA_ERROR_INVALID_HANDLE (400)` when the kernel or a buffer is of another context;
    /// `CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE (720)` and `CUDA_ERROR_INVALID_CLUSTER_SIZE (912)` for cooperative grids and
    /// clusters that do not fit on the device.
    #[inline]
    #[track_caller]
    pub unsafe fn launch<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: A,
    ) -> Result<()> {
        // SAFETY: the caller's promise. What the arguments own is freed behind the launch.
        unsafe { self.launch_with(kernel, config, &arguments) }
    }

    /// As [`launch`](Self::launch), for a caller that keeps the arguments.
    ///
    /// # Safety
    /// As `launch`.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn launch_with<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: &A,
    ) -> Result<()> {
        // SAFETY: the caller's promise. The arguments' memory is among the accesses.
        arguments.with(|arguments| unsafe { self.core().launch(&kernel.core, &config.shape, arguments) })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kernel(`{}`, {})", self.core.name(), self.core.context().place())
    }
}
