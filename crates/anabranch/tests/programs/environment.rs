//! What programs run on: host devices that check how their memory is used.

use crate::foreign::Objects;
use crate::forget::Leaks;
use crate::one_lock::OneLock;
use crate::world::{ON_PURPOSE, panic_on_purpose};
use anabranch::{
    AllocationKind, CaptureMode, Context, ContextFlags, Device, DualModule, HostFunction, Instance, Kernel,
    KernelFault, LaunchConfig, LiveAllocation, Stream, flush_deferred_drops, set_drop_error_hook,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, Mutex, Once};
use std::time::{Duration, Instant};

/// How many elements each buffer has.
pub(crate) const LENGTH: usize = 8;

thread_local! {
    /// How long to wait for what is given back by another thread of the library. Only a leak takes so long.
    pub(crate) static PATIENCE: Cell<Duration> = const { Cell::new(Duration::from_secs(10)) };
}

type Panics = HashMap<(u64, u64), Arc<AtomicU32>>;

/// Host devices, which several programs may use one after the other.
pub(crate) struct Environment {
    pub(crate) contexts: Vec<Context>,
    pub(crate) leaks: Mutex<Leaks>,
    /// Objects of another instance, once a program has asked for them.
    pub(crate) objects: Mutex<Option<Objects>>,
    kernels: Vec<Kernels>,
    devices: Vec<Device>,
    /// Whether work runs while nobody waits.
    pub(crate) has_workers: bool,
    /// A stream of each context, without work.
    idle: Vec<Stream>,
    /// How many panics of the work of default streams may still be reported, by their contexts and themselves.
    panics: Mutex<Panics>,
}

/// The kernels of a context.
#[derive(Clone)]
pub(crate) struct Kernels {
    /// Reads three buffers, and writes the first.
    pub(crate) combine: Kernel,
    /// Panics.
    pub(crate) panic: Kernel,
    /// Loses the context.
    pub(crate) fault: Kernel,
}

/// Whether programs run on CUDA devices, without what is for host devices only: nobody says there how memory is used, no kernel
/// panics, and a context that is lost is lost for the process.
pub(crate) fn is_on_cuda() -> bool {
    static ON_CUDA: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("ANABRANCH_PROGRAMS_ON_CUDA").is_some_and(|value| !value.is_empty()));
    *ON_CUDA
}

/// A thread for each element.
pub(crate) fn for_each(length: usize) -> LaunchConfig<'static> {
    LaunchConfig::new(1, length as u32)
}

impl Kernels {
    /// Loads also the library's own kernel, for which programs that hold up their streams would wait for ever.
    fn load(context: &Context) -> Self {
        let condition = context.allocate_pinned::<u32>(1).unwrap();
        let stream = context.create_stream().unwrap();
        stream.capture(CaptureMode::ThreadLocal, |scope| scope.capture_if(&condition, |_| Ok(()))).unwrap();
        if is_on_cuda() {
            let module = DualModule::new().ptx(include_str!("../data/combine.ptx")).load(context).unwrap();
            let combine = module.kernel("combine").unwrap();
            return Self { panic: combine.clone(), fault: combine.clone(), combine };
        }
        let combine = HostFunction::new("combine", &[8, 8, 8, 4], |_, arguments| {
            let to = arguments.slice::<u32>(0);
            let (left, right) = (arguments.slice::<u32>(1), arguments.slice::<u32>(2));
            let value = arguments.scalar::<u32>(3);
            for index in 0..to.len() {
                to.set(index, combined(to.get(index), left.get(index), right.get(index), value));
            }
        });
        let panic = HostFunction::new("panic", &[8], |_, _| panic_on_purpose());
        let fault = HostFunction::new("fault", &[], |_, _| KernelFault::trap(ON_PURPOSE).raise());
        let module = DualModule::new().host_function(combine).host_function(panic).host_function(fault);
        let module = module.load(context).unwrap();
        let kernel = |name| module.kernel(name).unwrap();
        Self { combine: kernel("combine"), panic: kernel("panic"), fault: kernel("fault") }
    }
}

/// What `combine` does to an element.
pub(crate) fn combined(to: u32, left: u32, right: u32, value: u32) -> u32 {
    to.wrapping_mul(31).wrapping_add(left).wrapping_add(right.wrapping_mul(3)).wrapping_add(value)
}

/// What was told to the hook for errors of drops that no program has brought about.
static ERRORS_OF_DROPS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sets a hook that unwinds when it is told of a panic.
fn watch_errors_of_drops() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        set_drop_error_hook(|error| {
            if error.to_string().contains(ON_PURPOSE) {
                panic_on_purpose();
            }
            // A context that is lost is lost for what is dropped in it too.
            if !error.is_sticky() {
                ERRORS_OF_DROPS.lock().unwrap().push(error.to_string());
            }
        });
    });
}

/// What programs run on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Devices {
    /// So many devices with workers.
    Workers(u32),
    /// So many devices that run one operation after the other, in an order that is made from a seed.
    InOrder(u32, u64),
    /// A device with workers, whose driver keeps all threads waiting while one waits in a call, as those of GPUs do.
    OneLock,
}

impl Devices {
    pub(crate) fn instance(self) -> Instance {
        if is_on_cuda() {
            return Instance::builder().host(false).build().unwrap();
        }
        let builder = Instance::builder().cuda(false).host_check_memory(true);
        let builder = match self {
            Self::Workers(devices) => builder.host_devices(devices).host_workers(3),
            Self::InOrder(devices, seed) => builder.host_devices(devices).host_seed(seed),
            Self::OneLock => builder.host_workers(3).wrap(OneLock::over),
        };
        builder.build().unwrap()
    }
}

