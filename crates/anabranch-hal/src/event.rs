//! Events (Driver API, group EVENT).

use crate::{ContextHandle, EventHandle, Result, StreamHandle};
use bitflags::bitflags;

bitflags! {
    /// How an event is made (`CUevent_flags`). Bits unknown to the driver are refused with 1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventFlags: u32 {
        /// Synchronising sleeps rather than spins.
        const BLOCKING_SYNC = 0x1;
        /// No time is taken; cheaper to record and to wait for.
        const DISABLE_TIMING = 0x2;
        /// Other processes may open the event. Needs [`DISABLE_TIMING`](Self::DISABLE_TIMING), else 1.
        const INTERPROCESS = 0x4;
    }

    /// How an event is recorded (`CUevent_record_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventRecordFlags: u32 {
        /// While capturing: an event-record node. Outside of capture: 401.
        const EXTERNAL = 0x1;
    }

    /// How an event is waited for by a stream (`CUevent_wait_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventWaitFlags: u32 {
        /// While capturing: an event-wait node. Outside of capture: 401.
        const EXTERNAL = 0x1;
    }
}

/// An event, as another process can open it (`CUipcEventHandle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterprocessEventHandle(pub [u8; 64]);

/// Events: made, recorded, asked.
pub trait Events {
    /// Makes an event. It counts as complete until it is recorded.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_create(&self, context: ContextHandle, flags: EventFlags) -> Result<EventHandle>;

    /// Destroys an event. Never blocks; waits that are queued keep their dependency.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_destroy(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Captures the stream's work at this moment in the event, in place of what was captured before.
    /// 400 when event and stream are of different contexts.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_record(
        &self,
        context: ContextHandle,
        event: EventHandle,
        stream: StreamHandle,
        flags: EventRecordFlags,
    ) -> Result<()>;

    /// `Ok` when the work captured last is complete, 600 when it is not.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_query(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Blocks until the work captured last is complete.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_synchronize(&self, context: ContextHandle, event: EventHandle) -> Result<()>;

    /// Milliseconds from `start` to `end`, negative when `end` came first. 400 when either was never recorded or takes
    /// no time, 600 when either is not complete.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_elapsed(&self, context: ContextHandle, start: EventHandle, end: EventHandle) -> Result<f32>;

    /// The event as another process can open it. 801 where the device cannot.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_export(&self, context: ContextHandle, event: EventHandle) -> Result<InterprocessEventHandle>;

    /// Opens an event that another process exported.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn event_open(&self, context: ContextHandle, exported: &InterprocessEventHandle) -> Result<EventHandle>;
}
