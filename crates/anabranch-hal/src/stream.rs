//! Streams (Driver API, groups STREAM, EXEC for host functions, MEMOP for value operations).

use crate::{
    Call, Callback, ContextHandle, DeviceOrdinal, DevicePointer, EventHandle, EventWaitFlags, HostWork, Live, Result,
    StreamHandle,
};
use bitflags::bitflags;

bitflags! {
    /// Flags for creating a stream (`CUstream_flags`). The driver refuses unknown bits with
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct StreamFlags: u32 {
        /// The stream neither waits for the legacy default stream nor is waited for by it.
        const NON_BLOCKING = 0x1;
    }

    /// The condition of a value wait (`CUstreamWaitValue_flags`). The two lowest bits are a number that selects the
    /// condition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct WaitValueFlags: u32 {
        /// `(signed)(*address - value) >= 0`, with wrap-around.
        const GREATER_OR_EQUAL = 0x0;
        /// `*address == value`.
        const EQUAL = 0x1;
        /// `(*address & value) != 0`.
        const AND = 0x2;
        /// `!(*address | value) != 0`, if the device supports it.
        const NOR = 0x3;
        /// Also makes writes of other devices visible that precede the write that ends the wait.
        const FLUSH = 1 << 30;
    }

    /// Flags for writing a value (`CUstreamWriteValue_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct WriteValueFlags: u32 {
        /// Omits the memory barrier that otherwise orders the write after earlier writes of the stream.
        const NO_MEMORY_BARRIER = 0x1;
    }
}

/// The value of a value operation. It also determines the width of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// 32 bits.
    U32(u32),
    /// 64 bits.
    U64(u64),
}

impl Value {
    /// The width of the operation in bytes. The address must be aligned to it.
    pub const fn width(self) -> u64 {
        match self {
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }
}

/// How far a memory barrier reaches (`CUstreamMemoryBarrier_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierScope {
    /// All devices and the host.
    System,
    /// The device of the stream.
    Device,
}

/// What an atomic reduction does with a number in memory and an operand (`CUstreamAtomicReductionOpType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The bits that either has.
    Or,
    /// The bits that both have.
    And,
    /// The sum, with wrap-around.
    Add,
}

/// One value operation (`CUstreamBatchMemOpParams`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOperation {
    /// Waits until the value at the address satisfies the condition.
    Wait {
        /// The address.
        address: DevicePointer,
        /// The value to compare with.
        value: Value,
        /// The condition.
        flags: WaitValueFlags,
    },
    /// Writes a value to the address.
    Write {
        /// The address.
        address: DevicePointer,
        /// The value to write.
        value: Value,
        /// How to write it.
        flags: WriteValueFlags,
    },
    /// Combines the number at the address with a value, in one piece, if the device supports it
    /// ([`Capabilities::ATOMIC_REDUCTION`](crate::Capabilities::ATOMIC_REDUCTION)).
    Reduce {
        /// The address.
        address: DevicePointer,
        /// The operand.
        value: Value,
        /// How they are combined.
        reduction: Reduction,
    },
    /// Orders earlier writes of the stream before later ones, as others see them.
    Barrier {
        /// Who sees them so.
        scope: BarrierScope,
    },
    /// Makes writes of other devices visible that have reached the device, as [`WaitValueFlags::FLUSH`] does, if the device
    /// supports it ([`Capabilities::FLUSH_REMOTE_WRITES`](crate::Capabilities::FLUSH_REMOTE_WRITES)).
    FlushRemoteWrites,
}

/// How the host waits for a stream (`CUsynchronizationPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SynchronizationPolicy {
    /// As the context does by default.
    Auto,
    /// Spin.
    Spin,
    /// Yield.
    Yield,
    /// Sleep.
    BlockingSync,
}

/// What a hit or a miss in an access-policy window does to the cache (`CUaccessProperty`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessProperty {
    /// The same as for any other memory.
    Normal,
    /// The memory is unlikely to be accessed again.
    Streaming,
    /// The memory is likely to be accessed again.
    Persisting,
}

/// A range of addresses that has its own cache policy (`CUaccessPolicyWindow`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessPolicyWindow {
    /// The first address.
    pub address: DevicePointer,
    /// The size in bytes.
    pub bytes: usize,
    /// The fraction of accesses in the window that count as hits, from 0 to 1.
    pub hit_ratio: f32,
    /// The policy for a hit.
    pub hit: AccessProperty,
    /// The policy for a miss. It must not be [`AccessProperty::Persisting`].
    pub miss: AccessProperty,
}

