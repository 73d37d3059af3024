//! Layers over the host device: what a layer writes is called, and all else passes through it.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the tests keep their handles alive, and the layers forward what they are given"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use anabranch_hal::*;
use anabranch_host::{HostDriver, HostOptions};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A handle of an object that a test has made, and does not use after it was destroyed.
fn live<H: Handle>(handle: H) -> Live<'static, H> {
    unsafe { Live::new(handle) }
}

fn small() -> HostOptions {
    HostOptions { devices: 2, workers: Some(2), memory_bytes_per_device: 1 << 30, ..HostOptions::default() }
}

/// What a layer received about a call: the operation, the file and line that asked for it, and the label.
type Told = (&'static str, &'static str, u32, Option<String>);

fn told(call: &Call<'_>) -> Told {
    (call.operation, call.location.file(), call.location.line(), call.label.map(str::to_owned))
}

/// Counts launches, and remembers what it received about them and about waits for streams.
#[derive(Debug)]
struct Recording {
    driver: Arc<dyn Driver>,
    launches: AtomicUsize,
    calls: Mutex<Vec<Told>>,
    objects: Mutex<Vec<(ObjectHandle, ObjectId)>>,
    methods: Mutex<Vec<(&'static str, &'static str)>>,
}

impl Recording {
    fn over(driver: Arc<dyn Driver>) -> Arc<Layered<Self>> {
        let (launches, calls, objects) = (AtomicUsize::new(0), Mutex::default(), Mutex::default());
        Arc::new(Layered(Self { driver, launches, calls, objects, methods: Mutex::default() }))
    }
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Recording {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn called(&self, group: &'static str, method: &'static str) {
        self.methods.lock().unwrap().push((group, method));
    }

    unsafe fn launch(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        function: Live<'_, FunctionHandle>,
        launch: &Launch<'_>,
    ) -> Result<()> {
        self.launches.fetch_add(1, Ordering::Relaxed);
        self.calls.lock().unwrap().push(told(call));
        unsafe { self.inner().launch(call, stream, function, launch) }
    }

    fn stream_synchronize(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        self.calls.lock().unwrap().push(told(call));
        self.inner().stream_synchronize(call, stream)
    }

    fn observes_objects(&self) -> bool {
        true
    }

    fn object_created(&self, _: &Call<'_>, object: ObjectHandle, id: ObjectId) {
        self.objects.lock().unwrap().push((object, id));
    }
}

/// Forwards everything.
#[derive(Debug)]
struct Nothing(Arc<dyn Driver>);

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Nothing {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }
}

fn host() -> Arc<dyn Driver> {
    Arc::new(HostDriver::new(small()))
}

