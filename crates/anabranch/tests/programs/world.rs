//! What a thread of a program has, and what it knows of the contents of all memory: those that the program has when its
//! operations are done one after the other.

use crate::captured::Graph;
use crate::environment::{Environment, Kernels, LENGTH, is_on_cuda};
use crate::operation::Source;
use crate::streams::{StreamKind, StreamSlot};
use crate::tally::note;
use crate::together::Shared;
use anabranch::{
    Buffer, Context, Event, EventFlags, MemoryPool, MemoryPoolOptions, NodeWork, PinnedBuffer, Result, Signal, Stream,
};
use anabranch::{Status, WaitCondition};
use futures::future::BoxFuture;
use std::mem::replace;
use std::sync::Arc;

/// What panics say that are part of a program.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// Buffers, pinned buffers and events of each device.
pub(crate) const BUFFERS: usize = 4;
pub(crate) const PINNED: usize = 2;
pub(crate) const EVENTS: usize = 2;

/// Panics, without a message of the panic hook.
pub(crate) fn panic_on_purpose() -> ! {
    std::panic::resume_unwind(Box::new(ON_PURPOSE))
}

/// The contents of a piece of memory, by its number.
pub(crate) type Number = usize;
pub(crate) type Words = [u32; LENGTH];

/// A buffer. One that was given away is made anew when it is next used.
pub(crate) struct Slot {
    pub(crate) buffer: Option<Buffer<u32>>,
    pub(crate) number: Number,
}

pub(crate) struct PinnedSlot {
    pub(crate) buffer: PinnedBuffer<u32>,
    pub(crate) number: Number,
}

/// What belongs to a device.
pub(crate) struct Place {
    pub(crate) context: Context,
    pub(crate) buffers: Vec<Slot>,
    pub(crate) pinned: Vec<PinnedSlot>,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) pool: Arc<MemoryPool>,
}

/// What a future gives back.
pub(crate) enum Given {
    Buffer(Number, Buffer<u32>),
    Pinned(Number, PinnedBuffer<u32>),
    /// What was read, and what should have been.
    Read(Vec<u32>, Words),
}

/// A future of work in a stream.
pub(crate) struct Future {
    pub(crate) stream: StreamSlot,
    pub(crate) future: BoxFuture<'static, Result<Vec<Given>>>,
}

pub(crate) struct World<'e> {
    pub(crate) environment: &'e Environment,
    pub(crate) places: Vec<Place>,
    pub(crate) streams: Vec<StreamSlot>,
    /// Whether nobody else uses the contexts meanwhile.
    pub(crate) is_alone: bool,
    pub(crate) graphs: Vec<Graph>,
    pub(crate) futures: Vec<Future>,
    pub(crate) memories: Vec<Words>,
    /// What streams wait for, and their devices.
    pub(crate) gates: Vec<(usize, Signal)>,
    pub(crate) kernels: Vec<Kernels>,
    /// What other threads use at the same time, for each device.
    pub(crate) shared: Vec<Arc<Shared>>,
}

pub(crate) fn new_event(context: &Context) -> Event {
    context.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap()
}

/// Another object for an event.
pub(crate) fn another_object(context: &Context, event: &Event) -> Event {
    note("another object for an event");
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::event_wait(event)).unwrap();
    graph.node_event(node).unwrap().unwrap()
}

fn new_pool(context: &Context) -> MemoryPool {
    context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap()
}

/// Memory that another API has exported: on host devices a file, which begins with zeros.
#[cfg(unix)]
fn imported(context: &Context, stream: &Stream) -> Result<Buffer<u32>> {
    if is_on_cuda() {
        return context.allocate_zeroed(stream, LENGTH);
    }
    let file = tempfile::tempfile().unwrap();
    file.set_len((LENGTH * 4) as u64).unwrap();
    // SAFETY: the file is as long as this, and nobody else has it.
    let memory = unsafe { context.import_external_memory(file.into(), LENGTH * 4) }?;
    note("external memory");
    // SAFETY: all of it is zero, and no other buffer has any of it.
    unsafe { memory.buffer(0, LENGTH) }
}

/// There are no file descriptors.
#[cfg(not(unix))]
fn imported(context: &Context, stream: &Stream) -> Result<Buffer<u32>> {
    context.allocate_zeroed(stream, LENGTH)
}

