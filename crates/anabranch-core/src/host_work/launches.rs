//! Where a host function of graphs was launched, which decides whose work a panic of it is.
//!
//! A driver that says in which stream it runs a host function settles that. Others do not: a panic may then be that of each launch
//! which is not known to be complete, and of no other. It is reported once, to the first of their streams, or of the contexts of
//! these, that is asked.

use super::RepeatableHostWork;
use crate::drop_error;
use crate::error::Error;
use crate::panics::{PanicPlace, PanicReports, panic_failure};
use crate::ranks;
use crate::timeline::Timeline;
use anabranch_hal::{LaunchedIn, ObjectId, Thrown};
use anabranch_sync::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Where host functions are launched.
#[derive(Clone)]
pub struct LaunchPlace {
    /// The executable graph that is launched, unless the host function is submitted itself. Launches of one executable graph run
    /// one after the other.
    pub executable: Option<ObjectId>,
    /// The id of the stream.
    pub stream: u64,
    /// How far the stream has come.
    pub timeline: Arc<Timeline>,
    /// The reports of the stream's context.
    pub panics: Weak<PanicReports>,
    /// What is dropped when nobody can ask for the stream's panics any more.
    pub owner: Weak<dyn Any + Send + Sync>,
}

impl LaunchPlace {
    fn is(&self, other: &Self) -> bool {
        self.executable == other.executable && Arc::ptr_eq(&self.timeline, &other.timeline)
    }
}

/// The launches of a host function that may not be complete, and the last one.
pub(super) struct Launches(Mutex<Known>);

#[derive(Default)]
struct Known {
    launches: SmallVec<[Launch; 1]>,
    /// The number of launches that were queued.
    queued: u64,
    /// The number of launches from which on complete ones are looked for.
    sweep_at: usize,
}

/// All launches of one executable graph in one stream.
struct Launch {
    place: LaunchPlace,
    /// How many are being queued.
    queueing: usize,
    /// The number of the last one that was queued, beginning with 1, and the value of its work in the stream's timeline.
    order: u64,
    value: u64,
    /// Whether all of it was found to be complete.
    is_over: bool,
}

impl Launch {
    fn is_known_complete(&self) -> bool {
        self.queueing == 0 && self.place.timeline.is_complete(self.value)
    }

    fn is_gone(&self) -> bool {
        self.place.owner.strong_count() == 0
    }

    /// Takes in another launch of the context, in a stream that nobody can ask either.
    fn take_in(&mut self, other: Self) {
        let is_chain = self.place.executable.is_some() && self.place.executable == other.place.executable;
        if other.order > self.order {
            *self = other;
        }
        if !is_chain {
            // Nobody will know when both are complete.
            (self.place.executable, self.value) = (None, u64::MAX);
        }
    }
}

impl Known {
    fn find(&mut self, place: &LaunchPlace) -> Option<usize> {
        self.launches.iter().rposition(|launch| launch.place.is(place))
    }

    /// Forgets launches that are complete, except for the last one.
    fn sweep(&mut self) {
        let mut complete = HashMap::new();
        for launch in self.launches.iter().filter(|launch| launch.is_known_complete()) {
            if let Some(executable) = launch.place.executable {
                let order = complete.entry(executable).or_insert(0);
                *order = launch.order.max(*order);
            }
        }
        // A launch comes behind the earlier ones of its executable graph.
        let is_before_a_complete_one = |launch: &Launch| {
            let last = launch.place.executable.and_then(|executable| complete.get(&executable));
            launch.queueing == 0 && last.is_some_and(|last| launch.order <= *last)
        };
        let mut kept: SmallVec<[Launch; 1]> = SmallVec::new();
        for mut launch in std::mem::take(&mut self.launches) {
            launch.is_over = launch.is_known_complete() || is_before_a_complete_one(&launch);
            if launch.place.panics.strong_count() == 0 || (launch.is_over && launch.order != self.queued) {
                continue;
            }
            let is_alike = |known: &&mut Launch| known.is_gone() && known.place.panics.ptr_eq(&launch.place.panics);
            match kept.iter_mut().find(|known| launch.is_gone() && is_alike(known)) {
                Some(known) => known.take_in(launch),
                None => kept.push(launch),
            }
        }
        self.launches = kept;
        self.sweep_at = 2 * self.launches.len() + 2;
    }

    /// The streams whose work a panic on this thread may be, by their contexts.
    fn places(&mut self) -> SmallVec<[PanicPlace; 1]> {
        self.sweep();
        let of_driver = LaunchedIn::stream().filter(|stream| self.launches.iter().any(|it| it.place.stream == *stream));
        let all_over = self.launches.iter().all(|launch| launch.is_over);
        let may_panic = |launch: &&Launch| match of_driver {
            Some(stream) => launch.place.stream == stream,
            None => all_over || !launch.is_over,
        };
        let mut places: SmallVec<[PanicPlace; 1]> = SmallVec::new();
        for LaunchPlace { stream, panics, .. } in self.launches.iter().filter(may_panic).map(|launch| &launch.place) {
            let Some(panics) = panics.upgrade() else { continue };
            match places.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &panics)) {
                Some((_, streams)) if streams.contains(stream) => {}
                Some((_, streams)) => streams.push(*stream),
                None => places.push((panics, SmallVec::from_slice(&[*stream]))),
            }
        }
        places
    }
}

