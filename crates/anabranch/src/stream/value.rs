//! Value waits and value writes, in stream order.

use super::Stream;
use crate::context::Context;
use crate::error::Result;
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_hal::{
    BarrierScope, DevicePointer, PinnedFlags, Reduction, Value, ValueOperation, WaitValueFlags, WriteValueFlags,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The condition of a value wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitCondition {
    /// `(signed)(*address - value) >= 0`: at least `value`, with wrap-around.
    GreaterOrEqual,
    /// `*address == value`.
    Equal,
    /// `(*address & value) != 0`.
    And,
    /// `!(*address | value) != 0`. Needs `Capabilities::STREAM_WAIT_VALUE_NOR`.
    Nor,
}

impl WaitCondition {
    pub(crate) fn flags(self) -> WaitValueFlags {
        match self {
            Self::GreaterOrEqual => WaitValueFlags::GREATER_OR_EQUAL,
            Self::Equal => WaitValueFlags::EQUAL,
            Self::And => WaitValueFlags::AND,
            Self::Nor => WaitValueFlags::NOR,
        }
    }
}

/// A 64-bit number that the host and streams can read, write and wait for. Initially 0.
///
/// A stream that waits for a signal is delayed until the host or another stream sets it. The scheduler cannot see this
/// dependency, so it can deadlock where an event would not. Use an [`Event`](crate::Event) where it expresses the same
/// dependency. Set a signal before you drop it: a stream that still waits for it waits forever.
///
/// ```
/// use anabranch::WaitCondition;
/// # let context = anabranch::Instance::new()?.device("host")?.context()?;
/// let stream = context.create_stream()?;
/// let signal = context.create_signal()?;
/// stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)?;
/// assert!(!stream.query()?);
/// signal.set(1);
/// stream.synchronize()?;
/// # Ok::<(), anabranch::Error>(())
/// ```
pub struct Signal {
    memory: Arc<Allocation>,
}

impl Signal {
    /// Sets the value from the host.
    pub fn set(&self, value: u64) {
        self.atomic().store(value, Ordering::SeqCst);
    }

    /// The value as the host sees it now.
    pub fn get(&self) -> u64 {
        self.atomic().load(Ordering::SeqCst)
    }

    fn atomic(&self) -> &AtomicU64 {
        // SAFETY: the memory has 8 bytes, is aligned (pinned memory is, to pages or at least 256 bytes), lives as long
        // as `self`, and is only ever used through atomics by the host and in one piece by devices.
        unsafe { AtomicU64::from_ptr(self.memory.address().0 as usize as *mut u64) }
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.memory
    }

    fn pointer(&self) -> DevicePointer {
        self.memory.address()
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Signal({})", self.get())
    }
}

/// A wait for a signal, a change of it, or what orders them, for [`Stream::batch_signal_operations`].
#[derive(Clone, Copy, Debug)]
pub enum SignalOperation<'a> {
    /// Later operations and later work wait until the signal's value satisfies the condition.
    Wait {
        /// The signal.
        signal: &'a Signal,
        /// The condition.
        condition: WaitCondition,
        /// What the signal is compared with.
        value: u64,
    },
    /// The signal is set.
    Write {
        /// The signal.
        signal: &'a Signal,
        /// The new value.
        value: u64,
    },
    /// The signal's value is combined with another in one piece, so that several streams can do it at the same time. Needs
    /// [`Capabilities::ATOMIC_REDUCTION`](crate::Capabilities::ATOMIC_REDUCTION).
    Reduce {
        /// The signal.
        signal: &'a Signal,
        /// How the values are combined.
        reduction: Reduction,
        /// What the signal's value is combined with.
        value: u64,
    },
    /// Earlier writes of the stream are seen before later ones. Waits and writes do that by themselves.
    Barrier {
        /// Who sees them so.
        scope: BarrierScope,
    },
    /// Writes of other devices that have reached the device become visible to later work. Needs
    /// [`Capabilities::FLUSH_REMOTE_WRITES`](crate::Capabilities::FLUSH_REMOTE_WRITES).
    FlushRemoteWrites,
}

