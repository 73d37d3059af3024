//! What programs leak: it costs its memory, and nothing else.

use crate::awaited::poll_once;
use crate::captured::two;
use crate::environment::{Environment, LENGTH};
use crate::streams::{StreamKind, stream_kind};
use crate::world::World;
use anabranch::{CaptureMode, LaunchConfig, Stream, WaitCondition};
use futures::StreamExt;
use proptest::prelude::*;
use std::mem::{ManuallyDrop, forget as forget_it};
use std::sync::{Arc, Mutex};

/// How something is leaked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// It is kept until all else of the program is gone. To the library that is the same, and a test can go on after it.
    Kept,
    Forgotten,
    ManuallyDropped,
    Boxed,
    /// By a reference to itself.
    Cycle,
}

/// What is leaked.
#[derive(Clone, Debug)]
pub(crate) enum Forget {
    Buffer {
        stream: usize,
        from: usize,
        way: Way,
    },
    Pinned {
        stream: usize,
        pinned: usize,
        way: Way,
    },
    Event {
        stream: usize,
        event: usize,
        way: Way,
    },
    Pool {
        stream: usize,
        way: Way,
    },
    Stream {
        stream: usize,
        kind: StreamKind,
        way: Way,
    },
    /// With a stream that waits for it.
    Signal {
        stream: usize,
        way: Way,
    },
    Graph {
        graph: usize,
        way: Way,
    },
    /// A module of which a kernel is queued.
    Kernel {
        stream: usize,
        to: usize,
        way: Way,
    },
    /// A stream that captures until the program ends: nobody can wait for its context until then.
    Capture {
        stream: usize,
    },
    Pipeline {
        stream: usize,
        chunks: u32,
        polled: bool,
        way: Way,
    },
    BorrowedStream {
        stream: usize,
    },
    CurrentStream {
        stream: usize,
    },
    CaptureMode {
        stream: usize,
        mode: u8,
    },
    /// A future of the host's access to pinned memory, which borrows it.
    HostAccess {
        stream: usize,
        pinned: usize,
    },
    /// Views of buffers, and a call of a kernel with them.
    Views {
        stream: usize,
        to: usize,
        from: usize,
    },
}

pub(crate) fn way() -> impl Strategy<Value = Way> {
    use Way::{Boxed, Cycle, Forgotten, Kept, ManuallyDropped};
    prop_oneof![
        12 => Just(Kept),
        1 => prop::sample::select(vec![Forgotten, ManuallyDropped, Boxed, Cycle]),
    ]
}

pub(crate) fn forget() -> impl Strategy<Value = Forget> {
    use Forget::*;
    let n = || 0..4usize;
    prop_oneof![
        4 => (n(), n(), way()).prop_map(|(stream, from, way)| Buffer { stream, from, way }),
        3 => (n(), n(), way()).prop_map(|(stream, pinned, way)| Pinned { stream, pinned, way }),
        2 => (n(), n(), way()).prop_map(|(stream, event, way)| Event { stream, event, way }),
        1 => (n(), way()).prop_map(|(stream, way)| Pool { stream, way }),
        3 => (n(), stream_kind(), way()).prop_map(|(stream, kind, way)| Stream { stream, kind, way }),
        2 => (n(), way()).prop_map(|(stream, way)| Signal { stream, way }),
        3 => (n(), way()).prop_map(|(graph, way)| Graph { graph, way }),
        1 => (n(), n(), way()).prop_map(|(stream, to, way)| Kernel { stream, to, way }),
        1 => n().prop_map(|stream| Capture { stream }),
        1 => (n(), 1..4u32, any::<bool>(), way())
            .prop_map(|(stream, chunks, polled, way)| Pipeline { stream, chunks, polled, way }),
        1 => n().prop_map(|stream| BorrowedStream { stream }),
        1 => n().prop_map(|stream| CurrentStream { stream }),
        1 => (n(), 0..3u8).prop_map(|(stream, mode)| CaptureMode { stream, mode }),
        1 => (n(), n()).prop_map(|(stream, pinned)| HostAccess { stream, pinned }),
        1 => (n(), n(), n()).prop_map(|(stream, to, from)| Views { stream, to, from }),
    ]
}

/// Something that is kept, and how many allocations it may keep.
pub(crate) struct Leak {
    pub(crate) allocations: usize,
    #[allow(dead_code, reason = "kept for its drop")]
    object: Box<dyn Send>,
}

/// What was leaked.
#[derive(Default)]
pub(crate) struct Leaks {
    pub(crate) kept: Vec<Leak>,
    pub(crate) capturing: Vec<Stream>,
    /// How many allocations may never be freed.
    pub(crate) forgotten: usize,
    pub(crate) has_forgotten: bool,
}

impl Environment {
    /// Leaks an object which keeps so many allocations at most.
    pub(crate) fn leak<T: Send + 'static>(&self, way: Way, allocations: usize, object: T) {
        struct Cycle<T>(#[allow(dead_code, reason = "it is leaked")] T, Mutex<Option<Arc<Self>>>);
        let mut leaks = self.leaks.lock().unwrap();
        if let Way::Kept = way {
            return leaks.kept.push(Leak { allocations, object: Box::new(object) });
        }
        leaks.forgotten += allocations;
        leaks.has_forgotten = true;
        match way {
            Way::Kept | Way::Forgotten => forget_it(object),
            Way::ManuallyDropped => _ = ManuallyDrop::new(object),
            Way::Boxed => _ = Box::leak(Box::new(object)),
            Way::Cycle => {
                let cycle = Arc::new(Cycle(object, Mutex::new(None)));
                *cycle.1.lock().unwrap() = Some(cycle.clone());
            }
        }
    }