impl Launches {
    pub(super) fn new() -> Self {
        Self(Mutex::new(ranks::HOST_WORK_STREAMS, Known::default()))
    }

    /// Called before the driver is asked to queue a launch, because that may panic at once.
    fn begin(&self, place: &LaunchPlace) {
        let mut known = self.0.lock();
        if let Some(index) = known.find(place) {
            known.launches[index].queueing += 1;
            known.launches[index].is_over = false;
            return;
        }
        if known.launches.len() > known.sweep_at {
            known.sweep();
        }
        known.launches.push(Launch { place: place.clone(), queueing: 1, order: 0, value: 0, is_over: false });
    }

    /// Called when the driver has answered.
    fn end(&self, place: &LaunchPlace, was_queued: bool) {
        let mut known = self.0.lock();
        let Some(index) = known.find(place) else { return };
        let order = known.queued + 1;
        let launch = &mut known.launches[index];
        launch.queueing -= 1;
        if was_queued {
            // Not the value that was found before: a point that was added in the meantime may not cover the launch.
            (launch.order, launch.value) = (order, place.timeline.value().max(launch.value));
            known.queued = order;
        } else if launch.order == 0 && launch.queueing == 0 {
            known.launches.swap_remove(index);
        }
    }

    /// Notes a panic of a launch that is not complete, or else of what came of the last launch, such as a drop.
    #[cold]
    pub(super) fn note(&self, thrown: &Thrown) {
        let places = self.0.lock().places();
        if places.is_empty() {
            return drop_error::report(Err(Error::driver("dropping a host function", panic_failure(thrown))));
        }
        PanicReports::note_in(&places, thrown);
    }
}

/// Host functions that are being launched, until the driver has answered.
pub struct Launching<'a> {
    work: &'a [Arc<RepeatableHostWork>],
    place: LaunchPlace,
    was_queued: bool,
}

impl<'a> Launching<'a> {
    /// Notes that they are launched in a stream, whose context reports their panics. `None`: there are none.
    #[inline]
    pub fn begin(work: &'a [Arc<RepeatableHostWork>], place: impl FnOnce() -> LaunchPlace) -> Option<Self> {
        if work.is_empty() {
            return None;
        }
        let place = place();
        work.iter().for_each(|work| work.launches.begin(&place));
        Some(Self { work, place, was_queued: true })
    }

