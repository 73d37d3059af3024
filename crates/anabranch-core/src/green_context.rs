//! Green contexts: streams that run on a part of a device's multiprocessors.

use crate::context::ContextCore;
use crate::device::DeviceCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::extensions::Extension;
use crate::host_work::refuse_inside;
use crate::idle_memory::attempt_when_idle;
use crate::stream::{OpenStream, Ownership, StreamCore};
use crate::waiting_call::call_waiting;
use anabranch_hal::{GreenContextHandle, Live, MultiprocessorResource, SplitFlags, Status, StreamFlags};
use std::fmt;
use std::sync::{Arc, OnceLock};

const CREATING: &str = "creating a green context";

/// Some or all multiprocessors of a device.
#[derive(Clone)]
pub struct MultiprocessorsCore {
    device: Arc<DeviceCore>,
    resource: MultiprocessorResource,
}

impl MultiprocessorsCore {
    /// All multiprocessors of a device.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver has no green contexts.
    pub fn of_device(device: &Arc<DeviceCore>) -> Result<Self> {
        let operation = "reading the multiprocessors of a device";
        let resource = device.driver().device_multiprocessors(device.ordinal());
        Ok(Self { device: device.clone(), resource: resource.during(operation, || device.to_string())? })
    }

    /// Those that the kernels of a stream can run on.
    ///
    /// # Errors
    /// As [`of_device`](Self::of_device); `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function.
    pub fn of_stream(stream: &OpenStream) -> Result<Self> {
        let operation = "reading the multiprocessors of a stream";
        let context = stream.context();
        let handle = stream.handle(operation)?;
        let resource = context.driver().stream_multiprocessors(&context.call(operation), handle);
        Ok(Self { device: context.device().clone(), resource: resource.during(operation, || stream.place())? })
    }

    /// The device.
    pub fn device(&self) -> &Arc<DeviceCore> {
        &self.device
    }

    /// What the driver says of them.
    pub fn resource(&self) -> &MultiprocessorResource {
        &self.resource
    }

    /// Splits them into groups of the same size, and a remainder.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for no groups; `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION (915)` for more
    /// multiprocessors than there are, and for the result of another split.
    pub fn split(&self, groups: u32, minimum: u32, flags: SplitFlags) -> Result<(Vec<Self>, Option<Self>)> {
        let operation = "splitting multiprocessors";
        // SAFETY: the resource is from the device's driver.
        let split = unsafe { self.device.driver().multiprocessors_split(&self.resource, groups, minimum, flags) };
        let split = split.during(operation, || self.device.to_string()).map_err(|error| match error.status() {
            Status::INVALID_RESOURCE_CONFIGURATION => error.with_hint(
                "ask for groups of no more than there are; what was split is split again as that of a green context",
            ),
            _ => error,
        })?;
        let part = |resource| Self { device: self.device.clone(), resource };
        Ok((split.groups.into_iter().map(part).collect(), split.remainder.map(part)))
    }
}

/// A green context. Its streams hold references to it, and so do graphs that have captured their work.
pub struct GreenContextCore {
    context: Arc<ContextCore>,
    handle: GreenContextHandle,
}

/// The green context of a stream.
#[derive(Default)]
pub(crate) struct GreenStream(OnceLock<Arc<GreenContextCore>>);

impl Extension for GreenStream {}

impl GreenStream {
    pub(crate) fn get(&self) -> Option<&Arc<GreenContextCore>> {
        self.0.get()
    }
}

impl GreenContextCore {
    /// Makes a green context of multiprocessors of the context's device.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for no multiprocessors; `CUDA_ERROR_INVALID_CONTEXT (201)` unless the context is the primary
    /// context of its device; `CUDA_ERROR_INVALID_DEVICE (101)` for multiprocessors of another device;
    /// `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION (915)` for those that are not of one split.
    pub fn create<'a>(
        context: &Arc<ContextCore>,
        multiprocessors: impl IntoIterator<Item = &'a MultiprocessorsCore>,
    ) -> Result<Arc<Self>> {
        let refuse = |status, message| Err(Error::argument(status, CREATING, message).at(context.place()));
        refuse_inside(CREATING).map_err(|error| error.at(context.place()))?;
        if !context.is_primary() {
            return refuse(
                Status::INVALID_CONTEXT,
                "the context is not the primary context of its device, as it must be",
            );
        }
        let mut resources = Vec::new();
        for part in multiprocessors {
            if part.device != *context.device() {
                return refuse(Status::INVALID_DEVICE, "the multiprocessors belong to another device");
            }
            resources.push(part.resource);
        }
        // SAFETY: the resources are from this device's driver.
        let create = || unsafe { context.driver().green_context_create(context.device().ordinal(), &resources) };
        let handle = call_waiting(context, create).during(CREATING, || context.place())?;
        context.shared().add_green_context();
        Ok(Arc::new(Self { context: context.clone(), handle }))
    }

    /// The primary context that it is a part of.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The driver's handle.
    pub fn handle(&self) -> GreenContextHandle {
        self.handle
    }

    fn live(&self) -> Live<'_, GreenContextHandle> {
        // SAFETY: the green context is destroyed after this is dropped.
        unsafe { Live::new(self.handle) }
    }

    /// Its multiprocessors.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn multiprocessors(&self) -> Result<MultiprocessorsCore> {
        let operation = "reading the multiprocessors of a green context";
        let resource = self.context.driver().green_context_multiprocessors(self.live());
        let resource = resource.during(operation, || self.context.place())?;
        Ok(MultiprocessorsCore { device: self.context.device().clone(), resource })
    }

    /// Makes a non-blocking stream that runs on its multiprocessors.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is no room for one.
    #[track_caller]
    pub fn create_stream(self: &Arc<Self>, priority: i32) -> Result<OpenStream> {
        let operation = "creating a stream of a green context";
        let context = &self.context;
        let handle = context
            .driver()
            .green_context_stream_create(self.live(), StreamFlags::NON_BLOCKING, priority)
            .during(operation, || context.place())?;
        // SAFETY: the stream was just created, and nobody else knows it.
        let stream = unsafe { StreamCore::open(context, handle, Ownership::Owned) }?;
        let _ = stream.extension::<GreenStream>().0.set(self.clone());
        Ok(stream)
    }
}

impl Drop for GreenContextCore {
    fn drop(&mut self) {
        let (context, handle) = (self.context.clone(), self.handle);
        // Its streams have ended, but what was queued in them may be pending.
        attempt_when_idle(&self.context, move || {
            // SAFETY: its streams were destroyed and their work is complete, because all of them referred to this.
            let result = unsafe { context.driver().green_context_destroy(handle) };
            context.shared().remove_green_context();
            drop_error::report(result.during("destroying a green context", || context.place()));
        });
    }
}

impl fmt::Debug for MultiprocessorsCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} multiprocessors of {}", self.resource.count, self.device)
    }
}

impl fmt::Debug for GreenContextCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GreenContext({}, {:?})", self.context.place(), self.handle)
    }
}
