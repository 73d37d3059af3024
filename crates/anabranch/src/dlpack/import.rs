//! Tensors as buffers.

use super::ManagedTensor;
use super::abi::{DLDataType, DLDataTypeCode, DLDeviceType};
use super::element::DlpackElement;
use super::imported;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{Buffer, check_foreign, uncaptured};
use crate::stream::Stream;
use anabranch_core::access::LastUse;
use anabranch_core::host_work::refuse_inside;
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, MemoryAccess, byte_size};
use anabranch_hal::{Access, BackendKind, DevicePointer, Status};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(super) const IMPORTING: &str = "importing a tensor";

impl ManagedTensor {
    /// Makes a buffer of the tensor, without copying. The tensor is deleted behind the last use of the buffer, on a thread of this
    /// library. The buffer of a tensor that is [read-only](Self::is_read_only) can only be read.
    ///
    /// With a stream, uses of the buffer come after what is in the stream now: pass the one that the producer has made wait for the
    /// memory, or in which it works. Without a stream, the work of another library is complete. Uses of the buffer follow work of this
    /// library in any case, if the tensor was exported in this process and its pointer was not taken.
    ///
    /// On the software device, memory of the host is used where it is, and the tensor is deleted when the context is idle. Several
    /// tensors may have the same memory, or parts of the first one's: uses of each buffer follow those of earlier buffers that were
    /// submitted before the import, and later ones need not. This is so for memory that nobody has registered in another way, and for
    /// buffers of one [`Instance`](crate::Instance): for others, pass a stream behind that work, or wait for it. A GPU uses its own
    /// memory, and memory that is managed or pinned; for other memory of the host, see [`Context::register_pinned_raw_parts`].
    ///
    /// # Errors
    /// In each case the tensor is deleted. [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the
    /// elements are of another type or vectors, lie apart, are not aligned, do not end within their allocation, or if
    /// the tensor contradicts itself; [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for memory of
    /// another device or kind of device;
    /// [`CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)`](crate::Status::HOST_MEMORY_ALREADY_REGISTERED) on the
    /// software device for memory of an earlier tensor whose buffer was dropped while work uses it, and for memory of
    /// which an earlier tensor has only a part, as long as there is a buffer of that;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for a stream of another context;
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) for one in strict order;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) for one that
    /// captures.
    #[track_caller]
    pub fn into_buffer<T: DlpackElement>(mut self, context: &Context, ready: Option<&Stream>) -> Result<Buffer<T>> {
        refuse_inside(IMPORTING).map_err(|error| error.at(context.core().place()))?;
        let refuse = |status, message: String, hint: &'static str| {
            Error::argument(status, IMPORTING, message).with_hint(hint).at(context.core().place())
        };
        let bad = |message: String, hint| refuse(Status::INVALID_VALUE, message, hint);
        let found = self.data_type();
        if found != T::TYPE {
            let message = format!("the elements are {}, and not {}", named(found), named(T::TYPE));
            return Err(bad(message, "ask for elements of the tensor's type, or convert it in the other library"));
        }
        let length = self.length().ok_or_else(|| {
            bad(
                format!("{self:?} has no shape that could be one"),
                "ask the other library for a tensor with a valid shape",
            )
        })?;
        if !self.is_contiguous() {
            let message = format!("the elements lie apart: {self:?} has strides {:?}", self.strides());
            return Err(bad(message, "make the tensor contiguous, in row-major order, in the other library"));
        }
        self.require_device(context).map_err(|message| {
            let hint = "use a context of that device, or copy the tensor to it in the other library";
            refuse(Status::INVALID_DEVICE, message, hint)
        })?;
        let tensor = self.tensor();
        let address = (tensor.data.expose_provenance() as u64).checked_add(tensor.byte_offset);
        let address = address.filter(|&address| length == 0 || (address != 0 && !tensor.data.is_null()));
        let Some(address) = address.map(DevicePointer) else {
            let message = format!("{length} elements are {} bytes behind {:?}", tensor.byte_offset, tensor.data);
            return Err(bad(message, "ask the other library for a tensor with memory"));
        };
        if length > 0 && !address.0.is_multiple_of(align_of::<T>() as u64) {
            let message = format!("{address:?} is not aligned to the {} bytes of the elements", align_of::<T>());
            return Err(bad(message, "import it as elements of another type, or copy it in the other library"));
        }
        let bytes = byte_size::<T>(length, IMPORTING)?;
        // Before the memory is registered, which no capture allows.
        ready.map_or(Ok(()), |stream| uncaptured(stream, IMPORTING, || Ok(())))?;
        let pending = self.take_pending();
        let memory = self.into_memory::<T>(context, address, bytes)?;
        follow(&memory, pending)?;
        let buffer = Buffer::of_others(memory, length);
        if let Some(stream) = ready {
            let memory = buffer.allocation();
            let access = if memory.is_read_only() { Access::Read } else { Access::Write };
            uncaptured(stream, IMPORTING, || stream.core().use_memory(IMPORTING, &[MemoryAccess { memory, access }]))?;
        }
        Ok(buffer)
    }

    #[track_caller]
    fn into_memory<T: DlpackElement>(
        self,
        context: &Context,
        address: DevicePointer,
        bytes: usize,
    ) -> Result<Arc<Allocation>> {
        let is_read_only = self.is_read_only();
        let mut keeper = Keeper::new(self);
        let is_of_host = bytes > 0 && context.device().backend() == BackendKind::Host;
        if is_of_host {
            match imported::of_host(context, address, bytes, is_read_only, keeper)? {
                ControlFlow::Break(memory) => return Ok(memory),
                ControlFlow::Continue(kept) => keeper = kept,
            }
        }
        if bytes > 0 {
            check_foreign(IMPORTING, context, address, bytes, align_of::<T>())?;
        }
        let memory = Allocation::foreign(context.core(), address, bytes, keeper);
        Ok(Arc::new(if is_read_only { memory.read_only() } else { memory }))
    }

    /// The number of elements, if the tensor says it without contradiction.
    fn length(&self) -> Option<usize> {
        let dimensions = usize::try_from(self.tensor().ndim).ok()?;
        let extents = self.shape();
        if extents.len() != dimensions {
            return None;
        }
        let extents = extents.iter().map(|&extent| usize::try_from(extent).ok());
        let extents: Vec<usize> = extents.collect::<Option<_>>()?;
        if extents.contains(&0) {
            return Some(0);
        }
        extents.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent))
    }

    /// Whether the elements are in row-major order without gaps. The shape is valid.
    fn is_contiguous(&self) -> bool {
        let shape = self.shape();
        let Some(strides) = self.strides().filter(|_| !shape.contains(&0)) else { return true };
        let mut expected = 1i64;
        shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
            // There is no next element where the extent is 1.
            let fits = extent == 1 || stride == expected;
            expected = expected.saturating_mul(extent);
            fits
        })
    }

    fn require_device(&self, context: &Context) -> Result<(), String> {
        let (found, device) = (self.device(), context.device());
        let ordinal = i64::from(device.ordinal().0);
        let fits = match (device.backend(), found.device_type) {
            (BackendKind::Host, DLDeviceType::CPU) => true,
            (BackendKind::Cuda, DLDeviceType::CUDA) | (BackendKind::Hip, DLDeviceType::ROCM) => {
                i64::from(found.device_id) == ordinal
            }
            (BackendKind::Cuda, DLDeviceType::CUDA_HOST | DLDeviceType::CUDA_MANAGED) => true,
            (BackendKind::Hip, DLDeviceType::ROCM_HOST) => true,
            _ => false,
        };
        let message = || format!("the tensor is on device {} of kind {}", found.device_id, found.device_type.0);
        if fits { Ok(()) } else { Err(message()) }
    }
}

/// Lets uses of memory follow work with a tensor that this library has exported, which nobody has passed on.
pub(super) fn follow(memory: &Allocation, pending: impl IntoIterator<Item = LastUse>) -> Result<()> {
    for earlier in pending {
        if memory.context().require_same_driver(earlier.stream.context(), IMPORTING).is_ok() {
            memory.history().begin_after(earlier);
        } else {
            // No stream can wait for one of another driver.
            earlier.stream.sync_event()?.map_or(Ok(()), |event| event.synchronize())?;
        }
    }
    Ok(())
}

/// What a type is called.
fn named(found: DLDataType) -> String {
    let DLDataType { code, bits, lanes } = found;
    let name = match code {
        DLDataTypeCode::INT => "signed integers",
        DLDataTypeCode::UINT => "unsigned integers",
        DLDataTypeCode::FLOAT => "floating-point numbers",
        DLDataTypeCode::BFLOAT => "bfloat numbers",
        DLDataTypeCode(code) => return format!("of type {code} with {bits} bits and {lanes} lanes"),
    };
    match lanes {
        1 => format!("{name} of {bits} bits"),
        lanes => format!("vectors of {lanes} {name} of {bits} bits"),
    }
}
