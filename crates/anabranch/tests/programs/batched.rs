//! Several operations by one call.

use crate::captured::{three, two};
use crate::environment::LENGTH;
use crate::run::half;
use crate::world::{PINNED, World};
use anabranch::{BatchCopy, BatchRegion, CopyHints, Region, SignalOperation, Volume, VolumeMut, WaitCondition};
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) enum Batched {
    /// Copies to two buffers and half of another one, from a buffer, pinned memory and memory of the host.
    Copies { stream: usize, buffers: [usize; 3], pinned: usize, value: u32, hints: bool },
    /// Copies the even elements of a buffer, and then the odd ones, to another one.
    Regions { stream: usize, to: usize, from: usize },
    /// Lets a stream wait until the program has to wait itself, and sets a signal that another stream waits for.
    Signals { stream: usize, other: usize },
}

pub(crate) fn batched() -> impl Strategy<Value = Batched> {
    use Batched::*;
    let n = || 0..4usize;
    prop_oneof![
        4 => (n(), [n(), n(), n()], n(), any::<u32>(), any::<bool>())
            .prop_map(|(stream, buffers, pinned, value, hints)| Copies { stream, buffers, pinned, value, hints }),
        2 => (n(), n(), n()).prop_map(|(stream, to, from)| Regions { stream, to, from }),
        1 => (n(), n()).prop_map(|(stream, other)| Signals { stream, other }),
    ]
}

impl World<'_> {
    pub(crate) fn batched(&mut self, batched: &Batched) {
        match *batched {
            Batched::Copies { stream, buffers, pinned, value, hints } => {
                let stream = self.stream(stream);
                let buffers = buffers.map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                let numbers = buffers.map(|buffer| place.buffers[buffer].number);
                // The pinned memory is not in the place while its buffers are borrowed.
                let pins = std::mem::take(&mut place.pinned);
                let from = &pins[pinned % PINNED];
                let host = vec![value; half()];
                if let Some([first, second, source]) = three(place, buffers[0], buffers[1], buffers[2]) {
                    let (head, tail) = second.slice_mut(..).unwrap().split_at(half()).unwrap();
                    let hints = CopyHints { prefer_overlap_with_compute: hints, ..CopyHints::default() };
                    let copies = [
                        BatchCopy::new(first, &from.buffer).unwrap(),
                        BatchCopy::new(head, source.slice(half()..).unwrap()).unwrap().with_hints(hints),
                        BatchCopy::from_host(tail, &host).unwrap(),
                    ];
                    stream.stream.copy_batch(copies).unwrap();
                    let memories = &mut self.memories;
                    memories[numbers[0]] = memories[from.number];
                    let source = memories[numbers[2]];
                    memories[numbers[1]][..half()].copy_from_slice(&source[half()..]);
                    memories[numbers[1]][half()..].fill(value);
                }
                place.pinned = pins;
            }
            Batched::Regions { stream, to, from } => {
                let stream = self.stream(stream);
                let [to, from] = [to, from].map(|buffer| self.buffer(&stream, buffer));
                let place = &mut self.places[stream.device];
                let numbers = [to, from].map(|buffer| place.buffers[buffer].number);
                let Some([destination, source]) = two(place, to, from) else { return };
                // Rows of two elements, of which a column is copied to what follows on each other.
                let column = |x| Region { source_origin: [x, 0, 0], extent: [1, half(), 1], ..Region::default() };
                let (head, tail) = destination.slice_mut(..).unwrap().split_at(half()).unwrap();
                let regions = [(head, 0), (tail, 1)].map(|(part, x)| {
                    BatchRegion::new(VolumeMut::new(part, 1, half()), Volume::new(&*source, 2, half()), &column(x))
                        .unwrap()
                });
                stream.stream.copy_region_batch(regions).unwrap();
                let source = self.memories[numbers[1]];
                for (index, word) in self.memories[numbers[0]].iter_mut().enumerate() {
                    *word = source[2 * (index % half()) + index / half()];
                }
                assert_eq!(half() * 2, LENGTH);
            }
            Batched::Signals { stream, other } => {
                let (stream, other) = (self.stream(stream), self.stream(other));
                let context = &self.places[stream.device].context;
                let [gate, passed] = [(); 2].map(|()| context.create_signal().unwrap());
                let wait = |signal, value| {
                    let condition = WaitCondition::GreaterOrEqual;
                    SignalOperation::Wait { signal, condition, value }
                };
                let write = SignalOperation::Write { signal: &passed, value: 7 };
                stream.stream.batch_signal_operations(&[wait(&gate, 1), write]).unwrap();
                if other.device == stream.device {
                    other.stream.batch_signal_operations(&[wait(&passed, 7)]).unwrap();
                }
                self.gates.push((stream.device, gate));
            }
        }
    }
}
