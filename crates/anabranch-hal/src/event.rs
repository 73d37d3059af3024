//! Events (Driver API, group EVENT).

use crate::{Call, EventHandle, Live, Result, StreamHandle};
use bitflags::bitflags;

bitflags! {
    /// Flags for creating an event (`CUevent_flags`). The driver refuses unknown bits with
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventFlags: u32 {
        /// A thread that synchronizes with the event sleeps instead of spinning.
        const BLOCKING_SYNC = 0x1;
        /// The event records no time. Such an event is cheaper to record and to wait for.
        const DISABLE_TIMING = 0x2;
        /// Other processes can open the event. [`DISABLE_TIMING`](Self::DISABLE_TIMING) must be set too, or else the
        /// driver answers `CUDA_ERROR_INVALID_VALUE (1)`.
        const INTERPROCESS = 0x4;
    }

    /// Flags for recording an event (`CUevent_record_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventRecordFlags: u32 {
        /// In a capture, recording the event adds an event-record node. Outside a capture, the driver answers
        /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
        const EXTERNAL = 0x1;
    }

    /// Flags for making a stream wait for an event (`CUevent_wait_flags`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct EventWaitFlags: u32 {
        /// In a capture, waiting for the event adds an event-wait node. Outside a capture, the driver answers
        /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
        const EXTERNAL = 0x1;
    }
}

/// A description of an event that another process can open (`CUipcEventHandle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterprocessEventHandle(pub [u8; 64]);

/// Creating, recording and querying events.
pub trait Events {
    /// Creates an event. An event that was never recorded is complete.
    fn event_create(&self, call: &Call<'_>, flags: EventFlags) -> Result<EventHandle>;

    /// Destroys an event. This never blocks. Queued waits for the event remain in force.
    ///
    /// # Safety
    ///
    /// The event exists, and nobody uses it during the call or afterwards, launches of graphs with nodes that refer to it
    /// included.
    unsafe fn event_destroy(&self, call: &Call<'_>, event: EventHandle) -> Result<()>;

    /// Captures in the event all work that is in the stream at the time of the call. This replaces what the event
    /// captured before.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the event and the stream belong to different contexts.
    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> Result<()>;

    /// Succeeds if the work that the event last captured is complete.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_READY (600)` if the work is not complete.
    fn event_query(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()>;

    /// Blocks until the work that the event last captured is complete.
    fn event_synchronize(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()>;

    /// Returns the time from `start` to `end` in milliseconds. The time is negative if `end` came first.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if either event was never recorded or records no time.
    /// `CUDA_ERROR_NOT_READY (600)` if either event is not complete.
    fn event_elapsed(&self, call: &Call<'_>, start: Live<'_, EventHandle>, end: Live<'_, EventHandle>) -> Result<f32>;

    /// Exports the event to other processes.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support this.
    fn event_export(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<InterprocessEventHandle>;

    /// Opens an event that another process exported. The driver refuses bytes that it did not make.
    fn event_open(&self, call: &Call<'_>, exported: &InterprocessEventHandle) -> Result<EventHandle>;
}
