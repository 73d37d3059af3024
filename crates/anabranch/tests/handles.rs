//! Contexts, streams and events that another library owns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Driver, Forward, Layered, Live};
use anabranch::{
    BackendKind, Context, ContextFlags, ContextHandle, Device, DeviceOrdinal, DualModule, Event, EventHandle,
    HostFunction, Instance, KernelFault, LaunchConfig, Status, StreamHandle, flush_deferred_drops,
};
use common::until;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Counts its drops, and unwinds in them.
struct Unwinds(Arc<AtomicUsize>);

impl Drop for Unwinds {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("a keeper"));
    }
}

/// A context of the driver, as another library has one.
struct Theirs {
    device: Device,
    handle: ContextHandle,
    dropped: Arc<AtomicUsize>,
}

impl Theirs {
    fn new(device: &Device) -> Self {
        let handle = device.driver().context_create(device.ordinal(), ContextFlags::empty()).unwrap();
        Self { device: device.clone(), handle, dropped: Arc::default() }
    }

    fn open(self) -> Context {
        let (device, handle) = (self.device.clone(), self.handle);
        // SAFETY: the context is destroyed when this is dropped.
        unsafe { Context::from_raw(&device, handle, self) }.unwrap()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the context was made by this, and nothing uses it any more.
        unsafe { self.device.driver().context_destroy(&Live::new(self.handle).into()) }.unwrap();
    }
}

fn instance() -> Instance {
    Instance::builder().cuda(false).isolated().host_devices(2).build().unwrap()
}

fn is_dropped(dropped: &AtomicUsize) -> bool {
    flush_deferred_drops();
    dropped.load(Ordering::SeqCst) == 1
}

#[test]
fn a_context_is_kept_until_its_last_object_is_gone() {
    let theirs = Theirs::new(&instance().devices()[0]);
    let dropped = theirs.dropped.clone();
    let context = theirs.open();
    let event = context.create_stream().unwrap().record_event().unwrap();
    let clone = context.clone();
    drop(context);
    flush_deferred_drops();
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop((event, clone));
    until("the drop of the keeper", || is_dropped(&dropped));
}

#[test]
fn a_lost_context_is_given_back() {
    let theirs = Theirs::new(&instance().devices()[0]);
    let dropped = theirs.dropped.clone();
    let context = theirs.open();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u32]).unwrap();
    let function = HostFunction::new("trap", &[], |_, _| KernelFault::trap("on purpose").raise());
    let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("trap").unwrap();
    // SAFETY: the kernel uses no memory.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
    assert!(stream.synchronize().unwrap_err().is_sticky());
    drop(kernel);
    drop((buffer, stream, context));
    until("the drop of the keeper", || is_dropped(&dropped));
}

#[test]
fn keepers_that_unwind_harm_nothing() {
    let instance = instance();
    let device = &instance.devices()[0];
    let (made, dropped) = (device.create_context(ContextFlags::empty()).unwrap(), Arc::<AtomicUsize>::default());
    let event = made.create_event().unwrap();
    // SAFETY: context and event outlive what is made of their handles.
    unsafe {
        // It is not needed, because the library has made the context.
        let again = Context::from_raw(device, made.as_raw(), Unwinds(dropped.clone())).unwrap();
        assert_eq!(again, made);
        assert!(is_dropped(&dropped));
        // Those of calls that are refused.
        let keeper = || Unwinds(dropped.clone());
        let null = Context::from_raw(device, ContextHandle::from_raw(0), keeper()).unwrap_err();
        assert_eq!(null.status(), Status::INVALID_CONTEXT);
        let elsewhere = Context::from_raw(&instance.devices()[1], made.as_raw(), keeper()).unwrap_err();
        assert_eq!(elsewhere.status(), Status::INVALID_DEVICE);
        assert!(elsewhere.to_string().contains("device 0"), "{elsewhere}");
        let null = Event::from_raw(&made, EventHandle::from_raw(0), keeper()).unwrap_err();
        assert_eq!(null.status(), Status::INVALID_HANDLE);
        drop(Event::from_raw(&made, event.as_raw(), keeper()).unwrap());
    }
    flush_deferred_drops();
    assert_eq!(dropped.load(Ordering::SeqCst), 5);
    made.create_stream().unwrap().wait(&event).unwrap();
}

