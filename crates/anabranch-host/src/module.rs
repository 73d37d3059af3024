//! Modules of host functions, and how kernels run.

mod attributes;
mod function;
mod globals;
mod kernel;
mod launch;
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
use globals::Globals;
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
        let globals = Globals::allocate(core, memory, module.globals())?;
        let functions =
            module.functions().iter().map(|function| FunctionState::new(core, function, &globals)).collect();
        Ok(Arc::new(Self { core: Arc::clone(core), functions, globals }))
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Arc<FunctionState>> {
        self.functions.iter().find(|function| function.function.name() == name)
    }
}

/// Refuses a kernel that no device could have, as an assembler does.
fn check(function: &HostFunction) -> Result<()> {
    let refuse = |what: String| Err(Failure::argument(Status::INVALID_IMAGE, what));
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
