//! Making a context current on the thread for the duration of a call.
//!
//! Many of the driver's calls act on the context that is current on the calling thread. The thread is the program's,
//! and other libraries in it keep a context of their own there, so a context is pushed on the thread's stack for one
//! call and popped again. Where the right one is current already, which is so on the threads of most programs with one
//! device, nothing is pushed, and finding that out costs one read of a thread-local variable.
//!
//! Calls on many handles need no current context, because the driver finds it in the handle. So that the decision is one
//! line for each call, there are three ways of binding:
//!
//! * [`CudaDriver::bind`], for calls on the current context, and for those where the time does not matter: making,
//!   allocating, freeing, modules, and what is asked of kernels. With no context current, some of these answer
//!   `CUDA_ERROR_INVALID_CONTEXT (201)`; with another one, exporting an event ends the process. And for all copies, also in
//!   streams: a copy that is captured belongs to the context that is current, whatever that of the stream is, and the launch of
//!   its graph crashes if there was none or if it has been destroyed. The driver also looks for memory that is made of several
//!   mappings in the current context.
//! * [`CudaDriver::bind_for_stream`], for all else that is queued in a stream or asked of one. Only the default streams need
//!   it, because each context has its own. [`CudaDriver::call_on_stream`] is the same for calls that are made often.
//! * [`CudaDriver::bind_for_handle`], for calls on events, and for those on the structure of graphs.
//!   [`CudaDriver::call_on_handle`] is the same for calls that are made often.
//!
//! The last two bind nothing with the drivers that this was measured with, those of CUDA 13.0 and newer
//! (`handles_suffice`), and are the same as the first with older ones.

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::CudaFunctions;
use crate::handles::raw_context;
use anabranch_hal::{ContextHandle, Live, Result, StreamHandle};
use std::marker::PhantomData;
use std::ptr;

/// While it lives, the context is current on this thread. Then the thread has what it had.
#[must_use = "the context is current only as long as this lives"]
pub(crate) struct Bound<'a> {
    /// The functions to pop the context with, if it was pushed.
    pushed: Option<&'a CudaFunctions>,
    /// The stack of contexts is the thread's, so this must be dropped there.
    not_send: PhantomData<*const ()>,
}

impl<'a> Bound<'a> {
    const fn new(pushed: Option<&'a CudaFunctions>) -> Self {
        Self { pushed, not_send: PhantomData }
    }
}

impl Drop for Bound<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(functions) = self.pushed {
            pop(functions);
        }
    }
}

#[inline(never)]
fn pop(functions: &CudaFunctions) {
    let mut popped = ptr::null_mut();
    // SAFETY: the result is written to a variable that outlives the call. What is popped is what was pushed: the calls
    // in between leave the stack as it is.
    // A failure would mean that the stack is empty, and then there is nothing to put right.
    let _ = unsafe { functions.cuCtxPopCurrent(&mut popped) };
}

impl CudaDriver {
    /// Makes the context current while the result lives.
    #[inline]
    pub(crate) fn bind(&self, context: Live<'_, ContextHandle>) -> Result<Bound<'_>> {
        let mut current = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuCtxGetCurrent(&mut current) })?;
        if current == raw_context(context) { Ok(Bound::new(None)) } else { self.push(context) }
    }

    /// Makes the context current while the result lives, if the stream alone does not name it.
    #[inline]
    pub(crate) fn bind_for_stream(
        &self,
        context: Live<'_, ContextHandle>,
        stream: impl Into<StreamHandle>,
    ) -> Result<Bound<'_>> {
        if self.needs_context(stream.into()) { self.bind(context) } else { Ok(Bound::new(None)) }
    }

    /// Makes the context current while the result lives, with drivers for which handles do not suffice.
    #[inline]
    pub(crate) fn bind_for_handle(&self, context: Live<'_, ContextHandle>) -> Result<Bound<'_>> {
        if self.handles_suffice { Ok(Bound::new(None)) } else { self.bind(context) }
    }

    /// Makes a call that is made often, bound as by [`bind_for_stream`](Self::bind_for_stream). What it takes to bind is
    /// kept out of its way.
    #[inline(always)]
    pub(crate) fn call_on_stream<R>(
        &self,
        context: Live<'_, ContextHandle>,
        stream: Live<'_, StreamHandle>,
        call: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        if self.needs_context(stream.handle()) { self.call_bound(context, call) } else { call() }
    }

    /// Makes a call that is made often, bound as by [`bind_for_handle`](Self::bind_for_handle).
    #[inline(always)]
    pub(crate) fn call_on_handle<R>(
        &self,
        context: Live<'_, ContextHandle>,
        call: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        if self.handles_suffice { call() } else { self.call_bound(context, call) }
    }

    /// Whether a call on the stream needs its context to be current: each context has default streams of its own under the
    /// same handles, and with older drivers handles do not suffice.
    #[inline(always)]
    fn needs_context(&self, stream: StreamHandle) -> bool {
        !self.handles_suffice || stream.is_legacy() || stream.is_per_thread()
    }

    #[cold]
    #[inline(never)]
    fn call_bound<R>(&self, context: Live<'_, ContextHandle>, call: impl FnOnce() -> Result<R>) -> Result<R> {
        let _bound = self.bind(context)?;
        call()
    }

    #[inline(never)]
    fn push(&self, context: Live<'_, ContextHandle>) -> Result<Bound<'_>> {
        // SAFETY: the context is live, as its type says.
        check(unsafe { self.functions.cuCtxPushCurrent(raw_context(context)) })?;
        Ok(Bound::new(Some(&self.functions)))
    }
}

#[cfg(test)]
mod tests;
