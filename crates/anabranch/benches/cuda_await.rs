//! What it costs to await work of a CUDA device, beside blocking for it, in one run and in turns.
//!
//! On a current-thread executor: one empty kernel and one of 50 microseconds, launched and waited for by a future, with
//! the usual spin and with none, with completion shown by events and by flags in memory, and by synchronizing the
//! stream. Then a thousand tasks on two threads, each of which launches a kernel and awaits it. Medians of the turns
//! are compared. Without a CUDA device it says so and ends.

use anabranch::{BackendKind, Context, Instance, Kernel, LaunchConfig, Module, Stream};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

fn main() -> anabranch::Result<()> {
    let instance = Instance::new()?;
    let Some(device) = instance.devices().iter().find(|device| device.backend() == BackendKind::Cuda) else {
        println!("no CUDA device: nothing to await");
        return Ok(());
    };
    let quick = std::env::args().any(|argument| argument == "--test");
    println!("{}, driver of CUDA {}", device.properties().name, device.driver_version());
    let context = device.context()?;
    let module = Module::load_ptx(&context, include_str!("kernels.ptx"))?;
    let (nothing, spin) = (module.kernel("nothing")?, module.kernel("spin")?);
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let turns = if quick { 1 } else { 41 };
    let stream = context.create_stream()?;
    let empty = |stream: &Stream| {
        // SAFETY: the kernel does nothing.
        unsafe { stream.launch(&nothing, &LaunchConfig::new(1, 32), ()) }
    };
    let busy = |stream: &Stream| {
        // SAFETY: the kernel uses no memory.
        unsafe { stream.launch(&spin, &LaunchConfig::new(1, 32), (50_000u64,)) }
    };
    compare("an empty kernel", &context, &stream, &runtime, turns, empty)?;
    compare("a kernel of 50 us", &context, &stream, &runtime, turns, busy)?;
    parts(&context, &nothing, turns)?;
    tasks(&context, &nothing, turns)
}

/// A task that is never run.
struct Asleep;

impl Wake for Asleep {
    fn wake(self: Arc<Self>) {}
}

/// What a future costs the thread that launches: launches alone, with a future made behind each, and with it polled.
fn parts(context: &Context, kernel: &Kernel, turns: usize) -> anabranch::Result<()> {
    const CALLS: usize = 500;
    let stream = context.create_stream()?;
    let config = LaunchConfig::new(1, 32);
    let mut futures = Vec::with_capacity(CALLS);
    let wakers = [(); 2].map(|()| Waker::from(Arc::new(Asleep)));
    for flags in [false, true] {
        context.set_completion_by_flags(Some(flags));
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..turns {
            for (part, times) in times.iter_mut().enumerate() {
                let start = Instant::now();
                for _ in 0..CALLS {
                    // SAFETY: the kernel does nothing.
                    unsafe { stream.launch(kernel, &config, ()) }?;
                    if part > 0 {
                        let mut future = stream.checked_completion_future();
                        if part > 1 {
                            // Two tasks take turns.
                            let mut task = std::task::Context::from_waker(&wakers[futures.len() % 2]);
                            let _ = std::pin::Pin::new(&mut future).poll(&mut task)?;
                        }
                        futures.push(future);
                    }
                }
                times.push(start.elapsed().as_secs_f64() * 1e9 / CALLS as f64);
                stream.synchronize()?;
                futures.clear();
            }
        }
        let [plain, made, polled] = times.map(|mut times| median(&mut times));
        let (made, polled) = (made - plain, polled - made);
        println!("flags {flags:<5}: launch {plain:.0} ns, a future {made:+.0} ns, its first poll {polled:+.0} ns");
    }
    context.set_completion_by_flags(None);
    Ok(())
}

/// One way of waiting, and how long a call took with it in each turn.
struct Way {
    name: &'static str,
    spin: Option<Duration>,
    flags: bool,
    times: Vec<f64>,
}

