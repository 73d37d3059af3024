//! What it costs to await work of a CUDA device, beside blocking for it, in one run and in turns.
//!
//! On a current-thread executor: one empty kernel and one of 50 microseconds, launched and waited for by a future, with the
//! usual spin and with none, told by events and by flags in memory, and by synchronising the stream. Then a thousand tasks on two threads, each of which launches
//! a kernel and awaits it. Medians of the turns are compared. Without a CUDA device it says so and ends.

use anabranch::{BackendKind, Context, Instance, Kernel, LaunchConfig, Module, Stream};
use std::sync::Arc;
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
    tasks(&context, &nothing, turns)
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
        way("synchronised", None),
        way("awaited, usual spin", Some(usual)),
        way("awaited, no spin", Some(Duration::ZERO)),
        by_flag(way("by a flag, usual spin", Some(usual))),
        by_flag(way("by a flag, no spin", Some(Duration::ZERO))),
    ];
    for turn in 0..turns + 3 {
        for index in 0..ways.len() {
            // Who goes first changes.
            let count = ways.len();
            let way = &mut ways[(index + turn) % count];
            if let Some(spin) = way.spin {
                context.set_completion_spin(spin);
                context.set_completion_by_flags(way.flags);
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
    context.set_completion_by_flags(false);
    let blocking = median(&mut ways[0].times);
    for way in &mut ways {
        let time = median(&mut way.times);
        println!("{name:<20} {:<22} {time:>8.2} us  {:>+7.2} us", way.name, time - blocking);
    }
    Ok(())
}

/// A thousand tasks of one launch each, beside as many launches and one synchronisation by one thread.
fn tasks(context: &Context, kernel: &Kernel, turns: usize) -> anabranch::Result<()> {
    const TASKS: usize = 1000;
    let config = LaunchConfig::new(1, 32);
    let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let streams: Vec<_> = (0..4).map(|_| context.create_stream().map(Arc::new)).collect::<Result<_, _>>()?;
    let (mut plain, mut awaited) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        let start = Instant::now();
        for task in 0..TASKS {
            // SAFETY: the kernel does nothing.
            unsafe { streams[task % streams.len()].launch(kernel, &config, ()) }?;
        }
        streams.iter().try_for_each(|stream| stream.synchronize())?;
        plain.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|task| {
                    let (stream, kernel) = (streams[task % streams.len()].clone(), kernel.clone());
                    tokio::spawn(async move {
                        // SAFETY: the kernel does nothing.
                        stream.enqueue_async(|stream| unsafe { stream.launch(&kernel, &config, ()) }).await
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no task panics")?;
            }
            Ok::<(), anabranch::Error>(())
        })?;
        awaited.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let (plain, awaited) = (median(&mut plain), median(&mut awaited));
    println!("{TASKS} launches       one thread             {plain:>8.0} us");
    println!("{TASKS} launches       awaited by as many tasks {awaited:>6.0} us");
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
