//! Events (Driver API, group EVENT).

use crate::capture_ends::{is_any_in_progress, unless_a_capture_ends};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::CUipcEventHandle;
use crate::handles::{event_handle, raw_event, raw_stream, signed, unsigned};
use crate::host_work;
use anabranch_hal::{
    Call, EventFlags, EventHandle, EventRecordFlags, Events, InterprocessEventHandle, Live, Result, Status,
    StreamHandle,
};
use std::ptr;

impl Events for CudaDriver {
    fn event_create(&self, call: &Call<'_>, flags: EventFlags) -> Result<EventHandle> {
        let _bound = self.bind(call.context)?;
        let mut event = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuEventCreate(&mut event, flags.bits()) })?;
        Ok(event_handle(event))
    }

    unsafe fn event_destroy(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: the caller promises that the event exists, and that this is the last use of it.
        unless_a_capture_ends(|| check(unsafe { self.functions.cuEventDestroy(raw_event(event)) }))
    }

    #[inline]
    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (event, stream) = (raw_event(event), raw_stream(stream));
            // SAFETY: event and stream are live, as their types say; the driver refuses flags that it does not know.
            let record = || unsafe {
                if flags.is_empty() {
                    self.functions.cuEventRecord(event, stream)
                } else {
                    self.functions.cuEventRecordWithFlags(event, stream, flags.bits())
                }
            };
            unless_a_capture_ends(|| check(record()))
        })
    }

    #[inline]
    fn event_query(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()> {
        let result = self.call_on_handle(call.context, move || {
            // SAFETY: the event is live, as its type says.
            unless_a_capture_ends(|| check(unsafe { self.functions.cuEventQuery(raw_event(event)) }))
        });
        host_work::observe(call.context.handle(), result)
    }

    #[inline]
    fn event_synchronize(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        if is_any_in_progress() {
            // One that was captured fails here. For others it is waited below, beside ends of captures.
            match self.event_query(call, event) {
                Err(failure) if failure.status == Status::NOT_READY => {}
                queried => return queried,
            }
        }
        // SAFETY: the event is live, as its type says.
        host_work::observe(call.context.handle(), check(unsafe { self.functions.cuEventSynchronize(raw_event(event)) }))
    }

    fn event_elapsed(&self, call: &Call<'_>, start: Live<'_, EventHandle>, end: Live<'_, EventHandle>) -> Result<f32> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut milliseconds = 0.0;
        let (start, end) = (raw_event(start), raw_event(end));
        // SAFETY: both events are live, as their types say.
        unless_a_capture_ends(|| check(unsafe { self.functions.cuEventElapsedTime(&mut milliseconds, start, end) }))?;
        Ok(milliseconds)
    }

    fn event_export(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<InterprocessEventHandle> {
        let _bound = self.bind(call.context)?;
        let mut exported = CUipcEventHandle::zeroed();
        // SAFETY: the event is live, as its type says.
        check(unsafe { self.functions.cuIpcGetEventHandle(&mut exported, raw_event(event)) })?;
        Ok(InterprocessEventHandle(exported.reserved.map(unsigned)))
    }

    fn event_open(&self, call: &Call<'_>, exported: &InterprocessEventHandle) -> Result<EventHandle> {
        let _bound = self.bind(call.context)?;
        let exported = CUipcEventHandle { reserved: exported.0.map(signed) };
        let mut event = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call; the driver refuses bytes that it did not
        // make.
        check(unsafe { self.functions.cuIpcOpenEventHandle(&mut event, exported) })?;
        Ok(event_handle(event))
    }
}
