//! Streams (Driver API, groups STREAM, EXEC for host functions, MEMOP for value operations).

mod attribute;
pub(crate) mod values;

pub(crate) use attribute::{raw_window, read_window};

use crate::capture_ends::unless_a_capture_ends;
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::CUstreamAttrValue;
use crate::handles::{context_handle, raw_event, raw_stream, stream_handle};
use crate::host_work::{self, QUEUED, QueuedWork, run_callback, run_host_function};
use anabranch_hal::{
    Call, Callback, ContextHandle, DeviceOrdinal, DevicePointer, EventHandle, EventWaitFlags, Failure, HostWork, Live,
    Result, Status, StreamAttribute, StreamAttributeKind, StreamFlags, StreamHandle, Streams, Value, ValueOperation,
    WaitValueFlags, WriteValueFlags,
};
use std::ffi::c_uint;
use std::ptr;

impl Streams for CudaDriver {
    fn stream_create(&self, call: &Call<'_>, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        let _bound = self.bind(call.context)?;
        let mut stream = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamCreateWithPriority(&mut stream, flags.bits(), priority) })?;
        Ok(stream_handle(stream))
    }

    unsafe fn stream_destroy(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: the caller promises that the stream exists, and that this is the last use of it.
        unless_a_capture_ends(|| check(unsafe { self.functions.cuStreamDestroy(raw_stream(stream)) }))
    }

    #[inline]
    fn stream_query(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let result = self.call_on_stream(call.context, stream, move || {
            // SAFETY: the stream is live, as its type says.
            check(unsafe { self.functions.cuStreamQuery(raw_stream(stream)) })
        });
        host_work::observe(call.context.handle(), result)
    }

    #[inline]
    fn stream_synchronize(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let result = self.call_on_stream(call.context, stream, move || {
            // SAFETY: the stream is live, as its type says.
            check(unsafe { self.functions.cuStreamSynchronize(raw_stream(stream)) })
        });
        host_work::observe(call.context.handle(), result)
    }

    #[inline]
    fn stream_wait_event(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        event: Live<'_, EventHandle>,
        flags: EventWaitFlags,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (stream, event) = (raw_stream(stream), raw_event(event));
            // SAFETY: stream and event are live, as their types say; the driver refuses flags that it does not know.
            unless_a_capture_ends(|| check(unsafe { self.functions.cuStreamWaitEvent(stream, event, flags.bits()) }))
        })
    }

    fn stream_flags(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<StreamFlags> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let mut flags = 0;
        // SAFETY: the stream is live, as its type says.
        check(unsafe { self.functions.cuStreamGetFlags(raw_stream(stream), &mut flags) })?;
        Ok(StreamFlags::from_bits_retain(flags))
    }

    fn stream_priority(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<i32> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let mut priority = 0;
        // SAFETY: the stream is live, as its type says.
        check(unsafe { self.functions.cuStreamGetPriority(raw_stream(stream), &mut priority) })?;
        Ok(priority)
    }

    fn stream_id(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<u64> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let mut id = 0;
        // SAFETY: the stream is live, as its type says.
        check(unsafe { self.functions.cuStreamGetId(raw_stream(stream), &mut id) })?;
        Ok(id)
    }

    fn stream_context(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<ContextHandle> {
        if stream.handle().is_legacy() || stream.handle().is_per_thread() {
            return Ok(call.context.handle());
        }
        let _bound = self.bind_for_handle(call.context)?;
        let mut owner = ptr::null_mut();
        // SAFETY: the stream is live, as its type says.
        check(unsafe { self.functions.cuStreamGetCtx(raw_stream(stream), &mut owner) })?;
        Ok(context_handle(owner))
    }

    fn stream_owner(&self, stream: Live<'_, StreamHandle>) -> Result<ContextHandle> {
        let mut owner = ptr::null_mut();
        // SAFETY: the stream is live, as its type says; of a default stream, the driver returns the current context.
        check(unsafe { self.functions.cuStreamGetCtx(raw_stream(stream), &mut owner) })?;
        let owner = context_handle(owner);
        if owner.is_null() { Err(Failure::new(Status::INVALID_CONTEXT)) } else { Ok(owner) }
    }

    fn stream_attribute(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        kind: StreamAttributeKind,
    ) -> Result<StreamAttribute> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let id = attribute::id(kind)?;
        let mut value = CUstreamAttrValue::zeroed();
        // SAFETY: the stream is live, as its type says.
        check(unsafe { self.functions.cuStreamGetAttribute(raw_stream(stream), id, &mut value) })?;
        // SAFETY: the driver has written the attribute of this kind, over bytes that were zero.
        unsafe { attribute::read(kind, &value) }
    }

    fn stream_set_attribute(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        attribute: &StreamAttribute,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let (id, value) = attribute::write(attribute)?;
        // SAFETY: the stream is live, as its type says; the value is the one that belongs to the attribute.
        check(unsafe { self.functions.cuStreamSetAttribute(raw_stream(stream), id, &value) })
    }

    #[inline]
    fn stream_copy_attributes(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        from: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: both streams are live, as their types say.
        check(unsafe { self.functions.cuStreamCopyAttributes(raw_stream(stream), raw_stream(from)) })
    }

    fn stream_device(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<DeviceOrdinal> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let mut device = 0;
        // SAFETY: the stream is live, as its type says, and the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuStreamGetDevice(raw_stream(stream), &mut device) })?;
        u32::try_from(device).map(DeviceOrdinal).map_err(|_| Failure::new(Status::INVALID_DEVICE))
    }

    fn stream_launch_host_function(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        work: HostWork,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let raw = raw_stream(stream);
            if self.is_capturing(stream)? {
                let key = work.repeatable().ok_or_else(runs_only_once)?;
                let node = host_work::describe(key);
                // SAFETY: the stream is live, as its type says; the function takes any key.
                return check(unsafe { self.functions.cuLaunchHostFunc(raw, node.fn_, node.userData) });
            }
            let key = QUEUED.insert(call.context.handle(), stream.handle(), QueuedWork::HostFunction(work))?;
            let data = key.as_user_data();
            // SAFETY: the stream is live, as its type says; the function takes any key, at any time and from any
            // thread.
            let queued = check(unsafe { self.functions.cuLaunchHostFunc(raw, Some(run_host_function), data) });
            if queued.is_err() {
                drop(QUEUED.take(key));
            }
            queued
        })
    }

    fn stream_add_callback(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, callback: Callback) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        let key = QUEUED.insert(call.context.handle(), stream.handle(), QueuedWork::Callback(callback))?;
        let (raw, data) = (raw_stream(stream), key.as_user_data());
        // SAFETY: the stream is live, as its type says; the function takes any key, at any time and from any thread.
        // While the stream captures, the driver refuses callbacks with `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`
        // and invalidates the capture.
        let queued = check(unsafe { self.functions.cuStreamAddCallback(raw, Some(run_callback), data, 0) });
        if queued.is_err() {
            drop(QUEUED.take(key));
        }
        queued
    }

    #[inline]
    unsafe fn stream_wait_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WaitValueFlags,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (stream, address, flags) = (raw_stream(stream), address.0, flags.bits());
            // SAFETY: the stream is live, as its type says, and the caller keeps the address valid until the operation
            // has run.
            check(unsafe {
                match value {
                    Value::U32(value) => self.functions.cuStreamWaitValue32(stream, address, value, flags),
                    Value::U64(value) => self.functions.cuStreamWaitValue64(stream, address, value, flags),
                }
            })
        })
    }

    #[inline]
    unsafe fn stream_write_value(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        address: DevicePointer,
        value: Value,
        flags: WriteValueFlags,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (stream, address, flags) = (raw_stream(stream), address.0, flags.bits());
            // SAFETY: the stream is live, as its type says, and the caller keeps the address valid until the operation
            // has run.
            check(unsafe {
                match value {
                    Value::U32(value) => self.functions.cuStreamWriteValue32(stream, address, value, flags),
                    Value::U64(value) => self.functions.cuStreamWriteValue64(stream, address, value, flags),
                }
            })
        })
    }

    unsafe fn stream_value_operations(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ValueOperation],
    ) -> Result<()> {
        let count = c_uint::try_from(operations.len()).map_err(|_| Failure::new(Status::INVALID_VALUE))?;
        let mut operations = values::to_raw(operations);
        self.call_on_stream(call.context, stream, move || {
            let operations = operations.as_mut_ptr();
            // SAFETY: the stream is live, as its type says. As many operations are there as stated, which the driver copies, and the
            // caller keeps their addresses valid until they have run.
            check(unsafe { self.functions.cuStreamBatchMemOp(raw_stream(stream), count, operations, 0) })
        })
    }
}

/// At the second launch of the captured graph there would be nothing to run. The work is refused here, because a refusal of
/// the driver's would invalidate the capture.
#[cold]
fn runs_only_once() -> Failure {
    Failure::argument(Status::STREAM_CAPTURE_UNSUPPORTED, "the stream captures, and this host work can run only once")
}