    /// Notes that something was forgotten that keeps its context.
    fn has_forgotten(&self) {
        self.leaks.lock().unwrap().has_forgotten = true;
    }
}

impl World<'_> {
    #[allow(clippy::too_many_lines, reason = "it is a list")]
    pub(crate) fn forget(&mut self, forget: &Forget) {
        match *forget {
            Forget::Buffer { stream, from, way } => {
                let (buffer, _) = self.take(&self.stream(stream), from);
                self.environment.leak(way, 1, buffer);
            }
            Forget::Pinned { stream, pinned, way } => {
                let (buffer, _) = self.take_pinned(&self.stream(stream), pinned);
                self.environment.leak(way, 1, buffer);
            }
            Forget::Event { stream, event, way } => {
                let event = self.renew_event(self.stream(stream).device, event);
                self.environment.leak(way, 0, event);
            }
            Forget::Pool { stream, way } => {
                let pool = self.renew_pool(self.stream(stream).device);
                self.environment.leak(way, 0, pool);
            }
            Forget::Stream { stream, kind, way } => {
                let stream = self.renew_stream(stream, kind);
                self.environment.leak(way, 0, stream.stream);
            }
            Forget::Signal { stream, way } => {
                let stream = self.stream(stream);
                let signal = stream.stream.context().create_signal().unwrap();
                stream.stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
                signal.set(1);
                self.environment.leak(way, 0, signal);
            }
            Forget::Graph { graph, way } => {
                if !self.graphs.is_empty() {
                    let graph = self.graphs.swap_remove(graph % self.graphs.len());
                    self.environment.leak(way, graph.most_allocations(), graph.executable);
                }
            }
            Forget::Kernel { stream, to, way } => {
                // To load a module is to wait.
                self.let_go();
                let stream = self.stream(stream);
                let to = self.buffer(&stream, to);
                let module = anabranch::DualModule::new()
                    .host_function(anabranch::HostFunction::new("fill", &[8], |_, arguments| {
                        let to = arguments.slice::<u32>(0);
                        (0..to.len()).for_each(|index| to.set(index, 7));
                    }))
                    .load(&stream.stream.context());
                let kernel = module.unwrap().kernel("fill").unwrap();
                let slot = &mut self.places[stream.device].buffers[to];
                let config = LaunchConfig::new(1, 1);
                stream.stream.launch_checked(&kernel, &config, (slot.buffer.as_mut().unwrap(),)).unwrap();
                self.memories[slot.number].fill(7);
                self.environment.leak(way, 0, kernel);
            }
            Forget::Capture { stream } => {
                let context = self.places[self.stream(stream).device].context.clone();
                let (origin, member) = (context.create_stream().unwrap(), context.create_stream().unwrap());
                let mut buffer = origin.allocate_zeroed::<u32>(LENGTH).unwrap();
                origin.begin_capture(CaptureMode::Relaxed).unwrap();
                origin.fill(&mut buffer, 1).unwrap();
                member.wait_stream(&origin).unwrap();
                member.fill(&mut buffer, 2).unwrap();
                self.environment.leaks.lock().unwrap().capturing.push(origin);
            }
            Forget::Pipeline { stream, chunks, polled, way } => {
                let stream = self.stream(stream).stream;
                let mut pipeline = anabranch::Pipeline::new(stream, 2, 0..chunks, |stream: &Stream, chunk| {
                    let mut buffer = stream.allocate_zeroed::<u32>(LENGTH)?;
                    stream.fill(&mut buffer, chunk)?;
                    Ok(buffer)
                });
                if polled {
                    let _ = poll_once(&mut pipeline.next());
                }
                self.environment.leak(way, 2, pipeline);
            }
            Forget::BorrowedStream { stream } => {
                forget_it(self.stream(stream).stream.to_borrowed());
                self.environment.has_forgotten();
            }
            Forget::CurrentStream { stream } => {
                let stream = self.stream(stream);
                let current = || Stream::with_current(|current| current.map(Stream::id));
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        forget_it(stream.stream.enter());
                        let ends = stream.stream.context().create_stream().unwrap();
                        forget_it(ends.enter());
                        assert_eq!(current(), Some(ends.id()));
                        drop(ends);
                        assert_eq!(current(), Some(stream.stream.id()));
                    });
                });
            }
            Forget::CaptureMode { stream, mode } => {
                let context = &self.places[self.stream(stream).device].context;
                let mode = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed][usize::from(mode)];
                std::thread::scope(|scope| {
                    scope.spawn(|| forget_it(context.exchange_capture_mode(mode).unwrap()));
                });
                self.environment.has_forgotten();
            }
            Forget::HostAccess { stream, pinned } => {
                let (device, pinned) = (self.stream(stream).device, self.pinned(pinned));
                let mut future = Box::pin(self.places[device].pinned[pinned].buffer.as_slice_async());
                let _ = poll_once(&mut future);
                forget_it(future);
                self.environment.has_forgotten();
            }
            Forget::Views { stream, to, from } => {
                let stream = self.stream(stream);
                let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
                if let Some([to, from]) = two(&mut self.places[stream.device], to, from) {
                    let (head, tail) = to.slice_mut(..).unwrap().split_at(1).unwrap();
                    forget_it((head, tail, from.slice(..)));
                }
            }
        }
    }
}
