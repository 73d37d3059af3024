//! The only way to submit work.
//!
//! Everything that is submitted to a stream is a [`Submission`]: kernels, copies, fills, value operations, host work,
//! allocations, records, waits and launches of graphs. It implements the whole protocol:
//!
//! 1. The stream may be used on this thread, and the memory belongs to the right context.
//! 2. While it lives, the stream neither joins nor leaves a capture: work is captured and retained by the graph, or
//!    neither. If it is captured, no other thread captures work in the same capture.
//! 3. In strict order, a use that the program has not ordered is refused before anything is done about any memory.
//! 4. Each access is ordered after earlier uses: by events, or, in a capture, by edges.
//! 5. The driver is called, and receives the operation, its label and the source location of the program's call.
//! 6. The access history of each piece of memory is updated, if a point was added to the timeline in the meantime.
//!
//! The accesses of work are known only at run time: a slice of [`MemoryAccess`]. This suffices for a kernel with any
//! number of arguments, and for bindings for other languages.

#[cfg(all(test, loom))]
pub(crate) mod loom_tests;

use crate::capture_state::{CaptureState, Capturing, capture_of, capture_of_memory, capturing};
use crate::error::{Error, Result};
use crate::exclusion::Excluding;
use crate::green_context::GreenStream;
use crate::memory::{Allocation, MemoryAccess, Origin};
use crate::stream::{OpenStream, StreamCore, Submitting};
use anabranch_hal::{Access, Call, Live, Status, StreamHandle};
use anabranch_sync::may_pause;
use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::sync::Arc;

/// Work that is about to be submitted to a stream.
pub struct Submission<'a> {
    stream: &'a OpenStream,
    handle: Live<'a, StreamHandle>,
    operation: &'static str,
    location: &'static Location<'static>,
    label: Option<&'a str>,
    /// The value of the stream's timeline before any memory was checked.
    value: u64,
    /// Held if the stream is a member of a capture, unless it is joining.
    capturing: OnceCell<Box<Capturing>>,
    submitting: Cell<Option<Submitting<'a>>>,
    /// Whether it attaches memory, and may use what is attached elsewhere.
    attaches: bool,
    /// Whether the driver can capture it.
    is_capturable: bool,
    /// Whether it needs the host to make progress.
    is_host_bound: bool,
    is_in_parts: bool,
}

impl<'a> Submission<'a> {
    /// Begins a submission to a stream, before any memory that it uses is checked.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function; `CUDA_ERROR_INVALID_HANDLE (400)` for the default
    /// stream of another thread.
    #[inline(always)]
    #[track_caller]
    pub fn begin(stream: &'a OpenStream, operation: &'static str) -> Result<Self> {
        Self::begin_at(stream, operation, Location::caller())
    }

    /// Like [`begin`](Self::begin), for an operation that the program requested at `location`.
    ///
    /// # Errors
    /// Same as [`begin`](Self::begin).
    #[inline(always)]
    pub fn begin_at(
        stream: &'a OpenStream,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        Self::begin_with(stream, stream.handle(operation)?, operation, location)
    }

    /// Like [`begin_at`](Self::begin_at), with what [`OpenStream::handle`] has returned, for a caller that has to ask that before it
    /// takes a lock.
    ///
    /// # Errors
    /// Same as [`begin`](Self::begin).
    #[inline(always)]
    pub(crate) fn begin_with(
        stream: &'a OpenStream,
        handle: Live<'a, StreamHandle>,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        stream.refuse_captured_by_another_instance(operation)?;
        let submitting = Cell::new(Some(stream.shared().membership().submitting()));
        let value = stream.shared().timeline().value();
        let submission = Self {
            stream,
            handle,
            operation,
            location,
            label: None,
            value,
            capturing: OnceCell::new(),
            submitting,
            attaches: false,
            is_capturable: true,
            is_host_bound: false,
            is_in_parts: false,
        };
        if stream.is_capturing()
            && let Some(capturing) = submission.capturing()
        {
            capturing.refuse_failed(stream, operation)?;
        }
        Ok(submission)
    }

    /// Submits something that uses no memory and may change the stream's capture membership: a record or a wait.
    ///
    /// # Errors
    /// Same as [`begin`](Self::begin); otherwise any error that the driver returns.
    #[inline(always)]
    pub(crate) fn put_at<R>(
        stream: &'a OpenStream,
        operation: &'static str,
        location: &'static Location<'static>,
        put: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        let handle = stream.handle(operation)?;
        let call = Call::at(stream.context().live(), operation, location);
        may_pause();
        match put(&call, handle) {
            Ok(value) => {
                stream.shared().work().note();
                Ok(value)
            }
            Err(failure) => {
                if let Some(capture) = capture_of(stream) {
                    capture.work_has_failed();
                }
                Err(failed(stream, operation, location, failure))
            }
        }
    }

