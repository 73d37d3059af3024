//! Modules: code loaded into a context.

use crate::compiler::{Compiled, CompiledImage};
use crate::context::{Context, ContextCore};
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::kernel::Kernel;
use crate::reaper;
use crate::stream::Stream;
use crate::trace;
use anabranch_hal::{BackendKind, CopyKind, DevicePointer, HostModule, ModuleHandle, ModuleImage, Status};
use bytemuck::Pod;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Code loaded into a context: kernels and global variables. Cheap to clone. It is unloaded when the last clone and the
/// last kernel of it are dropped, and no launch of it can still run.
///
/// Follows the Driver API's group *Module Management*.
#[derive(Clone)]
pub struct Module {
    core: Arc<ModuleCore>,
}

pub(crate) struct ModuleCore {
    context: Arc<ContextCore>,
    handle: ModuleHandle,
    /// Why launches of its kernels cannot be checked, if they cannot.
    unchecked: Option<&'static str>,
}

/// One program for either kind of device: PTX or a binary for GPUs, Rust closures for the host device, with the same
/// kernel names and parameters.
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
}

#[derive(Clone, Debug)]
enum DeviceCode {
    Ptx(String),
    Binary(Vec<u8>),
}

impl DualModule {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// The code for GPUs, as PTX text.
    pub fn ptx(mut self, ptx: impl Into<String>) -> Self {
        self.device = Some(DeviceCode::Ptx(ptx.into()));
        self
    }

    /// The code for GPUs, as a whole cubin or fatbin.
    pub fn binary(mut self, image: impl Into<Vec<u8>>) -> Self {
        self.device = Some(DeviceCode::Binary(image.into()));
        self
    }

    /// The code for GPUs, as it comes from the compiler.
    pub fn compiled(self, compiled: &Compiled) -> Self {
        match compiled.image() {
            CompiledImage::Ptx(ptx) => self.ptx(ptx.as_str()),
            CompiledImage::Binary(image) => self.binary(image.as_slice()),
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

    /// Loads what fits the context's device.
    ///
    /// # Errors
    /// 209 when there is no code for this kind of device; else as [`Module::load_ptx`] and [`Module::load_binary`].
    pub fn load(&self, context: &Context) -> Result<Module> {
        let missing = |what: &str| {
            Error::argument(
                Status::NO_BINARY_FOR_GPU,
                "loading a module",
                format!("the module has no {what} for {}; add it to the DualModule", context.device()),
            )
        };
        match (context.device().backend(), &self.device) {
            (BackendKind::Host, _) if self.host.functions().is_empty() => Err(missing("host functions")),
            (BackendKind::Host, _) => Module::load_host(context, &self.host),
            (_, Some(DeviceCode::Ptx(ptx))) => Module::load_ptx(context, ptx),
            (_, Some(DeviceCode::Binary(image))) => Module::load_binary(context, image),
            (_, None) => Err(missing("PTX or binary")),
        }
    }
}

impl Module {
    fn load(context: &Context, image: ModuleImage<'_>) -> Result<Self> {
        let core = context.core();
        trace::span!("loading a module", device = %core.device(), bytes = image_bytes(&image));
        // SAFETY: the context's handle is live as long as its core; back ends check that a binary image is whole.
        let loaded = unsafe { core.driver().module_load(core.handle(), image) };
        let handle = loaded.during("loading a module", || core.place())?;
        let unchecked = match image {
            ModuleImage::Host(module) if module.globals().is_empty() => None,
            ModuleImage::Host(_) => Some("its module has global variables, which no one puts in order between streams"),
            _ => Some("it is code for a GPU, and nothing looks at what that does"),
        };
        Ok(Self { core: Arc::new(ModuleCore { context: core.clone(), handle, unchecked }) })
    }

    pub(crate) fn from_core(core: Arc<ModuleCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<ModuleCore> {
        &self.core
    }

    /// Loads PTX text, which the driver assembles for the device. Loading may block until the device is idle.
    ///
    /// # Errors
    /// 218 when it does not assemble, with the assembler's log in [`Error::log`]; 222 when it is newer than the driver;
    /// 801 on the host device, which runs host functions (see [`DualModule`]).
    pub fn load_ptx(context: &Context, ptx: &str) -> Result<Self> {
        Self::load(context, ModuleImage::Ptx(ptx))
    }

    /// Loads a cubin or fatbin, whole. That it is whole is checked; what its code does is as trustworthy as whoever made
    /// it.
    ///
    /// # Errors
    /// 200 when it is neither or is cut short; 209 when it has no code for the device; 801 on the host device.
    pub fn load_binary(context: &Context, image: &[u8]) -> Result<Self> {
        Self::load(context, ModuleImage::Binary(image))
    }

    /// Loads PTX (`.ptx`) or a binary (any other extension) from a file.
    ///
    /// # Errors
    /// 301 when the file cannot be read; else as [`load_ptx`](Self::load_ptx) and [`load_binary`](Self::load_binary).
    pub fn load_file(context: &Context, path: impl AsRef<Path>) -> Result<Self> {
        let (operation, path) = ("reading a module", path.as_ref());
        let bytes = std::fs::read(path).map_err(|error| Error::io(operation, path, &error))?;
        if path.extension().is_none_or(|extension| extension != "ptx") {
            return Self::load_binary(context, &bytes);
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            Error::argument(Status::INVALID_PTX, operation, format!("{} is no text: {error}", path.display()))
        })?;
        Self::load_ptx(context, &text)
    }

    /// Loads what the compiler made.
    ///
    /// # Errors
    /// As [`load_ptx`](Self::load_ptx) and [`load_binary`](Self::load_binary).
    pub fn load_compiled(context: &Context, compiled: &Compiled) -> Result<Self> {
        match compiled.image() {
            CompiledImage::Ptx(ptx) => Self::load_ptx(context, ptx),
            CompiledImage::Binary(image) => Self::load_binary(context, image),
        }
    }

    /// Loads Rust closures.
    ///
    /// # Errors
    /// 801 on a GPU.
    pub fn load_host(context: &Context, module: &HostModule) -> Result<Self> {
        Self::load(context, ModuleImage::Host(module))
    }

    /// Finds a kernel by its name, the mangled one for C++ without `extern "C"`.
    ///
    /// # Errors
    /// 500 when there is none of that name; the message lists those there are, where the driver can say.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        Kernel::find(&self.core, name)
    }

    /// The names of the module's kernels.
    ///
    /// # Errors
    /// 801 where the driver cannot say.
    pub fn kernel_names(&self) -> Result<Vec<String>> {
        self.core.kernel_names()
    }

    /// Address and size in bytes of a global variable, constant memory included. Using the address in a driver's call of
    /// one's own is ordered by the caller.
    ///
    /// # Errors
    /// 500 when there is none of that name.
    pub fn global(&self, name: &str) -> Result<(DevicePointer, usize)> {
        let context = &self.core.context;
        // SAFETY: the module is live while it is borrowed.
        unsafe { context.driver().module_global(context.handle(), self.core.handle, name) }
            .during("looking for a global variable", || format!("{} (`{name}`)", context.place()))
    }

    /// Sets a global variable, constant memory included, to `values` in the order of `stream`, and returns when that is
    /// done. Launches on this stream see it; others are ordered behind it by the caller, with an event.
    ///
    /// # Errors
    /// 500 when there is none of that name; 1 when its size is another; 400 when the stream is of another context.
    pub fn set_global<T: Pod>(&self, stream: &Stream, name: &str, values: &[T]) -> Result<()> {
        let operation = "setting a global variable";
        let (address, bytes) = self.global(name)?;
        if bytes != size_of_val(values) {
            return Err(Error::argument(
                Status::INVALID_VALUE,
                operation,
                format!("`{name}` has {bytes} bytes and the values {}; pass as many", size_of_val(values)),
            ));
        }
        let core = stream.core();
        if core.context().handle() != self.core.context.handle() {
            return Err(crate::context::other_context(operation, "module", core.place()));
        }
        let handle = core.handle(operation)?;
        stream.sync_scope(|_| {
            let (driver, context) = (core.context().driver(), core.context().handle());
            let source = values.as_ptr() as usize as u64;
            // SAFETY: the variable has that many bytes and lives as long as its module; the values are borrowed until
            // the scope has waited.
            unsafe { driver.copy_async(context, CopyKind::HostToDevice, address.0, source, bytes, handle) }
                .during(operation, || core.place())
        })
    }

    /// The context that it is loaded into.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context.clone())
    }

