//! Modules: code loaded into a context.

use crate::compiler::{Compiled, CompiledImage};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{BufferSlice, PlainCopy};
use crate::stream::Stream;
use anabranch_core::context::other_context;
use anabranch_core::module::ModuleCore;
use anabranch_hal::{Capabilities, DevicePointer, HostModule, ModuleHandle, ModuleImage, Status};
use bytemuck::Pod;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Code loaded into a context: kernels and global variables. Cheap to clone. It is unloaded when the last clone and the
/// last kernel of it are dropped, and all its launches are complete.
///
/// Follows the Driver API's group *Module Management*.
#[derive(Clone)]
pub struct Module {
    core: Arc<ModuleCore>,
}

/// One program for both kinds of devices: PTX for both, or PTX or a binary for GPUs and Rust closures for the host device, with
/// the same kernel names and parameters. Closures run faster there, and are checked by the compiler.
///
/// ```
/// use anabranch::{DualModule, HostFunction, LaunchConfig};
///
/// const PTX: &str = include_str!("../tests/data/twice.ptx");
/// let program = DualModule::new().ptx(PTX).host_function(HostFunction::new("twice", &[8, 4], |block, arguments| {
///     let (data, n) = (arguments.slice::<f32>(0), arguments.scalar::<u32>(1) as usize);
///     block.phase(|thread, _shared| {
///         let i = thread.global_x();
///         if i < n {
///             data.set(i, 2.0 * data.get(i));
///         }
///     });
/// }));
///
/// let stream = anabranch::Instance::new()?.default_device()?.context()?.create_stream()?;
/// let kernel = program.load(&stream.context())?.kernel("twice")?;
/// let mut data = stream.upload(&[1.0f32, 2.0, 3.0])?;
/// // SAFETY: `twice` takes a pointer to `n` numbers and `n`, and uses no other memory.
/// unsafe { stream.launch(&kernel, &LaunchConfig::for_elements(3), (&mut data, 3u32))? };
/// assert_eq!(stream.download(&data)?, [2.0, 4.0, 6.0]);
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct DualModule {
    device: Option<DeviceCode>,
    host: HostModule,
    prefers_ptx: bool,
}

#[derive(Clone, Debug)]
enum DeviceCode {
    Ptx(String),
    Binary(Vec<u8>),
}

impl DualModule {
    /// An empty module.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the code for GPUs, as PTX text. The host device runs it, too, where there are no closures.
    pub fn ptx(mut self, ptx: impl Into<String>) -> Self {
        self.device = Some(DeviceCode::Ptx(ptx.into()));
        self
    }

    /// Sets the code for GPUs, as a complete cubin or fatbin.
    ///
    /// # Safety
    /// Same as for [`Module::load_binary`].
    pub unsafe fn binary(mut self, image: impl Into<Vec<u8>>) -> Self {
        self.device = Some(DeviceCode::Binary(image.into()));
        self
    }

    /// Sets the code for GPUs to the output of the compiler.
    pub fn compiled(self, compiled: &Compiled) -> Self {
        match compiled.image() {
            CompiledImage::Ptx(ptx) => self.ptx(ptx.as_str()),
            // SAFETY: a compiler made the image, as `hal::Compiler` promises, and nobody can change it.
            CompiledImage::Binary(image) => unsafe { self.binary(image.as_slice()) },
        }
    }

    /// Adds a kernel for the host device.
    pub fn host_function(mut self, function: anabranch_hal::HostFunction) -> Self {
        self.host = self.host.with_function(function);
        self
    }

    /// Adds a global variable of `bytes` bytes for the host device, under the name that it has on GPUs.
    pub fn host_global(mut self, name: impl Into<String>, bytes: usize) -> Self {
        self.host = self.host.with_global(name, bytes);
        self
    }

    /// Lets the host device run the PTX also where there are closures. It runs PTX in any case where there are none.
    pub fn prefer_ptx(mut self) -> Self {
        self.prefers_ptx = true;
        self
    }

    /// Loads the code for the context's device. Waits until the context is idle, so that nothing may hold up its work that
    /// the thread does only afterwards.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NO_BINARY_FOR_GPU (209)`](crate::Status::NO_BINARY_FOR_GPU) if there is no code for this kind of
    /// device; otherwise the same as [`Module::load_ptx`] and [`Module::load_binary`].
    pub fn load(&self, context: &Context) -> Result<Module> {
        let missing = |what: &str| {
            Error::argument(
                Status::NO_BINARY_FOR_GPU,
                "loading a module",
                format!("the module has no {what} for {}; add it to the DualModule", context.device()),
            )
        };
        if context.device().capabilities().contains(Capabilities::HOST_FUNCTIONS) {
            return match (&self.device, self.host.functions()) {
                (Some(DeviceCode::Ptx(ptx)), functions) if functions.is_empty() || self.prefers_ptx => {
                    Module::load_ptx(context, ptx)
                }
                (_, []) => Err(missing("host functions and no PTX")),
                _ => Module::load_host(context, &self.host),
            };
        }
        match &self.device {
            Some(DeviceCode::Ptx(ptx)) => Module::load_ptx(context, ptx),
            // SAFETY: the caller that added the image promised that it is complete and well-formed.
            Some(DeviceCode::Binary(image)) => unsafe { Module::load_binary(context, image) },
            None => Err(missing("PTX or binary")),
        }
    }
}

