//! Whether what orders streams costs the same however many streams there are, on the host device.
//!
//! * `ring`: an event is recorded in a stream, and the next stream of a ring waits for it; beside the same calls of the driver.
//!   The device has no threads, so that nothing runs meanwhile.
//! * `one buffer`: streams copy one buffer in turn, or write it in turn, so that each is ordered behind the one before.
//! * `chain`: streams that are made one after the other, each ordered behind the one before, which is dropped. Printed with
//!   how much memory the process has.

#![allow(clippy::expect_used, reason = "a benchmark that cannot go on may panic")]

mod support;

use anabranch::hal::{Call, EventRecordFlags, EventWaitFlags, Live};
use anabranch::{Context, Event, EventFlags, Instance, InstanceBuilder, Result, Stream};
use std::time::Instant;
use support::compare;

/// Record and wait, in one turn.
const PAIRS: u32 = 8192;

fn open(builder: InstanceBuilder) -> Result<Context> {
    builder.cuda(false).build()?.device("host")?.context()
}

struct Ring {
    streams: Vec<Stream>,
    events: Vec<Event>,
    next: usize,
}

impl Ring {
    fn new(context: &Context, length: usize) -> Result<Self> {
        let event = |_| context.create_event_with_flags(EventFlags::DISABLE_TIMING);
        Ok(Self {
            streams: (0..length).map(|_| context.create_stream()).collect::<Result<_>>()?,
            events: (0..length).map(event).collect::<Result<_>>()?,
            next: 0,
        })
    }

    /// The stream whose turn it is, its event, and the stream behind it.
    fn step(&mut self) -> (&Stream, &Event, &Stream) {
        let (from, to) = (self.next, (self.next + 1) % self.streams.len());
        self.next = to;
        (&self.streams[from], &self.events[from], &self.streams[to])
    }
}

fn ring(turns: u32) -> Result<()> {
    for length in [2, 64, 1024, 4096] {
        let context = open(Instance::builder().host_seed(1))?;
        let (mut bare, mut ours) = (Ring::new(&context, length)?, Ring::new(&context, length)?);
        let driver = context.device().driver().clone();
        // SAFETY: the context exists as long as this.
        let call = Call::new(unsafe { Live::new(context.as_raw()) }, "measuring");
        compare(
            &format!("ring of {length} streams"),
            PAIRS,
            turns,
            || context.synchronize().expect("done"),
            || {
                let (from, event, to) = bare.step();
                // SAFETY: the streams and the event exist as long as the ring.
                let (from, event, to) =
                    unsafe { (Live::new(from.as_raw()), Live::new(event.as_raw()), Live::new(to.as_raw())) };
                driver.event_record(&call, event, from, EventRecordFlags::empty()).expect("queued");
                driver.stream_wait_event(&call, to, event, EventWaitFlags::empty()).expect("queued");
            },
            || {
                let (from, event, to) = ours.step();
                from.record(event).expect("queued");
                to.wait_event(event).expect("queued");
            },
        );
        context.synchronize()?;
    }
    Ok(())
}

/// Median nanoseconds of a step, of so many turns of so many steps.
fn median(turns: u32, steps: usize, mut settle: impl FnMut(), mut step: impl FnMut(usize)) -> f64 {
    let mut times: Vec<f64> = (0..turns.max(1))
        .map(|_| {
            let start = Instant::now();
            (0..steps).for_each(&mut step);
            let time = start.elapsed().as_secs_f64() * 1e9 / steps as f64;
            settle();
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn one_buffer(turns: u32) -> Result<()> {
    for length in [2, 16, 128] {
        let context = open(Instance::builder().host_seed(1))?;
        let streams = (0..length).map(|_| context.create_stream()).collect::<Result<Vec<_>>>()?;
        let mut shared = streams[0].upload(&[1u32; 16])?;
        let mut copies = streams.iter().map(|stream| stream.allocate_zeroed::<u32>(16)).collect::<Result<Vec<_>>>()?;
        context.synchronize()?;
        let settle = || context.synchronize().expect("done");
        let copy = |step: usize| {
            let stream = step % length;
            streams[stream].copy(&mut copies[stream], &shared).expect("queued");
        };
        let copied = median(turns, 4096, settle, copy);
        let written = median(turns, 4096, settle, |step| streams[step % length].fill(&mut shared, 7).expect("queued"));
        println!("one buffer, {length:>4} streams in turn       {copied:>9.1} ns a copy {written:>9.1} ns a write");
    }
    Ok(())
}

/// How much memory the process has, in MiB. 0 where the system does not say.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0 / f64::from(1 << 20)
}

fn chain(last: u32) -> Result<()> {
    let context = open(Instance::builder().host_workers(2))?;
    let mut before = context.create_stream()?;
    let (mut start, mut count, mut report) = (Instant::now(), 0u32, 10_000);
    for made in 1..=last {
        let stream = context.create_stream()?;
        stream.wait(&before)?;
        stream.launch_host_func(|| ())?;
        before = stream;
        count += 1;
        if made % 1000 == 0 {
            // What is queued is no part of what is measured here.
            before.synchronize()?;
        }
        if made == report {
            let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / f64::from(count);
            println!("chain, up to {made:>7} streams          {nanoseconds:>9.1} ns a stream {:>9.1} MiB", resident());
            (start, count, report) = (Instant::now(), 0, report * 10);
        }
    }
    before.synchronize()
}

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--test");
    let turns = if quick { 1 } else { 41 };
    ring(turns)?;
    one_buffer(turns)?;
    chain(if quick { 10_000 } else { 1_000_000 })
}
