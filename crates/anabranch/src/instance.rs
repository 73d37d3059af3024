//! Instances: the back ends that could be loaded, and the reasons why others could not.

mod drivers;

use crate::compiler::Compiler;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result, list};
use crate::trace;
use anabranch_core::device::DeviceCore;
use anabranch_core::device_name::DeviceName;
use anabranch_core::host_work::refuse_inside;
use anabranch_hal::{Absence, BackendKind, Driver, Status};
use drivers::HostSettings;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The environment variable that names the device of [`Instance::default_device`].
pub const DEVICE_VARIABLE: &str = "ANABRANCH_DEVICE";

/// A back end that is not available on this machine, with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentBackend {
    /// The back end.
    pub backend: BackendKind,
    /// The reason and the remedy.
    pub absence: Absence,
}

/// The back ends of this machine and their devices. Loading does not fail if a component is not installed: missing back
/// ends are [listed](Self::absent_backends).
///
/// All instances of a process share one driver of each back end. Independent libraries can therefore create one each,
/// and exchange streams, events and buffers. An instance with drivers, wrappers of drivers or options of its own is
/// [isolated](Self::is_isolated): its devices are distinct from those with the same name in other instances.
///
/// ```
/// let instance = anabranch::Instance::new()?;
/// for device in instance.devices() {
///     println!("{device}: {}", device.properties().name);
/// }
/// for absent in instance.absent_backends() {
///     println!("{}: {}", absent.backend, absent.absence);
/// }
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Instance {
    devices: Vec<Device>,
    absent: Vec<AbsentBackend>,
    is_isolated: bool,
}

