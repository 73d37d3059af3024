//! Kernels, and launching them.

mod arguments;
mod call;
mod checked;
mod config;
mod declared;

pub use arguments::{KernelArgument, KernelArguments, Scalar};
pub use call::KernelCall;
pub use config::{Dimensions, LaunchConfig};

use crate::context::{ContextCore, other_context};
use crate::error::{Error, ErrorKind, Result, ResultExt, list};
use crate::module::{Module, ModuleCore};
use crate::stream::{Stream, StreamCore};
use crate::trace;
use anabranch_hal::{FunctionAttribute, FunctionHandle, FunctionInfo, Launch, ParameterInfo, Status};
use std::fmt;
use std::sync::Arc;

/// A kernel of a loaded module. Cheap to clone; it keeps its module loaded.
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<KernelInner>,
}

struct KernelInner {
    module: Arc<ModuleCore>,
    handle: FunctionHandle,
    name: String,
    /// Sizes and places of the parameters, or `None` where the driver cannot say.
    parameters: Option<Vec<ParameterInfo>>,
}

impl Kernel {
    pub(crate) fn find(module: &Arc<ModuleCore>, name: &str) -> Result<Self> {
        let operation = "looking for a kernel";
        let context = module.context();
        // SAFETY: the module is live while it is borrowed.
        let found = unsafe { context.driver().module_function(context.handle(), module.handle(), name) };
        let handle = match found {
            Ok(handle) => handle,
            Err(failure) if failure.status == Status::NOT_FOUND => {
                let names = module.kernel_names().unwrap_or_default();
                let list = match names.len() {
                    0 => "see the names in the PTX; C++ names are mangled unless declared extern \"C\"".to_owned(),
                    1 => format!("its only one is `{}`", names[0]),
                    _ => format!("it has {}", list(&names)),
                };
                return Err(Error::new(ErrorKind::Argument, Status::NOT_FOUND, operation)
                    .with_message(format!("the module has no kernel `{name}`; {list}"))
                    .at(context.place()));
            }
            Err(failure) => return Err(failure).during(operation, || context.place()),
        };
        // SAFETY: the function was just found in a live module.
        let info = unsafe { context.driver().function_info(context.handle(), handle) }
            .during("asking a kernel for its parameters", || context.place())?;
        let inner = KernelInner { module: module.clone(), handle, name: name.to_owned(), parameters: info.parameters };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        self.inner.module.context()
    }

    pub(crate) fn module_core(&self) -> &Arc<ModuleCore> {
        &self.inner.module
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The parameters it declares, or `None` where the driver cannot say (before CUDA 12.4). Where it can, launches are
    /// checked against them.
    pub fn parameters(&self) -> Option<&[ParameterInfo]> {
        self.inner.parameters.as_deref()
    }

    /// Registers, memory and limits of the kernel.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn info(&self) -> Result<FunctionInfo> {
        let context = self.context();
        // SAFETY: the kernel keeps its module loaded.
        unsafe { context.driver().function_info(context.handle(), self.inner.handle) }
            .during("asking a kernel for its attributes", || context.place())
    }

    /// Sets an attribute, such as how much dynamic shared memory a launch may ask for beyond 48 KiB.
    ///
    /// # Errors
    /// 1 when the device cannot have so much.
    pub fn set_attribute(&self, attribute: FunctionAttribute) -> Result<()> {
        let context = self.context();
        // SAFETY: the kernel keeps its module loaded.
        unsafe { context.driver().function_set_attribute(context.handle(), self.inner.handle, attribute) }
            .during("setting an attribute of a kernel", || format!("{} (`{}`)", context.place(), self.inner.name))
    }

    /// How many blocks of that size fit on a multiprocessor at once. Times the number of multiprocessors, it is the
    /// largest cooperative grid.
    ///
    /// # Errors
    /// 1 when the block has no threads.
    pub fn max_active_blocks(&self, threads_per_block: u32, dynamic_shared_bytes: usize) -> Result<u32> {
        let context = self.context();
        // SAFETY: the kernel keeps its module loaded.
        unsafe {
            context.driver().function_max_active_blocks(
                context.handle(),
                self.inner.handle,
                threads_per_block,
                dynamic_shared_bytes,
            )
        }
        .during("asking for a kernel's occupancy", || context.place())
    }

    /// The kernel's module.
    pub fn module(&self) -> Module {
        Module::from_core(self.inner.module.clone())
    }

    /// The driver's handle. It is valid as long as this kernel.
    pub fn as_raw(&self) -> FunctionHandle {
        self.inner.handle
    }

