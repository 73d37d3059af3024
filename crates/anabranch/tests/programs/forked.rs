//! Captures that fork and join by events: recorded and waited for in any streams, inside and outside of captures, by several objects of
//! one event, and by nodes of graphs.
//!
//! Which streams have joined a capture by then is asked of the library. What must hold is that work counts in the order of the program's
//! text whatever the events add to that, and that memory lives as long as a graph uses it.

use crate::captured::Effect;
use crate::edited;
use crate::environment::{LENGTH, is_on_cuda};
use crate::tally::note;
use crate::world::{Number, Words, World, another_object, new_event};
use anabranch::{
    Buffer, CaptureMode, CaptureStatus, Context, Event, ExecutableGraph, Node, NodeWork, PinnedBuffer, Result, Signal,
    Stream, WaitCondition,
};
use futures::FutureExt;
use proptest::prelude::*;
use std::slice::GetDisjointMutError;

const STREAMS: usize = 4;
const EVENTS: usize = 3;
/// Of these pieces of memory, the last ones are pinned.
const MEMORIES: usize = 6;
const PINNED: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct Forked {
    stream: usize,
    steps: Vec<Step>,
    /// Whether the captures that are open at the end are ended, and not given up with their streams.
    ends: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin {
        stream: usize,
    },
    /// Joins all streams of the capture, some of them by an event that there is.
    End {
        capture: usize,
        events: [Option<usize>; STREAMS],
    },
    Record {
        stream: usize,
        event: usize,
        external: bool,
    },
    Wait {
        stream: usize,
        event: usize,
        external: bool,
    },
    WaitStream {
        stream: usize,
        other: usize,
    },
    /// Puts a new event in the place of one, or another object of an event.
    Renew {
        event: usize,
        of: Option<usize>,
    },
    /// Asks for an event, waits for it, or lets a task ask for it.
    Meet {
        event: usize,
        wait: Option<bool>,
    },
    Work {
        stream: usize,
        work: edited::Work,
    },
    /// Work whose condition holds, and an event that is recorded in front of it and awaited behind it.
    If {
        stream: usize,
        work: edited::Work,
        event: Option<usize>,
    },
    RenewMemory {
        memory: usize,
        value: u32,
    },
    HostRead {
        memory: usize,
    },
    HostWrite {
        memory: usize,
        value: u32,
    },
    Hold {
        stream: usize,
    },
    Launch {
        stream: usize,
        executable: usize,
    },
    DropExecutable {
        executable: usize,
    },
    /// An executable graph of nodes that wait for an event and record another one.
    EventNodes {
        events: [usize; 2],
    },
    /// Another event for the node that records.
    SetEvent {
        executable: usize,
        event: usize,
    },
    RenewStream {
        stream: usize,
    },
}

fn event() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0), 1 => 1..EVENTS]
}

fn work() -> impl Strategy<Value = edited::Work> {
    let work = (0..MEMORIES, prop::option::of(0..MEMORIES), any::<u32>());
    work.prop_map(|(to, from, value)| edited::Work { to, from, value })
}

/// What captures have for the most part.
fn captured() -> impl Strategy<Value = Step> {
    use Step::*;
    let n = || 0..STREAMS;
    let external = || prop::bool::weighted(0.15);
    prop_oneof![
        8 => (n(), event(), external()).prop_map(|(stream, event, external)| Record { stream, event, external }),
        8 => (n(), event(), external()).prop_map(|(stream, event, external)| Wait { stream, event, external }),
        3 => (event(), prop::option::weighted(0.8, event())).prop_map(|(event, of)| Renew { event, of }),
        12 => (n(), work()).prop_map(|(stream, work)| Work { stream, work }),
    ]
}

fn events() -> impl Strategy<Value = [Option<usize>; STREAMS]> {
    [(); STREAMS].map(|()| prop::option::weighted(0.3, event()))
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let n = || 0..STREAMS;
    let memory = || 0..MEMORIES;
    prop_oneof![
        30 => captured(),
        3 => n().prop_map(|stream| Begin { stream }),
        3 => (0..2usize, events()).prop_map(|(capture, events)| End { capture, events }),
        1 => (n(), n()).prop_map(|(stream, other)| WaitStream { stream, other }),
        2 => (event(), any::<Option<bool>>()).prop_map(|(event, wait)| Meet { event, wait }),
        2 => (n(), work(), prop::option::of(event())).prop_map(|(stream, work, event)| If { stream, work, event }),
        4 => (memory(), any::<u32>()).prop_map(|(memory, value)| RenewMemory { memory, value }),
        1 => memory().prop_map(|memory| HostRead { memory }),
        1 => (memory(), any::<u32>()).prop_map(|(memory, value)| HostWrite { memory, value }),
        2 => n().prop_map(|stream| Hold { stream }),
        5 => (n(), 0..2usize).prop_map(|(stream, executable)| Launch { stream, executable }),
        1 => (0..2usize).prop_map(|executable| DropExecutable { executable }),
        1 => [event(), event()].prop_map(|events| EventNodes { events }),
        1 => (0..2usize, event()).prop_map(|(executable, event)| SetEvent { executable, event }),
        1 => n().prop_map(|stream| RenewStream { stream }),
    ]
}

