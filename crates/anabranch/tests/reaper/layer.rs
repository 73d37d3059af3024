//! A driver as those are whose blocking calls keep others waiting, and that counts.

use crate::one_lock::OneLock;
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
    unloads_late: Arc<AtomicBool>,
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
            Arc::new(Layered(Counting { inner: OneLock::over(inner), layer: layer.clone() })) as Arc<dyn Driver>
        };
        let instance = Instance::builder().cuda(false).wrap(wrap).build().unwrap();
        instance.device("host").unwrap().create_context(ContextFlags::empty()).unwrap()
    }

    /// From now on, unloading a module begins late.
    pub(crate) fn unloads_late(&self) {
        self.unloads_late.store(true, Ordering::SeqCst);
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

    /// How many executable graphs were destroyed.
    pub(crate) fn executables_destroyed(&self) -> u64 {
        self.calls(&["executable_destroy"])
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

#[derive(Debug)]
struct Counting {
    inner: Arc<dyn Driver>,
    layer: Layer,
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Counting {
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
        if method == "module_unload" && self.layer.unloads_late.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
