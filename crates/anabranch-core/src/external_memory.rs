//! Memory that another API or another process has exported, and that is imported here.
//!
//! All of it is mapped once. It is unmapped and given up when nobody holds it any more and the context is idle.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::ResultExt;
use crate::idle_memory::attempt_when_idle;
use anabranch_hal::{DevicePointer, ExternalMemoryHandle};
use std::fmt;
use std::sync::Arc;

#[cfg(unix)]
const UNSUPPORTED: &str =
    "ask Device::capabilities for EXTERNAL_MEMORY before, and copy through the host where it is missing";
#[cfg(unix)]
const NO_MEMORY: &str = "pass a file descriptor of memory of this device that another API has exported as an opaque file \
     descriptor, with the size that was allocated; of the software device, one of a file that can be mapped and is at least \
     as long";

/// Memory that another API or another process has exported.
pub struct ExternalMemoryCore {
    context: Arc<ContextCore>,
    handle: ExternalMemoryHandle,
    /// Null until it is mapped.
    address: DevicePointer,
    bytes: usize,
}

#[cfg(unix)]
impl ExternalMemoryCore {
    /// Imports memory by a file descriptor, which the driver has then. If this fails, it is closed.
    ///
    /// # Safety
    /// If the descriptor is that of memory, there are so many bytes of it, as long as any of it is used here. It is memory for
    /// one resource if it is said to be dedicated, and otherwise it is not.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot import memory this way; `CUDA_ERROR_INVALID_VALUE (1)` for no
    /// bytes; another error if the descriptor is not that of memory of the context's device.
    pub unsafe fn import(
        context: &Arc<ContextCore>,
        descriptor: std::os::fd::OwnedFd,
        bytes: usize,
        dedicated: bool,
    ) -> crate::error::Result<Arc<Self>> {
        use crate::error::Error;
        use crate::external_descriptor::hand_over;
        use crate::host_work::refuse_inside;
        use anabranch_hal::{Live, Status};

        let operation = "importing external memory";
        refuse_inside(operation).map_err(|error| error.at(context.place()))?;
        if bytes == 0 {
            return Err(Error::argument(Status::INVALID_VALUE, operation, "the memory has no bytes")
                .with_hint("pass the size of the memory, as it was allocated by what has exported it")
                .at(context.place()));
        }
        let explain = |error: Error| match error.status() {
            Status::NOT_SUPPORTED => error.with_hint(UNSUPPORTED),
            Status::INVALID_VALUE
            | Status::INVALID_HANDLE
            | Status::INVALID_DEVICE
            | Status::OPERATING_SYSTEM
            | Status::UNKNOWN => error.with_hint(NO_MEMORY),
            _ => error.of_another_capture(),
        };
        let (driver, call) = (context.driver(), context.call(operation));
        // SAFETY: the file descriptor is open until the call returns, and the caller promises what is said of its memory.
        let import = |descriptor| unsafe { driver.external_memory_import(&call, descriptor, bytes, dedicated) };
        let handle = hand_over(descriptor, operation, context, import, explain)?;
        // If mapping fails, the memory is given up.
        let mut memory = Self { context: context.clone(), handle, address: DevicePointer::NULL, bytes };
        // SAFETY: the memory was imported just now, and is given up when it is dropped.
        let live = unsafe { Live::new(handle) };
        let mapped = driver.external_memory_map(&call, live, 0, bytes);
        memory.address = mapped.during(operation, || context.place()).map_err(explain)?;
        Ok(Arc::new(memory))
    }
}

impl ExternalMemoryCore {
    /// The context that it was imported in.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The first address.
    pub fn address(&self) -> DevicePointer {
        self.address
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ExternalMemoryCore {
    fn drop(&mut self) {
        let (context, handle, address) = (self.context.clone(), self.handle, self.address);
        attempt_when_idle(&self.context, move || {
            let operation = "giving external memory up";
            let call = context.call(operation).of_unused();
            if !address.is_null() {
                // SAFETY: the context is idle, and whoever used the memory has dropped it.
                let unmapped = unsafe { context.driver().external_memory_unmap(&call, address) };
                drop_error::report(unmapped.during(operation, || context.place()));
            }
            // SAFETY: none of it has an address any more, and this was the last owner.
            let destroyed = unsafe { context.driver().external_memory_destroy(&call, handle) };
            drop_error::report(destroyed.during(operation, || context.place()));
        });
    }
}

impl fmt::Debug for ExternalMemoryCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes at {:?} of {}", self.bytes, self.address, self.context.place())
    }
}
