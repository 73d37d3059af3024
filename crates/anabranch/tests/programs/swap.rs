//! What programs exchange for something of the same type, in the middle of its use.

use crate::awaited::poll_once;
use crate::environment::LENGTH;
use crate::run::half;
use crate::world::{BUFFERS, EVENTS, PINNED, World};
use anabranch::{Buffer, CaptureMode, ConditionalKind, Enqueued, NodeWork, Stream};
use futures::executor::block_on;
use proptest::prelude::*;
use std::mem::{replace, swap as exchange, take};

/// What is exchanged.
#[derive(Clone, Debug)]
pub(crate) enum Swap {
    Buffers {
        stream: usize,
        left: usize,
        right: usize,
    },
    Pinned {
        stream: usize,
    },
    Events {
        stream: usize,
    },
    Streams {
        left: usize,
        right: usize,
    },
    Graphs {
        left: usize,
        right: usize,
    },
    /// While a future of a launch of the first is pending.
    GraphsAwaited {
        stream: usize,
        left: usize,
        right: usize,
    },
    /// Futures that own a buffer each, which may have been polled. The second is given up unless it is finished.
    Futures {
        stream: usize,
        other: usize,
        buffers: [usize; 2],
        values: [u32; 2],
        polled: [bool; 2],
        finished: bool,
    },
    /// The slice that a closure gets to write.
    Slice {
        stream: usize,
        pinned: usize,
        value: u32,
    },
    /// A stream that captures and one that does not.
    CapturingStreams {
        stream: usize,
        to: usize,
        value: u32,
    },
    /// The bodies of two graphs' conditional nodes.
    Bodies {
        stream: usize,
        to: [usize; 2],
        values: [u32; 2],
    },
    /// The slices that a scope copies to.
    Scope {
        stream: usize,
        from: [usize; 2],
    },
}

pub(crate) fn swap() -> impl Strategy<Value = Swap> {
    use Swap::*;
    let n = || 0..4usize;
    prop_oneof![
        3 => (n(), n(), n()).prop_map(|(stream, left, right)| Buffers { stream, left, right }),
        2 => n().prop_map(|stream| Pinned { stream }),
        1 => n().prop_map(|stream| Events { stream }),
        1 => (n(), n()).prop_map(|(left, right)| Streams { left, right }),
        1 => (n(), n()).prop_map(|(left, right)| Graphs { left, right }),
        2 => (n(), n(), n()).prop_map(|(stream, left, right)| GraphsAwaited { stream, left, right }),
        3 => (n(), n(), [n(), n()], any::<[u32; 2]>(), any::<[bool; 2]>(), any::<bool>())
            .prop_map(|(stream, other, buffers, values, polled, finished)| Futures {
                stream, other, buffers, values, polled, finished
            }),
        1 => (n(), n(), any::<u32>()).prop_map(|(stream, pinned, value)| Slice { stream, pinned, value }),
        2 => (n(), n(), any::<u32>()).prop_map(|(stream, to, value)| CapturingStreams { stream, to, value }),
        1 => (n(), [n(), n()], any::<[u32; 2]>()).prop_map(|(stream, to, values)| Bodies { stream, to, values }),
        1 => (n(), [n(), n()]).prop_map(|(stream, from)| Scope { stream, from }),
    ]
}

