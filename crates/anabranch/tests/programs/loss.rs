//! Contexts that are lost while their work is in flight.

use crate::awaited::poll_once;
use crate::environment::{LENGTH, is_on_cuda};
use crate::generate::work;
use crate::operation::Operation;
use crate::world::{Future, Place, World};
use anabranch::{Buffer, CaptureMode, DualModule, HostFunction, LaunchConfig, PinnedBuffer, Stream};
use futures::executor::block_on;
use proptest::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// How a thread's contexts end.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// The device whose context is lost.
    device: usize,
    /// Streams that are held up by then, and stay so.
    held: Vec<usize>,
    /// Whether a kernel runs on until everything is dropped, where there are threads for that, and then writes its memory.
    runs_on: bool,
    /// Whether streams capture by then.
    captures: bool,
    /// What is queued at last.
    queued: Vec<Operation>,
    /// The seed of the order in which everything is dropped, and how much of it on another thread.
    order: u64,
    elsewhere: bool,
}

pub(crate) fn loss() -> impl Strategy<Value = Loss> {
    let held = prop::collection::vec(0..4usize, 0..4);
    let queued = prop::collection::vec(work(), 0..4);
    (0..2usize, held, any::<bool>(), any::<bool>(), queued, any::<u64>(), any::<bool>()).prop_map(
        |(device, held, runs_on, captures, queued, order, elsewhere)| Loss {
            device,
            held,
            runs_on,
            captures,
            queued,
            order,
            elsewhere,
        },
    )
}

/// Something that is to be dropped.
type Thing = Box<dyn Send>;

/// A kernel that runs until this is dropped.
struct Running {
    ends: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl Running {
    /// Ends it, and waits until it has written its memory.
    fn end(mut self) {
        self.ends = None;
        self.ended.recv().unwrap();
    }
}

/// Memory of another context, which nobody else writes.
struct Canary {
    stream: Stream,
    buffer: Buffer<u32>,
    pinned: PinnedBuffer<u32>,
    words: u32,
}

impl Canary {
    fn assert_lives(&mut self) {
        assert_eq!(self.stream.download(&self.buffer).unwrap(), [self.words; LENGTH], "in another context");
        let found = self.pinned.read(|words| words.to_vec()).unwrap();
        assert_eq!(found, [self.words; LENGTH], "in another context");
        self.words += 1;
        self.stream.fill(&mut self.buffer, self.words).unwrap();
        self.stream.copy(&mut self.pinned, &self.buffer).unwrap();
    }
}

impl World<'_> {
    fn canary(&self, device: usize) -> Canary {
        let context = &self.environment.contexts[device];
        let stream = context.create_stream().unwrap();
        let buffer = stream.allocate_zeroed(LENGTH).unwrap();
        Canary { buffer, stream, pinned: context.allocate_pinned(LENGTH).unwrap(), words: 0 }
    }

    /// Loses a context, with what is queued in it, and drops everything.
    pub(crate) fn lose(mut self, loss: &Loss) {
        let device = loss.device % self.places.len();
        let mut things: Vec<Thing> = Vec::new();
        let running = (loss.runs_on && self.environment.has_workers).then(|| self.runs_on(device, &mut things));
        for operation in &loss.queued {
            self.step(operation);
        }
        for &stream in &loss.held {
            let stream = self.stream(stream);
            self.hold(&stream);
        }
        let streams: Vec<_> = (0..self.streams.len()).map(|stream| self.stream(stream)).collect();
        for graph in 0..self.graphs.len() {
            if is_on_cuda() && self.graphs[graph].allocates {
                continue;
            }
            let executable = &self.graphs[graph].executable;
            if let Some(stream) = streams.iter().find(|slot| slot.stream.context().id() == executable.context().id()) {
                executable.launch(&stream.stream).unwrap();
            }
        }
        if loss.captures {
            things.push(Box::new(self.captures(device)));
        }
        // What waits for other contexts does so though its own is lost.
        self.let_others_go(device);
        let mut canaries = vec![self.canary(device)];
        let faulty = self.places[device].context.create_stream().unwrap();
        faulty.launch_checked(&self.kernels[device].fault, &LaunchConfig::new(1, 1), ()).unwrap();
        let error = faulty.synchronize().unwrap_err();
        assert!(error.is_sticky(), "{error}");
        canaries.push(self.canary(device));
        if running.is_none() {
            // Calls that wait for a stream wait for what it is running.
            self.use_lost(device, &mut things);
        }
        things.append(&mut self.things());
        drop(self);
        let mut random = fastrand::Rng::with_seed(loss.order);
        random.shuffle(&mut things);
        for (index, thing) in things.into_iter().enumerate() {
            if loss.elsewhere && random.u8(..) < 60 {
                std::thread::scope(|scope| _ = scope.spawn(|| drop(thing)));
            } else {
                drop(thing);
            }
            if index % 8 == 0 {
                canaries.iter_mut().for_each(Canary::assert_lives);
            }
        }
        canaries.iter_mut().for_each(Canary::assert_lives);
        if let Some(running) = running {
            running.end();
        }
        canaries.iter_mut().for_each(Canary::assert_lives);
    }

