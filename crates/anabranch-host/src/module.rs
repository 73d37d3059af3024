//! Modules of host functions, and how kernels run.

mod attributes;
mod body;
mod function;
mod globals;
mod kernel;
mod launch;
mod ptx;
mod share;
mod spares;

pub(crate) use attributes::events_of;
pub(crate) use function::FunctionState;
pub(crate) use kernel::{KernelError, KernelWork, run_kernel};
pub(crate) use launch::check_cluster_extents;

use crate::engine::ContextCore;
use crate::handles::handle;
use crate::limits::{MAX_PARAMETER_BYTES, MAX_SHARED_BYTES};
use crate::memory::HostMemory;
use anabranch_hal::{Failure, HostFunction, HostModule, ModuleHandle, Result, Status};
use anabranch_ptx::{Program, Space, Variable};
use body::Body;
use globals::Globals;
use ptx::PtxKernel;
use std::sync::Arc;

/// A loaded module.
#[derive(Debug)]
pub(crate) struct ModuleState {
    pub(crate) core: Arc<ContextCore>,
    pub(crate) functions: Vec<Arc<FunctionState>>,
    pub(crate) globals: Arc<Globals>,
}

handle!(ModuleState, ModuleHandle, INVALID_HANDLE);

impl ModuleState {
    /// Loads a module into a context.
    pub(crate) fn load(core: &Arc<ContextCore>, memory: &Arc<HostMemory>, module: &HostModule) -> Result<Arc<Self>> {
        module.functions().iter().try_for_each(check)?;
        let mut globals = Globals::new(memory);
        module.globals().iter().try_for_each(|global| check_name("global variable", &global.name))?;
        module.globals().iter().try_for_each(|global| globals.add(core, &global.name, global.bytes, 1))?;
        let bodies = module.functions().iter().cloned().map(Body::Closures);
        Ok(Self::assemble(core, globals, bodies))
    }

    /// Loads PTX into a context. `device_runtime`: linked with the device runtime. `operation_limit`: how many operations a
    /// block of its kernels may perform.
    pub(crate) fn load_ptx(
        core: &Arc<ContextCore>,
        memory: &Arc<HostMemory>,
        text: &str,
        device_runtime: bool,
        operation_limit: Option<u64>,
    ) -> Result<Arc<Self>> {
        let module = ptx::parse(text, device_runtime)?;
        let mut globals = Globals::new(memory);
        let variables = || module.variables().iter().filter(|variable| is_global(variable));
        for variable in variables() {
            let bytes = usize::try_from(variable.bytes).unwrap_or(usize::MAX);
            // A variable of no size has an address, too.
            globals.add(core, &variable.name, bytes.max(1), variable.alignment as usize)?;
        }
        // Linking asks for them in the same order. Variables of several functions may have one name.
        let mut addresses = globals.ranges().iter().map(|range| range.address.0);
        let program = Arc::new(Program::link(Arc::clone(&module), |_| addresses.next().unwrap_or(0)));
        for (index, variable) in variables().enumerate() {
            globals.initialize(index, &program.initial(variable));
        }
        // Also where the module calls no `malloc`: its kernels use what those of others have allocated.
        let heap = memory.heap(core.id, core.device)?;
        let kernels = PtxKernel::all(&program, memory, &heap, operation_limit);
        Ok(Self::assemble(core, globals, kernels.into_iter().map(Body::Ptx)))
    }

    fn assemble(core: &Arc<ContextCore>, globals: Globals, bodies: impl Iterator<Item = Body>) -> Arc<Self> {
        let globals = Arc::new(globals);
        let functions = bodies.map(|body| FunctionState::new(core, body, &globals)).collect();
        Arc::new(Self { core: Arc::clone(core), functions, globals })
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Arc<FunctionState>> {
        self.functions.iter().find(|function| function.body.name() == name)
    }
}

/// Whether a variable has an address that is known before a launch.
fn is_global(variable: &Variable) -> bool {
    matches!(variable.space, Space::Global | Space::Constant)
}

/// Refuses a name that nobody could find, because drivers in C take texts that end with a zero, and none that are empty.
fn check_name(what: &str, name: &str) -> Result<()> {
    let wrong = match name {
        "" => "is empty",
        name if name.contains('\0') => "has a zero byte",
        _ => return Ok(()),
    };
    Err(Failure::argument(Status::INVALID_IMAGE, format!("the name {name:?} of a {what} {wrong}")))
}

/// Refuses a kernel that no device could have, as an assembler does.
fn check(function: &HostFunction) -> Result<()> {
    let refuse = |what: String| Err(Failure::argument(Status::INVALID_IMAGE, what));
    check_name("kernel", function.name())?;
    let (name, shared) = (function.name(), function.static_shared_bytes());
    if shared > MAX_SHARED_BYTES {
        return refuse(format!(
            "the kernel `{name}` declares {shared} bytes of static shared memory, and a block can have \
             {MAX_SHARED_BYTES}; use dynamic shared memory for more"
        ));
    }
    let bytes = function.parameter_sizes().iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
    if bytes.is_none_or(|bytes| bytes > MAX_PARAMETER_BYTES) {
        return refuse(format!(
            "the kernel `{name}` declares more than {MAX_PARAMETER_BYTES} bytes of parameters; pass a buffer instead"
        ));
    }
    Ok(())
}
