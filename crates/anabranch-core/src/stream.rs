//! Streams: a handle, its identity, its timeline, and a way to wait for the work of a stream even after it has ended.

mod end;
mod host_bound;
mod membership;
mod own_thread;
mod pending;
mod registry;
mod shared;
mod submitted_work;
mod sync;

pub use host_bound::SubmittingHostBound;
pub use membership::{Capture, Membership, Submitting, is_any_capturing};
pub use pending::PendingWork;
pub use shared::StreamShared;
pub use submitted_work::SubmittedWork;
pub use sync::SyncEvent;

use crate::context::{ContextCore, other_context};
use crate::drop_error;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::extensions::{Extension, Extensions};
use crate::helping::helping;
use crate::host_work::{self, LaunchPlace};
use crate::label::Label;
use crate::ranks;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::trace;
use anabranch_hal::{
    Call, CaptureStatus, Failure, Live, ObjectHandle, ObjectId, Status, StreamAttribute, StreamAttributeKind,
    StreamFlags, StreamHandle,
};
use anabranch_sync::modelled::Mutex;
use own_thread::OwnThread;
use registry::{Presence, StreamRegistry};
use std::ops::Deref;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use sync::SyncState;

/// Who owns a stream's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// This library: it is destroyed at the end.
    Owned,
    /// Another library, or the driver itself for default streams.
    Foreign,
}

/// A stream, shared by everything that submits work to it or has to wait for it. Until the stream ends, there is one
/// object for each stream of a driver.
pub struct StreamCore {
    /// First, so that the context, which may be closed with this, does not know of a stream that is about to go.
    presence: Presence,
    context: Arc<ContextCore>,
    handle: StreamHandle,
    id: u64,
    /// The only thread that may use it, for a per-thread default stream.
    thread: Option<OwnThread>,
    ownership: Ownership,
    /// Whether the program has taken the handle, and destroys the stream.
    is_released: AtomicBool,
    sync: Mutex<SyncState>,
    shared: Arc<StreamShared>,
    extensions: Extensions,
    label: Label,
}

/// The right to use a stream's handle. When it is dropped the stream ends.
pub struct OpenStream {
    core: Arc<StreamCore>,
}

impl Deref for OpenStream {
    type Target = Arc<StreamCore>;

    #[inline(always)]
    fn deref(&self) -> &Arc<StreamCore> {
        &self.core
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        drop_error::report(self.core.end());
    }
}

impl StreamCore {
    /// Makes a stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know; `CUDA_ERROR_OUT_OF_MEMORY (2)` if there
    /// is no room for one.
    #[track_caller]
    pub fn create(context: &Arc<ContextCore>, flags: StreamFlags, priority: i32) -> Result<OpenStream> {
        let operation = "creating a stream";
        let handle = context
            .driver()
            .stream_create(&context.call(operation), flags, priority)
            .during(operation, || context.place())?;
        // SAFETY: the stream was just created, and nobody else knows it.
        unsafe { Self::open(context, handle, Ownership::Owned) }
    }

    /// A default stream of a context.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing and is not known yet; otherwise any error
    /// that the driver returns.
    #[track_caller]
    pub fn open_default(context: &Arc<ContextCore>, stream: Live<'static, StreamHandle>) -> Result<OpenStream> {
        // SAFETY: default streams always exist, and nobody can destroy them.
        unsafe { Self::open(context, stream.handle(), Ownership::Foreign) }
    }

