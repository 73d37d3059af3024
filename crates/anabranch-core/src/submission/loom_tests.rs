//! Submissions to several streams under loom: every interleaving of a few threads. The submissions, streams, timelines
//! and access histories are the real ones. The driver is a model, which knows what each piece of work follows. A use
//! that is wrongly found to be already ordered therefore shows as work that does not follow earlier work on the same
//! memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use super::Submission;
use crate::context::ContextCore;
use crate::device::DeviceCore;
use crate::memory::{Allocation, MemoryAccess, Origin};
use crate::reaper;
use crate::stream::{OpenStream, StreamCore};
use anabranch_hal::{
    Access, BackendKind, Call, Capabilities, CaptureMode, CaptureStatus, ContextFlags, ContextHandle, DeviceOrdinal,
    DevicePointer, DeviceProperties, Driver, EventFlags, EventHandle, EventRecordFlags, EventWaitFlags, Forward,
    Layered, Live, PriorityRange, Result, StreamFlags, StreamHandle,
};
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const STREAMS: usize = 3;

/// How much work of each stream precedes something.
type Reach = [usize; STREAMS];

fn extend(reach: &mut Reach, by: &Reach) {
    for (reach, by) in reach.iter_mut().zip(by) {
        *reach = (*reach).max(*by);
    }
}

/// A driver whose calls on one stream come one after the other. It guarantees nothing more about threads: what it
/// shares between streams is in locks that loom does not see.
#[derive(Debug)]
struct Model {
    /// What the next work of each stream follows.
    streams: [Mutex<Reach>; STREAMS],
    created: AtomicUsize,
    /// What the last record of each event follows, in locks that loom sees: it tries records beside waits.
    events: std::sync::Mutex<Vec<Arc<Mutex<Reach>>>>,
    /// What the host has waited for.
    complete: std::sync::Mutex<Reach>,
}

/// Stream handles begin after the special ones.
const FIRST_HANDLE: usize = 0x100;

impl Model {
    fn new() -> Self {
        Self {
            streams: std::array::from_fn(|_| Mutex::new([0; STREAMS])),
            created: AtomicUsize::new(0),
            events: std::sync::Mutex::default(),
            complete: std::sync::Mutex::default(),
        }
    }

    fn update<R>(&self, stream: Live<'_, StreamHandle>, update: impl FnOnce(&mut Reach) -> R) -> R {
        update(&mut self.streams[number(stream)].lock().unwrap())
    }

    fn event(&self, event: Live<'_, EventHandle>) -> Arc<Mutex<Reach>> {
        self.events.lock().unwrap()[event.handle().as_raw() - 1].clone()
    }

    /// Queues work.
    fn work(&self, stream: Live<'_, StreamHandle>) -> Work {
        let mut reach = self.update(stream, |reach| {
            reach[number(stream)] += 1;
            *reach
        });
        extend(&mut reach, &self.complete.lock().unwrap());
        Work { stream: number(stream), reach }
    }
}

fn number(stream: Live<'_, StreamHandle>) -> usize {
    stream.handle().as_raw() - FIRST_HANDLE
}

// SAFETY: nothing follows a handle or an address of the model: both are numbers, and no memory is used.
unsafe impl Forward for Model {
    fn inner(&self) -> &dyn Driver {
        panic!("a call that the model does not know")
    }

    fn kind(&self) -> BackendKind {
        BackendKind::Host
    }

