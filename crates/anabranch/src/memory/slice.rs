//! Views of parts of buffers.

use crate::error::{Error, Result};
use anabranch_core::memory::Allocation;
use anabranch_core::work::CopyEnd;
use anabranch_hal::{DevicePointer, Status};
use bytemuck::Pod;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A part of a buffer, for work that reads it. Cheap to copy.
pub struct BufferSlice<'a, T> {
    memory: &'a Arc<Allocation>,
    offset: usize,
    length: usize,
    element: PhantomData<&'a [T]>,
}

/// A part of a buffer, for work that writes it.
pub struct BufferSliceMut<'a, T> {
    slice: BufferSlice<'a, T>,
    exclusive: PhantomData<&'a mut [T]>,
}

impl<T> Clone for BufferSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BufferSlice<'_, T> {}

impl<'a, T: Pod> BufferSlice<'a, T> {
    pub(crate) fn whole(memory: &'a Arc<Allocation>, length: usize) -> Self {
        Self { memory, offset: 0, length, element: PhantomData }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The size in bytes.
    pub fn byte_len(&self) -> usize {
        self.length * size_of::<T>()
    }

    /// The address of the first element. If you pass it to the driver yourself, the library does not order that use
    /// between streams.
    pub fn device_pointer(&self) -> DevicePointer {
        self.memory.address().byte_add(self.offset)
    }

    /// A part of this slice, in elements.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the range extends past the end.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.length,
        };
        if start > end || end > self.length {
            return Err(Error::argument(
                Status::INVALID_VALUE,
                "slicing a buffer",
                format!("elements {start} to {end} are not within its {} elements", self.length),
            ));
        }
        Ok(Self { offset: self.offset + start * size_of::<T>(), length: end - start, ..*self })
    }

    /// The same memory as elements of another plain type.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the address is not aligned for them, or if the
    /// bytes are not those of a whole number of them.
    pub fn cast<U: Pod>(&self) -> Result<BufferSlice<'a, U>> {
        let (bytes, address) = (self.byte_len(), self.device_pointer());
        let refused = |message| Err(Error::argument(Status::INVALID_VALUE, "casting a slice of a buffer", message));
        let length = match size_of::<U>() {
            0 if bytes == 0 => self.length,
            0 => return refused(format!("elements of no size cannot stand for {bytes} bytes")),
            size if !bytes.is_multiple_of(size) => {
                return refused(format!("{bytes} bytes are no whole number of elements of {size} bytes"));
            }
            size => bytes / size,
        };
        if !address.0.is_multiple_of(align_of::<U>() as u64) {
            return refused(format!("{address:?} is not aligned to the {} bytes of the elements", align_of::<U>()));
        }
        Ok(BufferSlice { memory: self.memory, offset: self.offset, length, element: PhantomData })
    }

    /// The same slice, for work that writes. For bindings of languages that have no exclusive borrows.
    ///
    /// # Safety
    /// While a call submits work with the result, no other call submits work that uses the memory. In a copy, the result and the
    /// source do not overlap. Nobody has a reference to the elements, such as that of
    /// [`PinnedBuffer::as_slice`](crate::PinnedBuffer::as_slice), from then on until the work is complete. Nobody writes memory that
    /// is read-only.
    pub unsafe fn assume_exclusive(self) -> BufferSliceMut<'a, T> {
        BufferSliceMut { slice: self, exclusive: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
        self.memory
    }

    /// The slice as one end of a copy.
    #[inline(always)]
    pub(crate) fn end(&self) -> CopyEnd<'a> {
        CopyEnd { memory: self.memory, address: self.device_pointer() }
    }
}

impl<'a, T: Pod> BufferSliceMut<'a, T> {
    /// `memory` is borrowed mutably by the caller for `'a`.
    pub(crate) fn whole(memory: &'a Arc<Allocation>, length: usize) -> Self {
        Self { slice: BufferSlice::whole(memory, length), exclusive: PhantomData }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// The size in bytes.
    pub fn byte_len(&self) -> usize {
        self.slice.byte_len()
    }

    /// The address of the first element; see [`BufferSlice::device_pointer`].
    pub fn device_pointer(&self) -> DevicePointer {
        self.slice.device_pointer()
    }

    /// A part of this slice, in elements.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the range extends past the end.
    pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
        Ok(Self { slice: self.slice.slice(range)?, exclusive: PhantomData })
    }

    /// Splits the slice in two: the elements before `index`, and the rest. The library orders uses of whole buffers:
    /// work on two parts in two streams does not overlap. Use separate buffers for parts whose work should overlap.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if there are fewer than `index` elements.
    pub fn split_at(self, index: usize) -> Result<(Self, Self)> {
        let (head, tail) = (self.slice.slice(..index)?, self.slice.slice(index..)?);
        Ok((Self { slice: head, exclusive: PhantomData }, Self { slice: tail, exclusive: PhantomData }))
    }

