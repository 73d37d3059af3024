//! Random work in several streams, captured and launched, compared with the same work run directly.

use super::capture_tools::usable;
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use anabranch::{Buffer, CaptureMode, Event, Kernel, LaunchConfig, Result, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.random_1_to_200", "C4", random_1_to_200),
    Case::new("capture.random_201_to_400", "C4", random_201_to_400),
    Case::new("capture.random_401_to_600", "C4", random_401_to_600),
    Case::new("capture.random_601_to_800", "C4", random_601_to_800),
    Case::new("capture.random_801_to_1000", "C4", random_801_to_1000),
];

const STREAMS: usize = 4;
const BUFFERS: usize = 3;
const MOST_OPERATIONS: usize = 24;

/// Pseudo-random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        // The constants are Knuth's. The upper bits have better statistical properties.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// One operation in a stream.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// `buffer = buffer * 31 + value`, by a kernel.
    Mix {
        buffer: usize,
        value: u32,
    },
    /// `to = from`, by a copy.
    Copy {
        to: usize,
        from: usize,
    },
    Fill {
        buffer: usize,
        value: u32,
    },
    /// The stream waits for all work that is in another stream.
    Follow {
        earlier: usize,
    },
    /// The same, by an event.
    Wait {
        earlier: usize,
    },
}

type Program = Vec<(usize, Operation)>;

fn program(seed: u64) -> Program {
    let mut numbers = Numbers(seed);
    let length = 1 + numbers.below(MOST_OPERATIONS);
    (0..length)
        .map(|index| {
            let (stream, buffer, value) = (numbers.below(STREAMS), numbers.below(BUFFERS), index as u32 + 1);
            let other = (stream + 1 + numbers.below(STREAMS - 1)) % STREAMS;
            let operation = match numbers.below(8) {
                0 => Operation::Copy { to: buffer, from: (buffer + 1 + numbers.below(BUFFERS - 1)) % BUFFERS },
                1 => Operation::Fill { buffer, value },
                2 => Operation::Follow { earlier: other },
                3 => Operation::Wait { earlier: other },
                _ => Operation::Mix { buffer, value },
            };
            (stream, operation)
        })
        .collect()
}

/// Returns the contents of the buffers after the operations have run one after the other.
fn expected(program: &Program, mut words: [u32; BUFFERS]) -> [u32; BUFFERS] {
    for (_, operation) in program {
        match *operation {
            Operation::Mix { buffer, value } => words[buffer] = words[buffer].wrapping_mul(31).wrapping_add(value),
            Operation::Copy { to, from } => words[to] = words[from],
            Operation::Fill { buffer, value } => words[buffer] = value,
            Operation::Follow { .. } | Operation::Wait { .. } => {}
        }
    }
    words
}

struct Machine {
    streams: [Stream; STREAMS],
    buffers: Vec<Buffer<u32>>,
    event: Event,
    mix: Kernel,
}

impl Machine {
    fn new(environment: &Environment) -> Result<Self> {
        let streams = [environment.stream()?, environment.stream()?, environment.stream()?, environment.stream()?];
        let buffers = (0..BUFFERS).map(|_| streams[0].allocate_zeroed(1)).collect::<Result<_>>()?;
        Ok(Self { streams, buffers, event: environment.context().create_event()?, mix: environment.kernel("add")? })
    }

    /// Submits the program to the streams. All streams first wait for the first stream, and the first stream waits for
    /// all of them at the end.
    fn put(&mut self, program: &Program) -> Result<()> {
        let [first, others @ ..] = &self.streams;
        others.iter().try_for_each(|stream| stream.wait_stream(first))?;
        for (stream, operation) in program {
            let stream = &self.streams[*stream];
            match *operation {
                Operation::Mix { buffer, value } => {
                    let arguments = (&mut self.buffers[buffer], 31u32, value);
                    // SAFETY: `add` accesses only the number that its first argument points to.
                    unsafe { stream.launch(&self.mix, &LaunchConfig::new(1, 1), arguments) }?;
                }
                Operation::Copy { to, from } => {
                    if let Ok([to, from]) = self.buffers.get_disjoint_mut([to, from]) {
                        stream.copy(to, &*from)?;
                    }
                }
                Operation::Fill { buffer, value } => stream.fill(&mut self.buffers[buffer], value)?,
                Operation::Follow { earlier } => stream.wait_stream(&self.streams[earlier])?,
                Operation::Wait { earlier } => {
                    self.streams[earlier].record(&self.event)?;
                    stream.wait_event(&self.event)?;
                }
            }
        }
        others.iter().try_for_each(|stream| first.wait_stream(stream))
    }

    fn reset(&mut self) -> Result<()> {
        self.buffers.iter_mut().zip(1u32..).try_for_each(|(buffer, value)| self.streams[0].fill(buffer, value))
    }

    fn words(&self) -> Result<[u32; BUFFERS]> {
        let mut words = [0; BUFFERS];
        for (word, buffer) in words.iter_mut().zip(&self.buffers) {
            *word = self.streams[0].download(buffer)?.first().copied().unwrap_or_default();
        }
        Ok(words)
    }
}

fn ask(environment: &Environment, seeds: std::ops::RangeInclusive<u64>) -> Verdict {
    let mut machine = Machine::new(environment)?;
    for seed in seeds {
        let (program, words) = (program(seed), [1, 2, 3]);
        let (once, twice) = (expected(&program, words), expected(&program, expected(&program, words)));
        machine.reset()?;
        machine.put(&program)?;
        equal(&format!("program {seed}, run directly"), machine.words()?, once)?;
        machine.reset()?;
        machine.streams[0].begin_capture(CaptureMode::Global)?;
        let put = machine.put(&program);
        let graph = machine.streams[0].end_capture();
        put?;
        let executable = graph?.instantiate()?;
        equal(&format!("program {seed}, only captured"), machine.words()?, words)?;
        executable.launch(&machine.streams[0])?;
        equal(&format!("program {seed}, launched"), machine.words()?, once)?;
        executable.launch(&machine.streams[seed as usize % STREAMS])?;
        equal(&format!("program {seed}, launched again"), machine.words()?, twice)?;
    }
    usable(environment, &machine.streams.iter().collect::<Vec<_>>())
}

fn random_1_to_200(environment: &Environment) -> Verdict {
    ask(environment, 1..=200)
}

fn random_201_to_400(environment: &Environment) -> Verdict {
    ask(environment, 201..=400)
}

fn random_401_to_600(environment: &Environment) -> Verdict {
    ask(environment, 401..=600)
}

fn random_601_to_800(environment: &Environment) -> Verdict {
    ask(environment, 601..=800)
}

fn random_801_to_1000(environment: &Environment) -> Verdict {
    ask(environment, 801..=1000)
}
