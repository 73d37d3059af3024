//! Semaphores of other APIs and processes, in stream order.

use super::Stream;
#[cfg(unix)]
use crate::context::Context;
use crate::error::Result;
use anabranch_core::external_semaphore::ExternalSemaphoreCore;
use anabranch_hal::ExternalSemaphoreKind;
use std::fmt;
use std::sync::Arc;

/// A semaphore that another API, such as Vulkan, or another process has exported as a file descriptor. It orders the work of
/// streams and that of the other side.
///
/// It is given up when this is dropped, every graph whose nodes use it is gone, and the context is idle. What has exported it
/// keeps it. Follows the Driver API's group *External Resource Interoperability*.
///
/// On the software device, a timeline semaphore is a file of at least 8 bytes that can be mapped. They are a number in the byte
/// order of the machine, which both sides read and write in one piece. A signal sets it to its value unless it is greater
/// already. See [`ExternalMemory`](crate::ExternalMemory) for an example.
#[derive(Clone)]
pub struct ExternalSemaphore {
    core: Arc<ExternalSemaphoreCore>,
}

#[cfg(unix)]
impl Context {
    /// Imports a semaphore that another API or another process has exported as an opaque file descriptor. Follows
    /// `cuImportExternalSemaphore`.
    ///
    /// The file descriptor belongs to the driver then; if this fails, it is closed.
    ///
    /// # Safety
    /// If the file descriptor is that of a semaphore, it is one of that kind, which all sides use by the rules of the API that has
    /// exported it: a timeline semaphore gets greater values only, and there is one wait for each signal of a binary one. On the
    /// software device, the file is not made shorter.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver cannot import such a semaphore, as the
    /// software device a binary one; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE),
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE),
    /// [`CUDA_ERROR_OPERATING_SYSTEM (304)`](crate::Status::OPERATING_SYSTEM) or
    /// [`CUDA_ERROR_UNKNOWN (999)`](crate::Status::UNKNOWN) if the descriptor is not that of a semaphore;
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function.
    pub unsafe fn import_external_semaphore(
        &self,
        descriptor: std::os::fd::OwnedFd,
        kind: ExternalSemaphoreKind,
    ) -> Result<ExternalSemaphore> {
        // SAFETY: the caller promises what is said of the semaphore.
        Ok(ExternalSemaphore { core: unsafe { ExternalSemaphoreCore::import(self.core(), descriptor, kind) }? })
    }
}

impl ExternalSemaphore {
    /// The kind that it was imported as.
    pub fn kind(&self) -> ExternalSemaphoreKind {
        self.core.kind()
    }

    pub(crate) fn core(&self) -> &Arc<ExternalSemaphoreCore> {
        &self.core
    }
}

/// Signals and waits are safe: they use no memory that the program can reach, and who imports the semaphore promises that it is
/// used by its rules. A wait for what nobody signals delays the stream for ever.
impl Stream {
    /// Signals a semaphore after all work queued so far, with what that has written visible to the other side. `value` is what a
    /// timeline semaphore is set to; binary ones ignore it. In a capture, this becomes a node, which signals the same value
    /// at each launch. Follows `cuSignalExternalSemaphoresAsync`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for a semaphore of another context.
    #[track_caller]
    pub fn signal_external_semaphore(&self, semaphore: &ExternalSemaphore, value: u64) -> Result<()> {
        self.core().signal_external_semaphores(&[(&semaphore.core, value)])
    }

    /// Makes later work of this stream wait until a timeline semaphore has at least that value, or a binary one is signalled,
    /// for which `value` is ignored. Later work sees what the other side has written before. In a capture, this becomes a node.
    /// Follows `cuWaitExternalSemaphoresAsync`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for a semaphore of another context.
    #[track_caller]
    pub fn wait_external_semaphore(&self, semaphore: &ExternalSemaphore, value: u64) -> Result<()> {
        self.core().wait_external_semaphores(&[(&semaphore.core, value)])
    }

    /// [Signals](Self::signal_external_semaphore) several semaphores by one call, which in a capture is one node. An empty batch
    /// does nothing. If one of them is refused, none is signalled.
    ///
    /// # Errors
    /// Same as [`signal_external_semaphore`](Self::signal_external_semaphore).
    #[track_caller]
    pub fn batch_signal_external_semaphores(&self, signals: &[(&ExternalSemaphore, u64)]) -> Result<()> {
        self.core().signal_external_semaphores(&of_cores(signals))
    }

    /// [Waits](Self::wait_external_semaphore) for several semaphores by one call, which in a capture is one node. An empty batch
    /// does nothing. If one of them is refused, none is waited for.
    ///
    /// # Errors
    /// Same as [`wait_external_semaphore`](Self::wait_external_semaphore).
    #[track_caller]
    pub fn batch_wait_external_semaphores(&self, waits: &[(&ExternalSemaphore, u64)]) -> Result<()> {
        self.core().wait_external_semaphores(&of_cores(waits))
    }
}

fn of_cores<'a>(values: &[(&'a ExternalSemaphore, u64)]) -> Vec<(&'a Arc<ExternalSemaphoreCore>, u64)> {
    values.iter().map(|(semaphore, value)| (&semaphore.core, *value)).collect()
}

impl fmt::Debug for ExternalSemaphore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ExternalSemaphore({:?})", self.core)
    }
}
