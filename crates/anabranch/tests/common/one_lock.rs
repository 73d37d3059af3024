//! A driver as those are whose calls that wait keep other threads waiting.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the layer forwards what it is given")]

use anabranch::hal::*;
use std::sync::{Arc, Mutex};

/// A call that waits, or may wait, holds a lock meanwhile, which every call takes.
#[derive(Debug)]
pub(crate) struct OneLock {
    inner: Arc<dyn Driver>,
    lock: Mutex<()>,
}

impl OneLock {
    pub(crate) fn over(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Layered(Self { inner, lock: Mutex::default() }))
    }

    fn locked<R>(&self, call: impl FnOnce(&dyn Driver) -> R) -> R {
        let _lock = self.lock.lock().unwrap();
        call(&*self.inner)
    }
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for OneLock {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, _: &'static str) {
        drop(self.lock.lock().unwrap());
    }

    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties> {
        let mut properties = self.inner.device_properties(device)?;
        properties.capabilities.remove(Capabilities::CONCURRENT_BLOCKING_CALLS);
        Ok(properties)
    }

    unsafe fn free(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        self.locked(|inner| unsafe { inner.free(call, address) })
    }

    unsafe fn free_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        self.locked(|inner| unsafe { inner.free_pinned(call, address) })
    }

    unsafe fn unregister_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        self.locked(|inner| unsafe { inner.unregister_pinned(call, address) })
    }

    unsafe fn module_load(&self, call: &Call<'_>, image: ModuleImage<'_>) -> Result<ModuleHandle> {
        self.locked(|inner| unsafe { inner.module_load(call, image) })
    }

    unsafe fn module_unload(&self, call: &Call<'_>, module: ModuleHandle) -> Result<()> {
        self.locked(|inner| {
            // Hardware waits for the work here, as it does when it frees memory.
            let memory = inner.allocate(call, 1)?;
            unsafe { inner.free(call, memory).and_then(|()| inner.module_unload(call, module)) }
        })
    }

    unsafe fn context_destroy(&self, call: &Call<'_>) -> Result<()> {
        // Hardware waits here too.
        self.locked(|inner| unsafe { inner.context_synchronize(call).and_then(|()| inner.context_destroy(call)) })
    }

    unsafe fn copy_async(
        &self,
        call: &Call<'_>,
        kind: CopyKind,
        destination: u64,
        source: u64,
        bytes: usize,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.locked(|inner| unsafe { inner.copy_async(call, kind, destination, source, bytes, stream) })
    }

    unsafe fn copy_3d_async(&self, call: &Call<'_>, copy: &Copy3d, stream: Live<'_, StreamHandle>) -> Result<()> {
        self.locked(|inner| unsafe { inner.copy_3d_async(call, copy, stream) })
    }

    unsafe fn copy_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.locked(|inner| unsafe { inner.copy_with_attributes_async(call, copy, stream) })
    }

    unsafe fn copy_3d_with_attributes_async(
        &self,
        call: &Call<'_>,
        copy: &AttributedCopy3d,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.locked(|inner| unsafe { inner.copy_3d_with_attributes_async(call, copy, stream) })
    }

    unsafe fn copy_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.locked(|inner| unsafe { inner.copy_batch_async(call, copies, stream) })
    }

    unsafe fn copy_3d_batch_async(
        &self,
        call: &Call<'_>,
        copies: &[AttributedCopy3d],
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.locked(|inner| unsafe { inner.copy_3d_batch_async(call, copies, stream) })
    }
}
