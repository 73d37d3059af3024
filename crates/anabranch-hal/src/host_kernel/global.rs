//! Device memory, as seen by a kernel that is a Rust closure.

use super::KernelFault;
use bytemuck::Pod;
#[cfg(feature = "half")]
use half::{bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

mod sealed {
    pub trait Sealed {}
}

/// A number type that device memory can hold and that can be read and written atomically: the integers and floating-point
/// numbers of 8 to 64 bits, with the feature `half` also `f16` and `bf16` of that crate.
pub trait DeviceElement: Pod + Send + Sync + sealed::Sealed {
    /// Reads the element atomically.
    ///
    /// # Safety
    ///
    /// `address` must be valid for reads, aligned and initialised. While this runs, the element may only be written
    /// atomically.
    #[doc(hidden)]
    unsafe fn load(address: *const Self) -> Self;

    /// Writes the element atomically.
    ///
    /// # Safety
    ///
    /// `address` must be valid for writes and aligned. While this runs, the element may only be accessed atomically.
    #[doc(hidden)]
    unsafe fn store(address: *mut Self, value: Self);

    /// Replaces `current` with `new` atomically. Fails with the value that is there if it is not `current`.
    ///
    /// # Safety
    ///
    /// The requirements of [`store`](Self::store) apply.
    #[doc(hidden)]
    unsafe fn compare_exchange(address: *mut Self, current: Self, new: Self) -> Result<Self, Self>;
}

macro_rules! device_elements {
    ($($atomic:ident $bits:ident: $($element:ident)*;)*) => { $($(
        impl sealed::Sealed for $element {}

        impl DeviceElement for $element {
            #[inline(always)]
            unsafe fn load(address: *const Self) -> Self {
                // SAFETY: the caller promises that an element is there, of which the atomic has the size and alignment.
                let atomic = unsafe { $atomic::from_ptr(address.cast_mut().cast()) };
                bytemuck::cast::<$bits, $element>(atomic.load(Ordering::Relaxed))
            }

            #[inline(always)]
            unsafe fn store(address: *mut Self, value: Self) {
                // SAFETY: the caller promises that an element is there, of which the atomic has the size and alignment.
                let atomic = unsafe { $atomic::from_ptr(address.cast()) };
                atomic.store(bytemuck::cast::<$element, $bits>(value), Ordering::Relaxed);
            }

            #[inline(always)]
            unsafe fn compare_exchange(address: *mut Self, current: Self, new: Self) -> Result<Self, Self> {
                // SAFETY: the caller promises that an element is there, of which the atomic has the size and alignment.
                let atomic = unsafe { $atomic::from_ptr(address.cast()) };
                atomic
                    .compare_exchange(
                        bytemuck::cast::<$element, $bits>(current),
                        bytemuck::cast::<$element, $bits>(new),
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    )
                    .map(|bits| bytemuck::cast::<$bits, $element>(bits))
                    .map_err(|bits| bytemuck::cast::<$bits, $element>(bits))
            }
        }
    )*)* };
}

device_elements! {
    AtomicU8 u8: u8 i8;
    AtomicU16 u16: u16 i16;
    AtomicU32 u32: u32 i32 f32;
    AtomicU64 u64: u64 i64 f64;
}

#[cfg(feature = "half")]
device_elements! {
    AtomicU16 u16: f16 bf16;
}

/// Device memory that a launch passed to a kernel.
///
/// Blocks that run concurrently may access the same memory. Elements are read and written atomically, so a kernel with
/// a race reads unspecified values, as on a GPU, but has no undefined behaviour.
///
/// An access out of range, or a write to memory that the launch declares to read only, is a fault:
/// `CUDA_ERROR_ILLEGAL_ADDRESS (700)`. The context is lost, as on a GPU.
#[derive(Clone, Copy, Debug)]
pub struct GlobalSlice<'a, T> {
    pub(super) base: *mut T,
    pub(super) length: usize,
    pub(super) writable: bool,
    pub(super) argument: usize,
    pub(super) memory: PhantomData<&'a T>,
}

// SAFETY: safe methods access the memory only atomically, and the callers of the unsafe ones guarantee exclusive
// access. The creator of the slice guaranteed that the memory remains valid for `'a`.
unsafe impl<T: DeviceElement> Send for GlobalSlice<'_, T> {}
// SAFETY: threads that share the slice access the memory atomically, or guarantee exclusive access.
unsafe impl<T: DeviceElement> Sync for GlobalSlice<'_, T> {}

