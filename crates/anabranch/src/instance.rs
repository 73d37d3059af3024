//! An instance: the back ends that could be loaded, and why the others could not.

use crate::compiler::Compiler;
use crate::device::Device;
use crate::device_name::DeviceName;
use crate::error::{Error, ErrorKind, Result, ResultExt, list};
use crate::trace;
use anabranch_hal::{Absence, BackendKind, DeviceOrdinal, Driver, Status};
use std::sync::Arc;

/// The environment variable that names the device of [`Instance::default_device`].
pub const DEVICE_VARIABLE: &str = "ANABRANCH_DEVICE";

/// A back end that is not available on this machine: which, why, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentBackend {
    /// The back end.
    pub backend: BackendKind,
    /// Why it is absent and what would help.
    pub absence: Absence,
}

/// The back ends of this machine and their devices. Loading never fails because something is not installed: what is
/// missing is [data](Self::absent_backends).
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
}

/// What an [`Instance`] loads.
#[derive(Clone, Debug)]
#[must_use]
pub struct InstanceBuilder {
    cuda: bool,
    host: bool,
    host_devices: Option<u32>,
    host_workers: Option<usize>,
    host_queue_limit: Option<usize>,
    host_seed: Option<u64>,
    host_check_memory: Option<bool>,
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

    /// The number of host devices, in place of `ANABRANCH_HOST_DEVICES` or 1.
    pub fn host_devices(mut self, count: u32) -> Self {
        self.host_devices = Some(count);
        self
    }

    /// The number of threads that run the host devices' work, in place of `ANABRANCH_HOST_WORKERS` or the machine's
    /// number of processors.
    pub fn host_workers(mut self, count: usize) -> Self {
        self.host_workers = Some(count);
        self
    }

    /// How many operations a stream of a host device holds before queueing another one waits.
    pub fn host_queue_limit(mut self, operations: usize) -> Self {
        self.host_queue_limit = Some(operations);
        self
    }

    /// Runs the host devices' work in an order made from this number, in place of `ANABRANCH_HOST_SEED`. There are no
    /// threads of their own then: work runs only in threads that synchronise, and one operation in each query.
    pub fn host_seed(mut self, seed: u64) -> Self {
        self.host_seed = Some(seed);
        self
    }

    /// Whether the host devices check how memory is used, in place of `ANABRANCH_HOST_CHECK_MEMORY` (0 or 1) or not at all.
    /// Work that uses memory before it is allocated, after it is freed, or past its end then loses the context with 700,
    /// and [`Device::memory_report`] says what happened.
    pub fn host_check_memory(mut self, check: bool) -> Self {
        self.host_check_memory = Some(check);
        self
    }

    /// Loads the back ends.
    ///
    /// # Errors
    /// When an environment variable or an option has a value that makes no sense. A back end that is not there is no
    /// error.
    pub fn build(self) -> Result<Instance> {
        trace::span!("loading the back ends");
        let mut instance = Instance { devices: Vec::new(), absent: Vec::new() };
        instance.add(BackendKind::Cuda, self.load_cuda())?;
        instance.add(BackendKind::Host, self.load_host()?)?;
        Ok(instance)
    }

    #[cfg(feature = "cuda")]
    fn load_cuda(&self) -> Result<Arc<dyn Driver>, Absence> {
        if !self.cuda {
            return Err(left_out());
        }
        anabranch_cuda::CudaDriver::load().map(|driver| driver as Arc<dyn Driver>)
    }

    #[cfg(not(feature = "cuda"))]
    fn load_cuda(&self) -> Result<Arc<dyn Driver>, Absence> {
        Err(not_built("cuda"))
    }

    #[cfg(feature = "host")]
    fn load_host(&self) -> Result<Result<Arc<dyn Driver>, Absence>> {
        if !self.host {
            return Ok(Err(left_out()));
        }
        let operation = "starting the host device";
        let refuse = |message: String| Error::argument(Status::INVALID_VALUE, operation, message);
        let mut options = anabranch_host::HostOptions::from_environment().map_err(|error| refuse(error.to_string()))?;
        options.devices = self.host_devices.unwrap_or(options.devices);
        options.workers = self.host_workers.or(options.workers);
        options.seed = self.host_seed.or(options.seed);
        options.check_memory = self.host_check_memory.unwrap_or(options.check_memory);
        options.queue_limit = self.host_queue_limit.unwrap_or(options.queue_limit);
        if options.devices == 0 || options.workers == Some(0) || options.queue_limit == 0 {
            return Err(refuse("devices, workers and the queue limit must be at least 1".to_owned()));
        }
        Ok(Ok(Arc::new(anabranch_host::HostDriver::new(options)) as Arc<dyn Driver>))
    }

