//! Memory pools are given back after all of their memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{DeviceOrdinal, Driver, Forward, Layered, Live, MemoryPoolAttribute, MemoryPoolHandle, Result};
use anabranch::{
    Buffer, CaptureMode, Context, Instance, MemoryPool, MemoryPoolOptions, Status, Stream, flush_deferred_drops,
};
use common::until;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has happened to pools.
#[derive(Debug, Default)]
struct Seen {
    created: AtomicUsize,
    /// How much memory was in use of those that were given back.
    given_back: Mutex<Vec<u64>>,
    destroyed: Mutex<Vec<u64>>,
}

/// Notes what happens to pools.
#[derive(Debug)]
struct Watch {
    inner: Arc<dyn Driver>,
    seen: Arc<Seen>,
}

impl Watch {
    fn used(&self, pool: Live<'_, MemoryPoolHandle>) -> u64 {
        self.inner.memory_pool_attribute(pool, MemoryPoolAttribute::UsedCurrent).unwrap()
    }
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Watch {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn memory_pool_create(&self, device: DeviceOrdinal, options: &MemoryPoolOptions) -> Result<MemoryPoolHandle> {
        self.seen.created.fetch_add(1, Ordering::SeqCst);
        self.inner.memory_pool_create(device, options)
    }

    fn memory_pool_trim(&self, pool: Live<'_, MemoryPoolHandle>, keep_bytes: usize) -> Result<()> {
        self.seen.given_back.lock().unwrap().push(self.used(pool));
        self.inner.memory_pool_trim(pool, keep_bytes)
    }

    unsafe fn memory_pool_destroy(&self, pool: MemoryPoolHandle) -> Result<()> {
        // SAFETY: the pool exists until it is destroyed below.
        self.seen.destroyed.lock().unwrap().push(self.used(unsafe { Live::new(pool) }));
        // SAFETY: the caller promises that nobody uses the pool afterwards.
        unsafe { self.inner.memory_pool_destroy(pool) }
    }
}

/// Held by tests that capture, and by those that expect a pool to be used again: beside a capture, whosever it is, none is.
static CAPTURES: Mutex<()> = Mutex::new(());

fn captures() -> MutexGuard<'static, ()> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host device that is watched.
struct World {
    context: Context,
    seen: Arc<Seen>,
}

impl World {
    fn new() -> Self {
        let seen = Arc::new(Seen::default());
        let watch = seen.clone();
        let wrap = move |inner| -> Arc<dyn Driver> { Arc::new(Layered(Watch { inner, seen: watch.clone() })) };
        let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
        Self { context: instance.device("host").unwrap().context().unwrap(), seen }
    }

    fn pool(&self) -> MemoryPool {
        self.context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap()
    }

    /// How much memory was in use of each pool that was given back.
    fn given_back(&self) -> Vec<u64> {
        flush_deferred_drops();
        self.seen.given_back.lock().unwrap().clone()
    }

    /// Waits until so many pools were given back, or made as new again.
    fn wait_for_given_back(&self, count: usize) -> Vec<u64> {
        until("a pool to be given back", || self.given_back().len() >= count);
        self.given_back()
    }