impl<'a, T: DeviceElement> GlobalSlice<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Reads an element.
    #[inline(always)]
    pub fn get(&self, index: usize) -> T {
        if index >= self.length {
            self.outside(index)
        }
        // SAFETY: the index is in range, and the range is live, aligned, initialised memory (contract of
        // `HostArguments::new` and check of `HostArguments::slice`).
        unsafe { T::load(self.base.add(index)) }
    }

    /// Writes an element.
    #[inline(always)]
    pub fn set(&self, index: usize, value: T) {
        if index >= self.length {
            self.outside(index)
        }
        if !self.writable {
            self.read_only()
        }
        // SAFETY: as in `get`, and the launch declared that it writes here.
        unsafe { T::store(self.base.add(index), value) }
    }

    /// Replaces an element with the result of `update`, atomically with respect to other blocks. Returns the previous
    /// value. Use this in place of `atomicAdd` and similar functions. `update` may be called several times.
    pub fn fetch_update(&self, index: usize, mut update: impl FnMut(T) -> T) -> T {
        let mut current = self.get(index);
        if !self.writable {
            self.read_only()
        }
        loop {
            // SAFETY: as in `set`; `get` has checked the index.
            match unsafe { T::compare_exchange(self.base.add(index), current, update(current)) } {
                Ok(previous) => return previous,
                Err(other) => current = other,
            }
        }
    }

    /// Returns the elements of `range` as a slice, which is faster.
    ///
    /// # Safety
    ///
    /// Nothing may write the elements while the slice is in use. The closure must ensure this for [every
    /// launch](super::HostFunction::new).
    pub unsafe fn as_slice(&self, range: Range<usize>) -> &'a [T] {
        self.check(&range);
        // SAFETY: the range was checked, and the caller promises that nothing writes it while the slice is in use.
        unsafe { std::slice::from_raw_parts(self.base.add(range.start), range.len()) }
    }

    /// Returns the elements of `range` as a mutable slice, which is faster.
    ///
    /// # Safety
    ///
    /// Nothing else may read or write the elements while the slice is in use. The closure must ensure this for [every
    /// launch](super::HostFunction::new): other blocks run at the same time, in x, y and z.
    #[allow(clippy::mut_from_ref, reason = "exclusion is the caller's word")]
    pub unsafe fn as_mut_slice(&self, range: Range<usize>) -> &'a mut [T] {
        self.check(&range);
        if !self.writable {
            self.read_only()
        }
        // SAFETY: the range was checked, and the caller promises that nothing else accesses it while the slice is in use.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(range.start), range.len()) }
    }

    fn check(&self, range: &Range<usize>) {
        if range.start > range.end || range.end > self.length {
            self.outside(range.end)
        }
    }

    #[cold]
    #[inline(never)]
    fn outside(&self, index: usize) -> ! {
        KernelFault::illegal_address(format!(
            "element {index} of {} is outside of its {} elements",
            self.place(),
            self.length
        ))
        .raise()
    }

    #[cold]
    #[inline(never)]
    fn read_only(&self) -> ! {
        KernelFault::illegal_address(format!(
            "{} was written, and the launch declares that it is only read",
            self.place()
        ))
        .raise()
    }

    fn place(&self) -> String {
        if self.argument == usize::MAX { "a global variable".to_owned() } else { format!("argument {}", self.argument) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HostArguments, UsedRange};
    use super::*;
    use crate::{Access, DeclaredRange, Status};

    fn with_slice<R>(access: Access, body: impl FnOnce(GlobalSlice<'_, f32>) -> R) -> (R, Vec<f32>) {
        let mut memory = vec![1.0f32, 2.0, 3.0];
        let range =
            UsedRange::from(DeclaredRange { argument: 0, address: memory.as_mut_ptr() as u64, bytes: 12, access });
        let values = (memory.as_mut_ptr() as u64).to_ne_bytes();
        // SAFETY: the vector outlives the arguments and is not touched while they are in use.
        let arguments = unsafe { HostArguments::new(&values, &[8], std::slice::from_ref(&range), &[]) };
        let result = body(arguments.slice(0));
        (result, memory)
    }

    #[test]
    fn elements_are_read_written_and_updated() {
        let (previous, memory) = with_slice(Access::Write, |slice| {
            slice.set(0, slice.get(2));
            slice.fetch_update(1, |value| value + 0.5)
        });
        assert_eq!(previous, 2.0);
        assert_eq!(memory, [3.0, 2.5, 3.0]);
    }

    #[test]
    fn outside_and_read_only_are_faults() {
        for (access, index) in [(Access::Write, 3), (Access::Read, 0)] {
            let fault = std::panic::catch_unwind(|| with_slice(access, |slice| slice.set(index, 0.0))).unwrap_err();
            assert_eq!(fault.downcast_ref::<KernelFault>().unwrap().status, Status::ILLEGAL_ADDRESS);
        }
    }
}
