//! Objects of another instance, or of another device: no call takes them, and none changes anything.

use crate::environment::{Devices, Environment, LENGTH};
use crate::world::{ON_PURPOSE, Place, World};
use anabranch::{
    Buffer, CaptureMode, Context, Device, Event, ExecutableGraph, Graph, LaunchConfig, MemoryPool, MemoryPoolOptions,
    NodeWork, PinnedBuffer, Result, Signal, Status, Stream, WaitCondition,
};
use futures::executor::block_on;
use proptest::prelude::*;

/// A call, by its number, and what it is given of the program's own.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    call: usize,
    stream: usize,
    buffer: usize,
    pinned: usize,
    event: usize,
    /// Whether the foreign objects are those of another device, where the instance has one.
    device: bool,
}

pub(crate) fn foreign() -> impl Strategy<Value = Foreign> {
    (0..CALLS.len(), 0..4usize, 0..4usize, 0..4usize, 0..4usize, any::<bool>()).prop_map(
        |(call, stream, buffer, pinned, event, device)| Foreign { call, stream, buffer, pinned, event, device },
    )
}

/// One object of each kind.
pub(crate) struct Objects {
    context: Context,
    stream: Stream,
    buffer: Buffer<u32>,
    pinned: PinnedBuffer<u32>,
    event: Event,
    pool: MemoryPool,
    graph: Graph,
    executable: ExecutableGraph,
    signal: Signal,
}

impl Objects {
    fn new(context: &Context) -> Self {
        let stream = context.create_stream().unwrap();
        let event = context.create_event().unwrap();
        stream.record(&event).unwrap();
        let mut buffer = stream.upload(&[1u32; LENGTH]).unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::fill(&mut buffer, 1u32).unwrap()).unwrap();
        Self {
            pinned: context.allocate_pinned(LENGTH).unwrap(),
            pool: context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap(),
            signal: context.create_signal().unwrap(),
            executable: graph.instantiate().unwrap(),
            context: context.clone(),
            graph,
            event,
            buffer,
            stream,
        }
    }

    pub(crate) fn assert_unchanged(&mut self) {
        assert_eq!(self.stream.download(&self.buffer).unwrap(), [1; LENGTH], "in another instance");
        assert_eq!(self.pinned.read(|words| words.to_vec()).unwrap(), [0; LENGTH], "in another instance");
        assert_eq!(self.signal.get(), 0);
        assert_eq!(self.graph.nodes().unwrap().len(), 1);
        assert!(!self.stream.is_capturing().unwrap());
    }

    /// The devices on which they were.
    pub(crate) fn close(self) -> Vec<Device> {
        vec![self.context.device().clone()]
    }
}

/// What a call gets of the program's own.
struct Own<'a> {
    stream: &'a Stream,
    buffer: &'a mut Buffer<u32>,
    pinned: &'a mut PinnedBuffer<u32>,
    event: &'a Event,
    kernel: &'a anabranch::Kernel,
}

