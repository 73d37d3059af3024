//! Streams (Driver API, groups STREAM, EXEC for host functions, MEMOP for value operations).

mod attribute;

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{CUgraph, CUstream, CUstreamAttrValue};
use crate::graph::host_node::{HostNode, run_host_node};
use crate::handles::{context_handle, raw_event, raw_stream, stream_handle};
use crate::host_work::{QUEUED, QueuedWork, run_callback, run_host_function};
use crate::panics::PANICS;
use anabranch_hal::{
    Callback, ContextHandle, DevicePointer, EventHandle, EventWaitFlags, HostWork, RepeatableWork, Result,
    StreamAttribute, StreamAttributeKind, StreamFlags, StreamHandle, Streams, Value, WaitValueFlags, WriteValueFlags,
};
use std::ptr;

impl CudaDriver {
    /// Passes a result of a call that waits for a stream, or reports a panic of one of the stream's closures.
    #[inline]
    fn observe_stream(&self, context: ContextHandle, stream: StreamHandle, result: Result<()>) -> Result<()> {
        match result {
            Ok(()) if PANICS.any() => self.report_panic(context, stream),
            result => self.observe(context, result),
        }
    }

    #[cold]
    #[inline(never)]
    fn report_panic(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: the caller's stream is live.
        let id = unsafe { self.stream_id(context, stream) }?;
        PANICS.report_stream(id)
    }

    /// Puts a host node into the graph that the stream captures into.
    ///
    /// # Safety
    ///
    /// The stream is live, known by itself or by the current context, and captures into the graph.
    unsafe fn capture_host_work(
        &self,
        context: ContextHandle,
        stream: CUstream,
        graph: CUgraph,
        work: &RepeatableWork,
    ) -> Result<()> {
        let node = HostNode::new(context, work.clone());
        let data = node.as_user_data();
        // SAFETY: the caller vouches for the graph, which may be given references while it is made.
        unsafe { self.retain(graph, node) }?;
        // SAFETY: the caller vouches for the stream; the function takes any address, and the graph keeps what is at this
        // one.
        check(unsafe { self.functions.cuLaunchHostFunc(stream, Some(run_host_node), data) })
    }
}

