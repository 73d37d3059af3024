//! What the library costs over the bare function table, on a CUDA device, interleaved in one run; and that nothing is
//! allocated on these paths.
//!
//! Each call is made in turns by the library and through function pointers taken from the driver's library directly.
//! Medians of the turns are compared. Without a CUDA device it says so and ends.

mod support;

use anabranch::hal::{EventHandle, FunctionHandle, StreamHandle};
use anabranch::{BackendKind, Context, EventFlags, Instance, LaunchConfig, Module, Stream};
use std::ffi::{c_int, c_uint, c_void};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};
use support::compare;

type Launch = unsafe extern "C" fn(
    usize,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    usize,
    *const *const c_void,
    *const *const c_void,
) -> c_int;

/// The driver's functions, taken from its library with nothing in between.
struct Bare {
    launch: Launch,
    record: unsafe extern "C" fn(usize, usize) -> c_int,
    wait: unsafe extern "C" fn(usize, usize, c_uint) -> c_int,
    query_stream: unsafe extern "C" fn(usize) -> c_int,
    query_event: unsafe extern "C" fn(usize) -> c_int,
    synchronize: unsafe extern "C" fn(usize) -> c_int,
    allocate: unsafe extern "C" fn(*mut u64, usize, usize) -> c_int,
    free: unsafe extern "C" fn(u64, usize) -> c_int,
    create_event: unsafe extern "C" fn(*mut usize, c_uint) -> c_int,
    destroy_event: unsafe extern "C" fn(usize) -> c_int,
    create_stream: unsafe extern "C" fn(*mut usize, c_uint, c_int) -> c_int,
    destroy_stream: unsafe extern "C" fn(usize) -> c_int,
    host_function: unsafe extern "C" fn(usize, unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int,
    set_current: unsafe extern "C" fn(usize) -> c_int,
    _library: libloading::Library,
}

impl Bare {
    fn load() -> Result<Self, libloading::Error> {
        // SAFETY: the driver's library is loaded already, and its functions have these signatures.
        unsafe {
            let library = libloading::Library::new("libcuda.so.1")?;
            Ok(Self {
                launch: *library.get(b"cuLaunchKernel")?,
                record: *library.get(b"cuEventRecord")?,
                wait: *library.get(b"cuStreamWaitEvent")?,
                query_stream: *library.get(b"cuStreamQuery")?,
                query_event: *library.get(b"cuEventQuery")?,
                synchronize: *library.get(b"cuStreamSynchronize")?,
                allocate: *library.get(b"cuMemAllocAsync")?,
                free: *library.get(b"cuMemFreeAsync")?,
                create_event: *library.get(b"cuEventCreate")?,
                destroy_event: *library.get(b"cuEventDestroy_v2")?,
                create_stream: *library.get(b"cuStreamCreateWithPriority")?,
                destroy_stream: *library.get(b"cuStreamDestroy_v2")?,
                host_function: *library.get(b"cuLaunchHostFunc")?,
                set_current: *library.get(b"cuCtxSetCurrent")?,
                _library: library,
            })
        }
    }
}

fn main() -> anabranch::Result<()> {
    let instance = Instance::new()?;
    let Some(device) = instance.devices().iter().find(|device| device.backend() == BackendKind::Cuda) else {
        println!("no CUDA device: nothing to compare with");
        return Ok(());
    };
    let quick = std::env::args().any(|argument| argument == "--test");
    println!("{}, driver of CUDA {}", device.properties().name, device.driver_version());
    let context = device.context()?;
    let bare = match Bare::load() {
        Ok(bare) => bare,
        Err(error) => {
            println!("the driver's library cannot be opened a second time: {error}");
            return Ok(());
        }
    };
    // SAFETY: the context is live; the bare calls are given what they need, as a plain program would.
    unsafe { (bare.set_current)(context.as_raw().as_raw()) };
    measure(&context, &bare, if quick { 1 } else { 41 })
}

fn measure(context: &Context, bare: &Bare, turns: u32) -> anabranch::Result<()> {
    let module = Module::load_ptx(context, include_str!("kernels.ptx"))?;
    let (nothing, three) = (module.kernel("nothing")?, module.kernel("three")?);
    let (stream, other) = (context.create_stream()?, context.create_stream()?);
    let event = context.create_event_with_flags(EventFlags::DISABLE_TIMING)?;
    let a = stream.upload(&[0.0f32; 64])?;
    let mut b = stream.upload(&[0.0f32; 64])?;
    let config = LaunchConfig::new(1, 32);
    let (raw, raw_other, raw_event) = (handle(&stream), handle(&other), raw_event(event.as_raw()));
    let settle = || {
        // Errors show in the calls that follow.
        let _ = stream.synchronize().and(other.synchronize());
    };

    // Before anything else is measured, of a stream that is idle: behind other work a query costs many times as much, of
    // which nothing is the library's.
    stream.record(&event)?;
    compare(
        "query a stream",
        2000,
        turns,
        settle,
        // SAFETY: the stream is live.
        || _ = black_box(unsafe { (bare.query_stream)(raw) }),
        || _ = black_box(stream.query().is_ok()),
    );
    compare(
        "query an event",
        2000,
        turns,
        settle,
        // SAFETY: the event is live.
        || _ = black_box(unsafe { (bare.query_event)(raw_event) }),
        || _ = black_box(event.query().is_ok()),
    );

    let launch = |function: FunctionHandle, arguments: &[*const c_void]| {
        // SAFETY: the function and the stream are live, and the arguments those that it declares.
        black_box(unsafe {
            let arguments = if arguments.is_empty() { std::ptr::null() } else { arguments.as_ptr() };
            (bare.launch)(function.as_raw(), 1, 1, 1, 32, 1, 1, 0, raw, arguments, std::ptr::null())
        });
    };
    compare(
        "launch, no arguments",
        400,
        turns,
        settle,
        || launch(nothing.as_raw(), &[]),
        || {
            // SAFETY: the kernel does nothing.
            black_box(unsafe { stream.launch(&nothing, &config, ()) }.is_ok());
        },
    );
    let (address_a, address_b, count) = (a.device_pointer(), b.device_pointer(), 64u32);
    compare(
        "launch, two buffers and a number",
        400,
        turns,
        settle,
        || {
            let arguments: [*const c_void; 3] =
                [(&raw const address_a).cast(), (&raw const address_b).cast(), (&raw const count).cast()];
            launch(three.as_raw(), &arguments);
        },
        || {
            // SAFETY: the kernel does nothing with its arguments.
            black_box(unsafe { stream.launch(&three, &config, (&a, &mut b, count)) }.is_ok());
        },
    );
    // What the order between streams costs where there is nothing to order. Here the first of the two is the library, too.
    compare(
        "launch, addresses, then buffers",
        400,
        turns,
        settle,
        || {
            // SAFETY: the kernel does nothing with its arguments.
            black_box(unsafe { stream.launch(&three, &config, (address_a, address_b, count)) }.is_ok());
        },
        || {
            // SAFETY: the kernel does nothing with its arguments.
            black_box(unsafe { stream.launch(&three, &config, (&a, &mut b, count)) }.is_ok());
        },
    );
    compare(
        "record an event",
        2000,
        turns,
        settle,
        // SAFETY: the event and the stream are live.
        || _ = black_box(unsafe { (bare.record)(raw_event, raw) }),
        || _ = black_box(stream.record(&event).is_ok()),
    );
    settle();
    compare(
        "wait for an event",
        2000,
        turns,
        settle,
        // SAFETY: the event and the stream are live.
        || _ = black_box(unsafe { (bare.wait)(raw_other, raw_event, 0) }),
        || _ = black_box(other.wait_event(&event).is_ok()),
    );
    compare(
        "launch and synchronize",
        100,
        turns,
        settle,
        || {
            launch(nothing.as_raw(), &[]);
            // SAFETY: the stream is live.
            black_box(unsafe { (bare.synchronize)(raw) });
        },
        || {
            // SAFETY: the kernel does nothing.
            black_box(unsafe { stream.launch(&nothing, &config, ()) }.and(stream.synchronize()).is_ok());
        },
    );
    measure_objects(context, &stream, bare, turns)
}

/// What is made and destroyed again, and host functions.
fn measure_objects(context: &Context, stream: &Stream, bare: &Bare, turns: u32) -> anabranch::Result<()> {
    let raw = handle(stream);
    let settle = || _ = stream.synchronize();
    // Keeps the pool from giving memory back to the device.
    let _kept = stream.upload(&[0u8; 4096])?;
    compare(
        "allocate and free in stream order",
        200,
        turns,
        settle,
        || {
            let mut address = 0;
            // SAFETY: the stream is live, the result is written to a variable, and nothing uses the memory.
            black_box(unsafe { (bare.allocate)(&mut address, 4096, raw) + (bare.free)(address, raw) });
        },
        // SAFETY: nothing reads the memory.
        || drop(black_box(unsafe { stream.allocate_uninitialized::<u8>(4096) })),
    );
    compare(
        "create and destroy an event",
        1000,
        turns,
        settle,
        || {
            let mut event = 0;
            // SAFETY: the result is written to a variable, and the event is not used after it is destroyed.
            black_box(unsafe { (bare.create_event)(&mut event, 2) + (bare.destroy_event)(event) });
        },
        || drop(black_box(context.create_event_with_flags(EventFlags::DISABLE_TIMING))),
    );
    compare(
        "create and destroy a stream",
        50,
        turns,
        settle,
        || {
            let mut stream = 0;
            // SAFETY: the result is written to a variable, and the stream is not used after it is destroyed.
            black_box(unsafe { (bare.create_stream)(&mut stream, 1, 0) + (bare.destroy_stream)(stream) });
        },
        || drop(black_box(context.create_stream())),
    );
    compare(
        "host function, there and back",
        50,
        turns,
        settle,
        || {
            RAN.store(false, Ordering::Relaxed);
            // SAFETY: the stream is live, and the function needs no data.
            black_box(unsafe { (bare.host_function)(raw, set_ran, std::ptr::null_mut()) });
            wait_until_ran();
        },
        || {
            RAN.store(false, Ordering::Relaxed);
            if black_box(stream.launch_host_func(|| RAN.store(true, Ordering::Release))).is_ok() {
                wait_until_ran();
            }
        },
    );
    Ok(())
}

static RAN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn set_ran(_: *mut c_void) {
    RAN.store(true, Ordering::Release);
}

fn wait_until_ran() {
    while !RAN.load(Ordering::Acquire) {
        spin_loop();
    }
}

fn handle(stream: &Stream) -> usize {
    StreamHandle::as_raw(stream.as_raw())
}

fn raw_event(event: EventHandle) -> usize {
    event.as_raw()
}
