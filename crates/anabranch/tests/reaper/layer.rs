//! A driver as those are whose blocking calls keep others waiting, and that counts.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the layer forwards what it is given")]

use anabranch::hal::*;
use anabranch::{Context, ContextFlags, Instance};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a layer has counted. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    calls: Arc<Mutex<Calls>>,
    unloads_wait: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Calls {
    /// By method.
    all: HashMap<&'static str, u64>,
    of_the_reaper: u64,
}

impl Layer {
    /// A context of its own, on a host device with such a driver.
    pub(crate) fn context(&self) -> Context {
        let layer = self.clone();
        let wrap = move |inner| {
            Arc::new(Layered(OneLock { inner, layer: layer.clone(), lock: Mutex::default() })) as Arc<dyn Driver>
        };
        let instance = Instance::builder().cuda(false).wrap(wrap).build().unwrap();
        instance.device("host").unwrap().create_context(ContextFlags::empty()).unwrap()
    }

    /// From now on, unloading a module waits for all work of the context, as hardware does, and begins late.
    pub(crate) fn unloads_wait(&self) {
        self.unloads_wait.store(true, Ordering::SeqCst);
    }

    /// How often the thread that frees in the background has called the driver.
    pub(crate) fn calls_of_the_reaper(&self) -> u64 {
        self.calls.lock().unwrap().of_the_reaper
    }

    fn calls(&self, methods: &[&str]) -> u64 {
        let calls = self.calls.lock().unwrap();
        methods.iter().filter_map(|method| calls.all.get(method)).sum()
    }

    /// How many pieces of pinned memory were freed.
    pub(crate) fn blocks_freed(&self) -> u64 {
        self.calls(&["free_pinned"])
    }

    /// Whether there is nothing that was made and not freed again.
    pub(crate) fn all_is_freed(&self) -> bool {
        let pairs: [(&[&str], &str); 7] = [
            (&["allocate_pinned"], "free_pinned"),
            (&["allocate", "allocate_managed"], "free"),
            (&["allocate_async"], "free_async"),
            (&["module_load", "module_load_with_device_runtime"], "module_unload"),
            (&["stream_create"], "stream_destroy"),
            (&["event_create"], "event_destroy"),
            (&["context_create"], "context_destroy"),
        ];
        pairs.iter().all(|(made, freed)| self.calls(made) == self.calls(&[freed]))
    }
}

/// A call that blocks holds a lock meanwhile, which all calls take.
#[derive(Debug)]
struct OneLock {
    inner: Arc<dyn Driver>,
    layer: Layer,
    lock: Mutex<()>,
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for OneLock {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        let is_reaper = std::thread::current().name() == Some("anabranch-reaper");
        {
            let mut calls = self.layer.calls.lock().unwrap();
            *calls.all.entry(method).or_default() += 1;
            calls.of_the_reaper += u64::from(is_reaper);
        }
        if method == "module_unload" && self.layer.unloads_wait.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.lock.lock().unwrap());
    }

    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties> {
        let mut properties = self.inner.device_properties(device)?;
        properties.capabilities.remove(Capabilities::CONCURRENT_BLOCKING_CALLS);
        Ok(properties)
    }

    unsafe fn free(&self, call: &Call<'_>, address: DevicePointer) -> Result<()> {
        let _lock = self.lock.lock().unwrap();
        unsafe { self.inner.free(call, address) }
    }

    unsafe fn free_pinned(&self, call: &Call<'_>, address: *mut u8) -> Result<()> {
        let _lock = self.lock.lock().unwrap();
        unsafe { self.inner.free_pinned(call, address) }
    }

    unsafe fn module_unload(&self, call: &Call<'_>, module: ModuleHandle) -> Result<()> {
        let _lock = self.lock.lock().unwrap();
        if self.layer.unloads_wait.load(Ordering::SeqCst) {
            self.inner.context_synchronize(call)?;
        }
        unsafe { self.inner.module_unload(call, module) }
    }

    unsafe fn context_destroy(&self, call: &Call<'_>) -> Result<()> {
        let _lock = self.lock.lock().unwrap();
        // Hardware waits for the work here.
        unsafe { self.inner.context_synchronize(call).and_then(|()| self.inner.context_destroy(call)) }
    }
}
