//! The driver with one context, behind calls that are short to write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(unreachable_pub, reason = "each test file is a crate of its own")]
#![allow(dead_code, reason = "each test file uses some of it")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive, and tests their addresses")]

pub mod capture;
pub mod graphs;

use anabranch_hal::*;
use anabranch_host::{HostDriver, HostOptions};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A handle of an object that a test has made. It is not used after the object was destroyed, graphs only on one thread.
pub fn live<H: Handle>(handle: H) -> Live<'static, H> {
    unsafe { Live::new(handle) }
}

/// A driver and a context of its first device.
pub struct Fixture {
    pub driver: HostDriver,
    pub context: Live<'static, ContextHandle>,
    pub work: Mutex<Vec<RepeatableWork>>,
}

/// Holds work back until it is opened.
pub struct Gate(Option<Sender<()>>);

impl Gate {
    pub fn open(mut self) {
        self.0.take();
    }
}

pub fn status<T>(result: Result<T>) -> i32 {
    result.map_or_else(|failure| failure.status.0, |_| 0)
}

pub const SMALL: HostOptions = HostOptions {
    devices: 2,
    workers: Some(2),
    worker_spin: std::time::Duration::from_micros(50),
    memory_bytes_per_device: 1 << 30,
    queue_limit: 262_144,
    seed: None,
    check_memory: false,
    operation_limit: None,
};

impl Fixture {
    pub fn new() -> Self {
        Self::with(SMALL)
    }

    pub fn with(options: HostOptions) -> Self {
        let driver = HostDriver::new(options);
        let context = live(driver.primary_context_retain(DeviceOrdinal(0)).unwrap());
        Self { driver, context, work: Mutex::default() }
    }

    pub fn blocking(&self) -> Live<'static, StreamHandle> {
        live(self.driver.stream_create(&self.context.into(), StreamFlags::empty(), 0).unwrap())
    }

    pub fn stream(&self) -> Live<'static, StreamHandle> {
        live(self.driver.stream_create(&self.context.into(), StreamFlags::NON_BLOCKING, 0).unwrap())
    }

    pub fn event(&self) -> Live<'static, EventHandle> {
        live(self.driver.event_create(&self.context.into(), EventFlags::DISABLE_TIMING).unwrap())
    }

    pub fn host(&self, stream: Live<'_, StreamHandle>, work: impl FnOnce() + Send + 'static) {
        self.driver.stream_launch_host_function(&self.context.into(), stream, HostWork::new(work)).unwrap();
    }

    /// Work that runs until the gate is opened.
    pub fn gate(&self, stream: Live<'_, StreamHandle>) -> Gate {
        let (sender, receiver): (Sender<()>, Receiver<()>) = channel();
        self.host(stream, move || {
            let _ = receiver.recv();
        });
        Gate(Some(sender))
    }

    pub fn record(&self, event: Live<'_, EventHandle>, stream: Live<'_, StreamHandle>) {
        self.driver.event_record(&self.context.into(), event, stream, EventRecordFlags::empty()).unwrap();
    }

    pub fn wait(&self, stream: Live<'_, StreamHandle>, event: Live<'_, EventHandle>) {
        self.driver.stream_wait_event(&self.context.into(), stream, event, EventWaitFlags::empty()).unwrap();
    }

    pub fn query(&self, stream: Live<'_, StreamHandle>) -> i32 {
        status(self.driver.stream_query(&self.context.into(), stream))
    }

    pub fn query_event(&self, event: Live<'_, EventHandle>) -> i32 {
        status(self.driver.event_query(&self.context.into(), event))
    }

    pub fn synchronize(&self, stream: Live<'_, StreamHandle>) -> Result<()> {
        self.driver.stream_synchronize(&self.context.into(), stream)
    }

    pub fn synchronize_all(&self) -> Result<()> {
        self.driver.context_synchronize(&self.context.into())
    }

    pub fn allocate(&self, bytes: usize) -> DevicePointer {
        self.driver.allocate(&self.context.into(), bytes).unwrap()
    }

    pub fn free(&self, address: DevicePointer) {
        unsafe { self.driver.free(&self.context.into(), address) }.unwrap();
    }

    pub fn fill(&self, stream: Live<'_, StreamHandle>, address: DevicePointer, value: u32, count: usize) {
        unsafe { self.driver.fill_async(&self.context.into(), address, FillPattern::U32(value), count, stream) }
            .unwrap();
    }

    pub fn read(&self, address: DevicePointer, count: usize) -> Vec<u32> {
        let mut values = vec![0u32; count];
        let destination = values.as_mut_ptr() as u64;
        unsafe { self.driver.copy(&self.context.into(), CopyKind::DeviceToHost, destination, address.0, count * 4) }
            .unwrap();
        values
    }

    pub fn load(&self, functions: impl IntoIterator<Item = HostFunction>) -> Live<'static, ModuleHandle> {
        let module: HostModule = functions.into_iter().collect();
        live(unsafe { self.driver.module_load(&self.context.into(), ModuleImage::Host(&module)) }.unwrap())
    }

    pub fn function(&self, function: HostFunction) -> Live<'static, FunctionHandle> {
        let name = function.name().to_owned();
        let module = self.load([function]);
        live(self.driver.module_function(&self.context.into(), module, &name).unwrap())
    }

    pub fn launch(
        &self,
        stream: Live<'_, StreamHandle>,
        function: Live<'_, FunctionHandle>,
        blocks: u32,
        threads: u32,
        memory: &[(DevicePointer, u64)],
    ) -> Result<()> {
        let arguments: Vec<*const c_void> = memory.iter().map(|(address, _)| (&raw const *address).cast()).collect();
        let ranges: Vec<DeclaredRange> = memory
            .iter()
            .enumerate()
            .map(|(argument, &(address, bytes))| DeclaredRange {
                argument: argument as u32,
                address: address.0,
                bytes,
                access: Access::Write,
            })
            .collect();
        let launch = Launch {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            attributes: None,
            overlap: None,
            arguments: &arguments,
            ranges: &ranges,
        };
        unsafe { self.driver.launch(&self.context.into(), stream, function, &launch) }
    }
}

/// Looks until it is true. Fails after a time that no working driver needs.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(20), "never came true: {what}");
        std::thread::yield_now();
    }
}
