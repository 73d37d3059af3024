//! Random programs of safe calls on host devices that check how their memory is used.
//!
//! A program works on a few buffers through a few streams of one or two contexts, from one or two threads: it drops, cancels
//! and panics at any point. Whatever its streams overlap, each buffer's history is that of the program's text, so that what
//! is read back is known. The devices find work that uses memory which is not allocated where the work runs, and what is
//! allocated when a program is over.
//!
//! The modules `batched`, `regions`, `composed`, `edited`, `rewired`, `recaptured`, `managed` and `exchanged` have batches, copies of
//! rows and slices, operations that are composed before they are queued, graphs whose nodes change, graphs that get other nodes
//! and edges, graphs that are captured again, attached memory, and memory that passes between libraries (with the feature `dlpack` as tensors too).
//!
//! The module `tangled` has graphs of any shape, and `forked` captures whose streams join by events of any kind;
//! `divided` has captures of several threads with conditions.
//!
//! The module `strict` has copies in strict order, in programs of one thread.
//!
//! Programs also misuse what they have: the modules `forget`, `swap`, `share`, `unwind`, `foreign`, `defaults`, `elements` and
//! `handed` and `loss` have a kind of misuse each.
//!
//! With the feature `tracing`, a subscriber gets all that the library reports meanwhile.
//!
//! `ANABRANCH_PROGRAMS` says how many programs are run in all, and `PROPTEST_RNG_SEED` which. `ANABRANCH_PROGRAM` is the number of the
//! only one that each test runs, and prints. With `ANABRANCH_PROGRAMS_ON_CUDA`
//! they run on a CUDA device, without what is for host devices only. With `--nocapture` the tests say how often programs did
//! what they may be kept from.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "programs/awaited.rs"]
mod awaited;
#[path = "programs/batched.rs"]
mod batched;
#[path = "programs/captured.rs"]
mod captured;
#[path = "programs/composed.rs"]
mod composed;
#[path = "programs/defaults.rs"]
mod defaults;
#[path = "programs/divided.rs"]
mod divided;
#[path = "programs/edited.rs"]
mod edited;
#[path = "programs/elements.rs"]
mod elements;
#[path = "programs/environment.rs"]
mod environment;
#[path = "programs/exchanged.rs"]
mod exchanged;
#[path = "programs/foreign.rs"]
mod foreign;
#[path = "programs/forget.rs"]
mod forget;
#[path = "programs/forked.rs"]
mod forked;
#[path = "programs/generate.rs"]
mod generate;
#[path = "programs/handed.rs"]
mod handed;
#[path = "programs/loss.rs"]
mod loss;
#[path = "programs/managed.rs"]
mod managed;
#[path = "common/one_lock.rs"]
mod one_lock;
#[path = "programs/operation.rs"]
mod operation;
#[path = "programs/recaptured.rs"]
mod recaptured;
#[path = "programs/regions.rs"]
mod regions;
#[path = "programs/rewired.rs"]
mod rewired;
#[path = "programs/run.rs"]
mod run;
#[path = "programs/share.rs"]
mod share;
#[path = "programs/streams.rs"]
mod streams;
#[path = "programs/strict.rs"]
mod strict;
#[cfg(feature = "tracing")]
#[path = "programs/subscriber.rs"]
mod subscriber;
#[path = "programs/swap.rs"]
mod swap;
#[path = "programs/tally.rs"]
mod tally;
#[path = "programs/tangled.rs"]
mod tangled;
#[path = "programs/together.rs"]
mod together;
#[path = "programs/unwind.rs"]
mod unwind;
#[path = "programs/waker.rs"]
mod waker;
#[path = "programs/watchdog.rs"]
mod watchdog;
#[path = "programs/world.rs"]
mod world;

use divided::divided;
use environment::{Devices, Environment, PATIENCE, is_on_cuda};
use forked::forked;
use generate::{program, program_of};
use operation::{Operation, Program};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;
use tangled::tangled;
use watchdog::Watchdog;

/// How many programs are run unless the environment says otherwise.
const PROGRAMS: u32 = 2000;

/// How many tests share them.
const TESTS: u32 = 9;

/// After so many programs the devices are made anew.
const PROGRAMS_ON_A_DEVICE: u32 = 500;

/// How often a program is run that is made of one that failed.
const RUNS_OF_A_SHORTER_ONE: u32 = 10;