/// Calls that no other context's objects are given to, and then those that no other instance's are given to.
const CALLS: [fn(Own<'_>, &mut Objects) -> Result<()>; 27] = [
    |own, there| own.stream.fill(&mut there.buffer, 7),
    |own, there| there.stream.fill(own.buffer, 7),
    |own, there| own.stream.copy(&mut there.buffer, &*own.buffer),
    |own, there| own.stream.copy(own.buffer, &there.buffer),
    |own, there| own.stream.download(&there.buffer).map(drop),
    |own, there| there.stream.download(&*own.buffer).map(drop),
    |own, there| own.stream.record(&there.event).map(drop),
    |own, there| there.stream.record(own.event).map(drop),
    |own, there| block_on(own.stream.download_async(&there.buffer)).map(drop),
    |own, there| own.stream.sync_scope(|scope| scope.copy_from_host(&mut there.buffer, &[7; LENGTH])),
    |own, there| there.stream.sync_scope(|scope| scope.copy_from_host(own.buffer, &[7; LENGTH])),
    |own, there| {
        let arguments = (&mut there.buffer, &*own.buffer, &*own.buffer, 1u32);
        own.stream.launch_checked(own.kernel, &LaunchConfig::new(1, 1), arguments)
    },
    |own, there| {
        let arguments = (own.buffer, &there.buffer, &there.buffer, 1u32);
        own.stream.launch_checked(own.kernel, &LaunchConfig::new(1, 1), arguments)
    },
    |own, there| there.stream.launch_checked(own.kernel, &LaunchConfig::new(1, 1), (own.buffer,)),
    |own, there| {
        let kernel = own.kernel;
        let (first, second) = there.buffer.slice_mut(..)?.split_at(LENGTH / 2)?;
        let arguments = (first, second.as_slice(), second.as_slice(), 1u32);
        there.stream.launch_checked(kernel, &LaunchConfig::new(1, 1), arguments)
    },
    |own, there| own.stream.capture(CaptureMode::Relaxed, |scope| scope.fill(&mut there.buffer, 7)).map(drop),
    // From here on only of another instance.
    |own, there| own.stream.wait_event(&there.event),
    |own, there| own.stream.wait_stream(&there.stream),
    |own, there| there.stream.wait_stream(own.stream),
    |own, there| own.stream.copy(own.buffer, &there.pinned),
    |own, there| own.stream.copy(&mut there.pinned, &*own.buffer),
    |own, there| there.stream.copy(own.pinned, &there.buffer),
    |own, there| own.stream.wait_signal(&there.signal, WaitCondition::Equal, 1),
    |own, there| own.stream.write_signal(&there.signal, 1),
    |own, there| own.stream.allocate_zeroed_from::<u32>(&there.pool, LENGTH).map(drop),
    |own, there| there.executable.launch(own.stream),
    |own, there| own.stream.capture_into(&mut there.graph, (), CaptureMode::Relaxed, |_| Ok(())),
];

/// How many of them another device's objects are not given to either.
const OF_DEVICES: usize = 16;

fn with_objects<R>(environment: &Environment, action: impl FnOnce(&mut Objects) -> R) -> R {
    let mut objects = environment.objects.lock().unwrap();
    let new = || Objects::new(&Devices::InOrder(1, 1).instance().devices()[0].context().unwrap());
    action(objects.get_or_insert_with(new))
}

impl World<'_> {
    pub(crate) fn foreign(&mut self, foreign: &Foreign) {
        let slot = self.stream(foreign.stream);
        // Captures are begun in streams of their own.
        let stream = self.own_stream(slot.device);
        stream.stream.wait_stream(&slot.stream).unwrap();
        let (buffer, pinned) = (self.buffer(&stream, foreign.buffer), self.pinned(foreign.pinned));
        let environment = self.environment;
        let devices = self.places.len();
        let (call, there) = if foreign.device && devices > 1 {
            let context = &self.places[(slot.device + 1) % devices].context;
            (foreign.call % OF_DEVICES, Some(Objects::new(context)))
        } else {
            (foreign.call, None)
        };
        self.let_go();
        let event = self.event(slot.device, foreign.event).clone();
        let Place { buffers, pinned: pins, .. } = &mut self.places[slot.device];
        let own = Own {
            stream: &stream.stream,
            buffer: buffers[buffer].buffer.as_mut().unwrap(),
            pinned: &mut pins[pinned].buffer,
            event: &event,
            kernel: &self.kernels[slot.device].combine,
        };
        let result = match there {
            None => with_objects(environment, |there| CALLS[call](own, there)),
            Some(mut there) => {
                let result = CALLS[call](own, &mut there);
                there.assert_unchanged();
                result
            }
        };
        let Err(error) = result else { panic!("call {call} is accepted") };
        let expected = [Status::INVALID_DEVICE, Status::INVALID_HANDLE, Status::INVALID_VALUE];
        assert!(expected.contains(&error.status()) && !error.to_string().contains(ON_PURPOSE), "call {call}: {error}");
        assert!(!stream.stream.is_capturing().unwrap());
        self.read(&slot, foreign.buffer);
    }
}
