//! Contexts (Driver API, groups CTX and PRIMARY_CTX).

use crate::driver::CudaDriver;
use crate::dropping::DROPS;
use crate::error::check;
use crate::handles::{context_handle, raw_context};
use crate::host_work::QUEUED;
use crate::panics::PANICS;
use anabranch_hal::{ContextFlags, ContextHandle, Contexts, DeviceOrdinal, Result};
use std::ptr;

impl CudaDriver {
    /// Passes a result of a call that waits or asks for work. One that says that the context is lost also says that its
    /// host functions will not be run.
    #[inline]
    pub(crate) fn observe(&self, context: ContextHandle, result: Result<()>) -> Result<()> {
        if let Err(failure) = &result
            && failure.status.is_sticky()
        {
            QUEUED.context_in_error(context);
        }
        result
    }

    /// Whether the device's primary context exists at the moment.
    pub(crate) fn primary_context_is_active(&self, device: DeviceOrdinal) -> Result<bool> {
        let raw = self.raw_device(device)?;
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the device is one of this driver; the results are written to variables that outlive the call.
        check(unsafe { self.functions.cuDevicePrimaryCtxGetState(raw, &mut flags, &mut active) })?;
        Ok(active != 0)
    }
}

impl Contexts for CudaDriver {
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        let device = self.raw_device(device)?;
        let mut context = ptr::null_mut();
        // SAFETY: the device is one of this driver; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuDevicePrimaryCtxRetain(&mut context, device) })?;
        Ok(context_handle(context))
    }

    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()> {
        let raw = self.raw_device(device)?;
        // Taking another share for a moment tells which context this is.
        let context = self.primary_context_retain(device)?;
        let end = QUEUED.next_key();
        // SAFETY: this share was taken just now.
        check(unsafe { self.functions.cuDevicePrimaryCtxRelease(raw) })?;
        // SAFETY: the caller holds a share, and no longer uses what was made in the context.
        check(unsafe { self.functions.cuDevicePrimaryCtxRelease(raw) })?;
        // Others may hold shares, and then what is queued still runs.
        if !self.primary_context_is_active(device)? {
            QUEUED.context_is_gone(context, end);
        }
        Ok(())
    }

    fn context_create(&self, device: DeviceOrdinal, flags: ContextFlags) -> Result<ContextHandle> {
        let device = self.raw_device(device)?;
        let (mut context, mut popped) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the device is one of this driver; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuCtxCreate(&mut context, flags.bits(), device) })?;
        // The driver has made it current, and the thread is to keep what it had.
        // SAFETY: the result is written to a variable that outlives the call; what is popped is the new context.
        let restored = check(unsafe { self.functions.cuCtxPopCurrent(&mut popped) });
        if let Err(failure) = restored {
            // SAFETY: the context was made just now, and nobody else knows it.
            let _ = unsafe { self.functions.cuCtxDestroy(context) };
            return Err(failure);
        }
        Ok(context_handle(context))
    }

    unsafe fn context_destroy(&self, context: ContextHandle) -> Result<()> {
        let end = QUEUED.next_key();
        // The driver completes what is queued before it destroys a context, but does not document it. What this answers is of
        // no interest: a context that is lost is destroyed too.
        // SAFETY: the caller keeps the handle rule.
        let _ = unsafe { self.context_synchronize(context) };
        // SAFETY: the caller keeps the handle rule, and uses nothing made in the context again.
        check(unsafe { self.functions.cuCtxDestroy(raw_context(context)) })?;
        QUEUED.context_is_gone(context, end);
        Ok(())
    }

    unsafe fn context_synchronize(&self, context: ContextHandle) -> Result<()> {
        let _bound = self.bind(context)?;
        DROPS.drop_unattended();
        // SAFETY: the context is current.
        self.observe(context, check(unsafe { self.functions.cuCtxSynchronize() }))?;
        if PANICS.any() { PANICS.report_context(context) } else { Ok(()) }
    }

    unsafe fn context_enable_peer_access(&self, context: ContextHandle, peer: ContextHandle) -> Result<()> {
        let _bound = self.bind(context)?;
        // SAFETY: by the handle rule the peer is a context of this driver and not destroyed. There are no flags yet.
        check(unsafe { self.functions.cuCtxEnablePeerAccess(raw_context(peer), 0) })
    }

    unsafe fn context_disable_peer_access(&self, context: ContextHandle, peer: ContextHandle) -> Result<()> {
        let _bound = self.bind(context)?;
        // SAFETY: by the handle rule the peer is a context of this driver and not destroyed, and no queued work uses its
        // memory.
        check(unsafe { self.functions.cuCtxDisablePeerAccess(raw_context(peer)) })
    }
}
