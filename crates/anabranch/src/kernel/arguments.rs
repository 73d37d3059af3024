//! The arguments of a launch.

use crate::error::Result;
use crate::memory::{Allocation, Buffer, BufferSlice, BufferSliceMut, ManagedBuffer, PinnedBuffer};
use crate::owned::{OwnedBuffer, Reads};
use crate::stream::{Operation, Stream};
use anabranch_hal::{Access, DeclaredRange, DevicePointer};
use bytemuck::{NoUninit, Pod};
use std::ffi::c_void;
use std::sync::Arc;

/// Memory that an argument uses.
pub struct MemoryUse {
    pub(crate) memory: Arc<Allocation>,
    pub(crate) access: Access,
}

mod sealed {
    use super::{Access, MemoryUse, Operation, Result, Stream};

    pub trait Sealed {
        /// Orders the memory behind its earlier uses, if the argument is memory.
        fn order(&self, stream: &Stream, operation: &Operation<'_>) -> Result<()>;

        /// The allocation that the argument is in, if it is memory.
        fn memory_used(&self) -> Option<MemoryUse> {
            None
        }

        /// The memory that the argument points to, as address, bytes and access.
        #[inline(always)]
        fn memory(&self) -> Option<(u64, u64, Access)> {
            None
        }
    }
}

use sealed::Sealed;

/// One argument of a launch: memory, or a plain value.
pub trait KernelArgument: Sealed {
    /// What the kernel is given: a plain value of the parameter's size.
    #[doc(hidden)]
    type Value: NoUninit;

    /// The value.
    #[doc(hidden)]
    fn value(&self) -> Self::Value;
}

/// A plain structure, or any other plain type, as an argument by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar<T>(pub T);

impl<T: NoUninit> Sealed for Scalar<T> {
    fn order(&self, _: &Stream, _: &Operation<'_>) -> Result<()> {
        Ok(())
    }
}

impl<T: NoUninit> KernelArgument for Scalar<T> {
    type Value = T;

    #[inline(always)]
    fn value(&self) -> T {
        self.0
    }
}

macro_rules! scalar_arguments {
    ($($scalar:ty)*) => { $(
        impl Sealed for $scalar {
            #[inline(always)]
            fn order(&self, _: &Stream, _: &Operation<'_>) -> Result<()> {
                Ok(())
            }
        }

        impl KernelArgument for $scalar {
            type Value = $scalar;

            #[inline(always)]
            fn value(&self) -> $scalar {
                *self
            }
        }
    )* };
}

scalar_arguments! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 bool DevicePointer }

impl<B: OwnedBuffer> Reads<B> {
    #[inline(always)]
    fn allocation(&self) -> &Arc<Allocation> {
        self.0.whole().allocation()
    }

    #[inline(always)]
    fn byte_len(&self) -> usize {
        self.0.whole().byte_len()
    }

    #[inline(always)]
    fn device_pointer(&self) -> DevicePointer {
        self.0.whole().device_pointer()
    }
}

macro_rules! memory_arguments {
    ($(<$($lifetime:lifetime,)? $element:ident> $argument:ty, $access:ident;)*) => { $(
        impl<$($lifetime,)? $element: Pod> Sealed for $argument {
            #[inline(always)]
            fn order(&self, stream: &Stream, operation: &Operation<'_>) -> Result<()> {
                let memory = self.allocation();
                memory.require_context(stream.core(), operation.name)?;
                memory.order(stream.core(), Access::$access, operation)
            }

            fn memory_used(&self) -> Option<MemoryUse> {
                Some(MemoryUse { memory: self.allocation().clone(), access: Access::$access })
            }

            #[inline(always)]
            fn memory(&self) -> Option<(u64, u64, Access)> {
                Some((self.device_pointer().0, self.byte_len() as u64, Access::$access))
            }
        }

        impl<$($lifetime,)? $element: Pod> KernelArgument for $argument {
            type Value = DevicePointer;

            #[inline(always)]
            fn value(&self) -> DevicePointer {
                self.device_pointer()
            }
        }
    )* };
}

