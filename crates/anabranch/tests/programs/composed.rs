//! Work that is composed before it is queued.

use crate::generate::fate;
use crate::operation::Fate;
use crate::streams::StreamSlot;
use crate::world::{Given, ON_PURPOSE, World, panic_on_purpose};
use anabranch::{Buffer, Operation, Result, RunTarget, StreamPolicy, StreamPool};
use futures::TryFutureExt;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Fills two buffers, in two streams if there are as many, and copies one to the other.
#[derive(Clone, Debug)]
pub(crate) struct Composed {
    stream: usize,
    buffers: [usize; 2],
    value: u32,
    /// How many streams there are.
    pool: Option<usize>,
    end: End,
    panics: bool,
}

/// What becomes of the operation.
#[derive(Clone, Debug)]
enum End {
    Dropped,
    Queued,
    Run,
    Awaited(Fate),
}

pub(crate) fn composed() -> impl Strategy<Value = Composed> {
    let n = || 0..4usize;
    let end = prop_oneof![
        1 => Just(End::Dropped),
        3 => Just(End::Queued),
        2 => Just(End::Run),
        4 => fate().prop_map(End::Awaited),
    ];
    (n(), [n(), n()], any::<u32>(), prop::option::of(1..4usize), end, prop::bool::weighted(0.2))
        .prop_map(|(stream, buffers, value, pool, end, panics)| Composed { stream, buffers, value, pool, end, panics })
}

type Two = (Buffer<u32>, Buffer<u32>);

impl World<'_> {
    pub(crate) fn composed(&mut self, composed: &Composed) {
        let stream = self.stream(composed.stream);
        let [first, second] = composed.buffers.map(|buffer| self.buffer(&stream, buffer));
        if first == second {
            return;
        }
        let [(first, f), (second, s)] = [first, second].map(|buffer| self.take(&stream, buffer));
        let (value, panics) = (composed.value, composed.panics);
        let filled = |mut buffer: Buffer<u32>, value| {
            Operation::new(move |stream| {
                stream.fill(&mut buffer, value)?;
                Ok(buffer)
            })
        };
        let both = filled(first, value).zip(filled(second, !value));
        let operation: Operation<'static, Two> = both.and_then(move |(first, second)| {
            Operation::value(second).then(move |stream, mut second| {
                if panics {
                    panic_on_purpose();
                }
                stream.copy(&mut second, &first)?;
                Ok((first, second))
            })
        });
        // Buffers that are dropped with the operation are gone. Graphs may still have their memory.
        if !matches!(composed.end, End::Dropped) {
            self.memories[f].fill(value);
            self.memories[s].fill(if panics { !value } else { value });
        }
        match composed.pool {
            None => {
                let target = stream.stream.clone();
                self.end(&stream, operation, &*target, [f, s], composed);
            }
            Some(streams) => {
                let policy = if value % 2 == 0 { StreamPolicy::RoundRobin } else { StreamPolicy::LeastLoaded };
                let pool = StreamPool::new(&self.places[stream.device].context, streams, policy).unwrap();
                self.end(&stream, operation, &pool, [f, s], composed);
            }
        }
    }

    fn end(
        &mut self,
        stream: &StreamSlot,
        operation: Operation<'static, Two>,
        target: &impl RunTarget,
        [f, s]: [usize; 2],
        composed: &Composed,
    ) {
        let given = move |(first, second)| vec![Given::Buffer(f, first), Given::Buffer(s, second)];
        let now = match &composed.end {
            End::Dropped => return drop(operation),
            End::Queued => catch_unwind(AssertUnwindSafe(|| operation.queue(target))),
            End::Run => {
                self.let_go();
                catch_unwind(AssertUnwindSafe(|| operation.run(target)))
            }
            End::Awaited(fate) => {
                let future = catch_unwind(AssertUnwindSafe(|| operation.run_async(target)));
                assert_eq!(future.is_err(), composed.panics);
                if let Ok(future) = future {
                    self.meet(stream.clone(), future.map_ok(given), *fate);
                }
                return;
            }
        };
        let result: Result<Two> = match now {
            Ok(result) => result,
            Err(payload) => {
                assert!(composed.panics && payload.downcast_ref::<&'static str>() == Some(&ON_PURPOSE));
                return;
            }
        };
        assert!(!composed.panics);
        // A panic of earlier work of the stream takes the place of the buffers.
        for given in stream.unless_panicked(result).map(given).into_iter().flatten() {
            self.keep(stream, given);
        }
    }
}
