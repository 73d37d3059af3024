//! What threads of a program use at the same time: parts of a buffer, and what [`Shared`](crate::together::Shared) has.

use crate::captured::two;
use crate::environment::{LENGTH, combined};
use crate::run::half;
use crate::world::World;
use anabranch::{BufferSlice, LaunchConfig};
use proptest::prelude::*;
use std::sync::Barrier;
use std::thread::scope;

#[derive(Clone, Debug)]
pub(crate) enum Share {
    /// Two threads write a half of a buffer each, in two streams.
    Halves {
        streams: [usize; 2],
        to: usize,
        values: [u32; 2],
    },
    /// One thread reads a half of a buffer, and another writes the other half, which is read then.
    HalfByHalf {
        streams: [usize; 2],
        to: usize,
        from: usize,
        value: u32,
    },
    /// Two threads read parts of a buffer that overlap.
    Readers {
        streams: [usize; 2],
        from: usize,
    },
    /// A kernel reads parts of a buffer that overlap.
    Views {
        stream: usize,
        to: usize,
        from: usize,
        value: u32,
    },
    /// Reads what all threads read.
    Copy {
        stream: usize,
        to: usize,
    },
    Download {
        stream: usize,
    },
    HostRead {
        stream: usize,
    },
    /// Launches what all threads launch.
    Launch {
        stream: usize,
    },
    Update {
        stream: usize,
    },
}

pub(crate) fn share() -> impl Strategy<Value = Share> {
    use Share::*;
    let n = || 0..4usize;
    prop_oneof![
        2 => ([n(), n()], n(), any::<[u32; 2]>()).prop_map(|(streams, to, values)| Halves { streams, to, values }),
        2 => ([n(), n()], n(), n(), any::<u32>())
            .prop_map(|(streams, to, from, value)| HalfByHalf { streams, to, from, value }),
        1 => ([n(), n()], n()).prop_map(|(streams, from)| Readers { streams, from }),
        12 => (n(), n(), n(), any::<u32>()).prop_map(|(stream, to, from, value)| Views { stream, to, from, value }),
        3 => (n(), n()).prop_map(|(stream, to)| Copy { stream, to }),
        3 => n().prop_map(|stream| Download { stream }),
        3 => n().prop_map(|stream| HostRead { stream }),
        6 => n().prop_map(|stream| Launch { stream }),
        1 => n().prop_map(|stream| Update { stream }),
    ]
}

/// Calls the one on another thread, at the same time as the other.
fn together(first: impl FnOnce() + Send, second: impl FnOnce()) {
    let begin = Barrier::new(2);
    scope(|scope| {
        scope.spawn(|| {
            begin.wait();
            first();
        });
        begin.wait();
        second();
    });
}

impl World<'_> {
    pub(crate) fn share(&mut self, share: &Share) {
        let environment = self.environment;
        match *share {
            Share::Halves { streams, to, values } => {
                let (stream, other) = self.pair(streams);
                let to = self.buffer(&stream, to);
                let slot = &mut self.places[stream.device].buffers[to];
                let (head, tail) = slot.buffer.as_mut().unwrap().slice_mut(..).unwrap().split_at(half()).unwrap();
                together(
                    || other.here(environment).stream.fill(tail, values[1]).unwrap(),
                    || stream.stream.fill(head, values[0]).unwrap(),
                );
                self.memories[slot.number][..half()].fill(values[0]);
                self.memories[slot.number][half()..].fill(values[1]);
            }
            Share::HalfByHalf { streams, to, from, value } => {
                let (stream, other) = self.pair(streams);
                let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                let Some([destination, source]) = two(place, to, from) else { return };
                let (head, tail) = source.slice_mut(..).unwrap().split_at(half()).unwrap();
                let (destination_head, destination_tail) = destination.slice_mut(..).unwrap().split_at(half()).unwrap();
                together(
                    || other.here(environment).stream.fill(tail, value).unwrap(),
                    || stream.stream.copy(destination_head, head.as_slice()).unwrap(),
                );
                stream.stream.copy(destination_tail, source.slice(half()..).unwrap()).unwrap();
                let [to, from] = [to, from].map(|buffer| place.buffers[buffer].number);
                self.memories[from][half()..].fill(value);
                self.memories[to] = self.memories[from];
            }
            Share::Readers { streams, from } => {
                self.let_go();
                let (stream, other) = self.pair(streams);
                let from = self.buffer(&stream, from);
                let slot = &self.places[stream.device].buffers[from];
                let (buffer, words) = (slot.buffer.as_ref().unwrap(), self.memories[slot.number]);
                let (left, right) = (buffer.slice(1..).unwrap(), buffer.slice(..LENGTH - 1).unwrap());
                together(
                    || other.here(environment).assert_holds(right, &words[..LENGTH - 1]),
                    || stream.assert_holds(left, &words[1..]),
                );
            }
            Share::Views { stream, to, from, value } => {
                let stream = self.stream(stream);
                let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                let Some([destination, source]) = two(place, to, from) else { return };
                let view = |begin: usize| -> BufferSlice<'_, u32> { source.slice(begin..begin + half()).unwrap() };
                let arguments = (destination.slice_mut(2..2 + half()).unwrap(), view(0), view(1), value);
                let (kernel, config) = (&self.kernels[stream.device].combine, LaunchConfig::new(1, 1));
                stream.stream.launch_checked(kernel, &config, arguments).unwrap();
                let source = self.memories[place.buffers[from].number];
                let words = &mut self.memories[place.buffers[to].number];
                for index in 0..half() {
                    words[2 + index] = combined(words[2 + index], source[index], source[index + 1], value);
                }
            }
            Share::Copy { stream, to } => {
                let stream = self.stream(stream);
                let Some(shared) = self.shared.get(stream.device).cloned() else { return };
                let to = self.buffer(&stream, to);
                let slot = &mut self.places[stream.device].buffers[to];
                stream.stream.copy(slot.buffer.as_mut().unwrap(), &shared.buffer).unwrap();
                self.memories[slot.number] = shared.words;
            }
            Share::Download { stream } => {
                let stream = self.stream(stream);
                if let Some(shared) = self.shared.get(stream.device).cloned() {
                    self.let_go();
                    stream.assert_holds((&shared.buffer).into(), &shared.words);
                }
            }
            Share::HostRead { stream } => {
                let device = self.stream(stream).device;
                if let Some(shared) = self.shared.get(device).cloned() {
                    self.let_go();
                    let found = shared.pinned.read(|words| words.to_vec()).unwrap();
                    assert_eq!(found, shared.words, "in a pinned buffer that threads share");
                }
            }
            Share::Launch { stream } => {
                let stream = self.stream(stream);
                if let Some(shared) = self.shared.get(stream.device) {
                    shared.executable.launch(&stream.stream).unwrap();
                }
            }
            Share::Update { stream } => {
                if let Some(shared) = self.shared.get(self.stream(stream).device) {
                    let graph = shared.graph.lock().unwrap();
                    shared.executable.update(&graph).unwrap();
                }
            }
        }
    }
}
