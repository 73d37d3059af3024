//! The arguments of a launch, as seen by a kernel that is a Rust closure.

use super::{DeviceElement, GlobalSlice, KernelFault};
use crate::{Access, ConditionalHandle, DeclaredRange, DevicePointer};
use bytemuck::AnyBitPattern;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};

/// The location of a global variable of the kernel's module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalRange {
    /// The name of the variable.
    pub name: String,
    /// The address.
    pub address: DevicePointer,
    /// The size in bytes.
    pub bytes: usize,
}

/// A memory range that a launch declares to use, and the size of the elements that the kernel accesses it with.
///
/// Unordered writes of different sizes to one address would be a data race even if each write is atomic. Memory that a
/// launch writes therefore has elements of a single size: that of its first [use](HostArguments::slice).
#[derive(Debug)]
pub struct UsedRange {
    declared: DeclaredRange,
    /// 0 if it is not known yet.
    element_size: AtomicU8,
}

impl UsedRange {
    /// The range as the launch declared it.
    pub fn declared(&self) -> &DeclaredRange {
        &self.declared
    }

    /// Resets the element size. The caller guarantees that all earlier uses happen before all later ones.
    pub fn forget_element_size(&self) {
        self.element_size.store(0, Ordering::Relaxed);
    }

    /// Returns whether the range may be accessed with elements of this size.
    fn admits(&self, size: usize) -> bool {
        let Ok(size) = u8::try_from(size) else { return false };
        if self.declared.access == Access::Read || self.element_size.load(Ordering::Relaxed) == size {
            return true;
        }
        let first = self.element_size.compare_exchange(0, size, Ordering::Relaxed, Ordering::Relaxed);
        first.is_ok() || first == Err(size)
    }
}

impl From<DeclaredRange> for UsedRange {
    fn from(declared: DeclaredRange) -> Self {
        Self { declared, element_size: AtomicU8::new(0) }
    }
}

/// A clone is for another launch, so its element size is not known.
impl Clone for UsedRange {
    fn clone(&self) -> Self {
        Self::from(self.declared)
    }
}

/// The conditional values of one graph launch. A driver passes them to the kernels of the launch.
pub trait ConditionalValues: fmt::Debug + Sync {
    /// Sets a value. Returns `false` if the launch has no value with that handle.
    fn set(&self, handle: ConditionalHandle, value: u32) -> bool;
}

/// The arguments of a launch, and the global variables of the kernel's module.
#[derive(Clone, Copy, Debug)]
pub struct HostArguments<'a> {
    values: &'a [u8],
    parameter_sizes: &'a [usize],
    ranges: &'a [UsedRange],
    globals: &'a [GlobalRange],
    conditionals: Option<&'a dyn ConditionalValues>,
}

impl<'a> HostArguments<'a> {
    /// Creates the arguments. For drivers. `values` contains the argument values one after the other, without padding.
    ///
    /// # Safety
    ///
    /// For the lifetime `'a`, every range of an argument or a global variable must be initialised memory of this
    /// process that is neither freed nor accessed through Rust references. Everything that executes the same launch
    /// must be given the same ranges, so that it agrees on the element sizes.
    pub unsafe fn new(
        values: &'a [u8],
        parameter_sizes: &'a [usize],
        ranges: &'a [UsedRange],
        globals: &'a [GlobalRange],
    ) -> Self {
        Self { values, parameter_sizes, ranges, globals, conditionals: None }
    }

    /// Returns the same arguments for a launch of a graph with conditional nodes.
    #[must_use]
    pub fn with_conditionals(self, conditionals: &'a dyn ConditionalValues) -> Self {
        Self { conditionals: Some(conditionals), ..self }
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.parameter_sizes.len()
    }

