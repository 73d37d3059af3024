//! Memory of other APIs and processes: files that are mapped.

use super::{HostDriver, usable};
use crate::engine::ContextCore;
use crate::error::permitted;
use crate::handles::handle;
use crate::memory::{Allocation, Block, MemoryKind, Origin};
use crate::shared_file::SharedFile;
use anabranch_hal::{Call, DevicePointer, ExternalMemory, ExternalMemoryHandle, Failure, Live, Result, Status};
use std::sync::Arc;

/// Memory that was imported.
#[derive(Debug)]
pub(super) struct ExternalMemoryState {
    pub(super) core: Arc<ContextCore>,
    file: SharedFile,
}

handle!(ExternalMemoryState, ExternalMemoryHandle, INVALID_HANDLE);

impl ExternalMemory for HostDriver {
    unsafe fn external_memory_import(
        &self,
        call: &Call<'_>,
        descriptor: i32,
        bytes: usize,
        _dedicated: bool,
    ) -> Result<ExternalMemoryHandle> {
        let context = usable(call)?;
        if bytes == 0 {
            return Err(Failure::argument(Status::INVALID_VALUE, "the memory has no bytes"));
        }
        // SAFETY: the caller promises that the descriptor is open, and it is the driver's if this succeeds.
        let (file, _) = unsafe { SharedFile::take(descriptor, bytes) }?;
        let memory = Arc::new(ExternalMemoryState { core: Arc::clone(&context.core), file });
        Ok(ExternalMemoryHandle::from_raw(self.external_memory.insert(memory)))
    }

    fn external_memory_map(
        &self,
        call: &Call<'_>,
        memory: Live<'_, ExternalMemoryHandle>,
        offset: usize,
        bytes: usize,
    ) -> Result<DevicePointer> {
        let context = usable(call)?;
        let state = ExternalMemoryState::of(memory)?;
        if bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > state.file.bytes()) {
            return Err(Failure::argument(Status::INVALID_VALUE, "the bytes are not all of that memory"));
        }
        let memory = &self.shared.memory;
        let block = Block::of_file(&memory.pinned, state.file.map()?, offset, bytes);
        let (kind, device, owner) = (MemoryKind::External, context.core.device, Some(context.core.id));
        let address = memory.table.insert(Allocation { block, kind, device, owner, pool: None });
        memory.notify(|observer| observer.registered(address, Origin { kind, device, bytes, stream: None }));
        Ok(DevicePointer(address))
    }

    unsafe fn external_memory_unmap(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        let context = super::present(call)?;
        context.core.wait_to_give_back(call);
        let memory = &self.shared.memory;
        let removed = memory.table.remove(address.0, |kind| kind == MemoryKind::External);
        let removed = removed.ok_or(Failure::new(Status::INVALID_VALUE))?;
        memory.notify(|observer| observer.unregistered(address.0));
        drop(removed);
        // In a lost context it is unmapped all the same, and the call says that the context is lost.
        context.core.check()
    }

    unsafe fn external_memory_destroy(&self, _: &Call<'_>, memory: ExternalMemoryHandle) -> Result<()> {
        permitted()?;
        let removed = self.external_memory.remove(memory.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        let core = Arc::clone(&removed.core);
        drop(removed);
        core.check()
    }
}
