//! Queues of the host device beside a channel of the standard library with a thread behind it, and beside any other program
//! that prints the same rows.
//!
//! `cargo bench -p anabranch-host --bench queue`; with `-- --test` it runs once, and shortly. `--with PROGRAM` runs another
//! program in turn with this one: it is given the number of operations and of round trips, and prints `NAME ROW NANOSECONDS`
//! a line.

#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "a program that keeps its handles")]
#![allow(missing_docs, reason = "a program")]

use anabranch_hal::*;
use anabranch_host::{HostDriver, HostOptions};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// A handle of an object that goes with the driver.
fn live<H: Handle>(handle: H) -> Live<'static, H> {
    unsafe { Live::new(handle) }
}

type Job = Box<dyn FnOnce() + Send>;
type Rows = BTreeMap<(String, String), Vec<f64>>;

struct Sizes {
    operations: u32,
    round_trips: u32,
}

fn each(begin: Instant, count: u32) -> f64 {
    begin.elapsed().as_nanos() as f64 / f64::from(count)
}

fn note(rows: &mut Rows, name: &str, row: &str, value: f64) {
    rows.entry((row.to_owned(), name.to_owned())).or_default().push(value);
}

fn host(rows: &mut Rows, sizes: &Sizes) {
    let driver = HostDriver::new(HostOptions { workers: Some(1), ..HostOptions::default() });
    let call = live(driver.primary_context_retain(DeviceOrdinal(0)).unwrap()).into();
    let stream = live(driver.stream_create(&call, StreamFlags::NON_BLOCKING, 0).unwrap());
    let counter: &'static AtomicU64 = Box::leak(Box::default());
    let enqueue = || {
        let work = HostWork::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        driver.stream_launch_host_function(&call, stream, work).unwrap();
    };
    let synchronize = || driver.stream_synchronize(&call, stream).unwrap();
    for _ in 0..1000 {
        enqueue();
        synchronize();
    }
    let begin = Instant::now();
    (0..sizes.operations).for_each(|_| enqueue());
    note(rows, "host", "enqueue", each(begin, sizes.operations));
    synchronize();
    note(rows, "host", "in order", each(begin, sizes.operations));
    let begin = Instant::now();
    for _ in 0..sizes.round_trips {
        enqueue();
        synchronize();
    }
    note(rows, "host", "round trip", each(begin, sizes.round_trips));
    assert_eq!(counter.load(Ordering::Relaxed), u64::from(1000 + sizes.operations + sizes.round_trips));
}

fn mpsc(rows: &mut Rows, sizes: &Sizes) {
    let (sender, receiver) = channel::<Job>();
    let thread = std::thread::spawn(move || receiver.into_iter().for_each(|job| job()));
    let counter: &'static AtomicU64 = Box::leak(Box::default());
    let (done, is_done) = channel();
    let enqueue = |sender: &Sender<Job>| {
        let job = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        sender.send(Box::new(job)).unwrap();
    };
    let synchronize = |sender: &Sender<Job>| {
        let done = done.clone();
        sender.send(Box::new(move || done.send(()).unwrap())).unwrap();
        is_done.recv().unwrap();
    };
    for _ in 0..1000 {
        enqueue(&sender);
        synchronize(&sender);
    }
    let begin = Instant::now();
    (0..sizes.operations).for_each(|_| enqueue(&sender));
    note(rows, "mpsc", "enqueue", each(begin, sizes.operations));
    synchronize(&sender);
    note(rows, "mpsc", "in order", each(begin, sizes.operations));
    let begin = Instant::now();
    for _ in 0..sizes.round_trips {
        // One message is enough to run one operation and to say that it is done.
        synchronize(&sender);
    }
    note(rows, "mpsc", "round trip", each(begin, sizes.round_trips));
    drop(sender);
    thread.join().unwrap();
}

fn other(rows: &mut Rows, sizes: &Sizes, program: &str) {
    let output = Command::new(program)
        .args([sizes.operations.to_string(), sizes.round_trips.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split('\t');
        if let (Some(name), Some(row), Some(value)) = (words.next(), words.next(), words.next()) {
            note(rows, name, row, value.parse().unwrap());
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let quick = arguments.iter().any(|argument| argument == "--test");
    let programs: Vec<&String> = arguments.windows(2).filter(|pair| pair[0] == "--with").map(|pair| &pair[1]).collect();
    let (rounds, sizes) = if quick {
        (1, Sizes { operations: 1000, round_trips: 100 })
    } else {
        (15, Sizes { operations: 200_000, round_trips: 20_000 })
    };
    let mut rows = Rows::new();
    for _ in 0..rounds {
        host(&mut rows, &sizes);
        mpsc(&mut rows, &sizes);
        programs.iter().for_each(|program| other(&mut rows, &sizes, program));
    }
    let median = |values: &Vec<f64>| {
        let mut values = values.clone();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("{:>12} {:>12} {:>14} {:>16}", "", "", "ns, median", "host divided by it");
    for ((row, name), values) in &rows {
        let (value, host) = (median(values), median(&rows[&(row.clone(), "host".to_owned())]));
        println!("{row:>12} {name:>12} {value:>14.1} {:>16.2}", host / value);
    }
}
