//! Buffers as tensors.

use super::ManagedTensor;
use super::abi::{DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPackVersion, DLTensor, READ_ONLY};
use super::element::DlpackElement;
use crate::error::{Error, Result};
use crate::memory::{BufferSlice, OwnedBuffer, uncaptured};
use crate::stream::Stream;
use anabranch_core::host_work::refuse_inside;
use anabranch_core::memory::{Allocation, MemoryAccess, Origin};
use anabranch_core::reaper;
use anabranch_core::reaper::comes_about;
use anabranch_core::stream::StreamCore;
use anabranch_core::submission::refuse_captured_memory;
use anabranch_hal::{Access, BackendKind, Status};
use std::ptr::NonNull;
use std::sync::Arc;

const EXPORTING: &str = "exporting a tensor";

/// What a tensor that was exported consists of.
struct Exported<O: Send + 'static> {
    tensor: DLManagedTensorVersioned,
    _shape: Vec<i64>,
    _strides: Vec<i64>,
    memory: Arc<Allocation>,
    /// What keeps the memory for others, if they use it too.
    owner: O,
    /// Whether others may submit work that uses the memory as soon as the tensor is deleted.
    is_shared: bool,
    /// The stream in which the consumer uses the memory.
    consumer: Option<Arc<StreamCore>>,
}

impl ManagedTensor {
    /// Exports a buffer as a tensor of that shape, in row-major order. The memory belongs to the tensor: it is freed, behind its last
    /// use, when the tensor is deleted.
    ///
    /// With a stream, which is the consumer's, what is submitted to it from now on comes after all work that uses the memory, and
    /// nothing waits. The consumer may then delete the tensor while its work in that stream is pending: what is in the stream at that
    /// time comes before the memory is freed. Without a stream, the call waits until the work is complete.
    ///
    /// # Errors
    /// In each case the buffer is returned: [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the shape
    /// has not as many elements as the buffer; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while a
    /// graph retains the memory, while it is attached to a stream or to the host, or for a stream in strict order;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for a stream of another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) for a stream that
    /// captures; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) for devices that DLPack does not
    /// know; [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function; an error of the
    /// work that is waited for.
    #[track_caller]
    pub fn export<B>(buffer: B, shape: &[usize], consumer: Option<&Stream>) -> Result<Self, (Error, B)>
    where
        B: OwnedBuffer + Send + 'static,
        B::Element: DlpackElement,
    {
        let found = buffer.whole().len();
        // A shape of no elements may have any other extents.
        let expected = match shape.contains(&0) {
            true => Some(0),
            false => shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent)),
        };
        if expected != Some(found) {
            let message = format!("the shape {shape:?} is not that of {found} elements");
            let error = Error::argument(Status::INVALID_VALUE, EXPORTING, message)
                .with_hint("pass a shape whose product is the number of elements, or export a part of the buffer");
            return Err((error, buffer));
        }
        Self::export_part(buffer, 0, shape, consumer)
    }

    /// Like [`export`](Self::export), of the elements from `first` on, as many as the shape has. The whole buffer belongs to the
    /// tensor.
    ///
    /// # Errors
    /// Same as [`export`](Self::export); [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the buffer
    /// ends before the shape does.
    #[track_caller]
    pub fn export_part<B>(
        buffer: B,
        first: usize,
        shape: &[usize],
        consumer: Option<&Stream>,
    ) -> Result<Self, (Error, B)>
    where
        B: OwnedBuffer + Send + 'static,
        B::Element: DlpackElement,
    {
        let prepared = describe(buffer.whole(), first, shape).and_then(|described| {
            require_alone(buffer.whole().allocation())?;
            require_no_attachment(buffer.whole().allocation())?;
            pass_on(buffer.whole().allocation(), consumer)?;
            Ok(described)
        });
        match prepared {
            Ok(described) => {
                let memory = buffer.whole().allocation().clone();
                // SAFETY: nobody else has the buffer, whose elements are initialised.
                Ok(unsafe { exported(described, memory, buffer, false, consumer) })
            }
            Err(error) => Err((error, buffer)),
        }
    }

    /// Like [`export_part`](Self::export_part), of a buffer that others go on using. For bindings of languages whose programs keep
    /// such an order themselves.
    ///
    /// When the tensor is deleted, later uses of the buffer come behind what is in the consumer's stream then.
    ///
    /// # Safety
    /// As long as the tensor is not deleted, work of the consumer and other uses of the buffer do not overlap if one of them writes;
    /// managed memory that is attached to a stream or to the host is used there only; and nobody has a reference to the elements, such
    /// as that of [`PinnedBuffer::as_slice`](crate::PinnedBuffer::as_slice), while
    /// the consumer writes them.
    ///
    /// # Errors
    /// Same as [`export_part`](Self::export_part), except that graphs may retain the memory.
    #[track_caller]
    pub unsafe fn share<B>(buffer: Arc<B>, first: usize, shape: &[usize], consumer: Option<&Stream>) -> Result<Self>
    where
        B: OwnedBuffer + Send + Sync + 'static,
        B::Element: DlpackElement,
    {
        let described = describe(buffer.whole(), first, shape)?;
        pass_on(buffer.whole().allocation(), consumer)?;
        // SAFETY: the elements are initialised, and the caller promises who uses them.
        Ok(unsafe { exported(described, buffer.whole().allocation().clone(), buffer, true, consumer) })
    }

    /// Where a buffer is, in the terms of DLPack.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) for memory that DLPack does not know.
    pub fn device_of<B: OwnedBuffer>(buffer: &B) -> Result<DLDevice> {
        device_of(buffer.whole().allocation())
    }
}