    /// Names the work, for layers of the driver.
    #[inline(always)]
    #[must_use]
    pub fn with_label(self, label: &'a str) -> Self {
        Self { label: Some(label), ..self }
    }

    /// Attaches memory, whatever it is attached to.
    #[must_use]
    pub(crate) fn attaching(self) -> Self {
        Self { attaches: true, ..self }
    }

    /// The driver refuses to capture it: memory that another stream captures is refused, and draws this stream into no capture,
    /// which would end as invalid.
    #[must_use]
    pub(crate) fn not_capturable(self) -> Self {
        Self { is_capturable: false, ..self }
    }

    /// The work needs the host to make progress: while it is submitted, no other thread begins to wait for the whole context.
    #[must_use]
    pub(crate) fn host_bound(self) -> Self {
        Self { is_host_bound: true, ..self }
    }

    /// A driver may make several pieces of work of it, and refuse a later one: it counts also if it is refused.
    #[must_use]
    pub(crate) fn in_parts(self) -> Self {
        Self { is_in_parts: true, ..self }
    }

    /// The stream.
    #[inline(always)]
    pub fn stream(&self) -> &'a OpenStream {
        self.stream
    }

    /// The operation.
    #[inline(always)]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The timeline value at which memory was found to be already ordered.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Orders the accesses, calls the driver by `queue`, and updates the access histories.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for memory of another context; `CUDA_ERROR_ILLEGAL_STATE (401)` in strict
    /// order; otherwise any error that the driver returns.
    #[inline(always)]
    pub(crate) fn submit<R>(
        &self,
        accesses: &[MemoryAccess<'_>],
        queue: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        for access in accesses {
            access.memory.require_context(self.stream, self.operation)?;
        }
        self.submit_reached(accesses, queue)
    }

    /// Like [`submit`](Self::submit), for work that refers to objects, which a capture retains. It does so after the accesses
    /// are ordered, because their memory may have drawn the stream into the capture.
    ///
    /// # Errors
    /// Same as [`submit`](Self::submit).
    #[inline(always)]
    pub(crate) fn submit_retaining<'o, T: std::any::Any + Send + Sync, R>(
        &self,
        accesses: &[MemoryAccess<'_>],
        objects: impl IntoIterator<Item = &'o Arc<T>>,
        queue: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        self.submit(accesses, |call, stream| {
            if self.stream.is_capturing() {
                objects.into_iter().for_each(|object| self.retain_captured(object));
            }
            queue(call, stream)
        })
    }

    /// Like [`submit`](Self::submit), for memory that the work is known to be able to access.
    ///
    /// # Errors
    /// Same as [`submit`](Self::submit).
    #[inline(always)]
    pub(crate) fn submit_reached<R>(
        &self,
        accesses: &[MemoryAccess<'_>],
        queue: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        let excluding = self.order(accesses.iter().copied())?;
        let queued = self.queue(queue);
        let may_be_queued = queued.is_ok() || (self.is_in_parts && !self.stream.is_capturing());
        if !may_be_queued {
            return queued;
        }
        self.note_even_if_refused(&queued);
        self.finish(accesses.iter().copied());
        drop(excluding);
        queued
    }

    /// Orders accesses after earlier uses. It is the first step of [`submit`](Self::submit), for callers that do
    /// something between the steps. Until the result is dropped, which is after the last step, others that use the same
    /// memory are excluded if graphs retain it.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order; otherwise any error that the driver returns.
    #[inline(always)]
    pub(crate) fn order<'m>(&self, accesses: impl Iterator<Item = MemoryAccess<'m>> + Clone) -> Result<Excluding<'m>> {
        if self.stream.context().is_order_strict() {
            self.check_order(accesses.clone())?;
        }
        if self.stream.is_capturing() || accesses.clone().any(|access| access.memory.is_special()) {
            return self.order_special(accesses);
        }
        for MemoryAccess { memory, access } in accesses {
            if !memory.history().is_ordered(self.stream, access, self.value) {
                self.note(memory, access)?;
            }
        }
        Ok(Excluding::default())
    }

    /// Orders a use after earlier ones, and notes it.
    #[cold]
    #[inline(never)]
    fn note(&self, memory: &Allocation, access: Access) -> Result<()> {
        // Nobody can wait for what a lost context has done to memory, so that memory of another context must not be noted
        // there for work that will be refused.
        if !Arc::ptr_eq(memory.context(), self.stream.context()) {
            self.stream.context().refuse_if_lost(self.operation)?;
        }
        if self.stream.is_legacy() && self.stream.is_barred_by_a_capture() {
            self.be_refused_beside_a_capture()?;
        }
        memory.history().order(self.stream, access, self.operation)
    }

    /// Lets the driver refuse work in the legacy stream beside the capture of a blocking stream before the work counts as a use of
    /// memory, which others would have to come behind. A query is refused as the work is, and invalidates the capture as it does.
    fn be_refused_beside_a_capture(&self) -> Result<()> {
        let call = Call::at(self.stream.context().live(), self.operation, self.location);
        match self.stream.context().driver().stream_query(&call, self.handle) {
            Err(failure) if failure.status == Status::STREAM_CAPTURE_IMPLICIT => {
                Err(failed(self.stream, self.operation, self.location, failure))
            }
            // The capture has ended.
            _ => Ok(()),
        }
    }

    /// Orders accesses in a capture, or to memory that captures or graphs use.
    #[cold]
    #[inline(never)]
    fn order_special<'m>(&self, accesses: impl Iterator<Item = MemoryAccess<'m>> + Clone) -> Result<Excluding<'m>> {
        accesses.clone().try_for_each(|access| self.join_capture_of(access.memory))?;
        if self.is_host_bound
            && let Some(capture) = self.capturing()
        {
            capture.waits_for_host();
        }
        let lasting = self.stream.is_capturing();
        for MemoryAccess { memory, access } in accesses.clone().filter(|access| access.memory.is_restricted()) {
            memory.require_use(access, lasting, self.operation)?;
        }
        // Who captures work excludes others that do, and the work of others is not ordered behind it.
        let excluded = accesses.clone().filter(|_| !self.stream.is_capturing());
        let excluding = Excluding::begin(excluded);
        // What is captured is used by launches.
        if !self.attaches && !self.stream.is_capturing() {
            accesses.clone().try_for_each(|access| access.memory.require_attachment(self.stream, self.operation))?;
        }
        accesses.clone().try_for_each(|access| self.order_one(access))?;
        Ok(excluding)
    }

    /// What a capture uses belongs to it until it ends: a stream that uses it joins, or is refused if it cannot.
    fn join_capture_of(&self, memory: &Allocation) -> Result<()> {
        if self.stream.is_capturing() || !memory.is_captured() {
            return Ok(());
        }
        let Some(capture) = capture_of_memory(memory) else { return Ok(()) };
        if self.is_capturable {
            self.join_capture(&capture, memory)?;
            // It may have ended meanwhile.
            if self.stream.is_capturing() || capture_of_memory(memory).is_none() {
                return Ok(());
            }
        }
        Err(captured_memory(self.stream, self.operation))
    }

    fn order_one(&self, MemoryAccess { memory, access }: MemoryAccess<'_>) -> Result<()> {
        let (stream, operation) = (self.stream, self.operation);
        let is_of_graph = matches!(memory.origin(), Origin::Graph(_) | Origin::Captured { .. });
        // First: memory of a graph that is gone may have the address of other memory.
        if is_of_graph && !self.capturing().is_some_and(|capture| capture.owns(memory)) {
            return Err(memory.refuse_graph_memory(stream.place()));
        }
        match self.capturing() {
            Some(capture) => {
                capture.check_parts(memory, access, stream)?;
                if is_of_graph {
                    capture.use_unretained(memory, stream, access, operation)
                } else {
                    capture.use_memory(memory, stream, access, operation)
                }
            }
            None if memory.history().is_ordered(stream, access, self.value) => Ok(()),
            None => self.note(memory, access),
        }
    }

    /// The right to capture work, if the stream is a member of a capture. It remains a member while the submission lives.
    #[cold]
    pub(crate) fn capturing(&self) -> Option<&Capturing> {
        if self.capturing.get().is_none() {
            let found = capturing(self.stream)?;
            if let Some(green) = self.stream.extension::<GreenStream>().get() {
                found.retain(green);
            }
            return Some(self.capturing.get_or_init(|| Box::new(found)));
        }
        self.capturing.get().map(|capturing| &**capturing)
    }

    /// Calls the driver with the description of the call.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[inline(always)]
    pub(crate) fn queue<R>(
        &self,
        queue: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        let call = Call {
            context: self.stream.context().live(),
            operation: self.operation,
            location: self.location,
            label: self.label,
            is_of_unused: false,
        };
        may_pause();
        let _host_bound = self.stream.submit_host_bound_if(self.is_host_bound);
        match queue(&call, self.handle) {
            Ok(value) => {
                self.stream.shared().work().note();
                Ok(value)
            }
            Err(failure) => {
                if self.stream.is_capturing() {
                    self.capture_has_failed();
                }
                Err(failed(self.stream, self.operation, self.location, failure))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn capture_has_failed(&self) {
        if let Some(capture) = self.capturing() {
            capture.work_has_failed();
        }
    }

    /// Notes that the stream has work, if the driver has refused a call that queues several pieces of work: it may have queued
    /// the first ones.
    pub(crate) fn note_even_if_refused<R>(&self, queued: &Result<R>) {
        if queued.is_err() {
            self.stream.shared().work().note();
        }
    }

    /// Updates the access histories after the driver was called.
    #[inline(always)]
    pub(crate) fn finish<'m>(&self, accesses: impl Iterator<Item = MemoryAccess<'m>> + Clone) {
        let stream = self.stream;
        if stream.is_capturing() {
            return self.settle();
        }
        if stream.shared().timeline().value() != self.value {
            accesses.clone().for_each(|MemoryAccess { memory, access }| memory.history().update(stream, access));
        }
        if stream.is_per_thread() {
            stream.record_sync_now();
        }
        if stream.is_legacy() && accesses.into_iter().any(|access| access.memory.is_borrowed()) {
            // Whoever borrows the memory waits for this use, also where a blocking stream captures then, so that nothing can be
            // recorded any more.
            stream.record_sync_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn settle(&self) {
        if let Some(capturing) = self.capturing() {
            capturing.settle(self.stream);
        }
    }

    /// In strict order, refuses accesses that the program has not ordered. It changes nothing.
    #[cold]
    #[inline(never)]
    fn check_order<'m>(&self, accesses: impl Iterator<Item = MemoryAccess<'m>>) -> Result<()> {
        let (stream, operation) = (self.stream, self.operation);
        for MemoryAccess { memory, access } in accesses {
            match self.capturing() {
                Some(capture) => capture.check_order(memory.address(), stream, access, operation)?,
                None => {
                    if memory.is_captured()
                        && let Some(capture) = capture_of_memory(memory)
                    {
                        capture.check_join(stream, memory.address(), operation)?;
                    }
                    memory.history().check(stream, access, operation)?;
                }
            }
        }
        Ok(())
    }

    fn join_capture(&self, capture: &Arc<CaptureState>, memory: &Allocation) -> Result<()> {
        // The membership changes, so that it is not held meanwhile.
        drop(self.submitting.take());
        let joined = capture.join_for_memory(self.stream, memory.address(), self.operation);
        self.submitting.set(Some(self.stream.shared().membership().submitting()));
        // Before what comes after it in the order of locks.
        if let Some(capture) = self.capturing() {
            capture.refuse_failed(self.stream, self.operation)?;
        }
        joined
    }

    #[cold]
    #[inline(never)]
    fn retain_captured<T: std::any::Any + Send + Sync>(&self, object: &Arc<T>) {
        if let Some(capture) = self.capturing() {
            capture.retain(object);
        }
    }

    /// Refuses work that must not be captured. The capture remains valid.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing.
    #[inline]
    pub fn refuse_while_capturing(&self) -> Result<()> {
        self.stream.refuse_while_capturing(self.operation)
    }
}

#[cold]
#[inline(never)]
fn failed(
    stream: &StreamCore,
    operation: &'static str,
    location: &'static Location<'static>,
    failure: anabranch_hal::Failure,
) -> Error {
    Error::driver(operation, failure).at(stream.place()).called_at(location)
}

/// Refuses memory that a capture uses, for work that must not be captured: using it would make the stream join.
///
/// # Errors
/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if a capture that has not ended uses the memory.
#[inline]
pub fn refuse_captured_memory(memory: &Allocation, stream: &StreamCore, operation: &'static str) -> Result<()> {
    if memory.is_captured() { refuse_if_used(memory, stream, operation) } else { Ok(()) }
}

#[cold]
#[inline(never)]
fn refuse_if_used(memory: &Allocation, stream: &StreamCore, operation: &'static str) -> Result<()> {
    if capture_of_memory(memory).is_some() { Err(captured_memory(stream, operation)) } else { Ok(()) }
}

fn captured_memory(stream: &StreamCore, operation: &'static str) -> Error {
    Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "a capture that has not ended uses the memory")
        .with_hint("do this before or after the capture")
        .at(stream.place())
}

/// Whether a launch needs no order for a piece of memory, because only its stream has used it, and no further checks
/// are needed. The caller excludes changes.
#[inline]
pub fn is_ordered_for(memory: &Allocation, submission: &Submission<'_>, access: Access) -> bool {
    !submission.stream.is_capturing()
        && !memory.is_captured()
        && !memory.is_attached()
        && memory.history().is_ordered(submission.stream, access, submission.value)
}
