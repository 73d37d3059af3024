//! Random programs on the host device, with every schedule made from a number: that the data is that of the program's text,
//! and that the library inserts exactly the orders that the program lacks.
//!
//! In *held* programs every stream waits at a gate until all is queued, and the gates are opened one after the other. An
//! order that is missing then shows, since nothing but order keeps later work from coming first.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, Context, DualModule, Event, EventFlags, HostFunction, Instance, Kernel, LaunchConfig, Signal, Stream,
};
use common::hold;
use proptest::prelude::*;

const STREAMS: usize = 4;
const WORDS: usize = 4;
const EVENTS: usize = 3;

#[derive(Clone, Debug)]
enum Operation {
    /// `word = word * 31 + other`, by a kernel.
    Mix {
        stream: usize,
        word: usize,
        other: usize,
    },
    /// `to = from`, by a copy.
    Copy {
        stream: usize,
        to: usize,
        from: usize,
    },
    /// `word = value`, by a fill.
    Fill {
        stream: usize,
        word: usize,
        value: u32,
    },
    Record {
        stream: usize,
        event: usize,
    },
    WaitEvent {
        stream: usize,
        event: usize,
    },
    WaitStream {
        stream: usize,
        other: usize,
    },
    /// Drops a word's buffer while it may be in use, and allocates it anew on a stream.
    Renew {
        stream: usize,
        word: usize,
    },
    /// Ends a stream, and makes another in its place.
    Restart {
        stream: usize,
    },
    Synchronize {
        stream: usize,
    },
    SynchronizeEvent {
        event: usize,
    },
    SynchronizeContext,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let (stream, word, event) = (0..STREAMS, 0..WORDS, 0..EVENTS);
    prop_oneof![
        8 => (stream.clone(), word.clone(), word.clone()).prop_map(|(stream, word, other)| Mix { stream, word, other }),
        4 => (stream.clone(), word.clone(), word.clone()).prop_map(|(stream, to, from)| Copy { stream, to, from }),
        4 => (stream.clone(), word.clone(), any::<u32>()).prop_map(|(stream, word, value)| Fill { stream, word, value }),
        6 => (stream.clone(), event.clone()).prop_map(|(stream, event)| Record { stream, event }),
        6 => (stream.clone(), event.clone()).prop_map(|(stream, event)| WaitEvent { stream, event }),
        3 => (stream.clone(), stream.clone()).prop_map(|(stream, other)| WaitStream { stream, other }),
        1 => (stream.clone(), word).prop_map(|(stream, word)| Renew { stream, word }),
        1 => stream.clone().prop_map(|stream| Restart { stream }),
        1 => stream.prop_map(|stream| Synchronize { stream }),
        1 => event.prop_map(|event| SynchronizeEvent { event }),
        1 => Just(SynchronizeContext),
    ]
}

/// How many operations of each stream, ended ones included, something comes after.
type Clock = Vec<usize>;