    /// The stream with a handle of the context's driver.
    ///
    /// # Safety
    /// The stream exists as long as the result, and, if it is owned, nobody else uses or destroys it.
    ///
    /// # Errors
    /// If the driver does not know the handle; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing
    /// and is not known yet.
    #[track_caller]
    pub unsafe fn open(context: &Arc<ContextCore>, handle: StreamHandle, ownership: Ownership) -> Result<OpenStream> {
        let operation = "reading a stream's id";
        if handle.is_per_thread() && own_thread::has_ended() {
            return Err(own_thread::refuse_at_end(operation).at(context.place()));
        }
        // SAFETY: the caller promises that the stream exists.
        let live = unsafe { Live::new(handle) };
        let registry = context.extension::<StreamRegistry>();
        let call = context.call(operation);
        let status = || context.driver().stream_capture_status(&call, live);
        // Asking a stream that captures for its id invalidates the capture.
        let captures = ownership == Ownership::Foreign && status().is_ok_and(|status| status != CaptureStatus::None);
        let id = match captures.then(|| registry.find(handle).map(|stream| stream.id())) {
            None => context.driver().stream_id(&call, live).during(operation, || context.place())?,
            Some(Some(id)) => id,
            Some(None) => {
                return Err(Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "the stream captures")
                    .with_hint("make the `Stream` before the capture")
                    .at(context.place()));
            }
        };
        let known = match ownership {
            Ownership::Owned => None,
            Ownership::Foreign => registry.find_id(id),
        };
        let shared = match known {
            Some(known) => known.shared.clone(),
            None => {
                let new = StreamShared::new(registry.next_sequence(context), context.panics());
                if ownership == Ownership::Owned { new } else { registry.shared_by_all(id, new) }
            }
        };
        if ownership == Ownership::Foreign && !handle.is_legacy() {
            shared.suspect_capture();
        }
        let core = Arc::new(Self {
            presence: Presence::default(),
            context: context.clone(),
            handle,
            id,
            thread: handle.is_per_thread().then(|| OwnThread::current(context)),
            ownership,
            is_released: AtomicBool::new(false),
            sync: Mutex::with_order(ranks::SYNC_EVENT, 0, SyncState::new(handle)),
            shared,
            extensions: Extensions::new(),
            label: Label::new(context, ObjectHandle::Stream(handle)),
        });
        registry.add(&core);
        Ok(OpenStream { core })
    }

    /// The context.
    #[inline(always)]
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The driver's id of the stream, which is never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The driver's handle, for another library, which may capture the stream.
    pub fn expose_raw(&self) -> StreamHandle {
        self.shared.expose();
        self.handle
    }

    /// Its number among the objects of the library, and its name.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// What all objects of this stream share.
    #[inline(always)]
    pub fn shared(&self) -> &Arc<StreamShared> {
        &self.shared
    }

    /// The attachment of a higher module to this stream.
    #[inline]
    pub fn extension<T: Extension + Default>(&self) -> &T {
        self.extensions.get()
    }

    /// The description of this stream in errors.
    pub fn place(&self) -> String {
        format!("stream {}{} of {}", self.id, self.label, self.context.place())
    }

    /// Refuses a use on another thread than the stream's own, and inside a host function. Some drivers return
    /// `CUDA_ERROR_NOT_PERMITTED (800)` there, and some calls of some drivers deadlock.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function; `CUDA_ERROR_INVALID_HANDLE (400)` for the default
    /// stream of another thread.
    #[inline(always)]
    pub fn require_usable(&self, operation: &'static str) -> Result<()> {
        if host_work::is_inside() || self.thread.is_some() { self.require_usable_here(operation) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn require_usable_here(&self, operation: &'static str) -> Result<()> {
        if host_work::is_inside() {
            return Err(Error::driver(operation, Status::NOT_PERMITTED.into()).at(self.place()));
        }
        if self.is_on_own_thread() { Ok(()) } else { Err(self.other_thread(operation)) }
    }

    /// Whether this thread may use the stream.
    #[inline]
    pub fn is_on_own_thread(&self) -> bool {
        self.thread.is_none_or(OwnThread::is_here)
    }

    /// Whether it is the legacy default stream.
    pub(crate) fn is_legacy(&self) -> bool {
        self.handle.is_legacy()
    }

    /// Whether it is the default stream of one thread.
    #[inline(always)]
    pub fn is_per_thread(&self) -> bool {
        self.thread.is_some()
    }

    #[cold]
    fn other_thread(&self, operation: &'static str) -> Error {
        if self.thread.is_some_and(OwnThread::is_this_thread) {
            return own_thread::refuse_at_end(operation).at(self.place());
        }
        Error::new(ErrorKind::Argument, Status::INVALID_HANDLE, operation)
            .with_message("it is the default stream of another thread")
            .with_hint("get this thread's own from Context::per_thread_stream")
            .at(self.place())
    }

    /// Whether the stream is a member of a capture that was begun through this library.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        self.shared.membership().is_active()
    }

    /// Whether another library captures the stream, which has this handle, so that work submitted to it may never run.
    #[inline(always)]
    fn is_captured_by_others(&self, handle: Live<'_, StreamHandle>) -> bool {
        self.shared.may_be_captured() && self.asks_whether_captured(handle)
    }

    /// Whether the stream captures, as the driver says.
    #[cold]
    pub fn asks_whether_captured(&self, handle: Live<'_, StreamHandle>) -> bool {
        let call = self.context.call("asking for a stream's capture status");
        let status = self.context.driver().stream_capture_status(&call, handle);
        !matches!(status, Ok(CaptureStatus::None))
    }

    /// Whether both are the same stream of a driver, which may have been opened again.
    #[inline(always)]
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.id == other.id && self.context.device() == other.context.device())
    }

    /// Whether the handle identifies this stream on this thread, and the stream has not ended.
    pub fn is_known_by(&self, handle: StreamHandle) -> bool {
        self.handle == handle && self.is_on_own_thread() && self.is_live()
    }

    /// Counts orders: the library has made the stream wait for others.
    pub fn count_orders(&self, count: u64) {
        if count != 0 {
            self.shared.count_orders(count);
            self.context.count_orders(count);
        }
    }

    /// The error in strict order of a use that does not follow one on `earlier`.
    #[cold]
    pub fn refuse_order(&self, earlier: &str, operation: &'static str) -> Error {
        let message = format!("stream {} does not come after the work of {earlier} that uses the same memory", self.id);
        Error::argument(Status::ILLEGAL_STATE, operation, message)
            .with_hint(
                "before this, record an event on that stream and wait for it on this one, or turn strict order off with \
                 Context::set_strict_order",
            )
            .at(self.place())
    }

    /// Reports a panic of the stream's closures that have run, once. Reports nothing if the stream has ended, or if
    /// this thread must not query it.
    pub fn take_failure(&self, operation: &'static str) -> Result<()> {
        self.shared.panics().report_stream(self.id, operation, || self.place())?;
        if host_work::is_inside() || !self.is_on_own_thread() {
            return Ok(());
        }
        let mut sync = self.sync.lock();
        let Some((handle, _)) = sync.live() else { return Ok(()) };
        self.context
            .driver()
            .stream_take_failure(&self.context.call(operation), handle)
            .during(operation, || self.place())
    }

    /// Where host functions are launched in this stream, by an executable graph or by themselves.
    pub fn launch_place(&self, executable: Option<ObjectId>) -> LaunchPlace {
        let owner: Weak<StreamShared> = Arc::downgrade(&self.shared);
        LaunchPlace {
            executable,
            stream: self.id,
            timeline: self.shared.timeline().clone(),
            panics: Arc::downgrade(self.shared.panics()),
            owner,
        }
    }

    #[cold]
    fn refuse_captured(&self, operation: &'static str) -> Error {
        Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "the stream captures")
            .with_hint("do this before the capture; captured copies take device or pinned buffers")
            .at(self.place())
    }
}

