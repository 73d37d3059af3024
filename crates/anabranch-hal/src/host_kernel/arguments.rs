//! The arguments of a launch, as a host kernel sees them.

use super::{DeviceElement, GlobalSlice, KernelFault};
use crate::{Access, ConditionalHandle, DeclaredRange, DevicePointer};
use bytemuck::AnyBitPattern;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};

/// Where a global variable of the kernel's module lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalRange {
    /// The variable's name.
    pub name: String,
    /// Its address.
    pub address: DevicePointer,
    /// Its size in bytes.
    pub bytes: usize,
}

/// Memory that a launch declares to use, and the size of the elements as which the kernel uses it.
///
/// Writes of elements of different sizes to the same place, unordered, would be a data race even where each is in one
/// piece. So memory that a launch writes has elements of one size: that of its first [use](HostArguments::slice).
#[derive(Debug)]
pub struct UsedRange {
    declared: DeclaredRange,
    /// 0 until it is known.
    element_size: AtomicU8,
}

impl UsedRange {
    /// What was declared.
    pub fn declared(&self) -> &DeclaredRange {
        &self.declared
    }

    /// Forgets the size of the elements. Uses from here on come after all uses before.
    pub fn forget_element_size(&self) {
        self.element_size.store(0, Ordering::Relaxed);
    }

    /// Whether elements of this size may be used.
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

/// A copy is for another launch.
impl Clone for UsedRange {
    fn clone(&self) -> Self {
        Self::from(self.declared)
    }
}

/// The values that conditional nodes ask for, as a driver gives them to the kernels of one launch of a graph.
pub trait ConditionalValues: fmt::Debug + Sync {
    /// Sets a value. `false`: the launch has none of that handle.
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
    /// The arguments as a driver makes them: the values one after the other without padding.
    ///
    /// # Safety
    /// For as long as `'a`, every range, of an argument or of a global variable, is memory of this process, is initialised,
    /// and is neither freed nor reached through Rust references; and all that run the same launch are given the same
    /// ranges, so that they agree on the sizes of elements.
    pub unsafe fn new(
        values: &'a [u8],
        parameter_sizes: &'a [usize],
        ranges: &'a [UsedRange],
        globals: &'a [GlobalRange],
    ) -> Self {
        Self { values, parameter_sizes, ranges, globals, conditionals: None }
    }

    /// The same arguments, in a launch of a graph with conditional nodes.
    #[must_use]
    pub fn with_conditionals(self, conditionals: &'a dyn ConditionalValues) -> Self {
        Self { conditionals: Some(conditionals), ..self }
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.parameter_sizes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parameter_sizes.is_empty()
    }

    /// The value of argument `index`, a plain value. Another size than the parameter's is a fault of the kernel.
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

    /// The address that argument `index` is.
    pub fn pointer(&self, index: usize) -> DevicePointer {
        self.scalar(index)
    }

    /// Sets the value that decides what a conditional node runs; the counterpart of `cudaGraphSetConditional`. Argument
    /// `index` is the value's [handle](ConditionalHandle). It is a fault of the kernel if the launch has no such value.
    pub fn set_conditional(&self, index: usize, value: u32) {
        let handle = ConditionalHandle(self.scalar(index));
        if !self.conditionals.is_some_and(|conditionals| conditionals.set(handle, value)) {
            KernelFault::illegal_address(format!(
                "argument {index} was used as the handle of a conditional value, and the launch has no such value"
            ))
            .raise()
        }
    }

    /// The memory that argument `index` points to, as declared by the launch. It is a fault of the kernel if the launch
    /// declared none for it, if the memory is not aligned for `T`, or if it is to be written and was used with elements of
    /// another size in the same stage of the kernel.
    pub fn slice<T: DeviceElement>(&self, index: usize) -> GlobalSlice<'a, T> {
        let Some(used) = self.ranges.iter().find(|range| range.declared.argument as usize == index) else {
            KernelFault::illegal_address(format!(
                "argument {index} was used as memory, and the launch declares no memory for it"
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

    /// A global variable of the kernel's module, by name. It is a fault of the kernel if there is none, or if it is not
    /// aligned for `T`.
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

    /// The fault of a kernel that uses memory of 8 bytes.
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
