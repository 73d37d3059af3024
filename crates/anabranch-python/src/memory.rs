//! Memory as Python uses it: shared, and without element types.

use crate::dtype::{DType, Element, TypedCall};
use crate::error::is_of_program;
use crate::few::Few;
use crate::kept::Kept;
use crate::turn::{Access, Taken, Turn};
use anabranch::dlpack::{DLDevice, ManagedTensor};
use anabranch::{
    AddressRange, BackendKind, Buffer, BufferSlice, BufferSliceMut, Capabilities, Context, Error, MemoryPool,
    OwnedBuffer, Result, Status, Stream,
};
use bytemuck::pod_collect_to_vec;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A buffer of any type.
trait AnyBuffer: Send + Sync {
    fn bytes(&self) -> Result<BufferSlice<'_, u8>>;

    fn device(&self) -> Result<DLDevice>;

    /// # Safety
    /// As for [`ManagedTensor::share`].
    unsafe fn share(self: Arc<Self>, first: usize, shape: &[usize], consumer: Option<&Stream>)
    -> Result<ManagedTensor>;
}

impl<B> AnyBuffer for B
where
    B: OwnedBuffer + Send + Sync + 'static,
    B::Element: Element,
{
    fn bytes(&self) -> Result<BufferSlice<'_, u8>> {
        self.whole().cast()
    }

    fn device(&self) -> Result<DLDevice> {
        ManagedTensor::device_of(self)
    }

    unsafe fn share(
        self: Arc<Self>,
        first: usize,
        shape: &[usize],
        consumer: Option<&Stream>,
    ) -> Result<ManagedTensor> {
        // SAFETY: the caller promises the same.
        unsafe { ManagedTensor::share(self, first, shape, consumer) }
    }
}

/// Memory to which elements are copied.
pub(crate) type Uploading = Pin<Box<dyn Future<Output = Result<Memory>> + Send>>;

/// Where memory is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Device,
    /// On the host. Devices access it.
    Pinned,
    /// Where it is used.
    Managed,
}

/// Memory that objects of Python share.
pub(crate) struct Memory {
    buffer: Arc<dyn AnyBuffer>,
    context: Context,
    id: u64,
    pub(crate) place: Place,
    pub(crate) is_read_only: bool,
    /// Taken while work that uses the memory is submitted: what the library learns of one submission before the next, if one of them
    /// writes.
    turn: Turn,
}

impl Memory {
    pub(crate) fn of<T: Element>(buffer: Buffer<T>) -> Self {
        let (context, id) = (buffer.context(), buffer.id());
        let turn = Turn::default();
        Self { buffer: Arc::new(buffer), context, id, place: Place::Device, is_read_only: false, turn }
    }

    /// Allocates pinned or managed memory, filled with zeros.
    pub(crate) fn shared(context: &Context, place: Place, dtype: DType, shape: &[usize]) -> Result<Self> {
        struct Allocate<'a>(&'a Context, Place, usize);

