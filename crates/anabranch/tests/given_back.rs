//! Memory that is given back where no stream is to be had.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, Failure, Forward, Layered, StreamFlags, StreamHandle};
use anabranch::{AllocationKind, Context, Instance, MemoryPoolOptions, Status, flush_deferred_drops};
use common::{assert_ends, hold, until};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Makes no streams, if it is told so.
struct NoStreams {
    inner: Arc<dyn Driver>,
    refuses: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

impl fmt::Debug for NoStreams {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NoStreams")
    }
}

// SAFETY: all calls are forwarded as they are, or are not made.
unsafe impl Forward for NoStreams {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_create(&self, call: &Call<'_>, flags: StreamFlags, priority: i32) -> hal::Result<StreamHandle> {
        if self.refuses.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Failure::new(Status::OUT_OF_MEMORY));
        }
        self.inner.stream_create(call, flags, priority)
    }
}

fn live(context: &Context, kind: AllocationKind) -> usize {
    let report = context.device().memory_report().unwrap();
    assert_eq!(report.findings, []);
    report.allocations.iter().filter(|live| live.kind == kind).count()
}

#[test]
fn safety_122_memory_of_a_pool_that_no_stream_can_free_is_not_taken_for_plain_memory() {
    assert_ends(|| {
        let (refuses, refused) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let of_layer = (refuses.clone(), refused.clone());
        let wrap = move |inner| {
            let (refuses, refused) = of_layer.clone();
            Arc::new(Layered(NoStreams { inner, refuses, refused })) as Arc<dyn Driver>
        };
        let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let [home, other, held] = [(); 3].map(|()| context.create_stream().unwrap());
        let pool = context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap();
        let buffer = home.allocate_zeroed_from::<u32>(&pool, 1000).unwrap();
        let address = buffer.device_pointer();
        home.synchronize().unwrap();
        // The context has work, so that what is idle is not freed yet.
        let signal = hold(&context, &held);
        refuses.store(true, Ordering::SeqCst);
        drop((home, buffer, pool));
        // When it was dropped, and by the reaper.
        until("both attempts", || refused.load(Ordering::SeqCst) >= 2);
        let mut plain = Vec::new();
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            plain.push(context.allocate_zeroed::<u32>(&other, 1000).unwrap());
        }
        assert!(plain.iter().all(|plain| plain.device_pointer() != address));
        refuses.store(false, Ordering::SeqCst);
        signal.set(1);
        held.synchronize().unwrap();
        other.synchronize().unwrap();
        flush_deferred_drops();
        assert_eq!(live(&context, AllocationKind::Pool), 0);
    });
}
