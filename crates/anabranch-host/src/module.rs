//! Modules of host functions, and how kernels run.

mod function;
mod globals;
mod kernel;
mod launch;
mod share;
mod spares;

pub(crate) use function::FunctionState;
pub(crate) use kernel::{KernelError, KernelWork, run_kernel};

use crate::engine::ContextCore;
use crate::handles::handle;
use crate::memory::HostMemory;
use anabranch_hal::{HostModule, ModuleHandle, Result};
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
        let globals = Globals::allocate(core, memory, module.globals())?;
        let functions =
            module.functions().iter().map(|function| FunctionState::new(core, function, &globals)).collect();
        Ok(Arc::new(Self { core: Arc::clone(core), functions, globals }))
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Arc<FunctionState>> {
        self.functions.iter().find(|function| function.function.name() == name)
    }
}