memory_arguments! {
    <'a, T> BufferSlice<'a, T>, Read;
    <'a, T> BufferSliceMut<'a, T>, Write;
    <'a, T> &'a Buffer<T>, Read;
    <'a, T> &'a mut Buffer<T>, Write;
    <'a, T> &'a PinnedBuffer<T>, Read;
    <'a, T> &'a mut PinnedBuffer<T>, Write;
    <'a, T> &'a ManagedBuffer<T>, Read;
    <'a, T> &'a mut ManagedBuffer<T>, Write;
    <T> Buffer<T>, Write;
    <T> PinnedBuffer<T>, Write;
    <T> ManagedBuffer<T>, Write;
    <T> Reads<Buffer<T>>, Read;
    <T> Reads<PinnedBuffer<T>>, Read;
    <T> Reads<ManagedBuffer<T>>, Read;
}

/// The arguments of a launch: a tuple of up to sixteen [`KernelArgument`]s.
pub trait KernelArguments: sealed_tuple::Sealed {
    /// Orders the memory among the arguments behind its earlier uses.
    #[doc(hidden)]
    fn prepare(&self, stream: &Stream, operation: &Operation<'_>) -> Result<()>;

    /// Calls `visit` with each use of memory among the arguments.
    #[doc(hidden)]
    fn for_each_use(&self, visit: &mut dyn FnMut(MemoryUse));

    /// Calls `launch` with the addresses of the values, their sizes, and the memory they point to.
    #[doc(hidden)]
    fn with<R>(&self, launch: impl FnOnce(&[*const c_void], &[usize], &[DeclaredRange]) -> R) -> R;
}

mod sealed_tuple {
    pub trait Sealed {}
}

impl sealed_tuple::Sealed for () {}

impl KernelArguments for () {
    fn prepare(&self, _: &Stream, _: &Operation<'_>) -> Result<()> {
        Ok(())
    }

    fn for_each_use(&self, _: &mut dyn FnMut(MemoryUse)) {}

    fn with<R>(&self, launch: impl FnOnce(&[*const c_void], &[usize], &[DeclaredRange]) -> R) -> R {
        launch(&[], &[], &[])
    }
}

macro_rules! argument_tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: KernelArgument),*> sealed_tuple::Sealed for ($($name,)*) {}

        impl<$($name: KernelArgument),*> KernelArguments for ($($name,)*) {
            #[inline(always)]
            fn prepare(&self, stream: &Stream, operation: &Operation<'_>) -> Result<()> {
                $(self.$index.order(stream, operation)?;)*
                Ok(())
            }

            fn for_each_use(&self, visit: &mut dyn FnMut(MemoryUse)) {
                $(self.$index.memory_used().map(&mut *visit);)*
            }

            #[inline(always)]
            fn with<R>(&self, launch: impl FnOnce(&[*const c_void], &[usize], &[DeclaredRange]) -> R) -> R {
                const COUNT: usize = [$($index),*].len();
                let values = ($(self.$index.value(),)*);
                let pointers: [*const c_void; COUNT] = [$((&raw const values.$index).cast()),*];
                let sizes: [usize; COUNT] = [$(size_of::<$name::Value>()),*];
                let mut ranges = [DeclaredRange { argument: 0, address: 0, bytes: 0, access: Access::Read }; COUNT];
                let mut count = 0;
                $(
                    if let Some((address, bytes, access)) = self.$index.memory() {
                        ranges[count] = DeclaredRange { argument: $index, address, bytes, access };
                        count += 1;
                    }
                )*
                launch(&pointers, &sizes, &ranges[..count])
            }
        }
    };
}

argument_tuples! { A 0 }
argument_tuples! { A 0, B 1 }
argument_tuples! { A 0, B 1, C 2 }
argument_tuples! { A 0, B 1, C 2, D 3 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14 }
argument_tuples! { A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15 }