impl World<'_> {
    pub(crate) fn swap(&mut self, swap: &Swap) {
        match *swap {
            Swap::Buffers { stream, left, right } => {
                let device = self.stream(stream).device;
                let slots = self.places[device].buffers.get_disjoint_mut([left % BUFFERS, right % BUFFERS]);
                if let Ok([left, right]) = slots {
                    exchange(left, right);
                }
            }
            Swap::Pinned { stream } => {
                self.places[self.streams[stream % self.streams.len()].device].pinned.rotate_left(1)
            }
            Swap::Events { stream } => {
                let device = self.stream(stream).device;
                let events = &mut self.places[device].events;
                events.swap(0, EVENTS - 1);
            }
            Swap::Streams { left, right } => {
                let streams = self.streams.len();
                self.streams.swap(left % streams, right % streams);
            }
            Swap::Graphs { left, right } => {
                let graphs = self.graphs.len();
                if graphs > 0 {
                    self.graphs.swap(left % graphs, right % graphs);
                }
            }
            Swap::GraphsAwaited { stream, left, right } => self.swap_awaited_graphs(stream, left, right),
            Swap::Futures { stream, other, buffers, values, polled, finished } => {
                self.swap_futures([stream, other], buffers, values, polled, finished);
            }
            Swap::Slice { stream, pinned, value } => {
                self.let_go();
                let (device, pinned) = (self.stream(stream).device, pinned % PINNED);
                let slot = &mut self.places[device].pinned[pinned];
                let written = slot.buffer.write(|mut words| {
                    let (mut first, mut second) = take(&mut words).split_at_mut(half());
                    assert!(words.is_empty());
                    exchange(&mut first, &mut second);
                    first.fill(value);
                });
                written.unwrap();
                self.memories[slot.number][half()..].fill(value);
                self.read_pinned(device, pinned);
            }
            Swap::CapturingStreams { stream, to, value } => self.swap_capturing_streams(stream, to, value),
            Swap::Bodies { stream, to, values } => self.swap_bodies(stream, to, values),
            Swap::Scope { stream, from } => {
                self.let_go();
                let stream = self.stream(stream);
                let [left, right] = from.map(|buffer| self.buffer(&stream, buffer));
                let buffers = &self.places[stream.device].buffers;
                let mut memory = [[0u32; LENGTH]; 2];
                let [mut first, mut second] = memory.each_mut().map(|words| &mut words[..]);
                let result = stream.stream.sync_scope(|scope| {
                    exchange(&mut first, &mut second);
                    scope.copy_to_host(take(&mut second), buffers[left].buffer.as_ref().unwrap())?;
                    exchange(&mut first, &mut second);
                    scope.copy_to_host(second, buffers[right].buffer.as_ref().unwrap())
                });
                stream.unless_panicked(result);
                let expected = [left, right].map(|buffer| self.memories[buffers[buffer].number]);
                assert_eq!(memory, expected, "in memory that a scope borrowed");
            }
        }
    }

    fn swap_awaited_graphs(&mut self, stream: usize, left: usize, right: usize) {
        let (stream, graphs) = (self.stream(stream), self.graphs.len());
        if graphs == 0 {
            return;
        }
        let (left, right) = (left % graphs, right % graphs);
        let mut future = self.graphs[left].executable.launch_async(&stream.stream);
        self.apply(left);
        let early = poll_once(&mut future);
        if left != right {
            self.graphs.swap(left, right);
        }
        self.let_go();
        stream.unless_panicked(early.unwrap_or_else(|| block_on(future)));
    }

    fn swap_futures(
        &mut self,
        [stream, other]: [usize; 2],
        buffers: [usize; 2],
        values: [u32; 2],
        polled: [bool; 2],
        finished: bool,
    ) {
        let (stream, other) = self.pair([stream, other]);
        if buffers[0] % BUFFERS == buffers[1] % BUFFERS {
            return;
        }
        let [(left, l), (right, r)] = buffers.map(|buffer| self.take(&stream, buffer));
        let mut first: Enqueued<Buffer<u32>> = stream.stream.fill_async(left, values[0]);
        let mut second: Enqueued<Buffer<u32>> = other.stream.fill_async(right, values[1]);
        self.memories[l].fill(values[0]);
        self.memories[r].fill(values[1]);
        let mut early = [None, None];
        for ((future, polled), early) in [&mut first, &mut second].into_iter().zip(polled).zip(&mut early) {
            if polled {
                *early = poll_once(future);
            }
        }
        exchange(&mut first, &mut second);
        early.reverse();
        self.let_go();
        let [early_first, early_second] = early;
        let result = early_first.unwrap_or_else(|| block_on(first));
        if let Some(buffer) = other.unless_panicked(result) {
            self.put(&stream, buffers[1], buffer, r);
        }
        let result = match early_second {
            Some(result) => result,
            None if finished => block_on(second),
            None => return,
        };
        if let Some(buffer) = stream.unless_panicked(result) {
            self.put(&stream, buffers[0], buffer, l);
        }
    }

    fn swap_capturing_streams(&mut self, stream: usize, to: usize, value: u32) {
        let stream = self.stream(stream);
        let to = self.buffer(&stream, to);
        let place = &mut self.places[stream.device];
        let new = || place.context.create_stream().unwrap();
        let (mut captures, mut other): (Stream, Stream) = (new(), new());
        let slot = &mut place.buffers[to];
        captures.begin_capture(CaptureMode::ThreadLocal).unwrap();
        captures.fill(slot.buffer.as_mut().unwrap().slice_mut(..half()).unwrap(), value).unwrap();
        exchange(&mut captures, &mut other);
        assert!(captures.end_capture().is_err());
        other.fill(slot.buffer.as_mut().unwrap().slice_mut(half()..).unwrap(), !value).unwrap();
        drop(captures);
        let graph = replace(&mut other, new()).end_capture().unwrap();
        graph.instantiate().unwrap().launch(&stream.stream).unwrap();
        self.memories[slot.number][..half()].fill(value);
        self.memories[slot.number][half()..].fill(!value);
    }

    /// Each body is filled through the variable of the other.
    fn swap_bodies(&mut self, stream: usize, to: [usize; 2], values: [u32; 2]) {
        let stream = self.stream(stream);
        let to = to.map(|buffer| self.buffer(&stream, buffer));
        let place = &mut self.places[stream.device];
        let mut graphs = [(); 2].map(|()| place.context.create_graph().unwrap());
        let [left, right] = &mut graphs;
        let mut bodies = [left, right].map(|graph| {
            let value = graph.create_conditional(Some(1)).unwrap();
            let node = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
            graph.body(node, 0).unwrap()
        });
        let [left, right] = &mut bodies;
        exchange(left, right);
        for ((body, to), value) in bodies.iter_mut().zip(to).zip(values) {
            let buffer = place.buffers[to].buffer.as_mut().unwrap();
            body.add((), NodeWork::fill(buffer, value).unwrap()).unwrap();
        }
        drop(bodies);
        let [left, right] = &mut graphs;
        exchange(left, right);
        // The variables of the graphs now are those of the bodies.
        for ((graph, to), value) in graphs.iter().zip(to).zip(values) {
            graph.instantiate().unwrap().launch(&stream.stream).unwrap();
            self.memories[place.buffers[to].number].fill(value);
        }
    }
}