    #[cfg(not(feature = "host"))]
    fn load_host(&self) -> Result<Result<Arc<dyn Driver>, Absence>> {
        Ok(Err(not_built("host")))
    }
}

#[allow(dead_code, reason = "not used when every back end is off")]
fn left_out() -> Absence {
    Absence {
        reason: "it was left out when the instance was built".to_owned(),
        remedy: "build the instance with it".to_owned(),
    }
}

#[allow(dead_code, reason = "used when a feature is off")]
fn not_built(feature: &str) -> Absence {
    Absence {
        reason: "the library was built without it".to_owned(),
        remedy: format!("build with the cargo feature `{feature}`"),
    }
}

impl Instance {
    /// Loads every back end that is there.
    ///
    /// # Errors
    /// As [`InstanceBuilder::build`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// An instance with options.
    pub fn builder() -> InstanceBuilder {
        InstanceBuilder {
            cuda: true,
            host: true,
            host_devices: None,
            host_workers: None,
            host_queue_limit: None,
            host_seed: None,
            host_check_memory: None,
        }
    }

    fn add(&mut self, backend: BackendKind, driver: Result<Arc<dyn Driver>, Absence>) -> Result<()> {
        let driver = match driver {
            Ok(driver) => driver,
            Err(absence) => {
                trace::rare!(%backend, %absence, "a back end is absent");
                self.absent.push(AbsentBackend { backend, absence });
                return Ok(());
            }
        };
        let operation = "enumerating devices";
        let count = driver.device_count().during(operation, || backend.to_string())?;
        for ordinal in (0..count).map(DeviceOrdinal) {
            let name = DeviceName { backend, ordinal };
            let properties = driver.device_properties(ordinal).during(operation, || name.to_string())?;
            trace::rare!(device = %name, product = properties.name, "found a device");
            self.devices.push(Device::new(driver.clone(), name, properties));
        }
        Ok(())
    }

    /// All devices: GPUs first, then host devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The back ends that are not available, with the reason and the remedy.
    pub fn absent_backends(&self) -> &[AbsentBackend] {
        &self.absent
    }

    /// The device of that name: `cuda:0`, `host`, `host:1`.
    ///
    /// # Errors
    /// 101 when the text names no device, or no device is there of that name; the message says why and what would help.
    pub fn device(&self, name: &str) -> Result<Device> {
        let name: DeviceName = name.parse()?;
        if let Some(device) = self.devices.iter().find(|device| device.name() == name) {
            return Ok(device.clone());
        }
        let operation = "opening a device";
        let error = match self.absent.iter().find(|absent| absent.backend == name.backend) {
            Some(absent) => Error::absent(operation, &absent.absence),
            None => {
                let names: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
                let there_are = match &names[..] {
                    [] => "there is no other either".to_owned(),
                    [only] => format!("the only one is {only}"),
                    several => format!("there are {}", list(several)),
                };
                Error::new(ErrorKind::Absent, Status::INVALID_DEVICE, operation)
                    .with_message(format!("there is no such device; {there_are}"))
            }
        };
        Err(error.at(name.to_string()))
    }

    /// The device that `ANABRANCH_DEVICE` names, else the first GPU, else the first host device.
    ///
    /// # Errors
    /// As [`device`](Self::device); 100 when there is no device at all.
    pub fn default_device(&self) -> Result<Device> {
        match std::env::var(DEVICE_VARIABLE) {
            Ok(name) if !name.trim().is_empty() => self.device(&name),
            _ => self.devices.first().cloned().ok_or_else(|| {
                Error::new(ErrorKind::Absent, Status::NO_DEVICE, "opening a device")
                    .with_message("no back end has a device; leave the host back end in, which needs no hardware")
            }),
        }
    }

    /// The compiler of CUDA C++, which needs neither a GPU nor a driver.
    ///
    /// # Errors
    /// When NVRTC is not installed; the message says where it was looked for and what would help.
    pub fn compiler(&self) -> Result<Compiler> {
        Compiler::find()
    }
}
