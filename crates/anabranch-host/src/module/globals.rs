//! Global variables of a module.

use crate::checker::Origin;
use crate::context::ContextCore;
use crate::memory::{Allocation, Block, MemoryKind};
use anabranch_hal::{DevicePointer, Failure, GlobalRange, HostGlobal, Result, Status};
use std::sync::Arc;

/// The memory of a module's global variables. It goes with the module, or with the last of its kernels that runs.
#[derive(Debug)]
pub(crate) struct Globals {
    core: Arc<ContextCore>,
    ranges: Vec<GlobalRange>,
}

impl Globals {
    pub(crate) fn allocate(core: &Arc<ContextCore>, globals: &[HostGlobal]) -> Result<Arc<Self>> {
        let account = &core.shared.device(core.device)?.account;
        let mut made = Self { core: Arc::clone(core), ranges: Vec::with_capacity(globals.len()) };
        for global in globals {
            if global.bytes == 0 {
                let message = format!("the global variable `{}` has no size", global.name);
                return Err(Failure::argument(Status::INVALID_IMAGE, message));
            }
            let block = Block::allocate(account, global.bytes)?;
            if let Some(checker) = &core.shared.engine.checker {
                let (kind, bytes) = (MemoryKind::Global, global.bytes);
                checker.allocated(&block, Origin { kind, device: core.device, bytes, stream: None });
            }
            let allocation = Allocation { block, kind: MemoryKind::Global, owner: None, pool: None };
            let address = DevicePointer(core.shared.table.insert(allocation));
            made.ranges.push(GlobalRange { name: global.name.clone(), address, bytes: global.bytes });
        }
        Ok(Arc::new(made))
    }

    pub(crate) fn ranges(&self) -> &[GlobalRange] {
        &self.ranges
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        for range in &self.ranges {
            drop(self.core.shared.table.remove(range.address.0, |kind| kind == MemoryKind::Global));
        }
    }
}
