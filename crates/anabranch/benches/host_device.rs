//! What the host device's queues cost, beside three common ways to hand work to another thread, in one run.
//!
//! * `enqueue`: enqueueing an operation in a stream that is held up, so that nothing runs meanwhile.
//! * `in order`: a million operations through one stream, until all are done.
//! * `round trip`: one operation, queued, run and waited for.
//! * `graph`: 100 empty kernels as one launch of a graph, beside as many launches: enqueueing them in a stream that is
//!   held up, and until all are done.
//! * `ptx`: kernels of PTX: empty ones, and one of many blocks, on one thread and on two, beside the same in plain Rust. A
//!   thread that waits for a kernel is one of those that run it, so that a device with one worker runs it on one thread.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]

use anabranch::{
    CaptureMode, Context, ExecutableGraph, HostFunction, HostModule, Instance, Kernel, LaunchConfig, Module, Signal,
    Stream, WaitCondition,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const BURST: u64 = 10_000;

fn host() -> Context {
    host_with(2)
}

fn host_with(workers: usize) -> Context {
    let open = || -> anabranch::Result<_> {
        Instance::builder().cuda(false).host_workers(workers).build()?.device("host")?.context()
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

/// Kernels of a graph.
const KERNELS: u64 = 100;

/// Launches of a graph, or of as many kernels, in a row.
const LAUNCHES: u64 = 100;

struct EmptyKernels {
    stream: Stream,
    others: Vec<Stream>,
    signal: Signal,
    kernel: Kernel,
    config: LaunchConfig<'static>,
}

impl EmptyKernels {
    fn new(context: &Context) -> Self {
        let make = || -> anabranch::Result<_> {
            let module = HostModule::new().with_function(HostFunction::new("nothing", &[], |_, _| {}));
            Ok(Self {
                stream: context.create_stream()?,
                others: (0..3).map(|_| context.create_stream()).collect::<anabranch::Result<_>>()?,
                signal: context.create_signal()?,
                kernel: Module::load_host(context, &module)?.kernel("nothing")?,
                config: LaunchConfig::new(1, 1),
            })
        };
        make().expect("streams and a kernel")
    }

    fn launch(&self, stream: &Stream) -> anabranch::Result<()> {
        // SAFETY: the kernel does nothing.
        unsafe { stream.launch(&self.kernel, &self.config, ()) }
    }

    fn one_by_one(&self) {
        (0..KERNELS).try_for_each(|_| self.launch(&self.stream)).expect("queued");
    }

    fn chain(&self) -> ExecutableGraph {
        let captured = self
            .stream
            .capture_executable(CaptureMode::Global, |scope| (0..KERNELS).try_for_each(|_| self.launch(scope)));
        captured.expect("a graph")
    }

    fn four_chains(&self) -> ExecutableGraph {
        let captured = self.stream.capture_executable(CaptureMode::Global, |scope| {
            self.others.iter().try_for_each(|other| scope.fork(other))?;
            for _ in 0..KERNELS / 4 {
                self.launch(scope)?;
                self.others.iter().try_for_each(|other| self.launch(other))?;
            }
            self.others.iter().try_for_each(|other| scope.join(other))
        });
        captured.expect("a graph")
    }

    /// Time to enqueue launches behind something that holds them up.
    fn enqueue(&self, iterations: u64, launch: impl Fn()) -> Duration {
        let mut total = Duration::ZERO;
        let mut left = iterations;
        while left > 0 {
            let count = left.min(LAUNCHES);
            self.signal.set(0);
            self.stream.wait_signal(&self.signal, WaitCondition::GreaterOrEqual, 1).expect("queued");
            let start = Instant::now();
            (0..count).for_each(|_| launch());
            total += start.elapsed();
            self.signal.set(1);
            self.stream.synchronize().expect("done");
            left -= count;
        }
        total
    }

    /// Time until launches are done.
    fn run(&self, launch: impl Fn()) {
        (0..LAUNCHES).for_each(|_| launch());
        self.stream.synchronize().expect("done");
    }
}

fn graph(criterion: &mut Criterion) {
    let kernels = EmptyKernels::new(&host());
    let (chain, four_chains) = (kernels.chain(), kernels.four_chains());
    let one_by_one = || kernels.one_by_one();
    let launch_chain = || chain.launch(&kernels.stream).expect("queued");
    let launch_four_chains = || four_chains.launch(&kernels.stream).expect("queued");
    let ways: [(&str, &dyn Fn()); 3] =
        [("one by one", &one_by_one), ("chain", &launch_chain), ("four chains", &launch_four_chains)];

    let mut group = criterion.benchmark_group("graph enqueue");
    group.throughput(Throughput::Elements(KERNELS));
    for (name, launch) in ways {
        group.bench_function(name, |bencher| bencher.iter_custom(|iterations| kernels.enqueue(iterations, launch)));
    }
    group.finish();
    let mut group = criterion.benchmark_group("graph done");
    group.throughput(Throughput::Elements(KERNELS * LAUNCHES)).sample_size(20);
    for (name, launch) in ways {
        group.bench_function(name, |bencher| bencher.iter(|| kernels.run(launch)));
    }
    group.finish();
    let mut group = criterion.benchmark_group("graph round trip");
    group.throughput(Throughput::Elements(KERNELS));
    for (name, launch) in ways {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                launch();
                kernels.stream.synchronize().expect("done");
            });
        });
    }
    group.finish();
}

fn ptx(criterion: &mut Criterion) {
    const N: u32 = 1 << 22;
    const BURST: usize = 100;
    let load = |context: &Context, text, name| Module::load_ptx(context, text).and_then(|module| module.kernel(name));
    let mut group = criterion.benchmark_group("ptx");
    let context = host();
    let stream = context.create_stream().expect("a stream");
    let empty = load(&context, include_str!("kernels.ptx"), "nothing").expect("a kernel");
    let one = LaunchConfig::for_elements(1);
    // SAFETY: the kernel uses no memory.
    let launch = || unsafe { stream.launch(&empty, &one, ()) }.expect("queued");
    group.bench_function("empty kernel, launched and done", |bencher| {
        bencher.iter(|| {
            launch();
            stream.synchronize().expect("done");
        });
    });
    group.bench_function("100 empty kernels, launched and done", |bencher| {
        bencher.iter(|| {
            (0..BURST).for_each(|_| launch());
            stream.synchronize().expect("done");
        });
    });
    group.throughput(Throughput::Elements(N.into()));
    for threads in [1, 2] {
        let context = host_with(threads);
        let stream = context.create_stream().expect("a stream");
        let saxpy = load(&context, include_str!("../examples/support/saxpy.ptx"), "saxpy").expect("a kernel");
        let x = stream.upload(&vec![1f32; N as usize]).expect("a buffer");
        let mut y = stream.upload(&vec![2f32; N as usize]).expect("a buffer");
        group.bench_function(format!("saxpy, threads: {threads}"), |bencher| {
            bencher.iter(|| {
                // SAFETY: both buffers have `N` numbers.
                let launched =
                    unsafe { stream.launch(&saxpy, &LaunchConfig::for_elements(N), (&mut y, &x, 0.5f32, N)) };
                launched.expect("queued");
                stream.synchronize().expect("done");
            });
        });
    }
    let (x, mut y) = (vec![1f32; N as usize], vec![2f32; N as usize]);
    group.bench_function("saxpy in plain Rust", |bencher| {
        bencher.iter(|| y.iter_mut().zip(black_box(&x)).for_each(|(y, x)| *y += 0.5 * *x));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = enqueue, in_order, round_trip, graph, ptx
}
criterion_main!(benches);