    /// A stream that is held up until something is sent.
    fn held_up(&self) -> (Stream, Sender<()>) {
        let (send, receive) = channel();
        let stream = self.context.create_stream().unwrap();
        stream.launch_host_func(move || receive.recv().unwrap()).unwrap();
        (stream, send)
    }
}

#[test]
fn safety_83_a_pool_is_given_back_when_its_buffers_are_freed() {
    let world = World::new();
    let (pool, stream) = (world.pool(), world.context.create_stream().unwrap());
    let buffers: Vec<Buffer<u32>> = (0..3).map(|_| stream.allocate_zeroed_from(&pool, 10).unwrap()).collect();
    drop(pool);
    for buffer in buffers {
        assert!(world.given_back().is_empty());
        drop(buffer);
    }
    stream.synchronize().unwrap();
    assert_eq!(world.wait_for_given_back(1), [0]);
}

#[test]
fn safety_83_a_pool_is_given_back_behind_frees_in_other_streams() {
    let world = World::new();
    let (pool, home) = (world.pool(), world.context.create_stream().unwrap());
    let buffer: Buffer<u32> = home.allocate_zeroed_from(&pool, 10).unwrap();
    let (other, open) = world.held_up();
    let mut copy: Buffer<u32> = other.allocate_zeroed(10).unwrap();
    other.copy(&mut copy, &buffer).unwrap();
    // The memory is freed in another stream than it was allocated in, behind one that is held up.
    drop(home);
    drop((buffer, pool));
    assert!(world.given_back().is_empty());
    open.send(()).unwrap();
    other.synchronize().unwrap();
    world.context.synchronize().unwrap();
    assert_eq!(world.wait_for_given_back(1), [0]);
}

#[test]
fn safety_83_a_pool_is_used_again_as_if_it_were_new() {
    let _captures = captures();
    let world = World::new();
    let stream = world.context.create_stream().unwrap();
    for _ in 0..10 {
        let pool = world.pool();
        assert_eq!(pool.release_threshold().unwrap(), 0);
        assert_eq!((pool.used_bytes().unwrap(), pool.used_bytes_high().unwrap()), (0, 0));
        assert_eq!((pool.reserved_bytes().unwrap(), pool.reserved_bytes_high().unwrap()), (0, 0));
        pool.set_release_threshold(u64::MAX).unwrap();
        // It has that anyhow, and it cannot be taken away.
        pool.set_peer_access(world.context.device(), true).unwrap();
        drop(stream.allocate_zeroed_from::<u32>(&pool, 10).unwrap());
        stream.synchronize().unwrap();
        assert!(pool.reserved_bytes().unwrap() > 0);
        let count = world.given_back().len();
        drop(pool);
        world.wait_for_given_back(count + 1);
    }
    let other = world
        .context
        .device()
        .create_memory_pool(&MemoryPoolOptions { max_bytes: 1 << 20, interprocess: false })
        .unwrap();
    drop(other);
    assert_eq!(world.seen.created.load(Ordering::SeqCst), 2, "other options need another pool");
    assert!(world.seen.destroyed.lock().unwrap().is_empty());
    let World { context, seen } = world;
    drop((stream, context));
    flush_deferred_drops();
    assert_eq!(*seen.destroyed.lock().unwrap(), [0, 0], "of a device that nobody uses");
}

/// Whether an earlier pool is there to be used again makes no difference to the program.
#[test]
fn safety_83_beside_a_capture_a_pool_is_refused_even_if_one_could_be_used_again() {
    let _captures = captures();
    let world = World::new();
    let stream = world.context.create_stream().unwrap();
    let beside_a_capture = || {
        stream.begin_capture(CaptureMode::Global).unwrap();
        let created = world.context.device().create_memory_pool(&MemoryPoolOptions::default());
        assert!(stream.end_capture().is_err());
        created.unwrap_err().status()
    };
    let before = beside_a_capture();
    drop(world.pool());
    flush_deferred_drops();
    assert_eq!((before, beside_a_capture()), (Status::STREAM_CAPTURE_UNSUPPORTED, before));
    drop(world.pool());
    assert_eq!(world.seen.created.load(Ordering::SeqCst), 3, "two of which were refused");
}

#[test]
fn safety_97_memory_of_a_pool_is_freed_in_the_legacy_stream_and_in_others() {
    let context = common::host();
    let pool = context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap();
    let free_in = |stream: Stream| {
        let mut buffer = stream.allocate_zeroed_from::<u32>(&pool, 16).unwrap();
        stream.fill(&mut buffer, 1).unwrap();
        // The pool remembers the streams of its frees, and asks those that have ended whether their work is over.
        drop(stream);
        drop(buffer);
    };
    std::thread::scope(|scope| {
        for is_legacy in [true, true, false, false] {
            let (free_in, context) = (&free_in, &context);
            scope.spawn(move || {
                for _ in 0..300 {
                    free_in(if is_legacy {
                        context.legacy_stream().unwrap()
                    } else {
                        context.create_stream().unwrap()
                    });
                }
            });
        }
    });
    flush_deferred_drops();
}
