//! How much a stream holds.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::{Fixture, Gate, SMALL};

#[test]
fn a_full_queue_makes_the_caller_wait_and_stays_small() {
    let fixture = Fixture::with(anabranch_host::HostOptions { queue_limit: 1000, ..SMALL });
    let (stream, memory) = (fixture.stream(), fixture.allocate(4));
    let gate = fixture.gate(stream);
    let opener = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Gate::open(gate);
    });
    for value in 0..5_000 {
        fixture.fill(stream, memory, value, 1);
    }
    opener.join().unwrap();
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(memory, 1), [4_999]);
}

#[test]
fn ten_million_entries_in_one_stream_stay_small() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(4));
    let before = resident();
    let mut most = 0;
    for round in 0..10_000u32 {
        for _ in 0..1_000 {
            fixture.fill(stream, memory, round, 1);
        }
        if round % 100 == 0 {
            most = most.max(resident());
        }
    }
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(memory, 1), [9_999]);
    assert!(most.saturating_sub(before) < 200 << 20, "{most}");
}
