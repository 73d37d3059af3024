//! Memory pools.

use crate::device::Device;
use crate::error::{Error, Result, ResultExt};
use crate::stream::Stream;
use anabranch_core::memory_pool::MemoryPoolCore;
use anabranch_hal::{MemoryPoolAttribute, MemoryPoolHandle, MemoryPoolOptions};
use std::fmt;
use std::sync::Arc;

/// A pool of memory for stream-ordered allocations. Freed memory stays in the pool for later allocations. It returns to
/// the device when the pool is trimmed, or at a synchronization if the pool holds more than its release threshold.
///
/// Buffers remain valid when their pool is dropped. When they are freed too, the library keeps the pool for the next one
/// that is created with the same options, as long as anything of the device is left. Follows the Driver API's group *Stream Ordered Memory
/// Allocator*.
pub struct MemoryPool {
    device: Device,
    core: Arc<MemoryPoolCore>,
}

impl Device {
    /// The memory pool that stream-ordered allocation uses by default.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no pools.
    pub fn default_memory_pool(&self) -> Result<MemoryPool> {
        Ok(MemoryPool { device: self.clone(), core: MemoryPoolCore::default_of(self.core())? })
    }

    /// Makes a memory pool.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no pools;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) beside a capture that
    /// forbids it, which invalidates the capture.
    pub fn create_memory_pool(&self, options: &MemoryPoolOptions) -> Result<MemoryPool> {
        Ok(MemoryPool { device: self.clone(), core: MemoryPoolCore::create(self.core(), options)? })
    }
}

impl MemoryPool {
    /// Refuses a pool that belongs to another driver than the stream.
    pub(super) fn require_reach(&self, stream: &Stream) -> Result<()> {
        let device = stream.core().context().device();
        if self.device.core().same_driver(device) {
            return Ok(());
        }
        Err(device.refuse_other_driver(self.device.core(), "allocating from a memory pool"))
    }

    /// Returns memory to the device until the pool reserves at most `keep_bytes`, or no more than its allocations need.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn trim(&self, keep_bytes: usize) -> Result<()> {
        self.device
            .driver()
            .memory_pool_trim(self.core.live(), keep_bytes)
            .during("trimming a memory pool", || self.device.to_string())
            .map_err(Error::of_another_capture)
    }

    /// The number of bytes that the pool keeps instead of returning them to the device. Initially 0.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn release_threshold(&self) -> Result<u64> {
        self.attribute(MemoryPoolAttribute::ReleaseThreshold)
    }

    /// Sets the [release threshold](Self::release_threshold). With `u64::MAX`, the pool keeps all memory.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        self.set_attribute(MemoryPoolAttribute::ReleaseThreshold, bytes)
    }

    /// The number of bytes that allocations use now.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn used_bytes(&self) -> Result<u64> {
        self.attribute(MemoryPoolAttribute::UsedCurrent)
    }

    /// The maximum number of bytes that allocations have used.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn used_bytes_high(&self) -> Result<u64> {
        self.attribute(MemoryPoolAttribute::UsedHigh)
    }

    /// The number of bytes that the pool reserves now.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn reserved_bytes(&self) -> Result<u64> {
        self.attribute(MemoryPoolAttribute::ReservedCurrent)
    }

    /// The maximum number of bytes that the pool has reserved.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn reserved_bytes_high(&self) -> Result<u64> {
        self.attribute(MemoryPoolAttribute::ReservedHigh)
    }

    /// Resets both high-water marks to the current values.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn reset_high_watermarks(&self) -> Result<()> {
        self.set_attribute(MemoryPoolAttribute::UsedHigh, 0)?;
        self.set_attribute(MemoryPoolAttribute::ReservedHigh, 0)
    }

    /// Allows or forbids the device `peer` to access memory of this pool.
    ///
    /// # Errors
    /// [`CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)`](crate::Status::PEER_ACCESS_UNSUPPORTED) or
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if `peer` cannot access this device's memory;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if it belongs to another driver, or the pool's own
    /// device would lose its access.
    pub fn set_peer_access(&self, peer: &Device, allowed: bool) -> Result<()> {
        self.core.set_peer_access(peer.core(), allowed)
    }

    /// Reads an attribute of the pool.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn attribute(&self, attribute: MemoryPoolAttribute) -> Result<u64> {
        self.device
            .driver()
            .memory_pool_attribute(self.core.live(), attribute)
            .during("reading a memory pool's attribute", || self.device.to_string())
            .map_err(Error::of_another_capture)
    }

    /// Sets an attribute of the pool.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the attribute cannot be set, or not to that
    /// value.
    pub fn set_attribute(&self, attribute: MemoryPoolAttribute, value: u64) -> Result<()> {
        self.device
            .driver()
            .memory_pool_set_attribute(self.core.live(), attribute, value)
            .during("setting a memory pool's attribute", || self.device.to_string())
            .map_err(Error::of_another_capture)
    }

    pub(super) fn core(&self) -> &Arc<MemoryPoolCore> {
        &self.core
    }

    /// The pool's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's handle, which is valid as long as this pool.
    pub fn as_raw(&self) -> MemoryPoolHandle {
        self.core.live().handle()
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.core, formatter)
    }
}