#[test]
fn threads_that_open_one_context_get_one() {
    let instance = instance();
    for _ in 0..100 {
        let theirs = Theirs::new(&instance.devices()[0]);
        let (handle, dropped) = (theirs.handle, theirs.dropped.clone());
        let theirs = Arc::new(theirs);
        let open = || {
            // SAFETY: the context is destroyed when the last keeper is dropped.
            unsafe { Context::from_raw(&instance.devices()[0], handle, theirs.clone()) }.unwrap()
        };
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(open);
            (open(), other.join().unwrap())
        });
        assert_eq!(one.id(), other.id());
        drop((one, other, theirs));
        until("the drop of the keeper", || is_dropped(&dropped));
    }
}

/// A driver with a context that is current.
#[derive(Debug)]
struct Current {
    inner: Arc<dyn Driver>,
    context: Arc<Mutex<Option<(ContextHandle, DeviceOrdinal)>>>,
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Current {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn context_current(&self) -> hal::Result<Option<(ContextHandle, DeviceOrdinal)>> {
        Ok(*self.context.lock().unwrap())
    }
}

#[test]
fn the_current_context_is_found_if_it_can_be_kept() {
    let current = Arc::<Mutex<_>>::default();
    let layer = current.clone();
    let builder = Instance::builder().cuda(false).host_devices(2);
    let wrap = move |inner| Arc::new(Layered(Current { inner, context: layer.clone() })) as Arc<dyn Driver>;
    let instance = builder.wrap(wrap).build().unwrap();
    let find = |handle: Option<ContextHandle>, ordinal| {
        *current.lock().unwrap() = handle.map(|handle| (handle, DeviceOrdinal(ordinal)));
        Context::current(&instance)
    };
    assert_eq!(find(None, 0).unwrap(), None);
    let device = &instance.devices()[1];
    // The primary context, which only another library has retained.
    let handle = device.driver().primary_context_retain(device.ordinal()).unwrap();
    let found = find(Some(handle), 1).unwrap().unwrap();
    // SAFETY: it is released as often as it was retained, and the library has a reference of its own.
    unsafe { device.driver().primary_context_release(device.ordinal()) }.unwrap();
    assert_eq!(found.as_raw(), handle);
    assert_eq!(found, device.context().unwrap());
    let stream = found.create_stream().unwrap();
    assert_eq!(stream.download(&stream.upload(&[1u32]).unwrap()).unwrap(), [1]);
    // One that nobody keeps, while the primary context is retained and while it is not.
    for device in instance.devices() {
        let theirs = Theirs::new(device);
        let (handle, ordinal) = (theirs.handle, device.ordinal().0);
        let error = find(Some(handle), ordinal).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_CONTEXT, "{error}");
        assert!(error.hint().unwrap().contains("from_raw"), "{error}");
        let opened = theirs.open();
        assert_eq!(find(Some(handle), ordinal).unwrap().unwrap(), opened);
    }
    let error = find(Some(handle), 7).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_DEVICE, "{error}");
}

#[test]
fn a_stream_is_opened_by_its_handle_alone() {
    let instance = instance();
    let context = instance.devices()[1].context().unwrap();
    let stream = context.create_stream().unwrap();
    let open = |backend, handle| {
        // SAFETY: the handles are those of streams that outlive what is made of them.
        unsafe { instance.stream_from_raw(backend, handle) }
    };
    let same = open(BackendKind::Host, stream.as_raw()).unwrap();
    assert_eq!(*same, stream);
    assert_eq!(same.context(), context);
    for handle in [StreamHandle::NULL, StreamHandle::LEGACY, StreamHandle::PER_THREAD] {
        let error = open(BackendKind::Host, handle).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_CONTEXT, "{error}");
    }
    let error = open(BackendKind::Cuda, stream.as_raw()).unwrap_err();
    assert!(error.to_string().contains("left out"), "{error}");
}
