//! Driver calls for checks that the safe interface makes impossible.

use crate::case::{Failed, Verdict, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{ContextHandle, Copy3d, CopyKind, Driver, Live};
use anabranch::{Context, DevicePointer, FillPattern, PinnedFlags, Status, Stream};
use std::sync::Arc;

/// More memory than any device has.
pub(super) const HUGE: usize = 1 << 50;

/// An address that no allocation returned.
pub(super) const GARBAGE: DevicePointer = DevicePointer(0x1234_5678_0000);

/// A driver, a context and a stream to call it with.
pub(super) struct Raw {
    driver: Arc<dyn Driver>,
    context: Context,
    stream: Stream,
}

impl Raw {
    pub(super) fn new(environment: &Environment) -> Result<Self, Failed> {
        let context = environment.context().clone();
        Ok(Self { driver: context.device().driver().clone(), context, stream: environment.stream()? })
    }

    pub(super) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(super) fn context(&self) -> Live<'_, ContextHandle> {
        self.context.live()
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn synchronize(&self) -> Verdict {
        Ok(self.stream.synchronize()?)
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn copy(&self, kind: CopyKind, to: u64, from: u64, bytes: usize) -> Status {
        // SAFETY: the caller keeps the ranges valid, or the driver refuses the call.
        status_of(unsafe { self.driver.copy_async(&self.context().into(), kind, to, from, bytes, self.stream.live()) })
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn copy_now(&self, kind: CopyKind, to: u64, from: u64, bytes: usize) -> Status {
        // SAFETY: the caller keeps the ranges valid, or the driver refuses the call.
        status_of(unsafe { self.driver.copy(&self.context().into(), kind, to, from, bytes) })
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn copy_region(&self, copy: &Copy3d) -> Status {
        // SAFETY: the caller keeps the volumes valid, or the driver refuses the call.
        status_of(unsafe { self.driver.copy_3d_async(&self.context().into(), copy, self.stream.live()) })
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn fill(&self, address: DevicePointer, pattern: FillPattern, count: usize) -> Status {
        // SAFETY: the caller keeps the range valid, or the driver refuses the call.
        status_of(unsafe {
            self.driver.fill_async(&self.context().into(), address, pattern, count, self.stream.live())
        })
    }

    /// Allocates device memory immediately.
    pub(super) fn allocate(&self, bytes: usize) -> Result<DevicePointer, Status> {
        self.driver.allocate(&self.context().into(), bytes).map_err(|failure| failure.status)
    }

    /// Allocates device memory in stream order.
    pub(super) fn allocate_async(&self, bytes: usize) -> Result<DevicePointer, Status> {
        self.driver
            .allocate_async(&self.context().into(), bytes, None, self.stream.live())
            .map_err(|failure| failure.status)
    }

    pub(super) fn allocate_managed(&self, bytes: usize) -> Result<DevicePointer, Status> {
        self.driver.allocate_managed(&self.context().into(), bytes).map_err(|failure| failure.status)
    }

    pub(super) fn allocate_pinned(&self, bytes: usize, flags: PinnedFlags) -> Result<DevicePointer, Status> {
        self.driver
            .allocate_pinned(&self.context().into(), bytes, flags)
            .map(|pointer| DevicePointer(pointer.expose_provenance() as u64))
            .map_err(|failure| failure.status)
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn free(&self, address: DevicePointer) -> Status {
        // SAFETY: the caller promises that nobody uses the memory any more, or the driver refuses the call.
        status_of(unsafe { self.driver.free(&self.context().into(), address) })
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn free_async(&self, address: DevicePointer) -> Status {
        // SAFETY: the caller promises that all uses of the memory are ordered before this, or the driver refuses the call.
        status_of(unsafe { self.driver.free_async(&self.context().into(), address, self.stream.live()) })
    }

    /// # Safety
    /// The requirements of the driver call apply, unless the driver refuses the call.
    pub(super) unsafe fn free_pinned(&self, address: DevicePointer) -> Status {
        let pointer = std::ptr::with_exposed_provenance_mut(address.0 as usize);
        // SAFETY: the caller promises that nobody uses the memory any more, or the driver refuses the call.
        status_of(unsafe { self.driver.free_pinned(&self.context().into(), pointer) })
    }
}

/// Returns the address, or the verdict that the call failed unexpectedly.
pub(super) fn address(what: &str, result: Result<DevicePointer, Status>) -> Result<DevicePointer, Failed> {
    result.map_err(|status| Failed(format!("{what}: failed with {status:?}")))
}

/// Numbers with a long period, so that a copy from the wrong position is detected.
pub(super) fn numbers(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 31 % 251) as u8).collect()
}
