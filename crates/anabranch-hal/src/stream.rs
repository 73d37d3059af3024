//! Streams (Driver API, groups STREAM, EXEC for host functions, MEMOP for value operations).

use crate::{Callback, ContextHandle, DevicePointer, EventHandle, EventWaitFlags, HostWork, Result, StreamHandle};
use bitflags::bitflags;

bitflags! {
    /// How a stream is made (`CUstream_flags`). Bits unknown to the driver are refused with 1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct StreamFlags: u32 {
        /// The stream neither waits for the legacy default stream nor is waited for by it.
        const NON_BLOCKING = 0x1;
    }

    /// The condition of a value wait (`CUstreamWaitValue_flags`). The condition is the two lowest bits, a number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct WaitValueFlags: u32 {
        /// `(signed)(*address - value) >= 0`, cyclic.
        const GREATER_OR_EQUAL = 0x0;
        /// `*address == value`.
        const EQUAL = 0x1;
        /// `(*address & value) != 0`.
        const AND = 0x2;
        /// `!(*address | value) != 0`, where the device has it.
        const NOR = 0x3;
        /// Makes writes of other devices visible that came before the awaited one.
        const FLUSH = 1 << 30;
    }

    /// How a value is written (`CUstreamWriteValue_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct WriteValueFlags: u32 {
        /// Leaves out the barrier that otherwise orders the write after earlier writes of the stream.
        const NO_MEMORY_BARRIER = 0x1;
    }
}

/// A value of a value operation; its width is that of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// 32 bits.
    U32(u32),
    /// 64 bits.
    U64(u64),
}

impl Value {
    /// The operation's width in bytes, to which its address must be aligned.
    pub const fn width(self) -> u64 {
        match self {
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }
}

/// How the host waits for a stream (`CUsynchronizationPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SynchronizationPolicy {
    /// As the context does.
    Auto,
    /// Spin.
    Spin,
    /// Yield.
    Yield,
    /// Sleep.
    BlockingSync,
}

/// What a hit or miss in an access-policy window does to the cache (`CUaccessProperty`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessProperty {
    /// As for any other memory.
    Normal,
    /// Unlikely to be used again.
    Streaming,
    /// Likely to be used again.
    Persisting,
}

/// A window of addresses with a cache policy of its own (`CUaccessPolicyWindow`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessPolicyWindow {
    /// First address.
    pub address: DevicePointer,
    /// Size in bytes.
    pub bytes: usize,
    /// Share of the window's accesses that count as hits, from 0 to 1.
    pub hit_ratio: f32,
    /// What happens on a hit.
    pub hit: AccessProperty,
    /// What happens on a miss. Never [`AccessProperty::Persisting`].
    pub miss: AccessProperty,
}

/// Which attribute of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamAttributeKind {
    /// [`StreamAttribute::SynchronizationPolicy`].
    SynchronizationPolicy,
    /// [`StreamAttribute::AccessPolicyWindow`].
    AccessPolicyWindow,
}

/// An attribute of a stream, with its value (`CUstreamAttrValue`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamAttribute {
    /// How the host waits for the stream.
    SynchronizationPolicy(SynchronizationPolicy),
    /// Which memory the stream's kernels should find in the cache.
    AccessPolicyWindow(AccessPolicyWindow),
}

/// Streams: made, ordered, waited for.
///
/// Work queued on [`StreamHandle::NULL`], [`LEGACY`](StreamHandle::LEGACY) or
/// [`PER_THREAD`](StreamHandle::PER_THREAD) goes to that stream of `context`.
pub trait Streams {
    /// Makes a stream. The priority is clamped to the device's range.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_create(&self, context: ContextHandle, flags: StreamFlags, priority: i32) -> Result<StreamHandle>;

    /// Destroys a stream. Returns at once; work that is queued still runs. 400 for a default stream.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_destroy(&self, context: ContextHandle, stream: StreamHandle) -> Result<()>;

    /// `Ok` when all work queued so far is complete, 600 when it is not.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_query(&self, context: ContextHandle, stream: StreamHandle) -> Result<()>;

    /// Blocks until all work queued so far is complete.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_synchronize(&self, context: ContextHandle, stream: StreamHandle) -> Result<()>;

    /// Reports a panic of the stream's host work that has run, once, as [`stream_query`](Self::stream_query) does, but
    /// without regard to what is still queued. It never waits, and no capture objects to it.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_take_failure(&self, context: ContextHandle, stream: StreamHandle) -> Result<()>;

    /// Makes later work of the stream wait for what the event captured last before this call. The event may be of
    /// another context or device.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_wait_event(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
        flags: EventWaitFlags,
    ) -> Result<()>;

    /// The flags that the stream was made with.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_flags(&self, context: ContextHandle, stream: StreamHandle) -> Result<StreamFlags>;

    /// The priority after clamping.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_priority(&self, context: ContextHandle, stream: StreamHandle) -> Result<i32>;

    /// A number that is unique in the process for ever.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_id(&self, context: ContextHandle, stream: StreamHandle) -> Result<u64>;

    /// The context that a stream was made in. For a default stream, `context` itself.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_context(&self, context: ContextHandle, stream: StreamHandle) -> Result<ContextHandle>;

    /// Reads an attribute. 801 where the device has it not.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_attribute(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute>;

    /// Sets an attribute. 801 where the device has it not.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_set_attribute(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        attribute: &StreamAttribute,
    ) -> Result<()>;

    /// Runs host work after all work queued so far. When the context is in error it is dropped and not run; it is never
    /// leaked. While the stream captures, only [repeatable](HostWork::repeatable) work can become a node; other work is
    /// refused with 900, and the capture goes on.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        work: HostWork,
    ) -> Result<()>;

    /// Runs a callback after all work queued so far, exactly once, also when the context is in error. If this call
    /// itself fails the callback is dropped and not run.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_add_callback(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        callback: Callback,
    ) -> Result<()>;

    /// Makes later work of the stream wait until the value at `address` satisfies the condition.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_wait_value(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()>;

    /// Writes the value at `address`, in stream order.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_write_value(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()>;
}
