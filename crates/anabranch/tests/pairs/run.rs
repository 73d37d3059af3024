//! Runs two calls at the same time.

use crate::table::Call;
use crate::world::{Expected, Halves, LENGTH, Shared, Side, World};
use anabranch::{
    AllocationKind, CaptureStatus, Context, Device, Error, ErrorKind, Instance, LiveAllocation, Result, Status,
    flush_deferred_drops,
};
use fastrand::Rng;
use std::any::Any;
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// How often two calls are made in a row.
const TIMES: usize = 3;

/// A world lives for so many pairs at most.
const PAIRS_IN_A_WORLD: usize = 40;

/// After that time, captures are ended while the calls go on.
const CAPTURING: Duration = Duration::from_secs(1);

/// After that time, a pair counts as one that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What runs, since when.
static RUNNING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// What threads have panicked with.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes panics of all threads, and ends the process where a pair hangs.
fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            lock(&PANICS).push(format!("{panic}"));
        }));
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let running = lock(&RUNNING).clone();
                if let Some((since, pair)) = running
                    && since.elapsed() > PATIENCE
                {
                    let _ = writeln!(std::io::stderr(), "{pair} hangs");
                    std::process::abort();
                }
            }
        });
    });
}

/// What a panic was about.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Panics with a message that is printed.
fn fail(message: &str) -> ! {
    let _ = std::panic::take_hook();
    panic!("{message}");
}

/// Lets two threads go on at the same moment.
#[derive(Default)]
struct Start(AtomicUsize);

