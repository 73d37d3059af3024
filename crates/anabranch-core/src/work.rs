//! The kinds of work: host functions, value operations, allocations, copies and fills.

use crate::capture_state::capture_of;
use crate::context::other_context;
use crate::error::{Error, Result};
use crate::host_work::{self, Launching, RepeatableHostWork};
use crate::memory::{Allocation, MemoryAccess, Origin};
use crate::memory_pool::MemoryPoolCore;
use crate::module::ModuleCore;
use crate::on_host::{copy_of_row, is_between_pinned};
use crate::stream::{Capture, OpenStream};
use crate::submission::Submission;
use crate::trace;
use anabranch_hal::{
    Call, Capabilities, Copy3d, CopyKind, DeviceOrdinal, DevicePointer, FillPattern, Live, Status, StreamHandle, Value,
    ValueOperation, WaitValueFlags, WriteValueFlags,
};
use std::sync::Arc;

/// How many value operations drivers take at once.
const MOST_VALUE_OPERATIONS: usize = 255;

/// One end of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyEnd<'a> {
    /// The memory.
    pub memory: &'a Arc<Allocation>,
    /// The first address.
    pub address: DevicePointer,
}

/// Which kinds of memory a copy connects, so that the driver need not determine it.
pub(crate) fn copy_kind(destination: &Allocation, source: &Allocation) -> CopyKind {
    match (source.is_pinned(), destination.is_pinned()) {
        (false, false) => CopyKind::DeviceToDevice,
        (true, false) => CopyKind::HostToDevice,
        (false, true) => CopyKind::DeviceToHost,
        (true, true) => CopyKind::Inferred,
    }
}

