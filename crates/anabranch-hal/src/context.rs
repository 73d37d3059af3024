//! Contexts (Driver API, groups CTX and PRIMARY_CTX).

use crate::{Call, ContextHandle, DeviceOrdinal, Live, Result};
use bitflags::bitflags;

bitflags! {
    /// How the host waits for work of a context (`CUctx_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ContextFlags: u32 {
        /// Spin while waiting.
        const SCHEDULE_SPIN = 0x01;
        /// Yield while waiting.
        const SCHEDULE_YIELD = 0x02;
        /// Sleep while waiting.
        const SCHEDULE_BLOCKING_SYNC = 0x04;
    }
}

/// Creating, retaining and synchronizing contexts.
pub trait Contexts {
    /// Retains the primary context of a device, which other libraries in the process use too
    /// (`cuDevicePrimaryCtxRetain`).
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle>;

    /// Releases one reference to the primary context (`cuDevicePrimaryCtxRelease`).
    ///
    /// # Safety
    ///
    /// The caller must hold a reference, and must no longer use anything that was created in the context.
    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()>;

    /// Returns whether anybody has retained the primary context of a device (`cuDevicePrimaryCtxGetState`).
    fn primary_context_is_active(&self, device: DeviceOrdinal) -> Result<bool>;

    /// Returns the context that is current on the calling thread, and its device (`cuCtxGetCurrent`, `cuCtxGetDevice`).
    /// `None` if no context is current, and always `None` from drivers that do not have current contexts.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_CONTEXT_IS_DESTROYED (709)` or `CUDA_ERROR_INVALID_CONTEXT (201)` if the context was destroyed.
    fn context_current(&self) -> Result<Option<(ContextHandle, DeviceOrdinal)>>;

    /// Returns the device of a context (`cuCtxGetDevice`).
    fn context_device(&self, context: Live<'_, ContextHandle>) -> Result<DeviceOrdinal>;

    /// Creates a context for the caller alone. The context is not made current on the thread.
    fn context_create(&self, device: DeviceOrdinal, flags: ContextFlags) -> Result<ContextHandle>;

    /// Destroys a context that [`context_create`](Self::context_create) created, and everything that was created in it.
    /// Waits for queued work to complete first.
    ///
    /// # Safety
    ///
    /// Neither the context nor anything that was created in it may be used afterwards, `call` included.
    unsafe fn context_destroy(&self, call: &Call<'_>) -> Result<()>;

    /// Waits until all work in all streams of the context is complete.
    fn context_synchronize(&self, call: &Call<'_>) -> Result<()>;

    /// Returns whether work of the context is still running although the context is lost. Hardware ends all work of a
    /// context that is lost, and by default this returns `false`. A driver that cannot end running work returns `true`
    /// until it is over. The library frees nothing that the work may use until then.
    fn lost_context_is_running(&self, call: &Call<'_>) -> bool {
        let _ = call;
        false
    }

    /// Lets kernels and copies of the call's context access the memory of `peer`.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED (704)` if access is already enabled.
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)` if access is not possible.
    fn context_enable_peer_access(&self, call: &Call<'_>, peer: Live<'_, ContextHandle>) -> Result<()>;

    /// Reverts [`context_enable_peer_access`](Self::context_enable_peer_access).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_PEER_ACCESS_NOT_ENABLED (705)` if access is not enabled.
    ///
    /// # Safety
    ///
    /// No queued work of the call's context may use memory of `peer`.
    unsafe fn context_disable_peer_access(&self, call: &Call<'_>, peer: Live<'_, ContextHandle>) -> Result<()>;
}
