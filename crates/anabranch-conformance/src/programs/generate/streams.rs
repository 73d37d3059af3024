//! Programs about streams, events and host functions.

use super::super::call::{EventCall, ModuleCall, StreamCall};
use super::super::slots::{Flags, StreamSlot, WordSlot};
use super::work::SHARED_WORDS;
use super::{Generator, devices};

pub(super) fn fill(generator: &mut Generator) {
    generator.set_up(4, 4);
    let length = 60 + generator.numbers.below(40);
    generator.until(length, |generator| {
        if generator.has_two_devices && generator.numbers.chance(1, 3) {
            devices::stream_step(generator);
        } else {
            step(generator);
        }
    });
}

fn step(generator: &mut Generator) {
    let stream = generator.stream();
    match generator.numbers.below(40) {
        0..=9 => generator.work(stream),
        10..=12 => own_word(generator, stream),
        13 => generator.odd_work(stream),
        14..=18 => record(generator, stream),
        19..=23 => wait(generator, stream),
        24..=26 => generator.ask_event(),
        27..=30 => generator.ask_stream(stream),
        31 | 32 => generator.push(StreamCall::Synchronize { stream }),
        33 => generator.ask_context(),
        34 => generator.read_contents(),
        35 => create_stream(generator),
        36 => {
            let (context, flags) = (generator.context(), generator.numbers.one_of([0, 1, 2, 3, 2, 0, 8, 5, 9, 8]));
            generator.create_event(context, flags);
        }
        37 => destroy(generator),
        38 => {
            let number = generator.numbers.below(1000) as u32;
            generator.push(StreamCall::HostFunction { stream, number, repeatable: false });
        }
        _ => {
            let number = generator.numbers.below(1000) as u32;
            generator.push(StreamCall::Callback { stream, number });
        }
    }
}

/// Changes a number that only this stream changes, so that the result shows the order of the work.
pub(super) fn own_word(generator: &mut Generator, stream: StreamSlot) {
    // The three names of default streams are up to four streams: the one of each thread is another.
    if stream.0 < 6 || stream.0 as usize >= 32 {
        return generator.launch(stream);
    }
    let word = WordSlot((SHARED_WORDS + usize::from(stream.0)) as u16);
    let (factor, value) = (generator.numbers.one_of([1, 3, 10]), generator.numbers.below(9) as u32);
    generator.push(ModuleCall::LaunchAdd { stream, word, factor, value });
}

fn record(generator: &mut Generator, stream: StreamSlot) {
    let event = generator.event_for(stream);
    let event = if generator.numbers.chance(1, 32) { None } else { Some(event) };
    let flags = Flags(generator.numbers.one_of([0, 0, 0, 0, 0, 0, 0, 1, 2, 3]));
    generator.push(EventCall::Record { event, stream, flags });
}

fn wait(generator: &mut Generator, stream: StreamSlot) {
    let event = if generator.numbers.chance(1, 32) { None } else { Some(generator.event()) };
    let flags = Flags(generator.numbers.one_of([0, 0, 0, 0, 0, 0, 0, 1, 2, 3]));
    generator.push(StreamCall::WaitEvent { stream, event, flags });
}

fn create_stream(generator: &mut Generator) {
    let (context, flags) = (generator.context(), generator.numbers.one_of([0, 1, 0, 1, 2, 3, 0x10]));
    let priority = generator.numbers.one_of([0, -1, -5, -6, 3, i32::MIN, i32::MAX]);
    generator.create_stream(context, flags, priority);
}

fn destroy(generator: &mut Generator) {
    if generator.numbers.chance(1, 2) && generator.model.streams.len() > 2 {
        let (stream, _) = generator.model.streams.swap_remove(generator.numbers.below(generator.model.streams.len()));
        generator.push(StreamCall::Destroy { stream });
    } else if generator.model.events.len() > 2 {
        let event = generator.model.events.swap_remove(generator.numbers.below(generator.model.events.len()));
        generator.push(EventCall::Destroy { event: event.slot });
    }
}