/// A capture with work in several streams, what becomes of its memory, and a launch.
fn story() -> impl Strategy<Value = Vec<Step>> {
    let inside = prop::collection::vec(prop_oneof![1 => step(), 3 => captured()], 2..14);
    let between = prop::collection::vec(step(), 0..3);
    let launch = (0..STREAMS).prop_map(|stream| Step::Launch { stream, executable: 0 });
    (0..STREAMS, inside, events(), between, launch).prop_map(|(stream, inside, events, between, launch)| {
        let mut steps = vec![Step::Begin { stream }];
        steps.extend(inside);
        steps.push(Step::End { capture: 0, events });
        steps.extend(between);
        steps.push(launch);
        steps
    })
}

pub(crate) fn forked() -> impl Strategy<Value = Forked> {
    let steps = prop_oneof![3 => step().prop_map(|step| vec![step]), 1 => story()];
    let steps = prop::collection::vec(steps, 1..16).prop_map(|steps| steps.into_iter().flatten().collect());
    (0..4usize, steps, prop::bool::weighted(0.8)).prop_map(|(stream, steps, ends)| Forked { stream, steps, ends })
}

enum Memory {
    Device(Buffer<u32>),
    Pinned(PinnedBuffer<u32>),
}

struct Slot {
    memory: Memory,
    number: Number,
}

/// A capture that has begun.
struct Capture {
    id: u64,
    origin: usize,
    effects: Vec<Effect>,
}

struct Executable {
    graph: ExecutableGraph,
    effects: Vec<Effect>,
    /// A node that records an event.
    record: Option<Node>,
}

struct Fork {
    context: Context,
    streams: Vec<Stream>,
    /// One that is in no capture.
    aside: Stream,
    events: Vec<Event>,
    memories: Vec<Slot>,
    contents: Vec<Words>,
    captures: Vec<Capture>,
    executables: Vec<Executable>,
    /// Not zero.
    condition: PinnedBuffer<u32>,
    /// What streams wait for.
    gates: Vec<Signal>,
}

/// Queues a fill or a copy. `None`: there is none such.
fn queue(stream: &Stream, memories: &mut [Slot], work: edited::Work) -> Result<Option<Effect>> {
    let Some(from) = work.from else {
        match &mut memories[work.to].memory {
            Memory::Device(buffer) => stream.fill(buffer, work.value)?,
            Memory::Pinned(buffer) => stream.fill(buffer, work.value)?,
        }
        return Ok(Some(Effect::Fill { to: memories[work.to].number, value: work.value }));
    };
    let two: std::result::Result<_, GetDisjointMutError> = memories.get_disjoint_mut([work.to, from]);
    let Ok([to, from]) = two else { return Ok(None) };
    match (&mut to.memory, &from.memory) {
        (Memory::Device(to), Memory::Device(from)) => stream.copy(to, from)?,
        (Memory::Device(to), Memory::Pinned(from)) => stream.copy(to, from)?,
        (Memory::Pinned(to), Memory::Device(from)) => stream.copy(to, from)?,
        // The host waits for it.
        (Memory::Pinned(_), Memory::Pinned(_)) => return Ok(None),
    }
    Ok(Some(Effect::Copy { to: to.number, from: from.number }))
}

impl Fork {
    fn new(context: &Context) -> Self {
        let new_stream = || context.create_stream().unwrap();
        let mut condition = context.allocate_pinned(1).unwrap();
        condition.write(|words| words.fill(1)).unwrap();
        let mut fork = Self {
            context: context.clone(),
            streams: (0..STREAMS).map(|_| new_stream()).collect(),
            aside: new_stream(),
            events: (0..EVENTS).map(|_| new_event(context)).collect(),
            memories: Vec::new(),
            contents: Vec::new(),
            captures: Vec::new(),
            executables: Vec::new(),
            condition,
            gates: Vec::new(),
        };
        for number in 0..MEMORIES {
            let memory = fork.new_memory(number, 0);
            fork.memories.push(memory);
        }
        fork
    }

    fn new_memory(&mut self, place: usize, value: u32) -> Slot {
        let memory = if place < MEMORIES - PINNED {
            Memory::Device(self.aside.upload(&[value; LENGTH]).unwrap())
        } else {
            let mut buffer = self.context.allocate_pinned(LENGTH).unwrap();
            buffer.write(|words| words.fill(value)).unwrap();
            Memory::Pinned(buffer)
        };
        self.contents.push([value; LENGTH]);
        Slot { memory, number: self.contents.len() - 1 }
    }