    /// A kernel that has begun, in a stream of its own.
    fn runs_on(&mut self, device: usize, things: &mut Vec<Thing>) -> Running {
        let (ends, end) = channel::<()>();
        let (tell, begun) = channel();
        let end = Mutex::new(end);
        let function = HostFunction::new("runs on", &[8, 8], move |_, arguments| {
            let _ = tell.send(());
            let _ = end.lock().unwrap().recv();
            for memory in [arguments.slice::<u32>(0), arguments.slice::<u32>(1)] {
                (0..memory.len()).for_each(|index| memory.set(index, u32::MAX));
            }
            let _ = tell.send(());
        });
        // To load a module is to wait.
        self.let_go();
        let context = &self.places[device].context;
        let kernel = DualModule::new().host_function(function).load(context).unwrap().kernel("runs on").unwrap();
        let (home, stream) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut buffer = home.allocate_zeroed::<u32>(LENGTH).unwrap();
        let mut pinned = context.allocate_pinned::<u32>(LENGTH).unwrap();
        stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), (&mut buffer, &mut pinned)).unwrap();
        begun.recv().unwrap();
        things.extend([
            Box::new(buffer) as Thing,
            Box::new(pinned),
            Box::new(stream),
            Box::new(home),
            Box::new(kernel),
        ]);
        Running { ends: Some(ends), ended: begun }
    }

    /// Two streams in a capture that nobody ends, and a buffer that it uses.
    fn captures(&mut self, device: usize) -> (Stream, Stream, Buffer<u32>) {
        let context = &self.places[device].context;
        let (origin, member) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut buffer = origin.allocate_zeroed::<u32>(LENGTH).unwrap();
        origin.begin_capture(CaptureMode::Relaxed).unwrap();
        origin.fill(&mut buffer, 1).unwrap();
        member.wait_stream(&origin).unwrap();
        member.fill(&mut buffer, 2).unwrap();
        (origin, member, buffer)
    }

    /// Calls in the lost context return, and what gives results returns none.
    fn use_lost(&mut self, device: usize, things: &mut Vec<Thing>) {
        let Place { context, buffers, pinned, .. } = &mut self.places[device];
        assert!(context.synchronize().is_err());
        for slot in self.streams.iter().filter(|slot| slot.device == device && slot.is_usable_here()) {
            let stream = &slot.stream;
            assert!(stream.synchronize().is_err());
            assert!(stream.upload(&[1u32; 3]).is_err());
            assert!(block_on(stream.completion_future()).is_err());
            let _ = stream.record_event();
            for slot in &mut *buffers {
                if let Some(buffer) = &mut slot.buffer {
                    assert!(stream.download(&*buffer).is_err());
                    assert!(stream.sync_scope(|scope| scope.copy_from_host(buffer, &[1; LENGTH])).is_err());
                }
            }
            assert!(block_on(stream.enqueue_async(|stream| stream.allocate_zeroed::<u32>(LENGTH))).is_err());
            let _ = stream.launch_host_func(|| ());
        }
        for slot in pinned {
            let _ = slot.buffer.read(|words| words.len());
            let _ = slot.buffer.write(|words| words.fill(1));
            let _ = slot.buffer.is_idle();
        }
        for Future { future, .. } in &mut self.futures {
            let _ = poll_once(future);
        }
        if let Ok(memory) = context.allocate_pinned::<u32>(LENGTH) {
            things.push(Box::new(memory));
        }
    }

    /// Everything that there is.
    fn things(&mut self) -> Vec<Thing> {
        let mut things: Vec<Thing> = Vec::new();
        fn add<T: Send + 'static>(things: &mut Vec<Thing>, more: impl IntoIterator<Item = T>) {
            things.extend(more.into_iter().map(|thing| Box::new(thing) as Thing));
        }
        for place in std::mem::take(&mut self.places) {
            let Place { context, buffers, pinned, events, pool } = place;
            add(&mut things, buffers.into_iter().map(|slot| slot.buffer));
            add(&mut things, pinned.into_iter().map(|slot| slot.buffer));
            add(&mut things, events);
            add(&mut things, [pool]);
            add(&mut things, [context]);
        }
        add(&mut things, self.streams.drain(..).map(|slot| Arc::clone(&slot.stream)));
        add(&mut things, self.graphs.drain(..).map(|graph| graph.executable));
        add(&mut things, self.futures.drain(..).map(|future| future.future));
        add(&mut things, self.kernels.drain(..).map(|kernels| kernels.combine));
        add(&mut things, self.gates.drain(..).map(|(_, signal)| signal));
        things
    }
}
