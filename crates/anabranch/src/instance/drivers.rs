//! The drivers that all instances of a process share.

use crate::error::Result;
use anabranch_hal::{Absence, Driver};
use std::sync::Arc;
use std::time::Duration;

/// The settings of a host back end, which override the environment.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "host"), allow(dead_code, reason = "nobody reads them"))]
pub(super) struct HostSettings {
    pub(super) devices: Option<u32>,
    pub(super) workers: Option<usize>,
    pub(super) worker_spin: Option<Duration>,
    pub(super) queue_limit: Option<usize>,
    pub(super) seed: Option<u64>,
    pub(super) check_memory: Option<bool>,
}

/// The process's CUDA driver.
#[cfg(feature = "cuda")]
pub(super) fn cuda() -> Result<Arc<dyn Driver>, Absence> {
    use crate::ranks;
    use anabranch_sync::Mutex;

    static CUDA: Mutex<Option<Arc<dyn Driver>>> = Mutex::new(ranks::DRIVERS, None);
    let mut cuda = CUDA.lock();
    if let Some(driver) = &*cuda {
        return Ok(driver.clone());
    }
    // What is absent now may be there later.
    let driver: Arc<dyn Driver> = anabranch_cuda::CudaDriver::load()?;
    *cuda = Some(driver.clone());
    Ok(driver)
}

#[cfg(not(feature = "cuda"))]
pub(super) fn cuda() -> Result<Arc<dyn Driver>, Absence> {
    Err(not_built("cuda"))
}

/// A separate host back end, or the one that is shared by all instances with the same environment.
#[cfg(feature = "host")]
pub(super) fn host(settings: &HostSettings, is_isolated: bool) -> Result<Result<Arc<dyn Driver>, Absence>> {
    use crate::error::Error;
    use crate::ranks;
    use anabranch_hal::Status;
    use anabranch_host::{HostDriver, HostOptions};
    use anabranch_sync::Mutex;
    use std::sync::Weak;

    static HOST: Mutex<Vec<(HostOptions, Weak<HostDriver>)>> = Mutex::new(ranks::DRIVERS, Vec::new());
    let refuse = |message: String| Error::argument(Status::INVALID_VALUE, "starting the host device", message);
    let mut options = HostOptions::from_environment().map_err(|error| refuse(error.to_string()))?;
    options.devices = settings.devices.unwrap_or(options.devices);
    options.workers = settings.workers.or(options.workers);
    options.worker_spin = settings.worker_spin.unwrap_or(options.worker_spin);
    options.seed = settings.seed.or(options.seed);
    options.check_memory = settings.check_memory.unwrap_or(options.check_memory);
    options.queue_limit = settings.queue_limit.unwrap_or(options.queue_limit);
    if !HostOptions::DEVICES.contains(&options.devices)
        || options.workers.is_some_and(|workers| !HostOptions::WORKERS.contains(&workers))
        || options.queue_limit == 0
    {
        let (devices, workers) = (HostOptions::DEVICES.end(), HostOptions::WORKERS.end());
        return Err(refuse(format!(
            "there must be 1 to {devices} devices, 1 to {workers} workers, and room for at least 1 operation"
        )));
    }
    if is_isolated {
        return Ok(Ok(Arc::new(HostDriver::new(options))));
    }
    let mut shared = HOST.lock();
    shared.retain(|(_, driver)| driver.strong_count() > 0);
    let known = shared.iter().find(|(others, _)| *others == options).and_then(|(_, driver)| driver.upgrade());
    let driver = known.unwrap_or_else(|| {
        let driver = Arc::new(HostDriver::new(options.clone()));
        shared.push((options, Arc::downgrade(&driver)));
        driver
    });
    Ok(Ok(driver))
}

#[cfg(not(feature = "host"))]
pub(super) fn host(_settings: &HostSettings, _is_isolated: bool) -> Result<Result<Arc<dyn Driver>, Absence>> {
    Ok(Err(not_built("host")))
}

#[allow(dead_code, reason = "used when a feature is off")]
fn not_built(feature: &str) -> Absence {
    Absence {
        reason: "the library was built without it".to_owned(),
        remedy: format!("build with the cargo feature `{feature}`"),
    }
}