/// Adds 1 to each of `count` numbers.
fn add_one(driver: &dyn Driver, context: Live<'_, ContextHandle>) -> Live<'static, FunctionHandle> {
    let module: HostModule = [HostFunction::new("add_one", &[8], |block, arguments| {
        let numbers = arguments.slice::<u32>(0);
        block.phase(|thread, _| {
            numbers.fetch_update(thread.global_x(), |number| number + 1);
        });
    })]
    .into_iter()
    .collect();
    let call = Call::new(context, "loading a module");
    let module = unsafe { driver.module_load(&call, ModuleImage::Host(&module)) }.unwrap();
    live(driver.module_function(&call, live(module), "add_one").unwrap())
}

fn launch_over(
    driver: &dyn Driver,
    call: &Call<'_>,
    stream: Live<'_, StreamHandle>,
    function: Live<'_, FunctionHandle>,
    address: DevicePointer,
) {
    let arguments: [*const c_void; 1] = [(&raw const address).cast()];
    let ranges = [DeclaredRange { argument: 0, address: address.0, bytes: 4 * 32, access: Access::Write }];
    let launch = Launch {
        grid: [1; 3],
        block: [32, 1, 1],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: None,
        overlap: None,
        arguments: &arguments,
        ranges: &ranges,
    };
    unsafe { driver.launch(call, stream, function, &launch) }.unwrap();
}

#[test]
fn a_layer_sees_its_calls_and_all_work_is_done() {
    let layer = Recording::over(host());
    let driver: Arc<dyn Driver> = layer.clone();
    let context = live(driver.primary_context_retain(DeviceOrdinal(0)).unwrap());
    let call = Call::new(context, "preparing");
    let stream = live(driver.stream_create(&call, StreamFlags::NON_BLOCKING, 0).unwrap());
    let memory = driver.allocate(&call, 4 * 32).unwrap();
    unsafe { driver.fill_async(&call, memory, FillPattern::U32(5), 32, stream) }.unwrap();
    let function = add_one(&*driver, context);
    assert_eq!(layer.0.launches.load(Ordering::Relaxed), 0);

    let mut expected = Vec::new();
    for _ in 0..3 {
        let call = Call::new(context, "launching a kernel").with_label("add_one");
        expected.push(("launching a kernel", file!(), line!() - 1, Some("add_one".to_owned())));
        launch_over(&*driver, &call, stream, function, memory);
    }
    let call = Call::new(context, "waiting for a stream");
    expected.push(("waiting for a stream", file!(), line!() - 1, None));
    driver.stream_synchronize(&call, stream).unwrap();
    assert_eq!(layer.0.launches.load(Ordering::Relaxed), 3);
    assert_eq!(*layer.0.calls.lock().unwrap(), expected);

    // Fills, copies and kernels have passed through.
    let mut numbers = [0u32; 32];
    let destination = numbers.as_mut_ptr() as u64;
    unsafe { driver.copy(&call, CopyKind::DeviceToHost, destination, memory.0, 4 * 32) }.unwrap();
    assert_eq!(numbers, [8; 32]);
    unsafe { driver.free(&call, memory) }.unwrap();
    unsafe { driver.stream_destroy(&call, stream.handle()) }.unwrap();
}

#[test]
fn a_layer_is_told_of_every_call_once_whether_it_writes_it_or_not() {
    let layer = Recording::over(host());
    let context = live(layer.primary_context_retain(DeviceOrdinal(0)).unwrap());
    let call = Call::new(context, "testing");
    let stream = live(layer.stream_create(&call, StreamFlags::NON_BLOCKING, 0).unwrap());
    layer.stream_synchronize(&call, stream).unwrap();
    assert!(layer.memory_report(DeviceOrdinal(0)).is_none());
    unsafe { layer.stream_destroy(&call, stream.handle()) }.unwrap();
    let expected = [
        ("Contexts", "primary_context_retain"),
        ("Streams", "stream_create"),
        ("Streams", "stream_synchronize"),
        ("Memory", "memory_report"),
        ("Streams", "stream_destroy"),
    ];
    assert_eq!(*layer.0.methods.lock().unwrap(), expected);
}

#[test]
fn what_a_layer_does_not_write_answers_as_the_driver_does() {
    let driver = host();
    let layered: Arc<dyn Driver> = Arc::new(Layered(Nothing(Arc::clone(&driver))));
    assert_eq!((layered.kind(), layered.version()), (driver.kind(), driver.version()));
    assert_eq!(layered.device_count(), driver.device_count());
    assert_eq!(layered.device_properties(DeviceOrdinal(1)), driver.device_properties(DeviceOrdinal(1)));
    assert_eq!(layered.device_properties(DeviceOrdinal(9)), driver.device_properties(DeviceOrdinal(9)));
    // One is made by the driver, and known to it without the layer.
    let context = live(layered.primary_context_retain(DeviceOrdinal(0)).unwrap());
    assert_eq!(driver.primary_context_retain(DeviceOrdinal(0)), Ok(context.handle()));
    let call = Call::new(context, "testing");
    let stream = live(layered.stream_create(&call, StreamFlags::NON_BLOCKING, 0).unwrap());
    assert_eq!(driver.stream_flags(&call, stream), Ok(StreamFlags::NON_BLOCKING));
    unsafe { layered.stream_destroy(&call, stream.handle()) }.unwrap();
}

#[test]
fn methods_that_the_contract_has_bodies_for_reach_the_driver() {
    let checking = HostDriver::new(HostOptions { check_memory: true, ..small() });
    assert!(checking.memory_report(DeviceOrdinal(0)).is_some(), "a driver that checks memory has a report");
    let layered = Layered(Nothing(Arc::new(checking)));
    assert!(layered.memory_report(DeviceOrdinal(0)).is_some());

    let plain = Layered(Nothing(host()));
    assert!(!plain.observes_objects());
    // A layer below receives what the one above passes on.
    let below = Recording::over(host());
    let above = Layered(Nothing(below.clone()));
    assert!(above.observes_objects());
    let context = live(above.primary_context_retain(DeviceOrdinal(0)).unwrap());
    let id = ObjectId::next();
    above.object_created(&Call::new(context, "testing"), ObjectHandle::Context, id);
    assert_eq!(*below.0.objects.lock().unwrap(), [(ObjectHandle::Context, id)]);
}
