//! Managed memory that is attached to a stream or to the host.

use super::{ATTACHED, Allocation};
use crate::error::{Error, Result};
use crate::stream::StreamCore;
use anabranch_hal::{MemoryAttachment, Status};
use std::sync::atomic::Ordering;

/// Who uses memory that is attached: the host, and no stream.
pub(super) const NO_STREAM: u64 = u64::MAX;

impl Allocation {
    /// Whether it is attached to a stream or to the host.
    #[inline(always)]
    pub fn is_attached(&self) -> bool {
        self.state.load(Ordering::Relaxed) & ATTACHED != 0
    }

    /// Whether it is attached to the host, so that no stream uses it.
    pub fn is_attached_to_host(&self) -> bool {
        self.is_attached() && self.attached_to.load(Ordering::Relaxed) == NO_STREAM
    }

    /// Notes who uses the memory from now on. The caller excludes uses.
    pub(crate) fn attach(&self, attachment: MemoryAttachment, stream: u64) {
        self.attached_to
            .store(if attachment == MemoryAttachment::Single { stream } else { NO_STREAM }, Ordering::Relaxed);
        if attachment == MemoryAttachment::Global {
            self.state.fetch_and(!ATTACHED, Ordering::Relaxed);
        } else {
            self.state.fetch_or(ATTACHED, Ordering::Relaxed);
        }
    }

    /// Refuses memory that is attached to the host, or to another stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub(crate) fn require_attachment(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        let attached_to = self.attached_to.load(Ordering::Relaxed);
        if !self.is_attached() || attached_to == stream.id() {
            return Ok(());
        }
        let message = match attached_to {
            NO_STREAM => "managed memory that it uses is attached to the host".to_owned(),
            other => format!("managed memory that it uses is attached to stream {other}"),
        };
        Err(Error::argument(Status::ILLEGAL_STATE, operation, message)
            .with_hint("attach it to this stream or to all streams first: Stream::attach")
            .at(stream.place()))
    }
}
