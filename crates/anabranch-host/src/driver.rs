//! The driver: the contract's calls on the objects of the other modules.

mod batch;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod executable;
mod external_memory;
mod external_semaphore;
mod fill;
mod graph;
mod green_context;
mod interprocess;
mod managed;
mod memory;
mod module;
mod per_thread;
mod register;
mod stream;
mod tensor_map;
#[cfg(all(test, not(loom)))]
mod tests;
mod virtual_memory;

use crate::capture::CaptureRegistry;
use crate::checker::Checker;
use crate::engine::{self, Engine, Observer, StreamState};
use crate::event::EventState;
use crate::executable::ExecutableState;
use crate::graph::GraphState;
use crate::handles::Handles;
use crate::memory::{HostMemory, MemoryObserver};
use crate::module::ModuleState;
use crate::options::HostOptions;
use crate::semaphore::SemaphoreState;
use anabranch_hal::{BackendKind, Driver, DriverVersion, InsideWork, Objects, Result};
use context::{ContextState, present, usable};
use device::Primary;
use external_memory::ExternalMemoryState;
use green_context::GreenContextState;
use std::sync::Arc;
use stream::{resolve, resolve_even_if_lost};

/// What all calls use.
#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    memory: Arc<HostMemory>,
    captures: Arc<CaptureRegistry>,
    primaries: Vec<Primary>,
    /// How many operations a block of a kernel of PTX may perform.
    operation_limit: Option<u64>,
}

/// The software device, behind the driver contract.
///
/// Workers are started when there is work for them, and are stopped and waited for when the driver is dropped. Work that
/// is queued then, and contexts that were not destroyed, are dropped with it. Dropped from inside of host work, the
/// driver waits for nobody, because that work may be what a worker is running.
#[derive(Debug)]
pub struct HostDriver {
    shared: Shared,
    checker: Option<Arc<Checker>>,
    contexts: Handles<ContextState>,
    streams: Handles<StreamState>,
    events: Handles<EventState>,
    modules: Handles<ModuleState>,
    graphs: Handles<GraphState>,
    executables: Handles<ExecutableState>,
    green_contexts: Handles<GreenContextState>,
    external_memory: Handles<ExternalMemoryState>,
    external_semaphores: Handles<SemaphoreState>,
}

impl HostDriver {
    /// Makes the driver. Numbers in the options that are too small are raised to the smallest possible.
    pub fn new(options: HostOptions) -> Self {
        let checker = options.check_memory.then(Arc::<Checker>::default);
        let observer = checker.clone().map(|checker| checker as Arc<dyn Observer>);
        Self::with(&options, engine::start(&options, observer), checker)
    }

    fn with(options: &HostOptions, engine: Arc<Engine>, checker: Option<Arc<Checker>>) -> Self {
        let devices = options.devices.max(1);
        let observer = checker.clone().map(|checker| checker as Arc<dyn MemoryObserver>);
        let memory = HostMemory::new(devices, options.memory_bytes_per_device, observer);
        let primaries = (0..devices).map(Primary::new).collect();
        Self {
            shared: Shared {
                engine,
                memory,
                captures: Arc::default(),
                primaries,
                operation_limit: options.operations(),
            },
            checker,
            contexts: Handles::default(),
            streams: Handles::default(),
            events: Handles::default(),
            modules: Handles::default(),
            graphs: Handles::default(),
            executables: Handles::default(),
            green_contexts: Handles::default(),
            external_memory: Handles::default(),
            external_semaphores: Handles::default(),
        }
    }
}

impl Shared {
    /// The primary context of a device; `CUDA_ERROR_INVALID_DEVICE (101)` where there is none of that number.
    fn primary(&self, device: u32) -> Result<&Primary> {
        self.memory.device(device)?;
        self.primaries.get(device as usize).ok_or(anabranch_hal::Failure::new(anabranch_hal::Status::INVALID_DEVICE))
    }
}

impl Drop for HostDriver {
    fn drop(&mut self) {
        self.shared.engine.shut_down();
        let mut contexts = self.contexts.take_those(|_| true);
        contexts.extend(self.shared.primaries.iter().filter_map(Primary::take));
        if InsideWork::is_entered() {
            // A worker may still be running a kernel on the contexts' memory, which therefore stays.
            contexts.into_iter().for_each(std::mem::forget);
            return;
        }
        // All streams are held until all are empty, so that none is dropped while another one is dropped.
        let streams: Vec<_> = contexts.iter().flat_map(|context| context.core.streams()).collect();
        streams.iter().for_each(|stream| stream.drop_queued());
        contexts.iter().for_each(|context| self.release(context));
        drop(streams);
        self.shared.memory.clear();
    }
}

impl Objects for HostDriver {}

// SAFETY: handles are addresses of objects that are kept until they are destroyed, memory is allocated as asked for, and the
// engine runs work in order.
unsafe impl Driver for HostDriver {
    fn kind(&self) -> BackendKind {
        BackendKind::Host
    }

    fn version(&self) -> DriverVersion {
        DriverVersion { major: 13, minor: 0 }
    }
}