    /// The same memory as elements of another plain type.
    ///
    /// # Errors
    /// Same as [`BufferSlice::cast`].
    pub fn cast<U: Pod>(self) -> Result<BufferSliceMut<'a, U>> {
        Ok(BufferSliceMut { slice: self.slice.cast()?, exclusive: PhantomData })
    }

    /// The same slice, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> BufferSliceMut<'_, T> {
        BufferSliceMut { slice: self.slice, exclusive: PhantomData }
    }

    /// The same slice, for reading.
    pub fn as_slice(&self) -> BufferSlice<'_, T> {
        self.slice
    }

    #[inline(always)]
    pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
        self.slice.memory
    }

    /// The slice as one end of a copy.
    #[inline(always)]
    pub(crate) fn end(&self) -> CopyEnd<'a> {
        self.slice.end()
    }
}

impl<'a, T: Pod> From<BufferSliceMut<'a, T>> for BufferSlice<'a, T> {
    fn from(slice: BufferSliceMut<'a, T>) -> Self {
        slice.slice
    }
}

impl<T> fmt::Debug for BufferSlice<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BufferSlice(+{} bytes, {} elements of {:?})", self.offset, self.length, self.memory)
    }
}

impl<T> fmt::Debug for BufferSliceMut<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Mut({:?})", self.slice)
    }
}

/// Methods of all three kinds of buffers: types with an [`Allocation`] in a field `memory`, and a `length`.
macro_rules! buffer_methods {
    ($buffer:ident) => {
        impl<T: bytemuck::Pod> $buffer<T> {
            /// The number of elements.
            pub fn len(&self) -> usize {
                self.length
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.length == 0
            }

            /// The size in bytes.
            pub fn byte_len(&self) -> usize {
                self.length * size_of::<T>()
            }

            /// The address of the first element. If you pass it to the driver yourself, the library does not order that
            /// use between streams.
            pub fn device_pointer(&self) -> anabranch_hal::DevicePointer {
                self.memory.address()
            }

            #[inline(always)]
            pub(crate) fn allocation(&self) -> &std::sync::Arc<anabranch_core::memory::Allocation> {
                &self.memory
            }

            /// An id that is unique among all objects of this process and never reused.
            pub fn id(&self) -> u64 {
                self.memory.label().id().get()
            }

            /// Names the memory, for layers of the driver. Only the first name is kept. Returns whether this is the
            /// first.
            #[track_caller]
            pub fn set_name(&self, name: &str) -> bool {
                self.memory.label().set_name(self.memory.context(), name)
            }

            /// The context that it was allocated in.
            pub fn context(&self) -> crate::context::Context {
                crate::context::Context::from_core(self.memory.context().clone())
            }

            /// A part of the buffer, in elements, for work that reads.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the range extends past the end.
            pub fn slice(
                &self,
                range: impl std::ops::RangeBounds<usize>,
            ) -> crate::error::Result<crate::memory::BufferSlice<'_, T>> {
                crate::memory::BufferSlice::from(self).slice(range)
            }

            /// A part of the buffer, in elements, for work that writes. The library orders uses of whole buffers: work
            /// on two parts in two streams does not overlap. Use separate buffers for parts whose work should overlap.
            ///
            /// # Errors
            /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the range extends past the end.
            pub fn slice_mut(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
            ) -> crate::error::Result<crate::memory::BufferSliceMut<'_, T>> {
                crate::memory::BufferSliceMut::from(self).slice(range)
            }
        }

        impl<'a, T: bytemuck::Pod> From<&'a $buffer<T>> for crate::memory::BufferSlice<'a, T> {
            fn from(buffer: &'a $buffer<T>) -> Self {
                crate::memory::BufferSlice::whole(&buffer.memory, buffer.length)
            }
        }

        impl<'a, T: bytemuck::Pod> From<&'a mut $buffer<T>> for crate::memory::BufferSlice<'a, T> {
            fn from(buffer: &'a mut $buffer<T>) -> Self {
                crate::memory::BufferSlice::whole(&buffer.memory, buffer.length)
            }
        }

        impl<'a, T: bytemuck::Pod> From<&'a mut $buffer<T>> for crate::memory::BufferSliceMut<'a, T> {
            fn from(buffer: &'a mut $buffer<T>) -> Self {
                crate::memory::BufferSliceMut::whole(&buffer.memory, buffer.length)
            }
        }

        impl<T> std::fmt::Debug for $buffer<T> {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, concat!(stringify!($buffer), "({} elements at {:?})"), self.length, self.memory)
            }
        }
    };
}

pub(super) use buffer_methods;
