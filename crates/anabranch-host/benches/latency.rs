//! How long the first operation of a stream waits while other streams keep all workers busy.
//!
//! `cargo bench -p anabranch-host --bench latency`; with `-- --test` it runs once, and shortly.

#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "a program that keeps its handles")]
#![allow(missing_docs, reason = "a program")]

use anabranch_hal::*;
use anabranch_host::{HostDriver, HostOptions};
use std::time::{Duration, Instant};

/// A handle of an object that goes with the driver.
fn live<H: Handle>(handle: H) -> Live<'static, H> {
    unsafe { Live::new(handle) }
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Fills as many streams as there are workers with operations of that length, and returns how long an operation of a new
/// stream of that priority waits for its turn.
fn wait(length: Duration, operations: usize, priority: i32) -> Duration {
    let driver = HostDriver::new(HostOptions { workers: Some(2), ..HostOptions::default() });
    let call = live(driver.primary_context_retain(DeviceOrdinal(0)).unwrap()).into();
    let stream = |priority| driver.stream_create(&call, StreamFlags::NON_BLOCKING, priority).unwrap();
    let kernel = HostFunction::new("spin", &[], move |_, _| spin(length));
    let module: HostModule = [kernel].into_iter().collect();
    unsafe {
        let module = live(driver.module_load(&call, ModuleImage::Host(&module)).unwrap());
        let function = live(driver.module_function(&call, module, "spin").unwrap());
        let launch = Launch {
            grid: [1; 3],
            block: [1; 3],
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
            attributes: None,
            overlap: None,
            arguments: &[],
            ranges: &[],
        };
        let busy = [stream(0), stream(0)];
        for stream in busy.into_iter().cycle().take(2 * operations) {
            driver.launch(&call, live(stream), function, &launch).unwrap();
        }
        std::thread::sleep(length / 2 + Duration::from_millis(1));
        let (sender, receiver) = std::sync::mpsc::channel();
        let begin = Instant::now();
        let work = HostWork::new(move || sender.send(begin.elapsed()).unwrap());
        driver.stream_launch_host_function(&call, live(stream(priority)), work).unwrap();
        let waited = receiver.recv().unwrap();
        for stream in busy {
            driver.stream_synchronize(&call, live(stream)).unwrap();
        }
        waited
    }
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, total) = if quick { (1, Duration::from_millis(2)) } else { (9, Duration::from_millis(400)) };
    println!("{:>12} {:>10} {:>12} {:>12}", "operations", "priority", "median", "longest");
    for length in
        [Duration::from_micros(5), Duration::from_micros(100), Duration::from_millis(1), Duration::from_millis(5)]
    {
        for priority in [0, -5] {
            let operations = (total.as_nanos() / length.as_nanos()).max(1) as usize;
            let mut waits: Vec<_> = (0..rounds).map(|_| wait(length, operations, priority)).collect();
            waits.sort_unstable();
            let (median, longest) = (waits[rounds / 2], waits[rounds - 1]);
            println!(
                "{:>12} {priority:>10} {:>12} {:>12}",
                format!("{length:?}"),
                format!("{median:.1?}"),
                format!("{longest:.1?}")
            );
        }
    }
}
