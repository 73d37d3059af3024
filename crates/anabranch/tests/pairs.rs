//! Any two calls by shared references, at the same time on two threads, on host devices that check how memory is used.
//!
//! The table has every function of the public API that two threads can call at the same time. Two of them are called on one
//! world: streams of which some capture or are held up, memory, events, graphs and modules, and now and then the context is
//! lost meanwhile. Each call comes before the other or after it: memory has one of the values that it was given, errors are
//! those that the documentation names, nothing panics or hangs, and nothing is left of a world that is dropped.
//!
//! `ANABRANCH_PAIRS` says how many pairs are run, or `all` for each pair once. `ANABRANCH_PAIR` names the two calls of one pair,
//! with a comma between them and `*` for any call, which is run so many times.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "pairs/captures.rs"]
mod captures;
#[path = "pairs/contexts.rs"]
mod contexts;
#[path = "pairs/coverage.rs"]
mod coverage;
#[path = "pairs/devices.rs"]
mod devices;
#[path = "pairs/external.rs"]
mod external;
#[path = "pairs/graphs.rs"]
mod graphs;
#[path = "pairs/green_contexts.rs"]
mod green_contexts;
#[path = "pairs/kernels.rs"]
mod kernels;
#[path = "pairs/memory.rs"]
mod memory;
#[path = "pairs/operations.rs"]
mod operations;
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

/// A variable of the environment, unless it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The calls that the environment names for each side, which are all of them unless it does.
fn named(calls: &[&'static Call]) -> [Vec<&'static Call>; 2] {
    let pair = variable("ANABRANCH_PAIR").unwrap_or_else(|| "*,*".to_owned());
    let (one, two) = pair.split_once(',').unwrap();
    [one, two].map(|name| calls.iter().copied().filter(|call| name == "*" || call.name == name).collect())
}

#[test]
fn two_calls_at_the_same_time() {
    let calls = table::all();
    let mut random = Rng::new();
    let number = variable("ANABRANCH_PAIRS");
    let mut runner = Runner::new();
    let [one, two] = named(&calls);
    let mut pairs: Vec<[&'static Call; 2]> = match number.as_deref() {
        Some("all") => one.iter().flat_map(|&one| two.iter().map(move |&two| [one, two])).collect(),
        number => {
            let number = number.map_or(PAIRS, |number| number.parse().unwrap());
            (0..number).map(|_| [&one, &two].map(|side| side[random.usize(..side.len())])).collect()
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
    // A package, to which cargo adds this file, has no lists of the public API. The repository never has it, which
    // ci/check-tree.sh checks.
    if std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml.orig").exists() {
        eprintln!("skipped: this is not the repository");
        return;
    }
    coverage::assert_complete();
}