/// Makes a driver from a driver.
type Wrapper = Arc<dyn Fn(Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync>;

/// What an [`Instance`] loads.
#[derive(Clone)]
#[must_use]
pub struct InstanceBuilder {
    cuda: bool,
    host: bool,
    is_isolated: bool,
    host_settings: HostSettings,
    drivers: Vec<Arc<dyn Driver>>,
    wrappers: Vec<Wrapper>,
}

impl InstanceBuilder {
    /// Whether to load the CUDA back end. On by default.
    pub fn cuda(mut self, load: bool) -> Self {
        self.cuda = load;
        self
    }

    /// Whether to start the host back end. On by default.
    pub fn host(mut self, load: bool) -> Self {
        self.host = load;
        self
    }

    /// Gives the instance its own host back end, which no other instance shares.
    pub fn isolated(mut self) -> Self {
        self.is_isolated = true;
        self
    }

    /// Adds a driver, which replaces the one that would be loaded for its back end, or that was given for it before. The
    /// instance is [isolated](Self::isolated). Instances that are given the same driver share its devices.
    pub fn driver(mut self, driver: Arc<dyn Driver>) -> Self {
        self.drivers.retain(|other| other.kind() != driver.kind());
        self.drivers.push(driver);
        self.isolated()
    }

    /// Wraps each driver, including those given by [`driver`](Self::driver). Wrappers are applied in the order in which
    /// they were added, so the last one is called first. The instance is [isolated](Self::isolated).
    ///
    /// A wrapper implements [`Forward`](crate::hal::Forward), which forwards every call that it does not override.
    /// [`Layered`](crate::hal::Layered) makes a driver of it.
    ///
    /// ```
    /// use anabranch::hal::{Call, Driver, Forward, FunctionHandle, Launch, Layered, Live, StreamHandle};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// #[derive(Debug)]
    /// struct CountLaunches {
    ///     inner: Arc<dyn Driver>,
    ///     launches: Arc<AtomicU64>,
    /// }
    ///
    /// // SAFETY: all calls go to the one driver, with what they were given.
    /// unsafe impl Forward for CountLaunches {
    ///     fn inner(&self) -> &dyn Driver {
    ///         &*self.inner
    ///     }
    ///
    ///     unsafe fn launch(
    ///         &self,
    ///         call: &Call<'_>,
    ///         stream: Live<'_, StreamHandle>,
    ///         function: Live<'_, FunctionHandle>,
    ///         launch: &Launch<'_>,
    ///     ) -> anabranch::hal::Result<()> {
    ///         self.launches.fetch_add(1, Ordering::Relaxed);
    ///         // SAFETY: the caller promises that the launch is sound.
    ///         unsafe { self.inner.launch(call, stream, function, launch) }
    ///     }
    /// }
    ///
    /// let launches = Arc::new(AtomicU64::new(0));
    /// let counter = launches.clone();
    /// let instance = anabranch::Instance::builder()
    ///     .wrap(move |inner| Arc::new(Layered(CountLaunches { inner, launches: counter.clone() })))
    ///     .build()?;
    /// # let stream = instance.device("host")?.context()?.create_stream()?;
    /// # let module = anabranch::DualModule::new().host_function(anabranch::HostFunction::new("nothing", &[], |_, _| {}));
    /// # let kernel = module.load(&stream.context())?.kernel("nothing")?;
    /// stream.launch_checked(&kernel, &anabranch::LaunchConfig::new(1, 1), ())?;
    /// assert_eq!(launches.load(Ordering::Relaxed), 1);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    pub fn wrap(mut self, wrapper: impl Fn(Arc<dyn Driver>) -> Arc<dyn Driver> + Send + Sync + 'static) -> Self {
        self.wrappers.push(Arc::new(wrapper));
        self.isolated()
    }

    /// The number of host devices, which overrides `ANABRANCH_HOST_DEVICES` and the default of 1. The instance is
    /// [isolated](Self::isolated).
    pub fn host_devices(mut self, count: u32) -> Self {
        self.host_settings.devices = Some(count);
        self.isolated()
    }

    /// The number of threads that run the host devices' work, which overrides `ANABRANCH_HOST_WORKERS` and the default,
    /// the available parallelism of the machine, at least 2. The instance is [isolated](Self::isolated).
    pub fn host_workers(mut self, count: usize) -> Self {
        self.host_settings.workers = Some(count);
        self.isolated()
    }

    /// How long a thread that runs the host devices' work looks for more before it sleeps. The default of 50 microseconds
    /// is for programs that have a core to spare for it, and a millisecond is the most. The instance is
    /// [isolated](Self::isolated).
    pub fn host_worker_spin(mut self, spin: Duration) -> Self {
        self.host_settings.worker_spin = Some(spin);
        self.isolated()
    }

    /// The number of operations that a stream of a host device holds, with the waits that come before some. Queueing another
    /// one blocks until there is room. Streams look at a limit from 128 on behind every 64 operations only, so that they hold a
    /// few more.
    /// The instance is [isolated](Self::isolated).
    pub fn host_queue_limit(mut self, operations: usize) -> Self {
        self.host_settings.queue_limit = Some(operations);
        self.isolated()
    }

    /// Runs the host devices' work in an order that is derived from this number, which overrides `ANABRANCH_HOST_SEED`.
    /// The devices then have no threads of their own: work runs only in threads that synchronize, and one operation
    /// runs in each query. The threads of the library that await work, or release things later, make such queries, too: a host
    /// function that waits for one of them waits for ever. The instance is [isolated](Self::isolated).
    pub fn host_seed(mut self, seed: u64) -> Self {
        self.host_settings.seed = Some(seed);
        self.isolated()
    }

    /// Whether the host devices check how memory is used, which overrides `ANABRANCH_HOST_CHECK_MEMORY` (0 or 1). The
    /// default is no. With the check, work that uses memory before its allocation, after its free, or past its end
    /// loses the context with [`CUDA_ERROR_ILLEGAL_ADDRESS (700)`](crate::Status::ILLEGAL_ADDRESS), and
    /// [`Device::memory_report`] describes the access. Closures that run as kernels reach memory through slices, which
    /// refuse an index past their end with the same status in any case; that is described by the error alone. The
    /// instance is [isolated](Self::isolated).
    pub fn host_check_memory(mut self, check: bool) -> Self {
        self.host_settings.check_memory = Some(check);
        self.isolated()
    }

    /// Loads the back ends.
    ///
    /// # Errors
    /// If an environment variable or an option has an invalid value. A missing back end is not an error.
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function.
    pub fn build(self) -> Result<Instance> {
        refuse_inside("creating an instance")?;
        trace::span!("loading the back ends");
        let mut instance = Instance { devices: Vec::new(), absent: Vec::new(), is_isolated: self.is_isolated };
        for backend in [BackendKind::Cuda, BackendKind::Host] {
            let given = self.drivers.iter().filter(|driver| driver.kind() == backend).cloned().collect::<Vec<_>>();
            if !given.is_empty() {
                given.into_iter().try_for_each(|driver| instance.add(self.wrapped(driver)))?;
                continue;
            }
            let loaded = match backend {
                BackendKind::Cuda if self.cuda => drivers::cuda(),
                BackendKind::Host if self.host => drivers::host(&self.host_settings, self.is_isolated)?,
                _ => Err(left_out()),
            };
            match loaded {
                Ok(driver) => instance.add(self.wrapped(driver))?,
                Err(absence) => {
                    trace::rare!(%backend, %absence, "a back end is absent");
                    instance.absent.push(AbsentBackend { backend, absence });
                }
            }
        }
        Ok(instance)
    }

    fn wrapped(&self, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        self.wrappers.iter().fold(driver, |driver, wrap| wrap(driver))
    }
}

