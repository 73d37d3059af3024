//! Modules and kernels: code loaded into a context.

mod device_runtime;

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, ErrorKind, Result, ResultExt, list};
use crate::host_work::drop_elsewhere;
use crate::idle_memory::attempt_when_idle;
use crate::label::Label;
use crate::panics::panic_failure;
use crate::trace;
use crate::waiting_call::call_waiting;
use anabranch_hal::{
    Call, DevicePointer, Driver, FunctionAttribute, FunctionHandle, FunctionInfo, HostModule, Live, ModuleHandle,
    ModuleImage, ObjectHandle, ParameterInfo, Status,
};
use std::sync::Arc;

/// A loaded module.
pub struct ModuleCore {
    context: Arc<ContextCore>,
    handle: ModuleHandle,
    /// The reason why launches of its kernels cannot be checked, if they cannot.
    unchecked: Option<&'static str>,
    /// The closures, if the kernels are closures. The driver has references to them too, and must not drop the last.
    closures: Option<HostModule>,
    label: Label,
}

/// A kernel of a module. It keeps the module loaded.
pub struct KernelCore {
    module: Arc<ModuleCore>,
    handle: FunctionHandle,
    name: String,
    /// Offsets and sizes of the parameters, or `None` if the driver does not report them.
    parameters: Option<Vec<ParameterInfo>>,
    label: Label,
}

impl ModuleCore {
    /// Loads a module.
    ///
    /// # Safety
    /// A compiler made a binary image for the device, and it was not changed since: drivers follow sizes and offsets
    /// within it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_PTX (218)`, `CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)`, `CUDA_ERROR_INVALID_IMAGE (200)` and
    /// `CUDA_ERROR_NO_BINARY_FOR_GPU (209)` for images that the driver does not accept;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` for a kind of image that the device does not run; `CUDA_ERROR_FILE_NOT_FOUND (301)`
    /// if PTX needs the device runtime, and that is not found.
    #[track_caller]
    pub unsafe fn load(context: &Arc<ContextCore>, image: ModuleImage<'_>) -> Result<Arc<Self>> {
        let operation = "loading a module";
        trace::span!("loading a module", device = %context.device(), bytes = image_bytes(&image));
        let (driver, call) = (context.driver(), context.call(operation));
        let needs_runtime = matches!(image, ModuleImage::Ptx(text) if device_runtime::is_needed(text));
        // SAFETY: the caller promises that a compiler made a binary image, and that it was not changed since.
        let load = || unsafe {
            if needs_runtime {
                driver.module_load_with_device_runtime(&call, image)
            } else {
                driver.module_load(&call, image)
            }
        };
        let handle = call_waiting(context, load).during(operation, || context.place())?;
        let unchecked = match image {
            ModuleImage::Host(module) if module.globals().is_empty() => None,
            ModuleImage::Host(_) => Some("its module has global variables, which are not ordered between streams"),
            _ => Some("it is code for a GPU, whose memory accesses are not checked"),
        };
        let label = Label::new(context, ObjectHandle::Module(handle));
        let closures = match image {
            ModuleImage::Host(module) => Some(module.clone()),
            _ => None,
        };
        Ok(Arc::new(Self { context: context.clone(), handle, unchecked, closures, label }))
    }

    /// The context.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The driver's handle.
    pub fn handle(&self) -> ModuleHandle {
        self.handle
    }

    fn live(&self) -> Live<'_, ModuleHandle> {
        // SAFETY: the module is unloaded after this is dropped.
        unsafe { Live::new(self.handle) }
    }

    /// Its number and name.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The reason why launches of its kernels cannot be checked, if they cannot.
    pub fn unchecked(&self) -> Option<&'static str> {
        self.unchecked
    }

    pub(crate) fn ask<R>(
        &self,
        operation: &'static str,
        ask: impl FnOnce(&dyn Driver, &Call<'_>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        ask(self.context.driver(), &self.context.call(operation)).during(operation, || self.context.place())
    }

    /// The names of the kernels.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver does not report it.
    pub fn kernel_names(&self) -> Result<Vec<String>> {
        self.ask("listing kernels", |driver, call| driver.module_function_names(call, self.live()))
    }

    /// Address and size in bytes of a global variable.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND (500)` if there is no variable with that name.
    pub fn global(&self, name: &str) -> Result<(DevicePointer, usize)> {
        let operation = "looking for a global variable";
        self.context
            .driver()
            .module_global(&self.context.call(operation), self.live(), name)
            .during(operation, || format!("{} (`{name}`)", self.context.place()))
    }

    /// Finds a kernel.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND (500)` if there is no kernel with that name. The message lists the existing ones if the
    /// driver reports them.
    #[track_caller]
    pub fn kernel(self: &Arc<Self>, name: &str) -> Result<Arc<KernelCore>> {
        let operation = "looking for a kernel";
        let (driver, call) = (self.context.driver(), self.context.call(operation));
        let handle = match driver.module_function(&call, self.live(), name) {
            Ok(handle) => handle,
            Err(failure) if failure.status == Status::NOT_FOUND => return Err(self.no_kernel(name, operation)),
            Err(failure) => {
                let refused = Err(failure).during(operation, || self.context.place());
                return if name.is_empty() {
                    refused.map_err(|error| error.with_hint("pass a name: it is empty"))
                } else {
                    refused
                };
            }
        };
        // SAFETY: the function was just found in the module, which is borrowed.
        let live = unsafe { Live::new(handle) };
        let info = self.ask("reading a kernel's parameters", |driver, call| driver.function_info(call, live))?;
        Ok(Arc::new(KernelCore {
            module: self.clone(),
            handle,
            name: name.to_owned(),
            parameters: info.parameters,
            label: Label::new(&self.context, ObjectHandle::Function(handle)),
        }))
    }

    #[cold]
    fn no_kernel(&self, name: &str, operation: &'static str) -> Error {
        let names = self.kernel_names().unwrap_or_default();
        let list = match &names[..] {
            [] => "see the names in the PTX; C++ names are mangled unless declared extern \"C\"".to_owned(),
            [only] => format!("its only one is `{only}`"),
            several => format!("it has {}", list(several)),
        };
        Error::new(ErrorKind::Argument, Status::NOT_FOUND, operation)
            .with_message(format!("the module has no kernel `{name}`; {list}"))
            .at(self.context.place())
    }
}

