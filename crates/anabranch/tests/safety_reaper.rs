//! Classes of defects of what is given back later: it is not given back while anything uses it, and waits behind nobody's
//! work. `docs/safety.md` lists them all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, Forward, Layered, PinnedFlags, Status};
use anabranch::{
    Context, ContextFlags, Device, DualModule, HostFunction, Instance, Kernel, KernelFault, LaunchConfig, Stream,
    flush_deferred_drops, reset_drop_error_hook, set_drop_error_hook,
};
use common::{assert_ends, hold, host, until};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long held work waits at most. Whoever waits for it hangs longer than a test may.
const LONGEST: Duration = Duration::from_secs(120);

/// Work that runs until this is dropped.
struct Held(#[allow(dead_code, reason = "held for its drop")] Sender<()>);

fn gate() -> (Held, impl Fn() + Send + Sync + 'static, Receiver<()>) {
    let (release, wait) = channel();
    let (began, begun) = channel();
    let (wait, began) = (Mutex::new(wait), Mutex::new(began));
    let pass = move || {
        let _ = began.lock().unwrap().send(());
        let _ = wait.lock().unwrap().recv_timeout(LONGEST);
    };
    (Held(release), pass, begun)
}

/// Has a host function of the stream run on.
fn hold_by_host_function(stream: &Stream) -> Held {
    let (held, pass, begun) = gate();
    stream.launch_host_func(pass).unwrap();
    begun.recv().unwrap();
    held
}

/// Waits until all memory of a device is freed, in which nothing was found.
fn until_nothing_is_left(device: &Device) {
    until("the end of the memory", || {
        flush_deferred_drops();
        let report = device.memory_report().unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        report.allocations.is_empty()
    });
}

/// A driver of its own for a device that others use too.
#[derive(Debug)]
struct Plain(Arc<dyn Driver>);

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Plain {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }
}

