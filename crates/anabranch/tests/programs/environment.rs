//! What programs run on: host devices that check how their memory is used.

use crate::world::ON_PURPOSE;
use anabranch::{
    AllocationKind, Context, Device, DualModule, HostFunction, Instance, Kernel, LiveAllocation, flush_deferred_drops,
};
use std::time::{Duration, Instant};

/// How many elements each buffer has.
pub(crate) const LENGTH: usize = 8;

/// Host devices, which several programs may use one after the other.
pub(crate) struct Environment {
    pub(crate) contexts: Vec<Context>,
    pub(crate) kernels: Vec<Kernel>,
    devices: Vec<Device>,
}

/// What `combine` does to an element.
pub(crate) fn combined(to: u32, left: u32, right: u32, value: u32) -> u32 {
    to.wrapping_mul(31).wrapping_add(left).wrapping_add(right.wrapping_mul(3)).wrapping_add(value)
}

impl Environment {
    /// With a seed, work runs in an order that is made from it, one operation after the other.
    pub(crate) fn new(devices: u32, seed: Option<u64>) -> Self {
        let builder = Instance::builder().cuda(false).host_devices(devices).host_check_memory(true);
        let builder = match seed {
            Some(seed) => builder.host_seed(seed),
            None => builder.host_workers(3),
        };
        let instance = builder.build().unwrap();
        let combine = HostFunction::new("combine", &[8, 8, 8, 4], |_, arguments| {
            let to = arguments.slice::<u32>(0);
            let (left, right) = (arguments.slice::<u32>(1), arguments.slice::<u32>(2));
            let value = arguments.scalar::<u32>(3);
            for index in 0..to.len() {
                to.set(index, combined(to.get(index), left.get(index), right.get(index), value));
            }
        });
        let contexts: Vec<Context> = instance.devices().iter().map(|device| device.context().unwrap()).collect();
        let module = DualModule::new().host_function(combine);
        let kernels = contexts.iter().map(|context| module.load(context).unwrap().kernel("combine").unwrap()).collect();
        Self { contexts, kernels, devices: instance.devices().to_vec() }
    }

    /// That nothing was found, and nothing is left of a program that is over.
    pub(crate) fn assert_clean(&self) {
        let synchronize = || {
            for context in &self.contexts {
                // What a stream that is no more has not reported is reported here.
                if let Err(error) = context.synchronize() {
                    assert!(error.to_string().contains(ON_PURPOSE), "{error}");
                }
            }
        };
        // The library keeps pinned memory of its own for as long as its context lives.
        let of_programs =
            |live: &LiveAllocation| live.kind != AllocationKind::Pinned || live.bytes == (LENGTH * 4) as u64;
        assert_nothing_is_left(&self.devices, synchronize, of_programs);
    }

    /// That nothing is left at all, when the devices are not used any more.
    pub(crate) fn close(self) {
        self.assert_clean();
        let Self { contexts, kernels, devices } = self;
        drop((contexts, kernels));
        assert_nothing_is_left(&devices, || {}, |_| true);
    }
}

/// What is given back by another thread of the library may be work of a stream, which runs when somebody waits for it.
fn assert_nothing_is_left(devices: &[Device], synchronize: impl Fn(), counts: impl Fn(&LiveAllocation) -> bool) {
    let begin = Instant::now();
    loop {
        synchronize();
        let mut left = Vec::new();
        for device in devices {
            let report = device.memory_report().unwrap();
            assert!(report.findings.is_empty(), "{:#?}", report.findings);
            left.extend(report.allocations.into_iter().filter(&counts));
        }
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "this was never freed: {left:#?}");
        flush_deferred_drops();
        std::thread::yield_now();
    }
}