impl fmt::Debug for InstanceBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InstanceBuilder")
            .field("cuda", &self.cuda)
            .field("host", &self.host)
            .field("is_isolated", &self.is_isolated)
            .field("drivers", &self.drivers.len())
            .field("wrappers", &self.wrappers.len())
            .finish_non_exhaustive()
    }
}

fn left_out() -> Absence {
    Absence {
        reason: "it was left out when the instance was built".to_owned(),
        remedy: "build the instance with it".to_owned(),
    }
}

fn not_supported_yet() -> Absence {
    Absence {
        reason: "AMD GPUs are not supported yet".to_owned(),
        remedy: "use an NVIDIA GPU, `cuda:0`, or the software device, `host`".to_owned(),
    }
}

impl Instance {
    /// Loads every back end that is available.
    ///
    /// # Errors
    /// Same as [`InstanceBuilder::build`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// Creates an instance with options.
    pub fn builder() -> InstanceBuilder {
        InstanceBuilder {
            cuda: true,
            host: true,
            is_isolated: false,
            host_settings: HostSettings::default(),
            drivers: Vec::new(),
            wrappers: Vec::new(),
        }
    }

    fn add(&mut self, driver: Arc<dyn Driver>) -> Result<()> {
        for device in DeviceCore::enumerate(&driver)? {
            trace::rare!(%device, product = device.properties().name, "found a device");
            self.devices.push(Device::from_core(device));
        }
        Ok(())
    }

    /// Whether the instance has its own drivers. Its devices, and everything made on them, then cannot be used together
    /// with those of other instances, even if they have the same names.
    pub fn is_isolated(&self) -> bool {
        self.is_isolated
    }

    /// All devices: GPUs first, then host devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The back ends that are not available, with the reason and the remedy.
    pub fn absent_backends(&self) -> &[AbsentBackend] {
        &self.absent
    }

    /// The device with that name: `cuda:0`, `host`, `host:1`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the text does not name a device, or there
    /// is no device with that name. The message contains the reason and the remedy.
    pub fn device(&self, name: &str) -> Result<Device> {
        let name: DeviceName = name.parse()?;
        if let Some(device) = self.devices.iter().find(|device| device.name() == name) {
            return Ok(device.clone());
        }
        let operation = "opening a device";
        let error = match self.absent.iter().find(|absent| absent.backend == name.backend) {
            Some(absent) => Error::absent(operation, &absent.absence),
            None if name.backend == BackendKind::Hip => Error::absent(operation, &not_supported_yet()),
            None => {
                let names: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
                let there_are = match &names[..] {
                    [] => "there is no other either".to_owned(),
                    [only] => format!("the only one is {only}"),
                    several => format!("there are {}", list(several)),
                };
                let remedy = match name.backend {
                    BackendKind::Host => "; set ANABRANCH_HOST_DEVICES to have more software devices",
                    _ => "",
                };
                Error::new(ErrorKind::Absent, Status::INVALID_DEVICE, operation)
                    .with_message(format!("there is no such device; {there_are}{remedy}"))
            }
        };
        Err(error.at(name.to_string()))
    }

    /// The device that `ANABRANCH_DEVICE` names, or else the first GPU, or else the first host device.
    ///
    /// # Errors
    /// Same as [`device`](Self::device); [`CUDA_ERROR_NO_DEVICE (100)`](crate::Status::NO_DEVICE) if there is no device
    /// at all.
    pub fn default_device(&self) -> Result<Device> {
        match std::env::var_os(DEVICE_VARIABLE).map(|name| name.to_string_lossy().into_owned()) {
            Some(name) if !name.trim().is_empty() => self.device(&name),
            _ => self.devices.first().cloned().ok_or_else(|| {
                Error::new(ErrorKind::Absent, Status::NO_DEVICE, "opening a device")
                    .with_message("no back end has a device; leave the host back end in, which needs no hardware")
            }),
        }
    }

    /// The compiler for CUDA C++, which needs neither a GPU nor a driver.
    ///
    /// # Errors
    /// If NVRTC is not installed. The message lists the places that were searched, and the remedy.
    pub fn compiler(&self) -> Result<Compiler> {
        Compiler::find()
    }
}
