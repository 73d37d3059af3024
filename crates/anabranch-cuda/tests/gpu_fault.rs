//! What becomes of host work when its context is lost. In a program of its own, because other contexts may suffer too.

use anabranch_cuda::CudaDriver;
use anabranch_hal::{
    ContextFlags, Contexts, DeviceOrdinal, Handle, HostWork, Launch, Live, ModuleImage, Modules, Status, StreamFlags,
    Streams,
};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry fault()
{
    .reg .b64 %d;
    mov.u64 %d, 64;
    st.global.u32 [%d], 1;
    ret;
}
";

const ONE_THREAD: Launch<'static> = Launch {
    grid: [1; 3],
    block: [1; 3],
    cluster: None,
    dynamic_shared_bytes: 0,
    cooperative: false,
    priority: None,
    attributes: None,
    overlap: None,
    arguments: &[],
    ranges: &[],
};

const SOON: Duration = Duration::from_secs(20);

/// A handle of an object that a test has made. It is not used after the object was destroyed, and graphs on one thread.
fn live<H: Handle>(handle: H) -> Live<'static, H> {
    // SAFETY: the tests keep to that.
    unsafe { Live::new(handle) }
}

#[test]
fn a_lost_context_runs_callbacks_and_drops_host_functions() {
    let driver = match CudaDriver::load() {
        Ok(driver) => driver,
        Err(absence) => return eprintln!("skipped: {absence}"),
    };
    let (ran, functions) = mpsc::channel::<()>();
    let (told, callbacks) = mpsc::channel::<Status>();
    let captured = Arc::new(());
    // SAFETY: every handle is made here, in the one context; what the kernel does wrong happens in a context that is not
    // used for anything else.
    unsafe {
        let context = live(driver.context_create(DeviceOrdinal(0), ContextFlags::empty()).expect("a context"));
        let stream = live(driver.stream_create(&context.into(), StreamFlags::NON_BLOCKING, 0).expect("a stream"));
        let module = live(driver.module_load(&context.into(), ModuleImage::Ptx(PTX)).expect("the PTX is valid"));
        let fault = live(driver.module_function(&context.into(), module, "fault").expect("the kernel is there"));
        // Holds up the stream until the rest is queued.
        let (open, gate) = mpsc::channel::<()>();
        let pause = HostWork::new(move || gate.recv_timeout(SOON).unwrap_or(()));
        driver.stream_launch_host_function(&context.into(), stream, pause).expect("host work");
        driver.launch(&context.into(), stream, fault, &ONE_THREAD).expect("a launch");
        let tell = Box::new(move |status| told.send(status).unwrap_or(()));
        driver.stream_add_callback(&context.into(), stream, tell).expect("a callback");
        let run = HostWork::new(move || ran.send(()).unwrap_or(()));
        driver.stream_launch_host_function(&context.into(), stream, run).expect("host work");
        drop(open);

        let failure = driver.stream_synchronize(&context.into(), stream).unwrap_err();
        assert_eq!(failure.status, Status::ILLEGAL_ADDRESS);
        assert_eq!(functions.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "dropped, and not run");
        assert_eq!(callbacks.recv_timeout(SOON), Ok(Status::ILLEGAL_ADDRESS));
        assert_eq!(callbacks.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "run once, and dropped");

        // Whether the driver takes more host work or refuses it, nothing of it is left in the end.
        let more = Arc::clone(&captured);
        let refused = driver.stream_launch_host_function(&context.into(), stream, HostWork::new(move || drop(more)));
        let more = Arc::clone(&captured);
        let refused_too = driver.stream_add_callback(&context.into(), stream, Box::new(move |_| drop(more)));
        eprintln!("after the fault: host function {refused:?}, callback {refused_too:?}");
        eprintln!("destroying the context: {:?}", driver.context_destroy(&context.into()));
    }
    assert_eq!(Arc::strong_count(&captured), 1);
}
