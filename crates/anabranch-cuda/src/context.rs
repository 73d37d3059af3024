//! Contexts (Driver API, groups CTX and PRIMARY_CTX).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::handles::{context_handle, raw_context};
use crate::host_work::{self, QUEUED};
use anabranch_hal::{Call, ContextFlags, ContextHandle, Contexts, DeviceOrdinal, Failure, Live, Result, Status};
use std::ptr;

impl CudaDriver {
    /// The device of the current context. The driver numbers its devices from 0 (`cuDeviceGet`).
    fn current_device(&self) -> Result<DeviceOrdinal> {
        let mut device = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuCtxGetDevice(&mut device) })?;
        u32::try_from(device).map(DeviceOrdinal).map_err(|_| Failure::new(Status::INVALID_DEVICE))
    }
}

impl Contexts for CudaDriver {
    fn primary_context_retain(&self, device: DeviceOrdinal) -> Result<ContextHandle> {
        let device = self.raw_device(device)?;
        let mut context = ptr::null_mut();
        // SAFETY: the device is one of this driver.
        check(unsafe { self.functions.cuDevicePrimaryCtxRetain(&mut context, device) })?;
        Ok(context_handle(context))
    }

    unsafe fn primary_context_release(&self, device: DeviceOrdinal) -> Result<()> {
        let raw = self.raw_device(device)?;
        // Retaining it once more returns its handle.
        let context = self.primary_context_retain(device);
        if context.is_ok() {
            // SAFETY: this releases what was retained just now. Whatever comes of it, the caller's reference is released too.
            let _ = unsafe { self.functions.cuDevicePrimaryCtxRelease(raw) };
        }
        let before = QUEUED.so_far();
        // SAFETY: the caller has retained the context, and no longer uses what was made in it.
        check(unsafe { self.functions.cuDevicePrimaryCtxRelease(raw) })?;
        // While others retain it, what is queued still runs.
        if let (Ok(context), Ok(false)) = (context, self.primary_context_is_active(device)) {
            QUEUED.context_is_gone(context, &before);
        }
        Ok(())
    }

    fn primary_context_is_active(&self, device: DeviceOrdinal) -> Result<bool> {
        let raw = self.raw_device(device)?;
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the device is one of this driver.
        check(unsafe { self.functions.cuDevicePrimaryCtxGetState(raw, &mut flags, &mut active) })?;
        Ok(active != 0)
    }

    fn context_current(&self) -> Result<Option<(ContextHandle, DeviceOrdinal)>> {
        let mut current = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuCtxGetCurrent(&mut current) })?;
        let current = context_handle(current);
        if current.is_null() { Ok(None) } else { Ok(Some((current, self.current_device()?))) }
    }

    fn context_device(&self, context: Live<'_, ContextHandle>) -> Result<DeviceOrdinal> {
        let _bound = self.bind(context)?;
        self.current_device()
    }

    fn context_create(&self, device: DeviceOrdinal, flags: ContextFlags) -> Result<ContextHandle> {
        let device = self.raw_device(device)?;
        let (mut context, mut popped) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the device is one of this driver.
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

    unsafe fn context_destroy(&self, call: &Call<'_>) -> Result<()> {
        // The driver completes what is queued before it destroys a context, but does not document it. A failure changes
        // nothing: a context that is lost is destroyed too.
        let _ = self.context_synchronize(call);
        let before = QUEUED.so_far();
        // SAFETY: the context is live, as its type says. The caller promises that neither it nor anything made in it is
        // used again.
        check(unsafe { self.functions.cuCtxDestroy(raw_context(call.context)) })?;
        QUEUED.context_is_gone(call.context.handle(), &before);
        Ok(())
    }

    fn context_synchronize(&self, call: &Call<'_>) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the context is current.
        host_work::observe(call.context.handle(), check(unsafe { self.functions.cuCtxSynchronize() }))
    }

    fn context_enable_peer_access(&self, call: &Call<'_>, peer: Live<'_, ContextHandle>) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the peer is live, as its type says. There are no flags yet.
        check(unsafe { self.functions.cuCtxEnablePeerAccess(raw_context(peer), 0) })
    }

    unsafe fn context_disable_peer_access(&self, call: &Call<'_>, peer: Live<'_, ContextHandle>) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the peer is live, as its type says, and the caller promises that no queued work uses its memory.
        check(unsafe { self.functions.cuCtxDisablePeerAccess(raw_context(peer)) })
    }
}
