//! Runs all cases on the software device, with kernels that are PTX: the same text as on GPUs.

use anabranch::{Instance, flush_deferred_drops};
use anabranch_conformance::{Isolation, Outcome, Runner, all, prefer_ptx};

#[test]
fn the_software_device_behaves_like_hardware_with_kernels_of_ptx() {
    prefer_ptx();
    let instance = Instance::builder().cuda(false).host_devices(2).build().expect("the host devices start");
    let [device, peer] = instance.devices() else { panic!("there are two devices") };
    let mut runner = Runner::new(device, Some(peer)).expect("the host device can be used");
    let isolation: &Isolation = &|_| Outcome::Failed("the host device needs no isolation".to_owned());
    let mut failures = Vec::new();
    for case in &all() {
        let report = runner.run(case, isolation);
        flush_deferred_drops();
        if report.outcome == "failed" {
            failures.push(report.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
