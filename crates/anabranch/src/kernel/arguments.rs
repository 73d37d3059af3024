//! The arguments of a launch.

use crate::memory::{Buffer, BufferSlice, BufferSliceMut, ManagedBuffer, OwnedBuffer, PinnedBuffer, Reads};
use anabranch_core::launch::LaunchArguments;
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_hal::{Access, DeclaredRange, DevicePointer};
use bytemuck::{NoUninit, Pod};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;

pub(super) mod sealed {
    use super::{Access, Allocation, Arc};

    /// The memory that an argument points to.
    pub struct ArgumentMemory<'a> {
        pub memory: &'a Arc<Allocation>,
        pub address: u64,
        pub bytes: u64,
        pub access: Access,
    }

    pub trait Sealed {
        /// The memory that the argument points to, if it is memory.
        #[inline(always)]
        fn memory(&self) -> Option<ArgumentMemory<'_>> {
            None
        }

        /// The address, if the argument is an address and nothing else.
        #[inline(always)]
        fn address(&self) -> Option<u64> {
            None
        }
    }
}

use sealed::{ArgumentMemory, Sealed};

/// One argument of a launch: memory, or a plain value.
pub trait KernelArgument: Sealed {
    /// What the kernel receives: a plain value of the size of the parameter.
    #[doc(hidden)]
    type Value: NoUninit;

    /// The value.
    #[doc(hidden)]
    fn value(&self) -> Self::Value;
}

/// A plain structure, or a value of any other plain type, as an argument by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar<T>(pub T);

impl<T: NoUninit> Sealed for Scalar<T> {}

impl<T: NoUninit> KernelArgument for Scalar<T> {
    type Value = T;

    #[inline(always)]
    fn value(&self) -> T {
        self.0
    }
}

macro_rules! scalar_arguments {
    ($($scalar:ty)*) => { $(
        impl Sealed for $scalar {}

        impl KernelArgument for $scalar {
            type Value = $scalar;

            #[inline(always)]
            fn value(&self) -> $scalar {
                *self
            }
        }
    )* };
}

scalar_arguments! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 bool }

#[cfg(feature = "half")]
scalar_arguments! { half::f16 half::bf16 }

impl Sealed for DevicePointer {
    #[inline(always)]
    fn address(&self) -> Option<u64> {
        Some(self.0)
    }
}

impl KernelArgument for DevicePointer {
    type Value = Self;

    #[inline(always)]
    fn value(&self) -> Self {
        *self
    }
}

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
            fn memory(&self) -> Option<ArgumentMemory<'_>> {
                Some(ArgumentMemory {
                    memory: self.allocation(),
                    address: self.device_pointer().0,
                    bytes: self.byte_len() as u64,
                    access: Access::$access,
                })
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

/// The arguments of a launch: a tuple of up to sixteen [`KernelArgument`]s, or an [`ArgumentList`](super::ArgumentList) of any
/// number.
pub trait KernelArguments: sealed_tuple::Sealed {
    /// Calls `launch` with the values, their sizes, and the memory that they point to.
    #[doc(hidden)]
    fn with<R>(&self, launch: impl FnOnce(&LaunchArguments<'_>) -> R) -> R;
}

pub(super) mod sealed_tuple {
    pub trait Sealed {}
}

impl sealed_tuple::Sealed for () {}

impl KernelArguments for () {
    #[inline(always)]
    fn with<R>(&self, launch: impl FnOnce(&LaunchArguments<'_>) -> R) -> R {
        launch(&LaunchArguments { values: &[], sizes: &[], ranges: &[], accesses: &[] })
    }
}

macro_rules! argument_tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: KernelArgument),*> sealed_tuple::Sealed for ($($name,)*) {}

        impl<$($name: KernelArgument),*> KernelArguments for ($($name,)*) {
            #[inline(always)]
            fn with<R>(&self, launch: impl FnOnce(&LaunchArguments<'_>) -> R) -> R {
                const COUNT: usize = [$($index),*].len();
                let values = ($(self.$index.value(),)*);
                let pointers: [*const c_void; COUNT] = [$((&raw const values.$index).cast()),*];
                let sizes: [usize; COUNT] = [$(size_of::<$name::Value>()),*];
                let mut ranges = SmallVec::<[DeclaredRange; 16]>::new();
                let mut accesses = SmallVec::<[MemoryAccess<'_>; 16]>::new();
                $(
                    if let Some(ArgumentMemory { memory, address, bytes, access }) = self.$index.memory() {
                        ranges.push(DeclaredRange { argument: $index, address, bytes, access });
                        accesses.push(MemoryAccess { memory, access });
                    } else if let Some(address) = self.$index.address() {
                        let (bytes, access) = (DeclaredRange::TO_THE_END, Access::Write);
                        ranges.push(DeclaredRange { argument: $index, address, bytes, access });
                    }
                )*
                launch(&LaunchArguments { values: &pointers, sizes: &sizes, ranges: &ranges, accesses: &accesses })
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