impl Streams for CudaDriver {
    unsafe fn stream_create(&self, context: ContextHandle, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        let _bound = self.bind(context)?;
        let mut stream = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamCreateWithPriority(&mut stream, flags.bits(), priority) })?;
        Ok(stream_handle(stream))
    }

    unsafe fn stream_destroy(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        // SAFETY: by the handle rule the stream is live, and this is the last use of it.
        check(unsafe { self.functions.cuStreamDestroy(raw_stream(stream)) })
    }

    #[inline]
    unsafe fn stream_query(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        let result = self.call_on_stream(context, stream, move || {
            // SAFETY: by the handle rule the stream is live.
            check(unsafe { self.functions.cuStreamQuery(raw_stream(stream)) })
        });
        self.observe_stream(context, stream, result)
    }

    #[inline]
    unsafe fn stream_synchronize(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        // SAFETY: by the handle rule the stream is live.
        let result = check(unsafe { self.functions.cuStreamSynchronize(raw_stream(stream)) });
        self.observe_stream(context, stream, result)
    }

    #[inline]
    unsafe fn stream_take_failure(&self, context: ContextHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: by the handle rule the stream is live. Asked for its number, a stream that captures spoils the capture.
        if PANICS.any() && unsafe { self.refuse_in_capture(raw_stream(stream)) }.is_ok() {
            // SAFETY: as above.
            let id = unsafe { self.stream_id(context, stream) }?;
            PANICS.report_stream(id)?;
        }
        Ok(())
    }

    #[inline]
    unsafe fn stream_wait_event(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        event: EventHandle,
        flags: EventWaitFlags,
    ) -> Result<()> {
        self.call_on_stream(context, stream, move || {
            let (stream, event) = (raw_stream(stream), raw_event(event));
            // SAFETY: by the handle rule stream and event are live; the driver refuses flags that it does not know.
            check(unsafe { self.functions.cuStreamWaitEvent(stream, event, flags.bits()) })
        })
    }

    unsafe fn stream_flags(&self, context: ContextHandle, stream: StreamHandle) -> Result<StreamFlags> {
        let _bound = self.bind_for_stream(context, stream)?;
        let mut flags = 0;
        // SAFETY: by the handle rule the stream is live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetFlags(raw_stream(stream), &mut flags) })?;
        Ok(StreamFlags::from_bits_retain(flags))
    }

    unsafe fn stream_priority(&self, context: ContextHandle, stream: StreamHandle) -> Result<i32> {
        let _bound = self.bind_for_stream(context, stream)?;
        let mut priority = 0;
        // SAFETY: by the handle rule the stream is live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetPriority(raw_stream(stream), &mut priority) })?;
        Ok(priority)
    }

    unsafe fn stream_id(&self, context: ContextHandle, stream: StreamHandle) -> Result<u64> {
        let _bound = self.bind_for_stream(context, stream)?;
        let mut id = 0;
        // SAFETY: by the handle rule the stream is live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetId(raw_stream(stream), &mut id) })?;
        Ok(id)
    }

    unsafe fn stream_context(&self, context: ContextHandle, stream: StreamHandle) -> Result<ContextHandle> {
        if stream.is_legacy() || stream.is_per_thread() {
            return Ok(context);
        }
        let _bound = self.bind_for_handle(context)?;
        let mut owner = ptr::null_mut();
        // SAFETY: by the handle rule the stream is live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetCtx(raw_stream(stream), &mut owner) })?;
        Ok(context_handle(owner))
    }

    unsafe fn stream_attribute(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute> {
        let _bound = self.bind_for_stream(context, stream)?;
        let id = attribute::id(kind)?;
        let mut value = CUstreamAttrValue::zeroed();
        // SAFETY: by the handle rule the stream is live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetAttribute(raw_stream(stream), id, &mut value) })?;
        // SAFETY: the driver has written the attribute of this kind, over bytes that were zero.
        unsafe { attribute::read(kind, &value) }
    }

    unsafe fn stream_set_attribute(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        attribute: &StreamAttribute,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        let (id, value) = attribute::write(attribute)?;
        // SAFETY: by the handle rule the stream is live; the value is the one that belongs to the attribute.
        check(unsafe { self.functions.cuStreamSetAttribute(raw_stream(stream), id, &value) })
    }

    unsafe fn stream_launch_host_function(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        work: HostWork,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        if let Some(work) = work.repeatable() {
            // SAFETY: by the handle rule the stream is live, and it is known by itself or by the context.
            if let Some(graph) = unsafe { self.captured_graph(raw_stream(stream)) }? {
                // SAFETY: as above, and the stream captures into this graph.
                return unsafe { self.capture_host_work(context, raw_stream(stream), graph, work) };
            }
        }
        // SAFETY: by the handle rule the stream is live, and it is known by itself or by the context.
        unsafe { self.refuse_in_capture(raw_stream(stream)) }?;
        // SAFETY: by the handle rule the stream is live.
        let id = unsafe { self.stream_id(context, stream) }?;
        let key = QUEUED.insert(context, id, QueuedWork::HostFunction(work));
        let data = key.as_user_data();
        let raw = raw_stream(stream);
        // SAFETY: by the handle rule the stream is live; the function takes any key, at any time and from any thread.
        let queued = check(unsafe { self.functions.cuLaunchHostFunc(raw, Some(run_host_function), data) });
        if queued.is_err() {
            drop(QUEUED.take(key));
        }
        queued
    }

    unsafe fn stream_add_callback(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        callback: Callback,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        // SAFETY: by the handle rule the stream is live. While it captures, the driver refuses this as it does callbacks: with
        // 900, and the capture is spoiled.
        let id = unsafe { self.stream_id(context, stream) }?;
        let key = QUEUED.insert(context, id, QueuedWork::Callback(callback));
        let data = key.as_user_data();
        let raw = raw_stream(stream);
        // SAFETY: by the handle rule the stream is live; the function takes any key, at any time and from any thread.
        let queued = check(unsafe { self.functions.cuStreamAddCallback(raw, Some(run_callback), data, 0) });
        if queued.is_err() {
            drop(QUEUED.take(key));
        }
        queued
    }

    unsafe fn stream_wait_value(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        let (stream, address, flags) = (raw_stream(stream), address.0, flags.bits());
        check(match value {
            // SAFETY: by the handle rule the stream is live, and the address valid until the operation has run.
            Value::U32(value) => unsafe { self.functions.cuStreamWaitValue32(stream, address, value, flags) },
            // SAFETY: as above.
            Value::U64(value) => unsafe { self.functions.cuStreamWaitValue64(stream, address, value, flags) },
        })
    }

    unsafe fn stream_write_value(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        let (stream, address, flags) = (raw_stream(stream), address.0, flags.bits());
        check(match value {
            // SAFETY: by the handle rule the stream is live, and the address valid until the operation has run.
            Value::U32(value) => unsafe { self.functions.cuStreamWriteValue32(stream, address, value, flags) },
            // SAFETY: as above.
            Value::U64(value) => unsafe { self.functions.cuStreamWriteValue64(stream, address, value, flags) },
        })
    }
}