    /// That the arguments are as many, and each as large, as the kernel declares.
    #[inline(always)]
    pub(crate) fn check(&self, sizes: &[usize]) -> Result<()> {
        let Some(parameters) = &self.inner.parameters else { return Ok(()) };
        let equal = parameters.len() == sizes.len()
            && parameters.iter().zip(sizes).all(|(parameter, size)| parameter.size == *size);
        if equal { Ok(()) } else { Err(self.refuse(parameters, sizes)) }
    }

    #[cold]
    fn refuse(&self, parameters: &[ParameterInfo], sizes: &[usize]) -> Error {
        let declared: Vec<usize> = parameters.iter().map(|parameter| parameter.size).collect();
        Error::argument(
            Status::INVALID_VALUE,
            "launching a kernel",
            format!(
                "`{}` declares parameters of {declared:?} bytes, and the arguments have {sizes:?}; pass one argument for \
                 each parameter, of its size",
                self.inner.name
            ),
        )
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
    /// This is the lower level: whether the arguments are of the types that the kernel has is looked at anew at each
    /// launch, by whoever writes it. [`kernels!`](crate::kernels) declares the types once. Closures on the host device can be
    /// launched by safe code, with [`launch_checked`](Self::launch_checked).
    ///
    /// # Safety
    /// The device's code cannot be checked. The caller promises that each argument is of the type that the kernel
    /// declares; that the kernel reads only memory given to it, and writes only memory given as mutable, within its
    /// bounds; that memory behind raw pointers is live until the launch has run, and ordered; and that threads of the
    /// kernel do not race.
    ///
    /// # Errors
    /// 1 when the arguments, the grid, the block or the shared memory do not fit; 400 when the kernel or a buffer is of
    /// another context; 720 and 912 for cooperative grids and clusters that do not fit on the device.
    #[inline]
    pub unsafe fn launch<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: A,
    ) -> Result<()> {
        // SAFETY: the caller's word. What is owned by the arguments is dropped behind the launch.
        unsafe { self.launch_with(kernel, config, &arguments) }
    }

    /// As [`launch`](Self::launch), for who keeps the arguments.
    ///
    /// # Safety
    /// As `launch`.
    #[inline(always)]
    pub(crate) unsafe fn launch_with<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: &A,
    ) -> Result<()> {
        let name = "launching a kernel";
        let core = self.core();
        trace::queued!(stream = core.id(), kernel = kernel.name(), grid = ?config.grid, block = ?config.block, "{name}");
        if !Arc::ptr_eq(kernel.context(), core.context()) && kernel.context().handle() != core.context().handle() {
            return Err(other_context(name, "kernel", core.place()));
        }
        let handle = core.handle(name)?;
        let operation = core.operation(name);
        if core.context().is_order_strict() {
            check_order(core, arguments, name)?;
        }
        arguments.prepare(self, &operation)?;
        if core.is_capturing() {
            core.shared().capture().keep(&kernel.inner.module);
        }
        arguments.with(|values, sizes, ranges| {
            kernel.check(sizes)?;
            let launch = Launch {
                grid: config.grid,
                block: config.block,
                cluster: config.cluster,
                dynamic_shared_bytes: config.dynamic_shared_bytes,
                cooperative: config.cooperative,
                priority: config.priority,
                arguments: values,
                ranges,
            };
            let context = core.context();
            // SAFETY: stream and kernel are live while they are borrowed; the arguments' number and sizes were checked
            // where the driver can say, and what the kernel does with them is the caller's word.
            let launched = unsafe { context.driver().launch(context.handle(), handle, kernel.inner.handle, &launch) };
            launched.map_err(|failure| {
                let error = Error::driver(name, failure).at(core.place());
                config.explain(error, core.context().device().properties())
            })
        })?;
        core.queued(&operation, || stamp(core, arguments))
    }
}

/// In strict mode, refuses a launch that is not ordered by the user, before anything is done about any argument.
#[cold]
fn check_order<A: KernelArguments>(core: &Arc<StreamCore>, arguments: &A, operation: &'static str) -> Result<()> {
    let mut result = Ok(());
    arguments.for_each_use(&mut |used| {
        if result.is_ok() {
            let memory = &used.memory;
            result =
                memory.require_context(core, operation).and_then(|()| memory.check_order(core, used.access, operation));
        }
    });
    result
}

/// Stamps the memory among the arguments.
#[cold]
fn stamp<A: KernelArguments>(core: &Arc<StreamCore>, arguments: &A) {
    arguments.for_each_use(&mut |used| used.memory.stamp(core, used.access));
}

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kernel(`{}`, {})", self.inner.name, self.context().place())
    }
}