impl OpenStream {
    /// The stream.
    #[inline(always)]
    pub fn core(&self) -> &Arc<StreamCore> {
        &self.core
    }

    /// The handle, wherever this is.
    #[inline(always)]
    fn live(&self) -> Live<'_, StreamHandle> {
        // SAFETY: the stream is destroyed when this is dropped, or by code that it was released to, which is unsafe and ensures
        // that nobody uses it. Who opened a stream of another owner promised that it exists as long as this.
        unsafe { Live::new(self.core.handle) }
    }

    /// The handle, for use on this thread, and not inside a host function.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function; `CUDA_ERROR_INVALID_HANDLE (400)` for the default
    /// stream of another thread.
    #[inline(always)]
    pub(crate) fn handle(&self, operation: &'static str) -> Result<Live<'_, StreamHandle>> {
        self.require_usable(operation).map(|()| self.live())
    }

    /// Whether another library captures the stream, so that work submitted to it may never run.
    #[inline(always)]
    pub fn is_captured_elsewhere(&self) -> bool {
        self.is_captured_by_others(self.live())
    }

    /// Calls the driver with the handle.
    #[inline]
    fn ask<R>(
        &self,
        operation: &'static str,
        location: &'static Location<'static>,
        ask: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        let handle = self.handle(operation)?;
        let call = Call::at(self.context.live(), operation, location);
        ask(&call, handle).map_err(|failure| self.refused(operation, failure, handle))
    }

    /// The error of a call that is no work. If the stream does not capture, a capture that is in the way is another one.
    #[cold]
    #[inline(never)]
    fn refused(&self, operation: &'static str, failure: Failure, handle: Live<'_, StreamHandle>) -> Error {
        let unsupported = failure.status == Status::STREAM_CAPTURE_UNSUPPORTED;
        let error = Error::driver(operation, failure).at(self.place());
        if unsupported && !self.asks_whether_captured(handle) { error.of_another_capture() } else { error }
    }

    /// Blocks until all work queued so far is complete.
    ///
    /// # Errors
    /// An error of that work; a panic of a closure of the stream, once.
    ///
    /// During a capture of this stream, on any thread and in every capture mode:
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`, which invalidates the capture. The same error, with the same
    /// effect, if this thread's capture mode prohibits potentially unsafe calls because of a capture in another stream.
    /// For the legacy default stream during a capture of a blocking stream of the context:
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)`, which invalidates that capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let (operation, location) = ("synchronizing", Location::caller());
        trace::span!("synchronizing a stream", stream = self.id, device = %self.context.device());
        let timeline = self.shared.timeline();
        let wait = self.shared.work().begins_to_wait();
        // A point, unless the host has waited for all there is to wait for.
        let value = (wait.is_some() || timeline.value() != timeline.reached()).then(|| timeline.advance());
        let waited =
            self.ask(operation, location, |call, handle| self.context.driver().stream_synchronize(call, handle));
        waited?;
        if let Some(wait) = wait {
            self.shared.work().has_waited(wait);
        }
        if let Some(value) = value {
            timeline.completed(value);
        }
        self.shared.panics().report_stream(self.id, operation, || self.place())
    }

    /// Blocks until all work queued so far is complete, wherever this is. No capture can depend on that, so none is affected.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[cold]
    pub fn wait_anywhere(&self, operation: &'static str) -> anabranch_hal::Result<()> {
        let (driver, call) = (self.context.driver(), self.context.call(operation));
        with_relaxed_capture_mode(driver, || driver.stream_synchronize(&call, self.live()))
    }

    /// Whether all work queued so far is complete.
    ///
    /// # Errors
    /// Same as [`synchronize`](Self::synchronize), including during a capture.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        let operation = "querying";
        let handle = self.handle(operation)?;
        let queried = {
            let _helping = helping();
            self.context.driver().stream_query(&self.context.call(operation), handle)
        };
        match queried {
            Ok(()) => {
                self.shared.panics().report_stream(self.id, operation, || self.place())?;
                Ok(true)
            }
            Err(failure) if failure.status == Status::NOT_READY => Ok(false),
            Err(failure) => Err(self.refused(operation, failure, handle)),
        }
    }

    /// The flags that the stream was created with.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, which invalidates the capture.
    #[track_caller]
    pub fn flags(&self) -> Result<StreamFlags> {
        self.ask("reading a stream's flags", Location::caller(), |call, handle| {
            self.context.driver().stream_flags(call, handle)
        })
    }

    /// The priority after clamping.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn priority(&self) -> Result<i32> {
        self.ask("reading a stream's priority", Location::caller(), |call, handle| {
            self.context.driver().stream_priority(call, handle)
        })
    }

    /// Reads an attribute.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no such attribute.
    #[track_caller]
    pub fn attribute(&self, kind: StreamAttributeKind) -> Result<StreamAttribute> {
        self.ask("reading an attribute of a stream", Location::caller(), |call, handle| {
            self.context.driver().stream_attribute(call, handle, kind)
        })
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no such attribute; `CUDA_ERROR_INVALID_VALUE (1)` for a value
    /// out of range.
    #[track_caller]
    pub fn set_attribute(&self, attribute: &StreamAttribute) -> Result<()> {
        self.ask("setting an attribute of a stream", Location::caller(), |call, handle| {
            self.context.driver().stream_set_attribute(call, handle, attribute)
        })
    }

    /// Gives this stream the attributes of another one.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the streams belong to different contexts.
    #[track_caller]
    pub fn copy_attributes_from(&self, other: &Self) -> Result<()> {
        let operation = "copying the attributes of a stream";
        if !other.context.is_same(&self.context) {
            return Err(other_context(operation, "stream", self.place()));
        }
        let from = other.handle(operation)?;
        self.ask(operation, Location::caller(), |call, handle| {
            self.context.driver().stream_copy_attributes(call, handle, from)
        })
    }

    /// Whether the stream is capturing, and whether the capture is valid.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` for the legacy default stream while a blocking stream of its context
    /// is capturing.
    #[track_caller]
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        self.ask("asking for a stream's capture status", Location::caller(), |call, handle| {
            self.context.driver().stream_capture_status(call, handle)
        })
    }

    /// Refuses work in a default stream that an object of another instance captures, which knows nothing of what the work
    /// uses.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` in that case.
    #[inline(always)]
    pub fn refuse_captured_by_another_instance(&self, operation: &'static str) -> Result<()> {
        if self.is_per_thread() && self.context.is_shared() { self.refuse_captured_there(operation) } else { Ok(()) }
    }

    #[cold]
    fn refuse_captured_there(&self, operation: &'static str) -> Result<()> {
        let handle = self.handle(operation)?;
        if self.is_capturing() || !self.asks_whether_captured(handle) {
            return Ok(());
        }
        Err(Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "another instance captures the stream")
            .with_hint("use the stream with the instance that captures it, or a stream of its own")
            .at(self.place()))
    }

    /// Refuses an operation that waits for the stream's work, or that would let captured work retain what is only
    /// borrowed. The capture remains valid.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing.
    #[track_caller]
    pub fn refuse_while_capturing(&self, operation: &'static str) -> Result<()> {
        let handle = self.handle(operation)?;
        // The driver is asked where another library may capture the stream.
        let captures = self.is_capturing()
            || (self.shared.may_be_captured_by_others() && {
                let status = self.context.driver().stream_capture_status(&self.context.call(operation), handle);
                // The error of a lost context, or of the legacy stream beside a capture, is reported by what follows. If a
                // layer has not answered, it may capture.
                status.map_or_else(|failure| failure.status == Status::UNKNOWN, |status| status != CaptureStatus::None)
            });
        if captures { Err(self.refuse_captured(operation)) } else { Ok(()) }
    }
}

impl std::fmt::Debug for StreamCore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Stream({}, {}, {:?})", self.id, self.context.place(), self.handle)
    }
}
