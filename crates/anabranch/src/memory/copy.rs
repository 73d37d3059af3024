//! Copies between pieces of memory.

use super::{Allocation, BufferSlice, BufferSliceMut};
use crate::context::other_context;
use crate::error::{Error, Result, ResultExt};
use crate::owned::on_host;
use crate::stream::{Stream, StreamCore};
use crate::trace;
use anabranch_hal::{Access, CopyKind, DevicePointer, Status};
use bytemuck::Pod;
use std::sync::Arc;

const OPERATION: &str = "copying";

pub(crate) fn require_equal_lengths(destination: usize, source: usize) -> Result<()> {
    if destination == source {
        return Ok(());
    }
    Err(Error::argument(
        Status::INVALID_VALUE,
        OPERATION,
        format!("the destination has {destination} elements and the source {source}; slice one to the other's length"),
    ))
}

/// Which kinds of memory a copy connects, so that the driver need not look.
pub(super) fn kind(destination: &Allocation, source: &Allocation) -> CopyKind {
    match (source.is_pinned(), destination.is_pinned()) {
        (false, false) => CopyKind::DeviceToDevice,
        (true, false) => CopyKind::HostToDevice,
        (false, true) => CopyKind::DeviceToHost,
        (true, true) => CopyKind::Inferred,
    }
}

impl Stream {
    /// Copies in stream order, and returns at once: between device memory, pinned memory and managed memory, in any
    /// combination, except that the host waits when both are pinned. Between devices or contexts, see
    /// [`copy_peer`](Self::copy_peer).
    ///
    /// # Errors
    /// 1 when the lengths differ; 400 when a buffer is of another context.
    pub fn copy<'d, 's, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        let (destination, source) = (destination.into(), source.into());
        require_equal_lengths(destination.len(), source.len())?;
        let core = self.core();
        destination.allocation().require_context(core, OPERATION)?;
        source.allocation().require_context(core, OPERATION)?;
        if source.byte_len() == 0 {
            return Ok(());
        }
        let (read, written) = (source.allocation(), destination.allocation());
        if read.is_pinned() && written.is_pinned() && (read.is_kept() || written.is_kept()) && !core.is_capturing() {
            // The driver would wait for the copy, and others of the graph's memory with it.
            return on_host::copy(self, destination, source);
        }
        let operation = core.operation(OPERATION);
        check_both(core, read, written, OPERATION)?;
        read.order(core, Access::Read, &operation)?;
        written.order(core, Access::Write, &operation)?;
        let kind = kind(destination.allocation(), source.allocation());
        let (to, from) = (destination.device_pointer().0, source.device_pointer().0);
        // SAFETY: both ranges are within their buffers, which are freed behind their uses, of which this is one.
        unsafe { queue(core, kind, to, from, source.byte_len()) }?;
        core.queued(&operation, || stamp_both(core, read, written))
    }

    /// Copies device memory of one context to device memory of another, in stream order, and returns at once. The
    /// stream is of either context. Faster after [`Context::enable_peer_access`](crate::Context::enable_peer_access),
    /// and possible without.
    ///
    /// # Errors
    /// 1 when the lengths differ; 400 when the stream is of neither context; 101 when the devices belong to different
    /// back ends; 900 while the stream captures, which spoils the capture.
    pub fn copy_peer<'d, 's, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        let name = "copying between contexts";
        let (destination, source) = (destination.into(), source.into());
        trace::queued!(bytes = source.byte_len(), stream = self.id(), "{name}");
        require_equal_lengths(destination.len(), source.len())?;
        let core = self.core();
        let (to, from) = (destination.allocation(), source.allocation());
        to.context().require_same_driver(from.context(), name)?;
        if to.require_context(core, name).is_err() && from.require_context(core, name).is_err() {
            return Err(other_context(name, "stream", core.place()));
        }
        if source.byte_len() == 0 {
            return Ok(());
        }
        let operation = core.operation(name);
        check_both(core, from, to, name)?;
        from.order(core, Access::Read, &operation)?;
        to.order(core, Access::Write, &operation)?;
        let (driver, context, handle) = (core.context().driver(), core.context().handle(), core.handle(name)?);
        // SAFETY: both ranges are within their buffers, which are freed behind their uses, of which this is one; their
        // contexts are live as long as they are.
        unsafe {
            driver.copy_peer_async(
                context,
                destination.device_pointer(),
                to.context().handle(),
                source.device_pointer(),
                from.context().handle(),
                source.byte_len(),
                handle,
            )
        }
        .during(name, || core.place())?;
        core.queued(&operation, || stamp_both(core, from, to))
    }

    /// Copies from plain host memory, in stream order. Returns when `source` may be changed again, which is when the
    /// copy is complete. For a copy that does not wait, use a [`PinnedBuffer`](crate::PinnedBuffer) or a
    /// [scope](Self::sync_scope).
    ///
    /// # Errors
    /// 1 when the lengths differ; 400 when the buffer is of another context; 900 while the stream, or what uses the buffer,
    /// captures.
    pub fn copy_from_host<'d, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: &[T],
    ) -> Result<()> {
        self.sync_scope(|scope| scope.copy_from_host(destination, source))
    }

    /// Copies to plain host memory, in stream order. Returns when the copy is complete.
    ///
    /// # Errors
    /// 1 when the lengths differ; 400 when the buffer is of another context; 900 while the stream, or what uses the buffer,
    /// captures; an error of work that the copy comes after.
    pub fn copy_to_host<'s, T: Pod>(&self, destination: &mut [T], source: impl Into<BufferSlice<'s, T>>) -> Result<()> {
        self.sync_scope(|scope| scope.copy_to_host(destination, source))
    }

    /// Queues a copy from plain host memory, and may return before it is complete.
    ///
    /// # Safety
    /// `source` is neither freed nor changed until the copy has run.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    pub unsafe fn copy_from_host_unchecked<'d, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: &[T],
    ) -> Result<()> {
        let destination = destination.into();
        require_equal_lengths(destination.len(), source.len())?;
        let core = self.core();
        destination.allocation().require_context(core, OPERATION)?;
        if destination.byte_len() == 0 {
            return Ok(());
        }
        let operation = core.operation(OPERATION);
        destination.allocation().order(core, Access::Write, &operation)?;
        let (to, from) = (destination.device_pointer().0, source.as_ptr() as usize as u64);
        let kind = if destination.allocation().is_pinned() { CopyKind::Inferred } else { CopyKind::HostToDevice };
        // SAFETY: the destination is freed behind its uses, of which this is one; the source is the caller's word.
        unsafe { queue(core, kind, to, from, destination.byte_len()) }?;
        core.queued(&operation, || destination.allocation().stamp(core, Access::Write))
    }

    /// Queues a copy to plain host memory, and may return before it is complete.
    ///
    /// # Safety
    /// `destination` is neither freed nor used until the copy has run.
    ///
    /// # Errors
    /// As [`copy_to_host`](Self::copy_to_host).
    pub unsafe fn copy_to_host_unchecked<'s, T: Pod>(
        &self,
        destination: &mut [T],
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        let source = source.into();
        require_equal_lengths(destination.len(), source.len())?;
        let core = self.core();
        source.allocation().require_context(core, OPERATION)?;
        if source.byte_len() == 0 {
            return Ok(());
        }
        let operation = core.operation(OPERATION);
        source.allocation().order(core, Access::Read, &operation)?;
        let (to, from) = (destination.as_mut_ptr() as usize as u64, source.device_pointer().0);
        let kind = if source.allocation().is_pinned() { CopyKind::Inferred } else { CopyKind::DeviceToHost };
        // SAFETY: the source is freed behind its uses, of which this is one; the destination is the caller's word.
        unsafe { queue(core, kind, to, from, source.byte_len()) }?;
        core.queued(&operation, || source.allocation().stamp(core, Access::Read))
    }

    /// Copies `bytes` bytes between two addresses in stream order, with no order kept by the library.
    ///
    /// # Safety
    /// Both ranges are valid until the copy has run, and what uses them is ordered by the caller.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn copy_raw(&self, destination: DevicePointer, source: DevicePointer, bytes: usize) -> Result<()> {
        // SAFETY: the ranges are the caller's word.
        unsafe { queue(self.core(), CopyKind::Inferred, destination.0, source.0, bytes) }
    }
}