impl Module {
    /// # Safety
    /// A binary image is complete and well-formed.
    #[track_caller]
    unsafe fn load(context: &Context, image: ModuleImage<'_>) -> Result<Self> {
        // SAFETY: the caller promises that a binary image is complete and well-formed.
        Ok(Self { core: unsafe { ModuleCore::load(context.core(), image) }? })
    }

    pub(crate) fn from_core(core: Arc<ModuleCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<ModuleCore> {
        &self.core
    }

    /// Loads PTX text, which the driver assembles for the device, and the host device interprets. Loading may block until the device is idle, so
    /// that nothing may hold up its work that the thread does only afterwards. Text that declares `cudaGraphSetConditional` as
    /// external is linked with the CUDA device runtime, `libcudadevrt.a`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_PTX (218)`](crate::Status::INVALID_PTX) if it cannot be assembled, with the assembler's log
    /// in [`Error::log`]; [`CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)`](crate::Status::UNSUPPORTED_PTX_VERSION) if it is
    /// newer than the driver; [`CUDA_ERROR_FILE_NOT_FOUND (301)`](crate::Status::FILE_NOT_FOUND) if it needs the device runtime,
    /// and that is not found. The host device runs PTX by an interpreter; a kernel with an instruction that it does not
    /// have is refused when it is launched, by name and line.
    #[track_caller]
    pub fn load_ptx(context: &Context, ptx: &str) -> Result<Self> {
        // SAFETY: it is no binary image; drivers check text.
        unsafe { Self::load(context, ModuleImage::Ptx(ptx)) }
    }

    /// Loads a cubin or fatbin. The library checks that the image has the size that its headers state. Drivers trust
    /// the rest.
    ///
    /// # Safety
    /// NVIDIA's tools made the image, and it was not changed. Drivers do not check its contents.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_IMAGE (200)`](crate::Status::INVALID_IMAGE) if it is neither, or is truncated;
    /// [`CUDA_ERROR_NO_BINARY_FOR_GPU (209)`](crate::Status::NO_BINARY_FOR_GPU) if it contains no code for the device;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) on the host device, which runs PTX.
    #[track_caller]
    pub unsafe fn load_binary(context: &Context, image: &[u8]) -> Result<Self> {
        // SAFETY: the caller promises that NVIDIA's tools made the image, and that it was not changed.
        unsafe { Self::load(context, ModuleImage::Binary(image)) }
    }

    /// Loads PTX (`.ptx`) or a binary (any other extension) from a file.
    ///
    /// # Safety
    /// Same as for [`load_binary`](Self::load_binary), unless the file is PTX.
    ///
    /// # Errors
    /// [`CUDA_ERROR_FILE_NOT_FOUND (301)`](crate::Status::FILE_NOT_FOUND) if the file cannot be read; otherwise the
    /// same as [`load_ptx`](Self::load_ptx) and [`load_binary`](Self::load_binary).
    #[track_caller]
    pub unsafe fn load_file(context: &Context, path: impl AsRef<Path>) -> Result<Self> {
        let (operation, path) = ("reading a module", path.as_ref());
        let bytes = std::fs::read(path).map_err(|error| Error::io(operation, path, &error))?;
        if path.extension().is_none_or(|extension| extension != "ptx") {
            // SAFETY: the caller promises that NVIDIA's tools made the file, unless it is PTX.
            return unsafe { Self::load_binary(context, &bytes) };
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            Error::argument(Status::INVALID_PTX, operation, format!("{} is not text: {error}", path.display()))
        })?;
        Self::load_ptx(context, &text)
    }

    /// Loads the output of the compiler.
    ///
    /// # Errors
    /// Same as [`load_ptx`](Self::load_ptx) and [`load_binary`](Self::load_binary).
    #[track_caller]
    pub fn load_compiled(context: &Context, compiled: &Compiled) -> Result<Self> {
        match compiled.image() {
            CompiledImage::Ptx(ptx) => Self::load_ptx(context, ptx),
            // SAFETY: a compiler made the image, as `hal::Compiler` promises, and nobody can change it.
            CompiledImage::Binary(image) => unsafe { Self::load_binary(context, image) },
        }
    }

    /// Loads Rust closures. Waits until the context is idle, as loading does on GPUs, so that nothing may hold up its work
    /// that the thread does only afterwards.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) on a GPU.
    #[track_caller]
    pub fn load_host(context: &Context, module: &HostModule) -> Result<Self> {
        // SAFETY: it is no binary image.
        unsafe { Self::load(context, ModuleImage::Host(module)) }
    }

