//! Green contexts (Driver API, group GREEN_CONTEXTS): parts of a device's multiprocessors, and streams that run on them.

use crate::{Call, DeviceOrdinal, Failure, GreenContextHandle, Live, Result, Status, StreamFlags, StreamHandle};
use bitflags::bitflags;
use std::fmt;

bitflags! {
    /// How multiprocessors are split (`CUdevSmResourceSplitByCount_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct SplitFlags: u32 {
        /// Makes smaller groups possible, in which large clusters may not be.
        const IGNORE_COSCHEDULING = 0x1;
        /// Makes groups in which the largest possible clusters may be. Needs compute capability 9.0.
        const MAX_POTENTIAL_CLUSTER_SIZE = 0x2;
    }
}

/// The size of [`MultiprocessorResource`] as drivers represent it, in bytes (`CUdevResource`).
pub const RESOURCE_BYTES: usize = 144;

/// Some or all multiprocessors of a device (`CUdevResource` of type `CU_DEV_RESOURCE_TYPE_SM`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MultiprocessorResource {
    /// How many there are.
    pub count: u32,
    /// The smallest number that a group of them can have. 0 if the driver does not say.
    pub minimum_partition: u32,
    /// The number that the size of a group is rounded up to a multiple of. 0 if the driver does not say.
    pub alignment: u32,
    raw: [u8; RESOURCE_BYTES],
}

impl MultiprocessorResource {
    /// A driver makes one from its own representation.
    pub const fn new(count: u32, minimum_partition: u32, alignment: u32, raw: [u8; RESOURCE_BYTES]) -> Self {
        Self { count, minimum_partition, alignment, raw }
    }

    /// The driver's representation.
    pub const fn raw(&self) -> &[u8; RESOURCE_BYTES] {
        &self.raw
    }
}

impl fmt::Debug for MultiprocessorResource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MultiprocessorResource")
            .field("count", &self.count)
            .field("minimum_partition", &self.minimum_partition)
            .field("alignment", &self.alignment)
            .finish_non_exhaustive()
    }
}

/// Multiprocessors that were split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiprocessorSplit {
    /// Groups of the same size.
    pub groups: Vec<MultiprocessorResource>,
    /// What remains, if anything does.
    pub remainder: Option<MultiprocessorResource>,
}

/// Green contexts. By default, a driver has none, and returns `CUDA_ERROR_NOT_SUPPORTED (801)`.
pub trait GreenContexts {
    /// Returns all multiprocessors of a device (`cuDeviceGetDevResource`).
    fn device_multiprocessors(&self, device: DeviceOrdinal) -> Result<MultiprocessorResource> {
        let _ = device;
        unsupported()
    }

    /// Splits multiprocessors into at most `groups` groups of at least `minimum`, or of the smallest possible size if that
    /// is 0 (`cuDevSmResourceSplitByCount`). There may be fewer groups.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for no groups, or for flags that the driver does not know.
    /// `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION (915)` if there are fewer multiprocessors than `minimum`, or if they are the
    /// result of a split: those of a green context that has them can be split again.
    ///
    /// # Safety
    ///
    /// The resource is from this driver.
    unsafe fn multiprocessors_split(
        &self,
        resource: &MultiprocessorResource,
        groups: u32,
        minimum: u32,
        flags: SplitFlags,
    ) -> Result<MultiprocessorSplit> {
        let _ = (resource, groups, minimum, flags);
        unsupported()
    }

    /// Creates a green context with these multiprocessors, and retains the primary context of their device
    /// (`cuDevResourceGenerateDesc`, `cuGreenCtxCreate`).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for no resources. `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION (915)` for resources that
    /// are not from the same split, or not of the device.
    ///
    /// # Safety
    ///
    /// The resources are from this driver.
    unsafe fn green_context_create(
        &self,
        device: DeviceOrdinal,
        resources: &[MultiprocessorResource],
    ) -> Result<GreenContextHandle> {
        let _ = (device, resources);
        unsupported()
    }

    /// Destroys a green context, and releases the primary context (`cuGreenCtxDestroy`).
    ///
    /// # Safety
    ///
    /// The green context exists. Its streams were destroyed, and no work that was queued in them is pending. Nobody uses it
    /// during the call or afterwards.
    unsafe fn green_context_destroy(&self, green: GreenContextHandle) -> Result<()> {
        let _ = green;
        unsupported()
    }

    /// Returns the multiprocessors of a green context (`cuGreenCtxGetDevResource`).
    fn green_context_multiprocessors(&self, green: Live<'_, GreenContextHandle>) -> Result<MultiprocessorResource> {
        let _ = green;
        unsupported()
    }

    /// Creates a stream whose kernels run on the multiprocessors of a green context (`cuGreenCtxStreamCreate`). It is a
    /// stream of the primary context otherwise.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` without [`StreamFlags::NON_BLOCKING`].
    fn green_context_stream_create(
        &self,
        green: Live<'_, GreenContextHandle>,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<StreamHandle> {
        let _ = (green, flags, priority);
        unsupported()
    }

    /// Returns the green context that a stream was created in (`cuStreamGetGreenCtx`).
    fn stream_green_context(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<Option<GreenContextHandle>> {
        let _ = (call, stream);
        unsupported()
    }

    /// Returns the multiprocessors that the kernels of a stream can run on (`cuStreamGetDevResource`).
    fn stream_multiprocessors(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<MultiprocessorResource> {
        let _ = (call, stream);
        unsupported()
    }
}

fn unsupported<T>() -> Result<T> {
    Err(Failure::new(Status::NOT_SUPPORTED))
}