/// Makes the tensor of memory that was passed on.
///
/// # Safety
/// The tensor describes elements of the memory, which are initialised. Others use them only as those who share it promise.
unsafe fn exported<O: Send + 'static>(
    (mut tensor, mut shape, mut strides): (DLTensor, Vec<i64>, Vec<i64>),
    memory: Arc<Allocation>,
    owner: O,
    is_shared: bool,
    consumer: Option<&Stream>,
) -> ManagedTensor {
    (tensor.shape, tensor.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
    let pending = memory.history().pending();
    let exported = Box::into_raw(Box::new(Exported {
        tensor: DLManagedTensorVersioned {
            version: DLPackVersion::WRITTEN,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete::<O>),
            flags: if memory.is_read_only() { READ_ONLY } else { 0 },
            dl_tensor: tensor,
        },
        _shape: shape,
        _strides: strides,
        memory,
        owner,
        is_shared,
        consumer: consumer.map(|stream| {
            let core: &Arc<StreamCore> = stream.core();
            core.clone()
        }),
    }));
    // SAFETY: it was just made, and nobody else has it.
    let tensor = unsafe {
        (*exported).tensor.manager_ctx = exported.cast();
        NonNull::new_unchecked(&raw mut (*exported).tensor)
    };
    // SAFETY: it is a tensor whose elements the caller describes, which are kept until the deleter is called, on any thread. Its
    // history knows the work that uses them.
    unsafe { ManagedTensor::of_versioned(tensor, pending) }
}

/// Drops a buffer that was exported. It may be called anywhere, also inside of a host function.
///
/// # Safety
/// `tensor` is that of an [`Exported`] with an owner `O`, and this is called once.
unsafe extern "C" fn delete<O: Send + 'static>(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the context is what the tensor is a part of, which was a box, and is dropped here only.
    let exported = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Exported<O>>()) };
    let Exported { memory, owner, is_shared, consumer, .. } = *exported;
    // The consumer has submitted its work by the raw handle, so that nobody has noted it.
    let note = move || {
        if let Some(stream) = consumer {
            memory.history().update(&stream, access_to(&memory));
        }
        drop(memory);
    };
    if is_shared {
        // Others may submit work right after this.
        note();
        reaper::later(move || drop(owner));
    } else {
        reaper::later(move || {
            note();
            drop(owner);
        });
    }
}

/// How consumers use the memory.
fn access_to(memory: &Allocation) -> Access {
    if memory.is_read_only() { Access::Read } else { Access::Write }
}

/// Refuses memory that a graph retains.
fn require_alone(memory: &Arc<Allocation>) -> Result<()> {
    // The reaper releases the memory of a graph that is gone.
    if !comes_about(|| Arc::strong_count(memory) == 1) {
        let message = "a graph, or a part of one, retains the memory, and could be launched while others use it";
        return Err(Error::argument(Status::ILLEGAL_STATE, EXPORTING, message)
            .with_hint("drop what uses the memory first, or export a copy")
            .at(memory.context().place()));
    }
    Ok(())
}

