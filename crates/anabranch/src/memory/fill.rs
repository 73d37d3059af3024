//! Filling memory.

use super::BufferSliceMut;
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::MemoryAccess;
use anabranch_hal::{DevicePointer, FillPattern};
use bytemuck::Pod;
#[cfg(feature = "half")]
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// An element type that memory can be filled with, of 8, 16, 32 or 64 bits. With the feature `half`, `f16` and `bf16` are too.
pub trait FillElement: Pod + sealed::Sealed {
    /// The element's bits.
    #[doc(hidden)]
    fn pattern(self) -> FillPattern;
}

macro_rules! fill_elements {
    ($($pattern:ident $bits:ident: $($element:ident)*;)*) => { $($(
        impl sealed::Sealed for $element {}

        impl FillElement for $element {
            fn pattern(self) -> FillPattern {
                FillPattern::$pattern(bytemuck::cast::<$element, $bits>(self))
            }
        }
    )*)* };
}

fill_elements! {
    U8 u8: u8 i8;
    U16 u16: u16 i16;
    U32 u32: u32 i32 f32;
    U64 u64: u64 i64 f64;
}

#[cfg(feature = "half")]
fill_elements! {
    U16 u16: f16 bf16;
}

impl Stream {
    /// Sets every element to `value`, in stream order, and returns at once.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the buffer belongs to another context.
    #[track_caller]
    pub fn fill<'d, T: FillElement>(&self, destination: impl Into<BufferSliceMut<'d, T>>, value: T) -> Result<()> {
        let destination = destination.into();
        self.fill_pattern(&destination, value.pattern(), destination.len())
    }

    /// Sets every byte to zero, in stream order, and returns at once.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the buffer belongs to another context.
    #[track_caller]
    pub fn fill_zero<'d, T: Pod>(&self, destination: impl Into<BufferSliceMut<'d, T>>) -> Result<()> {
        let destination = destination.into();
        self.fill_pattern(&destination, FillPattern::U8(0), destination.byte_len())
    }

    #[track_caller]
    fn fill_pattern<T: Pod>(
        &self,
        destination: &BufferSliceMut<'_, T>,
        pattern: FillPattern,
        count: usize,
    ) -> Result<()> {
        let accesses = [MemoryAccess::write(destination.allocation())];
        if count == 0 {
            return destination.allocation().require_context(self.core(), "filling");
        }
        // SAFETY: the range is within its memory, which is freed behind its uses, of which this is one.
        unsafe { self.core().fill(&accesses, destination.device_pointer(), pattern, count) }
    }

    /// Fills `count` elements of the pattern's width at `address` in stream order. The library does not order the fill
    /// with other uses of the memory.
    ///
    /// # Safety
    /// The range is valid until the fill has run. The caller orders it with other uses of the memory.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the range is not within an allocation, or not
    /// aligned to the pattern's width.
    #[track_caller]
    pub unsafe fn fill_raw(&self, address: DevicePointer, pattern: FillPattern, count: usize) -> Result<()> {
        // SAFETY: the caller keeps the range valid until the fill has run, and orders it with other uses.
        unsafe { self.core().fill(&[], address, pattern, count) }
    }
}
