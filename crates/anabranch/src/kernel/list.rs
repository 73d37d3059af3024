//! Arguments whose number or types are known only at run time.

use super::KernelArguments;
use super::arguments::sealed::ArgumentMemory;
use super::arguments::{KernelArgument, sealed_tuple};
use anabranch_core::launch::LaunchArguments;
use anabranch_core::memory::MemoryAccess;
use anabranch_hal::{Access, DeclaredRange};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;

/// Arguments of a launch whose number or types are known only at run time, or that are more than a tuple has.
///
/// A list is used like a tuple, by value or by reference, and each argument means the same as in a tuple.
///
/// ```
/// use anabranch::{ArgumentList, DualModule, HostFunction, LaunchConfig};
///
/// let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
/// let function = HostFunction::new("sum", &[8, 4, 4], |_, arguments| {
///     arguments.slice::<u32>(0).set(0, arguments.scalar::<u32>(1) + arguments.scalar::<u32>(2));
/// });
/// let kernel = DualModule::new().host_function(function).load(&stream.context())?.kernel("sum")?;
/// let mut sum = stream.allocate_zeroed::<u32>(1)?;
/// let mut arguments = ArgumentList::new();
/// arguments.push(&mut sum);
/// for number in [2u32, 3] {
///     arguments.push(number);
/// }
/// stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), arguments)?;
/// assert_eq!(stream.download(&sum)?, [5]);
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Default)]
pub struct ArgumentList<'a> {
    arguments: Vec<Box<dyn Listed + 'a>>,
}

impl<'a> ArgumentList<'a> {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an argument at the end.
    pub fn push(&mut self, argument: impl KernelArgument<Value: Send> + Send + 'a) {
        let value = argument.value();
        self.arguments.push(Box::new(Typed { argument, value }));
    }

    /// Adds an argument by the bytes of its value, which is a plain one. No kernel has more than 32,764 bytes of parameters: of a
    /// longer value one byte more than that is kept, and launches refuse it.
    pub fn push_bytes(&mut self, value: &[u8]) {
        let value = &value[..value.len().min(MOST_BYTES + 1)];
        let mut lines = vec![0u128; value.len().div_ceil(size_of::<u128>())];
        bytemuck::cast_slice_mut(&mut lines)[..value.len()].copy_from_slice(value);
        self.arguments.push(Box::new(Bytes { lines, size: value.len() }));
    }

    /// The number of arguments.
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }
}

impl fmt::Debug for ArgumentList<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ArgumentList({} arguments)", self.len())
    }
}

/// The bytes of all parameters of a kernel, at most.
const MOST_BYTES: usize = 32_764;

/// An argument of any type.
trait Listed: Send {
    /// Where the value is, and its size.
    fn value(&self) -> (*const c_void, usize);

    fn memory(&self) -> Option<ArgumentMemory<'_>> {
        None
    }

    fn address(&self) -> Option<u64> {
        None
    }
}

/// An argument with its value, which stays where it is until the launch has copied it.
struct Typed<A: KernelArgument> {
    argument: A,
    value: A::Value,
}

impl<A: KernelArgument<Value: Send> + Send> Listed for Typed<A> {
    fn value(&self) -> (*const c_void, usize) {
        ((&raw const self.value).cast(), size_of::<A::Value>())
    }

    fn memory(&self) -> Option<ArgumentMemory<'_>> {
        self.argument.memory()
    }

    fn address(&self) -> Option<u64> {
        self.argument.address()
    }
}

/// A value of unknown type, aligned as any.
struct Bytes {
    lines: Vec<u128>,
    size: usize,
}

impl Listed for Bytes {
    fn value(&self) -> (*const c_void, usize) {
        (self.lines.as_ptr().cast(), self.size)
    }
}

impl sealed_tuple::Sealed for &ArgumentList<'_> {}

impl KernelArguments for &ArgumentList<'_> {
    fn with<R>(&self, launch: impl FnOnce(&LaunchArguments<'_>) -> R) -> R {
        let (values, sizes): (Vec<_>, Vec<_>) = self.arguments.iter().map(|argument| argument.value()).unzip();
        let mut ranges = SmallVec::<[DeclaredRange; 16]>::new();
        let mut accesses = SmallVec::<[MemoryAccess<'_>; 16]>::new();
        for (argument, listed) in (0..).zip(&self.arguments) {
            if let Some(ArgumentMemory { memory, address, bytes, access }) = listed.memory() {
                ranges.push(DeclaredRange { argument, address, bytes, access });
                accesses.push(MemoryAccess { memory, access });
            } else if let Some(address) = listed.address() {
                let (bytes, access) = (DeclaredRange::TO_THE_END, Access::Write);
                ranges.push(DeclaredRange { argument, address, bytes, access });
            }
        }
        launch(&LaunchArguments { values: &values, sizes: &sizes, ranges: &ranges, accesses: &accesses })
    }
}

impl sealed_tuple::Sealed for ArgumentList<'_> {}

impl KernelArguments for ArgumentList<'_> {
    fn with<R>(&self, launch: impl FnOnce(&LaunchArguments<'_>) -> R) -> R {
        (&self).with(launch)
    }
}