/// Refuses memory that is attached to a stream or to the host: a tensor does not say so, and its memory is anybody's.
fn require_no_attachment(memory: &Allocation) -> Result<()> {
    if memory.is_attached() {
        let message = "the managed memory is attached to a stream, or to the host";
        return Err(Error::argument(Status::ILLEGAL_STATE, EXPORTING, message)
            .with_hint("attach it to all streams first: Stream::attach, with MemoryAttachment::Global")
            .at(memory.context().place()));
    }
    Ok(())
}

/// Orders what the consumer does after all uses of the memory.
#[track_caller]
fn pass_on(memory: &Arc<Allocation>, consumer: Option<&Stream>) -> Result<()> {
    if matches!(memory.origin(), Origin::Graph(_) | Origin::Captured { .. }) {
        return Err(memory.refuse_graph_memory(memory.context().place()));
    }
    match consumer {
        None => {
            refuse_inside(EXPORTING).map_err(|error| error.at(memory.context().place()))?;
            memory.history().synchronize(Access::Write)
        }
        Some(stream) => uncaptured(stream, EXPORTING, || {
            refuse_captured_memory(memory, stream.core(), EXPORTING)?;
            let access = MemoryAccess { memory, access: access_to(memory) };
            stream.core().use_memory(EXPORTING, &[access])
        }),
    }
}

/// The tensor, with the numbers for its shape and strides, of a part of memory.
fn describe<T: DlpackElement>(
    memory: BufferSlice<'_, T>,
    first: usize,
    shape: &[usize],
) -> Result<(DLTensor, Vec<i64>, Vec<i64>)> {
    let refuse = |message: String| {
        Error::argument(Status::INVALID_VALUE, EXPORTING, message)
            .with_hint("pass a shape whose product is the number of elements")
            .at(memory.allocation().context().place())
    };
    let is_empty = shape.contains(&0);
    let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent.max(1)));
    let count = count.filter(|&count| i64::try_from(count).is_ok());
    let count = count.ok_or_else(|| refuse(format!("the shape {shape:?} is larger than the address space")))?;
    let elements = if is_empty { 0 } else { count };
    let part = first.checked_add(elements).map(|end| memory.slice(first..end));
    let Some(Ok(part)) = part else {
        let message =
            format!("the shape {shape:?} from element {first} on does not lie within {} elements", memory.len());
        return Err(refuse(message));
    };
    let mut strides = vec![1i64; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension] * shape[dimension].max(1) as i64;
    }
    // No more than the product, which fits.
    let extents = shape.iter().map(|&extent| extent as i64).collect();
    let ndim = i32::try_from(shape.len()).map_err(|_| refuse("the shape has too many dimensions".to_owned()))?;
    let address = if is_empty { 0 } else { part.device_pointer().0 as usize };
    let tensor = DLTensor {
        data: std::ptr::with_exposed_provenance_mut(address),
        device: device_of(memory.allocation())?,
        ndim,
        dtype: T::TYPE,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        // Not all libraries look at it.
        byte_offset: 0,
    };
    Ok((tensor, extents, strides))
}

/// Where memory is, as DLPack says it.
fn device_of(memory: &Allocation) -> Result<DLDevice> {
    let device = memory.context().device();
    let ordinal = i32::try_from(device.ordinal().0).ok();
    let is_managed = matches!(memory.origin(), Origin::Managed);
    let (device_type, device_id) = match (device.name().backend, memory.is_pinned()) {
        (BackendKind::Host, _) => (DLDeviceType::CPU, Some(0)),
        (BackendKind::Cuda, true) => (DLDeviceType::CUDA_HOST, Some(0)),
        (BackendKind::Cuda, false) if is_managed => (DLDeviceType::CUDA_MANAGED, Some(0)),
        (BackendKind::Cuda, false) => (DLDeviceType::CUDA, ordinal),
        (BackendKind::Hip, true) => (DLDeviceType::ROCM_HOST, Some(0)),
        (BackendKind::Hip, false) if !is_managed => (DLDeviceType::ROCM, ordinal),
        _ => (DLDeviceType::CPU, None),
    };
    match device_id {
        Some(device_id) => Ok(DLDevice { device_type, device_id }),
        None => Err(Error::argument(Status::NOT_SUPPORTED, EXPORTING, "DLPack has no name for such memory")
            .with_hint("export a buffer of another kind")
            .at(memory.context().place())),
    }
}
