//! Random work in several streams, compared with the same work run one after the other.

use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{Buffer, Event, EventFlags, LaunchConfig, Result, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("order_random.events_order_forks_and_joins", "E2", events_order_forks_and_joins),
    Case::new("order_random.buffers_order_themselves", "S1", buffers_order_themselves),
    Case::new("order_random.legacy_among_blocking_streams", "D1", legacy_among_blocking_streams),
];

const OPERATIONS: u32 = 200;

/// Pseudo-random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> usize {
        // The constants are Knuth's. The upper bits have better statistical properties.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit) as usize
    }
}

fn streams(environment: &Environment) -> Result<[Stream; 4]> {
    Ok([environment.stream()?, environment.stream()?, environment.stream()?, environment.stream()?])
}

/// Random streams use each number. Only events order each use after the previous one.
fn events_order_forks_and_joins(environment: &Environment) -> Verdict {
    let mut numbers = Numbers(20_240_229);
    let traces = [Trace::new(environment)?, Trace::new(environment)?];
    let streams = streams(environment)?;
    let new_event = || environment.context().create_event_with_flags(EventFlags::DISABLE_TIMING);
    let events: [Event; 2] = [new_event()?, new_event()?];
    let mut expected = [0u32; 2];
    let gate = Gate::shut(environment, &streams[0])?;
    for value in 0..OPERATIONS {
        let (stream, number) = (&streams[numbers.below(4)], numbers.below(2));
        stream.wait_event(&events[number])?;
        traces[number].multiply_add(stream, 29, value)?;
        stream.record(&events[number])?;
        expected[number] = expected[number].wrapping_mul(29).wrapping_add(value);
        if numbers.below(10) == 0 {
            // A join: both numbers, one after the other, in another stream.
            let join = &streams[numbers.below(4)];
            events.iter().try_for_each(|event| join.wait_event(event))?;
            events.iter().try_for_each(|event| join.record(event).map(drop))?;
        }
    }
    gate.open();
    events.iter().try_for_each(Event::synchronize)?;
    equal("the results", [traces[0].read()?, traces[1].read()?], expected)?;
    streams.iter().try_for_each(Stream::synchronize)?;
    Ok(())
}

/// Kernels, copies and fills of random buffers in random streams. The library orders them.
fn buffers_order_themselves(environment: &Environment) -> Verdict {
    let mut numbers = Numbers(19_690_720);
    let (streams, add) = (streams(environment)?, environment.kernel("add")?);
    let mut buffers: Vec<Buffer<u32>> =
        streams.iter().map(|stream| stream.allocate_zeroed(1)).collect::<Result<_>>()?;
    let mut expected = [0u32; 4];
    let gate = Gate::shut(environment, &streams[1])?;
    for value in 0..OPERATIONS {
        let (stream, target) = (&streams[numbers.below(4)], numbers.below(4));
        match numbers.below(4) {
            0 => {
                let source = (target + 1 + numbers.below(3)) % 4;
                if let Ok([target, source]) = buffers.get_disjoint_mut([target, source]) {
                    stream.copy(target, &*source)?;
                }
                expected[target] = expected[source];
            }
            1 if value % 8 == 0 => {
                stream.fill(&mut buffers[target], value)?;
                expected[target] = value;
            }
            _ => {
                let arguments = (&mut buffers[target], 31u32, value);
                // SAFETY: `add` accesses only the number that its first argument points to.
                unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), arguments)? };
                expected[target] = expected[target].wrapping_mul(31).wrapping_add(value);
            }
        }
    }
    gate.open();
    for (buffer, expected) in buffers.iter().zip(expected) {
        equal("a buffer", streams[3].download(buffer)?, vec![expected])?;
    }
    Ok(())
}

/// Every second operation is in the legacy stream, so all of them are ordered without events.
fn legacy_among_blocking_streams(environment: &Environment) -> Verdict {
    let mut numbers = Numbers(19_370_417);
    let trace = Trace::new(environment)?;
    let legacy = environment.context().legacy_stream()?;
    let blocking = [environment.blocking_stream()?, environment.blocking_stream()?, environment.blocking_stream()?];
    let mut expected = 0u32;
    let gate = Gate::shut(environment, &blocking[0])?;
    for value in 0..OPERATIONS {
        let stream = if value % 2 == 0 { &legacy } else { &blocking[numbers.below(3)] };
        trace.multiply_add(stream, 37, value)?;
        expected = expected.wrapping_mul(37).wrapping_add(value);
    }
    gate.open();
    legacy.synchronize()?;
    equal("the result", trace.read()?, expected)
}
