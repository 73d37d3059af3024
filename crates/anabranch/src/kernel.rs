//! Kernels and launches.

mod arguments;
mod call;
mod checked;
mod config;
mod declared;
mod foreign;
mod list;
mod tensor_map;

pub use arguments::{KernelArgument, KernelArguments, Scalar};
pub use call::KernelCall;
pub use config::{Dimensions, LaunchConfig};
pub use list::ArgumentList;
pub use tensor_map::{TensorLayout, TensorMap, TensorMapMut};

use crate::error::Result;
use crate::module::Module;
use crate::stream::Stream;
use anabranch_core::module::KernelCore;
use anabranch_hal::{FunctionAttribute, FunctionHandle, FunctionInfo, ParameterInfo};
use std::fmt;
use std::sync::Arc;

/// A kernel of a loaded module. Cheap to clone. Its module stays loaded as long as the kernel lives.
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

    /// The declared parameters, or `None` if the driver does not report them (before CUDA 12.4). If it does, launches
    /// are checked against them.
    pub fn parameters(&self) -> Option<&[ParameterInfo]> {
        self.core.parameters()
    }

    /// The registers, memory and limits of the kernel.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn info(&self) -> Result<FunctionInfo> {
        self.core.info()
    }

    /// Sets an attribute, such as the maximum dynamic shared memory of a launch above 48 KiB.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the device does not support the value.
    pub fn set_attribute(&self, attribute: FunctionAttribute) -> Result<()> {
        self.core.set_attribute(attribute)
    }

    /// The number of blocks of that size that fit on a multiprocessor at once. Multiplied by the number of
    /// multiprocessors, it is the size of the largest cooperative grid.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the block has no threads.
    pub fn max_active_blocks(&self, threads_per_block: u32, dynamic_shared_bytes: usize) -> Result<u32> {
        self.core.max_active_blocks(threads_per_block, dynamic_shared_bytes)
    }

    /// The number of clusters of a launch that fit on the device at once. Follows `cuOccupancyMaxActiveClusters`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_CLUSTER_SIZE (912)`](crate::Status::INVALID_CLUSTER_SIZE) for a cluster that is too large
    /// or does not divide the grid; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a block that no
    /// device has.
    pub fn max_active_clusters(&self, config: &LaunchConfig<'_>) -> Result<u32> {
        self.core.max_active_clusters(&config.shape)
    }

    /// The number of blocks that a cluster of a launch can have at most. The cluster of the configuration does not matter. More
    /// than 8 need the attribute [`NonPortableClusterSize`](FunctionAttribute::NonPortableClusterSize). Follows
    /// `cuOccupancyMaxPotentialClusterSize`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a block that no device has.
    pub fn max_cluster_size(&self, config: &LaunchConfig<'_>) -> Result<u32> {
        self.core.max_cluster_size(&config.shape)
    }

    /// The kernel's module.
    pub fn module(&self) -> Module {
        Module::from_core(self.core.module().clone())
    }

    /// An id that is unique among all objects of this process and never reused.
    pub fn id(&self) -> u64 {
        self.core.label().id().get()
    }

    /// Labels the kernel, for layers of the driver. Only the first label is kept. Returns whether this is the first.
    #[track_caller]
    pub fn set_label(&self, label: &str) -> bool {
        self.core.label().set_name(self.core.context(), label)
    }

    /// The driver's handle, which is valid as long as this kernel.
    pub fn as_raw(&self) -> FunctionHandle {
        self.core.handle()
    }
}

impl Module {
    /// Finds a kernel by its name. For C++ without `extern "C"`, this is the mangled name.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_FOUND (500)`](crate::Status::NOT_FOUND) if there is no kernel with that name. The message lists
    /// the existing ones if the driver reports them.
    #[track_caller]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        Ok(Kernel::from_core(self.core().kernel(name)?))
    }
}