    /// Returns whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.parameter_sizes.is_empty()
    }

    /// Returns the value of argument `index`. It is a fault of the kernel if `T` does not have the size of the
    /// parameter.
    pub fn scalar<T: AnyBitPattern>(&self, index: usize) -> T {
        let offset: usize = self.parameter_sizes.iter().take(index).sum();
        let size = self.parameter_sizes.get(index).copied();
        match (size, self.values.get(offset..offset.saturating_add(size_of::<T>()))) {
            (Some(size), Some(bytes)) if size == size_of::<T>() => bytemuck::pod_read_unaligned(bytes),
            _ => KernelFault::trap(format!(
                "argument {index} was read as {} bytes, and the kernel declares {}",
                size_of::<T>(),
                size.map_or_else(|| "no such parameter".to_owned(), |size| size.to_string())
            ))
            .raise(),
        }
    }

    /// Returns the value of argument `index` as an address.
    pub fn pointer(&self, index: usize) -> DevicePointer {
        self.scalar(index)
    }

    /// Sets the value that determines what a conditional node runs. This is the counterpart of
    /// `cudaGraphSetConditional`. Argument `index` is the [handle](ConditionalHandle) of the value. It is a fault of
    /// the kernel if the launch has no such value.
    pub fn set_conditional(&self, index: usize, value: u32) {
        let handle = ConditionalHandle(self.scalar(index));
        if !self.conditionals.is_some_and(|conditionals| conditionals.set(handle, value)) {
            KernelFault::illegal_address(format!(
                "argument {index} was used as the handle of a conditional value, and the launch has no such value"
            ))
            .raise()
        }
    }

    /// Returns the memory that argument `index` points to, as the launch declared it.
    ///
    /// It is a fault of the kernel if the launch declared no memory for the argument, or if the memory is not aligned
    /// for `T`. It is also a fault if the launch writes the memory and the kernel already used it with elements of
    /// another size in the same stage.
    pub fn slice<T: DeviceElement>(&self, index: usize) -> GlobalSlice<'a, T> {
        let Some(used) = self.ranges.iter().find(|range| range.declared.argument as usize == index) else {
            KernelFault::illegal_address(format!(
                "argument {index} was used as memory, and is no buffer, slice or address of memory of the device; an address is a \
                 number in `launch_checked`"
            ))
            .raise()
        };
        if !used.admits(size_of::<T>()) {
            KernelFault::trap(format!(
                "argument {index} was used as elements of {} bytes, and as elements of {} bytes; use memory that is \
                 written as elements of one size",
                used.element_size.load(Ordering::Relaxed),
                size_of::<T>()
            ))
            .raise()
        }
        let range = &used.declared;
        self.memory(range.address, range.bytes as usize, range.access == Access::Write, index)
    }

    /// Returns a global variable of the kernel's module. It is a fault of the kernel if there is no variable with that
    /// name, or if the variable is not aligned for `T`.
    pub fn global<T: DeviceElement>(&self, name: &str) -> GlobalSlice<'a, T> {
        let Some(global) = self.globals.iter().find(|global| global.name == name) else {
            KernelFault::illegal_address(format!("the kernel's module has no global variable `{name}`")).raise()
        };
        self.memory(global.address.0, global.bytes, true, usize::MAX)
    }

    fn memory<T: DeviceElement>(
        &self,
        address: u64,
        bytes: usize,
        writable: bool,
        argument: usize,
    ) -> GlobalSlice<'a, T> {
        if !address.is_multiple_of(align_of::<T>() as u64) {
            KernelFault {
                status: crate::Status::MISALIGNED_ADDRESS,
                message: format!("address {address:#x} is not aligned to {} bytes", align_of::<T>()),
            }
            .raise()
        }
        GlobalSlice {
            base: if bytes == 0 { std::ptr::dangling_mut() } else { address as usize as *mut T },
            length: bytes / size_of::<T>(),
            writable,
            argument,
            memory: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    /// Returns the fault of a kernel that uses 8 bytes of memory.
    fn fault(access: Access, kernel: impl Fn(&HostArguments<'_>, &UsedRange)) -> Option<KernelFault> {
        let mut memory = [0u64; 1];
        let address = memory.as_mut_ptr() as u64;
        let range = UsedRange::from(DeclaredRange { argument: 0, address, bytes: 8, access });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let values = address.to_ne_bytes();
            // SAFETY: the memory outlives the arguments and is not touched while they are in use.
            let arguments = unsafe { HostArguments::new(&values, &[8], std::slice::from_ref(&range), &[]) };
            kernel(&arguments, &range);
        }));
        result.err().map(|payload| *payload.downcast().unwrap())
    }

    #[test]
    fn memory_that_is_written_has_elements_of_one_size() {
        let two_sizes = |arguments: &HostArguments<'_>, _: &UsedRange| {
            let (halves, whole) = (arguments.slice::<u32>(0), arguments.slice::<u64>(0));
            assert_eq!((halves.len(), whole.len()), (2, 1));
        };
        assert_eq!(fault(Access::Read, two_sizes), None);
        assert_eq!(fault(Access::Write, two_sizes).unwrap().status, Status::LAUNCH_FAILED);
        assert_eq!(
            fault(Access::Write, |arguments, range| {
                arguments.slice::<u32>(0).set(1, 7);
                arguments.slice::<f32>(0).set(1, 7.0);
                range.forget_element_size();
                assert_eq!(arguments.slice::<u8>(0).len(), 8);
                assert_eq!(range.clone().declared(), range.declared());
            }),
            None
        );
    }
}