impl<'e> World<'e> {
    /// What a program has in the beginning in these contexts, one of each device.
    pub(crate) fn new(
        environment: &'e Environment,
        contexts: Vec<Context>,
        streams: &[StreamKind],
        is_alone: bool,
    ) -> Self {
        let new_stream = |(number, &kind): (usize, &StreamKind)| {
            let device = number % contexts.len();
            StreamSlot::new(environment, &contexts[device], device, kind)
        };
        let kernels = environment.kernels_of(&contexts);
        let mut world = Self {
            environment,
            kernels,
            places: Vec::new(),
            streams: streams.iter().enumerate().map(new_stream).collect(),
            is_alone,
            graphs: Vec::new(),
            futures: Vec::new(),
            memories: Vec::new(),
            gates: Vec::new(),
            shared: Vec::new(),
        };
        for context in &contexts {
            let pinned = (0..PINNED).map(|_| {
                let buffer = context.allocate_pinned(LENGTH).unwrap();
                PinnedSlot { buffer, number: world.remember([0; LENGTH]) }
            });
            let pinned = pinned.collect();
            world.places.push(Place {
                context: context.clone(),
                buffers: (0..BUFFERS).map(|_| Slot { buffer: None, number: 0 }).collect(),
                pinned,
                events: (0..EVENTS).map(|_| Arc::new(new_event(context))).collect(),
                pool: Arc::new(new_pool(context)),
            });
        }
        world
    }

    /// A number for new contents.
    pub(crate) fn remember(&mut self, words: Words) -> Number {
        self.memories.push(words);
        self.memories.len() - 1
    }

    /// Which buffer of its device a number means. It is there afterwards.
    pub(crate) fn buffer(&mut self, stream: &StreamSlot, buffer: usize) -> usize {
        self.buffer_of(stream.device, stream, buffer)
    }

    /// As [`buffer`](Self::buffer), of a device that may be another one than the stream's.
    pub(crate) fn buffer_of(&mut self, device: usize, stream: &StreamSlot, buffer: usize) -> usize {
        let buffer = buffer % BUFFERS;
        if self.places[device].buffers[buffer].buffer.is_none() {
            // Another device's memory is allocated in the order of a stream of its own, which then ends.
            let own = if device == stream.device { stream.clone() } else { self.own_stream(device) };
            self.renew(&own, buffer, Source::DefaultPool);
        }
        buffer
    }

    /// Drops a buffer, and allocates another one.
    pub(crate) fn renew(&mut self, stream: &StreamSlot, buffer: usize, source: Source) {
        let number = self.remember([0; LENGTH]);
        let place = &mut self.places[stream.device];
        let slot = &mut place.buffers[buffer % BUFFERS];
        slot.buffer = None;
        let allocated = match source {
            Source::DefaultPool => stream.stream.allocate_zeroed(LENGTH),
            Source::OtherPool => stream.stream.allocate_zeroed_from(&place.pool, LENGTH),
            Source::Plain => place.context.allocate_zeroed(&stream.stream, LENGTH),
            Source::External => imported(&place.context, &stream.stream),
        };
        *slot = Slot { buffer: Some(allocated.unwrap()), number };
    }

    /// Puts a buffer in the place of one that is dropped.
    pub(crate) fn put(&mut self, stream: &StreamSlot, buffer: usize, memory: Buffer<u32>, number: Number) {
        self.places[stream.device].buffers[buffer % BUFFERS] = Slot { buffer: Some(memory), number };
    }

    /// Takes a buffer out, and the number of its contents.
    pub(crate) fn take(&mut self, stream: &StreamSlot, buffer: usize) -> (Buffer<u32>, Number) {
        let buffer = self.buffer(stream, buffer);
        let slot = &mut self.places[stream.device].buffers[buffer];
        (slot.buffer.take().unwrap(), slot.number)
    }

    /// Takes a pinned buffer out, and the number of its contents. Another one takes its place.
    pub(crate) fn take_pinned(&mut self, stream: &StreamSlot, pinned: usize) -> (PinnedBuffer<u32>, Number) {
        let number = self.remember([0; LENGTH]);
        let place = &mut self.places[stream.device];
        let buffer = place.context.allocate_pinned(LENGTH).unwrap();
        let taken = replace(&mut place.pinned[pinned % PINNED], PinnedSlot { buffer, number });
        (taken.buffer, taken.number)
    }

    /// Keeps what a future gave back: a buffer in the place of one that was given away, or of the last.
    pub(crate) fn keep(&mut self, stream: &StreamSlot, given: Given) {
        match given {
            Given::Buffer(number, buffer) => {
                let buffers = &self.places[stream.device].buffers;
                let place = buffers.iter().position(|slot| slot.buffer.is_none()).unwrap_or(buffers.len() - 1);
                self.put(stream, place, buffer, number);
            }
            Given::Pinned(number, buffer) => {
                self.places[stream.device].pinned[0] = PinnedSlot { buffer, number };
            }
            Given::Read(found, expected) => assert_eq!(found, expected, "in what a future read"),
        }
    }