impl Environment {
    /// So many devices, and so many contexts on each: the primary one, and others.
    pub(crate) fn new(devices: Devices, contexts: usize) -> Self {
        watch_errors_of_drops();
        let (instance, has_workers) = (devices.instance(), !matches!(devices, Devices::InOrder(..)));
        assert!(!instance.devices().is_empty(), "there is no device");
        let of_device = |device: &Device| {
            let others = (1..contexts).map(|_| device.create_context(ContextFlags::empty()).unwrap());
            std::iter::once(device.context().unwrap()).chain(others).collect::<Vec<_>>()
        };
        let contexts: Vec<Context> = instance.devices().iter().flat_map(of_device).collect();
        let kernels = contexts.iter().map(Kernels::load).collect();
        let devices = instance.devices().to_vec();
        let idle = contexts.iter().map(|context| context.create_stream().unwrap()).collect();
        Self {
            contexts,
            kernels,
            devices,
            has_workers,
            idle,
            leaks: Mutex::default(),
            objects: Mutex::default(),
            panics: Mutex::default(),
        }
    }

    /// Contexts beside those of the other programs.
    pub(crate) fn contexts_to_lose(&self) -> Vec<Context> {
        self.devices.iter().map(|device| device.create_context(ContextFlags::empty()).unwrap()).collect()
    }

    pub(crate) fn kernels_of(&self, contexts: &[Context]) -> Vec<Kernels> {
        if contexts.iter().map(Context::id).eq(self.contexts.iter().map(Context::id)) {
            return self.kernels.clone();
        }
        contexts.iter().map(Kernels::load).collect()
    }

    /// How many panics of the work of a default stream may still be reported, whoever has queued it.
    pub(crate) fn panics_of(&self, stream: &Stream) -> Arc<AtomicU32> {
        self.panics.lock().unwrap().entry((stream.context().id(), stream.id())).or_default().clone()
    }

    /// That nothing was found, and nothing is left of a program that is over but what it has leaked.
    pub(crate) fn assert_clean(&self) {
        drop(std::mem::take(&mut self.leaks.lock().unwrap().capturing));
        let leaks = std::mem::take(&mut self.leaks.lock().unwrap().kept);
        let kept = leaks.iter().map(|leak| leak.allocations).sum::<usize>();
        let forgotten = self.leaks.lock().unwrap().forgotten;
        self.assert_left(kept + forgotten);
        if !leaks.is_empty() {
            // What was kept instead of forgotten is as whole as before.
            drop(leaks);
            self.assert_left(forgotten);
        }
        if let Some(objects) = &mut *self.objects.lock().unwrap() {
            objects.assert_unchanged();
        }
        // What default streams have not reported would be reported to other programs.
        flush_deferred_drops();
        self.report_panics();
        self.panics.lock().unwrap().clear();
        let errors = std::mem::take(&mut *ERRORS_OF_DROPS.lock().unwrap());
        assert!(errors.is_empty(), "errors of drops: {errors:#?}");
    }

    /// Waits until all work is done, and for what no stream has reported.
    fn report_panics(&self) {
        for context in &self.contexts {
            while let Err(error) = context.synchronize() {
                assert!(error.to_string().contains(ON_PURPOSE), "{error}");
            }
        }
    }

    fn assert_left(&self, most: usize) {
        let synchronize = || {
            self.report_panics();
            // In a lost context nobody waits for the work that frees. Where there are no workers, queries run it.
            self.idle.iter().for_each(|stream| _ = stream.query().unwrap());
        };
        // The library keeps pinned memory of its own for as long as its context lives.
        let of_programs =
            |live: &LiveAllocation| live.kind != AllocationKind::Pinned || live.bytes == (LENGTH * 4) as u64;
        assert_little_is_left(&self.devices, most, synchronize, of_programs);
    }

    /// That nothing is left at all, when the devices are not used any more.
    pub(crate) fn close(self) {
        self.assert_clean();
        let Self { contexts, kernels, devices, idle, leaks, objects, .. } = self;
        drop((contexts, kernels, idle));
        // What is forgotten keeps its context.
        if !leaks.into_inner().unwrap().has_forgotten {
            assert_little_is_left(&devices, 0, || {}, |_| true);
        }
        if let Some(objects) = objects.into_inner().unwrap() {
            let devices = objects.close();
            assert_little_is_left(&devices, 0, || {}, |_| true);
        }
    }
}

/// What is given back by another thread of the library may be work of a stream, which runs when somebody waits for it.
fn assert_little_is_left(
    devices: &[Device],
    most: usize,
    synchronize: impl Fn(),
    counts: impl Fn(&LiveAllocation) -> bool,
) {
    if is_on_cuda() {
        synchronize();
        return flush_deferred_drops();
    }
    let begin = Instant::now();
    loop {
        synchronize();
        let mut left = Vec::new();
        for device in devices {
            let report = device.memory_report().unwrap();
            assert!(report.findings.is_empty(), "{:#?}", report.findings);
            left.extend(report.allocations.into_iter().filter(&counts));
        }
        if left.len() <= most {
            return;
        }
        assert!(begin.elapsed() < PATIENCE.get(), "more than {most} of this were never freed: {left:#?}");
        flush_deferred_drops();
        std::thread::yield_now();
    }
}