fn compare(
    name: &str,
    context: &Context,
    stream: &Stream,
    runtime: &Runtime,
    turns: usize,
    launch: impl Fn(&Stream) -> anabranch::Result<()>,
) -> anabranch::Result<()> {
    const CALLS: u32 = 100;
    let usual = context.completion_spin();
    let way = |name, spin| Way { name, spin, flags: false, times: Vec::new() };
    let by_flag = |way: Way| Way { flags: true, ..way };
    let mut ways = [
        way("synchronized", None),
        way("awaited, usual spin", Some(usual)),
        way("awaited, no spin", Some(Duration::ZERO)),
        by_flag(way("by a flag, usual spin", Some(usual))),
        by_flag(way("by a flag, no spin", Some(Duration::ZERO))),
    ];
    for turn in 0..turns + 3 {
        for index in 0..ways.len() {
            // The order alternates.
            let count = ways.len();
            let way = &mut ways[(index + turn) % count];
            if let Some(spin) = way.spin {
                context.set_completion_spin(spin);
                context.set_completion_by_flags(Some(way.flags));
            }
            let start = Instant::now();
            for _ in 0..CALLS {
                launch(stream)?;
                match way.spin {
                    None => stream.synchronize()?,
                    Some(_) => runtime.block_on(stream.completion_future())?,
                }
            }
            // The first turns are to get warm.
            if turn >= 3 {
                way.times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
            }
        }
    }
    context.set_completion_spin(usual);
    context.set_completion_by_flags(None);
    let blocking = median(&mut ways[0].times);
    for way in &mut ways {
        let time = median(&mut way.times);
        println!("{name:<20} {:<22} {time:>8.2} us  {:>+7.2} us", way.name, time - blocking);
    }
    Ok(())
}

/// A thousand tasks of one launch each, beside as many launches and one synchronization by one thread.
fn tasks(context: &Context, kernel: &Kernel, turns: usize) -> anabranch::Result<()> {
    const TASKS: usize = 1000;
    let config = LaunchConfig::new(1, 32);
    let one = Builder::new_current_thread().build().expect("a runtime");
    let two = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let streams: Vec<_> = (0..4).map(|_| context.create_stream().map(Arc::new)).collect::<Result<_, _>>()?;
    let plain = || {
        for task in 0..TASKS {
            // SAFETY: the kernel does nothing.
            unsafe { streams[task % streams.len()].launch(kernel, &config, ()) }?;
        }
        streams.iter().try_for_each(|stream| stream.synchronize())
    };
    let awaited = |runtime: &Runtime| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let (stream, kernel) = (streams[task % streams.len()].clone(), kernel.clone());
                    runtime.spawn(async move {
                        // SAFETY: the kernel does nothing.
                        stream.enqueue_async(|stream| unsafe { stream.launch(&kernel, &config, ()) }).await
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no task panics")?;
            }
            Ok::<(), anabranch::Error>(())
        })
    };
    type Way<'a> = (&'a str, bool, &'a dyn Fn() -> anabranch::Result<()>, Vec<f64>);
    let ways: &mut [Way<'_>] = &mut [
        ("one thread, synchronized once", false, &plain, Vec::new()),
        ("tasks of a current-thread runtime", false, &|| awaited(&one), Vec::new()),
        ("the same, by flags", true, &|| awaited(&one), Vec::new()),
        ("tasks of two worker threads", false, &|| awaited(&two), Vec::new()),
        ("the same, by flags", true, &|| awaited(&two), Vec::new()),
    ];
    for _ in 0..turns {
        for (_, flags, way, times) in &mut *ways {
            context.set_completion_by_flags(Some(*flags));
            let start = Instant::now();
            way()?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    context.set_completion_by_flags(None);
    for (name, _, _, times) in ways {
        println!("{TASKS} launches       {name:<34} {:>7.0} us", median(times));
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