impl Drop for ModuleCore {
    fn drop(&mut self) {
        let (context, handle, closures) = (self.context.clone(), self.handle, self.closures.take());
        // Launches keep no account of the module, so that they cost nothing more. Unloading waits for them.
        attempt_when_idle(&self.context, move || {
            let operation = "unloading a module";
            trace::rare_elsewhere!(device = context.device().clone(); %device, "unloading a module");
            // SAFETY: its owners were dropped, so nothing more is launched from it, and all earlier launches are
            // complete.
            let result = unsafe { context.driver().module_unload(&context.call(operation).of_unused(), handle) };
            drop_error::report(result.during(operation, || context.place()));
            let Some(closures) = closures else { return };
            // Each by itself: two that unwind when a vector drops them end the process.
            let stages = closures.functions().iter().flat_map(|function| function.stages()).cloned();
            let stages: Vec<_> = stages.collect();
            drop(closures);
            for stage in stages {
                drop_elsewhere(stage, |thrown| {
                    drop_error::report(Err(Error::driver("dropping a kernel", panic_failure(thrown))));
                });
            }
        });
    }
}

impl KernelCore {
    /// The context.
    #[inline(always)]
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.module.context
    }

    /// The module.
    #[inline(always)]
    pub fn module(&self) -> &Arc<ModuleCore> {
        &self.module
    }

    /// The driver's handle.
    #[inline(always)]
    pub fn handle(&self) -> FunctionHandle {
        self.handle
    }

    /// The driver's handle, for calls of the context's driver.
    #[inline(always)]
    pub(crate) fn live(&self) -> Live<'_, FunctionHandle> {
        // SAFETY: the kernel keeps its module loaded.
        unsafe { Live::new(self.handle) }
    }

    /// The name in the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number and the name that a user has given to it.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The declared parameters, or `None` if the driver does not report them.
    pub fn parameters(&self) -> Option<&[ParameterInfo]> {
        self.parameters.as_deref()
    }

    /// Registers, memory and limits.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn info(&self) -> Result<FunctionInfo> {
        self.module.ask("reading a kernel's attributes", |driver, call| driver.function_info(call, self.live()))
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the device does not support the value.
    pub fn set_attribute(&self, attribute: FunctionAttribute) -> Result<()> {
        let operation = "setting an attribute of a kernel";
        let context = self.context();
        context
            .driver()
            .function_set_attribute(&context.call(operation), self.live(), attribute)
            .during(operation, || format!("{} (`{}`)", context.place(), self.name))
    }

    /// The number of blocks of that size that fit on a multiprocessor at once.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the block has no threads.
    pub fn max_active_blocks(&self, threads_per_block: u32, dynamic_shared_bytes: usize) -> Result<u32> {
        self.module.ask("computing a kernel's occupancy", |driver, call| {
            driver.function_max_active_blocks(call, self.live(), threads_per_block, dynamic_shared_bytes)
        })
    }

    /// Refuses arguments whose number or sizes differ from what the kernel declares.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if they differ.
    #[inline(always)]
    pub fn check(&self, sizes: &[usize]) -> Result<()> {
        let Some(parameters) = &self.parameters else { return Ok(()) };
        let equal = parameters.len() == sizes.len()
            && parameters.iter().zip(sizes).all(|(parameter, size)| parameter.size == *size);
        if equal { Ok(()) } else { Err(self.refuse(parameters, sizes)) }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, parameters: &[ParameterInfo], sizes: &[usize]) -> Error {
        // A kernel may have thousands of parameters: the first few say enough.
        let few = |sizes: &mut dyn ExactSizeIterator<Item = usize>| {
            let count = sizes.len();
            let first: Vec<String> = sizes.take(16).map(|size| size.to_string()).collect();
            let more = if count > first.len() { format!(", and {} more", count - first.len()) } else { String::new() };
            format!("[{}{more}]", first.join(", "))
        };
        let declared = few(&mut parameters.iter().map(|parameter| parameter.size));
        let passed = few(&mut sizes.iter().copied());
        Error::argument(
            Status::INVALID_VALUE,
            "launching a kernel",
            format!(
                "`{}` declares parameters of {declared} bytes, and the arguments have {passed}; pass one argument for \
                 each parameter, of its size",
                self.name
            ),
        )
    }
}

/// The size of an image that consists of bytes.
#[cfg(feature = "tracing")]
fn image_bytes(image: &ModuleImage<'_>) -> usize {
    match image {
        ModuleImage::Ptx(text) => text.len(),
        ModuleImage::Binary(bytes) => bytes.len(),
        _ => 0,
    }
}