impl<'a> SignalOperation<'a> {
    fn signal(&self) -> Option<&'a Signal> {
        match self {
            Self::Wait { signal, .. } | Self::Write { signal, .. } | Self::Reduce { signal, .. } => Some(signal),
            Self::Barrier { .. } | Self::FlushRemoteWrites => None,
        }
    }

    fn operation(&self) -> ValueOperation {
        match *self {
            Self::Wait { signal, condition, value } => {
                let (address, value) = (signal.pointer(), Value::U64(value));
                ValueOperation::Wait { address, value, flags: condition.flags() }
            }
            Self::Write { signal, value } => {
                let (address, value) = (signal.pointer(), Value::U64(value));
                ValueOperation::Write { address, value, flags: WriteValueFlags::empty() }
            }
            Self::Reduce { signal, reduction, value } => {
                ValueOperation::Reduce { address: signal.pointer(), value: Value::U64(value), reduction }
            }
            Self::Barrier { scope } => ValueOperation::Barrier { scope },
            Self::FlushRemoteWrites => ValueOperation::FlushRemoteWrites,
        }
    }
}

impl Context {
    /// Creates a [`Signal`] with value 0.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if not enough memory can be pinned.
    pub fn create_signal(&self) -> Result<Signal> {
        let flags = PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP;
        let signal = Signal { memory: Arc::new(Allocation::pinned(self.core(), size_of::<u64>(), flags)?) };
        signal.set(0);
        Ok(signal)
    }
}

impl Stream {
    /// Makes later work of this stream wait until the signal's value satisfies the condition.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it wait for
    /// 64-bit values; [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the signal belongs to
    /// another driver.
    #[track_caller]
    pub fn wait_signal(&self, signal: &Signal, condition: WaitCondition, value: u64) -> Result<()> {
        let (address, value) = (signal.pointer(), Value::U64(value));
        // SAFETY: the signal's memory is aligned, and freed behind its uses, of which this is one.
        unsafe {
            self.core().wait_value(
                "waiting for a signal",
                &[MemoryAccess::read(&signal.memory)],
                address,
                value,
                condition.flags(),
            )
        }
    }

    /// Sets the signal's value in stream order: after all work queued so far.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it write 64-bit
    /// values; [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the signal belongs to another
    /// driver.
    #[track_caller]
    pub fn write_signal(&self, signal: &Signal, value: u64) -> Result<()> {
        let (address, value) = (signal.pointer(), Value::U64(value));
        // Setting it is unordered by its nature, so it counts as a read: it only keeps the memory allocated.
        // SAFETY: the signal's memory is aligned, and freed behind its uses, of which this is one.
        unsafe {
            self.core().write_value(
                "setting a signal",
                &[MemoryAccess::read(&signal.memory)],
                address,
                value,
                WriteValueFlags::empty(),
            )
        }
    }

