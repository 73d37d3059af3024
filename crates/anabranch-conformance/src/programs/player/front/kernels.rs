//! Launches of kernels.

use super::memory::Memory;
use super::told::{plain, told};
use super::{Answer, Front};
use crate::kernels;
use crate::programs::call::{FrontKernel, FrontLaunch, PartSpec, WrongLaunch};
use crate::programs::slots::{ContextSlot, MemorySlot, StreamSlot};
use anabranch::{BufferSliceMut, Capabilities, Context, Kernel, KernelArguments, LaunchConfig, Module, Result, Stream};

/// The kernels of a context.
#[derive(Clone)]
pub(super) struct Kernels {
    pub(super) add: Kernel,
    count_up: Kernel,
    reverse: Kernel,
    indices: Kernel,
    /// `add` in a module whose kernels safe code can launch, which only closures are.
    checked: Option<Kernel>,
}

impl Kernels {
    /// Loads the kernels, and launches each once: the first launch may wait for all work, which signals may hold up later.
    pub(super) fn load(context: &Context, stream: &Stream) -> Result<Self> {
        let kernels = Self::find(context)?;
        let (mut buffer, slot) = (stream.allocate_zeroed(32)?, MemorySlot(0));
        let add = FrontKernel::Add { factor: 1, value: 0 };
        for kernel in [add, FrontKernel::CountUp, FrontKernel::Reverse, FrontKernel::Indices] {
            let part = PartSpec { memory: slot, start: 0, end: 32 };
            let spec = FrontLaunch { context: ContextSlot(0), kernel, part, grid: 1, block: 32, wrong: None };
            kernels.launch(&spec, (&mut buffer).into(), InStream(stream))?;
        }
        stream.synchronize()?;
        Ok(kernels)
    }

    fn find(context: &Context) -> Result<Self> {
        let module: Module = kernels::program().load(context)?;
        let checked = context.device().capabilities().contains(Capabilities::HOST_FUNCTIONS).then(|| {
            let module = kernels::checked_program().load(context)?;
            module.kernel("add")
        });
        Ok(Self {
            checked: checked.transpose()?,
            add: module.kernel("add")?,
            count_up: module.kernel("count_up")?,
            reverse: module.kernel("reverse")?,
            indices: module.kernel("indices")?,
        })
    }
}

/// What is done with a kernel, its configuration and its arguments: it is launched, or becomes a node.
pub(super) trait Launcher {
    type Output;

    /// # Safety
    /// The arguments are those of the kernel, which stays within its memory.
    unsafe fn launch(
        self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: impl KernelArguments,
    ) -> Result<Self::Output>;
}

/// Launches in a stream.
pub(super) struct InStream<'a>(pub(super) &'a Stream);

impl Launcher for InStream<'_> {
    type Output = ();

    unsafe fn launch(self, kernel: &Kernel, config: &LaunchConfig, arguments: impl KernelArguments) -> Result<()> {
        // SAFETY: the caller promises that the arguments are right.
        unsafe { self.0.launch(kernel, config, arguments) }
    }
}

/// Launches in a stream, with safe code where the device permits it.
struct Checked<'a>(&'a Stream, Option<Kernel>);

impl Launcher for Checked<'_> {
    type Output = ();

    unsafe fn launch(self, kernel: &Kernel, config: &LaunchConfig, arguments: impl KernelArguments) -> Result<()> {
        match self.1 {
            Some(checked) if kernel.name() == checked.name() => self.0.launch_checked(&checked, config, arguments),
            // SAFETY: the caller promises that the arguments are right.
            _ => unsafe { self.0.launch(kernel, config, arguments) },
        }
    }
}

impl Kernels {
    /// Makes a launch of a part of memory that is long enough for it.
    pub(super) fn launch<L: Launcher>(
        &self,
        spec: &FrontLaunch,
        mut part: BufferSliceMut<'_, u32>,
        launcher: L,
    ) -> Result<L::Output> {
        let mut config = LaunchConfig::new(spec.grid, spec.block);
        let kernel = match spec.kernel {
            FrontKernel::Add { .. } => &self.add,
            FrontKernel::CountUp => &self.count_up,
            FrontKernel::Reverse => {
                config = config.dynamic_shared_bytes(spec.block * 4);
                &self.reverse
            }
            FrontKernel::Indices => &self.indices,
        };
        config = match spec.wrong {
            Some(WrongLaunch::EmptyGrid) => LaunchConfig::new(0, spec.block),
            Some(WrongLaunch::LargeBlock) => LaunchConfig::new(spec.grid, 4096),
            Some(WrongLaunch::LargeShared) => config.dynamic_shared_bytes(1 << 30),
            _ => config,
        };
        // SAFETY: each kernel has these parameters, or the launch is refused. It uses as many elements as `elements` says at most,
        // of which the caller has seen that the part has them.
        unsafe {
            match (spec.wrong, spec.kernel) {
                (Some(WrongLaunch::FewArguments), _) => launcher.launch(kernel, &config, ()),
                (Some(WrongLaunch::WideArgument), _) => launcher.launch(kernel, &config, (part.reborrow(), 7u64, 7u64)),
                (_, FrontKernel::Add { factor, value }) => launcher.launch(kernel, &config, (part, factor, value)),
                _ => launcher.launch(kernel, &config, (part,)),
            }
        }
    }
}

impl Front {
    /// The kernel `add` of the context of a buffer.
    pub(super) fn add_kernel(&self, memory: &Memory) -> Kernel {
        self.contexts[usize::from(memory.context_id() != self.contexts[0].context.id())].kernels.add.clone()
    }

    /// Loads the kernels once more, and looks for one.
    pub(super) fn load_module(&self, context: ContextSlot, kernel: &str) -> Answer {
        let loaded = kernels::program().load(self.context(context)).and_then(|module| {
            let (names, found) = (module.kernel_names()?, module.kernel(kernel)?);
            Ok(format!("{} {} {}", names.len(), found.name(), found.parameters().map_or(0, <[_]>::len)))
        });
        told(loaded, |text| text)
    }

    pub(super) fn kernels(&self, context: ContextSlot) -> Kernels {
        self.of(context).kernels.clone()
    }

    /// Launches a kernel, unless the part is too short for it, which is not defined.
    pub(super) fn launch(&mut self, stream: StreamSlot, spec: &FrontLaunch, is_checked: bool) -> Option<Answer> {
        let (stream, kernels) = (self.stream(stream)?, self.kernels(spec.context));
        let launched = self.with_part(&spec.part, |_, part| {
            if part.len() < spec.elements() {
                return Ok(None);
            }
            match is_checked {
                true => kernels.launch(spec, part, Checked(&stream, kernels.checked.clone())).map(Some),
                false => kernels.launch(spec, part, InStream(&stream)).map(Some),
            }
        })?;
        match launched {
            Ok(None) => None,
            launched => Some(plain(launched.map(drop))),
        }
    }
}
