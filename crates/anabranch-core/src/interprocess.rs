//! Memory of other processes: exported to them, and opened from them.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::host_work::refuse_inside;
use crate::idle_memory::attempt_when_idle;
use crate::memory::{Allocation, Origin};
use crate::memory_pool::ImportedPoolCore;
use crate::ranks;
use anabranch_hal::{
    ContextHandle, DevicePointer, InterprocessMemoryHandle, InterprocessPoolMemoryHandle, Result as DriverResult,
    Status,
};
use anabranch_sync::Mutex;
use std::sync::Arc;

/// The memory of other processes that is open in this one. It is locked while the driver opens and closes some, because
/// the driver gives the same address to whoever opens the same memory again.
static OPENED: Mutex<Vec<(ContextHandle, DevicePointer)>> = Mutex::new(ranks::OPENED_MEMORY, Vec::new());

impl Allocation {
    /// Exports plain device memory to other processes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for memory that was allocated in another way, or has no bytes;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support it.
    #[track_caller]
    pub fn export(&self) -> Result<InterprocessMemoryHandle> {
        let (operation, context) = ("exporting memory", self.context());
        if self.address().is_null() {
            return Err(refuse_empty(operation, context));
        }
        if !matches!(self.origin(), Origin::Plain) {
            let message = "only memory that was allocated outside stream order can be exported by a handle of its own";
            let hint = "allocate it with Context::allocate_zeroed, or from an interprocess pool, and then use \
                        Buffer::export_from_pool";
            return Err(Error::argument(Status::INVALID_VALUE, operation, message).with_hint(hint).at(context.place()));
        }
        let exported = context.driver().memory_export(&context.call(operation), self.address());
        exported.during(operation, || context.place()).map_err(Error::of_another_capture)
    }

    /// Exports memory of an interprocess pool to other processes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for memory that is of no such pool, or has no bytes.
    #[track_caller]
    pub fn export_from_pool(&self) -> Result<InterprocessPoolMemoryHandle> {
        let (operation, context) = ("exporting memory of a pool", self.context());
        if self.address().is_null() {
            return Err(refuse_empty(operation, context));
        }
        let pool = match self.origin() {
            Origin::StreamOrdered { pool: Some(pool), .. } if pool.is_interprocess() => pool,
            _ => {
                let message = "the memory was not allocated from an interprocess pool";
                let hint = "allocate it from a pool that was created with MemoryPoolOptions::interprocess";
                return Err(Error::argument(Status::INVALID_VALUE, operation, message)
                    .with_hint(hint)
                    .at(context.place()));
            }
        };
        pool.export_once()?;
        let exported = context.driver().pool_memory_export(&context.call(operation), self.address());
        exported.during(operation, || context.place()).map_err(Error::of_another_capture)
    }
}

fn refuse_empty(operation: &'static str, context: &ContextCore) -> Error {
    Error::argument(Status::INVALID_VALUE, operation, "the memory has no bytes")
        .with_hint("export memory of at least one element")
        .at(context.place())
}

/// Memory of another process, which is open until this is dropped.
pub struct OpenedMemory {
    context: Arc<ContextCore>,
    address: DevicePointer,
    /// The pool that it is of, if it is of one.
    pool: Option<Arc<ImportedPoolCore>>,
}

impl OpenedMemory {
    /// Opens plain memory that another process has exported.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support it; `CUDA_ERROR_ALREADY_MAPPED (208)` if it is open
    /// in this context already; `CUDA_ERROR_INVALID_CONTEXT (201)` if this process has exported it; another error if it does
    /// not exist any more.
    #[track_caller]
    pub fn open(context: &Arc<ContextCore>, exported: &InterprocessMemoryHandle) -> Result<Self> {
        let operation = "opening memory of another process";
        let open = || context.driver().memory_open(&context.call(operation), exported);
        // Drivers count how often it was opened, and closing it waits for the device, whose work may wait for this thread.
        let address = open_once(context, operation, open, |address| close_when_idle(context, address, None, false))?;
        Ok(Self { context: context.clone(), address, pool: None })
    }

    /// Opens memory of a pool that another process has exported.
    ///
    /// # Errors
    /// `CUDA_ERROR_ALREADY_MAPPED (208)` if it is open in this context already; `CUDA_ERROR_INVALID_VALUE (1)` if it is not
    /// of this pool, or does not exist any more.
    #[track_caller]
    pub fn open_of_pool(pool: &Arc<ImportedPoolCore>, exported: &InterprocessPoolMemoryHandle) -> Result<Self> {
        let (operation, context) = ("opening memory of an imported pool", pool.context());
        let open = || context.driver().pool_memory_open(&context.call(operation), pool.live(), exported);
        // Drivers do not count how often it was opened: freeing it would take it from its first user.
        let address = open_once(context, operation, open, |_| ())?;
        Ok(Self { context: context.clone(), address, pool: Some(pool.clone()) })
    }

    /// The first address.
    pub fn address(&self) -> DevicePointer {
        self.address
    }
}

fn open_once(
    context: &ContextCore,
    operation: &'static str,
    open: impl FnOnce() -> DriverResult<DevicePointer>,
    undo: impl FnOnce(DevicePointer),
) -> Result<DevicePointer> {
    // Before the lock: the thread that holds it may wait for the host function.
    refuse_inside(operation).map_err(|error| error.at(context.place()))?;
    let mut opened = OPENED.lock();
    let address = open().during(operation, || context.place()).map_err(explain)?;
    let key = (context.live().handle(), address);
    if opened.contains(&key) {
        drop(opened);
        undo(address);
        let message = "the memory is open in this process already, where several buffers would not know of each other";
        return Err(Error::argument(Status::ALREADY_MAPPED, operation, message)
            .with_hint("use the buffer that has it, or drop that buffer and call flush_deferred_drops first")
            .at(context.place()));
    }
    opened.push(key);
    Ok(address)
}

/// Says what the driver's answer means here.
#[cold]
fn explain(error: Error) -> Error {
    let hint = match error.status() {
        Status::INVALID_CONTEXT => "use the buffer itself in the process that has exported it",
        Status::PEER_ACCESS_UNSUPPORTED | Status::INVALID_DEVICE | Status::TOO_MANY_PEERS => {
            "open it in a context of the device that the memory belongs to"
        }
        Status::MAP_FAILED | Status::INVALID_HANDLE | Status::INVALID_VALUE | Status::OPERATING_SYSTEM => {
            "pass what a process on this machine has exported that still runs and still has the memory, and open what it \
             exports in one context for each device only"
        }
        _ => return error.of_another_capture(),
    };
    error.with_hint(hint)
}

/// Closes memory that nobody uses any more, and notes that unless it was opened more than once.
fn close_when_idle(
    context: &Arc<ContextCore>,
    address: DevicePointer,
    pool: Option<Arc<ImportedPoolCore>>,
    is_last: bool,
) {
    let kept = context.clone();
    attempt_when_idle(context, move || {
        let (operation, context) = ("closing memory of another process", &kept);
        let call = context.call(operation).of_unused();
        let mut opened = OPENED.lock();
        // SAFETY: the context is idle, and whoever used the memory has dropped it, or it is open once more.
        let closed = unsafe {
            match &pool {
                None => context.driver().memory_close(&call, address),
                Some(_) => context.driver().free(&call, address),
            }
        };
        if is_last {
            opened.retain(|known| *known != (context.live().handle(), address));
        }
        drop(opened);
        drop_error::report(closed.during(operation, || context.place()));
    });
}

impl Drop for OpenedMemory {
    fn drop(&mut self) {
        close_when_idle(&self.context, self.address, self.pool.take(), true);
    }
}
