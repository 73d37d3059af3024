//! Which calls captures prohibit, and to which threads.
//!
//! Which captures concern a thread depends on its own mode: those that it began itself and not in relaxed mode, and
//! those that any thread began in global mode. A prohibited call fails, and invalidates the captures that prohibit it.
//! A capture that is invalidated continues to prohibit calls until it is ended.

use super::registry::{CaptureRegistry, Captures};
use super::session::Session;
use crate::engine::{ContextCore, Role, StreamState};
use anabranch_hal::{CaptureMode, Failure, Result, Status};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Exchanges the calling thread's mode.
pub(crate) fn exchange_mode(mode: CaptureMode) -> CaptureMode {
    MODE.with(|kept| kept.replace(mode))
}

/// A number of the calling thread's own, which a thread has even while it ends.
pub(super) fn current_thread() -> u64 {
    THREAD.with(|kept| {
        if kept.get() == 0 {
            kept.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
        }
        kept.get()
    })
}

impl Session {
    /// Whether the capture prohibits potentially unsafe calls to a thread of that mode.
    fn prohibits(&self, thread: u64, mode: CaptureMode) -> bool {
        match mode {
            CaptureMode::Relaxed => false,
            _ if self.thread == thread => self.mode != CaptureMode::Relaxed,
            CaptureMode::Global => self.mode == CaptureMode::Global,
            CaptureMode::ThreadLocal => false,
        }
    }
}

impl Captures {
    /// Invalidates the captures that match. `false`: there are none.
    fn invalidate_those(&mut self, matches: impl Fn(&Session) -> bool) -> bool {
        let mut any = false;
        for session in self.sessions.values_mut().filter(|session| matches(session)) {
            session.invalidated = true;
            any = true;
        }
        any
    }

    fn prohibit(&mut self) -> Result<()> {
        let (thread, mode) = (current_thread(), MODE.with(Cell::get));
        match self.invalidate_those(|session| session.prohibits(thread, mode)) {
            true => Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED)),
            false => Ok(()),
        }
    }

    /// Refuses the use of a context's legacy stream while a blocking stream captures.
    pub(super) fn see_legacy(&self, core: &ContextCore) -> Result<()> {
        match self.sessions.values().any(|session| session.has_blocking_stream_of(core)) {
            true => Err(Failure::new(Status::STREAM_CAPTURE_IMPLICIT)),
            false => Ok(()),
        }
    }

    /// The same, by which the captures are invalidated.
    pub(super) fn use_legacy(&mut self, core: &ContextCore) -> Result<()> {
        match self.invalidate_those(|session| session.has_blocking_stream_of(core)) {
            true => Err(Failure::new(Status::STREAM_CAPTURE_IMPLICIT)),
            false => Ok(()),
        }
    }
}

impl CaptureRegistry {
    /// To be asked before a call that is potentially unsafe while a stream captures.
    #[inline]
    pub(crate) fn before_unsafe_call(&self) -> Result<()> {
        if self.is_idle() { Ok(()) } else { self.lock().prohibit() }
    }

    /// To be asked before the host queries or waits for a stream.
    #[inline]
    pub(crate) fn before_synchronizing(&self, stream: &StreamState) -> Result<()> {
        if self.is_idle() { Ok(()) } else { self.before_synchronizing_slowly(stream) }
    }

    #[cold]
    fn before_synchronizing_slowly(&self, stream: &StreamState) -> Result<()> {
        stream.core.check()?;
        let mut captures = self.lock();
        if stream.role == Role::Legacy {
            captures.use_legacy(&stream.core)?;
        }
        if let Some(session) = captures.session_of(stream) {
            session.invalidated = true;
            return Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED));
        }
        captures.prohibit()
    }

    /// To be asked before the host waits for all streams of a context. Prohibited to any thread in any mode while a stream
    /// of the context captures, whatever other captures prohibit.
    #[inline]
    pub(crate) fn before_synchronizing_context(&self, core: &ContextCore) -> Result<()> {
        if self.is_idle() {
            return Ok(());
        }
        core.check()?;
        match self.lock().invalidate_those(|session| session.has_stream_of(core)) {
            true => Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED)),
            false => Ok(()),
        }
    }
}