    /// Waits for signals, sets them and combines them with numbers, in this order, by one call: cheaper than one call for each, and one node in a capture.
    /// If one of the operations is refused, none is queued. Follows `cuStreamBatchMemOp`.
    ///
    /// ```
    /// use anabranch::{SignalOperation, WaitCondition};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (stream, ready, done) = (context.create_stream()?, context.create_signal()?, context.create_signal()?);
    /// stream.batch_signal_operations(&[
    ///     SignalOperation::Wait { signal: &ready, condition: WaitCondition::Equal, value: 1 },
    ///     SignalOperation::Write { signal: &done, value: 7 },
    /// ])?;
    /// ready.set(1);
    /// stream.synchronize()?;
    /// assert_eq!(done.get(), 7);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for more than 255 operations;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it for 64-bit
    /// values, or a condition; [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if a signal belongs
    /// to another driver.
    #[track_caller]
    pub fn batch_signal_operations(&self, operations: &[SignalOperation<'_>]) -> Result<()> {
        let mut signals: Vec<&Arc<Allocation>> = Vec::with_capacity(operations.len());
        for memory in operations.iter().filter_map(|operation| Some(&operation.signal()?.memory)) {
            if !signals.iter().any(|other| Arc::ptr_eq(other, memory)) {
                signals.push(memory);
            }
        }
        let accesses: Vec<_> = signals.into_iter().map(MemoryAccess::read).collect();
        let operations: Vec<_> = operations.iter().map(SignalOperation::operation).collect();
        // SAFETY: the signals' memory is aligned, and freed behind its uses, of which these are some.
        unsafe { self.core().value_operations("waiting for and setting signals", &accesses, &operations) }
    }

    /// Waits for values, writes and combines values, in this order, by one call: cheaper than one call for each, and one node in a capture.
    /// If one of the operations is refused, none is queued. An empty batch does nothing. Follows `cuStreamBatchMemOp`; safely:
    /// [`batch_signal_operations`](Self::batch_signal_operations).
    ///
    /// # Safety
    /// The addresses are valid for the device until the operations have run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for more than 255 operations, an address that is
    /// not aligned to its value, and invalid flags; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if
    /// the device does not support an operation.
    #[track_caller]
    pub unsafe fn batch_value_operations(&self, operations: &[ValueOperation]) -> Result<()> {
        // SAFETY: the caller keeps the addresses valid until the operations have run.
        unsafe { self.core().value_operations("waiting for and writing values", &[], operations) }
    }

    /// Makes later work of this stream wait until the 32 bits at `address` satisfy the condition in `flags`.
    ///
    /// # Safety
    /// The address is valid for the device until the wait has run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the address is not aligned to 4 bytes, or the
    /// flags are invalid.
    #[track_caller]
    pub unsafe fn wait_value_32(&self, address: DevicePointer, value: u32, flags: WaitValueFlags) -> Result<()> {
        // SAFETY: the caller keeps the address valid until the wait has run.
        unsafe { self.core().wait_value("waiting for a value", &[], address, Value::U32(value), flags) }
    }

    /// Makes later work of this stream wait until the 64 bits at `address` satisfy the condition in `flags`.
    ///
    /// # Safety
    /// The address is valid for the device until the wait has run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the address is not aligned to 8 bytes, or the
    /// flags are invalid; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not
    /// support it.
    #[track_caller]
    pub unsafe fn wait_value_64(&self, address: DevicePointer, value: u64, flags: WaitValueFlags) -> Result<()> {
        // SAFETY: the caller keeps the address valid until the wait has run.
        unsafe { self.core().wait_value("waiting for a value", &[], address, Value::U64(value), flags) }
    }

    /// Writes 32 bits at `address` in stream order.
    ///
    /// # Safety
    /// The address is valid for the device until the write has run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the address is not aligned to 4 bytes, or the
    /// flags are invalid.
    #[track_caller]
    pub unsafe fn write_value_32(&self, address: DevicePointer, value: u32, flags: WriteValueFlags) -> Result<()> {
        // SAFETY: the caller keeps the address valid until the write has run.
        unsafe { self.core().write_value("writing a value", &[], address, Value::U32(value), flags) }
    }

    /// Writes 64 bits at `address` in stream order.
    ///
    /// # Safety
    /// The address is valid for the device until the write has run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the address is not aligned to 8 bytes, or the
    /// flags are invalid; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not
    /// support it.
    #[track_caller]
    pub unsafe fn write_value_64(&self, address: DevicePointer, value: u64, flags: WriteValueFlags) -> Result<()> {
        // SAFETY: the caller keeps the address valid until the write has run.
        unsafe { self.core().write_value("writing a value", &[], address, Value::U64(value), flags) }
    }
}
