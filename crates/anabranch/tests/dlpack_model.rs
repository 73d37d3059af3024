//! Random programs with several buffers of the same memory, which tensors of another library have: that the data is that of the
//! program's text, and that the checker finds no race.

#![cfg(feature = "dlpack")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
mod theirs;

use anabranch::{Buffer, Context, ExecutableGraph, NodeWork, Signal, Status, Stream, flush_deferred_drops};
use common::{checked_host, hold, until};
use proptest::prelude::*;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use theirs::Theirs;

const WORDS: usize = 12;
const STREAMS: usize = 3;
const SLOTS: usize = 4;

#[derive(Clone, Debug)]
enum Operation {
    /// Another buffer of the memory, or of a part. What was in the slot is dropped behind that.
    Import {
        slot: usize,
        part: Range<usize>,
    },
    Drop {
        slot: usize,
    },
    Fill {
        stream: usize,
        slot: usize,
        value: u32,
    },
    FillPart {
        stream: usize,
        slot: usize,
        from: usize,
        value: u32,
    },
    /// To memory of the library, or from it.
    CopyOut {
        stream: usize,
        slot: usize,
    },
    CopyIn {
        stream: usize,
        slot: usize,
    },
    /// From one buffer to another one that is not of the same words.
    Between {
        stream: usize,
        to: usize,
        from: usize,
    },
    Download {
        stream: usize,
        slot: usize,
    },
    /// Makes a graph that fills a buffer, and copies it to memory of the library.
    Graph {
        slot: usize,
        value: u32,
    },
    Launch {
        stream: usize,
        graph: usize,
    },
    /// Work of the stream waits for a moment.
    Hold {
        stream: usize,
    },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    use Operation::*;
    let (stream, slot) = (|| 0..STREAMS, || 0..SLOTS);
    let part = prop_oneof![
        2 => Just(0..WORDS),
        3 => (0..WORDS, 1..=WORDS).prop_map(|(start, length)| start..(start + length).min(WORDS)),
    ];
    let operation = prop_oneof![
        4 => (slot(), part).prop_map(|(slot, part)| Import { slot, part }),
        2 => slot().prop_map(|slot| Drop { slot }),
        4 => (stream(), slot(), any::<u32>()).prop_map(|(stream, slot, value)| Fill { stream, slot, value }),
        2 => (stream(), slot(), 0..WORDS, any::<u32>())
            .prop_map(|(stream, slot, from, value)| FillPart { stream, slot, from, value }),
        2 => (stream(), slot()).prop_map(|(stream, slot)| CopyOut { stream, slot }),
        2 => (stream(), slot()).prop_map(|(stream, slot)| CopyIn { stream, slot }),
        2 => (stream(), slot(), slot()).prop_map(|(stream, to, from)| Between { stream, to, from }),
        2 => (stream(), slot()).prop_map(|(stream, slot)| Download { stream, slot }),
        1 => (slot(), any::<u32>()).prop_map(|(slot, value)| Graph { slot, value }),
        2 => (stream(), 0..4usize).prop_map(|(stream, graph)| Launch { stream, graph }),
        3 => stream().prop_map(|stream| Hold { stream }),
    ];
    prop::collection::vec(operation, 1..40)
}

/// A buffer of a part of the memory.
struct Alias {
    buffer: Buffer<u32>,
    part: Range<usize>,
    /// No later buffer has some of its words: uses of this one would not be ordered behind those of that.
    is_newest: bool,
}

/// What a graph fills, and with what.
struct Filled {
    graph: ExecutableGraph,
    part: Range<usize>,
    value: u32,
    is_newest: bool,
}

fn meet(part: &Range<usize>, other: &Range<usize>) -> bool {
    part.start < other.end && other.start < part.end
}

struct World {
    context: Context,
    streams: Vec<Stream>,
    memory: *mut c_void,
    aliases: [Option<Alias>; SLOTS],
    graphs: Vec<Filled>,
    own: Buffer<u32>,
    /// What is in the memory, and in that of the library.
    expected: [u32; WORDS],
    expected_own: [u32; WORDS],
    opened_later: Sender<Signal>,
    /// How often each tensor was deleted.
    tensors: Vec<Arc<AtomicUsize>>,
}