    fn observes_objects(&self) -> bool {
        false
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn device_properties(&self, _: DeviceOrdinal) -> Result<DeviceProperties> {
        Ok(DeviceProperties {
            name: "model".to_owned(),
            uuid: [0; 16],
            pci_bus_id: None,
            compute_capability: (0, 0),
            total_memory: 0,
            multiprocessor_count: 1,
            warp_size: 1,
            max_threads_per_block: 1,
            max_block_dimensions: [1; 3],
            max_grid_dimensions: [1; 3],
            max_shared_memory_per_block: 0,
            max_shared_memory_per_block_optin: 0,
            priority_range: PriorityRange { least: 0, greatest: 0 },
            capabilities: Capabilities::empty(),
        })
    }

    fn context_create(&self, _: DeviceOrdinal, _: ContextFlags) -> Result<ContextHandle> {
        Ok(ContextHandle::from_raw(1))
    }

    // SAFETY: nothing is asked of the caller: handles are numbers, and a wrong one panics.
    unsafe fn context_destroy(&self, _: &Call<'_>) -> Result<()> {
        Ok(())
    }

    fn lost_context_is_running(&self, _: &Call<'_>) -> bool {
        false
    }

    fn thread_exchange_capture_mode(&self, _: CaptureMode) -> Result<CaptureMode> {
        Ok(CaptureMode::Relaxed)
    }

    fn stream_capture_status(&self, _: &Call<'_>, _: Live<'_, StreamHandle>) -> Result<CaptureStatus> {
        Ok(CaptureStatus::Active)
    }

    fn stream_create(&self, _: &Call<'_>, _: StreamFlags, _: i32) -> Result<StreamHandle> {
        Ok(StreamHandle::from_raw(FIRST_HANDLE + self.created.fetch_add(1, Ordering::Relaxed)))
    }

    // SAFETY: nothing is asked of the caller: handles are numbers, and a wrong one panics.
    unsafe fn stream_destroy(&self, _: &Call<'_>, _: StreamHandle) -> Result<()> {
        Ok(())
    }

    fn stream_id(&self, _: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<u64> {
        Ok(stream.handle().as_raw() as u64)
    }

    fn stream_synchronize(&self, _: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        let reach = self.update(stream, |reach| *reach);
        extend(&mut self.complete.lock().unwrap(), &reach);
        Ok(())
    }

    fn stream_wait_event(
        &self,
        _: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        event: Live<'_, EventHandle>,
        _: EventWaitFlags,
    ) -> Result<()> {
        let recorded = *self.event(event).lock().unwrap();
        self.update(stream, |reach| extend(reach, &recorded));
        Ok(())
    }

    fn event_create(&self, _: &Call<'_>, _: EventFlags) -> Result<EventHandle> {
        let mut events = self.events.lock().unwrap();
        events.push(Arc::new(Mutex::new([0; STREAMS])));
        Ok(EventHandle::from_raw(events.len()))
    }

    // SAFETY: nothing is asked of the caller: handles are numbers, and a wrong one panics.
    unsafe fn event_destroy(&self, _: &Call<'_>, _: EventHandle) -> Result<()> {
        Ok(())
    }

    fn event_record(
        &self,
        _: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        _: EventRecordFlags,
    ) -> Result<()> {
        let event = self.event(event);
        self.update(stream, |reach| *event.lock().unwrap() = *reach);
        Ok(())
    }

    /// All work is complete at this moment. The reaper's thread, which is outside the model, takes no lock of loom; it
    /// calls this only at the end of a stream, when nothing depends on the answer.
    fn event_query(&self, _: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()> {
        if reaper::is_here() {
            return Ok(());
        }
        let recorded = *self.event(event).lock().unwrap();
        extend(&mut self.complete.lock().unwrap(), &recorded);
        Ok(())
    }

    fn event_synchronize(&self, _: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()> {
        let recorded = *self.event(event).lock().unwrap();
        extend(&mut self.complete.lock().unwrap(), &recorded);
        Ok(())
    }
}

/// Work that was queued.
pub(crate) struct Work {
    stream: usize,
    /// What it follows, including itself in its own stream.
    reach: Reach,
}

impl Work {
    /// Whether it follows `earlier`, or was queued when the host knew `earlier` to be complete.
    fn is_behind(&self, earlier: &Self) -> bool {
        self.reach[earlier.stream] >= earlier.reach[earlier.stream]
    }
}

/// Three streams and a piece of memory that they use.
pub(crate) struct World {
    model: Arc<Layered<Model>>,
    streams: [OpenStream; STREAMS],
    memory: Arc<Allocation>,
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        let model = Arc::new(Layered(Model::new()));
        let driver: Arc<dyn Driver> = model.clone();
        let device = DeviceCore::enumerate(&driver).unwrap().remove(0);
        let context = ContextCore::create(&device, ContextFlags::empty()).unwrap();
        let streams = std::array::from_fn(|_| StreamCore::create(&context, StreamFlags::NON_BLOCKING, 0).unwrap());
        // No address, so that there is nothing to be freed by the reaper, which is outside of the model.
        let memory = Arc::new(Allocation::new(&context, DevicePointer::NULL, 0, Origin::Plain));
        Arc::new(Self { model, streams, memory })
    }

    pub(crate) fn stream(&self, number: usize) -> &OpenStream {
        &self.streams[number]
    }

    pub(crate) fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }

    /// Submits work that uses the memory.
    pub(crate) fn submit(&self, stream: usize, access: Access) -> Work {
        let submission = Submission::begin(self.stream(stream), "testing").unwrap();
        let accesses = [MemoryAccess { memory: &self.memory, access }];
        submission.submit(&accesses, |_, handle| Ok(self.model.0.work(handle))).unwrap()
    }

    /// Makes a stream wait for the work that is in another one now, whatever memory that uses.
    pub(crate) fn follow(&self, stream: usize, earlier: usize) {
        assert!(self.stream(stream).follow(self.stream(earlier)).unwrap());
    }

    /// Does something in another thread.
    pub(crate) fn spawn<R: 'static>(
        self: &Arc<Self>,
        action: impl FnOnce(&Self) -> R + 'static,
    ) -> thread::JoinHandle<R> {
        let world = self.clone();
        thread::spawn(move || action(&world))
    }

    /// Submits work that writes the memory, after all threads have ended, and that must follow all `earlier` work.
    /// Returns whether it was found to be already ordered.
    pub(crate) fn require_behind(&self, stream: usize, earlier: &[&Work]) -> bool {
        let before = self.stream(stream).shared().orders_inserted();
        let work = self.submit(stream, Access::Write);
        for earlier in earlier {
            assert!(work.is_behind(earlier), "{:?} is not behind {:?}", work.reach, earlier.reach);
        }
        self.stream(stream).shared().orders_inserted() == before
    }
}

/// Tries all interleavings of `body`, which returns whether the last use was found to be already ordered. Some of them
/// must find that, and some must not.
pub(crate) fn check(bound: usize, body: impl Fn(&Arc<World>) -> bool + Send + Sync + 'static) {
    let outcomes = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = outcomes.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(move || {
        let was_ordered = body(&World::new());
        counted[usize::from(was_ordered)].fetch_add(1, Ordering::Relaxed);
    });
    let [inserted, found] = outcomes.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{inserted} interleavings had to be ordered, {found} were");
    assert!(inserted > 0 && found > 0, "{inserted} interleavings had to be ordered, {found} were");
}

#[test]
fn loom_a_use_that_is_found_ordered_is_behind_a_use_beside_which_a_point_was_put() {
    for access in [Access::Read, Access::Write] {
        check(6, move |world| {
            // So that the fast path is there to be taken.
            world.submit(0, Access::Write);
            let follower = world.spawn(|world| world.follow(1, 0));
            let work = world.submit(0, access);
            follower.join().unwrap();
            world.require_behind(1, &[&work])
        });
    }
}

#[test]
fn loom_a_use_is_found_ordered_through_a_third_stream() {
    check(4, |world| {
        world.submit(0, Access::Write);
        let followers = [world.spawn(|world| world.follow(1, 0)), world.spawn(|world| world.follow(2, 1))];
        let work = world.submit(0, Access::Write);
        followers.into_iter().for_each(|follower| follower.join().unwrap());
        world.require_behind(2, &[&work])
    });
}

#[test]
fn loom_a_use_is_behind_work_that_the_host_has_waited_for() {
    for by_event in [false, true] {
        check(6, move |world| {
            world.submit(0, Access::Write);
            let host = world.spawn(move |world| {
                let stream = world.stream(0);
                if by_event {
                    stream.sync_event().unwrap().unwrap().synchronize().unwrap();
                } else {
                    stream.synchronize().unwrap();
                }
            });
            let work = world.submit(0, Access::Write);
            host.join().unwrap();
            world.require_behind(1, &[&work])
        });
    }
}

#[test]
fn loom_a_writer_is_behind_two_readers_of_one_stream() {
    check(4, |world| {
        world.submit(0, Access::Write);
        let reader = world.spawn(|world| world.submit(0, Access::Read));
        let follower = world.spawn(|world| world.follow(1, 0));
        let work = world.submit(0, Access::Read);
        let other = reader.join().unwrap();
        follower.join().unwrap();
        world.require_behind(1, &[&work, &other])
    });
}

#[test]
fn loom_a_writer_is_behind_readers_of_two_streams() {
    check(3, |world| {
        let written = world.submit(0, Access::Write);
        let reader = world.spawn(|world| world.submit(1, Access::Read));
        let follower = world.spawn(|world| {
            world.follow(2, 0);
            world.follow(2, 1);
        });
        let work = world.submit(0, Access::Read);
        let other = reader.join().unwrap();
        assert!(other.is_behind(&written), "a reader comes after the last writer");
        follower.join().unwrap();
        world.require_behind(2, &[&work, &other])
    });
}

#[test]
fn loom_a_writer_is_behind_two_writers_of_disjoint_parts() {
    check(3, |world| {
        world.submit(0, Access::Write);
        let writer = world.spawn(|world| world.submit(1, Access::Write));
        let follower = world.spawn(|world| {
            world.follow(2, 0);
            world.follow(2, 1);
        });
        let work = world.submit(0, Access::Write);
        let other = writer.join().unwrap();
        follower.join().unwrap();
        world.require_behind(2, &[&work, &other])
    });
}
