//! Streams that are current while their last object is dropped, or their handle is taken and given back.

use crate::captured::{Effect, two};
use crate::edited::{Work, work};
use crate::environment::is_on_cuda;
use crate::streams::StreamSlot;
use crate::world::World;
use anabranch::{CaptureMode, Stream, WaitCondition};
use futures::FutureExt;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Handed {
    stream: usize,
    /// Whether it is made current, and not entered by a guard that is leaked.
    is_made_current: bool,
    /// Whether its handle is taken, and not the stream dropped.
    is_taken: bool,
    before: Vec<Use>,
    inside: Vec<Use>,
    after: Vec<Use>,
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Work(Work),
    ToPinned(usize),
    FillPinned(u32),
    /// The same work as a graph.
    Captured(Work),
    /// Memory of the host that the stream borrows.
    Registered(u32),
    HostFunction,
    Record(usize),
    Wait(usize),
    Poll,
    Hold,
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let n = || 0..4usize;
    let one = prop_oneof![
        6 => work().prop_map(Use::Work),
        2 => n().prop_map(Use::ToPinned),
        2 => any::<u32>().prop_map(Use::FillPinned),
        1 => work().prop_map(Use::Captured),
        1 => any::<u32>().prop_map(Use::Registered),
        1 => Just(Use::HostFunction),
        1 => n().prop_map(Use::Record),
        1 => n().prop_map(Use::Wait),
        1 => Just(Use::Poll),
        3 => Just(Use::Hold),
    ];
    prop::collection::vec(one, 0..5)
}

pub(crate) fn handed() -> impl Strategy<Value = Handed> {
    (0..4usize, any::<bool>(), prop::bool::weighted(0.7), uses(), uses(), uses()).prop_map(
        |(stream, is_made_current, is_taken, before, inside, after)| Handed {
            stream,
            is_made_current,
            is_taken,
            before,
            inside,
            after,
        },
    )
}

impl World<'_> {
    /// Queues work of the program's buffers, and says what it does.
    fn queue_work(&mut self, device: usize, stream: &Stream, work: Work) -> Option<Effect> {
        let place = &mut self.places[device];
        let buffers = place.buffers.len();
        let to = work.to % buffers;
        match work.from.map(|from| from % buffers) {
            Some(from) => {
                let [destination, source] = two(place, to, from)?;
                stream.copy(destination, &*source).unwrap();
                Some(Effect::Copy { to: place.buffers[to].number, from: place.buffers[from].number })
            }
            None => {
                stream.fill(place.buffers[to].buffer.as_mut().unwrap(), work.value).unwrap();
                Some(Effect::Fill { to: place.buffers[to].number, value: work.value })
            }
        }
    }

    fn use_stream(&mut self, device: usize, stream: &Stream, used: Use) {
        match used {
            Use::Work(work) => {
                let effect = self.queue_work(device, stream, work);
                self.have_effects(effect.as_slice());
            }
            Use::ToPinned(from) => {
                let place = &mut self.places[device];
                let (to, from) = (&mut place.pinned[0], &place.buffers[from]);
                stream.copy(&mut to.buffer, from.buffer.as_ref().unwrap()).unwrap();
                self.memories[to.number] = self.memories[from.number];
            }
            Use::FillPinned(value) => {
                let to = &mut self.places[device].pinned[0];
                stream.fill(&mut to.buffer, value).unwrap();
                self.memories[to.number].fill(value);
            }
            Use::Captured(work) => {
                let mut effect = None;
                let executable = stream.capture_executable(CaptureMode::Relaxed, |scope| {
                    effect = self.queue_work(device, scope.stream(), work);
                    Ok(())
                });
                executable.unwrap().launch(stream).unwrap();
                self.have_effects(effect.as_slice());
            }
            Use::Registered(value) => {
                // It waits for its end.
                self.let_go();
                let mut memory = vec![0u32; 1 << 12];
                let context = self.places[device].context.clone();
                context.register_scope(&mut memory, |memory| stream.fill(memory, value)).unwrap();
                assert!(memory.iter().all(|word| *word == value), "memory that a stream borrowed");
            }
            Use::HostFunction => stream.launch_host_func(|| ()).unwrap(),
            Use::Record(event) => drop(stream.record(self.event(device, event)).unwrap()),
            Use::Wait(event) => stream.wait_event(self.event(device, event)).unwrap(),
            Use::Poll => drop(stream.completion_future().now_or_never().map(Result::unwrap)),
            Use::Hold => {
                if !is_on_cuda() {
                    let signal = self.places[device].context.create_signal().unwrap();
                    stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
                    self.gates.push((device, signal));
                }
            }
        }
    }

    pub(crate) fn handed(&mut self, handed: &Handed) {
        let slot = self.own_stream(self.stream(handed.stream).device);
        (0..self.places[slot.device].buffers.len()).for_each(|buffer| _ = self.buffer(&slot, buffer));
        let StreamSlot { stream, device, .. } = slot;
        for used in &handed.before {
            self.use_stream(device, &stream, *used);
        }
        // On a thread of its own, whose current stream is nobody else's concern.
        let handle = std::thread::scope(|scope| {
            let run = || {
                match handed.is_made_current {
                    true => stream.make_current(),
                    false => std::mem::forget(stream.enter()),
                }
                let handle = Stream::with_current(|current| {
                    let current = current.unwrap();
                    let last = Arc::into_inner(stream).unwrap();
                    let handle = match handed.is_taken {
                        true => Some(last.into_raw()),
                        false => {
                            drop(last);
                            None
                        }
                    };
                    for used in &handed.inside {
                        self.use_stream(device, current, *used);
                    }
                    handle
                });
                assert!(Stream::with_current(|current| current.is_none()), "the stream has ended");
                handle
            };
            scope.spawn(run).join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
        });
        let Some(handle) = handle else { return };
        // SAFETY: the handle is of a stream of this context, and nobody else has it.
        let stream = unsafe { Stream::from_raw(&self.places[device].context, handle) }.unwrap();
        for used in &handed.after {
            self.use_stream(device, &stream, *used);
        }
    }
}