    fn let_go(&mut self) {
        self.gates.drain(..).for_each(|signal| signal.set(1));
    }

    fn apply(&mut self, effects: &[Effect]) {
        for effect in effects {
            match *effect {
                Effect::Copy { to, from } => self.contents[to] = self.contents[from],
                Effect::Fill { to, value } => self.contents[to].fill(value),
                Effect::Combine { .. } => unreachable!("nothing here combines"),
            }
        }
    }

    /// What was queued in a stream happens in its capture, or now.
    fn note_effects(&mut self, stream: usize, effects: &[Effect]) {
        let info = self.streams[stream].capture_info().unwrap();
        match info.status {
            CaptureStatus::None => self.apply(effects),
            CaptureStatus::Active => {
                let capture = self.captures.iter_mut().find(|capture| capture.id == info.id);
                capture.unwrap().effects.extend_from_slice(effects);
            }
            // Nothing will come of it.
            CaptureStatus::Invalidated => (),
        }
    }

    /// Notes what was done, or was refused.
    #[track_caller]
    fn done<T>(result: Result<T>, done: &'static str, refused: &'static str) -> Option<T> {
        match result {
            Ok(value) => {
                note(done);
                Some(value)
            }
            Err(error) => {
                assert!(!error.is_sticky(), "{error}");
                note(refused);
                None
            }
        }
    }

    fn end(&mut self, capture: usize, events: &[Option<usize>; STREAMS]) {
        let Capture { id, origin, effects } = self.captures.remove(capture);
        for (number, event) in events.iter().enumerate() {
            let (stream, origin) = (&self.streams[number], &self.streams[origin]);
            if stream.id() == origin.id() || stream.capture_info().unwrap().id != id {
                continue;
            }
            let joined = match event {
                Some(event) => {
                    let record = stream.record(&self.events[*event]).map(drop);
                    record.and_then(|()| origin.wait_event(&self.events[(event + 1) % EVENTS]))
                }
                None => Ok(()),
            };
            // The event that is awaited need not be the one that was recorded.
            let joined = joined.and_then(|()| origin.wait_stream(stream));
            Self::done(joined, "forks joined", "forks not joined");
        }
        let ended = self.streams[origin].end_capture().and_then(|graph| graph.instantiate());
        if let Some(graph) = Self::done(ended, "forked captures", "forked captures refused") {
            self.executables.push(Executable { graph, effects, record: None });
        }
    }

    fn read(&mut self) {
        self.let_go();
        for slot in &self.memories {
            let found = match &slot.memory {
                Memory::Device(buffer) => self.aside.download(buffer).unwrap(),
                Memory::Pinned(buffer) => buffer.read(<[u32]>::to_vec).unwrap(),
            };
            assert_eq!(found, self.contents[slot.number], "in memory of forked captures");
        }
    }

