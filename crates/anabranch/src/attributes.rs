//! Attributes of streams.

use crate::error::{Error, Result};
use crate::memory::BufferSlice;
use crate::stream::Stream;
use anabranch_hal::{
    AccessPolicyWindow, AccessProperty, Status, StreamAttribute, StreamAttributeKind, SynchronizationPolicy,
};
use bytemuck::Pod;

impl Stream {
    /// How the host waits for this stream.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no such attribute.
    pub fn synchronization_policy(&self) -> Result<SynchronizationPolicy> {
        match self.core().attribute(StreamAttributeKind::SynchronizationPolicy)? {
            StreamAttribute::SynchronizationPolicy(policy) => Ok(policy),
            other => Err(unexpected(&other)),
        }
    }

    /// Chooses how the host waits for this stream: spinning, yielding or sleeping.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no such attribute.
    pub fn set_synchronization_policy(&self, policy: SynchronizationPolicy) -> Result<()> {
        self.core().set_attribute(&StreamAttribute::SynchronizationPolicy(policy))
    }

    /// The memory that this stream's kernels should find in the cache.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no such attribute.
    pub fn access_policy_window(&self) -> Result<AccessPolicyWindow> {
        match self.core().attribute(StreamAttributeKind::AccessPolicyWindow)? {
            StreamAttribute::AccessPolicyWindow(window) => Ok(window),
            other => Err(unexpected(&other)),
        }
    }

    /// Names the memory that later kernels of this stream should find in the cache, or, with an empty slice, removes
    /// the window. `hit_ratio`, from 0 to 1, is the share of accesses that are treated as `hit`. The other accesses are
    /// treated as `miss`. The window is a hint and never changes results.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no such attribute;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a ratio or a size out of range.
    pub fn set_access_policy_window<T: Pod>(
        &self,
        memory: BufferSlice<'_, T>,
        hit_ratio: f32,
        hit: AccessProperty,
        miss: AccessProperty,
    ) -> Result<()> {
        let window =
            AccessPolicyWindow { address: memory.device_pointer(), bytes: memory.byte_len(), hit_ratio, hit, miss };
        self.core().set_attribute(&StreamAttribute::AccessPolicyWindow(window))
    }

    /// Gives this stream all attributes of another stream of its context: what the methods above set, and those that other
    /// libraries have set. Follows `cuStreamCopyAttributes`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the streams belong to different contexts.
    #[track_caller]
    pub fn copy_attributes_from(&self, other: &Self) -> Result<()> {
        self.core().copy_attributes_from(other.core())
    }
}

fn unexpected(attribute: &StreamAttribute) -> Error {
    Error::argument(
        Status::UNKNOWN,
        "reading an attribute of a stream",
        format!("the driver answered with another attribute: {attribute:?}"),
    )
}
