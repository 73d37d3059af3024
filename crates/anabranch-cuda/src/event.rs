//! Events (Driver API, group EVENT).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::CUipcEventHandle;
use crate::handles::{event_handle, raw_event, raw_stream, signed, unsigned};
use crate::host_work;
use anabranch_hal::{
    Call, EventFlags, EventHandle, EventRecordFlags, Events, InterprocessEventHandle, Result, StreamHandle,
};
use std::ptr;

impl Events for CudaDriver {
    unsafe fn event_create(&self, call: &Call<'_>, flags: EventFlags) -> Result<EventHandle> {
        let _bound = self.bind(call.context)?;
        let mut event = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuEventCreate(&mut event, flags.bits()) })?;
        Ok(event_handle(event))
    }

    unsafe fn event_destroy(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: by the handle rule the event is live, and this is the last use of it.
        check(unsafe { self.functions.cuEventDestroy(raw_event(event)) })
    }

    #[inline]
    unsafe fn event_record(
        &self,
        call: &Call<'_>,
        event: EventHandle,
        stream: StreamHandle,
        flags: EventRecordFlags,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (event, stream) = (raw_event(event), raw_stream(stream));
            // SAFETY: by the handle rule event and stream are live; the driver refuses flags that it does not know.
            check(unsafe {
                if flags.is_empty() {
                    self.functions.cuEventRecord(event, stream)
                } else {
                    self.functions.cuEventRecordWithFlags(event, stream, flags.bits())
                }
            })
        })
    }

    #[inline]
    unsafe fn event_query(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        let result = self.call_on_handle(call.context, move || {
            // SAFETY: by the handle rule the event is live.
            check(unsafe { self.functions.cuEventQuery(raw_event(event)) })
        });
        host_work::observe(call.context, result)
    }

    #[inline]
    unsafe fn event_synchronize(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: by the handle rule the event is live.
        host_work::observe(call.context, check(unsafe { self.functions.cuEventSynchronize(raw_event(event)) }))
    }

    unsafe fn event_elapsed(&self, call: &Call<'_>, start: EventHandle, end: EventHandle) -> Result<f32> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut milliseconds = 0.0;
        // SAFETY: by the handle rule both events are live.
        check(unsafe { self.functions.cuEventElapsedTime(&mut milliseconds, raw_event(start), raw_event(end)) })?;
        Ok(milliseconds)
    }

    unsafe fn event_export(&self, call: &Call<'_>, event: EventHandle) -> Result<InterprocessEventHandle> {
        let _bound = self.bind(call.context)?;
        let mut exported = CUipcEventHandle::zeroed();
        // SAFETY: by the handle rule the event is live.
        check(unsafe { self.functions.cuIpcGetEventHandle(&mut exported, raw_event(event)) })?;
        Ok(InterprocessEventHandle(exported.reserved.map(unsigned)))
    }

    unsafe fn event_open(&self, call: &Call<'_>, exported: &InterprocessEventHandle) -> Result<EventHandle> {
        let _bound = self.bind(call.context)?;
        let exported = CUipcEventHandle { reserved: exported.0.map(signed) };
        let mut event = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call; the driver refuses bytes that it did not
        // make.
        check(unsafe { self.functions.cuIpcOpenEventHandle(&mut event, exported) })?;
        Ok(event_handle(event))
    }
}