fn join(own: &mut Clock, other: &Clock) {
    own.resize(own.len().max(other.len()), 0);
    for (own, other) in own.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

fn get(clock: &Clock, stream: usize) -> usize {
    clock.get(stream).copied().unwrap_or(0)
}

/// A use: the stream, its number among the stream's operations, from 0, and how many marks were in the stream.
type Use = (usize, usize, usize);

/// The uses of one buffer.
struct Uses {
    home: usize,
    writer: Option<Use>,
    readers: Vec<Use>,
}

/// What the program says of order, and which orders it lacks.
struct Model {
    /// Of each stream that there ever was, what its next operation comes after. Its own entry counts its operations.
    clocks: Vec<Clock>,
    ended: Vec<bool>,
    /// Whether anything was submitted to each since the host waited for it last.
    busy: Vec<bool>,
    /// How many marks each has: with none since, an earlier use of a stream that used a word alone already orders a
    /// later one, which decides in which order streams are followed.
    marks: Vec<usize>,
    /// Which stream is at each place.
    streams: [usize; STREAMS],
    events: [Option<(usize, Clock)>; EVENTS],
    words: Vec<Uses>,
    /// How many operations of each stream the host has waited for.
    complete: Clock,
    inserted: u64,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            clocks: Vec::new(),
            ended: Vec::new(),
            busy: Vec::new(),
            marks: Vec::new(),
            streams: [0; STREAMS],
            events: Default::default(),
            words: Vec::new(),
            complete: Vec::new(),
            inserted: 0,
        };
        for place in 0..STREAMS {
            model.streams[place] = model.start();
        }
        model
    }

    fn start(&mut self) -> usize {
        self.clocks.push(Vec::new());
        self.ended.push(false);
        self.busy.push(false);
        self.marks.push(0);
        self.clocks.len() - 1
    }

    fn done(&self, stream: usize) -> usize {
        get(&self.clocks[stream], stream)
    }

    fn operate(&mut self, stream: usize) -> Use {
        self.busy[stream] = true;
        let number = self.done(stream);
        let mut clock: Clock = vec![0; stream + 1];
        clock[stream] = number + 1;
        join(&mut self.clocks[stream], &clock);
        (stream, number, self.marks[stream])
    }

    fn follow(&mut self, stream: usize, (other, number, _): Use) {
        let known = stream == other || get(&self.clocks[stream], other) > number || get(&self.complete, other) > number;
        if !known {
            self.inserted += 1;
            self.busy[stream] = true;
            self.marks[other] += 1;
            let other = self.clocks[other].clone();
            join(&mut self.clocks[stream], &other);
        }
    }

    fn read(&mut self, stream: usize, word: usize) {
        if let Some(writer) = self.words[word].writer {
            self.follow(stream, writer);
        }
    }

    fn write(&mut self, stream: usize, word: usize) {
        let uses: Vec<Use> = self.words[word].readers.iter().copied().chain(self.words[word].writer).collect();
        uses.into_iter().for_each(|last| self.follow(stream, last));
    }

    /// Whether an earlier use already orders a later one.
    fn is_already_ordered(&mut self, last: Use, word: usize, write: bool) -> bool {
        let Uses { writer, readers, .. } = &mut self.words[word];
        let mut all: Vec<&mut Use> = readers.iter_mut().chain(writer).collect();
        let latest = all.iter().map(|known| known.2).max();
        let is_ordered = all.iter().all(|known| known.0 == last.0) && latest == Some(last.2);
        if is_ordered && !write {
            // The latest of them is this one then.
            all.iter_mut().filter(|known| known.2 == last.2).for_each(|known| known.1 = last.1);
        }
        is_ordered && (!write || self.words[word].writer.is_some_and(|writer| writer.2 == last.2))
    }

    fn has_read(&mut self, last: Use, word: usize) {
        if self.is_already_ordered(last, word, false) {
            return;
        }
        let readers = &mut self.words[word].readers;
        match readers.iter_mut().find(|reader| reader.0 == last.0) {
            Some(reader) => *reader = last,
            None => readers.push(last),
        }
    }

    fn has_written(&mut self, last: Use, word: usize) {
        if self.is_already_ordered(last, word, true) {
            let uses = &mut self.words[word];
            uses.writer = Some(last);
            uses.readers.iter_mut().for_each(|reader| reader.1 = last.1);
            return;
        }
        self.words[word].writer = Some(last);
        self.words[word].readers.clear();
    }

    fn use_words(&mut self, stream: usize, read: Option<usize>, written: usize) {
        let read = read.filter(|&read| read != written);
        if let Some(read) = read {
            self.read(stream, read);
        }
        self.write(stream, written);
        let last = self.operate(stream);
        if let Some(read) = read {
            self.has_read(last, read);
        }
        self.has_written(last, written);
    }

    fn allocate(&mut self, stream: usize) -> Uses {
        // The allocation itself, and the fill with zeros.
        self.operate(stream);
        Uses { home: stream, writer: Some(self.operate(stream)), readers: Vec::new() }
    }

    fn free(&mut self, uses: Uses) {
        let all: Vec<Use> = uses.readers.into_iter().chain(uses.writer).collect();
        let mut home = uses.home;
        if self.ended[home] {
            // Another stream is made for it, behind the end of the first.
            home = self.start();
            if self.busy[uses.home] {
                let end = self.clocks[uses.home].clone();
                join(&mut self.clocks[home], &end);
                self.inserted += 1;
            }
        }
        all.into_iter().filter(|last| last.0 != uses.home).for_each(|last| self.follow(home, last));
    }

    fn complete(&mut self, stream: usize, count: usize) {
        let mut clock = vec![0; stream + 1];
        clock[stream] = count;
        join(&mut self.complete, &clock);
    }
}

struct Device {
    context: Context,
    streams: Vec<Stream>,
    events: Vec<Event>,
    words: Vec<Buffer<u32>>,
    mix: Kernel,
}

impl Device {
    fn new(seed: u64, model: &mut Model) -> Self {
        let instance = Instance::builder().cuda(false).host_devices(1).host_seed(seed).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let mix = HostFunction::new("mix", &[8, 8], |_, arguments| {
            let (word, other) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
            word.set(0, word.get(0).wrapping_mul(31).wrapping_add(other.get(0)));
        });
        let streams: Vec<Stream> = (0..STREAMS).map(|_| context.create_stream().unwrap()).collect();
        let words = (0..WORDS).map(|word| streams[word % STREAMS].allocate_zeroed(1).unwrap()).collect();
        model.words = (0..WORDS).map(|word| model.allocate(word % STREAMS)).collect();
        Self {
            events: (0..EVENTS).map(|_| context.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap()).collect(),
            words,
            mix: DualModule::new().host_function(mix).load(&context).unwrap().kernel("mix").unwrap(),
            streams,
            context,
        }
    }
}

