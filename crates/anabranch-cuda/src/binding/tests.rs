//! On a GPU: calls leave the thread's current context as it was, and act on the context that they name.

use crate::driver::CudaDriver;
use crate::error::check;
use crate::handles::{context_handle, raw_context};
use anabranch_hal::{
    ContextFlags, ContextHandle, Contexts, CopyKind, DeviceOrdinal, EventFlags, EventRecordFlags, EventWaitFlags,
    Events, FillPattern, Handle, HostWork, Live, Memory, PinnedFlags, Status, StreamFlags, StreamHandle, Streams,
};
use std::ptr;
use std::sync::{Arc, mpsc};

/// A handle of an object that a test has made. It is not used after the object was destroyed, and graphs on one thread.
fn live<H: Handle>(handle: H) -> Live<'static, H> {
    // SAFETY: the tests keep to that.
    unsafe { Live::new(handle) }
}

/// The driver and two contexts of its first device, on a thread on which none is current.
struct TwoContexts {
    driver: Arc<CudaDriver>,
    ours: Live<'static, ContextHandle>,
    other: Live<'static, ContextHandle>,
}

impl TwoContexts {
    /// None, and a line that says so, where there is no GPU.
    fn find() -> Option<Self> {
        let driver = CudaDriver::load().inspect_err(|absence| eprintln!("skipped: {absence}")).ok()?;
        let create = || live(driver.context_create(DeviceOrdinal(0), ContextFlags::empty()).expect("a context"));
        let (ours, other) = (create(), create());
        assert!(current(&driver).is_null(), "making a context does not make it current");
        Some(Self { driver, ours, other })
    }

    /// Runs a test with no context current, then with the other one.
    fn with_each_current(&self, test: impl Fn()) {
        for outside in [ContextHandle::from_raw(0), self.other.handle()] {
            if !outside.is_null() {
                // SAFETY: the context is one of this driver and not destroyed.
                check(unsafe { self.driver.functions.cuCtxPushCurrent(raw_context(outside)) }).expect("a context");
            }
            test();
            assert_eq!(current(&self.driver), outside, "the thread has what it had");
            if !outside.is_null() {
                // SAFETY: the result is written to a variable that outlives the call.
                check(unsafe { self.driver.functions.cuCtxPopCurrent(&mut ptr::null_mut()) }).expect("it was pushed");
            }
        }
    }
}

impl Drop for TwoContexts {
    fn drop(&mut self) {
        for context in [self.ours, self.other] {
            // SAFETY: the tests use nothing of the contexts after this.
            let _ = unsafe { self.driver.context_destroy(&context.into()) };
        }
    }
}

fn current(driver: &CudaDriver) -> ContextHandle {
    let mut current = ptr::null_mut();
    // SAFETY: the result is written to a variable that outlives the call.
    check(unsafe { driver.functions.cuCtxGetCurrent(&mut current) }).expect("the driver can say");
    context_handle(current)
}

#[test]
fn calls_that_bind_leave_the_thread_as_it_was() {
    let Some(contexts) = TwoContexts::find() else { return };
    let (driver, ours) = (&contexts.driver, contexts.ours);
    contexts.with_each_current(|| {
        // SAFETY: every handle is made here, in the context that it is used with, and destroyed once; the work is
        // waited for.
        unsafe {
            let stream = live(driver.stream_create(&ours.into(), StreamFlags::empty(), 0).expect("a stream"));
            let memory = driver.allocate(&ours.into(), 64).expect("device memory");
            let pinned = driver.allocate_pinned(&ours.into(), 64, PinnedFlags::empty()).expect("pinned memory");
            driver.fill_async(&ours.into(), memory, FillPattern::U8(7), 64, stream).expect("a fill");
            let to = pinned.expose_provenance() as u64;
            driver.copy_async(&ours.into(), CopyKind::DeviceToHost, to, memory.0, 64, stream).expect("a copy");
            driver.context_synchronize(&ours.into()).expect("the work succeeds");
            assert_eq!(pinned.read(), 7);
            assert_eq!(
                driver.allocate(&ours.into(), 0).unwrap_err().status,
                Status::INVALID_VALUE,
                "a call that fails"
            );
            driver.free_pinned(&ours.into(), pinned).expect("it is ours");
            driver.free(&ours.into(), memory).expect("it is ours");
            assert_eq!(driver.stream_context(&ours.into(), stream), Ok(ours.handle()));
            driver.stream_destroy(&ours.into(), stream.handle()).expect("it is ours");
        }
    });
}

#[test]
fn calls_that_do_not_bind_need_no_context() {
    let Some(contexts) = TwoContexts::find() else { return };
    let (driver, ours) = (&contexts.driver, contexts.ours);
    contexts.with_each_current(|| {
        // SAFETY: every handle is made here, in the context that it is used with, and destroyed once; the work is
        // waited for.
        unsafe {
            let stream = live(driver.stream_create(&ours.into(), StreamFlags::NON_BLOCKING, 0).expect("a stream"));
            let [start, end] =
                [(); 2].map(|()| live(driver.event_create(&ours.into(), EventFlags::empty()).expect("an event")));
            for event in [start, end] {
                driver.event_record(&ours.into(), event, stream, EventRecordFlags::empty()).expect("a record");
                driver.stream_wait_event(&ours.into(), stream, event, EventWaitFlags::empty()).expect("a wait");
                driver.event_synchronize(&ours.into(), event).expect("nothing is queued");
                driver.event_query(&ours.into(), event).expect("nothing is queued");
            }
            driver.event_elapsed(&ours.into(), start, end).expect("both are complete");
            driver.stream_flags(&ours.into(), stream).expect("the driver can say");
            driver.stream_priority(&ours.into(), stream).expect("the driver can say");
            driver.stream_id(&ours.into(), stream).expect("the driver can say");
            driver.stream_launch_host_function(&ours.into(), stream, HostWork::new(|| ())).expect("host work");
            driver.stream_add_callback(&ours.into(), stream, Box::new(|_| ())).expect("a callback");
            driver.stream_synchronize(&ours.into(), stream).expect("the work succeeds");
            driver.stream_query(&ours.into(), stream).expect("nothing is queued");
            for event in [start, end] {
                driver.event_destroy(&ours.into(), event.handle()).expect("it is ours");
            }
            driver.stream_destroy(&ours.into(), stream.handle()).expect("it is ours");
        }
    });
}

#[test]
fn default_streams_are_those_of_the_context_that_is_named() {
    let Some(contexts) = TwoContexts::find() else { return };
    let (driver, ours, other) = (&contexts.driver, contexts.ours, contexts.other);
    contexts.with_each_current(|| {
        for stream in [Live::<StreamHandle>::NULL, Live::LEGACY, Live::PER_THREAD] {
            let (open, gate) = mpsc::channel::<()>();
            let wait = HostWork::new(move || gate.recv().unwrap_or(()));
            driver.stream_launch_host_function(&ours.into(), stream, wait).expect("host work");
            driver.stream_query(&other.into(), stream).expect("nothing is queued there");
            assert_eq!(driver.stream_query(&ours.into(), stream).unwrap_err().status, Status::NOT_READY);
            drop(open);
            driver.stream_synchronize(&ours.into(), stream).expect("the work succeeds");
        }
    });
}
