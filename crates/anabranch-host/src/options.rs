//! How the software device is set up.

use std::fmt;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Memory of a device where the machine does not say how much it has.
const FALLBACK_MEMORY: u64 = 16 << 30;

/// How the software device is set up.
///
/// ```
/// use anabranch_host::{HostDriver, HostOptions};
///
/// let driver = HostDriver::new(HostOptions { devices: 2, ..HostOptions::default() });
/// # drop(driver);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// How many devices there are, at least 1. They share the workers.
    pub devices: u32,
    /// How many threads run queued work. `None`: as many as run in parallel on this machine, at least 2.
    pub workers: Option<usize>,
    /// How long a worker without work looks for more before it sleeps. By default longer than it takes to wake one, so that
    /// work that comes in quick succession finds a worker awake. It is better short where other threads need the cores.
    /// At most a millisecond.
    pub worker_spin: Duration,
    /// Memory of each device in bytes. By default as much as the machine has.
    pub memory_bytes_per_device: u64,
    /// How many entries a stream holds before a thread that adds one has to wait until half of them have run. The thread
    /// helps to run them meanwhile. At least 2.
    pub queue_limit: usize,
    /// Runs queued work in an order chosen by this seed. There are no workers then: work runs only in threads that
    /// synchronize, and one entry in each query.
    pub seed: Option<u64>,
    /// Checks how memory is used. Freed memory is filled with a pattern and kept back for a while, so that its address
    /// does not come again at once. Work that uses memory which is not allocated where the work runs does not run: it
    /// loses its context with `CUDA_ERROR_ILLEGAL_ADDRESS (700)`.
    /// [`memory_report`](anabranch_hal::Memory::memory_report) reports what was found, and so does standard error, in
    /// one line each. New memory has the bytes 0xCD, freed memory 0xDD.
    pub check_memory: bool,
    /// How many operations each block of a kernel of PTX may perform, where an operation is that of a warp. A kernel that
    /// goes on loses its context with `CUDA_ERROR_LAUNCH_TIMEOUT (702)`. `None`: any number, but
    /// [`CHECKED_OPERATIONS`](Self::CHECKED_OPERATIONS) with [`check_memory`](Self::check_memory).
    pub operation_limit: Option<u64>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            devices: 1,
            workers: None,
            worker_spin: Duration::from_micros(50),
            memory_bytes_per_device: physical_memory().unwrap_or(FALLBACK_MEMORY),
            queue_limit: 262_144,
            seed: None,
            check_memory: false,
            operation_limit: None,
        }
    }
}

impl HostOptions {
    /// How many devices there can be.
    pub const DEVICES: RangeInclusive<u32> = 1..=1024;
    /// How many workers there can be.
    pub const WORKERS: RangeInclusive<usize> = 1..=4096;
    /// How many operations a block may perform where memory is checked and nothing else is said: enough for minutes.
    pub const CHECKED_OPERATIONS: u64 = 1 << 32;

    /// The defaults, changed by the environment variables `ANABRANCH_HOST_DEVICES`, `ANABRANCH_HOST_WORKERS`,
    /// `ANABRANCH_HOST_SEED`, `ANABRANCH_HOST_CHECK_MEMORY` and `ANABRANCH_HOST_OPERATION_LIMIT` where they are set and not
    /// empty.
    pub fn from_environment() -> Result<Self, InvalidVariable> {
        Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// As [`from_environment`](Self::from_environment), with another source of variables.
    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidVariable> {
        let mut options = Self::default();
        if let Some(devices) = number(&variable, "ANABRANCH_HOST_DEVICES", wide(Self::DEVICES))? {
            options.devices = devices as u32;
        }
        if let Some(workers) = number(&variable, "ANABRANCH_HOST_WORKERS", wide(Self::WORKERS))? {
            options.workers = Some(workers as usize);
        }
        options.seed = number(&variable, "ANABRANCH_HOST_SEED", 0..=u64::MAX)?;
        options.check_memory = number(&variable, "ANABRANCH_HOST_CHECK_MEMORY", 0..=1)? == Some(1);
        options.operation_limit = number(&variable, "ANABRANCH_HOST_OPERATION_LIMIT", 1..=u64::MAX)?;
        Ok(options)
    }

    /// How many operations a block may perform.
    pub(crate) fn operations(&self) -> Option<u64> {
        self.operation_limit.or(self.check_memory.then_some(Self::CHECKED_OPERATIONS))
    }

    /// How many workers there will be.
    pub(crate) fn worker_count(&self) -> usize {
        let parallelism = || std::thread::available_parallelism().map_or(2, NonZero::get).max(2);
        self.workers.map_or_else(parallelism, |workers| workers.max(1))
    }
}

/// A range of larger integers.
fn wide<T: Copy + TryInto<u64>>(range: RangeInclusive<T>) -> RangeInclusive<u64> {
    let wide = |number: T| number.try_into().unwrap_or(u64::MAX);
    wide(*range.start())..=wide(*range.end())
}

fn number(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, InvalidVariable> {
    let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) else { return Ok(None) };
    match value.trim().parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => Err(InvalidVariable { name, value, least: *range.start(), most: *range.end() }),
    }
}

/// An environment variable has a value that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidVariable {
    /// The variable.
    pub name: &'static str,
    /// What it is set to.
    pub value: String,
    /// The smallest number that it can be.
    pub least: u64,
    /// The largest number that it can be.
    pub most: u64,
}

impl fmt::Display for InvalidVariable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, least, most } = self;
        write!(formatter, "{name} is {value:?}, and must be a number from {least} to {most}")
    }
}

impl std::error::Error for InvalidVariable {}

/// The memory of the machine in bytes, where the system says.
fn physical_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read() {
        let options = HostOptions::from_variables(|name| match name {
            "ANABRANCH_HOST_DEVICES" => Some("3".to_owned()),
            "ANABRANCH_HOST_WORKERS" => Some(" 5 ".to_owned()),
            "ANABRANCH_HOST_CHECK_MEMORY" => Some("1".to_owned()),
            "ANABRANCH_HOST_OPERATION_LIMIT" => Some("700".to_owned()),
            _ => None,
        })
        .unwrap();
        assert_eq!(options.operations(), Some(700));
        assert_eq!((options.devices, options.workers, options.seed), (3, Some(5), None));
        assert!(options.check_memory && !HostOptions::default().check_memory);
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        for empty in ["", " "] {
            let options = HostOptions::from_variables(|_| Some(empty.to_owned())).unwrap();
            assert_eq!(options, HostOptions::default());
        }
    }

    #[test]
    fn a_bad_variable_is_one_clear_error() {
        for bad in ["0", "-1", "many", "1 2"] {
            let error = HostOptions::from_variables(|name| (name == "ANABRANCH_HOST_DEVICES").then(|| bad.to_owned()))
                .unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("ANABRANCH_HOST_DEVICES is {bad:?}, and must be a number from 1 to 1024")
            );
        }
    }
}