impl OpenStream {
    /// Orders the stream behind earlier uses of memory, and later uses of it behind what is in the stream until now, whoever
    /// has submitted that. Nothing is queued.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for memory of another context; `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order.
    #[track_caller]
    pub fn use_memory(&self, operation: &'static str, accesses: &[MemoryAccess<'_>]) -> Result<()> {
        Submission::begin(self, operation)?.submit(accesses, |_, _| Ok(()))
    }

    /// Runs a host function once, after all work queued so far.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, which does not invalidate the capture.
    #[inline]
    #[track_caller]
    pub fn launch_host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.host_function_using("launching a host function", &[], function).map_err(|error| match error.status() {
            Status::STREAM_CAPTURE_UNSUPPORTED => {
                error.with_hint("a graph runs its host functions at every launch: use launch_repeatable_host_func")
            }
            _ => error,
        })
    }

    /// Like [`launch_host_function`](Self::launch_host_function), for a function of this library that does what `operation` says
    /// with host-visible memory.
    ///
    /// # Errors
    /// Same as [`launch_host_function`](Self::launch_host_function); `CUDA_ERROR_INVALID_HANDLE (400)` for memory of
    /// another context.
    #[inline]
    #[track_caller]
    pub fn host_function_using(
        &self,
        operation: &'static str,
        accesses: &[MemoryAccess<'_>],
        function: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        trace::queued!(stream = self.id(), "{operation}");
        // Where a capture uses the memory, the driver would refuse the function when the stream has joined the capture.
        let submission = Submission::begin(self, operation)?.host_bound().not_capturable();
        let work = host_work::host_function(function, self.id(), self.shared().panics());
        submission
            .submit(accesses, |call, stream| self.context().driver().stream_launch_host_function(call, stream, work))
    }

    /// Runs a host function that can run any number of times. If the stream is capturing, it becomes a node.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn launch_repeatable_host_function(&self, work: &Arc<RepeatableHostWork>) -> Result<()> {
        let submission = Submission::begin(self, "launching a host function")?.host_bound();
        let launching = match capture_of(self) {
            Some(capture) => {
                capture.retain_with(|retained| retained.add_host_work(work));
                // It runs when the graph is launched, in the stream of that launch.
                None
            }
            // Before it runs, because that may panic at once.
            None => Launching::begin(std::slice::from_ref(work), || self.launch_place(None)),
        };
        let submitted = submission.submit(&[], |call, stream| {
            self.context().driver().stream_launch_host_function(call, stream, work.as_host_work())
        });
        // Also if it was refused, for a panic when it is dropped.
        drop(launching);
        submitted
    }

    /// Runs a callback exactly once, also if the context is in error.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, which invalidates the capture.
    #[track_caller]
    pub fn add_callback(&self, callback: impl FnOnce(Status) + Send + 'static) -> Result<()> {
        trace::queued!(stream = self.id(), "adding a callback");
        let submission = Submission::begin(self, "adding a callback")?.host_bound();
        let callback = host_work::callback(callback, self.id(), self.shared().panics());
        submission.submit(&[], |call, stream| self.context().driver().stream_add_callback(call, stream, callback))
    }

    /// Makes later work wait until the value at an address satisfies a condition.
    ///
    /// # Safety
    /// The address is valid for the device until the wait has run: it is within one of the accesses, or within memory
    /// that the caller guarantees.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the address is not aligned or the flags are invalid;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support the operation.
    #[track_caller]
    pub unsafe fn wait_value(
        &self,
        operation: &'static str,
        accesses: &[MemoryAccess<'_>],
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        trace::queued!(stream = self.id(), ?address, ?value, "{operation}");
        let submission = Submission::begin(self, operation)?.host_bound();
        // SAFETY: the caller keeps the address valid until the wait has run, or its memory is among the accesses.
        submission.submit(accesses, |call, stream| unsafe {
            self.context().driver().stream_wait_value(call, stream, address, value, flags)
        })
    }

    /// Writes a value at an address.
    ///
    /// # Safety
    /// Same as for [`wait_value`](Self::wait_value).
    ///
    /// # Errors
    /// Same as [`wait_value`](Self::wait_value).
    #[track_caller]
    pub unsafe fn write_value(
        &self,
        operation: &'static str,
        accesses: &[MemoryAccess<'_>],
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()> {
        trace::queued!(stream = self.id(), ?address, ?value, "{operation}");
        let submission = Submission::begin(self, operation)?;
        // SAFETY: the caller keeps the address valid until the write has run, or its memory is among the accesses.
        submission.submit(accesses, |call, stream| unsafe {
            self.context().driver().stream_write_value(call, stream, address, value, flags)
        })
    }

    /// Enqueues value operations as one unit, in their order. If one of them is refused, none is enqueued.
    ///
    /// # Safety
    /// Same as for [`wait_value`](Self::wait_value), for each address.
    ///
    /// # Errors
    /// Same as [`wait_value`](Self::wait_value); `CUDA_ERROR_INVALID_VALUE (1)` for more than 255 operations.
    #[track_caller]
    pub unsafe fn value_operations(
        &self,
        operation: &'static str,
        accesses: &[MemoryAccess<'_>],
        operations: &[ValueOperation],
    ) -> Result<()> {
        if operations.is_empty() {
            // Drivers differ.
            return self.require_usable(operation);
        }
        for each in operations {
            let needed = match each {
                ValueOperation::Reduce { .. } => Capabilities::ATOMIC_REDUCTION,
                ValueOperation::FlushRemoteWrites => Capabilities::FLUSH_REMOTE_WRITES,
                _ => continue,
            };
            if !self.context().device().can(needed) {
                return Err(Error::argument(
                    Status::NOT_SUPPORTED,
                    operation,
                    "the device, or its driver, has no such operation",
                )
                .with_hint("ask Device::capabilities before, and let a kernel do it where the device cannot")
                .at(self.place()));
            }
        }
        if operations.len() > MOST_VALUE_OPERATIONS {
            let message = format!("{} operations are more than {MOST_VALUE_OPERATIONS}", operations.len());
            return Err(Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("submit them in several batches")
                .at(self.place()));
        }
        trace::queued!(stream = self.id(), count = operations.len(), "{operation}");
        let submission = Submission::begin(self, operation)?.host_bound();
        // SAFETY: the caller keeps the addresses valid until the operations have run, or their memory is among the accesses.
        submission.submit(accesses, |call, stream| unsafe {
            self.context().driver().stream_value_operations(call, stream, operations)
        })
    }

    /// Allocates memory that can be used from this point of the stream on. Its contents are unspecified.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is not enough memory.
    #[track_caller]
    pub fn allocate(&self, bytes: usize, pool: Option<&Arc<MemoryPoolCore>>) -> Result<Arc<Allocation>> {
        let operation = "allocating in stream order";
        let context = self.context();
        trace::queued!(bytes, stream = self.id(), device = %context.device(), "{operation}");
        let submission = Submission::begin(self, operation)?;
        if let Some(capturing) = submission.capturing() {
            capturing.refuse_in_recapture(self, operation)?;
        }
        let mut address = DevicePointer::NULL;
        if bytes > 0 {
            let queued = submission.queue(|call, stream| {
                context.driver().allocate_async(call, bytes, pool.map(|pool| pool.live()), stream)
            });
            address = queued.map_err(|error| if self.is_capturing() { error } else { error.of_another_capture() })?;
        }
        // Other streams must come after the allocation.
        let Some(capture) = capture_of(self) else {
            let allocation = Arc::new(Allocation::in_stream_order(self, pool.cloned(), address, bytes));
            submission.finish(std::iter::empty());
            return Ok(allocation);
        };
        let graph = capture.graph();
        capture.has_allocated(address, bytes);
        let capture: Arc<dyn Capture> = capture;
        let origin = Origin::Captured { graph, capture: Arc::downgrade(&capture), stream: self.core().clone() };
        let allocation = Arc::new(Allocation::new(context, address, bytes, origin));
        let accesses = [MemoryAccess::write(&allocation)];
        let ordered = submission.order(accesses.iter().copied()).map(drop);
        if ordered.is_ok() {
            submission.finish(accesses.iter().copied());
        }
        // Memory that is dropped is freed in the capture.
        drop(submission);
        ordered.map(|()| allocation)
    }

    /// Copies `bytes` bytes between two pieces of memory.
    ///
    /// # Safety
    /// Both ranges are within their memory, and do not overlap.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if memory belongs to another context.
    #[inline]
    #[track_caller]
    pub unsafe fn copy(&self, to: CopyEnd<'_>, from: CopyEnd<'_>, bytes: usize) -> Result<()> {
        let kind = copy_kind(to.memory, from.memory);
        trace::queued!(bytes, stream = self.id(), ?kind, "copying");
        let submission = Submission::begin(self, "copying")?;
        let accesses = [MemoryAccess::read(from.memory), MemoryAccess::write(to.memory)];
        let (to, from) = (to.address.0, from.address.0);
        let copy = |call: &Call<'_>, stream: Live<'_, StreamHandle>| {
            // SAFETY: the caller promises that the ranges are within their memory, which is freed behind its uses, of which this
            // is one.
            unsafe { self.context().driver().copy_async(call, kind, to, from, bytes, stream) }
        };
        // SAFETY: the same, and that the ranges do not overlap.
        unsafe { submission.submit_copy(&accesses, || copy_of_row(to, from, bytes), copy) }
    }

    /// Copies `bytes` bytes of memory of one context to memory of another. The stream belongs to either context.
    ///
    /// # Safety
    /// Both ranges are within their memory, and do not overlap.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the stream belongs to neither context; `CUDA_ERROR_INVALID_DEVICE (101)` if
    /// the devices belong to different drivers; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is
    /// capturing, which invalidates the capture, or a capture that has not ended uses the memory.
    #[track_caller]
    pub unsafe fn copy_peer(&self, to: CopyEnd<'_>, from: CopyEnd<'_>, bytes: usize) -> Result<()> {
        trace::queued!(bytes, stream = self.id(), "copying between contexts");
        let submission = self.begin_peer_copy("copying between contexts", to.memory, from.memory)?;
        let (destination, source) = (to.memory.context(), from.memory.context());
        let accesses = [MemoryAccess::read(from.memory), MemoryAccess::write(to.memory)];
        // SAFETY: the caller promises that the ranges are within their memory, which is freed behind its uses, of which this is
        // one, and which holds a reference to its context, and that they do not overlap.
        submission.submit_reached(&accesses, |call, stream| unsafe {
            if is_between_pinned(&accesses) && !self.is_capturing() && self.must_not_wait(&accesses) {
                let copy = copy_of_row(to.address.0, from.address.0, bytes);
                return submission.put_on_host(&copy, call, stream);
            }
            let (to_context, from_context) = (destination.live(), source.live());
            self.context().driver().copy_peer_async(
                call,
                to.address,
                to_context,
                from.address,
                from_context,
                bytes,
                stream,
            )
        })
    }

    /// Begins a copy between contexts of one driver, of which either is the stream's.
    ///
    /// # Errors
    /// Same as [`copy_peer`](Self::copy_peer).
    #[track_caller]
    fn begin_peer_copy(&self, operation: &'static str, to: &Allocation, from: &Allocation) -> Result<Submission<'_>> {
        let submission = Submission::begin(self, operation)?.not_capturable();
        to.context().require_same_driver(from.context(), operation)?;
        if !to.is_reached_from(self.context()) && !from.is_reached_from(self.context()) {
            return Err(other_context(operation, "stream", self.place()));
        }
        Ok(submission)
    }

    /// Copies a region of memory of one context to memory of another. The stream belongs to either context.
    ///
    /// # Safety
    /// Both regions are within their memory, and do not overlap.
    ///
    /// # Errors
    /// Same as [`copy_peer`](Self::copy_peer).
    #[track_caller]
    pub unsafe fn copy_3d_peer(&self, to: &Arc<Allocation>, from: &Arc<Allocation>, copy: &Copy3d) -> Result<()> {
        trace::queued!(stream = self.id(), extent = ?copy.extent, "copying a region between contexts");
        let submission = self.begin_peer_copy("copying a region between contexts", to, from)?;
        let accesses = [MemoryAccess::read(from), MemoryAccess::write(to)];
        // SAFETY: the caller promises that the regions are within their memory, which is freed behind its uses, of which this is
        // one, and which holds a reference to its context, and that they do not overlap.
        submission.submit_reached(&accesses, |call, stream| unsafe {
            // The driver's function takes device memory.
            if is_between_pinned(&accesses) && !self.is_capturing() {
                return submission.put_on_host(copy, call, stream);
            }
            let (to, from) = (to.context().live(), from.context().live());
            self.context().driver().copy_3d_peer_async(call, copy, to, from, stream)
        })
    }

    /// Copies memory to a global variable of a module, which a capture retains. The variable is not ordered between streams.
    ///
    /// # Safety
    /// Both ranges have that many bytes: one is a variable of the module, the other is within its memory.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the module or the memory belongs to another context.
    #[track_caller]
    pub unsafe fn copy_to_global(
        &self,
        module: &Arc<ModuleCore>,
        variable: DevicePointer,
        from: CopyEnd<'_>,
        bytes: usize,
    ) -> Result<()> {
        let operation = "copying to a global variable";
        if !module.context().is_same(self.context()) {
            return Err(other_context(operation, "module", self.place()));
        }
        trace::queued!(bytes, stream = self.id(), "{operation}");
        let submission = Submission::begin(self, operation)?;
        let kind = if from.memory.is_pinned() { CopyKind::HostToDevice } else { CopyKind::DeviceToDevice };
        // SAFETY: the caller promises that the ranges have that many bytes. The memory is freed, and the module unloaded, behind
        // the copy, and a capture retains both.
        submission.submit_retaining(&[MemoryAccess::read(from.memory)], [module], |call, stream| unsafe {
            self.context().driver().copy_async(call, kind, variable.0, from.address.0, bytes, stream)
        })
    }

    /// Copies a region between two pieces of memory, from the first access to the second, for a call that does what `operation`
    /// says. If one of them is plain memory, there is no access to it.
    ///
    /// # Safety
    /// Both regions are valid until the copy has run, or within their memory, and do not overlap.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if memory belongs to another context.
    #[track_caller]
    pub unsafe fn copy_3d(&self, operation: &'static str, accesses: &[MemoryAccess<'_>], copy: &Copy3d) -> Result<()> {
        trace::queued!(stream = self.id(), extent = ?copy.extent, "{operation}");
        let submission = Submission::begin(self, operation)?;
        let by_driver = |call: &Call<'_>, stream: Live<'_, StreamHandle>| {
            // SAFETY: the caller promises that the regions are within their memory, which is freed behind its uses, of which this
            // is one.
            unsafe { self.context().driver().copy_3d_async(call, copy, stream) }
        };
        // SAFETY: the same, and that the regions do not overlap.
        unsafe { submission.submit_copy(accesses, || *copy, by_driver) }
    }

    /// Copies from plain host memory.
    ///
    /// # Safety
    /// The destination is within its memory. The source is neither freed nor changed until the copy has run. If it is
    /// only borrowed, the caller ensures that the copy is not captured.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the memory belongs to another context.
    #[track_caller]
    pub unsafe fn copy_from_host(&self, to: CopyEnd<'_>, from: *const u8, bytes: usize) -> Result<()> {
        let kind = if to.memory.is_pinned() { CopyKind::Inferred } else { CopyKind::HostToDevice };
        let accesses = [MemoryAccess::write(to.memory)];
        // SAFETY: the caller promises that the destination is within its memory, which is freed behind its uses, of which this is
        // one, and keeps the source unchanged until the copy has run.
        unsafe { self.copy_addresses("copying", &accesses, kind, to.address.0, from as usize as u64, bytes) }
    }

    /// Copies to plain host memory.
    ///
    /// # Safety
    /// The source is within its memory. The destination is neither freed nor used until the copy has run. If it is only
    /// borrowed, the caller ensures that the copy is not captured.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the memory belongs to another context.
    #[track_caller]
    pub unsafe fn copy_to_host(&self, to: *mut u8, from: CopyEnd<'_>, bytes: usize) -> Result<()> {
        let kind = if from.memory.is_pinned() { CopyKind::Inferred } else { CopyKind::DeviceToHost };
        let accesses = [MemoryAccess::read(from.memory)];
        // SAFETY: the caller promises that the source is within its memory, which is freed behind its uses, of which this is one,
        // and that nobody uses the destination until the copy has run.
        unsafe { self.copy_addresses("copying", &accesses, kind, to as usize as u64, from.address.0, bytes) }
    }

    /// Copies between two addresses.
    ///
    /// # Safety
    /// Both ranges are valid until the copy has run. The caller orders it with other uses of the memory, unless they
    /// are declared.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[track_caller]
    pub unsafe fn copy_addresses(
        &self,
        operation: &'static str,
        accesses: &[MemoryAccess<'_>],
        kind: CopyKind,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<()> {
        trace::queued!(bytes, stream = self.id(), ?kind, "{operation}");
        let submission = Submission::begin(self, operation)?;
        // SAFETY: the caller keeps both ranges valid until the copy has run.
        submission.submit(accesses, |call, stream| unsafe {
            self.context().driver().copy_async(call, kind, to, from, bytes, stream)
        })
    }

    /// Fills `count` elements of the pattern's width.
    ///
    /// # Safety
    /// The range is valid until the fill has run: it is within one of the accesses, or within memory that the caller
    /// guarantees.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the memory belongs to another context; `CUDA_ERROR_INVALID_VALUE (1)` if
    /// the range is not within an allocation, or not aligned to the pattern's width.
    #[inline]
    #[track_caller]
    pub unsafe fn fill(
        &self,
        accesses: &[MemoryAccess<'_>],
        address: DevicePointer,
        pattern: FillPattern,
        count: usize,
    ) -> Result<()> {
        trace::queued!(count, ?pattern, stream = self.id(), "filling");
        let submission = Submission::begin(self, "filling")?;
        // CUDA has no fill of 64 bits.
        let submission = if pattern.width() > 4 { submission.in_parts() } else { submission };
        // SAFETY: the caller keeps the range valid until the fill has run, or its memory is among the accesses and freed behind it.
        submission.submit(accesses, |call, stream| unsafe {
            self.context().driver().fill_async(call, address, pattern, count, stream)
        })
    }

    /// Moves managed memory to a device, or to the host.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support it; `CUDA_ERROR_INVALID_HANDLE (400)` if the
    /// memory belongs to another context; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing,
    /// which invalidates the capture, or a capture that has not ended uses the memory.
    #[track_caller]
    pub fn prefetch(&self, memory: &Arc<Allocation>, device: Option<DeviceOrdinal>) -> Result<()> {
        let submission = Submission::begin(self, "prefetching managed memory")?.not_capturable();
        // SAFETY: the memory is freed behind its uses, of which this is one.
        submission.submit(&[MemoryAccess::read(memory)], |call, stream| unsafe {
            self.context().driver().prefetch_async(call, memory.address(), memory.bytes(), device, stream)
        })
    }
}
