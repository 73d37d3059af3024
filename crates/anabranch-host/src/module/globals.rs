//! Global variables of a module.

use crate::engine::ContextCore;
use crate::memory::{Allocation, Block, HostMemory, MemoryKind, Origin};
use anabranch_hal::{DeclaredRange, DevicePointer, Failure, GlobalRange, HostGlobal, Result, Status, UsedRange};
use std::sync::Arc;

/// The memory of a module's global variables. It is freed with the module, or with the last of its kernels that runs.
#[derive(Debug)]
pub(crate) struct Globals {
    memory: Arc<HostMemory>,
    ranges: Vec<GlobalRange>,
}

impl Globals {
    pub(crate) fn allocate(core: &ContextCore, memory: &Arc<HostMemory>, globals: &[HostGlobal]) -> Result<Arc<Self>> {
        let account = &memory.device(core.device)?.account;
        let mut made = Self { memory: Arc::clone(memory), ranges: Vec::with_capacity(globals.len()) };
        for global in globals {
            if global.bytes == 0 {
                let message = format!("the global variable `{}` has no size", global.name);
                return Err(Failure::argument(Status::INVALID_IMAGE, message));
            }
            let block = Block::allocate(account, global.bytes)?;
            let (kind, device, bytes) = (MemoryKind::Global, core.device, global.bytes);
            memory.notify(|observer| observer.allocated(&block, Origin { kind, device, bytes, stream: None }));
            let allocation = Allocation { block, kind, device, owner: None, pool: None };
            let address = DevicePointer(memory.table.insert(allocation));
            made.ranges.push(GlobalRange { name: global.name.clone(), address, bytes: global.bytes });
        }
        Ok(Arc::new(made))
    }

    pub(crate) fn ranges(&self) -> &[GlobalRange] {
        &self.ranges
    }

    /// The memory that a launch uses, of known sizes.
    pub(crate) fn used<'a>(&'a self, declared: &'a [DeclaredRange]) -> impl Iterator<Item = UsedRange> + 'a {
        declared.iter().filter_map(|&range| {
            let bytes = match range.bytes {
                DeclaredRange::TO_THE_END => self.memory.table.bytes_from(range.address)?,
                bytes => bytes,
            };
            Some(UsedRange::from(DeclaredRange { bytes, ..range }))
        })
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        for range in &self.ranges {
            drop(self.memory.table.remove(range.address.0, |kind| kind == MemoryKind::Global));
        }
    }
}