    /// The driver's handle. It is valid as long as this module.
    pub fn as_raw(&self) -> ModuleHandle {
        self.core.handle
    }
}

/// How large an image is that comes as bytes.
#[cfg(feature = "tracing")]
fn image_bytes(image: &ModuleImage<'_>) -> usize {
    match image {
        ModuleImage::Ptx(text) => text.len(),
        ModuleImage::Binary(bytes) => bytes.len(),
        _ => 0,
    }
}

impl ModuleCore {
    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    pub(crate) fn handle(&self) -> ModuleHandle {
        self.handle
    }

    /// Why launches of its kernels cannot be checked, if they cannot.
    pub(crate) fn unchecked(&self) -> Option<&'static str> {
        self.unchecked
    }

    pub(crate) fn kernel_names(&self) -> Result<Vec<String>> {
        // SAFETY: the module is live while it is borrowed.
        unsafe { self.context.driver().module_function_names(self.context.handle(), self.handle) }
            .during("listing kernels", || self.context.place())
    }
}

impl Drop for ModuleCore {
    fn drop(&mut self) {
        // Launches keep no account of the module, so that they cost nothing more. Unloading waits for them; that it has
        // little to wait for is a courtesy to others.
        let events = self.context.streams().into_iter().filter_map(|stream| stream.checkpoint().ok().flatten());
        let events = events.map(|checkpoint| checkpoint.event).collect();
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::blocking_after(events, &self.context, move || {
            trace::span!("unloading a module", device = %context.device());
            // SAFETY: its owners are gone, so nothing more is launched from it; unloading waits for what was.
            let result = unsafe { context.driver().module_unload(context.handle(), handle) };
            drop_error::report(result.during("unloading a module", || context.place()));
        });
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Module({}, {:?})", self.core.context.place(), self.core.handle)
    }
}
