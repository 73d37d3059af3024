//! The arguments of a launch, as a host kernel sees them.

use super::{DeviceElement, GlobalSlice, KernelFault};
use crate::{Access, ConditionalHandle, DeclaredRange, DevicePointer};
use bytemuck::AnyBitPattern;
use std::fmt;
use std::marker::PhantomData;

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
    ranges: &'a [DeclaredRange],
    globals: &'a [GlobalRange],
    conditionals: Option<&'a dyn ConditionalValues>,
}

impl<'a> HostArguments<'a> {
    /// The arguments as a driver makes them: the values one after the other without padding.
    ///
    /// # Safety
    /// For as long as `'a`, every range, of an argument or of a global variable, is memory of this process, is initialised, and is neither freed nor reached
    /// through Rust references.
    pub unsafe fn new(
        values: &'a [u8],
        parameter_sizes: &'a [usize],
        ranges: &'a [DeclaredRange],
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
    /// declared none for it, or if the memory is not aligned for `T`.
    pub fn slice<T: DeviceElement>(&self, index: usize) -> GlobalSlice<'a, T> {
        let Some(range) = self.ranges.iter().find(|range| range.argument as usize == index) else {
            KernelFault::illegal_address(format!(
                "argument {index} was used as memory, and the launch declares no memory for it"
            ))
            .raise()
        };
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