        impl Allocate<'_> {
            fn open<B>(&self, buffer: B, id: u64) -> Memory
            where
                B: OwnedBuffer + Send + Sync + 'static,
                B::Element: Element,
            {
                let (context, turn) = (self.0.clone(), Turn::default());
                Memory { buffer: Arc::new(buffer), context, id, place: self.1, is_read_only: false, turn }
            }
        }

        impl TypedCall for Allocate<'_> {
            type Output = Result<Memory>;

            fn call<T: Element>(self) -> Self::Output {
                if self.1 == Place::Managed {
                    let buffer = self.0.allocate_managed::<T>(self.2)?;
                    let id = buffer.id();
                    return Ok(self.open(buffer, id));
                }
                let buffer = self.0.allocate_pinned::<T>(self.2)?;
                let id = buffer.id();
                Ok(self.open(buffer, id))
            }
        }

        dtype.with(Allocate(context, place, count(dtype, shape)?))
    }

    /// Allocates zeros in stream order.
    pub(crate) fn zeroed(stream: &Stream, dtype: DType, shape: &[usize], pool: Option<&MemoryPool>) -> Result<Self> {
        struct Allocate<'a>(&'a Stream, usize, Option<&'a MemoryPool>);

        impl TypedCall for Allocate<'_> {
            type Output = Result<Memory>;

            fn call<T: Element>(self) -> Self::Output {
                match self.2 {
                    Some(pool) => self.0.allocate_zeroed_from::<T>(pool, self.1),
                    None => self.0.allocate_zeroed::<T>(self.1),
                }
                .map(Memory::of)
            }
        }

        dtype.with(Allocate(stream, count(dtype, shape)?, pool))
    }

    /// Memory that is mapped to reserved addresses.
    pub(crate) fn mapped(range: &AddressRange, offset: usize, dtype: DType, shape: &[usize]) -> Result<Self> {
        struct Open<'a>(&'a AddressRange, usize, usize);

        impl TypedCall for Open<'_> {
            type Output = Result<Memory>;

            fn call<T: Element>(self) -> Self::Output {
                // SAFETY: elements are numbers, for which all bits are values, and this module hands out no references to them. Who uses
                // the same memory at the same time is left to the program, as wherever arrays of Python share memory.
                unsafe { self.0.buffer::<T>(self.1, self.2) }.map(Memory::of)
            }
        }

        dtype.with(Open(range, offset, count(dtype, shape)?))
    }

    /// Copies bytes to new memory. Returns when they can be changed.
    pub(crate) fn uploaded(stream: &Stream, dtype: DType, bytes: &[u8]) -> Result<Self> {
        struct Upload<'a>(&'a Stream, &'a [u8]);

        impl TypedCall for Upload<'_> {
            type Output = Result<Memory>;

            fn call<T: Element>(self) -> Self::Output {
                match bytemuck::try_cast_slice(self.1) {
                    Ok(elements) => self.0.upload::<T>(elements),
                    Err(_) => self.0.upload::<T>(&pod_collect_to_vec(self.1)),
                }
                .map(Memory::of)
            }
        }

        dtype.with(Upload(stream, bytes))
    }

    /// Copies bytes to new memory. The result is given out when the copy is complete.
    pub(crate) fn uploading(stream: &Stream, dtype: DType, bytes: &[u8]) -> Uploading {
        struct Upload<'a>(&'a Stream, &'a [u8]);

        impl TypedCall for Upload<'_> {
            type Output = Uploading;

            fn call<T: Element>(self) -> Self::Output {
                let upload = match bytemuck::try_cast_slice::<u8, T>(self.1) {
                    Ok(elements) => self.0.upload_async(elements),
                    Err(_) => self.0.upload_async(pod_collect_to_vec::<u8, T>(self.1)),
                };
                Box::pin(async move { upload.await.map(Memory::of) })
            }
        }

        dtype.with(Upload(stream, bytes))
    }

    /// The memory of a tensor.
    pub(crate) fn imported(
        tensor: ManagedTensor,
        dtype: DType,
        context: &Context,
        ready: Option<&Stream>,
    ) -> Result<Self> {
        struct Import<'a>(ManagedTensor, &'a Context, Option<&'a Stream>);

        impl TypedCall for Import<'_> {
            type Output = Result<Memory>;

            fn call<T: Element>(self) -> Self::Output {
                let is_read_only = self.0.is_read_only();
                let buffer = self.0.into_buffer::<T>(self.1, self.2)?;
                Ok(Memory { is_read_only, ..Memory::of(buffer) })
            }
        }

        let shape: Vec<_> = tensor.shape().iter().map(|&extent| usize::try_from(extent).unwrap_or_default()).collect();
        count(dtype, &shape)?;
        dtype.with(Import(tensor, context, ready))
    }

    /// Memory that somebody else has allocated. `owner` is dropped on a thread that may wait for the interpreter.
    ///
    /// The garbage collector does not see it. It clears what it finds to be garbage at once, and an owner that is cleared may free the memory,
    /// which work that is pending and graphs may use: only the library knows, and asking it may wait for the interpreter. The same holds
    /// for the owner of an event or a stream, which other things have, too, and for what a tensor of DLPack keeps, of which only its producer knows.
    ///
    /// # Safety
    /// As for [`Buffer::from_raw_parts`].
    pub(crate) unsafe fn foreign(
        context: &Context,
        address: u64,
        dtype: DType,
        shape: &[usize],
        owner: Py<PyAny>,
    ) -> Result<Self> {
        struct Open<'a>(&'a Context, anabranch::DevicePointer, usize, Kept<Py<PyAny>>);

        impl TypedCall for Open<'_> {
            type Output = Result<Memory>;

            fn call<T: Element>(self) -> Self::Output {
                // SAFETY: whoever calls `foreign` promises the same.
                unsafe { Buffer::<T>::from_raw_parts(self.0, self.1, self.2, self.3) }.map(Memory::of)
            }
        }

        let owner = Kept::new(owner);
        dtype.with(Open(context, anabranch::DevicePointer(address), count(dtype, shape)?, owner))
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the host can read it, once work that uses it is complete.
    pub(crate) fn is_of_host(&self) -> bool {
        let device = self.context.device();
        match self.place {
            Place::Device => device.backend() == BackendKind::Host,
            Place::Pinned => true,
            // On others, the host must not touch it while the device does anything at all.
            Place::Managed => device.capabilities().contains(Capabilities::CONCURRENT_MANAGED_ACCESS),
        }
    }

    /// Where the memory is, in the terms of DLPack.
    pub(crate) fn device(&self) -> Result<DLDevice> {
        self.buffer.device()
    }
}