    /// The names of the module's kernels.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver does not report it.
    pub fn kernel_names(&self) -> Result<Vec<String>> {
        self.core.kernel_names()
    }

    /// The address and size in bytes of a global variable, including constant memory. If you pass the address to the
    /// driver yourself, you must order that use yourself.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_FOUND (500)`](crate::Status::NOT_FOUND) if there is no variable with that name.
    pub fn global(&self, name: &str) -> Result<(DevicePointer, usize)> {
        self.core.global(name)
    }

    /// Sets a global variable, including constant memory, to `values` in the order of `stream`, and returns when that
    /// is complete. Later launches in this stream read the new values. Launches in other streams must be ordered after
    /// it by the caller, with an event. [`copy_to_global`](Self::copy_to_global) does not wait, and can be captured.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_FOUND (500)`](crate::Status::NOT_FOUND) if there is no variable with that name;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if its size differs;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the stream belongs to another context.
    pub fn set_global<T: Pod>(&self, stream: &Stream, name: &str, values: &[T]) -> Result<()> {
        let operation = "setting a global variable";
        let (address, bytes) = self.variable(name, size_of_val(values), operation)?;
        let core = stream.core();
        if !core.context().is_same(self.core.context()) {
            return Err(other_context(operation, "module", core.place()));
        }
        let source = values.as_ptr().expose_provenance() as u64;
        let plain = PlainCopy::row(None, operation, address.0, source, bytes);
        // SAFETY: the variable has that many bytes; the module and the values are borrowed until the scope has waited.
        stream.scope_of(operation, |scope| unsafe { scope.copy(&plain) })
    }

    /// Sets a global variable, including constant memory, to the elements of `source` in the order of `stream`, and
    /// returns at once. Each launch can so have constants of its own: copy, launch, copy, launch. In a capture, the copy
    /// becomes a node, and the graph retains the module and the source; with a [`PinnedBuffer`](crate::PinnedBuffer), which
    /// the program can write between launches, each launch of the graph has other constants. Launches in other streams
    /// must be ordered with the copy by the caller, with an event.
    ///
    /// ```
    /// use anabranch::{CaptureMode, DualModule, HostFunction, LaunchConfig};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let add = HostFunction::new("add", &[8], |block, arguments| {
    ///     let (sum, factor) = (arguments.slice::<u32>(0), arguments.global::<u32>("factor"));
    ///     block.phase(|_, _| sum.set(0, sum.get(0) + factor.get(0)));
    /// });
    /// let module = DualModule::new().host_function(add).host_global("factor", 4).load(&context)?;
    /// let (kernel, config) = (module.kernel("add")?, LaunchConfig::new(1, 1));
    /// let (mut factor, mut sum) = (context.allocate_pinned::<u32>(1)?, stream.allocate_zeroed::<u32>(1)?);
    ///
    /// let graph = stream.capture_executable(CaptureMode::Global, |scope| {
    ///     module.copy_to_global(scope, "factor", &factor)?;
    ///     // SAFETY: the kernel uses one number and the variable, which this stream alone uses.
    ///     unsafe { scope.launch(&kernel, &config, (&mut sum,)) }
    /// })?;
    /// for value in [1, 20, 300] {
    ///     factor.write(|factor| factor[0] = value)?; // after the launch before
    ///     graph.launch(&stream)?;
    /// }
    /// assert_eq!(stream.download(&sum)?, [321]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_FOUND (500)`](crate::Status::NOT_FOUND) if there is no variable with that name;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if its size differs;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the stream or the source belongs to
    /// another context.
    #[track_caller]
    pub fn copy_to_global<'b, T: Pod>(
        &self,
        stream: &Stream,
        name: &str,
        source: impl Into<BufferSlice<'b, T>>,
    ) -> Result<()> {
        let source = source.into();
        let (variable, bytes) = self.variable(name, source.byte_len(), "copying to a global variable")?;
        // SAFETY: the variable has as many bytes as the source.
        unsafe { stream.core().copy_to_global(&self.core, variable, source.end(), bytes) }
    }

    /// The address and size of a variable, which must be that of a value.
    fn variable(&self, name: &str, value: usize, operation: &'static str) -> Result<(DevicePointer, usize)> {
        let (address, bytes) = self.global(name)?;
        if bytes == value {
            return Ok((address, bytes));
        }
        let message = format!("`{name}` has {bytes} bytes and the values {value}; pass as many");
        Err(Error::argument(Status::INVALID_VALUE, operation, message))
    }

    /// The context that the module was loaded into.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// An id that is unique among all objects of this process and never reused.
    pub fn id(&self) -> u64 {
        self.core.label().id().get()
    }

    /// Names the module, for layers of the driver. Only the first name is kept. Returns whether this is the first.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core.label().set_name(self.core.context(), name)
    }

    /// The driver's handle, which is valid as long as this module.
    pub fn as_raw(&self) -> ModuleHandle {
        self.core.handle()
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Module({}, {:?})", self.core.context().place(), self.core.handle())
    }
}