    pub(crate) fn pinned(&self, pinned: usize) -> usize {
        pinned % PINNED
    }

    pub(crate) fn renew_pinned(&mut self, stream: &StreamSlot, pinned: usize) {
        drop(self.take_pinned(stream, pinned));
    }

    pub(crate) fn event(&self, device: usize, event: usize) -> &Arc<Event> {
        let device = device % self.places.len();
        &self.places[device].events[event % EVENTS]
    }

    /// Puts another event in the place of one, which is returned.
    pub(crate) fn renew_event(&mut self, device: usize, event: usize) -> Arc<Event> {
        let place = &mut self.places[device];
        let new = match event / EVENTS % 3 {
            0 => new_event(&place.context),
            _ => another_object(&place.context, &place.events[(event + 1) % EVENTS]),
        };
        replace(&mut place.events[event % EVENTS], Arc::new(new))
    }

    pub(crate) fn renew_pool(&mut self, device: usize) -> Arc<MemoryPool> {
        let place = &mut self.places[device];
        replace(&mut place.pool, Arc::new(new_pool(&place.context)))
    }

    /// Puts a stream of a green context of some of the device's multiprocessors in the place of one.
    pub(crate) fn green_stream(&mut self, stream: usize) {
        let stream = stream % self.streams.len();
        let device = self.streams[stream].device;
        let all = self.places[device].context.device().multiprocessors().unwrap();
        let (groups, _) = all.split(1, all.minimum_partition()).unwrap();
        // Drivers of GPUs wait for what is pending there.
        self.let_go();
        let context = &self.places[device].context;
        let green = match context.create_green_context(&groups) {
            Ok(green) => green,
            // Contexts that are lost at the end are not the primary ones.
            Err(error) => return assert_eq!(error.status(), Status::INVALID_CONTEXT, "{error}"),
        };
        self.streams[stream] = StreamSlot::own(green.create_stream().unwrap(), device);
    }

    /// Lets a stream wait until the thread has to wait.
    pub(crate) fn hold(&mut self, stream: &StreamSlot) {
        let signal = self.places[stream.device].context.create_signal().unwrap();
        stream.stream.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
        self.gates.push((stream.device, signal));
    }

    /// To be called before everything that waits.
    pub(crate) fn let_go(&mut self) {
        self.gates.drain(..).for_each(|(_, signal)| signal.set(1));
    }

    /// As [`let_go`](Self::let_go), of the streams of all devices but one.
    pub(crate) fn let_others_go(&mut self, device: usize) {
        self.gates.iter().filter(|gate| gate.0 != device).for_each(|(_, signal)| signal.set(1));
    }

    /// Compares a buffer with its expected contents.
    pub(crate) fn read(&mut self, stream: &StreamSlot, buffer: usize) {
        self.let_go();
        let buffer = self.buffer(stream, buffer);
        let slot = &self.places[stream.device].buffers[buffer];
        self.compare(stream, slot.buffer.as_ref().unwrap(), slot.number);
    }

    /// Compares memory with its expected contents.
    pub(crate) fn compare(&self, stream: &StreamSlot, memory: &Buffer<u32>, number: Number) {
        let found = loop {
            if let Some(found) = stream.unless_panicked(stream.stream.download(memory)) {
                break found;
            }
        };
        assert_eq!(found, self.memories[number], "in a buffer");
    }

    /// Compares a pinned buffer with its expected contents.
    pub(crate) fn read_pinned(&mut self, device: usize, pinned: usize) {
        self.let_go();
        let slot = &self.places[device].pinned[pinned % PINNED];
        let found = slot.buffer.read(|words| words.to_vec()).unwrap();
        assert_eq!(found, self.memories[slot.number], "in a pinned buffer");
    }

    /// Compares everything, and drops it.
    pub(crate) fn finish(mut self) {
        self.let_go();
        for number in 0..self.streams.len() {
            let stream = self.stream(number);
            for buffer in 0..BUFFERS {
                if self.places[stream.device].buffers[buffer].buffer.is_some() {
                    self.read(&stream, buffer);
                }
            }
        }
        for device in 0..self.places.len() {
            (0..PINNED).for_each(|pinned| self.read_pinned(device, pinned));
        }
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        // After a failure too, so that nothing waits for ever.
        self.let_go();
    }
}
