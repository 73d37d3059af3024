//! Classes of defects of who runs work on the software device, and looks after what it waits for. `docs/safety.md` lists them all by
//! the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Context, DualModule, HostFunction, Instance, LaunchConfig, WaitCondition};
use common::assert_ends;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// A context of a software device with one worker.
fn one_worker() -> Context {
    let instance = Instance::builder().cuda(false).isolated().host_workers(1).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

#[test]
fn safety_194_a_wait_for_a_value_ends_while_host_functions_run() {
    assert_ends(|| {
        let context = one_worker();
        let [busy, waiting] = std::array::from_fn(|_| context.create_stream().unwrap());
        let signal = context.create_signal().unwrap();
        let ((begin, begun), (go_on, gone_on)) = (channel(), channel());
        let gone_on = Mutex::new(gone_on);
        let function = HostFunction::new("run", &[], move |_, _| {
            begin.send(()).unwrap();
            gone_on.lock().unwrap().recv().unwrap();
        });
        let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("run").unwrap();
        let ((enter, entered), (pass, passed)) = (channel(), channel());
        busy.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
        busy.launch_host_func(move || {
            enter.send(()).unwrap();
            passed.recv().unwrap();
        })
        .unwrap();
        begun.recv().unwrap();
        // The wait comes while the worker runs a kernel, which a host function follows that waits for what comes behind the wait.
        waiting.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
        waiting.launch_host_func(move || pass.send(()).unwrap()).unwrap();
        go_on.send(()).unwrap();
        entered.recv().unwrap();
        signal.set(1);
        // Waits for the stream whose worker is busy, and not for the one that waits for the value.
        while !busy.query().unwrap() {
            std::thread::yield_now();
        }
    });
}
