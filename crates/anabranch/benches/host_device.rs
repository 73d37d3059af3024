//! What the host device's queues cost, beside three common ways to hand work to another thread, in one run.
//!
//! * `enqueue`: putting an operation into a stream that is held up, so that nothing runs meanwhile.
//! * `in order`: a million operations through one stream, until all are done.
//! * `round trip`: one operation, queued, run and waited for.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use anabranch::{Context, Instance, Signal, Stream, WaitCondition};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const BURST: u64 = 10_000;

fn host() -> Context {
    let open = || -> anabranch::Result<_> {
        Instance::builder().cuda(false).host_workers(2).build()?.device("host")?.context()
    };
    open().expect("the host device needs nothing")
}

/// What every operation does: next to nothing, with as much captured as closures commonly have, and nothing shared by two
/// threads.
fn count_up(value: u64) -> impl FnOnce() + Send + 'static {
    let captured = [value, 1];
    move || COUNTER.store(COUNTER.load(Ordering::Relaxed) + black_box(captured)[1], Ordering::Relaxed)
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

fn held(context: &Context) -> (Stream, Signal) {
    let make = || -> anabranch::Result<_> {
        let (stream, signal) = (context.create_stream()?, context.create_signal()?);
        stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)?;
        Ok((stream, signal))
    };
    make().expect("a stream and a signal")
}

/// Time per operation of a burst, with what comes after the burst left out.
fn burst_time(iterations: u64, mut burst: impl FnMut(u64) -> Duration) -> Duration {
    let mut total = Duration::ZERO;
    let mut left = iterations;
    while left > 0 {
        let count = left.min(BURST);
        total += burst(count);
        left -= count;
    }
    total
}

fn enqueue(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("enqueue");
    let context = host();
    group.bench_function("anabranch launch_host_func", |bencher| {
        bencher.iter_custom(|iterations| {
            burst_time(iterations, |count| {
                let (stream, signal) = held(&context);
                let start = Instant::now();
                for _ in 0..count {
                    stream.launch_host_func(count_up(7)).expect("queued");
                }
                let time = start.elapsed();
                signal.set(1);
                stream.synchronize().expect("done");
                time
            })
        });
    });
    group.bench_function("anabranch fill of 64 bytes", |bencher| {
        bencher.iter_custom(|iterations| {
            burst_time(iterations, |count| {
                let (stream, signal) = held(&context);
                let mut memory = stream.allocate_zeroed::<u32>(16).expect("memory");
                let start = Instant::now();
                for value in 0..count {
                    stream.fill(&mut memory, value as u32).expect("queued");
                }
                let time = start.elapsed();
                signal.set(1);
                stream.synchronize().expect("done");
                time
            })
        });
    });
    group.bench_function("std::sync::mpsc send of a box", |bencher| {
        bencher.iter_custom(|iterations| {
            burst_time(iterations, |count| {
                // The receiver is held up too: it starts when all is sent.
                let (sender, receiver) = channel::<Box<dyn FnOnce() + Send>>();
                let start = Instant::now();
                for _ in 0..count {
                    sender.send(Box::new(count_up(7))).expect("sent");
                }
                let time = start.elapsed();
                drop(sender);
                receiver.into_iter().for_each(|work| work());
                time
            })
        });
    });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    group.bench_function("rayon spawn", |bencher| {
        bencher.iter_custom(|iterations| {
            burst_time(iterations, |count| {
                let start = Instant::now();
                for _ in 0..count {
                    pool.spawn(count_up(7));
                }
                start.elapsed()
            })
        });
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    group.bench_function("tokio spawn", |bencher| {
        bencher.iter_custom(|iterations| {
            burst_time(iterations, |count| {
                let start = Instant::now();
                for _ in 0..count {
                    runtime.spawn(async { count_up(7)() });
                }
                start.elapsed()
            })
        });
    });
    group.finish();
}

/// A thread that runs what it is sent, in order.
fn runner() -> Sender<Box<dyn FnOnce() + Send>> {
    let (sender, receiver) = channel::<Box<dyn FnOnce() + Send>>();
    std::thread::spawn(move || receiver.into_iter().for_each(|work| work()));
    sender
}

fn in_order(criterion: &mut Criterion) {
    const COUNT: u64 = 100_000;
    let mut group = criterion.benchmark_group("in order");
    group.throughput(Throughput::Elements(COUNT)).sample_size(20);
    let context = host();
    let stream = context.create_stream().expect("a stream");
    group.bench_function("anabranch stream", |bencher| {
        bencher.iter(|| {
            for _ in 0..COUNT {
                stream.launch_host_func(count_up(7)).expect("queued");
            }
            stream.synchronize().expect("done");
        });
    });
    let sender = runner();
    group.bench_function("std::sync::mpsc and a thread", |bencher| {
        bencher.iter(|| {
            for _ in 0..COUNT {
                sender.send(Box::new(count_up(7))).expect("sent");
            }
            let (done, wait) = channel();
            sender.send(Box::new(move || done.send(()).expect("sent"))).expect("sent");
            wait.recv().expect("done");
        });
    });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    group.bench_function("rayon spawn (no order)", |bencher| {
        bencher.iter(|| {
            pool.scope(|scope| {
                for _ in 0..COUNT {
                    scope.spawn(|_| count_up(7)());
                }
            });
        });
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    group.bench_function("tokio spawn (no order)", |bencher| {
        bencher.iter_batched(
            tokio::task::JoinSet::new,
            |mut set| {
                runtime.block_on(async {
                    for _ in 0..COUNT {
                        set.spawn(async { count_up(7)() });
                    }
                    while set.join_next().await.is_some() {}
                });
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round trip");
    let context = host();
    let stream = context.create_stream().expect("a stream");
    group.bench_function("anabranch stream", |bencher| {
        bencher.iter(|| {
            stream.launch_host_func(count_up(7)).expect("queued");
            stream.synchronize().expect("done");
        });
    });
    let sender = runner();
    group.bench_function("std::sync::mpsc and a thread", |bencher| {
        bencher.iter(|| {
            let (done, wait) = channel();
            sender.send(Box::new(move || (count_up(7)(), done.send(()).expect("sent")).1)).expect("sent");
            wait.recv().expect("done");
        });
    });
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    group.bench_function("rayon spawn", |bencher| {
        bencher.iter(|| {
            let (done, wait) = channel();
            pool.spawn(move || (count_up(7)(), done.send(()).expect("sent")).1);
            wait.recv().expect("done");
        });
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    group.bench_function("tokio spawn", |bencher| {
        bencher.iter(|| {
            runtime.block_on(runtime.spawn(async { count_up(7)() })).expect("done");
        });
    });
    group.finish();
    black_box(COUNTER.load(Ordering::Relaxed));
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = enqueue, in_order, round_trip
}
criterion_main!(benches);