/// Memory that work uses.
pub(crate) type Use<'a> = (&'a Memory, Access);

/// The turns at all memory that work uses.
pub(crate) struct Turns<'a>(Vec<Use<'a>>);

impl<'a> Turns<'a> {
    pub(crate) fn at(uses: impl IntoIterator<Item = Use<'a>>) -> Self {
        let mut uses: Vec<_> = uses.into_iter().collect();
        // All take them in the same order, each once. A write comes before reads of the same memory, which go without saying.
        uses.sort_unstable_by_key(|&(memory, access)| (memory.id, access == Access::Read));
        uses.dedup_by_key(|&mut (memory, _)| memory.id);
        Self(uses)
    }

    /// Takes the turns, until they are dropped. `None` if others have had one of them for so long. Called without the interpreter.
    pub(crate) fn take(&self, at_most: Duration) -> Option<Vec<Taken<'a>>> {
        self.0.iter().map(|&(memory, access)| memory.turn.take(access, at_most)).collect()
    }
}

/// A part of memory, as elements in row-major order.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) memory: Arc<Memory>,
    /// In elements.
    pub(crate) first: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

impl View {
    pub(crate) fn whole(memory: Memory, dtype: DType, shape: Vec<usize>) -> Self {
        Self { memory: Arc::new(memory), first: 0, dtype, shape }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// The use of work that reads.
    pub(crate) fn read(&self) -> Use<'_> {
        (&self.memory, Access::Read)
    }

    /// The use of work that writes.
    pub(crate) fn written(&self) -> Use<'_> {
        (&self.memory, Access::Write)
    }

    /// The bytes, for work that reads.
    pub(crate) fn bytes(&self) -> Result<BufferSlice<'_, u8>> {
        let start = self.first * self.dtype.size();
        self.memory.buffer.bytes()?.slice(start..start + self.byte_len())
    }

    /// The bytes, for work that writes.
    ///
    /// # Safety
    /// As for [`BufferSlice::assume_exclusive`], except that read-only memory is refused here.
    pub(crate) unsafe fn bytes_mut(&self, operation: &'static str) -> Result<BufferSliceMut<'_, u8>> {
        if self.memory.is_read_only {
            let error = Error::argument(Status::INVALID_VALUE, operation, "the memory is read-only");
            return Err(error.with_hint("write to a copy of it"));
        }
        // SAFETY: the caller promises the same, and the memory may be written.
        Ok(unsafe { self.bytes()?.assume_exclusive() })
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> Result<u64> {
        Ok(self.bytes()?.device_pointer().0)
    }

    /// Whether two parts have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> Result<bool> {
        let (start, other_start) = (self.address()?, other.address()?);
        let is_empty = self.len() == 0 || other.len() == 0;
        let ends = (start + self.byte_len() as u64, other_start + other.byte_len() as u64);
        Ok(!is_empty && start < ends.1 && other_start < ends.0)
    }

    /// A tensor of these elements. With a consumer's stream, that stream follows all uses of the memory; the caller has the turn to write
    /// it. Without one, this waits until they are complete, and a turn would hold up others that submit.
    pub(crate) fn share(&self, consumer: Option<&Stream>) -> Result<ManagedTensor> {
        // SAFETY: this module hands out no references to elements. Who uses the memory at the same time is left to the program, as
        // wherever arrays of Python share memory.
        unsafe { self.memory.buffer.clone().share(self.first, &self.shape, consumer) }
    }
}

/// The number of elements of a shape. As in NumPy, an extent of 0 makes no room for others.
pub(crate) fn count(dtype: DType, shape: &[usize]) -> Result<usize> {
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &extent| bytes.checked_mul(extent.max(1)));
    if bytes.is_some_and(|bytes| bytes <= isize::MAX.cast_unsigned()) {
        return Ok(shape.iter().product());
    }
    let message = format!("the shape {shape:?} is larger than the address space");
    Err(Error::argument(Status::OUT_OF_MEMORY, "allocating memory", message))
}

/// A shape: a number of elements, or a sequence of extents.
pub(crate) fn extents(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let negative = |error: PyErr| {
        if is_of_program(shape.py(), &error) || !error.is_instance_of::<PyOverflowError>(shape.py()) {
            return error;
        }
        PyValueError::new_err("an extent is a number of elements: not negative, and of at most 64 bits")
    };
    if shape.hasattr("__index__")? {
        return shape.extract().map(|extent| vec![extent]).map_err(negative);
    }
    shape.extract().map(|Few(extents)| extents).map_err(negative)
}
