//! Random programs on the host device, compared with the same programs run one operation after the other.
//!
//! A program works on a few words of memory through a few streams. Whatever the streams overlap, the order that the
//! program states (in streams, by events, by waits between streams) or that the library keeps (between uses of one
//! buffer) makes every word's history that of the program's text.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::{Buffer, DualModule, Event, EventFlags, HostFunction, Instance, Kernel, LaunchConfig, Stream};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const STREAMS: usize = 4;
const WORDS: usize = 3;
const EVENTS: usize = 3;

/// One operation of a program.
#[derive(Clone, Debug)]
enum Operation {
    /// `word = word * 31 + value`, by a kernel.
    Mix {
        stream: usize,
        word: usize,
        value: u32,
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
    /// A host function, which nothing but the program's own order orders.
    Host {
        stream: usize,
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
    Synchronize {
        stream: usize,
    },
    /// Reads a word back, and compares at once.
    Read {
        stream: usize,
        word: usize,
    },
    /// Drops a word's buffer while it may be in use, and allocates it anew on a stream.
    Renew {
        stream: usize,
        word: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{Copy, Fill, Host, Mix, Read, Record, Renew, Synchronize, WaitEvent, WaitStream};
    let (stream, word, event) = (0..STREAMS, 0..WORDS, 0..EVENTS);
    prop_oneof![
        6 => (stream.clone(), word.clone(), any::<u32>()).prop_map(|(stream, word, value)| Mix { stream, word, value }),
        3 => (stream.clone(), word.clone(), word.clone()).prop_map(|(stream, to, from)| Copy { stream, to, from }),
        2 => (stream.clone(), word.clone(), any::<u32>()).prop_map(|(stream, word, value)| Fill { stream, word, value }),
        4 => stream.clone().prop_map(|stream| Host { stream }),
        2 => (stream.clone(), event.clone()).prop_map(|(stream, event)| Record { stream, event }),
        2 => (stream.clone(), event).prop_map(|(stream, event)| WaitEvent { stream, event }),
        2 => (stream.clone(), stream.clone()).prop_map(|(stream, other)| WaitStream { stream, other }),
        1 => stream.clone().prop_map(|stream| Synchronize { stream }),
        1 => (stream.clone(), word.clone()).prop_map(|(stream, word)| Read { stream, word }),
        1 => (stream, word).prop_map(|(stream, word)| Renew { stream, word }),
    ]
}

/// What the program's own order says of host functions: for each stream, how many of each stream's operations come
/// before whatever is queued on it next.
#[derive(Clone, Default)]
struct Clock([u64; STREAMS]);

impl Clock {
    fn join(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = (*own).max(other);
        }
    }
}

struct Device {
    streams: Vec<Stream>,
    events: Vec<Event>,
    words: Vec<Buffer<u32>>,
    mix: Kernel,
    /// For each stream, how many of its host functions have started.
    started: Arc<[AtomicU64; STREAMS]>,
    violations: Arc<AtomicU64>,
}

impl Device {
    fn new() -> Self {
        let instance = Instance::builder().cuda(false).host_devices(1).host_workers(3).build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let mix = HostFunction::new("mix", &[8, 4], |_, arguments| {
            let (word, value) = (arguments.slice::<u32>(0), arguments.scalar::<u32>(1));
            word.set(0, word.get(0).wrapping_mul(31).wrapping_add(value));
        });
        let streams: Vec<Stream> = (0..STREAMS).map(|_| context.create_stream().unwrap()).collect();
        Self {
            events: (0..EVENTS).map(|_| context.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap()).collect(),
            words: (0..WORDS).map(|word| streams[word % STREAMS].allocate_zeroed(1).unwrap()).collect(),
            mix: DualModule::new().host_function(mix).load(&context).unwrap().kernel("mix").unwrap(),
            streams,
            started: Arc::new(std::array::from_fn(|_| AtomicU64::new(0))),
            violations: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A host function that checks that all the host functions it must follow have run.
    fn check_order(&self, stream: usize, before: Clock) {
        let (started, violations) = (self.started.clone(), self.violations.clone());
        self.streams[stream]
            .launch_host_func(move || {
                let late =
                    started.iter().zip(before.0).any(|(started, before)| started.load(Ordering::SeqCst) < before);
                if late {
                    violations.fetch_add(1, Ordering::SeqCst);
                }
                started[stream].fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
}

fn run(program: &[Operation]) -> Result<(), TestCaseError> {
    let mut device = Device::new();
    let mut words = [0u32; WORDS];
    let mut clocks: [Clock; STREAMS] = Default::default();
    let mut recorded: [Clock; EVENTS] = Default::default();
    for operation in program {
        match *operation {
            Operation::Mix { stream, word, value } => {
                words[word] = words[word].wrapping_mul(31).wrapping_add(value);
                let memory = &mut device.words[word];
                // SAFETY: `mix` reads and writes the one number of its first argument.
                unsafe { device.streams[stream].launch(&device.mix, &LaunchConfig::new(1, 1), (memory, value)) }
                    .unwrap();
            }
            Operation::Copy { stream, to, from } if to != from => {
                words[to] = words[from];
                let [to, from] = device.words.get_disjoint_mut([to, from]).unwrap();
                device.streams[stream].copy(to, from).unwrap();
            }
            Operation::Copy { .. } => {}
            Operation::Fill { stream, word, value } => {
                words[word] = value;
                device.streams[stream].fill(&mut device.words[word], value).unwrap();
            }
            Operation::Host { stream } => {
                device.check_order(stream, clocks[stream].clone());
                clocks[stream].0[stream] += 1;
            }
            Operation::Record { stream, event } => {
                device.streams[stream].record(&device.events[event]).unwrap();
                recorded[event] = clocks[stream].clone();
            }
            Operation::WaitEvent { stream, event } => {
                device.streams[stream].wait_event(&device.events[event]).unwrap();
                clocks[stream].join(&recorded[event]);
            }
            Operation::WaitStream { stream, other } => {
                device.streams[stream].wait_stream(&device.streams[other]).unwrap();
                let other = clocks[other].clone();
                clocks[stream].join(&other);
            }
            Operation::Synchronize { stream } => {
                device.streams[stream].synchronize().unwrap();
                // The host has seen it all, and so has whatever it queues from now on.
                let seen = clocks[stream].clone();
                clocks.iter_mut().for_each(|clock| clock.join(&seen));
            }
            Operation::Read { stream, word } => {
                let found = device.streams[stream].download(&device.words[word]).unwrap();
                prop_assert_eq!(found[0], words[word]);
            }
            Operation::Renew { stream, word } => {
                words[word] = 0;
                device.words[word] = device.streams[stream].allocate_zeroed(1).unwrap();
            }
        }
    }
    for (word, expected) in words.iter().enumerate() {
        let found = device.streams[word % STREAMS].download(&device.words[word]).unwrap();
        prop_assert_eq!(found[0], *expected);
    }
    for stream in &device.streams {
        stream.synchronize().unwrap();
    }
    prop_assert_eq!(device.violations.load(Ordering::SeqCst), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_agree_with_the_sequential_model(program in prop::collection::vec(operation(), 1..120)) {
        run(&program)?;
    }
}
