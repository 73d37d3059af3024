//! Any two calls by shared references, at the same time on two threads, on host devices that check how memory is used.
//!
//! The table has every function of the public API that two threads can call at the same time. Two of them are called on one
//! world: streams of which some capture or are held up, memory, events, graphs and modules, and now and then the context is
//! lost meanwhile. Each call comes before the other or after it: memory has one of the values that it was given, errors are
//! those that the documentation names, nothing panics or hangs, and nothing is left of a world that is dropped.
//!
//! `ANABRANCH_PAIRS` says how many pairs are run, or `all` for each pair once. `ANABRANCH_PAIR` names the two calls of one pair,
//! with a comma between them, which is run so many times.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "pairs/captures.rs"]
mod captures;
#[path = "pairs/contexts.rs"]
mod contexts;
#[path = "pairs/coverage.rs"]
mod coverage;
#[path = "pairs/devices.rs"]
mod devices;
#[path = "pairs/graphs.rs"]
mod graphs;
#[path = "pairs/kernels.rs"]
mod kernels;
#[path = "pairs/memory.rs"]
mod memory;
#[path = "pairs/run.rs"]
mod run;
#[path = "pairs/streams.rs"]
mod streams;
#[path = "pairs/table.rs"]
mod table;
#[path = "pairs/work.rs"]
mod work;
#[path = "pairs/world.rs"]
mod world;

use fastrand::Rng;
use run::Runner;
use table::Call;

/// How many pairs are run unless the environment says otherwise.
const PAIRS: usize = 1500;

/// The pair that the environment names.
fn named(calls: &[&'static Call]) -> Option<[&'static Call; 2]> {
    let pair = std::env::var("ANABRANCH_PAIR").ok()?;
    let (one, two) = pair.split_once(',').unwrap();
    let find = |name: &str| *calls.iter().find(|call| call.name == name).unwrap();
    Some([find(one), find(two)])
}

#[test]
fn two_calls_at_the_same_time() {
    let calls = table::all();
    let mut random = Rng::new();
    let number = std::env::var("ANABRANCH_PAIRS").ok();
    let mut runner = Runner::new();
    let mut pairs: Vec<[&'static Call; 2]> = match (named(&calls), number.as_deref()) {
        (Some(pair), number) => vec![pair; number.map_or(PAIRS, |number| number.parse().unwrap())],
        (None, Some("all")) => calls.iter().flat_map(|&one| calls.iter().map(move |&two| [one, two])).collect(),
        (None, number) => {
            let number = number.map_or(PAIRS, |number| number.parse().unwrap());
            (0..number).map(|_| [(); 2].map(|()| calls[random.usize(..calls.len())])).collect()
        }
    };
    random.shuffle(&mut pairs);
    for pair in pairs {
        runner.run(pair, random.u64(..));
    }
    assert!(runner.pairs() > 0);
    runner.close();
}

#[test]
fn every_call_by_a_shared_reference_is_in_the_table() {
    coverage::assert_complete();
}
