//! The driver as a whole.

use crate::context::ContextState;
use crate::device::Shared;
use crate::engine::Engine;
use crate::handles::Handles;
use crate::memory::Account;
use crate::options::HostOptions;
use anabranch_hal::{BackendKind, Driver, DriverVersion, InsideWork};
use std::sync::Arc;

/// The software device, behind the driver contract.
///
/// Workers are started when there is work for them, and are stopped and waited for when the driver is dropped. Work that
/// is queued then, and contexts that were not destroyed, are dropped with it. Dropped from inside of host work, the
/// driver waits for nobody, because that work may be what a worker is running.
#[derive(Debug)]
pub struct HostDriver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) contexts: Handles<ContextState>,
    /// Pinned memory is memory of the host, and counts against no device.
    pub(crate) pinned: Arc<Account>,
}

impl HostDriver {
    /// Makes the driver. Numbers in the options that are too small are raised to the smallest possible.
    pub fn new(options: HostOptions) -> Self {
        let engine = Engine::new(&options);
        let workers = engine.scheduler.workers;
        let devices = options.devices.max(1);
        let pinned = Arc::new(Account::new(u64::MAX, engine.checker.as_ref()));
        let shared = Shared::new(engine, workers, devices, options.memory_bytes_per_device);
        Self { shared, contexts: Handles::default(), pinned }
    }
}

impl Drop for HostDriver {
    fn drop(&mut self) {
        self.shared.engine.shut_down();
        let mut contexts = self.contexts.take_all();
        contexts.extend(self.shared.devices().iter().filter_map(|device| device.take_primary()));
        if InsideWork::is_entered() {
            // A worker may still be running a kernel on the contexts' memory, which therefore stays.
            contexts.into_iter().for_each(std::mem::forget);
        } else {
            contexts.iter().for_each(|context| context.let_go());
            for device in self.shared.devices() {
                device.pools.take_all().iter().for_each(|pool| pool.clear());
            }
            self.shared.table.clear();
        }
    }
}

impl Driver for HostDriver {
    fn kind(&self) -> BackendKind {
        BackendKind::Host
    }

    fn version(&self) -> DriverVersion {
        DriverVersion { major: 13, minor: 0 }
    }
}
