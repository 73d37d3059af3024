//! Programs about work that is held up by values in memory. Their queries have certain answers.

use super::super::call::{EventCall, HarnessCall, StreamCall, WaitSpec};
use super::super::slots::{EventSlot, Flags, GateSlot, Patience, StreamSlot};
use super::Generator;
use super::streams::own_word;
use std::collections::{BTreeMap, BTreeSet};

/// The gates that hold something up.
type Gates = BTreeSet<u16>;

/// What is held up by which gates.
#[derive(Default)]
struct Held {
    streams: BTreeMap<StreamSlot, Gates>,
    events: BTreeMap<EventSlot, Gates>,
    open: Gates,
    made: u16,
    /// What holds up each write by a stream that opens a gate.
    writes: Vec<(u16, Gates)>,
}

pub(super) fn fill(generator: &mut Generator) {
    // Non-blocking streams: the default stream would hold up others.
    for number in 0..4 {
        generator.create_stream(generator.context_in_turn(number, 4), 1, 0);
    }
    for number in 0..4 {
        let flags = generator.numbers.one_of([0, 2]);
        generator.create_event(generator.context_in_turn(number, 4), flags);
    }
    let (mut held, length) = (Held::default(), 60 + generator.numbers.below(40));
    generator.until(length, |generator| {
        if generator.has_two_devices && generator.numbers.chance(1, 6) {
            write_gate(generator, &mut held);
        } else {
            step(generator, &mut held);
        }
        held.settle();
    });
}

impl Held {
    /// Opens the gates that streams open by now.
    fn settle(&mut self) {
        while let Some(write) = self.writes.iter().position(|(_, gates)| gates.is_subset(&self.open)) {
            let (gate, _) = self.writes.swap_remove(write);
            self.open.insert(gate);
        }
    }

    fn closed(&self) -> Vec<u16> {
        (0..self.made).filter(|gate| !self.open.contains(gate)).collect()
    }

    fn by(&self, gates: Option<&Gates>) -> Patience {
        match gates.is_some_and(|gates| gates.difference(&self.open).next().is_some()) {
            true => Patience::Held,
            false => Patience::Completes,
        }
    }
}

/// A gate that is opened by a stream, which may be one of the other device.
fn write_gate(generator: &mut Generator, held: &mut Held) {
    let (stream, closed) = (generator.created_stream(), held.closed());
    if let Some(gate) = generator.numbers.pick(&closed) {
        generator.push(StreamCall::WriteGate { stream, gate: GateSlot(gate) });
        held.writes.push((gate, held.streams.get(&stream).cloned().unwrap_or_default()));
    }
}

fn step(generator: &mut Generator, held: &mut Held) {
    let (stream, event) = (generator.created_stream(), generator.event());
    match generator.numbers.below(24) {
        0..=4 => generator.work(stream),
        5 | 6 => own_word(generator, stream),
        7 | 8 => {
            let gate = if held.made > 0 && generator.numbers.chance(1, 4) {
                generator.numbers.below(held.made.into()) as u16
            } else {
                held.made += 1;
                held.made - 1
            };
            generator.push(StreamCall::WaitValue { stream, what: WaitSpec::Gate(GateSlot(gate)) });
            held.streams.entry(stream).or_default().insert(gate);
        }
        9 | 10 => {
            let closed = held.closed();
            if let Some(gate) = generator.numbers.pick(&closed) {
                generator.push(HarnessCall::OpenGate { gate: GateSlot(gate) });
                held.open.insert(gate);
            }
        }
        11..=13 => {
            let event = generator.event_for(stream);
            let fits = generator
                .model
                .events
                .iter()
                .any(|known| known.slot == event && known.context == generator.context_of(stream));
            generator.push(EventCall::Record { event: Some(event), stream, flags: Flags(0) });
            if fits {
                held.events.insert(event, held.streams.get(&stream).cloned().unwrap_or_default());
            }
        }
        14 | 15 => {
            generator.push(StreamCall::WaitEvent { stream, event: Some(event), flags: Flags(0) });
            let gates = held.events.get(&event).cloned().unwrap_or_default();
            held.streams.entry(stream).or_default().extend(gates);
        }
        16..=18 => {
            let patience = held.by(held.streams.get(&stream));
            generator.push(StreamCall::Query { stream, patience });
        }
        19..=21 => {
            let patience = held.by(held.events.get(&event));
            generator.push(EventCall::Query { event: Some(event), patience });
        }
        22 => generator.ask_stream(stream),
        _ if generator.numbers.chance(1, 4) => {
            generator.read_contents();
            held.open.extend(0..held.made);
        }
        _ => {
            let number = generator.numbers.below(1000) as u32;
            generator.push(StreamCall::Callback { stream, number });
        }
    }
}