fn run(program: &[Operation], seed: u64, held: bool) -> Result<(), TestCaseError> {
    let mut model = Model::new();
    let mut device = Device::new(seed, &mut model);
    let mut gates: Vec<Signal> = Vec::new();
    if held {
        gates.extend(device.streams.iter().map(|stream| hold(&device.context, stream)));
    }
    let mut words = [0u32; WORDS];
    for operation in program {
        match *operation {
            Operation::Mix { stream, word, other } if word != other => {
                words[word] = words[word].wrapping_mul(31).wrapping_add(words[other]);
                let [memory, other_memory] = device.words.get_disjoint_mut([word, other]).unwrap();
                let arguments = (memory, &*other_memory);
                // The arguments are met in their order.
                model.write(model.streams[stream], word);
                model.use_words(model.streams[stream], Some(other), word);
                // SAFETY: `mix` reads one number of either argument, and writes that of the first.
                unsafe { device.streams[stream].launch(&device.mix, &LaunchConfig::new(1, 1), arguments) }.unwrap();
            }
            Operation::Copy { stream, to, from } if to != from => {
                words[to] = words[from];
                let [destination, source] = device.words.get_disjoint_mut([to, from]).unwrap();
                model.use_words(model.streams[stream], Some(from), to);
                device.streams[stream].copy(destination, source).unwrap();
            }
            Operation::Mix { .. } | Operation::Copy { .. } => {}
            Operation::Fill { stream, word, value } => {
                words[word] = value;
                model.use_words(model.streams[stream], None, word);
                device.streams[stream].fill(&mut device.words[word], value).unwrap();
            }
            Operation::Record { stream, event } => {
                let recorded = model.streams[stream];
                model.events[event] = Some((recorded, model.clocks[recorded].clone()));
                model.marks[recorded] += 1;
                model.busy[recorded] = true;
                device.streams[stream].record(&device.events[event]).unwrap();
            }
            Operation::WaitEvent { stream, event } => {
                if let Some((_, clock)) = &model.events[event] {
                    join(&mut model.clocks[model.streams[stream]], clock);
                }
                model.busy[model.streams[stream]] = true;
                device.streams[stream].wait_event(&device.events[event]).unwrap();
            }
            Operation::WaitStream { stream, other } => {
                let clock = model.clocks[model.streams[other]].clone();
                model.marks[model.streams[other]] += usize::from(stream != other);
                join(&mut model.clocks[model.streams[stream]], &clock);
                if stream != other {
                    model.busy[model.streams[stream]] = true;
                }
                device.streams[stream].wait_stream(&device.streams[other]).unwrap();
            }
            Operation::Renew { stream, word } => {
                words[word] = 0;
                let anew = model.allocate(model.streams[stream]);
                let before = std::mem::replace(&mut model.words[word], anew);
                model.free(before);
                device.words[word] = device.streams[stream].allocate_zeroed(1).unwrap();
            }
            Operation::Restart { stream } => {
                model.ended[model.streams[stream]] = true;
                model.streams[stream] = model.start();
                device.streams[stream] = device.context.create_stream().unwrap();
                if held {
                    gates.push(hold(&device.context, &device.streams[stream]));
                }
            }
            _ if held => {}
            Operation::Synchronize { stream } => {
                let stream_number = model.streams[stream];
                model.complete(stream_number, model.done(stream_number));
                model.marks[stream_number] += 1;
                model.busy[stream_number] = false;
                device.streams[stream].synchronize().unwrap();
            }
            Operation::SynchronizeEvent { event } => {
                if let Some((stream, clock)) = model.events[event].clone() {
                    model.complete(stream, get(&clock, stream));
                }
                device.events[event].synchronize().unwrap();
            }
            Operation::SynchronizeContext => {
                for stream in 0..model.clocks.len() {
                    model.complete(stream, model.done(stream));
                    model.marks[stream] += 1;
                }
                device.context.synchronize().unwrap();
            }
        }
        if !held {
            prop_assert_eq!(device.context.orders_inserted(), model.inserted, "after {:?}", operation);
        }
    }
    for gate in gates {
        gate.set(1);
        // With a seed, work runs only in calls such as this: some of what is free now, before the next gate is opened.
        for _ in 0..40 {
            device.streams[0].query().unwrap();
        }
    }
    device.context.synchronize().unwrap();
    for (word, expected) in words.iter().enumerate() {
        let found = device.streams[word % STREAMS].download(&device.words[word]).unwrap();
        prop_assert_eq!(found[0], *expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_orders_that_a_program_lacks_are_inserted(
        program in prop::collection::vec(operation(), 1..80),
        seed in any::<u64>(),
    ) {
        run(&program, seed, false)?;
    }

    #[test]
    fn held_programs_run_in_their_order(
        program in prop::collection::vec(operation(), 1..60),
        seed in any::<u64>(),
    ) {
        run(&program, seed, true)?;
    }
}