/// In strict mode, refuses a copy that is not ordered by the user, before anything is done about either end.
#[inline(always)]
pub(crate) fn check_both(
    core: &Arc<StreamCore>,
    read: &Allocation,
    written: &Allocation,
    operation: &'static str,
) -> Result<()> {
    if !core.context().is_order_strict() {
        return Ok(());
    }
    read.check_order(core, Access::Read, operation)?;
    written.check_order(core, Access::Write, operation)
}

/// Stamps both ends of a copy.
#[cold]
pub(crate) fn stamp_both(core: &Arc<StreamCore>, read: &Arc<Allocation>, written: &Arc<Allocation>) {
    read.stamp(core, Access::Read);
    written.stamp(core, Access::Write);
}

/// # Safety
/// Both ranges stay valid until the copy has run.
unsafe fn queue(core: &Arc<StreamCore>, kind: CopyKind, to: u64, from: u64, bytes: usize) -> Result<()> {
    trace::queued!(bytes, stream = core.id(), ?kind, "{OPERATION}");
    let handle = core.handle(OPERATION)?;
    // SAFETY: the stream is in use by the caller; the ranges are the caller's word.
    unsafe { core.context().driver().copy_async(core.context().handle(), kind, to, from, bytes, handle) }
        .during(OPERATION, || core.place())
}
