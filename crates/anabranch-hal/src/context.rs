//! Contexts (Driver API, groups CTX and PRIMARY_CTX).

use crate::{ContextHandle, DeviceOrdinal, Result};
use bitflags::bitflags;

bitflags! {
    /// How a context waits, and what it maps (`CUctx_flags`).
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

/// Contexts: made, shared, synchronised.
pub trait Contexts {
    /// Takes a share in the device's primary context, the one that other libraries in the process use.
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle>;

    /// Gives a share in the primary context back.
    ///
    /// # Safety
    /// The caller holds a share, and no longer uses what was made in it.
    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()>;

    /// Makes a context of the caller's own. It is not made current on the thread.
    fn context_create(&self, device: DeviceOrdinal, flags: ContextFlags) -> Result<ContextHandle>;

    /// Destroys a context made by [`context_create`](Self::context_create), with all that was made in it. Work still
    /// queued is completed first.
    ///
    /// # Safety
    /// The handle rule, and nothing made in the context is used again.
    unsafe fn context_destroy(&self, context: ContextHandle) -> Result<()>;

    /// Waits for all work of all streams of the context.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()>;

    /// Lets kernels and copies of `context` reach the memory of `peer`. 704 when enabled already, 217 when impossible.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn context_enable_peer_access(&self, context: ContextHandle, peer: ContextHandle) -> Result<()>;

    /// Undoes [`context_enable_peer_access`](Self::context_enable_peer_access). 705 when not enabled.
    ///
    /// # Safety
    /// The handle rule, and no queued work of `context` uses memory of `peer`.
    unsafe fn context_disable_peer_access(&self, context: ContextHandle, peer: ContextHandle) -> Result<()>;
}
