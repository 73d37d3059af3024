//! What it costs to await an operation of the host device, beside blocking for it, in one run.
//!
//! Each round trip queues one operation that does next to nothing, and waits until it is complete.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use anabranch::{Context, Instance, Stream};
use criterion::{Criterion, criterion_group, criterion_main};
use futures::executor::block_on;
use std::hint::black_box;
use std::time::Duration;

fn host(spin: Duration) -> (Context, Stream) {
    let open = || -> anabranch::Result<_> {
        let context = Instance::builder().cuda(false).host_workers(2).build()?.device("host")?.context()?;
        context.set_completion_spin(spin);
        let stream = context.create_stream()?;
        Ok((context, stream))
    };
    open().expect("the host device needs nothing")
}

fn queue(stream: &Stream) {
    stream.launch_host_func(|| _ = black_box(7)).expect("queued");
}

fn round_trips(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("await");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let usual = Duration::from_micros(20);
    let (_context, stream) = host(usual);
    group.bench_function("launch and synchronize", |bencher| {
        bencher.iter(|| {
            queue(&stream);
            stream.synchronize().expect("done");
        });
    });
    group.bench_function("nothing to wait for", |bencher| {
        bencher.iter(|| block_on(stream.completion_future()).expect("done"));
    });
    for (name, spin) in [("20 us spin", usual), ("no spin", Duration::ZERO)] {
        let (_context, stream) = host(spin);
        group.bench_function(format!("launch and await, {name}"), |bencher| {
            bencher.iter(|| {
                queue(&stream);
                block_on(stream.completion_future()).expect("done");
            });
        });
        group.bench_function(format!("launch and await on tokio, {name}"), |bencher| {
            bencher.iter(|| {
                queue(&stream);
                runtime.block_on(stream.checked_completion_future()).expect("done");
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = round_trips
}
criterion_main!(benches);