/// A second object of the context, of an instance with a driver of its own for the same device.
fn second_object(context: &Context) -> Context {
    let driver = Arc::new(Layered(Plain(context.device().driver().clone())));
    let instance = Instance::builder().cuda(false).host(false).driver(driver).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// Memory of some kinds and a module. The context keeps staging memory besides.
fn things(context: &Context) -> impl Send + use<> {
    let stream = context.create_stream().unwrap();
    let buffer = futures::executor::block_on(stream.upload_async([1u8; 100])).unwrap();
    let plain = context.allocate_zeroed::<u8>(&stream, 100).unwrap();
    let pinned = context.allocate_pinned::<u8>(100).unwrap();
    // To load a module is to wait for the work of the context.
    let module = DualModule::new().host_function(HostFunction::new("nothing", &[], |_, _| ())).load(context).unwrap();
    stream.synchronize().unwrap();
    (buffer, plain, pinned, module, stream)
}

/// What is dropped elsewhere is freed meanwhile.
fn assert_reaper_goes_on() {
    for _ in 0..50 {
        flush_deferred_drops();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn safety_47_what_is_dropped_waits_for_no_work_of_another_object_of_its_context() {
    assert_ends(|| {
        let one = host();
        let other = second_object(&one);
        assert_eq!(one.as_raw(), other.as_raw());
        let things = things(&one);
        let held = hold_by_host_function(&other.create_stream().unwrap());
        drop(things);
        assert_reaper_goes_on();
        drop(one);
        assert_reaper_goes_on();
        drop(held);
    });
}

#[test]
fn safety_47_a_context_that_is_closed_waits_for_no_work_of_the_object_after_it() {
    assert_ends(|| {
        let instance = Instance::builder().cuda(false).isolated().build().unwrap();
        let device = instance.device("host").unwrap();
        let first = device.context().unwrap();
        drop(things(&first));
        // Only staging memory is left.
        assert_reaper_goes_on();
        let held_first = hold_by_host_function(&first.create_stream().unwrap());
        drop(first);
        let second = device.context().unwrap();
        let held_second = hold_by_host_function(&second.create_stream().unwrap());
        drop(held_first);
        assert_reaper_goes_on();
        drop(held_second);
    });
}

#[test]
fn safety_148_what_is_given_back_waits_for_no_work_that_comes_meanwhile() {
    type Drops = fn(&Context, &Stream);
    let kinds: [Drops; 5] = [
        |context, _| {
            let kernel = HostFunction::new("nothing", &[], |_, _| ());
            drop(DualModule::new().host_function(kernel).load(context).unwrap());
        },
        |context, _| drop(context.allocate_managed::<u8>(100).unwrap()),
        |context, _| drop((0..20).map(|_| context.allocate_pinned::<u8>(100).unwrap()).collect::<Vec<_>>()),
        |context, _| drop(context.register_pinned(vec![0u8; 4096]).map_err(|(error, _)| error).unwrap()),
        |context, stream| drop(context.allocate_zeroed::<u8>(stream, 100).unwrap()),
    ];
    for drops in kinds {
        assert_ends(move || {
            let instance = Instance::builder().cuda(false).isolated().host_workers(2).build().unwrap();
            let context = instance.device("host").unwrap().context().unwrap();
            let stream = context.create_stream().unwrap();
            for round in 0..100u32 {
                drops(&context, &stream);
                stream.synchronize().unwrap();
                // The thread that frees finds the context idle, and then it is not.
                (0..round % 20).for_each(|_| std::thread::yield_now());
                let signal = hold(&context, &stream);
                flush_deferred_drops();
                signal.set(1);
                stream.synchronize().unwrap();
            }
        });
    }
}

/// A driver with room for one piece of pinned memory, of which freeing takes a while.
#[derive(Debug)]
struct RoomForOne(Arc<dyn Driver>, AtomicU32);

// SAFETY: all calls go to the one driver, with what they were given, or are refused.
unsafe impl Forward for RoomForOne {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn allocate_pinned(&self, call: &Call<'_>, bytes: usize, flags: PinnedFlags) -> hal::Result<*mut u8> {
        if self.1.fetch_add(1, Ordering::SeqCst) > 0 {
            self.1.fetch_sub(1, Ordering::SeqCst);
            return Err(Status::OUT_OF_MEMORY.into());
        }
        self.0.allocate_pinned(call, bytes, flags)
    }

    unsafe fn free_pinned(&self, call: &Call<'_>, address: *mut u8) -> hal::Result<()> {
        std::thread::sleep(Duration::from_millis(5));
        // SAFETY: the caller promises what that driver asks for, too.
        let freed = unsafe { self.0.free_pinned(call, address) };
        self.1.fetch_sub(1, Ordering::SeqCst);
        freed
    }
}

#[test]
fn safety_150_what_was_dropped_makes_room_for_the_next_allocation() {
    let wrap = |inner| Arc::new(Layered(RoomForOne(inner, AtomicU32::new(0)))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    for size in 1..20 {
        let memory = context.allocate_pinned::<u8>(size * 100).unwrap();
        let refused = context.allocate_pinned::<u8>(1).unwrap_err();
        assert_eq!(refused.status(), Status::OUT_OF_MEMORY);
        drop(memory);
    }
}

/// A host device for a test alone, with workers for work that is held, and the number of contexts that were destroyed.
fn isolated() -> (Context, Arc<AtomicU32>) {
    #[derive(Debug)]
    struct Counted(Arc<dyn Driver>, Arc<AtomicU32>);
    // SAFETY: all calls go to the one driver, with what they were given.
    unsafe impl Forward for Counted {
        fn inner(&self) -> &dyn Driver {
            &*self.0
        }
        fn called(&self, _: &'static str, method: &'static str) {
            if method == "context_destroy" {
                self.1.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    let destroyed = Arc::new(AtomicU32::new(0));
    let counted = destroyed.clone();
    let wrap = move |inner| Arc::new(Layered(Counted(inner, counted.clone()))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_workers(4).wrap(wrap).build().unwrap();
    (instance.device("host").unwrap().create_context(ContextFlags::empty()).unwrap(), destroyed)
}

fn kernel(context: &Context, body: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Kernel {
    // The kernel writes its memory when `body` says so.
    let function = HostFunction::new("kernel", &[8], move |block, arguments| {
        let memory = arguments.slice::<u32>(0);
        let body = &body;
        block.phase(|_, _| body(&mut || memory.set(0, memory.get(0) + 1)));
    });
    DualModule::new().host_function(function).load(context).unwrap().kernel("kernel").unwrap()
}

/// A fault, by which [`lose`](Self::lose) loses the context.
struct Fault(Kernel);

impl Fault {
    fn new(context: &Context) -> Self {
        Self(kernel(context, |_| KernelFault::trap("on purpose").raise()))
    }

    fn lose(self, context: &Context) {
        let stream = context.create_stream().unwrap();
        let mut buffer = stream.allocate_zeroed::<u32>(1).unwrap();
        stream.launch_checked(&self.0, &LaunchConfig::new(1, 1), (&mut buffer,)).unwrap();
        assert!(stream.synchronize().unwrap_err().is_sticky());
    }
}

#[test]
fn safety_48_what_a_lost_context_leaves_waits_for_no_kernel_that_runs_on() {
    assert_ends(|| {
        let (context, destroyed) = isolated();
        let fault = Fault::new(&context);
        let stream = context.create_stream().unwrap();
        let (held, pass, begun) = gate();
        let running = kernel(&context, move |_| pass());
        let mut buffer = stream.allocate_zeroed::<u32>(1).unwrap();
        let pinned = context.allocate_pinned::<u32>(1).unwrap();
        stream.launch_checked(&running, &LaunchConfig::new(1, 1), (&mut buffer,)).unwrap();
        begun.recv().unwrap();
        fault.lose(&context);
        drop((pinned, running));
        assert_reaper_goes_on();
        drop((buffer, stream));
        assert_reaper_goes_on();
        drop(context);
        assert_reaper_goes_on();
        assert_eq!(destroyed.load(Ordering::SeqCst), 0, "it was closed while a kernel runs");
        drop(held);
        until("the end of the lost context", || destroyed.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn safety_39_memory_that_a_kernel_of_a_lost_context_writes_is_nobody_else_s() {
    for is_dropped_before in [false, true] {
        assert_ends(move || {
            let (context, _) = isolated();
            let fault = Fault::new(&context);
            let healthy = context.device().context().unwrap();
            let stream = context.create_stream().unwrap();
            let (held, pass, begun) = gate();
            let written = Arc::new(AtomicU32::new(0));
            let told = written.clone();
            let running = kernel(&context, move |write| {
                pass();
                write();
                told.store(1, Ordering::SeqCst);
            });
            // The memory of one context, and of another, in which the kernel runs.
            let mut memory =
                [context.allocate_pinned::<u32>(100).unwrap(), healthy.allocate_pinned::<u32>(100).unwrap()];
            let launch = |memory| stream.launch_checked(&running, &LaunchConfig::new(1, 1), (memory,)).unwrap();
            let [own, other] = &mut memory;
            launch(other);
            launch(own);
            begun.recv().unwrap();
            let kept = Some(memory).filter(|_| !is_dropped_before);
            fault.lose(&context);
            drop(kept);
            assert_reaper_goes_on();
            // Long enough for memory to be given back that counts as unused.
            std::thread::sleep(Duration::from_millis(100));
            let allocate = |_| [&context, &healthy].map(|context| context.allocate_pinned::<u32>(100));
            let mut fresh: Vec<_> = (0..20).flat_map(allocate).flatten().collect();
            let slices: Vec<_> = fresh.iter_mut().map(|fresh| fresh.as_mut_slice().unwrap()).collect();
            drop(held);
            until("the end of the kernel", || written.load(Ordering::SeqCst) == 1);
            assert!(slices.iter().all(|slice| slice.iter().all(|&element| element == 0)), "the kernel has written it");
        });
    }
}

#[test]
fn safety_39_memory_that_is_freed_in_the_order_of_a_lost_context_is_kept_for_its_kernels() {
    assert_ends(|| {
        let (context, _) = isolated();
        let fault = Fault::new(&context);
        let healthy = context.device().create_context(ContextFlags::empty()).unwrap();
        let (home, user) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let (held, pass, begun) = gate();
        let written = Arc::new(AtomicU32::new(0));
        let told = written.clone();
        let running = kernel(&context, move |write| {
            pass();
            write();
            told.store(1, Ordering::SeqCst);
        });
        let mut memory = home.allocate_zeroed::<u32>(100).unwrap();
        user.launch_checked(&running, &LaunchConfig::new(1, 1), (&mut memory,)).unwrap();
        begun.recv().unwrap();
        // The stream comes to what follows only when the context is lost: then it waits for no signal.
        let _gate = hold(&context, &home);
        drop(memory);
        fault.lose(&context);
        std::thread::sleep(Duration::from_millis(50));
        let stream = healthy.create_stream().unwrap();
        let fresh: Vec<_> = (0..8).map(|_| stream.allocate_zeroed::<u32>(100).unwrap()).collect();
        stream.synchronize().unwrap();
        drop(held);
        until("the end of the kernel", || written.load(Ordering::SeqCst) == 1);
        let values = fresh.iter().map(|fresh| stream.download(fresh).unwrap());
        assert!(values.flatten().all(|element| element == 0), "the kernel has written it");
    });
}

#[test]
fn safety_39_what_a_lost_context_has_read_is_kept_for_the_others_that_read_it() {
    let (context, _) = isolated();
    let fault = Fault::new(&context);
    let healthy = context.device().context().unwrap();
    let (lost, stream) = (context.create_stream().unwrap(), healthy.create_stream().unwrap());
    let mut pinned = healthy.allocate_pinned::<u32>(100).unwrap();
    pinned.as_mut_slice().unwrap().fill(3);
    let mut elsewhere = lost.allocate_zeroed::<u32>(100).unwrap();
    lost.copy(&mut elsewhere, &pinned).unwrap();
    let mut copied = stream.allocate_zeroed::<u32>(100).unwrap();
    let gate = hold(&healthy, &stream);
    stream.copy(&mut copied, &pinned).unwrap();
    fault.lose(&context);
    drop(pinned);
    assert_reaper_goes_on();
    let mut fresh = healthy.allocate_pinned::<u32>(100).unwrap();
    fresh.as_mut_slice().unwrap().fill(9);
    gate.set(1);
    assert_eq!(stream.download(&copied).unwrap(), [3; 100]);
}

#[test]
fn safety_39_memory_is_kept_for_a_kernel_whose_stream_ended_after_its_context_was_lost() {
    assert_ends(|| {
        let instance = Instance::builder().cuda(false).host_workers(3).host_check_memory(true).build().unwrap();
        let device = instance.device("host").unwrap();
        let context = device.create_context(ContextFlags::empty()).unwrap();
        let fault = Fault::new(&context);
        let (held, pass, begun) = gate();
        let written = Arc::new(AtomicU32::new(0));
        let told = written.clone();
        let running = kernel(&context, move |write| {
            pass();
            write();
            told.store(1, Ordering::SeqCst);
        });
        let (home, ends) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut memory = home.allocate_zeroed::<u32>(100).unwrap();
        ends.launch_checked(&running, &LaunchConfig::new(1, 1), (&mut memory,)).unwrap();
        begun.recv().unwrap();
        fault.lose(&context);
        drop(ends);
        drop(memory);
        assert_reaper_goes_on();
        drop(held);
        until("the end of the kernel", || written.load(Ordering::SeqCst) == 1);
        drop((home, running, context));
        until_nothing_is_left(&device);
    });
}

#[test]
fn safety_39_memory_of_a_lost_context_is_freed_though_it_has_no_new_streams_and_waits() {
    let instance = Instance::builder().cuda(false).isolated().host_devices(2).host_check_memory(true).build().unwrap();
    let [device, second] = instance.devices() else { panic!("there are two devices") };
    let context = device.create_context(ContextFlags::empty()).unwrap();
    let elsewhere = second.context().unwrap().create_stream().unwrap();
    let fault = Fault::new(&context);
    let (home, ended) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (used, unused) = (home.allocate_zeroed::<u32>(8).unwrap(), ended.allocate_zeroed::<u32>(8).unwrap());
    context.synchronize().unwrap();
    drop(ended);
    let gate = hold(&elsewhere.context(), &elsewhere);
    let mut copied = elsewhere.allocate_zeroed::<u32>(8).unwrap();
    elsewhere.copy_peer(&mut copied, &used).unwrap();
    fault.lose(&context);
    drop(unused);
    // Its stream cannot wait for the copy.
    drop(used);
    assert_reaper_goes_on();
    gate.set(1);
    assert_eq!(elsewhere.download(&copied).unwrap(), [0; 8]);
    drop((home, context));
    until_nothing_is_left(device);
}

#[test]
fn safety_49_the_drop_of_a_hook_for_errors_of_drops_may_set_another() {
    struct SetsAnother;
    impl Drop for SetsAnother {
        fn drop(&mut self) {
            set_drop_error_hook(|_| {});
        }
    }
    assert_ends(|| {
        for replace in [|| set_drop_error_hook(|_| {}), reset_drop_error_hook] {
            let sets = SetsAnother;
            set_drop_error_hook(move |_| _ = &sets);
            replace();
        }
        reset_drop_error_hook();
    });
}