impl World {
    fn run(&mut self, operation: Operation) {
        use Operation::*;
        match operation {
            Import { slot, part } => {
                let place = |theirs: &mut Theirs| {
                    theirs.tensor.dl_tensor.data = self.memory;
                    theirs.tensor.dl_tensor.byte_offset = 4 * part.start as u64;
                };
                let (tensor, deleted) = Theirs::tensor(Vec::new(), &[part.len() as i64], place);
                self.tensors.push(deleted);
                self.aliases[slot] = match tensor.into_buffer(&self.context, None) {
                    Ok(buffer) => {
                        let aliases =
                            self.aliases.iter_mut().flatten().map(|earlier| (&earlier.part, &mut earlier.is_newest));
                        let graphs = self.graphs.iter_mut().map(|earlier| (&earlier.part, &mut earlier.is_newest));
                        aliases.chain(graphs).for_each(|(other, is_newest)| *is_newest &= !meet(other, &part));
                        Some(Alias { buffer, part, is_newest: true })
                    }
                    // An earlier buffer is of some of the words only.
                    Err(error) => {
                        assert_eq!(error.status(), Status::HOST_MEMORY_ALREADY_REGISTERED, "{error}");
                        None
                    }
                };
            }
            Drop { slot } => self.aliases[slot] = None,
            Fill { stream, slot, value } => self.fill(stream, slot, 0, value),
            FillPart { stream, slot, from, value } => self.fill(stream, slot, from, value),
            CopyOut { stream, slot } => {
                let Some(Alias { buffer, part, is_newest: true }) = &self.aliases[slot] else { return };
                self.streams[stream].copy(self.own.slice_mut(..part.len()).unwrap(), buffer).unwrap();
                self.expected_own[..part.len()].copy_from_slice(&self.expected[part.clone()]);
            }
            CopyIn { stream, slot } => {
                let Some(Alias { buffer, part, is_newest: true }) = &mut self.aliases[slot] else { return };
                self.streams[stream].copy(buffer, self.own.slice(..part.len()).unwrap()).unwrap();
                self.expected[part.clone()].copy_from_slice(&self.expected_own[..part.len()]);
            }
            Between { stream, to, from } => {
                let (Some(from), true) = (self.aliases[from].take(), to != from) else { return };
                if let Some(Alias { buffer, part, is_newest: true }) = &mut self.aliases[to]
                    && from.is_newest
                    && !meet(part, &from.part)
                {
                    let length = part.len().min(from.part.len());
                    let target = buffer.slice_mut(..length).unwrap();
                    self.streams[stream].copy(target, from.buffer.slice(..length).unwrap()).unwrap();
                    self.expected.copy_within(from.part.start..from.part.start + length, part.start);
                }
                let free = self.aliases.iter_mut().find(|alias| alias.is_none());
                *free.unwrap() = Some(from);
            }
            Download { stream, slot } => {
                let Some(Alias { buffer, part, is_newest: true }) = &self.aliases[slot] else { return };
                assert_eq!(self.streams[stream].download(buffer).unwrap(), self.expected[part.clone()]);
            }
            Graph { slot, value } => {
                let Some(Alias { buffer, part, is_newest: true }) = &mut self.aliases[slot] else { return };
                let mut graph = self.context.create_graph().unwrap();
                let fill = graph.add((), NodeWork::fill(&mut *buffer, value).unwrap()).unwrap();
                let own = self.own.slice_mut(..part.len()).unwrap();
                graph.add([fill], NodeWork::copy(own, &*buffer).unwrap()).unwrap();
                let graph = graph.instantiate().unwrap();
                self.graphs.push(Filled { graph, part: part.clone(), value, is_newest: true });
            }
            Launch { stream, graph } => {
                let Some(Filled { graph, part, value, is_newest: true }) = self.graphs.get(graph) else { return };
                graph.launch(&self.streams[stream]).unwrap();
                self.expected[part.clone()].fill(*value);
                self.expected_own[..part.len()].fill(*value);
            }
            Hold { stream } => self.opened_later.send(hold(&self.context, &self.streams[stream])).unwrap(),
        }
    }

    fn fill(&mut self, stream: usize, slot: usize, from: usize, value: u32) {
        let Some(Alias { buffer, part, is_newest: true }) = &mut self.aliases[slot] else { return };
        let from = from.min(part.len());
        self.streams[stream].fill(buffer.slice_mut(from..).unwrap(), value).unwrap();
        self.expected[part.start + from..part.end].fill(value);
    }
}

fn run(operations: Vec<Operation>) {
    let context = checked_host();
    let streams: Vec<_> = (0..STREAMS).map(|_| context.create_stream().unwrap()).collect();
    let own = streams[0].allocate_zeroed(WORDS).unwrap();
    let mut memory = vec![0u32; WORDS];
    let (opened_later, signals) = channel::<Signal>();
    let opening = std::thread::spawn(move || {
        for signal in signals {
            // So that work which does not wait is seen.
            std::thread::sleep(Duration::from_micros(300));
            signal.set(1);
        }
    });
    let mut world = World {
        context: context.clone(),
        streams,
        memory: memory.as_mut_ptr().cast(),
        aliases: Default::default(),
        graphs: Vec::new(),
        own,
        expected: [0; WORDS],
        expected_own: [0; WORDS],
        opened_later,
        tensors: Vec::new(),
    };
    operations.into_iter().for_each(|operation| world.run(operation));
    assert_eq!(world.streams[0].download(&world.own).unwrap(), world.expected_own);
    let (expected, tensors) = (world.expected, std::mem::take(&mut world.tensors));
    drop(world);
    opening.join().unwrap();
    until("the tensors are given back", || {
        flush_deferred_drops();
        tensors.iter().all(|deleted| deleted.load(Ordering::SeqCst) == 1)
    });
    let report = context.device().memory_report().unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!(memory, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn buffers_of_the_same_memory_have_what_the_text_of_a_program_says(operations in operations()) {
        run(operations);
    }
}
