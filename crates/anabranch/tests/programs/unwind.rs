//! Code of programs that unwinds inside of the library, wherever the library runs code of a program.

use crate::captured::two;
use crate::environment::LENGTH;
use crate::run::half;
use crate::streams::StreamSlot;
use crate::waker::{Moment, UnwindingWaker};
use crate::world::{ON_PURPOSE, World, panic_on_purpose};
use anabranch::{CaptureMode, DualModule, HostFunction, LaunchConfig, NodeWork, Result, Status, Stream};
use futures::StreamExt;
use futures::executor::block_on;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

/// Where code unwinds.
#[derive(Clone, Debug)]
pub(crate) enum Unwind {
    /// A kernel, before it writes.
    Kernel {
        stream: usize,
        to: usize,
    },
    Callback {
        stream: usize,
    },
    RepeatableHostFunction {
        stream: usize,
    },
    /// A host function that drops a buffer and may panic, and whose value panics when it is dropped.
    HostFunction {
        stream: usize,
        from: usize,
        panics: bool,
    },
    /// The drop of a kernel's value, and of a host function's that is refused.
    DropOfKernel {
        stream: usize,
    },
    DropOfRefused {
        stream: usize,
    },
    /// A node of a graph that may panic, and whose value panics when it is dropped.
    Node {
        stream: usize,
        panics: bool,
        launches: usize,
    },
    /// A graph whose kernel panics between two writes.
    KernelNode {
        stream: usize,
        to: usize,
        value: u32,
    },
    /// A closure that captures.
    Capture {
        stream: usize,
        other: usize,
        to: usize,
        from: usize,
        conditional: bool,
    },
    CaptureInto {
        stream: usize,
        value: u32,
    },
    /// A closure that has a slice of pinned memory.
    HostAccess {
        stream: usize,
        pinned: usize,
        value: u32,
        writes: bool,
    },
    Pipeline {
        stream: usize,
        depth: usize,
        chunks: u32,
        at: u32,
        iterator: bool,
    },
    /// The waker of a future, which is finished or given up.
    Waker {
        stream: usize,
        moments: Vec<Moment>,
        finished: bool,
    },
    /// The value of a future.
    Value {
        stream: usize,
        polled: bool,
    },
    CurrentStream {
        stream: usize,
    },
}

pub(crate) fn unwind() -> impl Strategy<Value = Unwind> {
    use Unwind::*;
    let n = || 0..4usize;
    let moment = prop::sample::select(vec![Moment::Clone, Moment::Wake, Moment::Drop]);
    prop_oneof![
        2 => (n(), n()).prop_map(|(stream, to)| Kernel { stream, to }),
        1 => n().prop_map(|stream| Callback { stream }),
        1 => n().prop_map(|stream| RepeatableHostFunction { stream }),
        2 => (n(), n(), any::<bool>()).prop_map(|(stream, from, panics)| HostFunction { stream, from, panics }),
        1 => n().prop_map(|stream| DropOfKernel { stream }),
        1 => n().prop_map(|stream| DropOfRefused { stream }),
        2 => (n(), any::<bool>(), 0..3usize).prop_map(|(stream, panics, launches)| Node { stream, panics, launches }),
        1 => (n(), n(), any::<u32>()).prop_map(|(stream, to, value)| KernelNode { stream, to, value }),
        3 => (n(), n(), n(), n(), any::<bool>())
            .prop_map(|(stream, other, to, from, conditional)| Capture { stream, other, to, from, conditional }),
        1 => (n(), any::<u32>()).prop_map(|(stream, value)| CaptureInto { stream, value }),
        3 => (n(), n(), any::<u32>(), any::<bool>())
            .prop_map(|(stream, pinned, value, writes)| HostAccess { stream, pinned, value, writes }),
        2 => (n(), 1..4usize, 0..5u32, 0..5u32, any::<bool>())
            .prop_map(|(stream, depth, chunks, at, iterator)| Pipeline { stream, depth, chunks, at, iterator }),
        3 => (n(), prop::collection::vec(moment, 1..3), any::<bool>())
            .prop_map(|(stream, moments, finished)| Waker { stream, moments, finished }),
        2 => (n(), any::<bool>()).prop_map(|(stream, polled)| Value { stream, polled }),
        1 => n().prop_map(|stream| CurrentStream { stream }),
    ]
}

/// Panics when it is dropped, unless something unwinds already.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic_on_purpose();
        }
    }
}

/// Calls what unwinds out of the library. Whatever else unwinds goes on.
fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(expect_on_purpose).ok()
}

fn expect_on_purpose(payload: Box<dyn std::any::Any + Send>) {
    if payload.downcast_ref::<&'static str>() != Some(&ON_PURPOSE) {
        std::panic::resume_unwind(payload);
    }
}

fn kernel(stream: &Stream, function: HostFunction) -> anabranch::Kernel {
    let name = function.name().to_owned();
    DualModule::new().host_function(function).load(&stream.context()).unwrap().kernel(&name).unwrap()
}