impl Stream {
    /// Launches a kernel in stream order, and returns at once.
    ///
    /// The arguments are a tuple. Pass `&buffer` or a [`BufferSlice`](crate::BufferSlice) for memory that the kernel
    /// reads, and `&mut buffer` or a [`BufferSliceMut`](crate::BufferSliceMut) for memory that it writes. Pass plain
    /// numbers, a [`Scalar`] or a [`DevicePointer`](crate::DevicePointer) by value. A kernel can use a `DevicePointer` as
    /// memory up to the end of its allocation; the library neither orders that use nor keeps the memory. A buffer by value is memory that
    /// the kernel writes, or, in [`Reads`](crate::Reads), memory that it reads. Buffers by value are dropped, and so
    /// freed after the launch, unless [`launch_async`](Self::launch_async) returns them. The number and the sizes of
    /// the arguments are checked. The library orders the uses of the memory between streams, and keeps the memory until
    /// the launch is complete. CuPy and Warp call this a kernel call, Mojo `enqueue_function`. Follows the Driver API's
    /// group *Execution Control*.
    ///
    /// This is the lower level: the caller is responsible, at each launch, for arguments of the types that the kernel
    /// has. [`kernels!`](crate::kernels) declares the types once. Safe code can launch closures on the host device with
    /// [`launch_checked`](Self::launch_checked).
    ///
    /// ```
    /// use anabranch::{DualModule, HostFunction, LaunchConfig};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// // The kernel has two parameters: an address and a number of 4 bytes.
    /// let closure = HostFunction::new("add", &[8, 4], |block, arguments| {
    ///     let (data, number) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1));
    ///     block.phase(|thread, _shared| {
    ///         let i = thread.global_x();
    ///         if i < data.len() {
    ///             data.set(i, data.get(i) + number);
    ///         }
    ///     });
    /// });
    /// // For GPUs, add `.ptx(include_str!("add.ptx"))`.
    /// let kernel = DualModule::new().host_function(closure).load(&context)?.kernel("add")?;
    /// let mut data = stream.upload(&[1u32, 2, 3])?;
    /// // SAFETY: the kernel has these parameters, and each of its threads uses an element of its own.
    /// unsafe { stream.launch(&kernel, &LaunchConfig::for_elements(3), (&mut data, 10u32))? };
    /// assert_eq!(stream.download(&data)?, [11, 12, 13]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// The library cannot check the device's code. The caller promises that each argument has the type that the kernel
    /// declares; that the kernel reads only memory that it was given, and writes only memory that it was given as
    /// mutable, within its bounds; that memory behind raw pointers is valid until the launch has run, and ordered; that
    /// threads of the kernel do not race; and, with
    /// [`programmatic_stream_serialization`](LaunchConfig::programmatic_stream_serialization), what is stated there.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the arguments, the grid, the block or the
    /// shared memory are not valid for the kernel or the device;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the kernel or a buffer belongs to another
    /// context; [`CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE (720)`](crate::Status::COOPERATIVE_LAUNCH_TOO_LARGE) and
    /// [`CUDA_ERROR_INVALID_CLUSTER_SIZE (912)`](crate::Status::INVALID_CLUSTER_SIZE) for cooperative grids and
    /// clusters that do not fit on the device.
    #[inline]
    #[track_caller]
    pub unsafe fn launch<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig<'_>,
        arguments: A,
    ) -> Result<()> {
        // SAFETY: the caller promises that the arguments have the types that the kernel declares, and that it stays within them.
        // What the arguments own is freed behind the launch.
        unsafe { self.launch_with(kernel, config, &arguments) }
    }

    /// Like [`launch`](Self::launch), for a caller that keeps the arguments.
    ///
    /// # Safety
    /// Same as for `launch`.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn launch_with<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig<'_>,
        arguments: &A,
    ) -> Result<()> {
        // SAFETY: the caller promises that the arguments have the types that the kernel declares, and that it stays within them.
        // The arguments' memory is among the accesses.
        arguments.with(|arguments| unsafe { self.core().launch(&kernel.core, &config.shape, arguments) })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kernel(`{}`, {})", self.core.name(), self.core.context().place())
    }
}