fn programs() -> u32 {
    let programs = std::env::var("ANABRANCH_PROGRAMS").ok().filter(|number| !number.is_empty());
    let programs = programs.map_or(PROGRAMS, |number| number.parse().unwrap());
    programs.div_ceil(TESTS)
}

/// Runs programs, and makes one that fails as short as it can.
fn run_programs(strategy: impl Strategy<Value = Program>, run: impl FnMut(&Program)) {
    #[cfg(feature = "tracing")]
    subscriber::listen();
    let mut config = Config {
        cases: programs(),
        failure_persistence: None,
        max_shrink_iters: 2000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => fastrand::u64(..),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    let watchdog = Watchdog::new(seed);
    let run = RefCell::new(run);
    let (programs, failed) = (Cell::new(0), Cell::new(false));
    let only = std::env::var("ANABRANCH_PROGRAM").ok().map(|number| number.parse::<u64>().unwrap());
    let result = TestRunner::new(config).run(&strategy, |program| {
        if !failed.get() {
            programs.set(programs.get() + 1);
            match only {
                Some(only) if only != programs.get() => return Ok(()),
                Some(only) => println!("program {only}: {program:#?}"),
                None => {}
            }
        }
        // Not every run of a program that is wrong goes wrong.
        for _ in 0..if failed.get() { RUNS_OF_A_SHORTER_ONE } else { 1 } {
            let _watched = watchdog.watch(&program);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| run.borrow_mut()(&program))) {
                failed.set(true);
                // Programs that leak are to be made shorter too.
                PATIENCE.set(Duration::from_secs(1));
                resume_unwind(payload);
            }
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("program {} of PROPTEST_RNG_SEED={seed} is the first that failed: {failure}", programs.get());
    }
    tally::report();
}

/// Runs programs on devices with workers, which many of them use one after the other.
fn run_on_workers(devices: Devices, contexts: usize, strategy: impl Strategy<Value = Program>) {
    let mut environment: Option<(Environment, u32)> = None;
    run_programs(strategy, |program| {
        // After a failure the devices are not used again.
        let (devices, used) = environment.take().unwrap_or_else(|| (Environment::new(devices, contexts), 0));
        run::run(&devices, program);
        if used < PROGRAMS_ON_A_DEVICE {
            environment = Some((devices, used + 1));
        } else {
            devices.close();
        }
    });
    if let Some((devices, _)) = environment {
        devices.close();
    }
}

/// Runs programs on devices that run work in an order made from the program's seed.
fn run_in_seeded_order(devices: u32, strategy: impl Strategy<Value = Program>) {
    if is_on_cuda() {
        return;
    }
    run_programs(strategy, |program| {
        let devices = Environment::new(Devices::InOrder(devices, program.seed), 1);
        run::run(&devices, program);
        devices.close();
    });
}

/// Runs programs of nothing but one operation.
fn run_operations(operation: impl Strategy<Value = Operation>) {
    if is_on_cuda() {
        run_on_workers(Devices::Workers(1), 1, program_of(operation));
    } else {
        run_in_seeded_order(1, program_of(operation));
    }
}

#[test]
fn programs_on_one_device() {
    run_on_workers(Devices::Workers(1), 1, program(1));
}

#[test]
fn programs_of_two_threads_on_two_devices() {
    run_on_workers(Devices::Workers(if is_on_cuda() { 1 } else { 2 }), 1, program(2));
}

#[test]
fn programs_of_two_threads_in_two_contexts_of_one_device() {
    run_on_workers(Devices::Workers(1), 2, program(2));
}

#[test]
fn programs_of_two_threads_whose_calls_keep_each_other_waiting() {
    if !is_on_cuda() {
        run_on_workers(Devices::OneLock, 2, program(2));
    }
}

#[test]
fn programs_on_one_device_in_seeded_order() {
    run_in_seeded_order(1, program(1));
}

#[test]
fn programs_on_two_devices_in_seeded_order() {
    run_in_seeded_order(2, program(1));
}

#[test]
fn programs_of_tangled_graphs() {
    run_operations(tangled().prop_map(Operation::Tangled));
}

#[test]
fn programs_of_captures_that_fork_by_events() {
    run_operations(forked().prop_map(Operation::Forked));
}

#[test]
fn programs_of_captures_that_threads_share() {
    run_on_workers(Devices::Workers(1), 1, program_of(divided().prop_map(Operation::Divided)));
}