impl World<'_> {
    #[allow(clippy::too_many_lines, reason = "it is a list")]
    pub(crate) fn unwind(&mut self, unwind: &Unwind) {
        match *unwind {
            Unwind::Kernel { stream, to } => {
                let stream = self.stream(stream);
                let to = self.buffer(&stream, to);
                let buffer = self.places[stream.device].buffers[to].buffer.as_mut().unwrap();
                stream.will_panic();
                let kernel = &self.kernels[stream.device].panic;
                stream.stream.launch_checked(kernel, &LaunchConfig::new(2, 1), (buffer,)).unwrap();
            }
            Unwind::Callback { stream } => {
                let stream = self.stream(stream);
                stream.will_panic();
                stream.stream.add_callback(|_, _| panic_on_purpose()).unwrap();
            }
            Unwind::RepeatableHostFunction { stream } => {
                let stream = self.stream(stream);
                stream.will_panic();
                stream.stream.launch_repeatable_host_func(|| panic_on_purpose()).unwrap();
            }
            Unwind::HostFunction { stream, from, panics } => {
                let stream = self.stream(stream);
                let (buffer, _) = self.take(&stream, from);
                (0..2).for_each(|_| stream.will_panic());
                let dropped = PanicsInDrop;
                let function = move || {
                    let _dropped = &dropped;
                    drop(buffer);
                    if panics {
                        panic_on_purpose();
                    }
                };
                stream.stream.launch_host_func(function).unwrap();
            }
            Unwind::DropOfKernel { stream } => {
                // To load a module is to wait.
                self.let_go();
                let stream = self.stream(stream);
                let dropped = PanicsInDrop;
                let kernel = kernel(&stream.stream, HostFunction::new("drop", &[], move |_, _| _ = &dropped));
                stream.will_panic();
                stream.stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
            }
            Unwind::DropOfRefused { stream } => {
                let stream = self.stream(stream).stream.context().create_stream().unwrap();
                stream.begin_capture(CaptureMode::ThreadLocal).unwrap();
                let dropped = PanicsInDrop;
                let refused = stream.launch_host_func(move || _ = &dropped).unwrap_err();
                assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{refused}");
                stream.end_capture().unwrap();
            }
            Unwind::Node { stream, panics, launches } => {
                let stream = self.stream(stream);
                let mut graph = stream.stream.context().create_graph().unwrap();
                let dropped = PanicsInDrop;
                let function = move || {
                    let _dropped = &dropped;
                    if panics {
                        panic_on_purpose();
                    }
                };
                graph.add((), NodeWork::host_func(function)).unwrap();
                let executable = graph.instantiate().unwrap();
                stream.will_panic();
                for _ in 0..launches {
                    stream.will_panic();
                    executable.launch(&stream.stream).unwrap();
                }
            }
            Unwind::KernelNode { stream, to, value } => self.kernel_node(stream, to, value),
            Unwind::Capture { stream, other, to, from, conditional } => {
                self.capture_unwound([stream, other], [to, from], conditional);
            }
            Unwind::CaptureInto { stream, value } => {
                let stream = self.stream(stream);
                let context = stream.stream.context();
                let origin = context.create_stream().unwrap();
                let mut scratch = stream.stream.allocate_zeroed::<u32>(LENGTH).unwrap();
                let mut graph = context.create_graph().unwrap();
                let unwound = caught(|| {
                    origin.capture_into(&mut graph, (), CaptureMode::ThreadLocal, |scope| {
                        scope.fill(&mut scratch, value)?;
                        panic_on_purpose()
                    })
                });
                assert!(unwound.is_none());
                assert!(!origin.is_capturing().unwrap());
                graph.add((), NodeWork::empty()).unwrap();
                graph.instantiate().unwrap().launch(&stream.stream).unwrap();
            }
            Unwind::HostAccess { stream, pinned, value, writes } => {
                self.let_go();
                let (device, pinned) = (self.stream(stream).device, self.pinned(pinned));
                let slot = &mut self.places[device].pinned[pinned];
                let unwound = caught(|| {
                    if writes {
                        slot.buffer.write(|words| {
                            words[..half()].fill(value);
                            panic_on_purpose();
                        })
                    } else {
                        slot.buffer.read(|_| panic_on_purpose())
                    }
                });
                assert!(unwound.is_none());
                if writes {
                    self.memories[slot.number][..half()].fill(value);
                }
                self.read_pinned(device, pinned);
            }
            Unwind::Pipeline { stream, depth, chunks, at, iterator } => {
                self.let_go();
                self.unwound_pipeline(&self.stream(stream), depth, chunks, at, iterator);
            }
            Unwind::Waker { stream, ref moments, finished } => {
                let stream = self.stream(stream);
                let mut future = stream.stream.checked_completion_future();
                let mut result = None;
                for &moment in moments {
                    let waker = UnwindingWaker::new(moment);
                    let mut task = TaskContext::from_waker(&waker);
                    if let Some(Poll::Ready(ready)) = caught(|| Pin::new(&mut future).poll(&mut task)) {
                        result = Some(ready);
                        break;
                    }
                }
                if finished {
                    self.let_go();
                    stream.unless_panicked(result.unwrap_or_else(|| block_on(future)));
                } else {
                    caught(|| drop(future));
                    result.map(|result| stream.unless_panicked(result));
                }
            }
            Unwind::Value { stream, polled } => {
                let stream = self.stream(stream);
                let mut future = stream.stream.enqueue_async(|_| Ok(PanicsInDrop));
                let waker = UnwindingWaker::new(Moment::Drop);
                if polled {
                    let polled = caught(|| Pin::new(&mut future).poll(&mut TaskContext::from_waker(&waker)));
                    if let Some(Poll::Ready(result)) = polled {
                        caught(|| stream.unless_panicked(result.map(drop)));
                    }
                }
                caught(|| drop(future));
            }
            Unwind::CurrentStream { stream } => {
                let stream = self.stream(stream);
                let id = || Stream::with_current(|current| current.map(Stream::id));
                let before = id();
                caught(|| {
                    let _guard = stream.stream.enter();
                    Stream::with_current(|_| panic_on_purpose())
                });
                assert_eq!(id(), before);
            }
        }
    }

    /// What follows the kernel in the graph runs.
    fn kernel_node(&mut self, stream: usize, to: usize, value: u32) {
        let stream = self.stream(stream);
        let to = self.buffer(&stream, to);
        let slot = &mut self.places[stream.device].buffers[to];
        let buffer = slot.buffer.as_mut().unwrap();
        let kernel = &self.kernels[stream.device].panic;
        let origin = stream.stream.context().create_stream().unwrap();
        let executable = origin.capture_executable(CaptureMode::ThreadLocal, |scope| {
            scope.fill(buffer.slice_mut(..half())?, value)?;
            scope.launch_checked(kernel, &LaunchConfig::new(1, 1), (&mut *buffer,))?;
            scope.fill(buffer.slice_mut(half()..)?, !value)
        });
        stream.will_panic();
        executable.unwrap().launch(&stream.stream).unwrap();
        self.memories[slot.number][..half()].fill(value);
        self.memories[slot.number][half()..].fill(!value);
    }

    /// Nothing of it runs, and the streams are as before.
    fn capture_unwound(&mut self, [stream, other]: [usize; 2], [to, from]: [usize; 2], conditional: bool) {
        let (stream, other) = self.pair([stream, other]);
        let (stream, other) = self.to_capture(&stream, &other);
        let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
        let place = &mut self.places[stream.device];
        let condition = place.context.allocate_pinned::<u32>(1).unwrap();
        let Some([to, from]) = two(place, to, from) else { return };
        let unwound = caught(|| {
            stream.stream.capture(CaptureMode::ThreadLocal, |scope| -> Result<()> {
                let mut memory = scope.allocate_zeroed::<u32>(LENGTH)?;
                if other.stream != stream.stream {
                    scope.fork(&other.stream)?;
                    other.stream.copy(&mut memory, &*from)?;
                }
                scope.copy(&mut *to, &*from)?;
                if conditional {
                    scope.capture_if(&condition, |part| {
                        part.fill(to, 1)?;
                        panic_on_purpose()
                    })?;
                }
                panic_on_purpose()
            })
        });
        assert!(unwound.is_none());
        for stream in [&stream, &other] {
            assert!(!stream.stream.is_capturing().unwrap());
        }
    }

    /// No chunk is missing silently.
    fn unwound_pipeline(&self, stream: &StreamSlot, depth: usize, chunks: u32, at: u32, iterator: bool) {
        let inputs = (0..chunks).inspect(|&chunk| {
            if iterator && chunk == at {
                panic_on_purpose();
            }
        });
        let mut pipeline = stream.stream.pipeline(depth, inputs, |stream, chunk| {
            let mut buffer = stream.allocate_zeroed::<u32>(LENGTH)?;
            stream.fill(&mut buffer, chunk)?;
            if !iterator && chunk == at {
                panic_on_purpose();
            }
            Ok(buffer)
        });
        let (mut taken, mut unwound, mut reported) = (0, 0, 0);
        loop {
            match caught(|| block_on(pipeline.next())) {
                None => unwound += 1,
                Some(None) => break,
                Some(Some(Err(error))) if error.status() == Status::ILLEGAL_STATE => reported += 1,
                Some(Some(result)) => match stream.unless_panicked(result) {
                    // The pipeline ends with a panic of earlier work.
                    None => return,
                    Some(buffer) => {
                        stream.assert_holds((&buffer).into(), &[taken; LENGTH]);
                        taken += 1;
                    }
                },
            }
        }
        let missing = u32::from(at < chunks);
        assert_eq!((taken, unwound, reported), (at.min(chunks), missing, missing), "in a pipeline that unwinds");
    }
}
