//! What the benchmarks on CUDA share: two ways to do the same, measured in turns, and allocations counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counts allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Prints the median nanoseconds a call of the two, measured in turns of so many calls, and what ours allocates. `settle`
/// comes before each turn, and is not measured.
pub(crate) fn compare(
    name: &str,
    calls: u32,
    turns: u32,
    mut settle: impl FnMut(),
    mut bare: impl FnMut(),
    mut ours: impl FnMut(),
) {
    let mut time = |work: &mut dyn FnMut()| {
        settle();
        let start = Instant::now();
        for _ in 0..calls {
            work();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    };
    let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        time(&mut bare);
        time(&mut ours);
    }
    for turn in 0..turns {
        // The order alternates, because the second one finds the caches warmer.
        if turn % 2 == 0 {
            bare_times.push(time(&mut bare));
            our_times.push(time(&mut ours));
        } else {
            our_times.push(time(&mut ours));
            bare_times.push(time(&mut bare));
        }
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..calls {
        ours();
    }
    let allocations = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / f64::from(calls);
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (bare, ours) = (median(&mut bare_times), median(&mut our_times));
    println!(
        "{name:<38} {bare:>9.1} ns bare {ours:>9.1} ns here  {:>+7.1} ns  {:>+6.2} %  {allocations} allocations a call",
        ours - bare,
        (ours / bare - 1.0) * 100.0
    );
}
