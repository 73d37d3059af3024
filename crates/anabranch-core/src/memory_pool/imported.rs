//! Memory pools of other processes.

use super::idle::IdlePools;
use crate::context::ContextCore;
use crate::reaper;
use anabranch_hal::{Live, MemoryPoolHandle};
use std::fmt;
use std::sync::Arc;

/// A memory pool of another process. Memory that was opened from it holds references to it.
pub struct ImportedPoolCore {
    context: Arc<ContextCore>,
    handle: MemoryPoolHandle,
}

impl ImportedPoolCore {
    /// Imports a pool that another process has exported.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver does not support it; `CUDA_ERROR_INVALID_VALUE (1)` if the descriptor is
    /// not that of a pool; `CUDA_ERROR_OPERATING_SYSTEM (304)` if there are too many descriptors.
    #[cfg(unix)]
    pub fn import(
        context: &Arc<ContextCore>,
        descriptor: std::os::fd::BorrowedFd<'_>,
    ) -> crate::error::Result<Arc<Self>> {
        use crate::external_descriptor::lend;
        use crate::host_work::refuse_inside;
        use anabranch_hal::Status;

        let operation = "importing a memory pool";
        refuse_inside(operation).map_err(|error| error.at(context.place()))?;
        // SAFETY: the file descriptor is open until the call returns.
        let import = |descriptor| unsafe { context.driver().memory_pool_import(descriptor) };
        let handle = lend(descriptor, operation, context, import).map_err(|error| match error.status() {
            Status::INVALID_VALUE | Status::INVALID_HANDLE | Status::OPERATING_SYSTEM | Status::UNKNOWN => error
                .with_hint("pass a file descriptor from MemoryPool::export, which the operating system has sent here"),
            _ => error.of_another_capture(),
        })?;
        Ok(Arc::new(Self { context: context.clone(), handle }))
    }

    /// The context that its memory is opened in.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The pool's handle.
    pub fn live(&self) -> Live<'_, MemoryPoolHandle> {
        // SAFETY: the pool is destroyed after this is dropped.
        unsafe { Live::new(self.handle) }
    }
}

impl Drop for ImportedPoolCore {
    fn drop(&mut self) {
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::now_or_later(move || {
            let device = context.device();
            device.extension::<IdlePools>().keep_imported(device, handle);
        });
    }
}

impl fmt::Debug for ImportedPoolCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ImportedMemoryPool({}, {:?})", self.context.place(), self.handle)
    }
}