impl Start {
    /// Waits until both have come for the `turn`th time.
    fn wait(&self, turn: usize) {
        self.0.fetch_add(1, SeqCst);
        let mut looks = 0u32;
        while self.0.load(SeqCst) < 2 * turn {
            looks += 1;
            if looks > 200 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// What holds for a pair in addition to its calls.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    holds: bool,
    captures: bool,
    loses: bool,
}

impl Around {
    fn of(random: &mut Rng) -> Self {
        Self { holds: random.u8(..4) == 0, captures: random.u8(..6) == 0, loses: random.u8(..100) == 0 }
    }
}

/// A world, and the memory of which each thread has one half.
struct Place {
    world: World,
    halves: Halves,
    /// The pairs that were run in it.
    pairs: Vec<String>,
}

/// Runs pairs, in one world after the other.
pub(crate) struct Runner {
    place: Option<Place>,
    pairs: usize,
}

impl Runner {
    pub(crate) fn new() -> Self {
        watch();
        Self { place: None, pairs: 0 }
    }

    pub(crate) fn pairs(&self) -> usize {
        self.pairs
    }

    /// Runs a pair.
    ///
    /// # Panics
    /// With the names of the calls and the seed, if anything is wrong.
    pub(crate) fn run(&mut self, calls: [&'static Call; 2], seed: u64) {
        self.pairs += 1;
        let mut random = Rng::with_seed(seed);
        let around = Around::of(&mut random);
        let name = format!("pair {} ({}, {}) {around:?}, seed {seed}", self.pairs, calls[0].name, calls[1].name);
        *lock(&RUNNING) = Some((Instant::now(), name.clone()));
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_in_a_world(calls, around, &mut random)));
        *lock(&RUNNING) = None;
        let panics = std::mem::take(&mut *lock(&PANICS));
        match ran {
            Ok(Ok(())) if panics.is_empty() => {}
            Ok(Err(error)) => fail(&format!("{name}: {error}")),
            Ok(Ok(())) => fail(&format!("{name}: {panics:#?}")),
            Err(payload) => fail(&format!("{name}: {} {panics:#?}", message(&*payload))),
        }
    }

    fn run_in_a_world(&mut self, calls: [&'static Call; 2], around: Around, random: &mut Rng) -> Result<()> {
        let mut place = match self.place.take() {
            Some(place) => place,
            None => Place::new()?,
        };
        place.run(calls, around, random)?;
        if place.world.is_lost() || place.pairs.len() >= PAIRS_IN_A_WORLD || random.usize(..PAIRS_IN_A_WORLD) == 0 {
            place.close();
        } else {
            self.place = Some(place);
        }
        Ok(())
    }

    pub(crate) fn close(self) {
        if let Some(place) = self.place {
            place.close();
        }
        assert_eq!(*lock(&PANICS), [""; 0]);
    }
}

impl Place {
    fn new() -> Result<Self> {
        let builder = Instance::builder().cuda(false).isolated().host_devices(2).host_workers(2);
        let world = World::new(&builder.host_check_memory(true).build()?)?;
        let halves = Halves::new(&world)?;
        Ok(Self { world, halves, pairs: Vec::new() })
    }

    fn run(&mut self, calls: [&'static Call; 2], around: Around, random: &mut Rng) -> Result<()> {
        self.pairs.push(format!("({}, {}) {around:?}", calls[0].name, calls[1].name));
        self.world.meet(random);
        if around.holds {
            self.world.hold(random)?;
        }
        if around.captures {
            self.world.capture(random)?;
        }
        let from = [random.u32(..); LENGTH];
        let mut plain = [(); 2].map(|()| vec![0u32; TIMES * LENGTH]);
        let errors = self.run_at_once(calls, around, random, &from, plain.each_mut())?;
        for (call, error) in errors {
            self.check(calls, call, around, &error);
        }
        for copied in plain.iter().flat_map(|plain| plain.chunks(LENGTH)) {
            Expected::Anything.check(copied);
        }
        self.settle()
    }

    /// Makes the calls, and returns their errors.
    fn run_at_once(
        &mut self,
        calls: [&'static Call; 2],
        around: Around,
        random: &mut Rng,
        from: &[u32],
        into: [&mut Vec<u32>; 2],
    ) -> Result<Vec<(&'static Call, Error)>> {
        let (world, start) = (&self.world, Start::default());
        let sides = self.halves.split()?.into_iter().zip(into).map(|(memories, into)| Side {
            random: random.fork(),
            memories,
            from,
            into,
        });
        let sides: Vec<_> = sides.collect();
        let pause = random.u32(..200);
        let ran = world.scoped.sync_scope(|scope| {
            let shared = &Shared { world, scope };
            let errors = std::thread::scope(|threads| {
                let start = &start;
                let threads: Vec<_> = calls
                    .into_iter()
                    .zip(sides)
                    .map(|(call, side)| threads.spawn(move || repeat(call, shared, side, start)))
                    .collect();
                (0..pause).for_each(|_| std::thread::yield_now());
                if around.loses {
                    world.lose();
                }
                world.let_go();
                let begin = Instant::now();
                while !threads.iter().all(ScopedJoinHandle::is_finished) {
                    std::thread::yield_now();
                    if begin.elapsed() > CAPTURING {
                        // A copy in the legacy stream may wait for the end of a capture that began meanwhile.
                        world.streams.iter().for_each(|stream| drop(stream.end_capture()));
                    }
                }
                threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
            });
            let mut all = Vec::new();
            for errors in errors {
                match errors {
                    Ok(errors) => all.extend(errors),
                    Err(payload) => std::panic::resume_unwind(payload),
                }
            }
            Ok(all)
        });
        match ran {
            // The scope's own wait.
            Err(error) if world.is_lost() && error.is_sticky() => Ok(Vec::new()),
            Err(error) if world.may_capture() && error.status() == Status::STREAM_CAPTURE_IMPLICIT => Ok(Vec::new()),
            ran => ran,
        }
    }

    /// Whether the error may be.
    fn check(&self, calls: [&'static Call; 2], call: &'static Call, around: Around, error: &Error) {
        let status = error.status();
        let is_known = |call: &&Call| call.may.contains(&status);
        let of_captures = self.world.may_capture() || around.captures || calls.iter().any(|call| call.captures);
        let is_expected = calls.iter().any(is_known)
            || (self.world.is_lost() && error.is_sticky())
            || (of_captures && OF_CAPTURES.contains(&status));
        assert!(is_expected && error.kind() != ErrorKind::Panicked, "{}: {error:?}", call.name);
        assert!(!error.operation().is_empty(), "{}: {error:?}", call.name);
    }

    /// Ends what the calls have left, and looks at what came of it.
    fn settle(&mut self) -> Result<()> {
        let Self { world, halves, .. } = self;
        if world.is_lost() {
            return Ok(());
        }
        // Members of a capture are released by its origin.
        for _ in 0..2 {
            for stream in &world.streams {
                if stream.capture_status()? != CaptureStatus::None {
                    drop(stream.end_capture());
                }
            }
        }
        for stream in &world.streams {
            assert_eq!(stream.capture_status()?, CaptureStatus::None, "a capture that nobody can end");
        }
        world.is_over();
        for stream in &world.streams {
            stream.synchronize()?;
            // Other threads of the library may queue the freeing of memory.
            while !stream.query()? {
                std::thread::yield_now();
            }
        }
        world.context.synchronize()?;
        for event in &world.events {
            world.streams[0].record(event)?;
            event.synchronize()?;
        }
        let found = [
            world.streams[1].download(&halves.device)?,
            halves.pinned.read(<[u32]>::to_vec)?,
            halves.managed.read(<[u32]>::to_vec)?,
        ];
        for (kind, found) in found.iter().enumerate() {
            for (side, found) in found.chunks(LENGTH).enumerate() {
                let expected = &mut halves.expected[side][kind];
                expected.check(found);
                *expected = Expected::OneOf(vec![found[0]]);
            }
        }
        Expected::Anything.check(&world.streams[1].download(&world.shared)?);
        world.pinned.read(|elements| Expected::Anything.check(elements))?;
        world.managed.read(|elements| Expected::Anything.check(elements))
    }

    /// Drops the world. Nothing may be left of it.
    fn close(self) {
        let devices = self.world.instance.devices().to_vec();
        let Self { world, halves, pairs } = self;
        let (context, is_lost) = (world.other.clone(), world.is_lost());
        drop(world);
        drop(halves);
        assert_nothing_is_left(&devices, context, is_lost, &pairs);
    }
}

/// Errors of calls beside captures.
const OF_CAPTURES: &[Status] = &[
    Status::STREAM_CAPTURE_UNSUPPORTED,
    Status::STREAM_CAPTURE_INVALIDATED,
    Status::STREAM_CAPTURE_MERGE,
    Status::STREAM_CAPTURE_UNMATCHED,
    Status::STREAM_CAPTURE_UNJOINED,
    Status::STREAM_CAPTURE_ISOLATION,
    Status::STREAM_CAPTURE_IMPLICIT,
    Status::CAPTURED_EVENT,
    Status::STREAM_CAPTURE_WRONG_THREAD,
    Status::ILLEGAL_STATE,
    Status::INVALID_VALUE,
    Status::NOT_SUPPORTED,
];

/// Makes one of the calls again and again.
fn repeat<'env>(
    call: &'static Call,
    shared: &Shared<'_, 'env>,
    mut side: Side<'_, 'env>,
    start: &Start,
) -> Vec<(&'static Call, Error)> {
    let mut errors = Vec::new();
    let panicked = Cell::new(None);
    for turn in 1..=TIMES {
        start.wait(turn);
        (0..side.random.u32(..8) * 20).for_each(|_| std::hint::spin_loop());
        match catch_unwind(AssertUnwindSafe(|| (call.body)(shared, &mut side))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => errors.push((call, error)),
            // The other thread would wait for this one.
            Err(payload) => panicked.set(Some(payload)),
        }
    }
    if let Some(payload) = panicked.into_inner() {
        panic!("{}: {}", call.name, message(&*payload));
    }
    errors
}

/// What is given back by another thread of the library may be work of a stream, which runs when somebody waits for it.
fn assert_nothing_is_left(devices: &[Device], context: Context, is_lost: bool, pairs: &[String]) {
    context.synchronize().unwrap();
    drop(context);
    // A lost context creates no stream to free in the memory of a stream that has ended: that is an error of the drop.
    let counts = |left: &LiveAllocation| !is_lost || left.kind != AllocationKind::Pool;
    let begin = Instant::now();
    loop {
        flush_deferred_drops();
        let mut left = Vec::new();
        for report in devices.iter().filter_map(Device::memory_report) {
            assert!(report.findings.is_empty(), "{:#?} after {pairs:#?}", report.findings);
            left.extend(report.allocations.into_iter().filter(counts));
        }
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "this was never freed: {left:#?} after {pairs:#?}");
        std::thread::yield_now();
    }
}
