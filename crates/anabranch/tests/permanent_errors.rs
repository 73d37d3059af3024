//! Contexts that return an error for every call from some moment on: waits end, whether or not the error is known.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{
    self, Call, Capabilities, CaptureStatus, DeviceOrdinal, DeviceProperties, Driver, EventFlags, EventHandle,
    EventRecordFlags, Failure, Forward, GraphHandle, Layered, Live, MemoryInfo, StreamFlags, StreamHandle,
};
use anabranch::{CaptureMode, Context, Instance, Status, Stream};
use common::{assert_ends, hold};
use futures::executor::block_on;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// What CUDA documents as the end of the process's use of the device, and a code that nobody knows.
const STATUSES: [Status; 7] =
    [Status(214), Status(220), Status(226), Status(721), Status(810), Status::UNKNOWN, Status(4242)];

/// Returns an error from all calls that have to do with streams and events, and for the amount of memory, if it is not 0.
struct Permanent {
    inner: Arc<dyn Driver>,
    status: Arc<AtomicI32>,
}

impl Permanent {
    fn check(&self) -> hal::Result<()> {
        match self.status.load(Ordering::SeqCst) {
            0 => Ok(()),
            status => Err(Failure::new(Status(status))),
        }
    }
}

impl fmt::Debug for Permanent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Permanent")
    }
}

macro_rules! checked {
    ($(fn $method:ident($($name:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            fn $method(&self, call: &Call<'_>, $($name: $type),*) -> hal::Result<$result> {
                self.check()?;
                self.inner.$method(call, $($name),*)
            }
        )*
    };
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for Permanent {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    checked! {
        fn context_synchronize() -> ();
        fn memory_info() -> MemoryInfo;
        fn stream_create(flags: StreamFlags, priority: i32) -> StreamHandle;
        fn stream_query(stream: Live<'_, StreamHandle>) -> ();
        fn stream_synchronize(stream: Live<'_, StreamHandle>) -> ();
        fn stream_take_failure(stream: Live<'_, StreamHandle>) -> ();
        fn stream_end_capture(stream: Live<'_, StreamHandle>) -> GraphHandle;
        fn stream_capture_status(stream: Live<'_, StreamHandle>) -> CaptureStatus;
        fn event_create(flags: EventFlags) -> EventHandle;
        fn event_query(event: Live<'_, EventHandle>) -> ();
        fn event_synchronize(event: Live<'_, EventHandle>) -> ();
        fn event_record(event: Live<'_, EventHandle>, stream: Live<'_, StreamHandle>, flags: EventRecordFlags) -> ();
    }

    fn device_properties(&self, device: DeviceOrdinal) -> hal::Result<DeviceProperties> {
        let mut properties = self.inner.device_properties(device)?;
        // Futures then wait for numbers in memory, which show no error.
        properties.capabilities |= Capabilities::FAST_VALUE_WRITES;
        Ok(properties)
    }

    unsafe fn unregister_pinned(&self, call: &Call<'_>, address: *mut u8) -> hal::Result<()> {
        self.check()?;
        // SAFETY: the caller keeps what the method asks for.
        unsafe { self.inner.unregister_pinned(call, address) }
    }
}

/// For each error: what happens in a context that is lost by it, with a stream whose work never ends.
fn for_each(body: impl Fn(&Context, &Stream, &(dyn Fn() + Sync), Status) + Clone + Send + 'static) {
    for status in STATUSES {
        let body = body.clone();
        assert_ends(move || {
            let current = Arc::new(AtomicI32::new(0));
            let of_layer = current.clone();
            let wrap = move |inner| Arc::new(Layered(Permanent { inner, status: of_layer.clone() })) as Arc<dyn Driver>;
            let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
            let context = instance.device("host").unwrap().context().unwrap();
            let stream = context.create_stream().unwrap();
            body(&context, &stream, &|| current.store(status.0, Ordering::SeqCst), status);
            // The device itself is well, and would do the work that is left.
            std::mem::forget((context, stream));
        });
    }
}

#[test]
fn safety_121_a_scope_ends() {
    for_each(|_, stream, lose, status| {
        let buffer = stream.upload(&[1u32; 16]).unwrap();
        stream.synchronize().unwrap();
        let host = Box::leak(Box::new([0u32; 16]));
        let ended = stream.sync_scope(|scope| {
            scope.copy_to_host(host, &buffer)?;
            lose();
            Ok(())
        });
        assert_eq!(ended.unwrap_err().status(), status);
        std::mem::forget(buffer);
    });
}

#[test]
fn safety_121_a_scope_that_registers_memory_ends() {
    for_each(|context, stream, lose, status| {
        let memory = Box::leak(Box::new([0u32; 16]));
        std::mem::forget(hold(context, stream));
        let ended = context.register_scope(memory, |mut memory| {
            stream.fill(memory.reborrow(), 1u32)?;
            lose();
            Ok(())
        });
        assert_eq!(ended.unwrap_err().status(), status);
    });
}

#[test]
fn safety_121_a_future_ends() {
    for_each(|context, stream, lose, status| {
        std::mem::forget(hold(context, stream));
        let future = stream.completion_future();
        lose();
        assert_eq!(block_on(future).unwrap_err().status(), status);
    });
}

#[test]
fn safety_121_a_thread_ends_in_whose_default_stream_a_capture_began() {
    for_each(|context, _, lose, _| {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let stream = context.per_thread_stream().unwrap();
                stream.begin_capture(CaptureMode::Relaxed).unwrap();
                lose();
            });
            // It has run its destructors then.
            thread.join().unwrap();
        });
    });
}
