//! Semaphores of other APIs and processes (Driver API, group EXTRES_INTEROP).

use crate::{Call, ExternalSemaphoreHandle, Live, Result, StreamHandle};

/// The kind of a semaphore that is imported by a POSIX file descriptor (`CUexternalSemaphoreHandleType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExternalSemaphoreKind {
    /// A semaphore that is signalled or not. A wait takes the signal away again, so that there is one wait for each signal.
    Binary,
    /// A number that only grows. A wait is over when it is at least the value that is waited for.
    Timeline,
}

/// A signal of a semaphore, or a wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExternalSemaphoreOperation {
    /// The semaphore.
    pub semaphore: ExternalSemaphoreHandle,
    /// The value that a timeline semaphore gets, or that is waited for. Binary semaphores ignore it.
    pub value: u64,
}

/// Importing semaphores, and signalling them and waiting for them in stream order.
pub trait ExternalSemaphores {
    /// Imports a semaphore by an opaque POSIX file descriptor. On success the driver owns the descriptor; otherwise it
    /// has either closed it or left it open.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot import such a semaphore; another error if the descriptor is not
    /// that of a semaphore.
    ///
    /// # Safety
    ///
    /// The file descriptor is open. If it is that of a semaphore, it is one of that kind.
    unsafe fn external_semaphore_import(
        &self,
        call: &Call<'_>,
        descriptor: i32,
        kind: ExternalSemaphoreKind,
    ) -> Result<ExternalSemaphoreHandle>;

    /// Gives an imported semaphore up. What has exported it keeps it.
    ///
    /// # Safety
    ///
    /// The semaphore exists. All signals and waits are complete, and nobody uses the handle during the call or afterwards.
    unsafe fn external_semaphore_destroy(&self, call: &Call<'_>, semaphore: ExternalSemaphoreHandle) -> Result<()>;

    /// Signals semaphores after all work that is queued in the stream. In a capture, this becomes one node.
    ///
    /// # Safety
    ///
    /// The semaphores exist until they are signalled, at every launch of a node.
    unsafe fn stream_signal_external_semaphores(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ExternalSemaphoreOperation],
    ) -> Result<()>;

    /// Makes later work of the stream wait for semaphores. In a capture, this becomes one node.
    ///
    /// # Safety
    ///
    /// The semaphores exist until the wait is over, at every launch of a node.
    unsafe fn stream_wait_external_semaphores(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ExternalSemaphoreOperation],
    ) -> Result<()>;
}