    /// The driver has answered. Launches of which it may have queued a part count as queued.
    #[inline]
    pub fn end(mut self, was_queued: bool) {
        self.was_queued = was_queued;
    }
}

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        self.work.iter().for_each(|work| work.launches.end(&self.place, self.was_queued));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{LaunchPlace, Launches};
    use crate::panics::PanicReports;
    use crate::timeline::{Timeline, TimelinePoint};
    use anabranch_hal::{LaunchedIn, ObjectId, contain};
    use std::any::Any;
    use std::panic::resume_unwind;
    use std::sync::Arc;

    /// A stream that can be asked for panics until it is dropped.
    struct Stream {
        id: u64,
        timeline: Arc<Timeline>,
        panics: Arc<PanicReports>,
        owner: Arc<dyn Any + Send + Sync>,
    }

    impl Stream {
        fn new(id: u64, panics: &Arc<PanicReports>) -> Self {
            Self { id, timeline: Timeline::new(id), panics: panics.clone(), owner: Arc::new(()) }
        }

        fn place(&self, executable: Option<ObjectId>) -> LaunchPlace {
            LaunchPlace {
                executable,
                stream: self.id,
                timeline: self.timeline.clone(),
                panics: Arc::downgrade(&self.panics),
                owner: Arc::downgrade(&self.owner),
            }
        }

        fn launch(&self, launches: &Launches, executable: Option<ObjectId>) {
            launches.begin(&self.place(executable));
            launches.end(&self.place(executable), true);
        }

        fn is_complete(&self) {
            TimelinePoint::advance(&self.timeline).reached();
        }

        fn is_told(&self) -> bool {
            self.panics.report_stream(self.id, "testing", String::new).is_err()
        }
    }

    fn panic(launches: &Launches) {
        launches.note(&contain(|| resume_unwind(Box::new("on purpose"))).unwrap_err());
    }

    /// Where a panic of now is told, for each stream that is asked.
    fn told(launches: &Launches, streams: &[Stream]) -> Vec<u64> {
        let mut told = Vec::new();
        for stream in streams {
            panic(launches);
            told.extend(stream.is_told().then_some(stream.id));
            let others = streams.iter().filter(|other| other.is_told()).count();
            assert!(!told.contains(&stream.id) || others == 0, "it is told once");
        }
        told
    }

    #[test]
    fn a_panic_may_be_that_of_each_launch_that_is_not_complete() {
        let (launches, panics) = (Launches::new(), Arc::new(PanicReports::default()));
        let streams: Vec<_> = (0..100).map(|id| Stream::new(id, &panics)).collect();
        // Of several executables, so that no launch comes behind another.
        streams.iter().for_each(|stream| stream.launch(&launches, Some(ObjectId::next())));
        assert_eq!(told(&launches, &streams), (0..100).collect::<Vec<_>>());
        streams[10..].iter().for_each(Stream::is_complete);
        assert_eq!(told(&launches, &streams), (0..10).collect::<Vec<_>>());
        streams[..10].iter().for_each(Stream::is_complete);
        assert_eq!(told(&launches, &streams), [99], "such as in a drop");
        assert_eq!(launches.0.lock().launches.len(), 1);
    }

    #[test]
    fn the_launch_that_the_driver_names_is_the_one() {
        let (launches, panics) = (Launches::new(), Arc::new(PanicReports::default()));
        let streams: Vec<_> = (0..4).map(|id| Stream::new(id, &panics)).collect();
        streams.iter().for_each(|stream| stream.launch(&launches, None));
        // SAFETY: the test is about the panics of these streams.
        let launched = unsafe { LaunchedIn::enter(2) };
        assert_eq!(told(&launches, &streams), [2]);
        drop(launched);
        // SAFETY: as above.
        let _launched = unsafe { LaunchedIn::enter(1000) };
        assert_eq!(told(&launches, &streams), [0, 1, 2, 3], "a stream that is not known");
    }

    #[test]
    fn launches_before_a_complete_one_of_their_executable_are_complete() {
        let (launches, panics) = (Launches::new(), Arc::new(PanicReports::default()));
        let streams: Vec<_> = (0..4).map(|id| Stream::new(id, &panics)).collect();
        let executable = Some(ObjectId::next());
        streams.iter().for_each(|stream| stream.launch(&launches, executable));
        streams[0].launch(&launches, executable);
        streams[3].launch(&launches, Some(ObjectId::next()));
        streams[2].is_complete();
        assert_eq!(told(&launches, &streams), [0, 3]);
    }

    #[test]
    fn launches_that_are_being_queued_may_run_and_refused_ones_do_not() {
        let (launches, panics) = (Launches::new(), Arc::new(PanicReports::default()));
        let streams: Vec<_> = (0..3).map(|id| Stream::new(id, &panics)).collect();
        let [complete, launching, _] = [0, 1, 2].map(|stream| &streams[stream]);
        complete.launch(&launches, None);
        launches.begin(&launching.place(None));
        streams.iter().for_each(Stream::is_complete);
        assert_eq!(told(&launches, &streams), [1], "a point that was added meanwhile does not cover the launch");
        launches.end(&launching.place(None), false);
        assert_eq!(told(&launches, &streams), [0]);
        // A refused launch leaves an earlier one as it was.
        launching.launch(&launches, None);
        launches.begin(&launching.place(None));
        launches.end(&launching.place(None), false);
        assert_eq!(told(&launches, &streams), [1]);
    }

    #[test]
    fn one_of_several_contexts_reports_a_panic() {
        let launches = Launches::new();
        let panics = [(); 2].map(|()| Arc::new(PanicReports::default()));
        let streams = [0, 1, 2, 3].map(|id| Stream::new(7 + id / 2, &panics[id as usize % 2]));
        let executable = Some(ObjectId::next());
        streams.iter().for_each(|stream| stream.launch(&launches, executable));
        for asked in 0..4 {
            panic(&launches);
            assert!(streams[asked].is_told());
            assert!(streams.iter().all(|other| !other.is_told()));
            assert!(panics.iter().all(|panics| panics.report_any("testing", String::new).is_ok()));
        }
        let [_, gone] = panics;
        let left: Vec<_> = streams.into_iter().filter(|stream| !Arc::ptr_eq(&stream.panics, &gone)).collect();
        drop(gone);
        assert_eq!(told(&launches, &left), [7, 8]);
        assert_eq!(launches.0.lock().launches.len(), 2, "launches in a context that is gone are forgotten");
    }

    #[test]
    fn launches_in_streams_that_are_gone_are_those_of_their_context() {
        let (launches, panics) = (Launches::new(), Arc::new(PanicReports::default()));
        let (one, other) = (Some(ObjectId::next()), Some(ObjectId::next()));
        for executable in [one, other, None] {
            (0..1000).for_each(|id| Stream::new(id, &panics).launch(&launches, executable));
            assert!(launches.0.lock().launches.len() < 10);
            panic(&launches);
            assert!(panics.report_any("testing", String::new).is_err());
        }
        let stream = Stream::new(1000, &panics);
        stream.launch(&launches, one);
        panic(&launches);
        assert!(stream.is_told() && panics.report_any("testing", String::new).is_ok());
    }
}