    #[allow(clippy::too_many_lines, reason = "it is a list")]
    fn step(&mut self, step: Step) {
        match step {
            Step::Begin { stream } => {
                // One that captures already is refused.
                if self.streams[stream].begin_capture(CaptureMode::ThreadLocal).is_ok() {
                    let id = self.streams[stream].capture_info().unwrap().id;
                    self.captures.push(Capture { id, origin: stream, effects: Vec::new() });
                }
            }
            Step::End { capture, events } => {
                if let Some(capture) = capture.checked_rem(self.captures.len()) {
                    self.end(capture, &events);
                }
            }
            Step::Record { stream, event, external } => {
                let (stream, event) = (&self.streams[stream], &self.events[event]);
                let recorded = if external { stream.record_external(event) } else { stream.record(event) };
                Self::done(recorded, "records beside captures", "records beside captures refused");
            }
            Step::Wait { stream, event, external } => {
                let (stream, event) = (&self.streams[stream], &self.events[event]);
                let waits = if external { stream.wait_event_external(event) } else { stream.wait_event(event) };
                Self::done(waits, "waits beside captures", "waits beside captures refused");
            }
            Step::WaitStream { stream, other } => {
                let waits = self.streams[stream].wait_stream(&self.streams[other]);
                Self::done(waits, "waits for streams beside captures", "waits for streams beside captures refused");
            }
            Step::Renew { event, of } => {
                let new = of.map(|of| another_object(&self.context, &self.events[of]));
                self.events[event] = new.unwrap_or_else(|| new_event(&self.context));
            }
            Step::Meet { event, wait } => {
                if wait == Some(false) {
                    self.let_go();
                }
                let event = &self.events[event];
                let met = match wait {
                    None => event.query().map(|_| ()),
                    Some(false) => event.synchronize(),
                    Some(true) => event.completed().now_or_never().unwrap_or(Ok(())),
                };
                Self::done(met, "events met beside captures", "events not met beside captures");
            }
            Step::Work { stream, work } => {
                let queued = queue(&self.streams[stream], &mut self.memories, work);
                if let Some(Some(effect)) = Self::done(queued, "work beside captures", "work beside captures refused") {
                    self.note_effects(stream, &[effect]);
                }
            }
            Step::If { stream, work, event } => {
                let (memories, event) = (&mut self.memories, event.map(|event| &self.events[event]));
                let mut effect = None;
                let (condition, mode) = (&self.condition, CaptureMode::Relaxed);
                let queued = self.streams[stream].capture_scope(mode).and_then(|scope| {
                    scope.capture_if(condition, |part| {
                        event.map(|event| part.record(event)).transpose()?;
                        effect = queue(part.stream(), memories, work)?;
                        event.map(|event| part.wait_event(event)).transpose()?;
                        Ok(())
                    })
                });
                if Self::done(queued, "conditions with events", "conditions with events refused").is_some()
                    && let Some(effect) = effect
                {
                    self.note_effects(stream, &[effect]);
                }
            }
            Step::RenewMemory { memory, value } => {
                // Pinned memory is written by the host.
                self.let_go();
                self.memories[memory] = self.new_memory(memory, value);
            }
            Step::HostRead { memory } => {
                self.let_go();
                let slot = &self.memories[memory];
                if let Memory::Pinned(buffer) = &slot.memory
                    && let Some(found) =
                        Self::done(buffer.read(<[u32]>::to_vec), "reads by the host", "reads by the host refused")
                {
                    assert_eq!(found, self.contents[slot.number], "in pinned memory beside captures");
                }
            }
            Step::HostWrite { memory, value } => {
                self.let_go();
                let slot = &mut self.memories[memory];
                if let Memory::Pinned(buffer) = &mut slot.memory {
                    let written = buffer.write(|words| words.fill(value));
                    if Self::done(written, "writes by the host", "writes by the host refused").is_some() {
                        self.contents[slot.number].fill(value);
                    }
                }
            }
            Step::Hold { stream } => {
                if !is_on_cuda() && self.streams[stream].capture_status().unwrap() == CaptureStatus::None {
                    let signal = self.context.create_signal().unwrap();
                    self.streams[stream].wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
                    self.gates.push(signal);
                }
            }
            Step::Launch { stream, executable } => {
                let Some(executable) = executable.checked_rem(self.executables.len()) else { return };
                let Executable { graph, effects, .. } = &self.executables[executable];
                let (launched, effects) = (graph.launch(&self.streams[stream]), effects.clone());
                if Self::done(launched, "launches of forked captures", "launches of forked captures refused").is_some()
                {
                    self.note_effects(stream, &effects);
                }
            }
            Step::DropExecutable { executable } => {
                if let Some(executable) = executable.checked_rem(self.executables.len()) {
                    drop(self.executables.swap_remove(executable));
                }
            }
            Step::EventNodes { events } => {
                let [wait, record] = events.map(|event| &self.events[event]);
                let mut graph = self.context.create_graph().unwrap();
                let wait = graph.add((), NodeWork::event_wait(wait)).unwrap();
                let record = graph.add(wait, NodeWork::event_record(record)).unwrap();
                let graph = graph.instantiate().unwrap();
                self.executables.push(Executable { graph, effects: Vec::new(), record: Some(record) });
            }
            Step::SetEvent { executable, event } => {
                let Some(executable) = executable.checked_rem(self.executables.len()) else { return };
                let Executable { graph, record: Some(record), .. } = &mut self.executables[executable] else { return };
                let set = graph.set_node(*record, NodeWork::event_record(&self.events[event]));
                Self::done(set, "events of nodes changed", "events of nodes not changed");
            }
            Step::RenewStream { stream } => {
                // A capture ends with its origin.
                self.captures.retain(|capture| capture.origin != stream);
                self.streams[stream] = self.context.create_stream().unwrap();
            }
        }
        if self.captures.is_empty() && matches!(step, Step::Launch { .. }) {
            self.read();
        }
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        // After a failure too, so that nothing waits for ever.
        self.let_go();
    }
}

impl World<'_> {
    pub(crate) fn forked(&mut self, forked: &Forked) {
        self.let_go();
        let device = self.stream(forked.stream).device;
        let context = &self.places[device].context;
        // A capture prohibits no calls of the thread: those are programs of their own.
        let _mode = context.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
        let mut fork = Fork::new(context);
        forked.steps.iter().for_each(|step| fork.step(*step));
        if forked.ends {
            while !fork.captures.is_empty() {
                fork.end(0, &[None; STREAMS]);
            }
            fork.read();
        }
    }
}
