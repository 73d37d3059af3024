//! Green contexts: streams that run on a part of a device's multiprocessors.

use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::green_context::{GreenContextCore, MultiprocessorsCore};
use anabranch_hal::{GreenContextHandle, SplitFlags};
use std::fmt;
use std::sync::Arc;

/// Some or all multiprocessors of a device: what a [`GreenContext`] is made of. Cheap to clone. They are not reserved: several
/// green contexts can have the same ones.
///
/// The multiprocessors of the software device are its workers.
///
/// Follows the Driver API's `CUdevResource` of type `CU_DEV_RESOURCE_TYPE_SM`.
#[derive(Clone)]
pub struct Multiprocessors {
    core: MultiprocessorsCore,
}

impl Device {
    /// All multiprocessors of the device, to be [split](Multiprocessors::split). Follows `cuDeviceGetDevResource`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver has no green contexts, which are
    /// new in CUDA 12.4.
    pub fn multiprocessors(&self) -> Result<Multiprocessors> {
        Ok(Multiprocessors { core: MultiprocessorsCore::of_device(self.core())? })
    }
}

impl Stream {
    /// The multiprocessors that the kernels of this stream can run on: those of its green context, or all of the device.
    /// Follows `cuStreamGetDevResource`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver has no green contexts;
    /// [`CUDA_ERROR_STREAM_DETACHED (917)`](crate::Status::STREAM_DETACHED) for a stream of another library whose green
    /// context was destroyed; [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function.
    pub fn multiprocessors(&self) -> Result<Multiprocessors> {
        Ok(Multiprocessors { core: MultiprocessorsCore::of_stream(self.core())? })
    }
}

impl Multiprocessors {
    /// How many there are.
    pub fn count(&self) -> u32 {
        self.core.resource().count
    }

    /// The smallest group that they can be split into, or 0 if the driver does not say, which is new in CUDA 13.0.
    pub fn minimum_partition(&self) -> u32 {
        self.core.resource().minimum_partition
    }

    /// The number that sizes of groups are rounded up to a multiple of, or 0 if the driver does not say, which is new in
    /// CUDA 13.0.
    pub fn alignment(&self) -> u32 {
        self.core.resource().alignment
    }

    /// The device.
    pub fn device(&self) -> Device {
        Device::from_core(self.core.device().clone())
    }

    /// Splits them into at most `groups` groups of the same size, of at least `minimum` multiprocessors each, and what remains.
    /// The driver rounds the size up to what the device can do, and there may be fewer groups. With a `minimum` of 0, it
    /// chooses the smallest size. Groups do not overlap. Follows `cuDevSmResourceSplitByCount`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for no groups;
    /// [`CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION (915)`](crate::Status::INVALID_RESOURCE_CONFIGURATION) if there are fewer
    /// multiprocessors than `minimum`, and for groups and remainders of an earlier split: make a green context of them, and
    /// split its [`multiprocessors`](GreenContext::multiprocessors).
    pub fn split(&self, groups: u32, minimum: u32) -> Result<(Vec<Self>, Option<Self>)> {
        self.split_with_flags(groups, minimum, SplitFlags::empty())
    }

    /// [`split`](Self::split) with flags.
    ///
    /// # Errors
    /// Same as [`split`](Self::split).
    pub fn split_with_flags(&self, groups: u32, minimum: u32, flags: SplitFlags) -> Result<(Vec<Self>, Option<Self>)> {
        let (groups, remainder) = self.core.split(groups, minimum, flags)?;
        let part = |core| Self { core };
        Ok((groups.into_iter().map(part).collect(), remainder.map(part)))
    }
}

/// A part of a device's multiprocessors, in which streams can be created. Cheap to clone. It lives until the last clone, its
/// last stream, and the last graph that has captured work of such a stream are dropped, and their work is complete.
///
/// Its streams are streams of the device's primary context, and use the same buffers, modules and events as other streams.
/// Their kernels run on the multiprocessors of the green context only, so that kernels of other streams cannot take these, if
/// they are in green contexts with other multiprocessors. NVIDIA does not guarantee that kernels of different green contexts
/// run at the same time.
///
/// On the software device, so many workers run the streams of a green context at the same time, and graphs that are launched
/// into them. A thread that waits for a stream may run it too.
///
/// ```
/// # use anabranch::Instance;
/// let device = Instance::builder().cuda(false).host_workers(4).build()?.device("host")?;
/// let context = device.context()?;
/// let (groups, _) = device.multiprocessors()?.split(1, 1)?;
/// let small = context.create_green_context(&groups)?;
/// // Whatever runs here leaves the other multiprocessors to others.
/// let background = small.create_stream()?;
/// let data = background.upload(&[1u32, 2, 3])?;
/// assert_eq!(context.create_stream()?.download(&data)?, [1, 2, 3]);
/// assert_eq!(background.multiprocessors()?.count(), 1);
/// # Ok::<(), anabranch::Error>(())
/// ```
///
/// Follows the Driver API's group *Green Contexts*.
#[derive(Clone)]
pub struct GreenContext {
    core: Arc<GreenContextCore>,
}

impl Context {
    /// Makes a green context of multiprocessors of this device: groups and remainders of one [split](Multiprocessors::split), or
    /// all multiprocessors of the device or of another green context. This context must be the device's
    /// [primary context](Device::context). Follows `cuGreenCtxCreate`.
    ///
    /// On CUDA, this may wait for the work of the device that is pending, which therefore must not wait for the thread that makes a
    /// green context.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for no multiprocessors;
    /// [`CUDA_ERROR_INVALID_CONTEXT (201)`](crate::Status::INVALID_CONTEXT) if this is not the primary context;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for multiprocessors of another device;
    /// [`CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION (915)`](crate::Status::INVALID_RESOURCE_CONFIGURATION) for those of
    /// different splits, and for a group that is there twice.
    pub fn create_green_context<'a>(
        &self,
        multiprocessors: impl IntoIterator<Item = &'a Multiprocessors>,
    ) -> Result<GreenContext> {
        let cores = multiprocessors.into_iter().map(|part| &part.core);
        Ok(GreenContext { core: GreenContextCore::create(self.core(), cores)? })
    }
}

impl GreenContext {
    /// The primary context.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// Its multiprocessors, which can be split again. Follows `cuGreenCtxGetDevResource`.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn multiprocessors(&self) -> Result<Multiprocessors> {
        Ok(Multiprocessors { core: self.core.multiprocessors()? })
    }

    /// Creates a non-blocking stream, with the default priority. Follows `cuGreenCtxStreamCreate`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is no room for one.
    #[track_caller]
    pub fn create_stream(&self) -> Result<Stream> {
        self.create_stream_with_priority(0)
    }

    /// Creates a non-blocking stream. The priority is clamped to the [range of the device](Device::stream_priority_range); lower
    /// is more urgent.
    ///
    /// # Errors
    /// Same as [`create_stream`](Self::create_stream).
    #[track_caller]
    pub fn create_stream_with_priority(&self, priority: i32) -> Result<Stream> {
        Ok(Stream::from_open(self.core.create_stream(priority)?))
    }

    /// The driver's handle, which is valid as long as this green context.
    pub fn as_raw(&self) -> GreenContextHandle {
        self.core.handle()
    }
}

impl fmt::Debug for Multiprocessors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(formatter)
    }
}

impl fmt::Debug for GreenContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(formatter)
    }
}