/// The kind of a stream attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamAttributeKind {
    /// [`StreamAttribute::SynchronizationPolicy`].
    SynchronizationPolicy,
    /// [`StreamAttribute::AccessPolicyWindow`].
    AccessPolicyWindow,
}

/// A stream attribute and its value (`CUstreamAttrValue`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamAttribute {
    /// How the host waits for the stream.
    SynchronizationPolicy(SynchronizationPolicy),
    /// The memory that the stream's kernels should find in the cache.
    AccessPolicyWindow(AccessPolicyWindow),
}

/// Creating, ordering and synchronizing streams.
///
/// Work queued on [`StreamHandle::NULL`], [`LEGACY`](StreamHandle::LEGACY) or [`PER_THREAD`](StreamHandle::PER_THREAD)
/// is submitted to that stream of the call's context.
pub trait Streams {
    /// Creates a stream. The priority is clamped to the range of the device.
    fn stream_create(&self, call: &Call<'_>, flags: StreamFlags, priority: i32) -> Result<StreamHandle>;

    /// Destroys a stream. This returns at once. Work that is queued still runs.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for a default stream.
    ///
    /// # Safety
    ///
    /// The stream exists, and nobody uses it during the call or afterwards, except that a capture that began in it may be
    /// ended.
    unsafe fn stream_destroy(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()>;

    /// Succeeds if all work that is queued in the stream is complete.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_READY (600)` if it is not complete.
    fn stream_query(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()>;

    /// Blocks until all work that is queued in the stream is complete.
    fn stream_synchronize(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()>;

    /// Reports a panic of a kernel that is a Rust closure and that has run in the stream, once. This is like
    /// [`stream_query`](Self::stream_query), but it ignores work that is still queued, never waits, and is allowed
    /// during a capture.
    fn stream_take_failure(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let _ = (call, stream);
        Ok(())
    }

    /// Makes later work of the stream wait for the work that the event captured last before this call. The event may
    /// belong to another context or device.
    fn stream_wait_event(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        event: Live<'_, EventHandle>,
        flags: EventWaitFlags,
    ) -> Result<()>;

    /// Returns the flags that the stream was created with.
    fn stream_flags(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<StreamFlags>;

    /// Returns the priority after clamping.
    fn stream_priority(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<i32>;

    /// Returns the id of the stream. Ids are unique in the process and are never reused.
    fn stream_id(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<u64>;

    /// Returns the context that the stream was created in. For a default stream, this is the call's context.
    fn stream_context(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<ContextHandle>;

    /// Returns the context that the stream was created in, where the caller knows no context (`cuStreamGetCtx`). For a
    /// default stream, this is the context that is [current](crate::Contexts::context_current) on the thread.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_CONTEXT (201)` for a default stream if no context is current. Drivers before CUDA 13.0 may also
    /// need a current context for other streams.
    fn stream_owner(&self, stream: Live<'_, StreamHandle>) -> Result<ContextHandle>;

    /// Reads an attribute.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support the attribute.
    fn stream_attribute(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute>;

    /// Sets an attribute.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support the attribute.
    fn stream_set_attribute(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        attribute: &StreamAttribute,
    ) -> Result<()>;

    /// Gives a stream the attributes of another stream of its context (`cuStreamCopyAttributes`).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the streams belong to different contexts.
    fn stream_copy_attributes(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        from: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Returns the device of the stream (`cuStreamGetDevice`).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` on drivers before CUDA 12.8.
    fn stream_device(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<DeviceOrdinal>;

    /// Runs a host function after all work that is queued in the stream. If the context is in error, the host function
    /// is dropped without being run. It is never leaked.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing and the host function is not
    /// [repeatable](HostWork::repeatable). The capture is not invalidated.
    fn stream_launch_host_function(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        work: HostWork,
    ) -> Result<()>;

    /// Runs a callback after all work that is queued in the stream. The callback runs exactly once, even if the context
    /// is in error. If this call fails, the callback is dropped without being run.
    fn stream_add_callback(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, callback: Callback) -> Result<()>;

    /// Makes later work of the stream wait until the value at `address` satisfies the condition.
    ///
    /// # Safety
    ///
    /// The address must remain valid until the wait is complete.
    unsafe fn stream_wait_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()>;

    /// Writes a value to `address` in stream order.
    ///
    /// # Safety
    ///
    /// The address must remain valid until the write is complete.
    unsafe fn stream_write_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()>;

    /// Enqueues value operations as one unit, in their order. If one of them is refused, none is enqueued. In a capture, they
    /// become one node.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` for more than 255 operations. For none, drivers may differ.
    ///
    /// # Safety
    ///
    /// The addresses must remain valid until the operations are complete.
    unsafe fn stream_value_operations(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ValueOperation],
    ) -> Result<()>;
}
