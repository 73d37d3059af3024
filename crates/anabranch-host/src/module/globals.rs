//! Global variables of a module.

use crate::engine::ContextCore;
use crate::memory::{Allocation, Block, HostMemory, MemoryKind, Origin, store_racing};
use anabranch_hal::{DeclaredRange, DevicePointer, Failure, GlobalRange, Result, Status, UsedRange};
use std::sync::Arc;

/// The memory of a module's global variables. It is freed with the module, or with the last of its kernels that runs.
#[derive(Debug)]
pub(crate) struct Globals {
    memory: Arc<HostMemory>,
    ranges: Vec<GlobalRange>,
}

impl Globals {
    /// No variables.
    pub(crate) fn new(memory: &Arc<HostMemory>) -> Self {
        Self { memory: Arc::clone(memory), ranges: Vec::new() }
    }

    /// Allocates a variable, which is zero.
    pub(crate) fn add(&mut self, core: &ContextCore, name: &str, bytes: usize, alignment: usize) -> Result<()> {
        if bytes == 0 {
            let message = format!("the global variable `{name}` has no size");
            return Err(Failure::argument(Status::INVALID_IMAGE, message));
        }
        let block = Block::allocate_aligned(&self.memory.device(core.device)?.account, bytes, alignment)?;
        let (kind, device) = (MemoryKind::Global, core.device);
        self.memory.notify(|observer| observer.allocated(&block, Origin { kind, device, bytes, stream: None }));
        let allocation = Allocation { block, kind, device, owner: None, pool: None };
        let address = DevicePointer(self.memory.table.insert(allocation));
        self.ranges.push(GlobalRange { name: name.to_owned(), address, bytes });
        Ok(())
    }

    /// Writes what the variable of that number contains at first. Nobody else has its address yet.
    pub(crate) fn initialize(&self, index: usize, contents: &[u8]) {
        if let Some(range) = self.ranges.get(index) {
            let contents = &contents[..contents.len().min(range.bytes)];
            // SAFETY: the variable has as many bytes, and nobody else uses them.
            unsafe { store_racing(range.address.0, contents) };
        }
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
